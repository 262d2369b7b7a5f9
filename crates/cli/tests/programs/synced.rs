//! What system calls make durable of mappings, and what they return.

use super::{Place, without_gcc};

/// Calls after which data is durable, and such after which it need not be.
const DURABLE: [&str; 15] = [
    "msync",
    "msync-two",
    "msync-gap",
    "fsync",
    "fsync-other",
    "fsync-raw",
    "fsync-part",
    "fsync-unmapped",
    "fsync-locked",
    "fdatasync",
    "syncfs",
    "sync",
    "write-dsync",
    "write-sync",
    "writev2-dsync",
];
const LOST: [&str; 7] =
    ["msync-async", "msync-other", "msync-nothing", "msync-unaligned", "range", "unmap", "nothing"];

fn compiled() -> Place {
    let place = Place::new();
    place.compile("synced.c");
    place
}

fn words(call: &str) -> [String; 2] {
    [format!("./synced {call} {{pool}} run"), format!("./synced {call} {{pool}} check")]
}

#[test]
fn calls_make_durable_what_they_do_on_linux() {
    if without_gcc("calls_make_durable_what_they_do_on_linux") {
        return;
    }
    let place = compiled();
    for (calls, code) in [(&DURABLE[..], 0), (&LOST[..], 1)] {
        for call in calls {
            let [run, check] = words(call);
            let words = ["explore", "--models", "px86", "--program", &run, "--check", &check];
            let said = place.run(code, &words);
            assert_eq!(said.contains("complete: every image"), code == 0, "{call}: {said}");
        }
    }
    for (call, code) in [
        ("fsync-part", 0),
        ("syncfs", 0),
        ("write-dsync", 0),
        ("writev2-dsync", 0),
        ("nothing", 1),
        ("write", 1),
        ("writev2", 1),
    ] {
        let [run, check] = words(call);
        let words = ["compare", "--designs", "clwb", "--crashes", "20", "--program", &run];
        let said = place.run(code, &[&words[..], &["--check", &check]].concat());
        assert_eq!(said.contains("none broke"), code == 0, "{call}: {said}");
    }
}

#[test]
fn calls_return_what_they_do_on_linux() {
    if without_gcc("calls_return_what_they_do_on_linux") {
        return;
    }
    let place = compiled();
    let words = ["compare", "--designs", "clwb", "--crashes", "0", "--show-output"];
    let said = place.run(0, &[&words[..], &["--program", "./synced errors {pool}"]].concat());
    assert!(said.contains("printed natively, under clwb:"), "{said}");
    assert!(said.contains("gap -1 Cannot allocate memory"), "{said}");
}
