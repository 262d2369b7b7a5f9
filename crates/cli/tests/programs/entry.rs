//! A function of the program as the check of what crashes leave.

use super::{Place, without_gcc};

const RUN: &str = "./entry {pool}";

/// Crashes the program under `clwb`.
fn compare(place: &Place, code: i32, check: &[&str]) -> String {
    let words = ["compare", "--program", RUN, "--designs", "clwb", "--crashes", "60"];
    place.run(code, &[&words, check].concat())
}

/// Explores it under x86's model.
fn explore(place: &Place, code: i32, check: &[&str]) -> String {
    place.run(code, &[&["explore", "--program", RUN, "--models", "px86"], check].concat())
}

#[test]
fn a_function_of_the_program_is_its_check() {
    if without_gcc("a_function_of_the_program_is_its_check") {
        return;
    }
    let place = Place::new();
    place.compile("entry.c");
    let table = compare(&place, 0, &["--check-entry"]);
    assert!(table.contains("held to the check: none broke"), "{table}");
    explore(&place, 0, &["--check-entry"]);
    // Of the functions the one that is named is called.
    let named = ["--check-entry", "wants_a_seven"];
    let table = compare(&place, 1, &named);
    assert!(table.contains("--check-entry wants_a_seven"), "no command to repeat it\n{table}");
    let said = explore(&place, 2, &named);
    assert!(said.contains("wants_a_seven() returned 1 on what the program leaves"), "{said}");
    let table = compare(&place, 1, &["--check-entry", "reads_nothing"]);
    assert!(table.contains("touched memory that it does not have"), "{table}");
    let said = explore(&place, 2, &[]);
    assert!(said.contains("--check <COMMAND>") && said.contains("--check-entry"), "{said}");
    let said = explore(&place, 2, &["--check-entry", "--check", "true"]);
    assert!(said.contains("cannot be used with"), "{said}");
    let said = explore(&place, 2, &["--check-entry", "--check-input", "nothing"]);
    assert!(said.contains("there is no file nothing to read"), "{said}");
    for missing in ["open_pool", "nothing"] {
        let named = ["--check-entry", missing];
        for said in [compare(&place, 2, &named), explore(&place, 2, &named)] {
            assert!(said.contains(&format!("int {missing}(const char *pool)")), "{said}");
        }
    }
}

#[test]
fn a_planted_bug_is_found_by_a_function_of_the_program() {
    if without_gcc("a_planted_bug_is_found_by_a_function_of_the_program") {
        return;
    }
    let place = Place::new();
    place.compile_with("entry.c", &["-g", "-DFLAW"]);
    for text in [compare(&place, 1, &["--check-entry"]), explore(&place, 1, &["--check-entry"])] {
        assert!(text.contains("the value is"), "{text}");
    }
}

#[test]
fn crashes_come_between_stores_past_the_caches() {
    if without_gcc("crashes_come_between_stores_past_the_caches") {
        return;
    }
    let place = Place::new();
    place.compile("streams.c");
    let words = ["compare", "--program", "./streams {pool}", "--check", "true"];
    let table = place.run(0, &[&words[..], &["--designs", "clwb", "--crashes", "20"]].concat());
    assert!(table.contains("21 crashes"), "{table}");
    let words = [&words[..], &["--designs", "clwb", "--crashes", "600"]].concat();
    let table = place.run(0, &words);
    let few = "fewer than --crashes 600 under clwb: the run has 512 stores to crash after";
    assert!(table.contains(few), "{table}");
}
