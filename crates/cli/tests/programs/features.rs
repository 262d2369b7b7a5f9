//! What compiled C and C++ do besides plain loads and stores, on simulated machines.

use super::{Place, without_gcc};
use std::fs;
use std::process::Command;

#[test]
fn programs_with_every_feature_do_what_they_do_natively() {
    if without_gcc("programs_with_every_feature_do_what_they_do_natively") {
        return;
    }
    let place = Place::new();
    for (file, more) in [("features.c", &["-lm", "-latomic"][..]), ("features.cpp", &[])] {
        place.compile_with(file, more);
        let native = Command::new(place.folder.path().join("features")).output().unwrap();
        assert!(native.status.success(), "{file}: {}", String::from_utf8_lossy(&native.stdout));
        place.run(0, &["compare", "--program", "./features", "--designs", "clwb,lbpp"]);
    }
}

/// Each store of the program is one that the machine has seen.
#[test]
fn masked_stores_and_scatters_to_persistent_memory_are_seen() {
    if without_gcc("masked_stores_and_scatters_to_persistent_memory_are_seen") {
        return;
    }
    let place = Place::new();
    place.compile("masked.c");
    let program = ["--program", "./masked {pool}", "--designs", "clwb", "--json", "record"];
    place.run(0, &[&["compare"], &program[..]].concat());
    let record = fs::read_to_string(place.folder.path().join("record")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["unseen_stores"], 0, "{record}");
}

#[test]
fn openmp_is_refused_with_the_remedy() {
    if without_gcc("openmp_is_refused_with_the_remedy") {
        return;
    }
    let place = Place::new();
    place.compile_with("openmp.c", &["-fopenmp"]);
    let error = place.run(2, &["compare", "--program", "./openmp", "--designs", "clwb"]);
    assert!(error.contains("uses OpenMP (libgomp.so.1)"), "{error}");
    assert!(error.contains("start threads with pthread_create"), "{error}");
}
