//! A heap with a Ribbon under it: transactions stay whole, whoever flushes.

use super::scene::{EVERY_SOURCE, options};
use seawall_explore::{
    CrashImage, CrashPoint, Model, Schedule, Schedules, Search, Trace, Traced, Turns, check,
    record, search,
};
use seawall_memory::{Addr, Image, Memory, MemoryExt};
use seawall_ribbon::{Ribbon, RibbonFlaw, RibbonOptions};
use seawall_runtime::{Arena, Heap, HeapOptions, Logging, TxError};

const NAME: &str = "ribbon";
/// In the root: two words that change together, on lines of their own.
const PAIR: [u64; 2] = [0, 64];

fn heap_options() -> HeapOptions {
    HeapOptions { bytes: 3 << 16, log_bytes: 4096, root_bytes: 128, ..HeapOptions::default() }
}

fn program(memory: &Traced<'_>, heap: &Heap, ribbon: &Ribbon, kind: Logging) {
    if memory.thread() > 0 {
        return ribbon.serve(memory, 0);
    }
    let joined = ribbon.join(memory);
    let mut session = heap.join(&joined);
    let places = PAIR.map(|at| heap.root().plus(at));
    for value in 1..=3u64 {
        let done = session.transaction_with(kind, |tx| {
            tx.add(&places.map(|at| (at, 8)))?;
            places.iter().try_for_each(|at| tx.store(*at, value))
        });
        done.unwrap_or_else(|error: TxError| panic!("{error}"));
        memory.output(value);
        if value == 2 {
            session.retire();
        }
    }
    drop(session);
    joined.leave();
    ribbon.close(memory);
}

fn explore(kind: Logging, options: &RibbonOptions) -> Result<usize, String> {
    let heap_options = heap_options();
    let mut arena = Arena::new();
    arena.dram(heap_options.dram_bytes());
    let ribbon = Ribbon::place(&mut arena, options).expect("good options");
    let bytes = heap_options.pm_bytes();
    let run = |schedule: &Schedule| {
        let image = Image::new(bytes, arena.dram_bytes());
        let heap = Heap::create(&image, NAME, 7, &heap_options).expect("good options");
        let ribbon = ribbon.clone();
        record(image, schedule, move |memory| program(memory, &heap, &ribbon, kind))
    };
    let base = Schedule { threads: 2, ..Schedule::default() };
    let interrupted = Schedules { interruptions: 1, limit: 40, ..Schedules::new(Model::Px86) };
    let found = interrupted.all(&base, run).expect("every run ends");
    let mut traces: Vec<Trace> = found.runs.into_iter().map(|(_, trace)| trace).collect();
    for seed in 0..60 {
        let turns = if seed % 2 == 0 { Turns::Random } else { Turns::Priorities(4) };
        traces.push(run(&Schedule { turns, seed, ..base.clone() }).expect("it ends"));
    }
    let recover = |image: &CrashImage| {
        let (heap, _) = Heap::open(image, NAME, bytes).map_err(|error| error.to_string())?;
        Ok(PAIR.map(|at| image.load::<u64>(Addr::plus(heap.root(), at))))
    };
    let judge = |found: &[u64; 2], point: &CrashPoint| {
        let done = point.outputs[0];
        match found[0] == found[1] && (done..=done + 1).contains(&found[0]) {
            true => Ok(()),
            false => Err(format!("{found:?} after {done}")),
        }
    };
    let how = Search { depth: 0, budget: 3_000, samples: 20, ..Search::new(Model::Px86) };
    let bad = |trace: &Trace| search(trace, &how, &check(recover, judge)).finding;
    match traces.iter().find_map(bad) {
        None => Ok(traces.len()),
        Some(finding) => Err(finding.to_string()),
    }
}

#[test]
fn transactions_survive_whole_with_flushers_and_with_lines_cleaned_early() {
    for kind in [Logging::Redo, Logging::Undo] {
        for early in EVERY_SOURCE {
            let options = RibbonOptions { early, ..options(1, 1) };
            let outcome = explore(kind, &options);
            assert!(outcome.is_ok(), "{kind:?} {early} {outcome:?}");
        }
    }
}

#[test]
fn a_transaction_that_does_not_wait_for_its_flusher_is_found() {
    let options = RibbonOptions { flaw: RibbonFlaw::WaitsForClaims, ..options(1, 1) };
    let outcome = explore(Logging::Undo, &options);
    assert!(outcome.is_err(), "not caught in {outcome:?} runs");
}
