//! A heap that grows and shrinks, defragmented: ours beside its threads, theirs by a call that no
//! thread may run beside (`--fragmentation`).
//!
//! Objects of 128 bytes in slots of a table: five times as many as are to stay are put in; four of
//! five are taken out, in a random order; as many are put in again, and taken out again (the phases
//! of FFCCD, ISCA'22). `pmemobj_defrag` is called twice behind each phase that takes out, as what
//! the first call frees comes back with the second.
//!
//! Pages are those of 4 KiB in which an object lies. What the file takes is what the file system
//! says.

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

/// Who has a heap, and how it is defragmented.
#[derive(Clone, Copy, Debug)]
enum Contender {
    Theirs {
        defragments: bool,
    },
    /// With a collector: from which trigger to which target.
    Ours(Option<(f64, f64)>),
}

const CONTENDERS: [(&str, Contender); 5] = [
    ("libpmemobj", Contender::Theirs { defragments: false }),
    ("pmemobj_defrag", Contender::Theirs { defragments: true }),
    ("seawall", Contender::Ours(None)),
    ("seawall, 1.5 to 1.25", Contender::Ours(Some((1.5, 1.25)))),
    ("seawall, 1.1 to 1", Contender::Ours(Some((1.1, 1.0)))),
];

/// A phase: its name, and which slots are put in or taken out.
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

/// How the operations of a phase went, and what is left behind them.
#[derive(Clone, Debug, Default)]
struct Seen {
    name: &'static str,
    operations: usize,
    /// From the first operation to the end of the last stop.
    spent: Duration,
    /// Microseconds in which so many of the operations were done: half, 99 %, 99.9 %.
    times: [f64; 3],
    /// The longest that the program had to wait.
    pause: Duration,
    /// Bytes of pages, and of the file, for each byte of an object: when the last operation was
    /// done, and when whoever defragments had come to rest.
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

/// A contender, and what it left in each phase of each round.
pub(crate) struct Measured {
    name: &'static str,
    contender: Contender,
    rounds: Vec<Vec<Seen>>,
}

/// Runs all in turns, forwards and backwards, and once before that does not count.
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
