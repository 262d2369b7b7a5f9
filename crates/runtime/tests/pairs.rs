//! Every public operation of a heap beside every other one: two threads, each with one operation on
//! slots of its own, interrupted in every way that a bound allows, and every crash of each run.
//!
//! The slots of both threads share a cache line, the objects share chunks, and the pool is so small
//! that some operations have to grow it. What a thread does must be wholly there or wholly absent,
//! and there once it was told; what the other does must not show.
//!
//! `SEAWALL_PAIRS=400` tries up to so many runs of every pair; without it a few, of some pairs.

use seawall_explore::{
    CrashImage, CrashPoint, Model, Schedule, Schedules, Search, check, record, search,
};
use seawall_memory::{Addr, Image, Memory};
use seawall_runtime::{Heap, HeapError, HeapFlaw, HeapOptions, Logging, Session, Tx, TxError};
use seawall_testkit::script::{LINKS, NAME, State, content, link, options, read, reopen, replace};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What one thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Store(Logging),
    Write(Logging),
    Replace(Logging, u64),
    Lines(Logging),
    Free(Logging),
    Both(Logging),
    Nested(Logging, bool),
    Abort(Logging),
    Begin(Logging),
    AllocInto,
    FreeFrom,
    Retire,
    Rejoin,
}

/// All of them; the sizes are of a block, of one that is filled past the log, and of chunks.
fn operations() -> Vec<Op> {
    let both = |kind| {
        [
            Op::Store(kind),
            Op::Write(kind),
            Op::Replace(kind, 40),
            Op::Replace(kind, 4100),
            Op::Replace(kind, 70_000),
            Op::Lines(kind),
            Op::Free(kind),
            Op::Both(kind),
            Op::Nested(kind, false),
            Op::Nested(kind, true),
            Op::Abort(kind),
            Op::Begin(kind),
        ]
    };
    let alone = [Op::AllocInto, Op::FreeFrom, Op::Retire, Op::Rejoin];
    both(Logging::Redo).into_iter().chain(both(Logging::Undo)).chain(alone).collect()
}

/// Slots of a thread, and what its operation writes.
const OWN: u64 = LINKS / 2;
const NUMBER: u64 = 90;
/// Without a number: one pair of so many, and so many runs of each.
const EVERY: usize = 25;
const FEW: usize = 4;

fn pool_options(in_place: bool) -> HeapOptions {
    HeapOptions { bytes_max: 10 << 16, in_place, ..options(2, 2) }
}

impl Op {
    fn run<M: Memory>(self, session: &mut Session<'_, M>, slot: u64) -> Result<(), TxError> {
        let heap = session.heap();
        match self {
            Op::Retire => session.retire(),
            // The caller leaves and joins.
            Op::Rejoin => {}
            Op::AllocInto => {
                session.alloc_into(link(&heap, slot + 1), 30, &content(30, NUMBER))?;
            }
            Op::FreeFrom => session.free_from(link(&heap, slot))?,
            Op::Abort(kind) => {
                let outcome = session.transaction_with(kind, |tx| {
                    self.body(tx, slot)?;
                    Err::<(), TxError>(TxError::Types)
                });
                assert_eq!(outcome, Err(TxError::Types));
            }
            Op::Begin(kind) => {
                let ((), pending) = session.begin(kind, |tx| self.body(tx, slot))?;
                session.wait(pending);
            }
            Op::Store(kind) | Op::Write(kind) | Op::Replace(kind, _) | Op::Lines(kind) => {
                session.transaction_with(kind, |tx| self.body(tx, slot))?;
            }
            Op::Free(kind) | Op::Both(kind) | Op::Nested(kind, _) => {
                session.transaction_with(kind, |tx| self.body(tx, slot))?;
            }
        }
        Ok(())
    }

    fn body<M: Memory>(self, tx: &mut Tx<'_, '_, M>, slot: u64) -> Result<(), TxError> {
        let link = link(&tx.heap(), slot);
        let at: Addr = tx.load(link);
        match self {
            Op::Store(_) => tx.store(at.plus(8), NUMBER),
            Op::Write(_) => {
                tx.add(&[(at, 24)])?;
                tx.write(at.plus(5), &content(19, NUMBER))
            }
            Op::Lines(_) => {
                let new = tx.alloc_lines(100)?;
                tx.fill(new, &content(100, NUMBER))?;
                tx.store(link, new)?;
                tx.store(link.plus(8), 100u64)?;
                tx.free(at)
            }
            Op::Free(_) => {
                tx.free(at)?;
                tx.store(link, Addr::NULL)
            }
            Op::Replace(_, bytes) => replace(tx, slot, bytes, NUMBER),
            Op::Both(_) | Op::Begin(_) | Op::Abort(_) => {
                replace(tx, slot, 48, NUMBER)?;
                replace(tx, slot + 1, 64, NUMBER + 1)
            }
            Op::Nested(_, fails) => {
                replace(tx, slot, 48, NUMBER)?;
                let inner = tx.nested(|tx| {
                    replace(tx, slot, 64, NUMBER + 1)?;
                    replace(tx, slot + 1, 40, NUMBER + 2)?;
                    if fails { Err(TxError::Types) } else { Ok(()) }
                });
                assert_eq!(inner.is_err(), fails);
                Ok(())
            }
            Op::AllocInto | Op::FreeFrom | Op::Retire | Op::Rejoin => Ok(()),
        }
    }

