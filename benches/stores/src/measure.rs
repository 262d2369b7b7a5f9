//! Rounds in turns, as in `benches/compare`: every contender once, the next round in the reverse
//! order, the first round does not count. Time is the wall time of the slowest thread over the
//! operations of one thread, without the time in which another process had the thread's CPU.

use crate::store::{Contender, Store, Worker, value};
use anyhow::{Context, Result, ensure};
use rand::seq::SliceRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_bench_common::Spread;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

/// Look-ups of one read transaction.
pub(crate) const GETS: usize = 100;
/// Entries of a scan.
pub(crate) const SCANNED: usize = 100;
/// Entries of a transaction that fills a store before it is measured.
const FILLED: usize = 1000;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) keys: usize,
    pub(crate) operations: usize,
}

/// The operations, in the order in which a round does them, each once in so many of the operations
/// that are asked for.
pub(crate) const OPERATIONS: [(&str, usize); 6] = [
    ("insert", 1),
    ("look up", 1),
    ("scan of 100", 20),
    ("transaction of 1 change", 1),
    ("transaction of 10 changes", 4),
    ("transaction of 100 changes", 20),
];

/// The keys of a run, in random order: those that a store is filled with, and those that the
/// operation `insert` puts in.
pub(crate) struct Keys {
    filled: Vec<u64>,
    inserted: Vec<u64>,
    sorted: Vec<u64>,
}

impl Keys {
    pub(crate) fn new(sizes: &Sizes, threads: usize) -> Keys {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let count = sizes.keys + sizes.operations * threads;
        let mut all = BTreeSet::new();
        while all.len() < count {
            all.insert(random.next_u64() >> 1);
        }
        let mut all: Vec<u64> = all.into_iter().collect();
        all.shuffle(&mut random);
        let inserted = all.split_off(sizes.keys);
        let mut sorted: Vec<u64> = all.iter().chain(&inserted).copied().collect();
        sorted.sort_unstable();
        Keys { filled: all, inserted, sorted }
    }
}

/// Nanoseconds for an operation of each kind; none of a kind that the store does not have.
type Sample = [Option<f64>; OPERATIONS.len()];

/// What a contender took, round by round.
pub(crate) struct Measured {
    pub(crate) contender: &'static Contender,
    pub(crate) threads: usize,
    /// For each operation a value of each round.
    pub(crate) ns: [Vec<f64>; OPERATIONS.len()],
}

impl Measured {
    /// What an operation took; nothing if the store does not have it.
    pub(crate) fn time(&self, operation: usize) -> Option<Spread> {
        let times = &self.ns[operation];
        (!times.is_empty()).then(|| Spread::of(times))
    }
}

/// Runs `rounds` rounds of all contenders, in folders of their own below `folder`.
pub(crate) fn run(
    contenders: &[&'static Contender],
    folder: &Path,
    sizes: &Sizes,
    threads: usize,
    rounds: usize,
) -> Result<Vec<Measured>> {
    let keys = Keys::new(sizes, threads);
    let new = |contender: &&'static Contender| Measured {
        contender,
        threads,
        ns: std::array::from_fn(|_| Vec::new()),
    };
    let mut all: Vec<Measured> = contenders.iter().map(new).collect();
    for round in 0..=rounds {
        eprintln!("{threads} thread(s), round {round} of {rounds}");
        let mut order: Vec<usize> = (0..all.len()).collect();
        if !round.is_multiple_of(2) {
            order.reverse();
        }
        for index in order {
            let contender = all[index].contender;
            let sample = once(contender, folder, (sizes, &keys), threads);
            let sample = sample.with_context(|| format!("{} failed", contender.name()))?;
            if round > 0 {
                let noted = all[index].ns.iter_mut().zip(sample);
                noted.for_each(|(noted, time)| noted.extend(time));
            }
        }
    }
    Ok(all)
}

fn once(
    contender: &Contender,
    folder: &Path,
    (sizes, keys): (&Sizes, &Keys),
    threads: usize,
) -> Result<Sample> {
    let folder = tempfile::tempdir_in(folder)?;
    let store = (contender.open)(folder.path())?;
    store.work(&mut |worker| {
        for part in keys.filled.chunks(FILLED) {
            let entries: Vec<_> = part.iter().map(|key| (*key, value(*key, 0))).collect();
            worker.put(&entries)?;
        }
        Ok(())
    })?;
    let mut sample = [None; OPERATIONS.len()];
    for (operation, time) in sample.iter_mut().enumerate() {
        *time = timed(&*store, (sizes, keys), operation, threads)?;
    }
    Ok(sample)
}

