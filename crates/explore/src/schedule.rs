//! The order in which the threads of a run take turns: at random, by priorities, or every
//! interleaving with a bounded number of preemptions.
//!
//! - Random turns are what tests of threads usually do: they rarely hit a bug that needs one
//!   particular preemption, but reach unusual states.
//! - Priorities (Burckhardt, Kothari, Musuvathi, Nagarakatte, "A Randomized Scheduler with
//!   Probabilistic Guarantees of Finding Bugs", ASPLOS'10): the runnable thread of highest priority
//!   runs, and at `d - 1` random moments the running one drops to the lowest priority. A run of `n`
//!   threads and `k` steps hits a bug of depth `d` with probability at least 1 / (n k^(d-1)).
//! - Preemptions (Musuvathi, Qadeer, "Iterative Context Bounding", PLDI'07): a thread runs until it
//!   waits or ends, except for a bounded number of preemptions. All places for these are tried:
//!   before each access to a line (of DRAM: a word) that several threads use and one of them
//!   writes, and before each fence and output, as a crash can come between those of two threads.
//!   Runs that differ only in the order of accesses that do not conflict count as one. Where all
//!   stores persist in one order, or a conflict ends what persists atomically, every store is such
//!   a place. When a thread ends or waits, the next one in order runs; the others are not tried
//!   there, so some interleavings of three threads or more are left to the random schedules.

use crate::access::{Access, FENCES};
use crate::trace::{Event, Kind, Trace};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

/// How to run the threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Threads, at least 1.
    pub threads: usize,
    /// How the threads take turns.
    pub turns: Turns,
    /// Seed of the random choices. It also decides which lines of copies that hardware makes leave
    /// the caches by themselves; with 0 none does.
    pub seed: u64,
    /// Seam calls of all threads together after which the run is given up.
    pub steps: u64,
}

impl Default for Schedule {
    fn default() -> Schedule {
        Schedule { threads: 1, turns: Turns::Random, seed: 1, steps: 20_000_000 }
    }
}

/// How the threads take turns.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Turns {
    /// Turns of random length.
    #[default]
    Random,
    /// By random priorities, with this number of priority changes.
    Priorities(u32),
    /// Each thread until it waits or ends, except for these preemptions, in order.
    Preempted(Vec<Preemption>),
}

/// A preemption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Preemption {
    /// Before this seam call of the run, counted from 1 over all threads.
    pub before: u64,
    /// The thread that runs then, if it does not wait.
    pub to: u16,
}

/// The turns of a schedule in short, with the seed: `r7`, `p7.2` (two priority changes), `s`
/// (no preemption), `s40.1_52.0` (before call 40 thread 1 runs, before call 52 thread 0).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnsName(pub Turns, pub u64);

impl fmt::Display for TurnsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TurnsName(turns, seed) = self;
        match turns {
            Turns::Random => write!(f, "r{seed}"),
            Turns::Priorities(changes) => write!(f, "p{seed}.{changes}"),
            Turns::Preempted(all) => {
                f.write_str("s")?;
                for (at, Preemption { before, to }) in all.iter().enumerate() {
                    write!(f, "{}{before}.{to}", if at == 0 { "" } else { "_" })?;
                }
                Ok(())
            }
        }
    }
}

impl FromStr for TurnsName {
    type Err = ();

    fn from_str(text: &str) -> Result<TurnsName, ()> {
        let (kind, rest) = text.split_at_checked(1).ok_or(())?;
        let pair = |text: &str| -> Option<(u64, u32)> {
            let (first, second) = text.split_once('.')?;
            Some((first.parse().ok()?, second.parse().ok()?))
        };
        let preemption = |text: &str| {
            let (before, to) = pair(text)?;
            Some(Preemption { before, to: to.try_into().ok()? })
        };
        let name = match kind {
            "r" => TurnsName(Turns::Random, rest.parse().map_err(|_| ())?),
            "p" => {
                let (seed, changes) = pair(rest).ok_or(())?;
                TurnsName(Turns::Priorities(changes), seed)
            }
            "s" if rest.is_empty() => TurnsName(Turns::Preempted(Vec::new()), 0),
            "s" => {
                let all: Option<Vec<Preemption>> = rest.split('_').map(preemption).collect();
                TurnsName(Turns::Preempted(all.ok_or(())?), 0)
            }
            _ => return Err(()),
        };
        Ok(name)
    }
}

/// All runs with a bounded number of preemptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preemptions {
    /// Preemptions of one run at most.
    pub bound: usize,
    /// Distinct runs at most.
    pub limit: usize,
    /// The order of any two stores matters, as under strict persistency
    /// ([`Model::orders_all_stores`](crate::Model::orders_all_stores)).
    pub every_store: bool,
}

/// The distinct runs that were found.
pub struct Interleavings<R> {
    /// Each with its schedule, those with fewer preemptions first.
    pub runs: Vec<(Schedule, R)>,
    /// Runs that were made, including those equivalent to an earlier one.
    pub tried: usize,
    /// False if there are more than the limit.
    pub complete: bool,
}

