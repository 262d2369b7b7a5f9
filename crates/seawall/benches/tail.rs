//! The times of single operations, and those of the operations that found a log full.
//!
//! `cargo bench -p seawall --bench tail` runs all programs once; `-- NAME [OPERATIONS]` runs one.
//! Programs whose names end in `late` run on a heap that does not flush early
//! (`Heap::flushing_early`). On a shared computer the percentiles of a run have the waits of other
//! programs in them, so run it more than once; the median of the operations that truncated the logs
//! has not.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall::{Error, Map, MapField, Options, Persist};
use seawall_memory::Addr;
use seawall_native::{NativeMemory, Pool as File, PoolOptions};
use seawall_runtime::{Heap, HeapOptions, Logging, Session, TxError};
use std::time::Instant;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// Bytes of all objects: more than the first cache holds.
const OBJECT_BYTES: u64 = 1 << 20;
const KEYS: u64 = 100_000;
const OPERATIONS: u64 = 200_000;

/// Runs that many operations and times each.
type Program = fn(u64) -> Outcome<Times>;

const PROGRAMS: &[(&str, Program)] = &[
    ("redo-64", |operations| changes(operations, Logging::Redo, (1, 64), true)),
    ("redo-64-late", |operations| changes(operations, Logging::Redo, (1, 64), false)),
    ("redo-4x64", |operations| changes(operations, Logging::Redo, (4, 64), true)),
    ("redo-4x64-late", |operations| changes(operations, Logging::Redo, (4, 64), false)),
    ("undo-64", |operations| changes(operations, Logging::Undo, (1, 64), true)),
    ("undo-64-late", |operations| changes(operations, Logging::Undo, (1, 64), false)),
    ("undo-4096", |operations| changes(operations / 10, Logging::Undo, (1, 4096), true)),
    ("undo-4096-late", |operations| changes(operations / 10, Logging::Undo, (1, 4096), false)),
    ("undo-65536", |operations| changes(operations / 100, Logging::Undo, (1, 65536), true)),
    ("undo-65536-late", |operations| changes(operations / 100, Logging::Undo, (1, 65536), false)),
    ("redo-64-beside", |operations| beside(operations, true)),
    ("redo-64-beside-late", |operations| beside(operations, false)),
    ("map-insert", inserts),
];

/// The nanoseconds of each operation, and of those that truncated the logs.
#[derive(Default)]
struct Times {
    all: Vec<u64>,
    full: Vec<u64>,
}

impl Times {
    fn note(&mut self, begun: Instant, is_full: bool) {
        let nanoseconds = begun.elapsed().as_nanos() as u64;
        self.all.push(nanoseconds);
        if is_full {
            self.full.push(nanoseconds);
        }
    }

    fn line(&mut self, name: &str) -> String {
        self.all.sort_unstable();
        self.full.sort_unstable();
        let all = [0.5, 0.99, 0.999, 1.0].map(|part| percentile(&self.all, part).unwrap_or(0));
        let mean = self.all.iter().sum::<u64>() as f64 / self.all.len().max(1) as f64;
        let full = percentile(&self.full, 0.5).map_or("-".to_owned(), |time| time.to_string());
        let [half, p99, p999, most] = all;
        let count = self.full.len();
        format!("{name:<20}{mean:>9.0}{half:>7}{p99:>7}{p999:>8}{most:>9}{full:>9}{count:>8}")
    }
}

/// The time below which that part of the sorted times is.
fn percentile(times: &[u64], part: f64) -> Option<u64> {
    let place = (times.len() as f64 * part) as usize;
    times.get(place.min(times.len().saturating_sub(1))).copied()
}

type Work<'m> = Session<'m, NativeMemory<'m>>;

fn options() -> HeapOptions {
    let bytes = 8 << 20;
    HeapOptions { bytes, bytes_max: bytes, threads: 2, ..HeapOptions::default() }
}

/// A file for a heap of two threads.
fn file() -> Outcome<File> {
    let options = options();
    let file = PoolOptions { dram_bytes: options.dram_bytes(), ..PoolOptions::default() };
    Ok(File::temporary(options.pm_bytes(), &file)?)
}

