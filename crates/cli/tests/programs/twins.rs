//! The workloads of MICRO'15 written in C, beside the workloads themselves: what compiled code does
//! on a simulated machine is what a workload does that was written for it.

use super::{Place, source, without_gcc};
use serde_json::Value;
use std::fs;
use std::process::Command;

/// The workloads, and by how much the time of their twin may differ.
///
/// A workload pays for its accesses to the pool, and a little for its logs. A twin is a program: it
/// also pays for loops, calls, and what it keeps in memory of its own. The log of sps is 130 words
/// of which nearly all of its time is made. A load of a twin waits for all loads of which its
/// address is made, and one of a workload only for the load that has returned the address: of the
/// time of hash and rbtree, which go from index to index, that is 9 and 23 % under lb.
const TWINS: [(&str, f64); 5] =
    [("sps", 0.40), ("queue", 0.25), ("hash", 0.35), ("sdg", 0.25), ("rbtree", 0.40)];

/// Operations that `compare` measures, and as many more to warm up as it adds.
const OPERATIONS: u64 = 400;
const ALL_OPERATIONS: u64 = OPERATIONS + OPERATIONS / 8;

fn compiled() -> Place {
    let place = Place::new();
    let others = ["shared", "sps", "queue", "hash", "sdg", "rbtree"];
    let others = others.map(|name| source(&format!("twins/{name}.c")).display().to_string());
    place.compile_with("twins/twin.c", &others.each_ref().map(|path| &path[..]));
    place
}

#[test]
fn twins_in_c_leave_the_same_pool_byte_by_byte() {
    if without_gcc("twins_in_c_leave_the_same_pool_byte_by_byte") {
        return;
    }
    let place = compiled();
    for (name, _) in TWINS {
        let path = |end: &str| place.folder.path().join(format!("{name}.{end}"));
        let (ours, theirs) = (path("rust"), path("c"));
        let size = ["--ops", "300", "--threads", "1", "--seed", "7"];
        place.run(0, &[&["run", name, "--file", ours.to_str().unwrap()], &size[..]].concat());
        let mut twin = Command::new(place.folder.path().join("twin"));
        let status = twin.arg(name).arg(&theirs).args(["1", "300", "7"]).status().unwrap();
        assert!(status.success(), "{name}");
        let (ours, theirs) = (fs::read(ours).unwrap(), fs::read(theirs).unwrap());
        assert!(ours == theirs, "{name}: the pools differ");
        assert!(ours.iter().any(|byte| *byte != 0), "{name}: the pools are empty");
    }
}

/// The record of `compare` with these words.
fn record(place: &Place, words: &[&str]) -> Value {
    let path = place.folder.path().join("record");
    let more = ["--crashes", "0", "--json", path.to_str().unwrap()];
    place.run(0, &[&["compare"], words, &more[..]].concat());
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn twins_in_c_do_to_persistent_memory_what_the_workloads_do_in_about_the_same_time() {
    if without_gcc("twins_in_c_do_to_persistent_memory_what_the_workloads_do") {
        return;
    }
    let place = compiled();
    let operations = OPERATIONS.to_string();
    for ((name, most), design) in TWINS.iter().flat_map(|twin| ["lb", "clwb"].map(|d| (twin, d))) {
        let size = ["--threads", "1", "--ops", &operations, "--designs", design];
        let ours = record(&place, &[&["--workloads", name], &size[..]].concat());
        let program = format!("./twin {name} {{pool}} 1 {ALL_OPERATIONS} 1");
        let from = ["--from", "threads", "--designs", design, "--program", &program];
        let theirs = record(&place, &from);
        for counter in ["line_writes", "flushes", "fences", "epochs", "epochs_conflicting"] {
            let (ours, theirs) = (&ours["counters"][counter], &theirs["counters"][counter]);
            assert_eq!(ours, theirs, "{counter} of {name} under {design}");
        }
        assert_eq!(theirs["unseen_stores"], 0, "{name} under {design}");
        let counter = |record: &Value, name: &str| record["counters"][name].as_f64().unwrap();
        let is_about = |what: &str, (theirs, ours): (f64, f64), most: f64| {
            let ratio = theirs / ours;
            let about = 1.0 - most..1.0 + most;
            assert!(about.contains(&ratio), "{what} of {name} under {design}: {ratio:.2}");
        };
        let both = |name: &str| (counter(&theirs, name), counter(&ours, name));
        is_about("locked", both("locked"), 0.01);
        is_about("l1_misses", both("l1_misses"), 0.1);
        // A lock has two stores, to volatile memory, and two locked instructions; the free lists of
        // a workload are volatile too.
        let stores = counter(&ours, "stores") - counter(&ours, "locked");
        is_about("stores", (theirs["pm_stores"].as_f64().unwrap(), stores), 0.1);
        let cycles = |record: &Value| record["cycles"].as_f64().unwrap();
        is_about("cycles", (cycles(&theirs), cycles(&ours)), *most);
    }
}

#[test]
fn the_program_of_the_gem5_measurements_takes_in_c_what_the_workload_takes() {
    if without_gcc("the_program_of_the_gem5_measurements_takes_in_c_what_the_workload_takes") {
        return;
    }
    let place = Place::new();
    place.compile("twins/ht.c");
    // Table and buckets are as in the measurements: what a cold cache misses is what is compared.
    let machine = "gem5-ruby:core.count=4:llc.banks=4:llc.kib_per_bank=2048:memory.controllers=1";
    let on = ["--machine", machine, "--designs", "eadr"];
    let ours = record(&place, &[&["--workloads", "ht", "--ops", "2000"], &on[..]].concat());
    let program = ["--program", "./ht 4 2000 65536", "--pm", "all", "--fence", "drain"];
    let theirs = record(&place, &[&program, &on[..]].concat());
    let counters = ["instructions", "references", "l1_misses", "llc_misses"];
    let each = counters.map(|name| (name, &theirs["counters"][name], &ours["counters"][name]));
    let cycles = ("cycles", &theirs["cycles"], &ours["cycles"]);
    for (name, theirs, ours) in each.into_iter().chain([cycles]) {
        let ratio = theirs.as_f64().unwrap() / ours.as_f64().unwrap();
        assert!((0.95..1.05).contains(&ratio), "{name}: {ratio:.3}");
    }
}

#[test]
fn the_region_of_a_program_begins_with_warm_caches_unless_they_are_to_be_cold() {
    if without_gcc("the_region_of_a_program_begins_with_warm_caches_unless_they_are_to_be_cold") {
        return;
    }
    let place = Place::new();
    place.compile("radix.c");
    let words = ["--program", "./radix -p4 -n16384", "--designs", "volatile", "--from", "threads"];
    let misses = |more: &[&str]| {
        record(&place, &[&words[..], more].concat())["counters"]["llc_misses"].as_u64().unwrap()
    };
    let (cold, warm) = (misses(&["--cold"]), misses(&[]));
    assert!(cold > 2000 && warm < 200, "{cold} misses, and {warm}");
}
