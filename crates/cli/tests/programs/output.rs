//! What a simulated program prints: held to what it prints natively, and shown on request.

use super::{Place, without_gcc};

#[test]
fn what_is_printed_otherwise_than_natively_is_a_warning_and_no_error() {
    if without_gcc("what_is_printed_otherwise_than_natively_is_a_warning_and_no_error") {
        return;
    }
    let place = Place::new();
    place.compile("prints.c");
    let program = |words: &[&str], command: &str| {
        let all = ["compare", "--designs", "clwb,lb", "--program", command];
        place.run(0, &[&all[..], words].concat())
    };
    // The path of the pool, which each run prints, is no difference.
    let same = program(&[], "./prints {pool} same");
    assert!(!same.contains("WARNING"), "{same}");
    let other = program(&[], "./prints {pool} other");
    assert!(other.contains("WARNING: it printed something else than natively"), "{other}");
    assert!(other.contains("under clwb, line 2\n    natively  sum 42\n"), "{other}");
    assert!(
        other.contains("under lb, line 2\n    natively  sum 42\n    here      sum 43"),
        "{other}"
    );
    let unknown = program(&["--no-native"], "./prints {pool} other");
    assert!(!unknown.contains("WARNING"), "{unknown}");
}

#[test]
fn what_is_printed_is_shown_on_request() {
    if without_gcc("what_is_printed_is_shown_on_request") {
        return;
    }
    let place = Place::new();
    place.compile("prints.c");
    let program = ["compare", "--designs", "clwb,lb", "--show-output", "--program"];
    let shown = place.run(0, &[&program[..], &["./prints {pool} same"]].concat());
    let expected = "printed natively, under clwb, under lb:\nin {pool}\nsum 42\nend\n";
    assert!(shown.contains(expected), "{shown}");
}

#[test]
fn pauses_and_functions_of_mathematics_take_their_time() {
    if without_gcc("pauses_and_functions_of_mathematics_take_their_time") {
        return;
    }
    let place = Place::new();
    place.compile_with("waits.c", &["-lm"]);
    let numbers = |what: &str| {
        let program = format!("./waits {what}");
        let words =
            ["compare", "--designs", "volatile", "--program", &program, "--json", "records"];
        place.run(0, &words);
        let record = std::fs::read_to_string(place.folder.path().join("records")).unwrap();
        let record: serde_json::Value = serde_json::from_str(&record).unwrap();
        ["cycles", "instructions"].map(|name| record[name].as_u64().unwrap())
    };
    let ([cycles, _], [with_pauses, _]) = (numbers("nothing"), numbers("pause"));
    assert!(with_pauses > cycles + 9000, "{with_pauses} and {cycles} cycles");
    let ([_, without], [_, with_sines]) = (numbers("nothing"), numbers("sine"));
    assert!(with_sines > without + 50_000, "{with_sines} and {without} instructions");
}
