//! A process that is killed at any time: its pool holds what it has announced, and at most the step
//! after that.

use crate::support::{command, compile, number_of, pool_in, pools, printed};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_clib::{TrialProgram, Whose};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// Starts a script, kills it when it has announced so many steps and perhaps some more; gives the
/// number of the last one, and what the pool holds.
fn killed(program: &TrialProgram, seed: u64, steps: u64) -> (u64, String) {
    let folder = pools();
    let pool = pool_in(&folder, "pool");
    let pool = pool.to_str().unwrap();
    let mut run = command(program, Whose::Ours);
    run.args(["run", pool, &seed.to_string(), "1000"]).stdout(Stdio::piped());
    let mut child = run.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = 0;
    for line in lines.by_ref().take(steps as usize) {
        last = line.unwrap().parse().unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    for line in lines {
        last = line.unwrap().parse().unwrap_or(last);
    }
    (last, printed(program, Whose::Ours, &["dump", pool]))
}

/// What the pool holds after so many steps.
fn whole(program: &TrialProgram, seed: u64, steps: u64) -> String {
    let folder = pools();
    let pool = pool_in(&folder, "pool");
    let pool = pool.to_str().unwrap();
    let arguments = ["run", pool, &seed.to_string(), &steps.to_string()];
    printed(program, Whose::Ours, &arguments);
    printed(program, Whose::Ours, &["dump", pool])
}

/// `SEAWALL_KILLS` kills more often.
#[test]
fn a_killed_process_leaves_what_it_announced_and_at_most_one_step_more() {
    let Some(program) = compile("a_killed_process_leaves_what_it_announced", "script") else {
        return;
    };
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(27);
    for kill in 0..number_of("SEAWALL_KILLS", 25) {
        let (seed, steps) = (rng.random_range(1..1 << 20), rng.random_range(1..120));
        let (last, found) = killed(&program, seed, steps);
        if found != whole(&program, seed, last) {
            assert_eq!(
                found,
                whole(&program, seed, last + 1),
                "kill {kill}: seed {seed}, killed behind step {last}"
            );
        }
    }
}

/// Starts threads that work together, and kills them when they have announced so many steps; gives
/// the last step of each.
fn killed_together(program: &TrialProgram, pool: &str, threads: u64, steps: u64) -> Vec<u64> {
    let mut run = command(program, Whose::Ours);
    run.args(["run", pool, &threads.to_string()]).stdout(Stdio::piped());
    let mut child = run.spawn().unwrap();
    let mut last = vec![0; threads as usize];
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for (line, number) in lines.zip(1..) {
        let line = line.unwrap();
        // The last one can be cut off.
        if let Some((thread, count)) = line.split_once(' ')
            && let (Ok(thread), Ok(count)) = (thread.parse::<usize>(), count.parse::<u64>())
        {
            last[thread] = count.max(last[thread]);
        }
        if number == steps {
            child.kill().unwrap();
        }
    }
    assert_eq!(child.wait().unwrap().code(), None, "{steps} steps of {threads} threads");
    last
}

/// `SEAWALL_KILLS` kills more often.
#[test]
fn threads_that_are_killed_leave_what_each_announced_and_at_most_one_step_more() {
    let Some(program) = compile("threads_that_are_killed", "together") else { return };
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(28);
    for kill in 0..number_of("SEAWALL_KILLS", 25) {
        let (threads, steps) = (rng.random_range(2..=32), rng.random_range(1..2000));
        let folder = pools();
        let pool = pool_in(&folder, "pool");
        let pool = pool.to_str().unwrap();
        let last = killed_together(&program, pool, threads, steps);
        let found = printed(&program, Whose::Ours, &["dump", pool]);
        assert!(!found.contains("WRONG"), "kill {kill}: {threads} threads, {steps} steps: {found}");
        let counts = found.lines().filter_map(|line| line.split_once(' '));
        let counts: Vec<u64> = counts.map(|(_, count)| count.parse().unwrap()).collect();
        for (last, count) in last.iter().zip(&counts) {
            assert!((*last..=last + 1).contains(count), "kill {kill}: {last}, found {count}");
        }
    }
}
