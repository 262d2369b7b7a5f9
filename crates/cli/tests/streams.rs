//! Streams that are gone, full or shared, limits of files, and outputs that fail: what a command
//! has found is not lost for it, and nothing else is either.

#![cfg(target_os = "linux")]

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const SEAWALL: &str = env!("CARGO_BIN_EXE_seawall");

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a line of the shell, in which `$0` is seawall.
fn shell(folder: &Path, line: &str) -> Output {
    let mut command = Command::new("bash");
    command.current_dir(folder).args(["-c", line, SEAWALL]).output().unwrap()
}

fn code(folder: &Path, line: &str) -> i32 {
    let output = shell(folder, line);
    output.status.code().unwrap_or_else(|| panic!("{line}: {output:?}"))
}

fn start(folder: &Path, line: &str) -> Child {
    let mut command = Command::new(SEAWALL);
    command.current_dir(folder).args(line.split(' '));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_ready(child: &Child) -> bool {
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten().flatten();
    let mut names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.any(|name| name.trim() == "signals")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_stderr_that_is_full_or_gone_changes_no_exit_code_and_loses_no_result() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    for to in ["2>/dev/full", "2>&-", "2> >(:)"] {
        assert_eq!(code(at, &format!("$0 pool info nosuch {to}")), 2, "{to}");
        let line = "$0 kernels radix:16,lu:8 --crashes 0 --json r.json";
        assert_eq!(code(at, &format!("{line} {to}")), 0, "{to}");
        let records = fs::read_to_string(at.join("r.json")).unwrap();
        assert!(records.lines().count() > 1, "{to}");
        fs::remove_file(at.join("r.json")).unwrap();
        let without = "ulimit -v 60000; $0 kernels lu:8 --crashes 1";
        assert_eq!(code(at, &format!("{without} {to}")), 2, "{to}");
    }
}

#[test]
fn a_signal_ends_a_command_whose_stderr_nobody_reads() {
    let folder = tempfile::tempdir().unwrap();
    for (name, line) in [
        ("-INT", "run queue --seconds 600"),
        ("-TERM", "kernels lu:2000 --crashes 0"),
        ("-TERM", "run queue --seconds 600"),
    ] {
        let mut child = start(folder.path(), line);
        drop(child.stderr.take());
        wait_until(line, || is_ready(&child));
        wait_until(line, || {
            signal(&child, name);
            std::thread::sleep(Duration::from_millis(20));
            child.try_wait().unwrap().is_some()
        });
        assert_eq!(child.wait().unwrap().code(), Some(2), "{line}");
    }
}

#[test]
fn what_is_open_is_added_to_and_has_nothing_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let run = |rest: &str| {
        fs::write(at.join("f"), "before\n").unwrap();
        let line = format!("$0 kernels lu:8 -d bsp-lb --crashes 0 {rest}");
        assert_eq!(code(at, &line), 0, "{line}");
        let said = fs::read_to_string(at.join("f")).unwrap();
        assert!(said.contains("\"kernel\":\"lu\""), "{line}: {said}");
        assert_eq!(names(at), ["f"], "{line}");
        said
    };
    for name in ["/dev/fd/3", "/proc/self/fd/3", "/proc/thread-self/fd/3"] {
        assert!(run(&format!("--json {name} 3>>f")).starts_with("before\n{"), "{name}");
    }
    let said = run("--json /dev/fd/1 >>f");
    assert!(said.starts_with("before\n") && said.contains("\n{"), "{said}");
    let line = "exec 3>>f; $0 kernels lu:8 -d bsp-lb --crashes 0 --json /proc/$$/fd/3; exit $?";
    fs::write(at.join("f"), "before\n").unwrap();
    assert_eq!(code(at, line), 0, "one of another process");
    assert!(fs::read_to_string(at.join("f")).unwrap().starts_with("before\n{"));
    let line = "{ $0 kernels lu:8 -d bsp-lb --crashes 0 --json /dev/fd/3; echo after >&3; } 3>f";
    assert_eq!(code(at, line), 0);
    let said = fs::read_to_string(at.join("f")).unwrap();
    assert!(said.starts_with('{') && said.ends_with("}\nafter\n"), "{said}");
    assert_eq!(code(at, "$0 kernels lu:8 --crashes 0 --json /dev/fd/3 3<f"), 2);
    assert_eq!(code(at, "$0 kernels lu:8 --crashes 0 --json /dev/fd/77"), 2);
}

