//! Programs of which it is known what their schedules are, and what they leave.

use super::*;
use crate::images::reachable;
use crate::recorder::record;
use crate::trace::Kind;
use crate::traced::Traced;
use seawall_memory::{Addr, Image, Memory, MemoryExt};
use std::collections::BTreeSet;

fn start() -> Image {
    Image::new(1024, 64)
}

fn found(how: &Schedules, threads: usize, program: fn(&Traced<'_>)) -> Interleavings<Trace> {
    let base = Schedule { threads, ..Schedule::default() };
    how.all(&base, |turns| record(start(), turns, program)).unwrap()
}

fn interleavings(interruptions: usize, program: fn(&Traced<'_>)) -> Interleavings<Trace> {
    found(&Schedules { interruptions, ..Schedules::new(Model::Px86) }, 2, program)
}

/// The values of four words that crashes leave, over all runs.
fn left(model: Model, program: fn(&Traced<'_>)) -> BTreeSet<Vec<u64>> {
    let found = found(&Schedules { interruptions: 3, ..Schedules::new(model) }, 2, program);
    let places = [64, 72, 128, 192].map(Addr::pm);
    found.runs.iter().flat_map(|(_, trace)| reachable(trace, model, &places).0).collect()
}

#[test]
fn threads_that_share_nothing_are_not_interrupted() {
    let found = interleavings(3, |memory| {
        let own = Addr::pm(512 * memory.thread() as u64);
        (0..4).for_each(|line| memory.store(own.plus(64 * line), 1u64));
    });
    assert_eq!((found.tried.made, found.tried.complete), (2, true), "either thread goes first");
}

#[test]
fn stores_to_words_of_one_line_are_tried_in_both_orders() {
    for model in Model::all() {
        let left = left(model, |memory| {
            let own = Addr::pm(64 + 8 * memory.thread() as u64);
            memory.store(own, 1u64);
            memory.persist(own, 8);
        });
        let both = left.contains(&vec![0, 1, 0, 0]) && left.contains(&vec![1, 0, 0, 0]);
        assert!(both, "{model}");
    }
}

#[test]
fn stores_of_two_threads_are_tried_in_both_orders_where_that_is_the_image() {
    for model in Model::all() {
        let left = left(model, |memory| {
            memory.store(Addr::pm(128 + 64 * memory.thread() as u64), 1u64);
            memory.order();
        });
        let both = left.contains(&vec![0, 0, 0, 1]) && left.contains(&vec![0, 0, 1, 0]);
        assert!(both, "{model}");
    }
}

#[test]
fn a_last_store_without_a_fence_is_tried_before_and_after_the_fences_of_others() {
    let left = left(Model::Px86, |memory| {
        let (a, b, c) = (Addr::pm(64), Addr::pm(128), Addr::pm(192));
        if memory.thread() == 1 {
            memory.store(a, 1u64);
            memory.store(b, 1u64);
            memory.persist(b, 8);
            memory.output(1);
        } else {
            memory.drain();
            if memory.load::<u64>(a) == 1 {
                memory.store(c, 1u64);
            }
        }
    });
    assert!(left.contains(&vec![0, 0, 0, 1]) && left.contains(&vec![1, 0, 0, 1]), "{left:?}");
}

#[test]
fn a_lost_update_needs_one_interruption() {
    let sums = |interruptions| {
        let found = interleavings(interruptions, |memory| {
            let sum = memory.load::<u64>(Addr::pm(64));
            memory.store(Addr::pm(64), sum + 1);
        });
        let last = |trace: &Trace| trace.stores.last().expect("two stores").new;
        found.runs.iter().map(|(_, trace)| last(trace)).collect::<BTreeSet<u64>>()
    };
    assert_eq!(sums(0), [2].into());
    assert_eq!(sums(1), [1, 2].into());
}

#[test]
fn a_limit_that_cuts_the_runs_is_reported() {
    let base = Schedule { threads: 2, ..Schedule::default() };
    let how = Schedules { limit: 2, ..Schedules::new(Model::Px86) };
    let found = how.all(&base, |turns| {
        record(start(), turns, |memory| {
            for _ in 0..3 {
                memory.fetch_add(Addr::pm(64), 1);
            }
        })
    });
    let found = found.unwrap();
    assert_eq!((found.runs.len(), found.tried.complete), (2, false));
}

/// Thread 0 stores to the third word only if thread 1 saw the first of two stores to the first one:
/// only then do they share the second.
fn rarely_shared(memory: &Traced<'_>) {
    let [first, second, third] = [64, 128, 192].map(Addr::pm);
    if memory.thread() == 0 {
        memory.store(first, 1u64);
        if memory.load::<u64>(second) == 1 {
            memory.store(third, 7u64);
            memory.output(1);
        }
        memory.store(first, 2u64);
    } else if memory.load::<u64>(first) == 1 {
        memory.store(second, 1u64);
    }
}

#[test]
fn a_word_that_is_shared_only_in_an_interrupted_run_is_a_place_in_all_runs() {
    let outputs = |reduction| {
        let base = Schedule { threads: 2, ..Schedule::default() };
        let how = Schedules::new(Model::Px86);
        let mut told = 0;
        let visit = |_: &Schedule, trace: Trace| {
            told += trace.events.iter().filter(|e| matches!(e.kind, Kind::Output { .. })).count();
            ControlFlow::Continue(())
        };
        let record = |schedule: &Schedule| record(start(), schedule, rarely_shared);
        let (models, seen) = ([how.model], &mut Branching::default());
        let tried = how.each_but((reduction, &models), &base, seen, &mut |_| (), record, visit);
        assert!(tried.unwrap().complete);
        told
    };
    assert_eq!(outputs(Reduction::OtherRuns), 0, "places of one run are not enough");
    assert!(outputs(Reduction::Redundant) > 0);
}

/// The runs that are made of a program of two threads.
fn made(program: fn(&Traced<'_>)) -> Tried {
    let found = interleavings(2, program);
    assert!(found.tried.complete);
    found.tried
}

/// What both do to the same words.
fn work(memory: &Traced<'_>) {
    for word in [64, 128, 192].map(Addr::pm) {
        let value = memory.load::<u64>(word);
        memory.store(word, value + 1);
    }
}

/// Thread 0 lets the other one begin, and waits for its end; the other one works so often, and
/// thread 0 before it, beside it and after it.
fn start_and_join(memory: &Traced<'_>, of_other: u64, [before, beside, after]: [u64; 3]) {
    let [begun, ended] = [0, 8].map(Addr::dram);
    if memory.thread() == 0 {
        (0..before).for_each(|_| work(memory));
        memory.store(begun, 1u64);
        (0..beside).for_each(|_| work(memory));
        memory.spin_while(ended, 0);
        (0..after).for_each(|_| work(memory));
    } else {
        memory.spin_while(begun, 0);
        (0..of_other).for_each(|_| work(memory));
        memory.store(ended, 1u64);
    }
}

#[test]
fn what_comes_before_a_thread_or_after_it_costs_nothing() {
    let none = made(|memory| start_and_join(memory, 0, [0, 0, 0]));
    let apart = made(|memory| start_and_join(memory, 2, [3, 0, 3]));
    let beside = made(|memory| start_and_join(memory, 1, [0, 1, 0]));
    assert_eq!(apart.made, none.made, "{apart:?}, without work {none:?}");
    assert!(beside.made > 3 * none.made, "{beside:?}, without work {none:?}");
}

/// Thread 1 works after thread 0, and waits for that by looking or asleep.
fn one_after_the_other(memory: &Traced<'_>, asleep: bool) {
    let bell = Addr::dram(0);
    match (memory.thread(), asleep) {
        (0, _) => {
            work(memory);
            memory.store(bell, 1u64);
        }
        (_, true) => {
            memory.sleep_until_set(bell);
            work(memory);
        }
        (_, false) => {
            memory.spin_while(bell, 0);
            work(memory);
        }
    }
}

#[test]
fn a_thread_that_sleeps_until_it_is_woken_costs_nothing_before_that() {
    let asleep: fn(&Traced<'_>) = |memory| one_after_the_other(memory, true);
    let looking: fn(&Traced<'_>) = |memory| one_after_the_other(memory, false);
    assert_eq!(left(Model::Px86, asleep), left(Model::Px86, looking));
    let [asleep, looking] = [asleep, looking].map(made);
    assert_eq!(asleep.runs, 1, "{asleep:?}");
    assert!(2 * asleep.made < looking.made, "{asleep:?}, and looking {looking:?}");
}

#[test]
fn a_fence_of_a_thread_that_asked_for_nothing_is_no_place() {
    let idle: fn(&Traced<'_>) = |memory| {
        for _ in 0..3 {
            memory.fetch_add(Addr::dram(8 * memory.thread() as u64), 1);
            memory.drain();
        }
        memory.store(Addr::pm(64 * (1 + memory.thread() as u64)), 1u64);
    };
    assert_eq!(made(idle).made, made(|_| {}).made);
    let flushes: fn(&Traced<'_>) = |memory| {
        memory.persist(Addr::pm(64 * (1 + memory.thread() as u64)), 8);
        memory.drain();
    };
    assert!(made(flushes).made > made(|_| {}).made);
}

#[test]
fn what_a_lock_protects_is_interrupted_at_the_lock_only() {
    let locked: fn(&Traced<'_>) = |memory| {
        let lock = Addr::dram(0);
        while memory.compare_exchange(lock, 0, 1).is_err() {
            memory.spin_while(lock, 1);
        }
        work(memory);
        memory.store(lock, 0u64);
    };
    let [locked, bare] = [locked, work].map(made);
    assert!(locked.made < bare.made, "{locked:?}, and without a lock {bare:?}");
}
