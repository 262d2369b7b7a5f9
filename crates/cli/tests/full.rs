//! A disk that fills up while a program works on it: each run ends well or says what to do, never
//! by a signal, and the pool is sound, and opens while the disk is still full.
//!
//! Needs a small file system of its own: this binary runs itself in a namespace in which it may
//! mount one (`unshare`, of util-linux), and says so where it may not. `SEAWALL_FILLS=300 cargo
//! test
//! --release -p seawall-cli --test full -- --nocapture` is the long run: so many of them, over all
//! programs that defragment, with each protocol and without a collector, and over some that grow.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const PLACE: &str = "SEAWALL_FULL_PLACE";
const BYTES: &str = "16m";
const PROGRAMS: [&str; 12] = [
    "c-redis", "c-ll", "map", "c-bt", "c-avl", "c-ss", "kv", "c-rb", "c-bztree", "c-fptree",
    "c-echo", "c-pmemkv",
];
const WAYS: [Option<&str>; 3] = [Some("sfccd:1.05:1.0"), Some("espresso:1.05:1.0"), None];

fn fills() -> u64 {
    std::env::var("SEAWALL_FILLS").map_or(4, |count| count.parse().expect("a number of runs"))
}

fn seawall(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seawall"));
    command.args(words).env("RUST_BACKTRACE", "0");
    command
}

fn said(output: &Output) -> String {
    let texts = [&output.stdout, &output.stderr];
    texts.map(|text| String::from_utf8_lossy(text).into_owned()).concat()
}

/// Writes zeros to a new file until there is no room; false if there was none for any.
fn fill(path: &Path) -> bool {
    let mut file = match File::create(path) {
        Ok(file) => file,
        Err(error) => return assert_full(&error),
    };
    let zeros = vec![0; 64 << 10];
    let mut is_new = false;
    loop {
        match file.write_all(&zeros) {
            Ok(()) => is_new = true,
            Err(error) => {
                assert_full(&error);
                return is_new;
            }
        }
    }
}

fn assert_full(error: &std::io::Error) -> bool {
    assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
    false
}

/// One run that the disk fills up beside; gives its exit code.
fn run(place: &Path, number: u64) -> i32 {
    let program = PROGRAMS[number as usize % PROGRAMS.len()];
    let way = WAYS[number as usize / PROGRAMS.len() % WAYS.len()];
    let (pool, seed) = (place.join("a.pool"), number.to_string());
    let file = pool.to_str().unwrap();
    let mut words = vec!["run", program, "--threads", "2", "--seconds", "1", "--seed", &seed];
    words.extend(["--file", file]);
    if program.starts_with("c-") {
        words.extend(way.into_iter().flat_map(|way| ["--defragment", way]));
    }
    let (out, err) = (Stdio::piped(), Stdio::piped());
    let mut child = seawall(&words).stdout(out).stderr(err).spawn().unwrap();
    let begun = Instant::now();
    let mut fillers = 0;
    while child.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{words:?} does not end");
        if begun.elapsed() > Duration::from_millis(200) {
            fillers += u64::from(fill(&place.join(format!("filler.{fillers}"))));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.signal(), None, "{words:?}\n{text}");
    let code = output.status.code().unwrap();
    assert!([0, 2].contains(&code) && !text.contains("panicked"), "{words:?} {code}\n{text}");
    let look = || {
        let looks: [&[&str]; 2] = [&["pool", "check", file], &["run", program, "--recover", file]];
        for words in looks.iter().filter(|_| pool.exists()) {
            let output = seawall(words).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{words:?}\n{}", said(&output));
        }
    };
    // To open it takes no space.
    fill(&place.join(format!("filler.{fillers}")));
    look();
    for filler in 0..=fillers {
        let _ = fs::remove_file(place.join(format!("filler.{filler}")));
    }
    look();
    let _ = fs::remove_file(&pool);
    code
}

#[test]
fn the_runs_in_a_namespace_of_their_own() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let codes: Vec<i32> = (0..fills()).map(|number| run(Path::new(&place), number)).collect();
    let full = codes.iter().filter(|code| **code == 2).count();
    println!("{} runs, {full} of which had no room at the end", codes.len());
}

#[test]
fn a_disk_that_fills_up_ends_no_program_by_a_signal_and_harms_no_pool() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let myself = std::env::current_exe().unwrap();
    let script = "mount -t tmpfs -o size=$0 tmpfs $1 && exec $2 --exact --nocapture $3";
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, BYTES, place]);
        command.arg(&myself).arg("the_runs_in_a_namespace_of_their_own").env(PLACE, place);
        command.output()
    };
    let may_mount = unshare("mount -t tmpfs -o size=$0 tmpfs $1");
    if !may_mount.is_ok_and(|tried| tried.status.success()) {
        println!("not run: this system lets nobody mount a small file system");
        return;
    }
    let output = unshare(script).unwrap();
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    print!("{}", text.lines().filter(|line| line.contains(" runs, ")).collect::<String>());
}
