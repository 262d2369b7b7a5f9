//! Threads of compiled programs that wait for each other sleep as in the kernel's futexes: those
//! that nobody wakes cost nothing, and none is lost.

use super::{Place, without_gcc};
use std::fs;

/// Counters of a run of `held_up.c` with so many threads that wait.
fn counters(place: &Place, threads: u32) -> impl Fn(&str) -> u64 {
    let program = format!("./held_up {threads}");
    let words = ["compare", "--designs", "volatile", "--no-native", "--json", "record"];
    place.run(0, &[&words[..], &["--program", &program]].concat());
    let record = fs::read_to_string(place.folder.path().join("record")).expect("it was written");
    let record: serde_json::Value = serde_json::from_str(&record).expect("a record");
    move |name| record["counters"][name].as_u64().expect("a counter")
}

/// Each thread tries to take the mutex, says that it waits, and tries again when it was woken. If
/// each change woke all of them, the number of attempts would grow with the square of theirs.
#[test]
fn of_the_threads_that_wait_for_a_mutex_one_is_woken() {
    if without_gcc("of_the_threads_that_wait_for_a_mutex_one_is_woken") {
        return;
    }
    let place = Place::new();
    place.compile("held_up.c");
    let (few, many) = (counters(&place, 6), counters(&place, 24));
    let [at_few, at_many] = [&few, &many].map(|run| run("locked_failed"));
    assert!((6..=12).contains(&at_few) && (24..=48).contains(&at_many), "{at_few}, {at_many}");
    let of_a_thread = |name| (many(name) - few(name)) / 18;
    assert!(of_a_thread("locked") < 12, "{} locked instructions", of_a_thread("locked"));
    let misses = of_a_thread("l1_misses");
    assert!(misses < 40, "{misses} misses, with those of its stack and its start");
}

fn explored(place: &Place, way: &str, threads: u32, flaw: u32, code: i32) -> String {
    let program = format!("./sleepers {way} {{pool}} {threads} {flaw}");
    let check = format!("./sleepers check {{pool}} {threads}");
    // What is sound need not be tried to its end, and in the gate not for long.
    let is_long_run = std::env::var_os("SEAWALL_LONG").is_some();
    let seconds = match code {
        0 if is_long_run => "10",
        0 => "6",
        _ => "120",
    };
    let words = ["explore", "--program", &program, "--check", &check, "--seconds", seconds];
    place.run(code, &[&words[..], &["--models", "px86"]].concat())
}

const WAYS: [&str; 8] =
    ["mutex", "condition", "signal", "barrier", "semaphore", "rwlock", "deadline", "own"];

#[test]
fn each_way_to_wait_ends_under_designs() {
    if without_gcc("each_way_to_wait_ends_under_designs") {
        return;
    }
    let place = Place::new();
    place.compile("sleepers.c");
    for way in WAYS.into_iter().chain(["order"]) {
        let program = format!("./sleepers {way} {{pool}} 16");
        let words = ["compare", "--program", &program, "--designs", "volatile,lb,bsp-lbpp"];
        let table = place.run(0, &[&words[..], &["--crashes", "0"]].concat());
        assert!(table.contains("it returned 0, as natively"), "{way}: {table}");
    }
}

#[test]
fn no_schedule_loses_a_thread_that_sleeps() {
    if without_gcc("no_schedule_loses_a_thread_that_sleeps") {
        return;
    }
    let place = Place::new();
    place.compile("sleepers.c");
    for way in WAYS {
        for threads in [2, 3] {
            explored(&place, way, threads, 0, 0);
        }
    }
}

#[test]
fn a_lock_that_loses_a_thread_is_found_as_a_deadlock() {
    if without_gcc("a_lock_that_loses_a_thread_is_found_as_a_deadlock") {
        return;
    }
    let place = Place::new();
    place.compile("sleepers.c");
    for (flaw, threads) in [(1, 2), (2, 3), (3, 2)] {
        let found = explored(&place, "own", threads, flaw, 2);
        assert!(found.contains("is deadlocked"), "{flaw}: {found}");
    }
}