/// The nanoseconds of an operation.
fn timed(
    store: &dyn Store,
    (sizes, keys): (&Sizes, &Keys),
    operation: usize,
    threads: usize,
) -> Result<Option<f64>> {
    let start = Barrier::new(threads);
    let run = |thread: usize| {
        let mut outcome = None;
        let mut random = Xoshiro256PlusPlus::seed_from_u64((8 * thread + operation) as u64);
        let part = thread * sizes.operations..(thread + 1) * sizes.operations;
        let mut plan = Plan::of(operation, (sizes, keys), part, &mut random);
        let worked = store.work(&mut |worker| {
            start.wait();
            let (is_done, time) = seawall_bench_common::timed(|| plan.run(worker));
            outcome = Some((time, is_done?));
            Ok(())
        });
        worked.map(|()| outcome.expect("it ran"))
    };
    let run = &run;
    let runs: Vec<Result<(Duration, bool)>> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        handles.into_iter().map(|handle| handle.join().expect("a measured thread")).collect()
    });
    let mut slowest = Duration::ZERO;
    for outcome in runs {
        let (time, is_done) = outcome?;
        if !is_done {
            return Ok(None);
        }
        slowest = slowest.max(time);
    }
    Ok(Some(slowest.as_nanos() as f64 / operations_of(operation, sizes) as f64))
}

/// How many operations of a kind a thread does.
fn operations_of(operation: usize, sizes: &Sizes) -> usize {
    let (_, one_in) = OPERATIONS[operation];
    (sizes.operations / one_in).max(1)
}

/// What a thread does of an operation, made before the clock runs.
enum Plan {
    Put(Vec<Vec<(u64, crate::store::Value)>>),
    Get(Vec<Vec<u64>>),
    /// Ranges of keys, and the sums of what is in them.
    Scan(Vec<(std::ops::Range<u64>, u64)>),
}

impl Plan {
    fn of(
        operation: usize,
        (sizes, keys): (&Sizes, &Keys),
        part: std::ops::Range<usize>,
        random: &mut Xoshiro256PlusPlus,
    ) -> Plan {
        let count = operations_of(operation, sizes);
        let mut any = || keys.filled[random.random_range(..keys.filled.len())];
        let mut changes = |each: usize| {
            let one = |key: u64| (key, value(key, 1));
            Plan::Put((0..count).map(|_| (0..each).map(|_| one(any())).collect()).collect())
        };
        match operation {
            0 => {
                let new = &keys.inserted[part];
                Plan::Put(new.iter().map(|key| vec![(*key, value(*key, 0))]).collect())
            }
            1 => {
                let looked_up: Vec<u64> = (0..count).map(|_| any()).collect();
                Plan::Get(looked_up.chunks(GETS).map(<[u64]>::to_vec).collect())
            }
            2 => {
                let most = keys.sorted.len().saturating_sub(SCANNED + 1).max(1);
                let scan = |_| {
                    let first = random.random_range(..most);
                    let end = (first + SCANNED).min(keys.sorted.len() - 1);
                    let sum =
                        keys.sorted[first..end].iter().fold(0, |a: u64, b| a.wrapping_add(*b));
                    (keys.sorted[first]..keys.sorted[end], sum)
                };
                Plan::Scan((0..count).map(scan).collect())
            }
            3 => changes(1),
            4 => changes(10),
            _ => changes(100),
        }
    }

    /// Does it; returns false if the store has no such operation.
    fn run(&mut self, worker: &mut dyn Worker) -> Result<bool> {
        match self {
            Plan::Put(transactions) => {
                transactions.iter().try_for_each(|entries| worker.put(entries))?;
            }
            Plan::Get(reads) => {
                for keys in reads {
                    let sum = keys.iter().fold(0u64, |sum, key| sum.wrapping_add(*key));
                    ensure!(worker.get(keys)? == sum, "a value is missing or another one");
                }
            }
            Plan::Scan(scans) => {
                for (range, sum) in scans {
                    let Some(found) = worker.scan(range.clone())? else { return Ok(false) };
                    ensure!(found == *sum, "a scan has not found what is there");
                }
            }
        }
        Ok(true)
    }
}
