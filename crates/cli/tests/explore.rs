//! `seawall explore` from outside: its words and its exit codes.

use std::process::Command;

/// Runs it, wants exit code `code`, gives what it printed.
fn run(code: i32, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_seawall")).args(args).output().unwrap();
    let said = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (out, err) = (said(output.stdout), said(output.stderr));
    assert_eq!(output.status.code(), Some(code), "seawall {args:?}\n{out}\n{err}");
    if code == 2 { err } else { out }
}

#[test]
fn exploring_finds_nothing_unless_the_structure_is_broken() {
    let quick = ["explore", "hash", "--ops", "3", "--budget", "3000"];
    let fine = run(0, &quick);
    assert!(fine.contains("px86") && fine.contains("bep"), "{fine}");
    let found = run(1, &["explore", "hash", "--broken"]);
    let command = found.lines().find_map(|line| line.trim().strip_prefix("replay: seawall "));
    let command: Vec<&str> = command.expect("a command").split(' ').collect();
    assert!(run(1, &command).contains("FAILS"));
}

#[test]
fn what_must_be_complete_and_is_not_has_exit_code_1() {
    let all = ["explore", "queue", "--ops", "3", "--model", "px86"];
    let required = |more: &[&'static str]| [&all[..], more, &["--require-complete"]].concat();
    assert!(run(0, &required(&[])).contains("complete: "));
    let part = ["--budget", "3"];
    assert!(run(0, &[&all[..], &part].concat()).contains("not complete"));
    let short = run(1, &required(&part));
    assert!(short.contains("not all: --require-complete"), "{short}");
    let refused = run(2, &required(&["--shard", "1/2"]));
    assert!(refused.contains("--require-complete") && refused.contains("--shard"), "{refused}");
}
