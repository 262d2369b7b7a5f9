//! Objects that move while programs use them, and are killed.

use crate::kills::{killed, often};
use crate::support::{Linked, Program, compile, pool_in, pools};
use seawall_clib::told;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// As the program says: how many numbers stay before those that are too far ahead are taken out,
/// and each so many stays for ever.
const LATE: u64 = 64;
const KEPT: u64 = 8;

/// What a queue has after so many steps.
fn queue(steps: u64) -> Vec<u64> {
    (0..steps).filter(|number| number % KEPT == 0 || number + LATE >= steps).collect()
}

fn listed(program: &Program, pool: &str) -> BTreeMap<u64, Vec<u64>> {
    let line = |line: &str| {
        let mut numbers = line.split(' ').map(|word| word.parse().expect("a number, and whole"));
        (numbers.next().expect("a queue"), numbers.collect())
    };
    program.printed(&[pool, "list"]).lines().map(line).collect()
}

fn queues_killed(program: &Program, threads: u64, lines: u64) {
    let folder = pools();
    let pool = pool_in(&folder);
    let last = killed(program, &[&pool, "fill", &threads.to_string(), "1000000"], lines);
    // What one run left half moved, the next goes on with, and is killed in turn.
    for (thread, found) in listed(program, &pool) {
        let said = last.get(&thread).map_or(0, |step| step + 1);
        assert!(
            found == queue(said) || found == queue(said + 1),
            "thread {thread} of {threads} has said {said} steps; found {found:?}"
        );
    }
    let before = listed(program, &pool);
    program.printed(&[&pool, "compact"]);
    assert_eq!(listed(program, &pool), before);
}

#[test]
fn killed_queues_have_what_they_announced_wherever_their_nodes_were_moving() {
    let test = "killed_queues_have_what_they_announced";
    let Some(program) = compile(test, "examples/queues.c", Linked::Shared) else { return };
    often(8, |lines| queues_killed(&program, 1, 10 * lines));
    often(8, |lines| queues_killed(&program, 8, 20 * lines));
}

/// Bytes of the disk that a file takes.
fn taken(path: &str) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

#[test]
fn a_compacted_pool_is_opened_without_taking_its_pages_back() {
    let test = "a_compacted_pool_is_opened";
    let Some(program) = compile(test, "examples/queues.c", Linked::Shared) else { return };
    for folder in [pools(), tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()] {
        let pool = pool_in(&folder);
        let run = |words: &[&str]| {
            // On a disk, too, where its own domain would wait for that in each step.
            let mut command = program.command();
            let done = command.arg(&pool).args(words).env("SEAWALL_DOMAIN", "line").output();
            let done = done.unwrap();
            assert!(done.status.success(), "{words:?}: {}", told(&done));
            done.stdout
        };
        run(&["fill", "2", "2000"]);
        let before = run(&["list"]);
        run(&["compact"]);
        let compacted = taken(&pool);
        let bytes = fs::metadata(&pool).unwrap().len();
        if compacted + (64 << 10) > bytes {
            println!("{test}: this file system makes no holes in {}", folder.path().display());
            continue;
        }
        assert_eq!(run(&["list"]), before);
        let taken = taken(&pool);
        assert!(taken <= compacted, "{compacted} bytes of the disk, and then {taken}");
        run(&["fill", "2", "3000"]);
    }
}

#[test]
fn a_pool_is_compacted_while_threads_use_it() {
    let test = "a_pool_is_compacted";
    for linked in [Linked::Shared, Linked::Static] {
        let Some(program) = compile(test, "examples/queues.c", linked) else { return };
        // How much moves depends on when the collector runs: on a busy computer the first fill may
        // be over before.
        let mut tries = 0;
        let (_folder, pool) = loop {
            let folder = pools();
            let pool = pool_in(&folder);
            let done = program.run(&[&pool, "fill", "4", "9000"]);
            assert!(done.status.success(), "{linked:?}: {}", told(&done));
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            let emptied = said.split(' ').next().and_then(|word| word.parse::<u64>().ok());
            tries += 1;
            if emptied.is_some_and(|pages| pages > 50) {
                break (folder, pool);
            }
            assert!(tries < 5, "{linked:?}: {said}");
        };
        let expected = |thread| queue(if thread < 4 { 9000 } else { 0 });
        let expected = (0..16).map(|thread| (thread, expected(thread))).collect::<BTreeMap<_, _>>();
        assert_eq!(listed(&program, &pool), expected, "{linked:?}");
        program.printed(&[&pool, "compact"]);
        assert_eq!(listed(&program, &pool), expected, "{linked:?}");
    }
}
