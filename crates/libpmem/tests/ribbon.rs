//! Programs whose flushes other threads make, if `SEAWALL_RIBBON` says so: where each line was
//! flushed is what the library says at the end.

use crate::support::Program;
use seawall_clib::{Whose, told};
use std::os::unix::process::ExitStatusExt;

/// Lines by flushers, at drains, and at once.
#[derive(Debug, PartialEq, Eq)]
struct Flushed([u64; 3]);

impl Flushed {
    fn all(&self) -> u64 {
        self.0.iter().sum()
    }
}

/// What the library says about a case under that mode.
fn flushed(program: &Program, case: &[&str], mode: &str) -> Flushed {
    let set = [("SEAWALL_RIBBON", mode), ("SEAWALL_RIBBON_COUNTS", "1")];
    let output = program.command(Whose::Ours).args(case).envs(set).output().unwrap();
    assert!(output.status.success(), "{case:?} {mode}: {}", told(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "done\n", "{case:?} {mode}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let counts = said.split_once(&format!("ribbon {mode}, ")).expect(&said).1;
    let counts = counts.split_once(": ").expect(&said).1;
    let mut numbers = counts.split(", ").map(|part| part.split(' ').next().unwrap().parse());
    Flushed(std::array::from_fn(|_| numbers.next().expect(&said).expect(&said)))
}

#[test]
fn flushers_flush_what_was_left_to_them_and_each_line_once() {
    let test = "flushers_flush_what_was_left_to_them_and_each_line_once";
    let Some(program) = Program::compile(test, "ribbon") else { return };
    program.run_both(&["plain"], &[("SEAWALL_RIBBON", "always")]);
    // The fill goes past the caches up to an edge; that and the copy are of a few lines.
    let lines = 4 * 1024..=4 * 1024 + 8;
    let always = flushed(&program, &["plain"], "always");
    assert!(lines.contains(&always.all()), "{always:?}");
    let Flushed([by_flushers, _, at_once]) = always;
    assert!(by_flushers >= 1024 && at_once == 0, "{always:?}");
    let never = flushed(&program, &["plain"], "never");
    assert_eq!(never, Flushed([0, 0, never.all()]));
    assert!(lines.contains(&never.all()), "{never:?}");
    let auto = flushed(&program, &["plain"], "auto");
    assert!(lines.contains(&auto.all()), "{auto:?}");
}

#[test]
fn without_the_variable_nothing_is_said_and_no_thread_is_started() {
    let test = "without_the_variable_nothing_is_said_and_no_thread_is_started";
    let Some(program) = Program::compile(test, "ribbon") else { return };
    let set = [("SEAWALL_RIBBON_COUNTS", "1")];
    let output = program.command(Whose::Ours).arg("plain").envs(set).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", told(&output));
}

#[test]
fn lines_outside_of_mapped_files_are_flushed_at_once_and_may_go() {
    let test = "lines_outside_of_mapped_files_are_flushed_at_once_and_may_go";
    let Some(program) = Program::compile(test, "ribbon") else { return };
    assert_eq!(flushed(&program, &["others"], "always").all(), 5);
}

#[test]
fn what_was_never_drained_is_flushed_when_the_process_ends() {
    let test = "what_was_never_drained_is_flushed_when_the_process_ends";
    let Some(program) = Program::compile(test, "ribbon") else { return };
    assert_eq!(flushed(&program, &["left"], "always").all(), 5);
}

#[test]
fn lines_are_flushed_before_their_mapping_goes_and_not_touched_after_that() {
    let test = "lines_are_flushed_before_their_mapping_goes_and_not_touched_after_that";
    let Some(program) = Program::compile(test, "ribbon") else { return };
    program.run_both(&["unmap"], &[("SEAWALL_RIBBON", "always")]);
    assert_eq!(flushed(&program, &["unmap"], "always").all(), 200 * 65);
}

/// What `pmem_unmap` saves from, and the reason why a program must not unmap by itself.
#[test]
fn a_mapping_that_goes_past_the_library_is_missed_and_the_test_sees_it() {
    let test = "a_mapping_that_goes_past_the_library_is_missed_and_the_test_sees_it";
    let Some(program) = Program::compile(test, "ribbon") else { return };
    let run = |mode| {
        let mut command = program.command(Whose::Ours);
        command.arg("munmap").env("SEAWALL_RIBBON", mode).output().unwrap()
    };
    let always = run("always");
    assert_eq!(always.status.signal(), Some(libc::SIGSEGV), "{}", told(&always));
    assert!(run("never").status.success());
}

#[test]
fn threads_with_a_part_and_without_flush_all_of_theirs() {
    let test = "threads_with_a_part_and_without_flush_all_of_theirs";
    let Some(program) = Program::compile(test, "ribbon") else { return };
    let each = 50 * (100 + 16 + 3);
    for mode in ["always", "auto"] {
        assert_eq!(flushed(&program, &["threads", "7"], mode).all(), 7 * each, "{mode}");
    }
    // More than have parts at a time: the others flush at once, uncounted.
    let many = flushed(&program, &["threads", "64"], "always").all();
    assert!(many > 0 && many <= 64 * each, "{many}");
}

#[test]
fn a_child_flushes_at_once_and_its_parent_goes_on() {
    let test = "a_child_flushes_at_once_and_its_parent_goes_on";
    let Some(program) = Program::compile(test, "ribbon") else { return };
    let output = program.command(Whose::Ours).arg("forks").output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    for mode in ["always", "auto"] {
        assert!(flushed(&program, &["forks"], mode).all() >= 100 * 37, "{mode}");
    }
}

#[test]
fn a_signal_handler_may_flush_whatever_it_interrupts() {
    let test = "a_signal_handler_may_flush_whatever_it_interrupts";
    let Some(program) = Program::compile(test, "ribbon") else { return };
    assert!(flushed(&program, &["signals"], "always").all() > 0);
}

#[test]
fn a_program_may_load_the_library_and_close_it() {
    let test = "a_program_may_load_the_library_and_close_it";
    let needed = ["-Wl,--as-needed"];
    let Some(program) = Program::compile_with(test, "loaded", &needed) else { return };
    program.run(Whose::System, &[], &[]);
    assert_eq!(flushed(&program, &[], "always").all(), 100);
}

#[test]
fn a_mode_that_cannot_be_is_said_and_refused() {
    let test = "a_mode_that_cannot_be_is_said_and_refused";
    let Some(program) = Program::compile(test, "ribbon") else { return };
    for (name, value) in [("SEAWALL_RIBBON", "often"), ("SEAWALL_RIBBON_FLUSHERS", "0")] {
        let mut command = program.command(Whose::Ours);
        command.env("SEAWALL_RIBBON", "auto").env(name, value).arg("plain");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("{name}={value}")), "{said}");
        assert!(said.contains("valid: auto") || said.contains("give 1 to 1024"), "{said}");
    }
}