    fn run_joined<M: Memory>(self, memory: &M, heap: &Heap, slot: u64) {
        let mut session = heap.join(memory);
        self.run(&mut session, slot).expect("room");
        if self == Op::Rejoin {
            session.leave();
            session = heap.join(memory);
            Op::Replace(Logging::Redo, 40).run(&mut session, slot).expect("room");
        }
    }
}

/// A pool in which each thread has an object, and an empty slot that is for one of 30 bytes.
fn pool(in_place: bool) -> (Image, Heap) {
    let options = pool_options(in_place);
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let image = image.with_room(options.pm_bytes_max());
    let heap = Heap::create(&image, NAME, 7, &options).expect("good options");
    let mut session = heap.join(&image);
    let made: Result<(), HeapError> = session.transaction(|tx| {
        for slot in (0..LINKS).step_by(OWN as usize) {
            replace(tx, slot, 40, 1 + slot)?;
            tx.store(link(&heap, slot + 1).plus(8), 30u64)?;
        }
        Ok(())
    });
    made.expect("room");
    session.retire();
    session.leave();
    (image, heap)
}

/// The state that both operations leave, each of which changes slots of its own only.
fn after(ops: [Op; 2], in_place: bool) -> State {
    let (image, heap) = pool(in_place);
    for (slot, op) in (0..).step_by(OWN as usize).zip(ops) {
        op.run_joined(&image, &heap, slot);
    }
    read(&image, &heap).expect("whole")
}

/// The first bad image of any run, and how many runs there were.
fn explore(ops: [Op; 2], in_place: bool, limit: usize, flaw: HeapFlaw) -> (usize, Option<String>) {
    let (image, heap) = pool(in_place);
    let before = read(&image, &heap).expect("whole");
    let after = after(ops, in_place);
    let heap = heap.with_flaw(flaw);
    let run = |schedule: &Schedule| {
        record(image.clone(), schedule, move |memory| {
            let thread = memory.thread();
            ops[thread].run_joined(memory, &heap, OWN * thread as u64);
            memory.output(0);
        })
    };
    let base = Schedule { threads: 2, ..Schedule::default() };
    let found =
        Schedules { interruptions: 2, limit, ..Schedules::new(Model::Px86) }.all(&base, run);
    let found = found.unwrap_or_else(|error| panic!("{ops:?}: {error}"));
    let how = Search { depth: 0, budget: 2_000, samples: 20, ..Search::new(Model::Px86) };
    let recover =
        |image: &CrashImage| reopen(image, image.pm_bytes(), flaw).map(|(_, state)| state);
    let judge = |found: &State, point: &CrashPoint| {
        for (thread, op) in ops.iter().enumerate() {
            let own = thread * OWN as usize..(thread + 1) * OWN as usize;
            let is_done = found[own.clone()] == after[own.clone()];
            if !is_done && (point.outputs[thread] > 0 || found[own.clone()] != before[own]) {
                return Err(format!("{op:?} of thread {thread} is not as it was done"));
            }
        }
        Ok(())
    };
    let judged = check(recover, judge);
    let bad = |(schedule, trace): &(Schedule, _)| {
        let finding = search(trace, &how, &judged).finding?;
        Some(format!("{ops:?} with {:?}: {finding}", schedule.turns))
    };
    (found.runs.len(), found.runs.iter().find_map(bad))
}

#[test]
fn no_crash_breaks_any_two_operations_of_two_threads() {
    let limit = std::env::var("SEAWALL_PAIRS").map(|limit| limit.parse().expect("a number"));
    let (limit, step) = limit.map_or((FEW, EVERY), |limit| (limit, 1));
    let all = operations();
    let pairs = all.iter().flat_map(|one| all.iter().map(move |other| [*one, *other]));
    let pairs = pairs.flat_map(|ops| [false, true].map(|in_place| (ops, in_place)));
    let pairs: Vec<([Op; 2], bool)> = pairs.step_by(step).collect();
    let (next, runs) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let bad = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((ops, in_place)) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (made, finding) = explore(*ops, *in_place, limit, HeapFlaw::None);
                    runs.fetch_add(made, Ordering::Relaxed);
                    bad.lock().expect("no panic").extend(finding);
                }
            });
        }
    });
    let (bad, runs) = (bad.into_inner().expect("no panic"), runs.into_inner());
    println!("{} pairs, {runs} runs", pairs.len());
    assert!(bad.is_empty(), "{} of {} pairs: {}", bad.len(), pairs.len(), bad[0]);
    assert!(runs >= pairs.len(), "{runs} runs of {} pairs", pairs.len());
}

#[test]
fn pairs_find_logs_that_are_retired_too_early_and_chunks_that_are_counted_too_early() {
    let ops = [Op::Replace(Logging::Redo, 40), Op::Retire];
    let (runs, finding) = explore(ops, false, 400, HeapFlaw::NoWait);
    assert!(finding.is_some(), "not caught in {runs} runs");
    let ops = [Op::Replace(Logging::Redo, 70_000), Op::Store(Logging::Redo)];
    let (_, finding) = explore(ops, false, 4, HeapFlaw::EarlyGrowth);
    assert!(finding.is_some(), "no pool grows");
}