#[test]
fn what_was_finished_goes_to_the_stream_itself() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let out = File::create(folder.path().join("f")).unwrap();
        let mut command = Command::new(SEAWALL);
        let words = ["kernels", "radix:64,lu:2000", "-d", "bsp-lb", "--crashes", "0", "-j", "1"];
        command.args(words).args(["--json", name]).stdout(out).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("radix: done") {
            assert!(stderr.read_line(&mut said).unwrap() > 0, "{said}");
        }
        signal(&child, "-INT");
        assert_eq!(child.wait().unwrap().code(), Some(2));
        let found = fs::read_to_string(folder.path().join("f")).unwrap();
        assert!(found.contains("\"partial\":true"), "{name}: {found}");
        let partial = format!("{name}.partial");
        assert!(fs::symlink_metadata(&partial).is_err(), "{partial} is there");
    }
}

#[test]
fn a_limit_for_files_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let output = shell(folder.path(), "ulimit -f 1; exec \"$0\" validate -m desktop --json v.json");
    let said = text(&output.stderr);
    assert_eq!((output.status.signal(), output.status.code()), (None, Some(2)), "{said}");
    assert!(said.contains("v.json") && said.contains("ulimit -f"), "{said}");
    assert!(names(folder.path()).is_empty(), "{:?}", names(folder.path()));
}

#[test]
fn an_output_that_fails_keeps_neither_the_text_nor_another_output() {
    let folder = tempfile::tempdir().unwrap();
    let output = shell(folder.path(), "$0 validate -m desktop --json /dev/full --plots pp");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("/dev/full") && said.contains("room"), "{said}");
    assert!(text(&output.stdout).contains("expected"), "no text");
    assert!(!names(&folder.path().join("pp")).is_empty(), "no plots");
    let line = "$0 kernels lu:8 --crashes 0 --json r.json --plot /dev/full > /dev/full";
    let said = text(&shell(folder.path(), line).stderr);
    assert!(said.contains("standard output") && said.contains("/dev/full"), "{said}");
    assert!(folder.path().join("r.json").exists());
}

#[test]
fn outputs_that_cannot_be_made_are_refused_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::os::unix::fs::symlink("/nowhere/at/all", at("dangling")).unwrap();
    fs::create_dir(at("old.json.partial")).unwrap();
    for rest in [
        "validate --plots /proc/x",
        "validate --plots dangling",
        "reproduce s2-fig11 --plots dangling",
        "kernels lu:2000 --json old.json",
    ] {
        let output = shell(folder.path(), &format!("timeout 5 $0 {rest}"));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{rest}: {said}");
        assert!(output.stdout.is_empty() && said.starts_with("error: "), "{rest}: {said}");
    }
}

#[test]
fn results_replace_no_pool_no_test_and_no_description() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let make = "$0 run queue --ops 5 --entries 8 --file";
    assert_eq!(code(folder.path(), &format!("{make} c.pool && {make} u.pool")), 0);
    for name in ["t.litmus", "m.toml", "old.json"] {
        fs::write(at(name), "precious").unwrap();
    }
    std::os::unix::fs::symlink("m.toml", at("link")).unwrap();
    let pool = fs::read(at("c.pool")).unwrap();
    for (line, what) in [
        ("run queue --ops 5 --json c.pool", "a pool"),
        ("pool check u.pool --json c.pool", "a pool"),
        ("pool check u.pool --json t.litmus", "a litmus test"),
        ("pool check u.pool --json m.toml", "a description"),
        ("pool check u.pool --json link", "a description"),
        ("kernels lu:8 --plot c.pool", "a pool"),
    ] {
        let output = shell(folder.path(), &format!("$0 {line}"));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(said.contains(what) && said.contains("remove it, or name another"), "{said}");
    }
    assert!(fs::read(at("c.pool")).unwrap() == pool);
    for name in ["t.litmus", "m.toml"] {
        assert_eq!(fs::read(at(name)).unwrap(), b"precious");
    }
    assert_eq!(code(folder.path(), "$0 pool check u.pool --json old.json"), 0);
    assert!(fs::read_to_string(at("old.json")).unwrap().contains("u.pool"), "results are replaced");
}

