//! What a crash may keep of the stores of compiled programs, and what orders them, is what the
//! manual of the processor promises and no more.

use super::{Place, without_gcc};

fn place() -> Place {
    let place = Place::new();
    place.compile_with("stores.c", &["-g", "-mcx16", "-mmovdir64b"]);
    place
}

/// Explores one of its kinds; 0 if no crash shows what the check looks for.
fn explored(place: &Place, code: i32, kind: &str, more: &[&str]) -> String {
    let program = format!("./stores {kind} {{pool}} run");
    let check = format!("./stores {kind} {{pool}} check");
    let words = ["explore", "--program", &program, "--check", &check, "--seconds", "60"];
    place.run(code, &[&words[..], more].concat())
}

#[test]
fn the_words_of_a_wide_store_are_durable_in_any_order_and_a_direct_store_is_whole() {
    if without_gcc("the_words_of_a_wide_store_are_durable_in_any_order") {
        return;
    }
    let place = place();
    let wide = "vector aligned-vector assignment unaligned rep memcpy memset memmove cmpxchg16b";
    for kind in wide.split(' ') {
        for model in ["px86", "eadr", "bep", "strict"] {
            let found = explored(&place, 1, kind, &["--models", model]);
            assert!(found.contains("a word of a wide store"), "{kind} under {model}: {found}");
        }
    }
    for kind in ["two-stores", "two-copies"] {
        explored(&place, 0, kind, &["--models", "px86,eadr,bep"]);
    }
    explored(&place, 0, "direct", &["--models", "px86,eadr,bep"]);
    let program = ["explore", "--program", "./stores direct-askew {pool} run"];
    let error =
        place.run(2, &[&program[..], &["--check", "./stores direct {pool} check"]].concat());
    assert!(error.contains("to an address that is no multiple of 64"), "{error}");
}

#[test]
fn a_locked_instruction_orders_whatever_it_stores_and_one_that_fails_completes_no_flush() {
    if without_gcc("a_locked_instruction_orders_whatever_it_stores") {
        return;
    }
    let place = place();
    for kind in "add-nothing exchange-same store-same or-nothing compare-same".split(' ') {
        explored(&place, 0, kind, &["--models", "px86"]);
    }
    let found = explored(&place, 1, "compare-fails", &["--models", "px86"]);
    assert!(found.contains("failed, and is taken to complete no"), "{found}");
}

#[test]
fn stores_past_the_caches_keep_the_order_of_a_word_and_no_load_of_their_own_is_a_fence() {
    if without_gcc("stores_past_the_caches_keep_the_order_of_a_word") {
        return;
    }
    let place = place();
    explored(&place, 0, "twice", &["--models", "px86,eadr"]);
    for model in ["px86", "eadr"] {
        explored(&place, 1, "own-load", &["--models", model]);
    }
}

#[test]
fn a_flush_of_what_another_thread_stored_needs_a_load_where_hardware_has_no_flushes() {
    if without_gcc("a_flush_of_what_another_thread_stored_needs_a_load") {
        return;
    }
    let place = place();
    let drain = ["--fence", "drain"];
    explored(&place, 0, "group", &["--models", "px86"]);
    let found = explored(&place, 1, "group", &[&["--models", "bep"], &drain[..]].concat());
    assert!(found.contains("which orders nothing under bep"), "{found}");
    explored(&place, 0, "group-read", &[&["--models", "bep"], &drain[..]].concat());
    let crash = |code: i32, kind: &str| {
        let program = format!("./stores {kind} {{pool}} run");
        let check = format!("./stores {kind} {{pool}} check");
        let words = ["compare", "--program", &program, "--check", &check, "--crashes", "300"];
        place.run(code, &[&words[..], &["--designs", "lbpp"], &drain].concat())
    };
    let broken = crash(1, "group");
    assert!(broken.contains("had not read: under lbpp a flush is nothing"), "{broken}");
    crash(0, "group-read");
}
