//! What findings say of compiled programs.

use super::{Place, line_of, without_gcc};

fn found(place: &Place, name: &str) -> String {
    let (run, check) = (format!("./{name} run {{pool}}"), format!("./{name} check {{pool}}"));
    let words = ["explore", "--program", &run, "--check", &check, "--models", "px86"];
    // There is time to make a finding small whose check does not end.
    place.run(1, &[&words[..], &["--program-seconds", "1", "--seconds", "200"]].concat())
}

/// The last store of a copy is finished when the copy has returned; it is still the copy's.
#[test]
fn each_store_of_a_copy_has_the_line_that_calls_memcpy() {
    if without_gcc("each_store_of_a_copy_has_the_line_that_calls_memcpy") {
        return;
    }
    let place = Place::new();
    place.compile_with("copies.c", &["-fno-builtin"]);
    let found = found(&place, "copies");
    for (at, line) in [(0x18, "/* first */"), (0x98, "/* second */")] {
        let (address, line) = (format!("pm:{at:#x} (8 bytes)"), line_of("copies.c", line));
        let place = format!(", copies.c:{line} < copies.c:");
        let is_there = |text: &str| text.contains(&address) && text.contains(&place);
        assert!(found.lines().any(is_there), "{address} {place}\n{found}");
    }
}

#[test]
fn a_finding_that_lost_nothing_says_what_was_stored_last_and_what_recovery_read() {
    if without_gcc("a_finding_that_lost_nothing_says_what_was_stored_last_and_what_recovery_read") {
        return;
    }
    let place = Place::new();
    place.compile("held.c");
    let found = found(&place, "held");
    assert!(found.contains("it does not end"), "{found}");
    assert!(found.contains("nothing is lost; stored last:"), "{found}");
    let [takes, waits] = ["/* takes */", "/* waits */"].map(|line| line_of("held.c", line));
    let reads = format!("reads pm:0x0 = 0x1, stored at held.c:{takes}, held.c:{waits}, ");
    assert!(found.contains(&reads), "{found}");
}

/// Functions of the library are inlined in the one, and called in the other.
#[test]
fn stores_that_the_library_of_cxx_makes_are_of_the_line_that_asks_for_them() {
    if without_gcc("stores_that_the_library_of_cxx_makes_are_of_the_line_that_asks_for_them") {
        return;
    }
    let [flag, words, calls] =
        ["// sets", "// fills", "publish(*pool)"].map(|line| line_of("flag.cpp", line));
    for level in ["-O2", "-O0"] {
        let place = Place::new();
        place.compile_with("flag.cpp", &["-std=c++20", "-g", level]);
        let found = found(&place, "flag");
        let lost =
            format!("0x0 -> 0x7, thread 0 operation 0, flag.cpp:{words} < flag.cpp:{calls}; ");
        assert!(found.contains(&lost), "{level}: {found}");
        let early =
            format!("0x0 -> 0x1, thread 0 operation 0, flag.cpp:{flag} < flag.cpp:{calls}\n");
        assert!(found.contains(&early), "{level}: {found}");
        assert!(!found.contains(".h:"), "{level}: {found}");
    }
}

/// The call that never returns is in a part of `main` of its own, and no unwound stack tells.
#[test]
fn an_error_is_at_the_line_of_the_program_that_called() {
    if without_gcc("an_error_is_at_the_line_of_the_program_that_called") {
        return;
    }
    let place = Place::new();
    place.compile_with("crowd.c", &["-g"]);
    let words = ["compare", "--designs", "clwb", "--crashes", "0", "--program", "./crowd {pool}"];
    let said = place.run(2, &[&words[..], &["--machine", "micro15:core.count=1"]].concat());
    let line = line_of("crowd.c", "/* starts */");
    assert!(said.contains(&format!("at main (crowd.c:{line})")), "{said}");
}
