//! What programs take on simulated machines, where it is known what they must take.

use super::{Place, without_gcc};
use std::fs;

/// The record of a program under a design.
fn record(place: &Place, program: &str, more: &[&str]) -> serde_json::Value {
    let words = ["compare", "--crashes", "0", "--no-native", "--json", "record"];
    place.run(0, &[&words[..], &["--program", program], more].concat());
    let record = fs::read_to_string(place.folder.path().join("record")).expect("it was written");
    serde_json::from_str(&record).expect("a record")
}

fn cycles(record: &serde_json::Value) -> f64 {
    record["cycles"].as_f64().expect("cycles")
}

#[test]
fn threads_that_share_nothing_take_no_longer_than_one() {
    if without_gcc("threads_that_share_nothing_take_no_longer_than_one") {
        return;
    }
    let place = Place::new();
    for (flags, machine) in [
        (&["-O2"][..], "micro15"),
        (&["-O2"], "micro15:core.stores_in_flight=4"),
        (&["-O2", "-DCOPIES"], "micro15"),
    ] {
        place.compile_with("private.c", flags);
        let a_round = |threads: u32| {
            let more = ["--designs", "volatile", "--from", "threads", "--machine", machine];
            let of = |rounds: u32| {
                cycles(&record(&place, &format!("./private {{pool}} {threads} {rounds}"), &more))
            };
            (of(3000) - of(1000)) / 2000.0
        };
        let one = a_round(1);
        for threads in [3, 4, 8] {
            let found = a_round(threads);
            let is_one = (found / one - 1.0).abs() < 0.01;
            assert!(is_one, "{flags:?}, {machine}, {threads}: {found}, not {one}");
        }
    }
}

#[test]
fn stores_past_the_caches_are_what_the_machine_says() {
    if without_gcc("stores_past_the_caches_are_what_the_machine_says") {
        return;
    }
    let place = Place::new();
    place.compile("past.c");
    let run = |kind: &str, machine: &str| {
        let more = ["--designs", "clwb", "--machine", machine];
        record(&place, &format!("./past {kind} {{pool}}"), &more)
    };
    let written = |record: &serde_json::Value| record["counters"]["line_writes"].as_u64().unwrap();
    let (plain, past) = (run("plain", "asap22"), run("past", "asap22"));
    assert_eq!((written(&plain), written(&past)), (0, 0), "they are ordinary stores there");
    assert!((0.9..1.1).contains(&(cycles(&past) / cycles(&plain))));
    assert_eq!(written(&run("past", "asap22:core.write_combining=6")), 1024);
    let words = ["compare", "--crashes", "0", "--program", "./past past {pool}", "--machine"];
    let text = place.run(0, &[&words[..], &["asap22", "--designs", "clwb"]].concat());
    assert!(text.contains("8192 stores past the caches were ordinary ones"), "{text}");
    let text = place.run(0, &[&words[..], &["desktop", "--designs", "clwb"]].concat());
    assert!(!text.contains("were ordinary ones"), "{text}");
}

#[test]
fn a_load_waits_for_the_load_that_its_address_comes_from_and_for_no_other() {
    if without_gcc("a_load_waits_for_the_load_that_its_address_comes_from") {
        return;
    }
    let place = Place::new();
    let unused = ["-O2", "-ffunction-sections", "-Wl,--gc-sections"];
    for flags in [&["-O0"][..], &["-O2"], &["-O3", "-fno-omit-frame-pointer"], &unused] {
        place.compile_with("chase.c", flags);
        let a_step = |way: &str| {
            let program = format!("./chase {way} {{pool}}");
            cycles(&record(&place, &program, &["--designs", "volatile"])) / 8192.0
        };
        for way in ["pointer", "index", "offset", "call", "stack", "frame", "memory", "choice"] {
            let found = a_step(way);
            assert!(found > 45.0, "{flags:?}, {way}: {found:.1} cycles a step of the chain");
        }
        for way in ["scan", "random"] {
            let found = a_step(way);
            assert!(found < 15.0, "{flags:?}, {way}: {found:.1} cycles, and no load needs another");
        }
    }
}