#[test]
fn a_run_writes_no_half_and_may_have_a_pool_of_that_name() {
    let folder = tempfile::tempdir().unwrap();
    let line = "$0 run queue --ops 5 --entries 8 --file a.partial --json a";
    assert_eq!(code(folder.path(), line), 0);
    assert_eq!(names(folder.path()), ["a", "a.partial"]);
}

#[test]
fn a_stop_leaves_the_plots_of_what_was_measured_beside_their_folder() {
    let folder = tempfile::tempdir().unwrap();
    for (name, workload, operations) in [("short", "hash", 20), ("long", "sps", 100_000_000)] {
        let figure = format!(
            "title = '{name}'\nsource = 'none'\nmachine = 'desktop'\noperations = {operations}\n\
             workloads = ['{workload}']\nmetric = 'throughput'\nbaseline = 'lb'\n\
             tolerance = 0.01\n[[series]]\nname = 'LB++'\ndesign = 'lbpp'\npaper = 9.0\n"
        );
        fs::write(folder.path().join(format!("{name}.toml")), figure).unwrap();
    }
    let line = "reproduce ./short.toml long.toml -j 1 --json r.json --plots plots";
    let mut child = start(folder.path(), line);
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("hash: done") {
        assert!(stderr.read_line(&mut said).unwrap() > 0, "{said}");
    }
    signal(&child, "-INT");
    std::io::Read::read_to_string(&mut stderr, &mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2), "{said}");
    assert!(said.contains("finished is in r.json.partial"), "{said}");
    assert!(said.contains("finished is in plots.partial"), "{said}");
    assert_eq!(names(&folder.path().join("plots.partial")), ["short.svg"]);
    assert!(!folder.path().join("plots").exists(), "{said}");
}

#[test]
fn no_part_of_a_file_is_left_and_one_thing_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let parts = |folder: &Path| {
        let names = if folder.exists() { names(folder) } else { Vec::new() };
        names.into_iter().filter(|name| name.ends_with(".part")).count()
    };
    let times = std::env::var("SEAWALL_STOPS").map_or(1, |times| times.parse().unwrap());
    for time in 0..times {
        let plots = at.join(format!("plots-{time}"));
        let mut child =
            start(at, &format!("validate -m desktop --json v.json --plots {}", plots.display()));
        while parts(&plots) == 0 && child.try_wait().unwrap().is_none() {}
        let both = format!("kill -INT {0}; kill -TERM {0}", child.id());
        shell(at, &both);
        child.wait().unwrap();
        let mut said = String::new();
        let stderr = child.stderr.as_mut().unwrap();
        std::io::Read::read_to_string(stderr, &mut said).unwrap();
        assert!(said.lines().count() <= 1, "{said}");
        assert_eq!((parts(at), parts(&plots)), (0, 0), "{said}");
    }
}

#[test]
fn recovery_of_a_pool_whose_head_is_damaged_allocates_nothing() {
    use std::os::unix::fs::{FileExt, MetadataExt};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p");
    assert_eq!(code(folder.path(), "$0 run map --ops 5 --entries 8 --file p"), 0);
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    file.set_len(1 << 28).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 200).unwrap();
    for bit in 0..8 {
        file.write_all_at(&[byte[0] ^ 1 << bit], 200).unwrap();
        let output = shell(folder.path(), "$0 run map --recover p");
        let said = text(&output.stderr);
        assert_ne!(output.status.code(), Some(0), "bit {bit}: {said}");
        let bytes = file.metadata().unwrap().blocks() * 512;
        assert!(bytes < 1 << 26, "bit {bit}: {bytes} bytes are allocated; {said}");
    }
}

#[test]
fn recovery_takes_memory_for_what_is_in_use_not_for_what_the_file_could_have() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(code(folder.path(), "$0 run map --ops 5 --entries 8 --file p"), 0);
    assert_eq!(code(folder.path(), "truncate -s 14T p"), 0);
    let output = shell(folder.path(), "ulimit -v 4000000; $0 run map --recover p");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}
