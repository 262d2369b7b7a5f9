//! `seawall cc`, and the programs that it compiles on simulated machines: from outside, with gcc.
//!
//! The programs are those of `crates/program/tests/programs`; each names the bugs that it plants.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

#[path = "programs/callers.rs"]
mod callers;
#[path = "programs/elsewhere.rs"]
mod elsewhere;
#[path = "shared/embedded.rs"]
mod embedded;
#[path = "programs/ends.rs"]
mod ends;
#[path = "programs/entry.rs"]
mod entry;
#[path = "programs/features.rs"]
mod features;
#[path = "programs/findings.rs"]
mod findings;
#[path = "programs/libraries.rs"]
mod libraries;
#[path = "programs/limits.rs"]
mod limits;
#[path = "programs/numbers.rs"]
mod numbers;
#[path = "programs/output.rs"]
mod output;
#[path = "programs/page.rs"]
mod page;
#[path = "programs/profile.rs"]
mod profile;
#[path = "programs/racy.rs"]
mod racy;
#[path = "programs/ribbon.rs"]
mod ribbon;
#[path = "programs/several.rs"]
mod several;
#[path = "programs/sleeping.rs"]
mod sleeping;
#[path = "programs/stale.rs"]
mod stale;
#[path = "programs/stores.rs"]
mod stores;
#[path = "programs/synced.rs"]
mod synced;
#[path = "programs/trace.rs"]
mod trace;
#[path = "programs/twins.rs"]
mod twins;
#[path = "programs/unreached.rs"]
mod unreached;

/// True if gcc is missing, which is said once for each test.
fn without_gcc(test: &str) -> bool {
    let is_there = Command::new("gcc").arg("--version").output().is_ok();
    if !is_there {
        println!("{test}: skipped, because there is no gcc");
    }
    !is_there
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The source of a program.
fn source(name: &str) -> PathBuf {
    let own = root().join("crates/cli/tests/programs").join(name);
    if own.exists() { own } else { root().join("crates/program/tests/programs").join(name) }
}

/// A folder in which programs are compiled and run.
struct Place {
    folder: TempDir,
    /// The folder of a library that the programs need.
    library: Option<PathBuf>,
}

impl Place {
    fn new() -> Place {
        Place { folder: tempfile::tempdir().expect("a folder"), library: None }
    }

    fn seawall(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
        // All tests share the compiled support library.
        command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
        command.current_dir(self.folder.path());
        if let Some(library) = &self.library {
            // Few logs, so that recovery is short.
            command.env("LD_LIBRARY_PATH", library).env("PMEMOBJ_NLANES", "4");
        }
        command
    }

    /// Compiles a program; its name is that of the source.
    fn compile(&self, file: &str) -> &Self {
        self.compile_with(file, &[])
    }

    fn compile_with(&self, file: &str, more: &[&str]) -> &Self {
        let name = Path::new(file).file_stem().and_then(|name| name.to_str()).expect("a name");
        let language = if file.ends_with(".c") { "cc" } else { "c++" };
        let output = self
            .seawall()
            .args([language, "-O2", "-pthread", "-o", name])
            .arg(source(file))
            .args(more)
            .output()
            .expect("seawall runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{file}: {said}");
        self
    }

    fn output(&self, words: &[&str]) -> Output {
        self.seawall().args(words).output().expect("seawall runs")
    }

    /// Runs a command that must end with `code`; returns what it printed, or for 2 its message.
    fn run(&self, code: i32, words: &[&str]) -> String {
        let output = self.output(words);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(code), "seawall {words:?}\n{out}\n{err}");
        assert!(!err.contains("panicked"), "seawall {words:?}\n{err}");
        if code == 2 { err } else { out }
    }

    /// Explores a persistent program, with so many threads and operations.
    fn explore(
        &self,
        code: i32,
        (name, numbers, flaw): (&str, &str, u32),
        more: &[&str],
    ) -> String {
        let program = format!("./{name} run {{pool}} {numbers} {flaw}");
        let check = format!("./{name} check {{pool}} {flaw}");
        // What is sound need not be tried to its end.
        let seconds = if code == 0 { "20" } else { "120" };
        let words = ["explore", "--program", &program, "--check", &check, "--seconds", seconds];
        self.run(code, &[&words[..], more].concat())
    }

    /// Crashes a persistent program under one design.
    fn crash(&self, code: i32, (name, flaw): (&str, u32), design: &str, more: &[&str]) -> String {
        let program = format!("./{name} run {{pool}} 4 60 {flaw}");
        let check = format!("./{name} check {{pool}} {flaw}");
        let mut words = vec!["compare", "--program", &program, "--check", &check];
        words.extend(["--designs", design]);
        words.extend(more);
        self.run(code, &words)
    }
}

