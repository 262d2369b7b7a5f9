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

use crate::pmdk;
use anyhow::{Context, Result, ensure};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_native::{NativeMemory, Pool, PoolOptions};
use seawall_runtime::defrag::{DefragCounts, DefragOptions, Defragmenter, with_collector};
use seawall_runtime::typed::{self, Persist, Ptr, Thread};
use seawall_runtime::{Heap, HeapError, HeapOptions};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

const OBJECT_BYTES: u64 = 128;
const PAGE_BYTES: u64 = 4096;
const SLOTS_A_PAGE: usize = 500;
const PAGES_MAX: usize = 4096;
/// How long the collector gets at most to come to rest.
const REST: Duration = Duration::from_secs(20);

/// The most objects that may stay.
pub(crate) const OBJECTS_MAX: u64 = (SLOTS_A_PAGE * PAGES_MAX / 5) as u64;

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
    /// Operations a second, pauses included.
    rate: f64,
    /// Nanoseconds of each operation, sorted.
    times: Vec<u64>,
    /// The longest that the program had to wait.
    pause: Duration,
    /// Bytes of pages, and of the file, for each byte of an object: when the last operation was
    /// done, and when whoever defragments had come to rest.
    left: [(f64, f64); 2],
}

impl Seen {
    fn of(name: &'static str, mut times: Vec<u64>, spent: Duration) -> Seen {
        times.sort_unstable();
        let pause = Duration::from_nanos(times.last().copied().unwrap_or(0));
        let rate = times.len() as f64 / spent.as_secs_f64();
        Seen { name, rate, times, pause, ..Seen::default() }
    }

    fn share(&self, parts: f64) -> f64 {
        let place = (self.times.len() as f64 * parts) as usize;
        self.times.get(place.min(self.times.len() - 1)).map_or(0.0, |time| *time as f64 / 1e3)
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

/// libpmemobj, with `pmemobj_defrag` or without.
fn theirs(path: &Path, phases: &[Phase], slots: u64, defragments: bool) -> Result<Vec<Seen>> {
    let table = pmdk::Slots::create(path, slots * 400 + (64 << 20), slots)?;
    let left = || -> Result<(f64, f64)> {
        let objects = (0..slots).filter_map(|slot| table.object(slot).map(|(at, _)| at));
        let (mut pages, mut live) = (BTreeSet::new(), 0);
        for at in objects {
            pages.extend(at / PAGE_BYTES..=(at + OBJECT_BYTES - 1) / PAGE_BYTES);
            live += OBJECT_BYTES;
        }
        let bytes = pages.len() as u64 * PAGE_BYTES;
        Ok((bytes as f64 / live as f64, file_bytes(path)? as f64 / live as f64))
    };
    let mut all = Vec::new();
    for phase in phases {
        let (times, mut spent) = timed(&phase.slots, |slot| match phase.puts {
            true => table.put(slot),
            false => {
                table.take(slot);
                Ok(())
            }
        })?;
        let before = left()?;
        let begun = Instant::now();
        if defragments && !phase.puts {
            table.defrag()?;
            table.defrag()?;
        }
        let stopped = begun.elapsed();
        spent += stopped;
        let mut seen = Seen::of(phase.name, times, spent);
        seen.pause = seen.pause.max(stopped);
        seen.left = [before, left()?];
        all.push(seen);
    }
    for slot in 0..slots {
        let is_whole = table.object(slot).is_none_or(|(_, value)| value == slot);
        ensure!(is_whole, "the object of slot {slot} is not what it was");
    }
    Ok(all)
}

#[derive(Clone, Copy, Persist)]
struct Table<'p> {
    pages: [Option<Ptr<'p, Page<'p>>>; PAGES_MAX],
}

#[derive(Clone, Copy, Persist)]
struct Page<'p> {
    slots: [Option<Ptr<'p, Thing>>; SLOTS_A_PAGE],
}

#[derive(Clone, Copy, Persist)]
struct Thing {
    words: [u64; OBJECT_BYTES as usize / 8],
}

type Place<'p> = Ptr<'p, Option<Ptr<'p, Thing>>>;

fn place<'p>(
    session: &typed::Session<'p, '_, NativeMemory<'_>>,
    root: Ptr<'p, Table<'p>>,
    slot: u64,
) -> Result<Place<'p>, HeapError> {
    let page = session.get(root.at(Table::PAGES).index(slot as usize / SLOTS_A_PAGE))?;
    let page = page.expect("made with the table");
    Ok(page.at(Page::SLOTS).index(slot as usize % SLOTS_A_PAGE))
}

type Ours<'m> = Thread<'m, Table<'static>, NativeMemory<'m>>;

fn put(thread: &mut Ours<'_>, slot: u64) -> Result<(), HeapError> {
    thread.enter(|session, root| {
        let place = place(session, root, slot)?;
        session.redo(|tx| {
            let thing = tx.alloc(Thing { words: [slot; 16] })?;
            tx.set(place, Some(thing))
        })
    })
}

fn take(thread: &mut Ours<'_>, slot: u64) -> Result<(), HeapError> {
    thread.enter(|session, root| {
        let place = place(session, root, slot)?;
        session.redo(|tx| {
            let thing = tx.get(place)?.expect("it was put in");
            tx.set(place, None)?;
            tx.free(thing)
        })
    })
}

/// A heap with a table of empty slots.
fn table(memory: &NativeMemory<'_>, options: &HeapOptions, slots: u64) -> Result<Heap, HeapError> {
    typed::create::<Table<'_>, Heap, HeapError>(memory, "slots", 1, options, |pool| {
        let mut session = pool.join(memory);
        for page in 0..slots.div_ceil(SLOTS_A_PAGE as u64) as usize {
            session.redo(|tx| {
                let made = tx.alloc(Page { slots: [None; SLOTS_A_PAGE] })?;
                tx.set(pool.root().at(Table::PAGES).index(page), Some(made))
            })?;
        }
        session.leave();
        Ok(pool.heap())
    })
}