impl Preemptions {
    /// Runs the program with every set of preemptions that the bound allows. What `record`
    /// returns holds the trace of the run.
    ///
    /// # Errors
    /// The error of the first run that fails.
    pub fn all<R: AsRef<Trace>, E>(
        &self,
        base: &Schedule,
        mut record: impl FnMut(&Schedule) -> Result<R, E>,
    ) -> Result<Interleavings<R>, E> {
        let mut found = Interleavings { runs: Vec::new(), tried: 0, complete: true };
        let mut seen = FxHashSet::default();
        let mut level = vec![Vec::new()];
        for _ in 0..=self.bound {
            let mut next = Vec::new();
            for preemptions in std::mem::take(&mut level) {
                if found.runs.len() == self.limit || found.tried == 100 * self.limit {
                    found.complete = false;
                    return Ok(found);
                }
                let turns = Turns::Preempted(preemptions);
                let schedule = Schedule { turns, ..base.clone() };
                let run = record(&schedule)?;
                found.tried += 1;
                // A run equivalent to an earlier one may have other places to preempt.
                next.extend(longer(&schedule, run.as_ref(), self.every_store));
                if seen.insert(likeness(run.as_ref(), self.every_store)) {
                    found.runs.push((schedule, run));
                }
            }
            level = next;
        }
        Ok(found)
    }
}

/// The preemptions of the schedule, extended by one later preemption in every way.
fn longer(schedule: &Schedule, trace: &Trace, every_store: bool) -> Vec<Vec<Preemption>> {
    let Turns::Preempted(before) = &schedule.turns else { return Vec::new() };
    let mut users: FxHashMap<u64, (u64, bool)> = FxHashMap::default();
    for access in &trace.accesses {
        let (threads, written) = users.entry(access.word).or_default();
        *threads |= 1 << (access.thread % 64);
        *written |= access.writes;
    }
    let shared = |word: &u64| {
        let several = |(threads, written): &(u64, bool)| threads.count_ones() > 1 && *written;
        *word == FENCES.bits() / 8 || users.get(word).is_some_and(several)
    };
    let last = before.last().map_or(0, |last| last.before);
    let stores = |at: &Access| every_store && at.writes && at.word < FENCES.bits() / 8;
    let is_place = |at: &&Access| at.call > last && (shared(&at.word) || stores(at));
    let places = trace.accesses.iter().filter(is_place);
    let others = |at: &Access| {
        let (call, thread) = (at.call, at.thread);
        let others = (0..schedule.threads as u16).filter(move |&to| to != thread);
        others.map(move |to| Preemption { before: call, to })
    };
    places.flat_map(others).map(|one| [&before[..], &[one]].concat()).collect()
}

fn is_fence(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Order
            | Kind::Join
            | Kind::Drain
            | Kind::Locked { .. }
            | Kind::Output { .. }
            | Kind::Grow { .. }
    )
}