#[test]
fn a_program_is_an_ordinary_binary_and_runs_under_designs() {
    if without_gcc("a_program_is_an_ordinary_binary_and_runs_under_designs") {
        return;
    }
    let place = Place::new();
    place.compile("radix.c");
    let native = Command::new(place.folder.path().join("radix")).arg("-p2").output().unwrap();
    assert!(native.status.success());
    let table =
        place.run(0, &["compare", "--program", "./radix -p2 -n2000", "--designs", "clwb,lb"]);
    assert!(table.contains("it returned 0, as natively, under each design"), "{table}");
}

#[test]
fn records_are_the_same_bytes_whatever_the_environment_and_the_folder() {
    if without_gcc("records_are_the_same_bytes_whatever_the_environment_and_the_folder") {
        return;
    }
    let record = |variable: &str| {
        let place = Place::new();
        place.compile("bank.c");
        let words = ["compare", "--program", "./bank -p3 -n300", "--designs", "clwb,bsp-lbpp"];
        let mut command = place.seawall();
        command.args(words).args(["--json", "records"]).env("SOMETHING", variable);
        assert!(command.output().unwrap().status.success());
        fs::read_to_string(place.folder.path().join("records")).unwrap()
    };
    let (one, other) = (record(""), record(&"long ".repeat(400)));
    assert_eq!(one, other);
    assert!(one.contains("\"design\":\"bsp-lbpp\""), "{one}");
}

#[test]
fn planted_bugs_are_found_by_crashes_and_right_programs_survive() {
    if without_gcc("planted_bugs_are_found_by_crashes_and_right_programs_survive") {
        return;
    }
    let place = Place::new();
    for name in ["hash", "undo"] {
        place.compile(&format!("{name}.c"));
        let sound = place.crash(0, (name, 0), "clwb,lbpp", &["--fence", "drain"]);
        assert!(sound.contains("none broke"), "{sound}");
        // A flush is missing: hardware that tracks stores needs none.
        let broken = place.crash(1, (name, 1), "clwb", &["--crashes", "60"]);
        assert!(broken.contains("BROKEN under clwb"), "{broken}");
        place.crash(0, (name, 1), "lbpp", &["--crashes", "60", "--fence", "drain"]);
    }
}

#[test]
fn explorations_find_planted_bugs_and_name_the_lines_of_the_source() {
    if without_gcc("explorations_find_planted_bugs_and_name_the_lines_of_the_source") {
        return;
    }
    let place = Place::new();
    place.compile("hash.c").compile("undo.c");
    let line = line_of("hash.c", "->sum = ");
    let found = place.explore(1, ("hash", "1 8", 1), &["--models", "px86"]);
    let lost = |text: &str| {
        text.contains(&format!(", hash.c:{line} < hash.c:"))
            && text.ends_with("; not flushed by then")
    };
    assert!(found.lines().any(lost), "{found}");
    assert!(found.contains("recovery, up to the failure"), "{found}");
    let repeat = found.lines().find_map(|line| line.split_once("replay: seawall ")).unwrap().1;
    let words = shlex::split(repeat).unwrap();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let again = place.run(1, &words);
    assert!(again.contains(&format!("hash.c:{line}")), "{again}");
    // A fence is missing; recovery forgets a step; power fails in recovery.
    for (name, flaw) in [("hash", 2), ("undo", 6), ("undo", 5)] {
        place.explore(1, (name, "1 8", flaw), &["--models", "px86"]);
    }
    let sound = place.explore(0, ("undo", "1 2", 0), &["--models", "px86"]);
    assert!(!sound.contains("FAIL"), "{sound}");
}

