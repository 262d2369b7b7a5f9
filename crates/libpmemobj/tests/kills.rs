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