/// A hash that is equal for runs which differ only in the order of events that do not conflict.
fn likeness(trace: &Trace, every_store: bool) -> u64 {
    let mut threads = vec![FxHasher::default(); trace.threads];
    let mut lines = vec![FxHasher::default(); trace.lines.len()];
    let mut writers = vec![(0u16, 0u32); trace.lines.len()];
    let mut stores = vec![0u32; trace.threads];
    let mut fences = FxHasher::default();
    // A store that no fence of its thread follows is itself ordered with the fences.
    let mut last = vec![None; trace.threads];
    for Event { thread, kind, .. } in &trace.events {
        let last = &mut last[usize::from(*thread)];
        *last = if is_fence(*kind) { None } else { kind.store().or(*last) };
    }
    for Event { thread, kind, at, .. } in &trace.events {
        let own = &mut threads[usize::from(*thread)];
        (at.file(), at.line(), at.column()).hash(own);
        match *kind {
            Kind::Read { line, word } => (0, word, writers[line as usize]).hash(own),
            Kind::Sync { stores: upto } => {
                let mut known = vec![0u32; trace.threads];
                for store in &trace.stores[..upto as usize] {
                    known[usize::from(trace.events[store.event as usize].thread)] += 1;
                }
                (1, known).hash(own);
            }
            Kind::Flush { line } => (2, trace.lines[line as usize].line).hash(own),
            Kind::WroteBack { line } => (6, trace.lines[line as usize].line).hash(own),
            Kind::Output { number } => (3, number).hash(own),
            Kind::Grow { bytes } => (5, bytes).hash(own),
            _ => {}
        }
        let is_last = kind.store().is_some() && kind.store() == last[usize::from(*thread)];
        let is_met = kind.store().is_some() || matches!(kind, Kind::Read { .. });
        if is_fence(*kind) || is_last || (every_store && is_met) {
            thread.hash(&mut fences);
        }
        if let Some(store) = kind.store() {
            let store = &trace.stores[store as usize];
            (4, store.at.bits(), store.new).hash(own);
            let number = &mut stores[usize::from(*thread)];
            *number += 1;
            (thread, *number).hash(&mut lines[store.line as usize]);
            writers[store.line as usize] = (*thread, *number);
        }
    }
    // Lines are numbered by first use, which differs between equivalent runs.
    let lines = lines.iter().zip(&trace.lines).map(|(hash, log)| {
        let mut line = FxHasher::default();
        (log.line, hash.finish()).hash(&mut line);
        line.finish()
    });
    let lines = lines.fold(0u64, u64::wrapping_add);
    let mut all = FxHasher::default();
    let threads: Vec<u64> = threads.iter().map(FxHasher::finish).collect();
    (fences.finish(), lines, threads).hash(&mut all);
    all.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::reachable;
    use crate::traced::{Traced, record};
    use seawall_memory::{Addr, Image, Memory, MemoryExt, Model};
    use std::collections::BTreeSet;

    fn interleavings(bound: usize, program: fn(&Traced<'_>)) -> Interleavings<Trace> {
        let base = Schedule { threads: 2, ..Schedule::default() };
        let preemptions = Preemptions { bound, limit: 1000, every_store: false };
        preemptions.all(&base, |turns| record(Image::new(1024, 64), turns, program)).unwrap()
    }

    #[test]
    fn threads_that_share_nothing_have_one_run() {
        let found = interleavings(3, |memory| {
            let own = Addr::pm(512 * memory.thread() as u64);
            (0..4).for_each(|line| memory.store(own.plus(64 * line), 1u64));
        });
        assert_eq!((found.runs.len(), found.tried, found.complete), (1, 1, true));
    }

    /// What a crash may leave of four words over all runs with at most three preemptions.
    fn left(model: Model, program: fn(&Traced<'_>)) -> BTreeSet<Vec<u64>> {
        let base = Schedule { threads: 2, ..Schedule::default() };
        let every_store = model.orders_all_stores();
        let preemptions = Preemptions { bound: 3, limit: 10_000, every_store };
        let found = preemptions.all(&base, |turns| record(Image::new(1024, 64), turns, program));
        let places = [64, 72, 128, 192].map(Addr::pm);
        let runs = found.unwrap().runs;
        runs.iter().flat_map(|(_, trace)| reachable(trace, model, &places).0).collect()
    }

    #[test]
    fn stores_to_words_of_one_line_are_tried_in_both_orders() {
        for model in Model::all() {
            let left = left(model, |memory| {
                let own = Addr::pm(64 + 8 * memory.thread() as u64);
                memory.store(own, 1u64);
                memory.persist(own, 8);
            });
            assert!(
                left.contains(&vec![0, 1, 0, 0]) && left.contains(&vec![1, 0, 0, 0]),
                "{model}"
            );
        }
    }

    #[test]
    fn stores_of_two_threads_are_tried_in_both_orders_where_that_is_the_image() {
        for model in Model::all() {
            let left = left(model, |memory| {
                memory.store(Addr::pm(128 + 64 * memory.thread() as u64), 1u64);
                memory.order();
            });
            assert!(
                left.contains(&vec![0, 0, 0, 1]) && left.contains(&vec![0, 0, 1, 0]),
                "{model}"
            );
        }
    }

    #[test]
    fn a_last_store_without_a_fence_is_tried_before_and_after_the_fences_of_others() {
        let left = left(Model::Px86, |memory| {
            let (a, b, c) = (Addr::pm(64), Addr::pm(128), Addr::pm(192));
            if memory.thread() == 1 {
                memory.store(a, 1u64);
                memory.store(b, 1u64);
                memory.persist(b, 8);
                memory.output(1);
            } else {
                memory.drain();
                if memory.load::<u64>(a) == 1 {
                    memory.store(c, 1u64);
                }
            }
        });
        assert!(left.contains(&vec![0, 0, 0, 1]) && left.contains(&vec![1, 0, 0, 1]), "{left:?}");
    }

    #[test]
    fn a_lost_update_needs_one_interruption() {
        let sums = |bound| {
            let found = interleavings(bound, |memory| {
                let sum = memory.load::<u64>(Addr::pm(64));
                memory.store(Addr::pm(64), sum + 1);
            });
            let last = |trace: &Trace| trace.stores.last().expect("two stores").new;
            found.runs.iter().map(|(_, trace)| last(trace)).collect::<Vec<u64>>()
        };
        assert_eq!(sums(0), [2]);
        assert!(sums(1).contains(&1));
    }

    #[test]
    fn a_limit_that_cuts_the_runs_is_reported() {
        let base = Schedule { threads: 2, ..Schedule::default() };
        let found = Preemptions { bound: 2, limit: 2, every_store: false }.all(&base, |turns| {
            record(Image::new(1024, 64), turns, |memory| {
                for _ in 0..3 {
                    memory.fetch_add(Addr::pm(64), 1);
                }
            })
        });
        let found = found.unwrap();
        assert_eq!((found.runs.len(), found.complete), (2, false));
    }

    #[test]
    fn the_name_of_turns_parses_to_the_same_turns() {
        for text in ["r7", "p7.2", "s", "s40.1", "s40.1_52.0"] {
            assert_eq!(text.parse::<TurnsName>().unwrap().to_string(), text);
        }
        for text in ["", "x1", "r", "p7", "s40", "s40.1_", "\u{e9}"] {
            assert!(text.parse::<TurnsName>().is_err(), "{text}");
        }
    }
}
