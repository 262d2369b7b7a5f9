//! Tests of the whole program: its counts of libpmemobj are the known ones, and bad input is
//! reported.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn compare(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_seawall-compare");
    Command::new(program).args(arguments).output().expect("the program starts")
}

fn error_of(arguments: &[&str]) -> String {
    let output = compare(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn records(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn libpmemobj_needs_the_fences_and_lines_that_were_counted_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("all.jsonl");
    let groups = "tx-64,tx-256,tx-1k,four-ranges,abort,alloc-free,tx-alloc";
    let small = ["--rounds", "1", "--ops", "2000", "--only", groups, "--json"];
    let output = compare(&[&small[..], &[json.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let records = records(&json);
    for (operation, fences, lines) in [
        ("tx, 64 B", 5.0, 6.0),
        ("tx, 256 B", 5.0, 12.0),
        ("tx, 1 KiB", 5.0, 36.0),
        ("tx, 4 x 64 B", 11.0, 21.0),
        ("tx, 64 B, abort", 5.0, 6.0),
        ("alloc + free, 64 B", 8.0, 13.0),
        ("tx with alloc, 64 B", 7.0, 11.0),
    ] {
        let is_it = |one: &&Value| one["operation"] == operation && one["role"] == "theirs";
        let found = records.iter().find(is_it).expect(operation);
        let close = |name: &str, expected: f64| {
            let counted = found[name].as_f64().expect(operation);
            assert!((counted - expected).abs() < 0.1, "{operation}: {counted} {name}");
        };
        close("fences", fences);
        close("lines", lines);
    }
}

#[test]
fn every_group_runs_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let small = ["--rounds", "1", "--ops", "100", "--keys", "800", "--threads", "2"];
    let output = compare(&[&small[..], &["--dir", place]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    for row in ["hash map, remove", "ordered map, insert", "open after a kill", "x floor"] {
        assert!(text.contains(row), "{row} in {text}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn bad_input_is_told_with_its_remedy() {
    assert!(error_of(&["--only", "tx-65"]).contains("four-ranges"));
    assert!(error_of(&["--dir", "/no/such/folder"]).contains("--dir"));
    assert!(error_of(&["--json", "/no/such/folder/a", "--rounds", "1"]).contains("--json"));
    assert!(error_of(&["--ops", "0"]).contains("--ops 0"));
    assert!(error_of(&["--rounds", "0"]).contains("--rounds 0"));
    assert!(error_of(&["--keys", "7"]).contains("--keys 7"));
    assert!(error_of(&["--threads", "3"]).contains("--replacement"));
    assert!(error_of(&["--threads", "17", "--replacement"]).contains("--threads"));
}
