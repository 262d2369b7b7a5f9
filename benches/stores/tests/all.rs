//! Tests of the whole program: every store runs and answers rightly, what a kill leaves is what
//! its setting promises, and bad input is reported.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn stores(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_seawall-stores");
    Command::new(program).args(arguments).output().expect("the program starts")
}

fn error_of(arguments: &[&str]) -> String {
    let output = stores(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The records of a run in a folder, which must be empty afterwards.
fn records(arguments: &[&str]) -> Vec<Value> {
    let (folder, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let json = out.path().join("all.jsonl");
    let place = |path: &Path| path.to_str().unwrap().to_string();
    let mut all = vec!["--dir".to_string(), place(folder.path()), "--json".into(), place(&json)];
    all.extend(arguments.iter().map(ToString::to_string));
    let output = stores(&all.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    let text = fs::read_to_string(json).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_store_returns_what_was_put_in() {
    // A wrong answer of a look-up or a scan is an error of the run.
    let records = records(&["--quick", "--threads", "2"]);
    let of = |store: &str, operation: &str| {
        let is_it = |one: &&Value| one["store"] == store && one["operation"] == operation;
        records.iter().filter(is_it).count()
    };
    for store in ["seawall Map", "seawall BTree", "redb", "LMDB", "fjall", "sled"] {
        assert_eq!(of(store, "look up"), 4, "{store}: two settings, on one and two threads");
        assert_eq!(of(store, "transaction of 100 changes"), 4, "{store}");
        let scans = if store == "seawall Map" { 0 } else { 4 };
        assert_eq!(of(store, "scan of 100"), scans, "{store}");
    }
}

#[test]
fn a_kill_leaves_what_the_setting_promises() {
    let records = records(&["--kill"]);
    let killed: Vec<&Value> = records.iter().filter(|one| one["record"] == "kill").collect();
    assert_eq!(killed.len(), 12);
    for one in killed {
        if one["promise_kill"] == "all" {
            assert_eq!(one["left"], one["committed"], "{one}");
        }
    }
}

#[test]
fn bad_input_is_told_with_its_remedy() {
    assert!(error_of(&["--only", "lsm"]).contains("sled"));
    assert!(error_of(&["--dir", "/no/such/folder"]).contains("--dir"));
    assert!(error_of(&["--json", "/no/such/folder/a"]).contains("--json"));
    assert!(error_of(&["--ops", "0"]).contains("--ops 0"));
    assert!(error_of(&["--rounds", "0"]).contains("--rounds 0"));
    assert!(error_of(&["--keys", "7"]).contains("--keys 7"));
    assert!(error_of(&["--threads", "3"]).contains("--threads"));
}
