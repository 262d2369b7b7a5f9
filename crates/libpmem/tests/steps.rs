//! The instructions that a call executes, found by stepping through it: which lines it flushes or
//! stores past the caches, and whether it fences.

use crate::support::Program;
use seawall_clib::Whose;

/// The plain instructions, also of Debian's library.
const PLAIN: [(&str, &str); 2] = [("PMEM_AVX", "0"), ("PMEM_AVX512F", "0")];

#[test]
fn every_line_is_flushed_and_fenced_as_by_debians() {
    let test = "every_line_is_flushed_and_fenced_as_by_debians";
    let Some(program) = Program::compile(test, "steps") else { return };
    let text = program.run_both(&[], &PLAIN);
    if text.starts_with("skipped") {
        println!("{test}: {text}");
        return;
    }
    assert!(text.lines().count() > 100, "{text}");
    let persists = text.lines().filter(|line| line.starts_with("pmem_persist of"));
    for line in persists.filter(|line| !line.contains(" of 0 ")) {
        assert!(line.ends_with("flushed all and only, fenced"), "{line}");
    }
}

#[test]
fn a_library_that_flushes_nothing_is_found_out() {
    let test = "a_library_that_flushes_nothing_is_found_out";
    let Some(program) = Program::compile(test, "steps") else { return };
    let set = [PLAIN[0], PLAIN[1], ("PMEM_NO_FLUSH", "1")];
    // Debian's stores past the caches here, too; only the flushes are the same.
    let flushes = |whose| {
        let text = program.run(whose, &["few"], &set);
        let lines = text.lines().filter(|line| !line.starts_with("pmem_mem"));
        lines.collect::<Vec<_>>().join("\n")
    };
    let text = flushes(Whose::Ours);
    if text.starts_with("skipped") {
        return;
    }
    assert_eq!(text, flushes(Whose::System));
    assert!(text.contains("pmem_persist of 1 at 0: flushed none, fenced"), "{text}");
    assert!(text.contains("pmem_deep_flush of 1 at 0: flushed all and only"), "{text}");
    let none = program.run(Whose::Ours, &["few"], &[("SEAWALL_FLUSH", "none")]);
    assert!(none.contains("pmem_deep_flush of 1 at 0: flushed none"), "{none}");
    for kind in ["clflush", "clflushopt", "clwb"] {
        let set = [("SEAWALL_FLUSH", kind)];
        let mut command = program.command(Whose::Ours);
        let output = command.arg("few").envs(set).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("this CPU does not have it") {
            continue;
        }
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("pmem_persist of 64 at 1: flushed all and only, fenced"), "{text}");
    }
}