/// The check is another program, whose code is elsewhere, and runs begin with what is there.
#[test]
fn explorations_begin_with_a_pool_that_was_prepared_and_name_the_lines_of_both_programs() {
    let name =
        "explorations_begin_with_a_pool_that_was_prepared_and_name_the_lines_of_both_programs";
    if without_gcc(name) {
        return;
    }
    let place = Place::new();
    place.compile_with("hash.c", &["-O0"]);
    fs::rename(place.folder.path().join("hash"), place.folder.path().join("judge")).unwrap();
    place.compile("hash.c");
    let words =
        ["explore", "--program", "./hash run {pool} 1 6 1", "--check", "./judge check {pool} 1"];
    let words = [&words[..], &["--models", "px86", "--json", "record"]].concat();
    let explore = |more: &[&str]| {
        let found = place.run(1, &[&words[..], more].concat());
        (found, fs::read_to_string(place.folder.path().join("record")).unwrap())
    };
    // Only a run that finds no pool stores this number.
    let magic = "0x3168736168";
    let (found, record) = explore(&["--prepare", "./hash run {pool} 1 2"]);
    assert!(!record.contains(magic), "{record}");
    let (stored, read) = (line_of("hash.c", "->sum = "), line_of("hash.c", "->sum != "));
    assert!(found.contains("; not flushed by then"), "{found}");
    let reads = |text: &str| {
        text.contains(&format!("of hash.c:{stored} < hash.c:"))
            && text.contains(&format!(", hash.c:{read} < hash.c:"))
    };
    assert!(found.lines().any(reads), "{found}");
    let (_, record) = explore(&[]);
    assert!(record.contains(magic), "{record}");
    let error = place.run(2, &[&words[..], &["--prepare", "./hash no"]].concat());
    assert!(error.contains("./hash no returned"), "{error}");
}

#[test]
fn a_recovery_that_reads_the_file_finds_what_a_crash_left_of_its_mapping() {
    if without_gcc("a_recovery_that_reads_the_file_finds_what_a_crash_left_of_its_mapping") {
        return;
    }
    let place = Place::new();
    place.compile("reading.c");
    let sound = place.explore(0, ("reading", "1", 0), &["--models", "px86"]);
    assert!(!sound.contains("reads nothing"), "{sound}");
    let found = place.explore(1, ("reading", "1", 1), &["--models", "px86"]);
    assert!(found.contains(&format!("reading.c:{}", line_of("reading.c", "second */"))), "{found}");
}

#[test]
fn explorations_try_the_interleavings_of_threads() {
    if without_gcc("explorations_try_the_interleavings_of_threads") {
        return;
    }
    let place = Place::new();
    place.compile("alloc.c");
    // Two threads update a word without a lock between: one update is lost.
    place.explore(1, ("alloc", "2 3", 7), &["--models", "px86"]);
    let one = place.explore(0, ("alloc", "1 3", 7), &["--models", "px86"]);
    assert!(!one.contains("FAIL"), "{one}");
}

#[test]
fn a_recovery_that_is_ended_by_a_signal_or_does_not_end_is_a_finding_with_its_place() {
    if without_gcc(
        "a_recovery_that_is_ended_by_a_signal_or_does_not_end_is_a_finding_with_its_place",
    ) {
        return;
    }
    let place = Place::new();
    place.compile("pointer.c");
    let explore = |check: &str| {
        let words = ["explore", "--program", "./pointer run {pool}", "--check", check];
        let limits = ["--models", "px86", "--program-seconds", "1", "--seconds", "200"];
        place.run(1, &[&words[..], &limits].concat())
    };
    let found = explore("./pointer check {pool}");
    let line = line_of("pointer.c", "a null pointer");
    assert!(
        found.contains("touched memory") && found.contains(&format!("pointer.c:{line}")),
        "{found}"
    );
    let found = explore("./pointer wait {pool}");
    assert!(found.contains("it does not end"), "{found}");
    let error = place.run(2, &["explore", "--program", "./pointer run {pool}", "--check", "false"]);
    assert!(error.contains("seawall cc"), "{error}");
}

