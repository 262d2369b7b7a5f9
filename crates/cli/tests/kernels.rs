//! `seawall kernels` from outside: exit codes, what it prints and writes, and what it refuses.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs `seawall`, wants exit code `code`, gives what it printed.
fn run(code: i32, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_seawall")).args(args).output().unwrap();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "seawall {args:?}\n{out}\n{err}");
    assert!(!err.contains("panicked"), "seawall {args:?}\n{err}");
    if code == 2 { err } else { out }
}

const SMALL: [&str; 9] = [
    "kernels",
    "lu,radix",
    "--machine",
    "desktop",
    "--size",
    "small",
    "--designs",
    "bsp-lb:stores=100,bsp-lbpp:stores=100",
    "--crashes=9",
];

fn small<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SMALL.iter().chain(more).copied().collect()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn every_kernel_is_listed_timed_held_to_its_result_and_crashed() {
    let printed = run(0, &small(&["--traffic"]));
    for words in [
        "4 threads on desktop, seed 1, parallel part; time over volatile",
        "6 results held to a plain computation: all right",
        "36 crashes, recovered and held to the recorded run: each left a consistent cut",
        "Kstores",
        "18 ok",
    ] {
        assert!(printed.contains(words), "{words} in\n{printed}");
    }
    assert!(printed.lines().any(|line| line.starts_with("radix") && line.contains("1.00")));
    let list = run(0, &["list", "kernels"]);
    assert!(list.contains("ssca2") && list.contains("edges"), "{list}");
}

#[test]
fn kernels_twice_write_the_same_bytes_with_everything_that_was_asked() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, more: &[&str]| {
        let file = folder.path().join(name);
        let printed = run(0, &[&small(more)[..], &["--json", path(&file)]].concat());
        (printed, fs::read_to_string(&file).unwrap())
    };
    let first = write("one", &[]);
    assert_eq!(first, write("two", &["--jobs", "1"]));
    assert_ne!(first.1, write("three", &["--seed", "2"]).1);
    assert_eq!(first.1.lines().count(), 6);
    for line in first.1.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        for key in ["kernel", "design", "size", "unit", "cycles", "time", "right", "log_share"] {
            assert!(!record[key].is_null(), "{key} in {line}");
        }
        assert_eq!(record["extent"], "parallel", "{line}");
        assert!(record["command"].as_str().unwrap().contains(" --extent parallel "), "{line}");
        let is_judged = record["design"] != "volatile";
        assert_eq!(record["crashes"].as_u64(), is_judged.then_some(9), "{line}");
        assert_eq!(record["parameters"]["stores"].as_u64(), is_judged.then_some(100), "{line}");
        assert!(record["counters"]["conflicts_inter"].is_u64(), "{line}");
    }
}

#[test]
fn a_broken_design_is_found_with_the_command_that_repeats_it() {
    let design = "bsp-lbpp:stores=25:flaw=flushes-before-log";
    let args = ["kernels", "ssca2:600", "--machine", "desktop", "--designs", design];
    let found = run(1, &[&args[..], &["--crashes", "60"]].concat());
    assert!(found.contains("BROKEN ssca2") && found.contains("NO CONSISTENT CUT"), "{found}");
    let command = found.lines().find_map(|line| line.trim().strip_prefix("repeat: seawall "));
    let command: Vec<&str> = command.expect("a command").split(' ').collect();
    assert!(run(1, &command).contains("BROKEN"));
    let found = run(1, &[&args[..], &["--crashes", "60", "--extent", "bare"]].concat());
    let command = found.lines().find_map(|line| line.trim().strip_prefix("repeat: seawall "));
    let command: Vec<&str> = command.expect("a command").split(' ').collect();
    assert!(run(1, &command).contains("heap accesses alone"), "{command:?}");
}

#[test]
fn a_design_that_promises_nothing_to_such_programs_is_not_crashed() {
    let designs = "bsp-lbpp:log=false,bsp-naive,clwb";
    let args = ["kernels", "lu", "--machine", "desktop", "--size", "small", "--designs", designs];
    let printed = run(0, &args);
    assert!(printed.contains("\n0 crashes"), "{printed}");
    assert!(printed.contains("- where a design promises none"), "{printed}");
    let rows = printed.lines().filter(|line| line.contains("log=false") && line.ends_with(" -"));
    assert_eq!(rows.count(), 2, "{printed}");
    let printed = run(0, &[&SMALL[..8], &["--crashes=0"]].concat());
    assert!(printed.contains("all right\n") && !printed.contains("0 crashes"), "{printed}");
    assert!(!printed.contains("consistent cut") && !printed.contains("0 ok"), "{printed}");
}

#[test]
fn what_kernels_cannot_run_with_is_named_with_what_they_can() {
    let refuses = |args: &[&str], words: &[&str]| {
        let message = run(2, &[&["kernels"], args].concat());
        for word in words {
            assert!(message.contains(word), "seawall kernels {args:?}: {word} in\n{message}");
        }
    };
    refuses(&["oceans"], &["oceans", "ssca2, vacation"]);
    refuses(&["lu,lu:9"], &["kernel lu", "twice"]);
    refuses(&["lu:x"], &["size is x", "small, quick, full or a number"]);
    refuses(&["lu:0"], &["size is 0", "1 to"]);
    refuses(&["ocean:16384"], &["less", "ocean"]);
    refuses(&["--size", "huge"], &["huge", "small, quick, full"]);
    refuses(&["--designs", "lbq"], &["lbq", "bsp-lbpp"]);
    refuses(&["--designs", "bsp-lb:epoch=3"], &["epoch", "epochs"]);
    refuses(&["--baseline", "none"], &["none", "volatile"]);
    refuses(&["--threads", "0"], &["--threads", "at least 1"]);
    refuses(&["--threads", "33"], &["33 threads", "at most 32"]);
    refuses(&["--crashes", "99999999"], &["--crashes"]);
    refuses(&["--jobs", "0"], &["--jobs"]);
    refuses(&["--json", "/no/such/folder/x"], &["/no/such/folder/x", "writable"]);
    refuses(&["--json", "x", "--plot", "x"], &["same file"]);
    assert!(!Path::new("x").exists());
}

#[test]
fn kernels_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plot.svg");
    run(0, &small(&["--plot", path(&file)]));
    let svg = fs::read_to_string(&file).unwrap();
    for words in ["time over volatile", "radix", "inter-thread conflict", "</svg>"] {
        assert!(svg.contains(words), "{words}");
    }
}

#[cfg(unix)]
#[test]
fn interrupted_kernels_say_that_they_are_partial() {
    let child = Command::new(env!("CARGO_BIN_EXE_seawall"))
        .args(["kernels", "lu:2000", "--designs", "bsp-lb"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "PARTIAL: stopped before any result was complete\n");
}