/// Ours, beside a collector or without one.
fn ours(
    path: &Path,
    phases: &[Phase],
    slots: u64,
    ratios: Option<(f64, f64)>,
) -> Result<Vec<Seen>> {
    let defragments = ratios.is_some();
    let options = HeapOptions {
        bytes: 1 << 20,
        bytes_max: slots * 300 + (64 << 20),
        threads: 2,
        defragment: defragments,
        ..typed::options::<Table<'_>>()
    };
    let (dram_bytes, bytes_max) = (options.dram_bytes(), options.pm_bytes_max());
    let pool = PoolOptions { dram_bytes, bytes_max, ..PoolOptions::default() };
    let pool = Pool::create(path, options.pm_bytes(), &pool)?;
    let memory = pool.memory(0);
    let heap = table(&memory, &options, slots)?;
    let run = |counts: &dyn Fn() -> DefragCounts| {
        let mut thread = Ours::join(heap, &memory)?;
        let mut all = Vec::new();
        for phase in phases {
            let (times, spent) = timed(&phase.slots, |slot| match phase.puts {
                true => Ok(put(&mut thread, slot)?),
                false => Ok(take(&mut thread, slot)?),
            })?;
            let mut seen = Seen::of(phase.name, times, spent);
            let left = || -> Result<(f64, f64)> {
                let (mut pages, mut live) = (BTreeSet::new(), 0);
                heap.objects(&memory, |object| {
                    if object.bytes == OBJECT_BYTES {
                        let at = object.at.offset();
                        pages.extend(at / PAGE_BYTES..=(at + OBJECT_BYTES - 1) / PAGE_BYTES);
                        live += OBJECT_BYTES;
                    }
                })?;
                let bytes = pages.len() as u64 * PAGE_BYTES;
                Ok((bytes as f64 / live as f64, file_bytes(path)? as f64 / live as f64))
            };
            seen.left[0] = left()?;
            if defragments {
                come_to_rest(counts);
            }
            seen.left[1] = left()?;
            all.push(seen);
        }
        check(&mut thread, slots)?;
        thread.leave();
        Ok(all)
    };
    let Some((trigger, target)) = ratios else { return run(&DefragCounts::default) };
    let options = DefragOptions { trigger, target, ..DefragOptions::default() };
    let defragmenter = Defragmenter::of::<Table<'_>>(options)?;
    let (seen, counts) = with_collector(
        heap,
        || pool.memory(1),
        defragmenter,
        |collector| run(&|| collector.counts()),
    );
    let counts = counts?;
    ensure!(counts.cycles > 0, "nothing was defragmented");
    eprintln!("{trigger} to {target}: {counts:?}");
    seen
}

/// Returns when the collector has done nothing for a while.
fn come_to_rest(counts: &dyn Fn() -> DefragCounts) {
    let (begun, mut before, mut quiet) = (Instant::now(), counts(), 0);
    while quiet < 20 && begun.elapsed() < REST {
        std::thread::sleep(Duration::from_millis(10));
        let now = counts();
        quiet = if now == before { quiet + 1 } else { 0 };
        before = now;
    }
}

fn check(thread: &mut Ours<'_>, slots: u64) -> Result<()> {
    thread.enter(|session, root| {
        for slot in 0..slots {
            let found = session.get(place(session, root, slot)?)?;
            let Some(thing) = found else { continue };
            let is_whole = session.get(thing)?.words == [slot; 16];
            ensure!(is_whole, "the object of slot {slot} is not what it was");
        }
        let reach = session.reach(root)?;
        ensure!(reach.lost.is_empty() && reach.dangling.is_empty(), "{reach:?}");
        Ok(())
    })
}

/// Runs both and prints a table.
pub(crate) fn run(folder: &Path, objects: u64) -> Result<()> {
    let (phases, slots) = (phases(objects, 42), 5 * objects);
    let file = |name: &str| folder.join(name);
    let sides = [
        ("libpmemobj", theirs(&file("theirs-plain"), &phases, slots, false)),
        ("pmemobj_defrag", theirs(&file("theirs"), &phases, slots, true)),
        ("seawall", ours(&file("ours-plain"), &phases, slots, None)),
        ("seawall, 1.5 to 1.25", ours(&file("ours"), &phases, slots, Some((1.5, 1.25)))),
        ("seawall, 1.1 to 1", ours(&file("ours-dense"), &phases, slots, Some((1.1, 1.0)))),
    ];
    println!("{objects} objects of {OBJECT_BYTES} bytes stay; bytes for each byte of an object");
    println!(
        "{:22} {:9} {:>15} {:>15} {:>9} {:>8} {:>8} {:>8} {:>10}",
        "", "", "pages", "file", "k ops/s", "p50 us", "p99 us", "p99.9", "pause ms"
    );
    for (name, side) in sides {
        for seen in side.with_context(|| name.to_owned())? {
            let [before, after] = seen.left;
            println!(
                "{name:22} {:9} {:>6.2} -> {:>5.2} {:>6.2} -> {:>5.2} {:>9.0} {:>8.2} {:>8.2} \
                 {:>8.2} {:>10.2}",
                seen.name,
                before.0,
                after.0,
                before.1,
                after.1,
                seen.rate / 1e3,
                seen.share(0.5),
                seen.share(0.99),
                seen.share(0.999),
                seen.pause.as_secs_f64() * 1e3
            );
        }
    }
    Ok(())
}