#[test]
fn explorations_refuse_stores_that_nothing_saw() {
    if without_gcc("explorations_refuse_stores_that_nothing_saw") {
        return;
    }
    let place = Place::new();
    place.compile_with("unseen.c", &["-lm"]);
    let check = "./unseen check {pool}";
    let error = place.run(2, &["explore", "--program", "./unseen run {pool}", "--check", check]);
    assert!(error.contains("did not compile") && error.contains("pool+0x0"), "{error}");
    assert!(error.contains(&format!("unseen.c:{}", line_of("unseen.c", "finds it"))), "{error}");
}

/// The first line of a source that has this text.
fn line_of(file: &str, text: &str) -> usize {
    let source = fs::read_to_string(source(file)).unwrap();
    1 + source.lines().position(|line| line.contains(text)).unwrap()
}

#[test]
fn unannotated_programs_leave_consistent_cuts_in_bulk_mode_and_none_if_it_is_broken() {
    if without_gcc("unannotated_programs_leave_consistent_cuts_in_bulk_mode") {
        return;
    }
    let place = Place::new();
    place.compile("stencil.c");
    let kernels = |code, design: &str| {
        let words = ["kernels", "--program", "./stencil -p4 -n24"];
        let designs = ["--designs", design, "--crashes", "20"];
        place.run(code, &[&words[..], &designs[..]].concat())
    };
    let table = kernels(0, "bsp-lbpp:stores=200");
    assert!(table.contains("20 crashes, held to the recorded run: none broke"), "{table}");
    let broken = kernels(1, "bsp-lbpp:stores=200:flaw='ignores-intra-conflicts'");
    assert!(broken.contains("BROKEN"), "{broken}");
}

#[test]
fn cpp_programs_run_with_what_their_library_has_for_threads() {
    if without_gcc("cpp_programs_run_with_what_their_library_has_for_threads") {
        return;
    }
    let place = Place::new();
    place.compile("list.cpp");
    let sound = place.crash(0, ("list", 0), "clwb", &[]);
    assert!(sound.contains("none broke"), "{sound}");
    place.crash(1, ("list", 1), "clwb", &["--crashes", "60"]);
}

/// The program returns 1 if a call had other arguments than it was given.
#[test]
fn a_stack_has_what_the_program_left_there() {
    if without_gcc("a_stack_has_what_the_program_left_there") {
        return;
    }
    let place = Place::new();
    place.compile("arguments.c");
    place.run(0, &["compare", "--program", "./arguments", "--designs", "volatile"]);
}

/// Two cores that hand a line to each other do not keep a third one from it.
#[test]
fn who_has_a_lock_that_others_try_goes_on() {
    if without_gcc("who_has_a_lock_that_others_try_goes_on") {
        return;
    }
    let place = Place::new();
    place.compile("spinning.c");
    let words = ["compare", "--program", "./spinning", "--designs", "volatile,lbpp"];
    place.run(0, &[&words[..], &["--program-seconds", "60"]].concat());
}

#[test]
fn a_thread_that_waits_for_a_mutex_gets_it_from_those_that_take_it_again_at_once() {
    if without_gcc("a_thread_that_waits_for_a_mutex_gets_it_from_those_that_take_it_again_at_once")
    {
        return;
    }
    let place = Place::new();
    place.compile("starved.c");
    let words = ["compare", "--program", "./starved", "--program-seconds", "60"];
    place.run(0, &[&words[..], &["--designs", "volatile,lb,bsp-naive,bsp-lb,bsp-lbpp"]].concat());
}

#[test]
fn compare_holds_bulk_mode_to_the_recorded_run_if_all_memory_is_persistent() {
    if without_gcc("compare_holds_bulk_mode_to_the_recorded_run_if_all_memory_is_persistent") {
        return;
    }
    let place = Place::new();
    place.compile("stencil.c");
    let words = ["compare", "--program", "./stencil -p4 -n24", "--pm", "all", "--crashes", "20"];
    let crash = |design| [&words[..], &["--designs", design]].concat();
    let table = place.run(0, &crash("bsp-lbpp:stores=200"));
    assert!(table.contains("20 crashes, held to the recorded run: none broke"), "{table}");
    let table = place.run(1, &crash("bsp-lbpp:stores=200:flaw='ignores-intra-conflicts'"));
    assert!(table.contains("BROKEN"), "{table}");
}

