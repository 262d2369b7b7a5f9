//! Addresses that a pool keeps: a check has its memory and its code elsewhere.

use super::{Place, without_gcc};

const KINDS: [&str; 7] = ["map", "heap", "stack", "global", "code", "table", "library"];
const RIGHT: [&str; 3] = ["offset", "fixed", "hint"];

fn explore(place: &Place, code: i32, kind: &str) -> String {
    let run = format!("./stale {kind} {{pool}} run");
    let check = run.replace(" run", " check");
    place.run(code, &["explore", "--models", "px86", "--program", &run, "--check", &check])
}

#[test]
fn an_address_that_a_pool_keeps_is_found_and_one_that_the_program_asks_for_is_right() {
    let name = "an_address_that_a_pool_keeps_is_found_and_one_that_the_program_asks_for_is_right";
    if without_gcc(name) {
        return;
    }
    let place = Place::new();
    place.compile_with("stale.c", &["-g"]);
    for kind in KINDS {
        let said = explore(&place, 2, kind);
        assert!(said.contains("on what the program leaves without a crash"), "{kind}: {said}");
        if ["map", "heap", "stack"].contains(&kind) {
            let why = "touched an address that only the process before it had (SIGSEGV), at";
            assert!(said.contains(&format!("{why} stale.c:")), "{said}");
        }
    }
    for kind in RIGHT {
        let said = explore(&place, 0, kind);
        assert!(said.contains("complete: every image"), "{kind}: {said}");
    }
}

#[test]
fn a_check_that_is_a_function_has_its_memory_elsewhere_too() {
    if without_gcc("a_check_that_is_a_function_has_its_memory_elsewhere_too") {
        return;
    }
    let place = Place::new();
    place.compile("stale.c");
    for (kind, explored, compared) in [("map", 2, 1), ("code", 2, 1), ("offset", 0, 0)] {
        let run = format!("./stale {kind} {{pool}} run");
        let check = ["--program", &run, "--check-entry"];
        place.run(explored, &[&["explore", "--models", "px86"], &check[..]].concat());
        place.run(compared, &[&["compare", "--designs", "clwb"], &check[..]].concat());
    }
}

/// Such a program is always loaded at one place.
#[test]
fn functions_of_a_program_at_a_fixed_address_stay_where_they_are() {
    if without_gcc("functions_of_a_program_at_a_fixed_address_stay_where_they_are") {
        return;
    }
    let place = Place::new();
    place.compile_with("stale.c", &["-no-pie", "-fno-pie"]);
    explore(&place, 0, "code");
    explore(&place, 2, "map");
    for (kind, code) in [("map", 1), ("code", 0)] {
        let run = format!("./stale {kind} {{pool}} run");
        place.run(code, &["compare", "--designs", "clwb", "--program", &run, "--check-entry"]);
    }
}
