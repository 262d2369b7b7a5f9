//! The objects in a typed pool, beside a collector or without one.

use super::{OBJECT_BYTES, PAGE_BYTES, PAGES_MAX, Phase, SLOTS_A_PAGE, Seen, file_bytes, timed};
use anyhow::{Result, ensure};
use seawall_native::{NativeMemory, Pool, PoolOptions};
use seawall_runtime::defrag::{DefragCounts, DefragOptions, Defragmenter, with_collector};
use seawall_runtime::typed::{self, Persist, Ptr, Thread};
use seawall_runtime::{AccessError, Heap, HeapError, HeapOptions, TxError};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest time that the collector may take to become idle.
const REST: Duration = Duration::from_secs(20);

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
) -> Result<Place<'p>, AccessError> {
    let page = session.get(root.at(Table::PAGES).index(slot as usize / SLOTS_A_PAGE))?;
    let page = page.expect("made with the table");
    Ok(page.at(Page::SLOTS).index(slot as usize % SLOTS_A_PAGE))
}

type Ours<'m> = Thread<'m, Table<'static>, NativeMemory<'m>>;

fn put(thread: &mut Ours<'_>, slot: u64) -> Result<(), TxError> {
    thread.enter(|session, root| {
        let place = place(session, root, slot)?;
        session.transaction(|tx| {
            let thing = tx.alloc(Thing { words: [slot; 16] })?;
            tx.set(place, Some(thing))
        })
    })
}

fn take(thread: &mut Ours<'_>, slot: u64) -> Result<(), TxError> {
    thread.enter(|session, root| {
        let place = place(session, root, slot)?;
        session.transaction(|tx| {
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
            session.transaction(|tx| {
                let made = tx.alloc(Page { slots: [None; SLOTS_A_PAGE] })?;
                tx.set(pool.root().at(Table::PAGES).index(page), Some(made))
            })?;
        }
        session.leave();
        Ok(pool.heap())
    })
}

/// Ours, beside a collector or without one.
pub(super) fn run(
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
    let heap = table(&memory, &options, slots)?.flushing_early();
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