/// All stores to the heap are seen, and what only a stack has is no store that was not.
#[test]
fn containers_and_arrays_change_by_stores_that_are_seen() {
    if without_gcc("containers_and_arrays_change_by_stores_that_are_seen") {
        return;
    }
    let place = Place::new();
    place.compile("containers.cpp");
    for persistent in ["heap", "all"] {
        let words = ["compare", "--program", "./containers", "--designs", "clwb", "--pm"];
        let table = place.run(0, &[&words[..], &[persistent]].concat());
        assert!(table.contains("it returned 0, as natively"), "{table}");
        assert!(!table.contains("without a store that was seen"), "{persistent}: {table}");
    }
}

#[test]
fn what_a_program_does_wrong_is_named_with_its_place() {
    if without_gcc("what_a_program_does_wrong_is_named_with_its_place") {
        return;
    }
    let place = Place::new();
    place.compile("deadly.c");
    for (name, expected) in [
        ("deadlock", "is deadlocked"),
        ("deadlock", "thread 1 at takes_it_too (deadly.c:"),
        ("deadlock", ") sleeps until another core wakes it"),
        ("null", "touched memory that it does not have (a null pointer), at reads (deadly.c:"),
        ("wild", "touched memory that it does not have (SIGSEGV), at reads (deadly.c:"),
        ("fork", "uses fork, which cannot be simulated"),
        ("threads", "more threads at a time than the machine has cores"),
    ] {
        let command = format!("./deadly {name}");
        let words = ["compare", "--designs", "clwb", "--no-native", "--program", &command];
        let error = place.run(2, &words);
        assert!(error.contains(expected), "{name}: {error}");
    }
    let command = ["compare", "--designs", "clwb", "--program-seconds", "1", "--no-native"];
    let error = place.run(2, &[&command[..], &["--program", "./deadly spin"]].concat());
    assert!(error.contains("was stopped after 1 s"), "{error}");
}

#[test]
fn compiled_programs_are_timed_simulated_natively_and_in_recoveries() {
    let place = Place::new();
    let small = ["bench", "cc", "--threads", "1,4", "--machine", "desktop", "--design", "clwb"];
    let small = [&small[..], &["--runs", "1", "--references", "20000", "--operations", "2"]];
    let missing = place.seawall().args(small.concat()).env("SEAWALL_CC", "no-gcc").output();
    let missing = missing.expect("seawall runs");
    let said = String::from_utf8_lossy(&missing.stderr);
    assert_eq!(missing.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot run no-gcc") && said.contains("SEAWALL_CC"), "{said}");
    if without_gcc("compiled_programs_are_timed_simulated_natively_and_in_recoveries") {
        return;
    }
    let text = place.run(0, &[&small.concat()[..], &["--json", "speed"]].concat());
    assert!(text.contains("clwb on desktop") && text.contains("this host's"), "{text}");
    let records = fs::read_to_string(place.folder.path().join("speed")).unwrap();
    let records: Vec<serde_json::Value> =
        records.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let speed = |record: &serde_json::Value, name: &str| record[name]["median"].as_f64();
    for (what, name, number) in [
        ("simulated", "references_per_second", 4),
        ("native", "ratio", 2),
        ("recovery", "recoveries_per_second", 1),
    ] {
        let of: Vec<_> = records.iter().filter(|record| record["measures"] == what).collect();
        assert_eq!(of.len(), number, "{what}");
        assert!(of.iter().all(|record| speed(record, name).is_some_and(|it| it > 0.0)), "{of:?}");
    }
}

#[test]
fn what_was_not_compiled_for_it_is_refused_with_the_remedy() {
    let place = Place::new();
    let error = place.run(2, &["compare", "--program", "/bin/true", "--designs", "clwb"]);
    assert!(error.contains("seawall cc"), "{error}");
    let error = place.run(2, &["compare", "--program", "./nothing", "--designs", "clwb"]);
    assert!(error.contains("there is none called './nothing'"), "{error}");
    let error = place.run(2, &["compare", "--program", "'", "--designs", "clwb"]);
    assert!(error.contains("quotes must be closed"), "{error}");
}
