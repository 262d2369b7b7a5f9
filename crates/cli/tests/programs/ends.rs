//! How a program ends, and what became of its pool, is part of every verdict.

use super::{Place, line_of, without_gcc};
use std::fs;

const NOTHING: &str = "stores nothing to persistent memory, so that no crash can change anything";
const ABORTED: &str = "was aborted (SIGABRT)";
const FAULT: &str = "touched memory that it does not have (SIGSEGV)";

/// Ways to end that are wrong, and what is said of them: by the machines and natively.
const WRONG: [(&str, &str, &str); 9] = [
    ("nothing", NOTHING, NOTHING),
    ("abort", ABORTED, "signal 6 (SIGABRT)"),
    ("assert", ABORTED, "signal 6 (SIGABRT): ends: "),
    ("thread", ABORTED, "signal 6 (SIGABRT)"),
    ("raise", "ended itself by signal 15 (SIGTERM)", "signal 15 (SIGTERM)"),
    ("unmapped", FAULT, "signal 11 (SIGSEGV)"),
    ("read-only", FAULT, "signal 11 (SIGSEGV)"),
    ("read-only-file", "returned 8: mmap: Permission denied", "returned 8: mmap: Permission"),
    ("fails", "returned 3: there is no such option", "returned 3: there is no such option"),
];

fn compiled() -> Place {
    let place = Place::new();
    place.compile_with("ends.c", &["-g"]);
    place
}

fn words<'a>(command: &'a str, program: &'a str) -> Vec<&'a str> {
    let more: &[&str] = match command {
        "explore" => &["--models", "px86", "--check", "./ends check {pool}"],
        "compare" => &["--designs", "clwb", "--crashes", "5", "--check", "./ends check {pool}"],
        _ => &["--designs", "bsp-lb", "--from", "start", "--crashes", "5"],
    };
    [&[command, "--program", program], more].concat()
}

#[test]
fn a_program_that_does_not_end_well_has_no_verdict() {
    if without_gcc("a_program_that_does_not_end_well_has_no_verdict") {
        return;
    }
    let place = compiled();
    for (way, here, natively) in WRONG {
        let program = format!("./ends {way} {{pool}}");
        let said = place.run(2, &words("explore", &program));
        assert!(said.contains(here), "explore {way}: {said}");
        let said = place.run(2, &words("compare", &program));
        assert!(said.contains(natively), "compare {way}: {said}");
        // All of its memory is persistent for this command.
        if way != "nothing" {
            let said = place.run(2, &words("kernels", &program));
            assert!(said.contains(natively), "kernels {way}: {said}");
        }
        let without = [&words("compare", &program)[..], &["--no-native"]].concat();
        let (code, here) = match here.split_once(": ") {
            Some((returned, _)) => (1, returned.replace("returned", "it returned") + " and not 0"),
            None => (2, here.to_owned()),
        };
        let said = place.run(code, &without);
        assert!(said.contains(&here), "compare {way}: {said}");
    }
    let line = line_of("ends.c", "*word = value");
    let said = place.run(2, &words("explore", "./ends read-only {pool}"));
    assert!(said.contains(&format!("at store (ends.c:{line})")), "{said}");
}

#[test]
fn a_program_that_returns_what_is_expected_has_a_verdict_that_says_so() {
    if without_gcc("a_program_that_returns_what_is_expected_has_a_verdict_that_says_so") {
        return;
    }
    let place = compiled();
    for command in ["explore", "compare"] {
        let usual = words(command, "./ends fails {pool}");
        let said = place.run(0, &[&usual[..], &["--expect-exit", "3", "--json", "r"]].concat());
        let record = fs::read_to_string(place.folder.path().join("r")).unwrap();
        assert!(record.contains("\"exit_code\":3"), "{record}");
        assert!(
            said.contains("returns 3") || said.contains("it returned 3, as natively"),
            "{said}"
        );
        let said = place.run(2, &[&usual[..], &["--expect-exit", "4"]].concat());
        assert!(said.contains("returned 3") && said.contains("--expect-exit 3"), "{said}");
        // A program that ends well does not end as expected then.
        let well = words(command, "./ends well {pool}");
        let said = place.run(2, &[&well[..], &["--expect-exit", "3"]].concat());
        assert!(said.contains("returned 0") && said.contains("--expect-exit 0"), "{said}");
    }
    let said = place.run(2, &["compare", "--designs", "clwb", "--expect-exit", "3"]);
    assert!(said.contains("--expect-exit") && said.contains("--program"), "{said}");
}

