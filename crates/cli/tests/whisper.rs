//! `seawall whisper` from outside: exit codes, what it prints and writes, and what it refuses.

use std::fs;
use std::process::Command;

/// Runs `seawall`, wants exit code `code`, gives what it printed.
fn run(code: i32, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_seawall")).args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "seawall {args:?}\n{out}\n{err}");
    assert!(!err.contains("panicked"), "seawall {args:?}\n{err}");
    if code == 2 { err } else { out }
}

#[test]
fn what_was_counted_stands_beside_what_was_published_in_the_table_and_in_the_records() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("counts.jsonl");
    let json = path.to_str().unwrap();
    let args = ["whisper", "ctree,hashmap", "--ops", "60", "--strict", "--json", json];
    let printed = run(0, &args);
    for words in ["4 threads on hops17 under clwb, 60 operations each", "0 values are more than"] {
        assert!(printed.contains(words), "{words} in\n{printed}");
    }
    assert!(printed.lines().all(|line| line.len() <= 100), "{printed}");
    for name in ["ctree", "hashmap", "mean"] {
        assert!(printed.lines().any(|line| line.starts_with(name)), "{name} in\n{printed}");
    }
    let written = fs::read_to_string(&path).unwrap();
    let records: Vec<serde_json::Value> =
        written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 2);
    assert_eq!(records[1]["application"], "hashmap");
    assert_eq!(records[1]["published"]["epochs"], 11.0);
    let ratio = records[1]["ratio"]["epochs"].as_f64().unwrap();
    assert!((1.0..1.5).contains(&ratio), "{ratio}");
    assert_eq!(run(0, &args), printed, "the same again");
}

#[test]
fn what_cannot_be_run_is_refused_with_what_can() {
    let refused = run(2, &["whisper", "hash"]);
    assert!(refused.contains("hash") && refused.contains("ctree"), "{refused}");
    assert!(run(2, &["whisper", "--threads", "9"]).contains("at most 4"));
    assert!(run(2, &["whisper", "--ops", "0"]).contains("--ops"));
    assert!(run(2, &["whisper", "ctree,ctree"]).contains("twice"));
}
