//! What readers do to a writer, and a writer to readers: the rates of each, also per second of CPU
//! time that its threads had, and the longest time that one call took.
//!
//! `cargo bench -p seawall --bench beside` runs all rows for a second each; `-- READERS WRITERS
//! SECONDS` runs one.

use seawall::{Error, Map, MapField, Options, Persist, Pool};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

const ENTRIES: u64 = 200_000;
/// Rows as (readers, writers).
const ROWS: &[(usize, usize)] =
    &[(0, 1), (1, 1), (2, 1), (4, 1), (0, 2), (0, 4), (1, 0), (2, 0), (4, 0), (1, 4)];

#[derive(Clone, Copy, Persist)]
struct Root {
    count: u64,
    entries: Map<u64, u64>,
}

/// What one thread did.
#[derive(Clone, Copy, Default)]
struct Done {
    calls: u64,
    longest: Duration,
    cpu: Duration,
}

/// Makes calls until it is told to stop.
fn run(stop: &AtomicBool, mut call: impl FnMut(u64) -> Result<(), Error>) -> Result<Done, Error> {
    let mut done = Done::default();
    let begun = cpu_time();
    let mut last = Instant::now();
    while !stop.load(Relaxed) {
        call(done.calls)?;
        let now = Instant::now();
        done.longest = done.longest.max(now - last);
        (last, done.calls) = (now, done.calls + 1);
    }
    done.cpu = cpu_time().saturating_sub(begun);
    Ok(done)
}

/// The CPU time of this thread; 0 where the system does not say.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next().and_then(|number| number.parse().ok());
    Duration::from_nanos(first.unwrap_or(0))
}

fn write(pool: &Pool<Root>, stop: &AtomicBool) -> Result<Done, Error> {
    pool.work(|thread| {
        run(stop, |_| {
            thread.transaction(|tx, root| tx.update(root.at(Root::COUNT), |count| count + 1))
        })
    })
}

fn read(pool: &Pool<Root>, stop: &AtomicBool, seed: u64) -> Result<Done, Error> {
    pool.work(|thread| {
        run(stop, |call| {
            let key = (call + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) % ENTRIES;
            let found = thread.read(|view, root| root.at(Root::ENTRIES).get(view, &key))?;
            black_box(found);
            Ok(())
        })
    })
}

fn line(name: &str, seconds: f64, all: &[Done]) -> String {
    let calls = all.iter().map(|done| done.calls).sum::<u64>() as f64;
    let cpu = all.iter().map(|done| done.cpu).sum::<Duration>().as_secs_f64();
    let least = all.iter().map(|done| done.calls).min().unwrap_or(0) as f64;
    let longest = all.iter().map(|done| done.longest).max().unwrap_or_default();
    format!(
        "{:>2} {name:<8} {:9.0} k/s, {:9.0} k/s of CPU, the least of them {:4.2} of its share, \
         longest {:8.3} ms",
        all.len(),
        calls / seconds / 1e3,
        calls / cpu.max(1e-9) / 1e3,
        least * all.len() as f64 / calls.max(1.0),
        longest.as_secs_f64() * 1e3
    )
}

fn row(pool: &Pool<Root>, (readers, writers): (usize, usize), length: Duration) -> Outcome {
    let stop = &AtomicBool::new(false);
    let begun = Instant::now();
    let (reads, writes) = std::thread::scope(|scope| {
        let reads: Vec<_> = (0..readers)
            .map(|reader| scope.spawn(move || read(pool, stop, reader as u64 * ENTRIES / 7)))
            .collect();
        let writes: Vec<_> = (0..writers).map(|_| scope.spawn(|| write(pool, stop))).collect();
        std::thread::sleep(length);
        stop.store(true, Relaxed);
        let join = |threads: Vec<std::thread::ScopedJoinHandle<'_, _>>| {
            let joined = threads.into_iter().map(|thread| thread.join().expect("no panic"));
            joined.collect::<Result<Vec<Done>, Error>>()
        };
        (join(reads), join(writes))
    });
    let seconds = begun.elapsed().as_secs_f64();
    for (name, all) in [("readers", reads?), ("writers", writes?)] {
        if !all.is_empty() {
            println!("{readers} + {writers}: {}", line(name, seconds, &all));
        }
    }
    Ok(())
}

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
    let pool = seawall::open::<Root>(folder.path().join("a.pool"), Options::default())?;
    for start in (0..ENTRIES).step_by(1000) {
        pool.transaction(|tx, root| {
            (start..start + 1000)
                .try_for_each(|key| root.at(Root::ENTRIES).insert(tx, &key, &key).map(drop))
        })?;
    }
    match words.as_slice() {
        [] => ROWS.iter().try_for_each(|what| row(&pool, *what, Duration::from_secs(1))),
        [readers, writers, seconds] => {
            let length = Duration::from_secs_f64(seconds.parse()?);
            row(&pool, (readers.parse()?, writers.parse()?), length)
        }
        _ => Err("give READERS WRITERS SECONDS, or nothing".into()),
    }
}
