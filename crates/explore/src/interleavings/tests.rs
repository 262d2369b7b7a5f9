//! Schedules with interruptions at places against schedules with interruptions at every call.

use super::*;
use crate::images::reachable;
use crate::recorder::record;
use crate::recoveries::Recoveries;
use crate::trace::Kind;
use crate::traced::Traced;
use crate::{CrashImage, CrashPoint, Reached, Search, check, search_on};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_memory::{Addr, Image, Memory, MemoryExt};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

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

/// What a crash shows: the words that recovery reads, what was promised, and what was told.
type State = (Vec<u64>, Vec<u64>, Vec<u64>);

const WORDS: [Addr; 5] = [Addr::pm(64), Addr::pm(72), Addr::pm(128), Addr::pm(192), Addr::pm(256)];

/// A few calls that thread and seed choose, on words that the threads share or do not.
fn wander(memory: &Traced<'_>, seed: u64, calls: u64) {
    let thread = memory.thread() as u64;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed * 8 + thread);
    let mut seen = 0u64;
    for call in 0..calls {
        let volatile = [Addr::dram(0), Addr::dram(8)];
        let at = match rng.random_range(0..8) {
            at @ 0..4 => WORDS[at],
            4 => WORDS[4].plus(64 * thread),
            at => volatile[at % 2],
        };
        let value = 1 + call + 10 * thread + 100 * (seen % 3);
        match rng.random_range(0..10) {
            0 | 1 => memory.store(at, value),
            2 => seen += memory.load::<u64>(at),
            3 if seen % 2 == 1 => memory.store(at, value),
            3 => seen += memory.load::<u64>(at),
            4 => memory.persist(at, 8),
            5 => memory.flush(at, 8),
            6 => seen += memory.fetch_add(at, 1),
            7 => seen += memory.compare_exchange(at, seen, value).is_ok() as u64,
            8 => memory.write_nt(at, &value.to_le_bytes()),
            _ if call % 2 == 0 => memory.order(),
            _ => memory.output(call),
        }
    }
    memory.output(calls);
}

/// Every state that a crash of the program shows, and the runs that showed something new.
fn states(
    how: &Schedules,
    reduction: Reduction,
    (threads, calls): (usize, u64),
    seed: u64,
) -> (BTreeSet<State>, Tried) {
    let base = Schedule { threads, ..Schedule::default() };
    let all = RefCell::new(BTreeSet::new());
    let program = move |memory: &Traced<'_>| wander(memory, seed, calls);
    // What is known of recovery holds from run to run; the runs to compare with know nothing.
    let mut known = Recoveries::default();
    let visit = |_: &Schedule, trace: Trace| {
        if reduction == Reduction::Nothing {
            known = Recoveries::default();
        }
        let words = |image: &CrashImage| Ok(WORDS.map(|at| image.load::<u64>(at)).to_vec());
        let judge = |found: &Vec<u64>, point: &CrashPoint| {
            let state = (found.clone(), point.promised.to_vec(), point.outputs.to_vec());
            all.borrow_mut().insert(state);
            Ok(())
        };
        let options =
            Search { depth: 0, thorough: how.thorough, torn_lines: 8, ..Search::new(how.model) };
        let (trace, go_on) = (Arc::new(trace), &mut |_| ControlFlow::Continue(()));
        let outcome = search_on(trace, &options, &check(words, judge), &mut known, go_on);
        assert_eq!(outcome.reached, Reached::Complete);
        ControlFlow::Continue(())
    };
    let record = |schedule: &Schedule| record(start(), schedule, program);
    let tried = how.each_but(reduction, &base, &mut |_| (), record, visit).unwrap();
    assert!(tried.complete);
    (all.into_inner(), tried)
}

/// Both what the reduced exploration finds and what one of all schedules finds.
fn both(
    model: Model,
    reduction: Reduction,
    size: (usize, u64),
    interruptions: usize,
    seed: u64,
) -> [BTreeSet<State>; 2] {
    let (delays, limit) = (seed as usize % 3, usize::MAX);
    let reduced = Schedules { interruptions, delays, limit, ..Schedules::new(model) };
    let all = Schedules { thorough: true, ..reduced.clone() };
    let (expected, _) = states(&all, Reduction::Nothing, size, seed);
    let (found, _) = states(&reduced, reduction, size, seed);
    [found, expected]
}

fn compare(size: (usize, u64), interruptions: usize, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        for model in Model::all() {
            let [found, expected] = both(model, Reduction::Redundant, size, interruptions, seed);
            let missed: Vec<_> = expected.difference(&found).take(2).collect();
            let added: Vec<_> = found.difference(&expected).take(2).collect();
            assert!(
                missed.is_empty() && added.is_empty(),
                "seed {seed}, {model}, {size:?}, {interruptions} interruptions: missed {missed:?}, \
                 added {added:?}"
            );
        }
    }
}

/// More programs in the long run, `SEAWALL_PROGRAMS=1000`. Each is tried under every model.
fn programs(few: u64) -> std::ops::Range<u64> {
    let more = std::env::var("SEAWALL_PROGRAMS").ok().and_then(|n| n.parse().ok());
    0..more.unwrap_or(few)
}

#[test]
fn two_threads_show_all_that_interruptions_at_every_call_show() {
    compare((2, 4), 2, programs(24));
    compare((2, 3), 6, programs(24));
}

#[test]
fn three_threads_show_all_that_interruptions_at_every_call_show() {
    compare((3, 3), 1, programs(12));
    compare((3, 2), 2, programs(24));
}

#[test]
fn a_reduction_that_leaves_out_too_much_misses_states() {
    use Reduction::{Fences, Handovers, OrderOfFences, OrderOfStores};
    for reduction in [Fences, Handovers, OrderOfFences, OrderOfStores] {
        let misses = |seed: u64| {
            let (size, interruptions) =
                if seed.is_multiple_of(2) { ((2, 4), 2) } else { ((3, 2), 2) };
            let [found, expected] = both(Model::Px86, reduction, size, interruptions, seed);
            found != expected
        };
        assert!((0..400).any(misses), "{reduction:?} misses nothing");
    }
}

/// Thread 0 stores to `WORDS[3]` only if thread 1 saw the first of two stores to `WORDS[0]`: only
/// then do they share `WORDS[2]`.
fn rarely_shared(memory: &Traced<'_>) {
    let [first, _, second, third, _] = WORDS;
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
        assert!(how.each_but(reduction, &base, &mut |_| (), record, visit).unwrap().complete);
        told
    };
    assert_eq!(outputs(Reduction::OtherRuns), 0, "places of one run are not enough");
    assert!(outputs(Reduction::Redundant) > 0);
}
