//! Which thread of a run goes next, and up to which call of the seam.

use crate::schedule::{Schedule, Turns};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The longest turn of a thread, in seam calls; each run draws one of these.
const SPANS: [u64; 4] = [3, 12, 48, 400];

/// The fewest calls among which priorities change; a seed draws up to 128 times as many.
const CHANGES_WITHIN: u64 = 8;

/// A thread runs, up to this call of the run and without it.
pub(crate) struct Turn {
    pub(crate) thread: usize,
    pub(crate) until: u64,
}

pub(crate) struct Dispatcher<'s> {
    turns: &'s Turns,
    /// The chosen threads, each with the call before which it runs.
    chosen: Vec<(u64, usize)>,
    rng: Xoshiro256PlusPlus,
    /// Longest random turn.
    span: u64,
    /// For each thread, highest first to run.
    priorities: Vec<i64>,
    /// Calls at which the running thread gets the lowest priority.
    changes: Vec<u64>,
    /// Changes or choices so far.
    done: usize,
    last: Option<usize>,
}

impl Dispatcher<'_> {
    pub(crate) fn new(schedule: &Schedule) -> Dispatcher<'_> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(schedule.seed);
        let span = SPANS[rng.random_range(0..SPANS.len())];
        let priorities = (0..schedule.threads).map(|_| rng.random_range(0..1 << 32)).collect();
        let changes = match schedule.turns {
            Turns::Priorities(changes) => changes,
            _ => 0,
        };
        let within = CHANGES_WITHIN << rng.random_range(0..8);
        let mut changes: Vec<u64> = (0..changes).map(|_| rng.random_range(1..within)).collect();
        changes.sort_unstable();
        let turns = &schedule.turns;
        let chosen = match turns {
            Turns::Chosen(all) => all.iter().filter_map(|choice| choice.thread()).collect(),
            _ => Vec::new(),
        };
        Dispatcher { turns, chosen, rng, span, priorities, changes, done: 0, last: None }
    }

    /// The turn after `calls` seam calls: one of the `ready` threads, which has been `running` if
    /// it neither ended nor waits.
    pub(crate) fn next(&mut self, ready: &[usize], running: Option<usize>, calls: u64) -> Turn {
        let (thread, until) = match self.turns {
            Turns::Random => {
                let thread = ready[self.rng.random_range(0..ready.len())];
                (thread, calls + 1 + self.rng.random_range(1..=self.span))
            }
            Turns::Priorities(_) => {
                while self.changes.get(self.done).is_some_and(|&at| at <= calls) {
                    self.done += 1;
                    if let Some(last) = self.last {
                        self.priorities[last] = -(self.done as i64);
                    }
                }
                let highest = ready.iter().max_by_key(|&&thread| self.priorities[thread]);
                let until = self.changes.get(self.done).map_or(u64::MAX, |at| at + 1);
                (*highest.expect("a thread is ready"), until)
            }
            Turns::Chosen(_) => {
                let mut wanted = None;
                let next = |done| self.chosen.get(done).filter(|(call, _)| *call <= calls + 1);
                while let Some((_, thread)) = next(self.done) {
                    self.done += 1;
                    wanted = Some(*thread).filter(|thread| ready.contains(thread));
                }
                let last = self.last.map_or(-1, |last| last as isize);
                let after = ready.iter().copied().find(|&thread| thread as isize > last);
                let thread = wanted.or(running).or(after).unwrap_or(ready[0]);
                (thread, self.chosen.get(self.done).map_or(u64::MAX, |(call, _)| *call))
            }
        };
        self.last = Some(thread);
        Turn { thread, until }
    }
}
