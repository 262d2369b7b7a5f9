//! 8 to 32 threads in orders that a seed decides, and crashes in any of them. Deliberate mistakes
//! are caught by the history alone.

use super::cells::Cells;
use super::checker::{Op, Refusal, check};
use super::{Kept, Keyed, Plan, Small, crashed, dram_bytes, options, recovered, work};
use crate::subject::{Contents, NAME};
use seawall_collections::{BTreeFlaw, KvMap, Map, MapFlaw};
use seawall_explore::{
    CrashImage, CrashPoint, Model, RunError, Schedule, Search, Trace, Turns, check as judged,
    record, search,
};
use seawall_memory::Image;
use seawall_runtime::{Heap, HeapFlaw};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Later than all that a run does.
const CRASH: u64 = u64::MAX / 2;

/// A run that takes longer is stuck.
const STEPS_MAX: u64 = 500_000;

/// A run of all threads of a plan.
struct Run {
    trace: Trace,
    ops: Vec<Op>,
    bytes: u64,
}

fn run<K: Keyed>(
    plan: &Plan,
    heap_flaw: HeapFlaw,
    flawed: impl Fn(K) -> K,
) -> Result<Run, RunError> {
    let options = options(plan.threads);
    let image = Image::new(options.pm_bytes(), dram_bytes(&options));
    let heap = Heap::create(&image, NAME, 7, &options).expect("good options");
    let mut session = heap.join(&image);
    let target = flawed(K::create(&mut session));
    session.leave();
    let heap = heap.with_flaw(heap_flaw);
    let turns = if plan.seed.is_multiple_of(2) { Turns::Random } else { Turns::Priorities(8) };
    let schedule = Schedule {
        threads: plan.threads,
        turns,
        seed: plan.seed,
        steps: STEPS_MAX,
        ..Schedule::default()
    };
    let ops = Rc::new(RefCell::new(Vec::new()));
    let (told, clock, plan) = (ops.clone(), Rc::new(Cell::new(0)), *plan);
    let trace = record(image, &schedule, move |memory| {
        let tick = || clock.replace(clock.get() + 1);
        work((memory, &heap, &target), &plan, &Kept { ops: &told, clock: tick });
    })?;
    Ok(Run { trace, ops: ops.take(), bytes: options.pm_bytes() })
}

/// Checks what the crashes of a run leave, up to so many.
fn survives<K: Keyed>(run: &Run, plan: &Plan, model: Model, budget: u64) -> Result<u64, String> {
    let recover =
        |image: &CrashImage| recovered::<K, _>(image, run.bytes, plan).map(|(_, _, found)| found);
    let judge = |found: &Contents, point: &CrashPoint| {
        let mut begun: Vec<u64> = point.outputs.iter().map(|done| done + 1).collect();
        let mut ops = run.ops.clone();
        ops.retain(|op| {
            let is_begun = begun[op.thread] > 0;
            begun[op.thread] = begun[op.thread].saturating_sub(1);
            is_begun
        });
        let history = crashed(&ops, &point.outputs, CRASH, plan, found);
        check(&history).map(drop).map_err(|refusal| refusal.to_string())
    };
    let how = Search { depth: 0, budget, ..Search::new(model) };
    let outcome = search(&run.trace, &how, &judged(recover, judge));
    match outcome.finding {
        Some(finding) => Err(format!("{plan:?}: {finding}")),
        None => Ok(outcome.states),
    }
}

/// 8, 16 and 32 threads in turn.
fn plan(seed: u64) -> Plan {
    let threads = 8 << ((seed - 1) % 3);
    Plan { threads, keys: 4, count: 96 / threads as u64, seed, base: 1 }
}

fn all<K: Keyed>(seeds: u64) {
    let (mut operations, mut states) = (0, 0);
    for seed in 1..=seeds * super::native::times() {
        let plan = plan(seed);
        let run = run::<K>(&plan, HeapFlaw::None, |target| target).expect("it ends");
        operations += check(&run.ops).unwrap_or_else(|refusal| panic!("{plan:?}: {refusal}"));
        for model in [Model::Px86, Model::Epoch] {
            states += survives::<K>(&run, &plan, model, 400).unwrap();
        }
    }
    println!("{operations} operations, {states} crash states");
    assert!(states > 500 * seeds, "{states}");
}

#[test]
fn some_order_explains_what_threads_saw_and_what_a_crash_left_of_a_map() {
    all::<Map>(4);
}

#[test]
fn some_order_explains_what_threads_saw_and_what_a_crash_left_of_byte_strings() {
    all::<KvMap>(4);
}

#[test]
fn some_order_explains_what_threads_saw_and_what_a_crash_left_of_a_tree() {
    all::<Small>(4);
}

#[test]
fn some_order_explains_what_threads_saw_and_what_a_crash_left_of_a_heap() {
    all::<Cells>(4);
}

/// The first seed whose history no order explains. Runs in which a mistake does other harm, such as
/// a wild address, do not count.
fn caught<K: Keyed>(flawed: impl Fn(K) -> K) -> Option<u64> {
    (1..=400).find(|seed| {
        let plan = Plan { threads: 8, keys: 16, count: 60, seed: *seed, base: 1 };
        let run = run::<K>(&plan, HeapFlaw::None, &flawed);
        run.is_ok_and(|run| matches!(check(&run.ops), Err(Refusal::Wrong { .. })))
    })
}

#[test]
fn each_deliberate_mistake_between_threads_is_caught_by_the_history_alone() {
    for flaw in [MapFlaw::NoVersion, MapFlaw::NoLock] {
        let map = caught::<Map>(|map| map.with_flaw(flaw));
        assert!(map.is_some(), "{flaw:?} of a map was not caught");
        let strings = caught::<KvMap>(|map| map.with_flaw(flaw));
        assert!(strings.is_some(), "{flaw:?} of a map of byte strings was not caught");
    }
    for flaw in [BTreeFlaw::NoValidation, BTreeFlaw::NoLock, BTreeFlaw::EarlyUnlock] {
        let tree = caught::<Small>(|tree| tree.with_flaw(flaw));
        assert!(tree.is_some(), "{flaw:?} of a tree was not caught");
    }
    assert!(caught(Cells::without_locks).is_some(), "cells without locks were not caught");
    assert_eq!(caught::<Map>(|map| map), None);
}

#[test]
fn a_heap_that_does_not_wait_for_its_log_loses_what_had_returned() {
    let lost = (1..=3).find_map(|seed| {
        let plan = plan(seed);
        let run = run::<Map>(&plan, HeapFlaw::NoFence, |map| map).expect("it ends");
        assert!(check(&run.ops).is_ok(), "without a crash nothing is wrong");
        survives::<Map>(&run, &plan, Model::Px86, 200).err()
    });
    let lost = lost.expect("it is caught");
    assert!(lost.contains("no order explains key"), "{lost}");
}