#[test]
fn a_mapping_that_is_made_again_and_a_file_that_is_cut_are_as_natively() {
    if without_gcc("a_mapping_that_is_made_again_and_a_file_that_is_cut_are_as_natively") {
        return;
    }
    let place = compiled();
    for way in ["well", "again", "shorter", "hole-elsewhere"] {
        let program = format!("./ends {way} {{pool}}");
        let said = place.run(0, &words("explore", &program));
        assert!(said.contains("complete: every image"), "{way}: {said}");
        let said = place.run(0, &words("compare", &program));
        assert!(said.contains("none broke"), "{way}: {said}");
    }
}

#[test]
fn what_a_crash_could_not_do_to_a_file_is_refused_by_name() {
    if without_gcc("what_a_crash_could_not_do_to_a_file_is_refused_by_name") {
        return;
    }
    let place = compiled();
    let empties = "fallocate that empties or moves a part of a mapped file";
    let regrows = "ftruncate that gives a mapped file back what it had cut off";
    for (way, what) in [("hole", empties), ("longer-again", regrows)] {
        for command in ["explore", "compare"] {
            let said = place.run(2, &words(command, &format!("./ends {way} {{pool}}")));
            assert!(said.contains(what) && said.contains("ends.c:"), "{command} {way}: {said}");
        }
    }
    for way in ["renamed", "removed", "replaced"] {
        let program = format!("./ends {way} {{pool}}");
        let said = place.run(2, &words("explore", &program));
        assert!(said.contains("renames, replaces or removes the file pool"), "{way}: {said}");
        assert!(said.contains("at change_file (ends.c:"), "{way}: {said}");
        // A crash finds the file under the name that it has then.
        let said = place.run(0, &words("compare", &program));
        assert!(said.contains("none broke"), "{way}: {said}");
    }
}

#[test]
fn a_check_that_cannot_be_run_is_no_finding() {
    if without_gcc("a_check_that_cannot_be_run_is_no_finding") {
        return;
    }
    let place = compiled();
    let words = ["compare", "--designs", "clwb", "--program", "./ends well {pool}", "--check"];
    let said = place.run(2, &[&words[..], &["./no-such-check {pool}"]].concat());
    assert!(said.contains("the check cannot be run"), "{said}");
}

#[test]
fn holes_of_a_pool_stay_holes_and_cost_nothing() {
    if without_gcc("holes_of_a_pool_stay_holes_and_cost_nothing") {
        return;
    }
    let place = Place::new();
    place.compile("holes.c");
    let usual = ["--program", "./holes run {pool}", "--check", "./holes check {pool}"];
    let words = ["explore", "--models", "px86", "--prepare", "./holes run {pool}"];
    let explored = place.run(0, &[&words[..], &usual].concat());
    assert!(!explored.contains("FAILS"), "{explored}");
    // What the caches of a machine can have is there when measuring begins.
    for (from, most) in [("start", 1 << 20), ("threads", 65 << 20)] {
        let words = ["compare", "--designs", "clwb", "--crashes", "5", "--from", from];
        let table = place.run(0, &[&words[..], &usual, &["--json", "r"]].concat());
        assert!(table.contains("none broke"), "{table}");
        let record = fs::read_to_string(place.folder.path().join("r")).unwrap();
        let record: serde_json::Value = serde_json::from_str(&record).unwrap();
        assert!(record["pm_bytes"].as_u64().unwrap() < most, "{from}: {record}");
    }
}