fn objects(session: &mut Work<'_>, bytes: usize) -> Outcome<Vec<Addr>> {
    let count = OBJECT_BYTES / bytes as u64;
    (0..count).map(|_| Ok(session.transaction(|tx| tx.alloc(bytes as u64))?)).collect()
}

/// A heap, which flushes early or not.
fn heap(memory: &NativeMemory<'_>, is_early: bool) -> Outcome<Heap> {
    let heap = Heap::create(memory, "tail", 1, &options())?;
    Ok(if is_early { heap.flushing_early() } else { heap })
}

/// What a transaction changes: by which log, objects, and bytes of each.
type What = (Logging, (usize, usize));

/// Transactions that each change some objects at random.
fn changes(
    operations: u64,
    logging: Logging,
    size: (usize, usize),
    is_early: bool,
) -> Outcome<Times> {
    let file = file()?;
    let memory = file.memory(0);
    let mut session = heap(&memory, is_early)?.join(&memory);
    let objects = objects(&mut session, size.1)?;
    let (mut random, mut times) = (Xoshiro256PlusPlus::seed_from_u64(1), Times::default());
    for number in 0..operations {
        change(&mut session, (&objects, number), (logging, size), &mut random, &mut times)?;
    }
    Ok(times)
}

fn change(
    session: &mut Work<'_>,
    (objects, number): (&[Addr], u64),
    (logging, (count, bytes)): What,
    random: &mut Xoshiro256PlusPlus,
    times: &mut Times,
) -> Outcome {
    let content = vec![number as u8; bytes];
    let places: [Addr; 4] = std::array::from_fn(|_| objects[random.random_range(..objects.len())]);
    let before = session.log_counts().retired;
    let begun = Instant::now();
    session.transaction_with(logging, |tx| {
        places[..count].iter().try_for_each(|at| tx.write(*at, &content))?;
        Ok::<(), TxError>(())
    })?;
    times.note(begun, session.log_counts().retired > before);
    Ok(())
}

/// As `changes`, with a second thread that writes as much, stops for long, and does it again.
fn beside(operations: u64, is_early: bool) -> Outcome<Times> {
    let file = file()?;
    let [one, other] = [0, 1].map(|thread| file.memory(thread));
    let heap = heap(&one, is_early)?;
    let [mut session, mut second] = [heap.join(&one), heap.join(&other)];
    let objects = objects(&mut session, 64)?;
    let (mut random, mut times) = (Xoshiro256PlusPlus::seed_from_u64(1), Times::default());
    let (what, mut unseen) = ((Logging::Redo, (1, 64)), Times::default());
    for number in 0..operations {
        if number % 2000 < 400 {
            change(&mut second, (&objects, number), what, &mut random, &mut unseen)?;
        }
        change(&mut session, (&objects, number), what, &mut random, &mut times)?;
    }
    Ok(times)
}

#[derive(Clone, Copy, Persist)]
struct Root {
    numbers: Map<u64, u64>,
}

/// Insertions into a map of a pool as it is by default; which of them truncated is not seen.
fn inserts(operations: u64) -> Outcome<Times> {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
    let pool = seawall::open::<Root>(folder.path().join("a.pool"), Options::default())?;
    let (mut random, mut times) = (Xoshiro256PlusPlus::seed_from_u64(1), Times::default());
    pool.work(|thread| {
        for value in 0..operations {
            let key = random.random_range(..KEYS);
            let begun = Instant::now();
            thread.transaction(|tx, root| root.at(Root::NUMBERS).insert(tx, &key, &value))?;
            times.note(begun, false);
        }
        Ok::<(), Error>(())
    })?;
    Ok(times)
}

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let operations = words.get(1).map_or(Ok(OPERATIONS), |number| number.parse())?;
    let is_wanted = |name: &str| words.first().is_none_or(|wanted| wanted == name);
    println!("ns of an operation      mean    p50    p99   p99.9      max  if full   times");
    for (name, program) in PROGRAMS.iter().filter(|(name, _)| is_wanted(name)) {
        println!("{}", program(operations)?.line(name));
    }
    Ok(())
}
