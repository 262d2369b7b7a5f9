//! Runs under an observer: the images of crashes at many cycles, and the times at which a program's
//! outputs took effect.

use crate::hops::word;
use seawall_memory::{Addr, Memory};
use seawall_sim::{
    Choice, Crash, Cycle, Machine, Observer, Program, RunOutcome, SimError, Simulation,
};
use std::cell::RefCell;
use std::rc::Rc;

/// Persistent and volatile bytes of a run.
const PM: usize = 1 << 14;
const DRAM: usize = 128;
/// No such program takes longer, unless it is stuck.
const CYCLES_MAX: Cycle = 1 << 20;

/// The machine of ASAP, with some numbers changed.
pub(crate) fn asap22(changes: &[(&str, i64)]) -> Machine {
    let integer = |(key, value): &(&str, i64)| ((*key).into(), toml::Value::Integer(*value));
    let changes: Vec<_> = changes.iter().map(integer).collect();
    Machine::load("asap22").unwrap().with("changed", &changes).unwrap()
}

/// A program that only requests a crash every four cycles.
pub(crate) fn clock(crashes: usize) -> Program {
    Box::new(move |memory| {
        for _ in 0..crashes {
            memory.work(8);
            memory.output(0);
        }
    })
}

/// The images of crashes, and the times of outputs.
#[derive(Default)]
struct Crashes {
    images: Vec<(Cycle, Vec<u8>)>,
    outputs: Vec<(u64, Cycle)>,
}

impl Observer for Crashes {
    fn output(&mut self, _: usize, number: u64, now: Cycle) -> Option<Cycle> {
        self.outputs.push((number, now));
        Some(now)
    }

    fn crash(&mut self, now: Cycle, crash: Crash) {
        self.images.push((now, crash.pm));
    }
}

/// A run that has ended, with a crash at each output.
pub(crate) struct Watched {
    pub(crate) outcome: RunOutcome,
    crashes: Crashes,
}

impl Watched {
    /// The values that each crash left in some words, in time order.
    pub(crate) fn left<const N: usize>(&self, at: [Addr; N]) -> Vec<(Cycle, [u64; N])> {
        let left = |(now, pm): &(Cycle, Vec<u8>)| (*now, at.map(|at| word(pm, at)));
        self.crashes.images.iter().map(left).collect()
    }

    /// As [`left`](Watched::left), without the times and without repetitions.
    pub(crate) fn versions<const N: usize>(&self, at: [Addr; N]) -> Vec<[u64; N]> {
        let mut versions: Vec<_> = self.left(at).into_iter().map(|(_, words)| words).collect();
        versions.dedup();
        versions
    }

    /// When output `number` took effect.
    pub(crate) fn time(&self, number: u64) -> Cycle {
        let mut outputs = self.crashes.outputs.iter();
        outputs.find(|(other, _)| *other == number).expect("it came").1
    }

    /// The value that the crash at output `number` left in a word.
    pub(crate) fn left_at(&self, number: u64, at: Addr) -> u64 {
        let time = self.time(number);
        let mut images = self.crashes.images.iter();
        word(&images.find(|(now, _)| *now == time).expect("a crash at each output").1, at)
    }
}

/// Runs `programs` with a zeroed memory.
pub(crate) fn watch(
    machine: &Machine,
    design: &str,
    programs: Vec<Program>,
) -> Result<Watched, SimError> {
    let design = Choice::parse(design).unwrap();
    let crashes = Rc::new(RefCell::new(Crashes::default()));
    let outcome = Simulation::new(machine, &design, vec![0; PM], vec![0; DRAM])
        .watched_by(crashes.clone())
        .at_most(CYCLES_MAX)
        .run(programs)?;
    let crashes = crashes.take();
    Ok(Watched { outcome, crashes })
}
