//! Order and durability with flushers, however the threads are interrupted, after every crash.

use super::scene::{Program, Scene, options};
use seawall_explore::{Model, Schedule, Schedules, record};
use seawall_memory::{Image, Memory, MemoryExt};
use seawall_ribbon::{Ribbon, RibbonFlaw, RibbonOptions};
use seawall_runtime::Arena;

/// Each thread has two lines; the second follows the first by an order, and is drained.
pub(super) const ORDERED: Program = |memory, data, _| {
    let first = data.plus(128 * memory.thread() as u64);
    let second = first.plus(64);
    for value in 1..=2u64 {
        memory.store(first, value);
        memory.flush(first, 8);
        memory.order();
        memory.store(second, value);
        memory.persist(second, 8);
        memory.output(value);
    }
};

/// The same, with a locked operation for the order.
const LOCKED: Program = |memory, data, signals| {
    let first = data.plus(128 * memory.thread() as u64);
    let second = first.plus(64);
    memory.store(first, 1u64);
    memory.flush(first, 8);
    memory.fetch_add(signals, 1);
    memory.store(second, 1u64);
    memory.persist(second, 8);
    memory.output(1);
};

fn follows(found: &[u64], outputs: &[u64]) -> bool {
    let pairs = found.chunks_exact(2).zip(outputs);
    pairs.into_iter().all(|(pair, done)| pair[0] >= pair[1] && pair[1] >= *done)
}

pub(super) fn scene(options: RibbonOptions, model: Model, program: Program) -> Scene {
    let words: &[u64] = if options.threads == 2 { &[0, 64, 128, 192] } else { &[0, 64] };
    Scene {
        options,
        model,
        program,
        seed: 0,
        words,
        is_good: follows,
        bound: 2,
        limit: 400,
        random: 200,
    }
}

#[test]
fn what_flushers_do_is_ordered_and_durable_as_if_the_thread_did_it() {
    for model in [Model::Px86, Model::Bep, Model::Hops] {
        for (threads, flushers) in [(1, 0), (1, 1), (1, 2), (2, 1)] {
            let runs = scene(options(threads, flushers), model, ORDERED).explore();
            let runs = runs.unwrap_or_else(|bad| panic!("{model} {threads} {flushers}: {bad}"));
            assert!(runs > 200, "{runs}");
        }
    }
}

#[test]
fn a_locked_operation_orders_what_flushers_have_taken_on() {
    for flushers in 1..=2 {
        let outcome = scene(options(1, flushers), Model::Px86, LOCKED).explore();
        assert!(outcome.is_ok(), "{outcome:?}");
    }
}

#[test]
fn an_owner_without_patience_is_right_whatever_flushers_do_late() {
    for flushers in 1..=2 {
        let options = RibbonOptions { patience: Some(1), ..options(1, flushers) };
        let outcome = scene(options, Model::Px86, ORDERED).explore();
        assert!(outcome.is_ok(), "{outcome:?}");
    }
}

#[test]
fn counting_before_the_fence_or_not_waiting_is_found() {
    let flaws = [
        (RibbonFlaw::DoneBeforeFence, ORDERED),
        (RibbonFlaw::WaitsForClaims, ORDERED),
        (RibbonFlaw::LockedWaitsForNothing, LOCKED),
    ];
    for (flaw, program) in flaws {
        let options = RibbonOptions { flaw, ..options(1, 1) };
        let outcome = scene(options, Model::Px86, program).explore();
        assert!(outcome.is_err(), "{flaw:?} was not caught in {outcome:?} runs");
    }
}

#[test]
fn a_takeover_that_keeps_the_generation_is_found() {
    let flaw = RibbonFlaw::KeepsGeneration;
    let options = RibbonOptions { patience: Some(1), flaw, ..options(1, 1) };
    let scene = Scene { random: 20_000, ..scene(options, Model::Px86, ORDERED) };
    let outcome = scene.explore();
    assert!(outcome.is_err(), "not caught in {outcome:?} runs");
}

#[test]
fn a_flusher_returns_though_another_number_of_them_is_set_while_the_ribbon_is_closed() {
    let mut arena = Arena::new();
    let ribbon = Ribbon::place(&mut arena, &options(2, 2)).expect("good options");
    let image = Image::new(arena.pm_bytes().max(64), arena.dram_bytes());
    let run = |schedule: &Schedule| {
        let ribbon = ribbon.clone();
        record(image.clone(), schedule, move |memory| match memory.thread() {
            0 => ribbon.set_active(memory, 1),
            1 => ribbon.close(memory),
            _ => ribbon.serve(memory, 1),
        })
    };
    let base = Schedule { threads: 3, ..Schedule::default() };
    let interrupted = Schedules { interruptions: 2, limit: 1_000, ..Schedules::new(Model::Px86) };
    let found = interrupted.all(&base, run).unwrap_or_else(|error| panic!("{error}"));
    assert!(found.runs.len() > 2, "{}", found.runs.len());
}
