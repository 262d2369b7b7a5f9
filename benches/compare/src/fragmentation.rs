//! Defragments a heap that grows and shrinks: ours concurrently with its threads, theirs by a call
//! during which no thread may run (`--fragmentation`).
//!
//! Objects of 128 bytes are in slots of a table. Five times as many as are to stay are put in; four
//! of five are taken out, in a random order; as many are put in again, and taken out again (the
//! phases of FFCCD, ISCA'22). `pmemobj_defrag` is called twice after each phase that takes out, as
//! the space that the first call frees is returned by the second.
//!
//! Pages are those of 4 KiB in which an object lies. The space of the file is the one that the file
//! system reports.

mod ours;
mod report;
mod theirs;

pub(crate) use report::{comparisons, records, table};

use anyhow::{Context, Result};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

const OBJECT_BYTES: u64 = 128;
const PAGE_BYTES: u64 = 4096;
const SLOTS_A_PAGE: usize = 500;
const PAGES_MAX: usize = 4096;
const SEED: u64 = 42;

/// The most objects that may stay.
pub(crate) const OBJECTS_MAX: u64 = (SLOTS_A_PAGE * PAGES_MAX / 5) as u64;

/// The library of a heap, and how it is defragmented.
#[derive(Clone, Copy, Debug)]
enum Contender {
    Theirs {
        defragments: bool,
    },
    /// With a collector: its trigger and target.
    Ours(Option<(f64, f64)>),
}

const CONTENDERS: [(&str, Contender); 5] = [
    ("libpmemobj", Contender::Theirs { defragments: false }),
    ("pmemobj_defrag", Contender::Theirs { defragments: true }),
    ("seawall", Contender::Ours(None)),
    ("seawall, 1.5 to 1.25", Contender::Ours(Some((1.5, 1.25)))),
    ("seawall, 1.1 to 1", Contender::Ours(Some((1.1, 1.0)))),
];

/// A phase: its name, and the slots that are filled or emptied.
struct Phase {
    name: &'static str,
    puts: bool,
    slots: Vec<u64>,
}

fn phases(objects: u64, seed: u64) -> Vec<Phase> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut shuffled = |count: u64| {
        let mut slots: Vec<u64> = (0..count).collect();
        for last in (1..slots.len()).rev() {
            slots.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
        }
        slots
    };
    let all = shuffled(5 * objects);
    let gone = shuffled(5 * objects)[..4 * objects as usize].to_vec();
    let again = shuffled(5 * objects)[..4 * objects as usize].to_vec();
    vec![
        Phase { name: "put in", puts: true, slots: all },
        Phase { name: "take out", puts: false, slots: gone.clone() },
        Phase { name: "put in", puts: true, slots: gone },
        Phase { name: "take out", puts: false, slots: again },
    ]
}

/// The times of a phase's operations, and the space after them.
#[derive(Clone, Debug, Default)]
struct Seen {
    name: &'static str,
    operations: usize,
    /// From the first operation to the end of the last stop.
    spent: Duration,
    /// Latencies in microseconds: the median, 99 %, 99.9 %.
    times: [f64; 3],
    /// The program's longest wait.
    pause: Duration,
    /// Bytes of pages, and of the file, for each byte of an object: after the last operation, and
    /// after the defragmenter became idle.
    left: [(f64, f64); 2],
}

impl Seen {
    fn of(name: &'static str, mut times: Vec<u64>, spent: Duration) -> Seen {
        times.sort_unstable();
        let (operations, last) = (times.len(), times.len() - 1);
        let within = |parts: f64| times[((operations as f64 * parts) as usize).min(last)];
        let pause = Duration::from_nanos(times[last]);
        let times = [0.5, 0.99, 0.999].map(|parts| within(parts) as f64 / 1e3);
        Seen { name, operations, spent, times, pause, ..Seen::default() }
    }
}

fn file_bytes(path: &Path) -> Result<u64> {
    Ok(std::fs::metadata(path)?.blocks() * 512)
}

fn timed(slots: &[u64], mut each: impl FnMut(u64) -> Result<()>) -> Result<(Vec<u64>, Duration)> {
    let (mut times, begun) = (Vec::with_capacity(slots.len()), Instant::now());
    for slot in slots {
        let before = Instant::now();
        each(*slot)?;
        times.push(before.elapsed().as_nanos() as u64);
    }
    Ok((times, begun.elapsed()))
}

/// A contender, and its results in each phase of each round.
pub(crate) struct Measured {
    name: &'static str,
    contender: Contender,
    rounds: Vec<Vec<Seen>>,
}

/// Runs all in alternating order, after one round that does not count.
pub(crate) fn run(folder: &Path, objects: u64, rounds: usize) -> Result<Vec<Measured>> {
    let (phases, slots) = (phases(objects, SEED), 5 * objects);
    let measured = |(name, contender)| Measured { name, contender, rounds: Vec::new() };
    let mut all = CONTENDERS.map(measured);
    for round in 0..=rounds {
        eprintln!("round {round} of {rounds}");
        let mut turns: Vec<&mut Measured> = all.iter_mut().collect();
        if round % 2 == 1 {
            turns.reverse();
        }
        for one in turns {
            let file = folder.join("pool");
            let seen = match one.contender {
                Contender::Theirs { defragments } => {
                    theirs::run(&file, &phases, slots, defragments)
                }
                Contender::Ours(ratios) => ours::run(&file, &phases, slots, ratios),
            };
            let seen = seen.with_context(|| one.name.to_owned())?;
            std::fs::remove_file(&file)?;
            if round > 0 {
                one.rounds.push(seen);
            }
        }
    }
    Ok(all.into())
}
