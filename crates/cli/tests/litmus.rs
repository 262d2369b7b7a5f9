//! `seawall litmus` from outside: exit codes, what it prints, and what it refuses.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Runs `seawall litmus`, wants exit code `code`, gives what it printed.
fn litmus(code: i32, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
    let output = command.arg("litmus").args(args).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "litmus {args:?}\n{out}\n{err}");
    assert!(!err.contains("panicked"), "litmus {args:?}\n{err}");
    if code == 2 { err } else { out }
}

/// A folder with a file in it, and the file's path.
fn file(name: &str, content: &[u8]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join(name);
    fs::write(&path, content).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

#[test]
fn the_suite_agrees_with_every_model() {
    let printed = litmus(0, &["--designs", "none"]);
    for model in ["px86", "strict", "epoch", "bep", "bsp", "hops", "strand", "eadr"] {
        let line = printed.lines().find(|line| line.starts_with(&format!("{model} ")));
        let line = line.unwrap_or_else(|| panic!("{model} is missing in\n{printed}"));
        assert!(line.contains("expectations met") && !line.contains("NOT"), "{line}");
    }
    assert!(printed.lines().all(|line| line.len() <= 110), "{printed}");
}

#[test]
fn a_users_file_is_run_and_its_outcomes_are_printed() {
    let (_folder, path) = file("mine.litmus", b"thread: W x 1 ; PB ; FAA y 12\n");
    let printed = litmus(0, &[&path, "--models", "bep,px86", "--designs", "lbpp"]);
    assert!(printed.contains("00 10 1,12"), "{printed}");
    assert!(printed.contains("0,12"), "x86 does not order them: {printed}");
    assert!(printed.contains("of 3 outcomes of bep"), "{printed}");
}

#[test]
fn an_expectation_that_is_wrong_is_found_and_the_way_to_it_is_told() {
    let text = b"thread: W x 1 ; CO x ; W y 1\nquestion: x=0 & y=1\npx86: forbidden; 00 10 11\n";
    let (_folder, path) = file("wrong.litmus", text);
    let json = PathBuf::from(&path).with_extension("json");
    let args = [path.as_str(), "--designs", "none", "--models", "px86", "--json"];
    let printed = litmus(1, &[&args[..], &[json.to_str().unwrap()]].concat());
    for words in ["DISAGREES: model px86", "reached and forbidden", "01 after:", "thread 1: W y 1"]
    {
        assert!(printed.contains(words), "{words} is not in\n{printed}");
    }
    let record: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(record["models"][0]["agrees"], false);
    assert_eq!(record["models"][0]["forbidden"][0], "01");
}

#[test]
fn a_broken_design_is_found_and_the_crash_is_told() {
    let design = "clwb:flaw='fences-early'";
    let args = ["N31", "F06", "--models", "none", "--designs", design, "--crashes", "500"];
    let printed = litmus(1, &args);
    for words in ["BROKEN: design clwb", "power fails at cycle", "which is forbidden", "BAD"] {
        assert!(printed.contains(words), "{words} is not in\n{printed}");
    }
    assert_eq!(printed, litmus(1, &args), "the same seed gives the same bytes");
}

#[test]
fn what_cannot_be_run_is_refused_with_the_remedy() {
    let refuses = |args: &[&str], words: &[&str]| {
        let message = litmus(2, args);
        for word in words {
            assert!(message.contains(word), "litmus {args:?}: {word} is not in\n{message}");
        }
    };
    let (_folder, path) = file("bad.litmus", b"title: x\nthread: W x 1 ; WW y 1\n");
    refuses(&[&path], &["bad.litmus:2:", "unknown instruction `WW`", "W x v"]);
    let (_folder, path) = file("bytes.litmus", b"\xff\xfe\x00");
    refuses(&[&path], &["bytes.litmus:1:", "UTF-8"]);
    refuses(&["A99"], &["A99", "idioms", ".litmus"]);
    refuses(&["missing.litmus"], &["missing.litmus", "cannot read"]);
    refuses(&["--models", "px87"], &["px87", "px86"]);
    refuses(&["--designs", "lbq"], &["lbq", "lbpp"]);
    refuses(&["--designs", "volatile"], &["volatile", "promises nothing"]);
    refuses(&["--designs", "bsp-lb:log=false"], &["bsp-lb:log=false", "promises nothing"]);
    refuses(&["--crashes", "0"], &["--crashes is 0", "1 to"]);
    refuses(&["--long", "--crashes", "5"], &["--crashes"]);
    refuses(&["--json", "/no/such/folder/x.json"], &["/no/such/folder/x.json"]);
}

#[test]
fn a_file_with_too_many_interleavings_is_cut_and_says_so() {
    let thread = "thread: W x 1 ; W y 1 ; W z 1 ; W x 2 ; W y 2 ; W z 2 ; W x 3 ; W y 3\n";
    let (_folder, path) = file("long.litmus", thread.repeat(4).as_bytes());
    let printed = litmus(0, &[&path, "--models", "strict", "--designs", "strict"]);
    assert!(printed.contains("CUT after 500000 states"), "{printed}");
    assert!(printed.contains("in 0 crashes"), "nothing is forbidden then: {printed}");
}
