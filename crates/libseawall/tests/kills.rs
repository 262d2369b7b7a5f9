//! Programs that are killed at any time: the pool holds what each thread has announced, and at most
//! the step after that.

use crate::support::{Linked, Program, compile, number_of, pool_in, pools};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_clib::told;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;
use tempfile::TempDir;

/// Runs a program, kills it when it has said so many lines and perhaps some more; gives the last
/// number that each thread has said.
pub(crate) fn killed(program: &Program, arguments: &[&str], lines: u64) -> BTreeMap<u64, u64> {
    let mut child = program.command().args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = BTreeMap::new();
    let mut note = |line: String| {
        let mut words = line.split(' ').map(|word| word.parse::<u64>());
        if let (Some(Ok(thread)), Some(Ok(step))) = (words.next(), words.next()) {
            last.insert(thread, step);
        }
    };
    for line in said.by_ref().take(lines as usize) {
        note(line.unwrap());
    }
    child.kill().unwrap();
    let signal = child.wait().unwrap().signal();
    assert_eq!(signal, Some(9), "{arguments:?}: it has ended before");
    // A line may be cut off only at its end, as each is one write.
    said.map_while(Result::ok).for_each(&mut note);
    last
}

/// What the phone book lists of one thread after so many steps.
fn listed(thread: u64, steps: u64) -> Vec<String> {
    let is_gone = |step: u64| step % 3 == 1 && step + 1 < steps;
    let kept = (0..steps).filter(|step| !is_gone(*step));
    kept.map(|step| format!("{} {thread}-{step}", thread * 1_000_000 + step)).collect()
}

/// The kinds of pools.
#[derive(Clone, Copy)]
enum Made<'a> {
    /// By the program itself.
    Usual,
    /// For stores in place, by this program.
    InPlace(&'a Program),
}

/// A folder for the pool of a program that calls its data so, and the pool.
fn made(kind: Made<'_>, layout: &str) -> (TempDir, String) {
    let folder = pools();
    let pool = pool_in(&folder);
    if let Made::InPlace(plain) = kind {
        plain.printed(&[&pool, "make", layout]);
    }
    (folder, pool)
}

fn phonebook_killed(program: &Program, kind: Made<'_>, threads: u64, lines: u64) {
    let (_folder, pool) = made(kind, "phonebook 1");
    let last = killed(program, &[&pool, "fill", &threads.to_string(), "100000"], lines);
    let found = program.printed(&[&pool, "list"]);
    for thread in 0..threads {
        let own = format!("{thread}-");
        let of_thread = |line: &&str| line.split(' ').nth(1).unwrap().starts_with(&own);
        let found: Vec<&str> = found.lines().filter(of_thread).collect();
        let said = last.get(&thread).map_or(0, |step| step + 1);
        assert!(
            found == listed(thread, said) || found == listed(thread, said + 1),
            "thread {thread} of {threads} has said {said} steps; found {found:?}"
        );
    }
}

fn accounts_killed(program: &Program, kind: Made<'_>, threads: u64, lines: u64) {
    let (_folder, pool) = made(kind, "accounts 1");
    let last = killed(program, &[&pool, "transfer", &threads.to_string(), "100000"], lines);
    for line in program.printed(&[&pool, "check"]).lines() {
        let (thread, found) = line.split_once(' ').unwrap();
        let said = last.get(&thread.parse().unwrap()).copied().unwrap_or(0);
        let found: u64 = found.parse().unwrap();
        assert!(found == said || found == said + 1, "thread {thread}: {found}, said {said}");
    }
}

fn plain_killed(program: &Program, lines: u64) {
    let folder = pools();
    let pool = pool_in(&folder);
    let last = killed(program, &[&pool, "run"], lines);
    let found: u64 = program.printed(&[&pool, "read"]).trim().parse().unwrap();
    let said = last.get(&0).copied().unwrap_or(0);
    assert!(found == said || found == said + 1, "{found}, said {said}");
}

/// Kills often, after a random number of lines. `SEAWALL_KILLS` kills more often.
pub(crate) fn often(usual: u64, mut kill: impl FnMut(u64)) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(31);
    for _ in 0..number_of("SEAWALL_KILLS", usual) {
        kill(rng.random_range(1..400));
    }
}

#[test]
fn a_killed_phone_book_has_what_it_announced_and_at_most_one_step_of_each_thread_more() {
    let test = "a_killed_phone_book_has_what_it_announced";
    let Some(program) = compile(test, "examples/phonebook.c", Linked::Shared) else { return };
    let Some(plain) = compile(test, "tests/c/plain.c", Linked::Shared) else { return };
    for kind in [Made::Usual, Made::InPlace(&plain)] {
        often(10, |lines| phonebook_killed(&program, kind, 1, lines));
        often(5, |lines| phonebook_killed(&program, kind, 64, 8 * lines));
    }
}

/// A file that was not finished is refused, and nothing else.
#[test]
fn a_pool_whose_making_is_killed_is_whole_or_refused() {
    let test = "a_pool_whose_making_is_killed";
    let Some(program) = compile(test, "examples/phonebook.c", Linked::Shared) else { return };
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
    for _ in 0..number_of("SEAWALL_KILLS", 60) {
        let folder = pools();
        let pool = pool_in(&folder);
        let mut child = program.command().args([&pool, "list"]).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(rng.random_range(500..6000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let output = program.run(&[&pool, "list"]);
        let said = told(&output);
        let is_refused = said.contains("not a seawall pool") || said.contains("0 bytes");
        assert!(output.status.success() || is_refused, "{said}");
    }
}

#[test]
fn killed_accounts_have_the_same_sum_and_what_they_announced() {
    let test = "killed_accounts_have_the_same_sum";
    let Some(program) = compile(test, "examples/accounts.cpp", Linked::Shared) else { return };
    let Some(plain) = compile(test, "tests/c/plain.c", Linked::Shared) else { return };
    for kind in [Made::Usual, Made::InPlace(&plain)] {
        often(10, |lines| accounts_killed(&program, kind, 1, lines));
        often(5, |lines| accounts_killed(&program, kind, 64, 8 * lines));
    }
}

#[test]
fn what_a_killed_program_has_persisted_without_transactions_is_there() {
    let test = "what_a_killed_program_has_persisted";
    let Some(program) = compile(test, "tests/c/plain.c", Linked::Shared) else { return };
    often(12, |lines| plain_killed(&program, lines));
}
