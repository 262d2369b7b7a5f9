//! Recoveries by two or three threads, at random, held to those with an interruption tried before
//! every call.

use super::{RecoveryThread, WEAKER, Weaker};
use crate::check::check;
use crate::options::Search;
use crate::outcome::Reached;
use crate::recorder::record;
use crate::recoveries::Recoveries;
use crate::schedule::Schedule;
use crate::search::search_on;
use crate::{CrashImage, Traced};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_memory::{Addr, Image, Memory, MemoryExt, Model};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

const DONE: Addr = Addr::pm(0);
const WORDS: [Addr; 5] = [Addr::pm(64), Addr::pm(72), Addr::pm(128), Addr::pm(192), Addr::dram(0)];

fn start(memory: &Traced<'_>) {
    memory.store(WORDS[0], 9u64);
    memory.persist(WORDS[0], 8);
}

/// A few calls at random, whose values and places depend on what it has read.
fn act(memory: &RecoveryThread<'_>, seed: u64) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed << 8 | memory.thread() as u64);
    let mut seen = 0u64;
    for step in 0..4u64 {
        let any = WORDS[rng.random_range(0..WORDS.len())];
        // A word that only a thread uses which has read what another stored.
        let hidden = Addr::pm(256 + 64 * (seen % 2));
        let at = if rng.random_range(0..4) == 0 { hidden } else { any };
        match rng.random_range(0..7) {
            0 | 1 => memory.store(at, 1 + step + 10 * memory.thread() as u64 + 100 * (seen % 3)),
            2 => seen += memory.load::<u64>(at),
            3 if seen % 2 == 1 => memory.store(at, 50 + seen % 5),
            4 => memory.flush(at, 8),
            5 => memory.order(),
            6 => seen += memory.fetch_add(at, 1),
            _ => memory.persist(at, 8),
        }
    }
}

fn found(image: &CrashImage) -> Vec<u64> {
    let persistent = [64, 72, 128, 192, 256, 320].map(|at| image.load(Addr::pm(at)));
    [&persistent[..], &[image.load(WORDS[4])]].concat()
}

/// What recoveries by so many threads find, after crashes of one before.
fn outcomes(
    weaker: Weaker,
    model: Model,
    threads: usize,
    body: impl Fn(&RecoveryThread<'_>),
) -> BTreeSet<Vec<u64>> {
    WEAKER.set(weaker);
    let trace = record(Image::new(384, 8), &Schedule::default(), start).unwrap();
    let all = RefCell::new(BTreeSet::new());
    let recover = |image: &CrashImage| {
        if image.load::<u64>(DONE) == 0 {
            image.store(DONE, 1u64);
            image.together(threads, &body);
        }
        Ok(found(image))
    };
    let noted = check(recover, |found: &Vec<u64>, _| {
        all.borrow_mut().insert(found.clone());
        Ok(())
    });
    let most = u64::MAX;
    let interruptions = if threads == 2 { 2 } else { 1 };
    let search = Search {
        depth: 1,
        point_limit: most,
        budget: most,
        recovery_interruptions: interruptions,
        ..Search::new(model)
    };
    let (known, on) = (&mut Recoveries::default(), ControlFlow::Continue(()));
    let outcome = search_on(Arc::new(trace), &search, &noted, known, &mut |_| on);
    WEAKER.set(Weaker::Not);
    assert_eq!(outcome.reached, Reached::Complete);
    all.take()
}

/// Seeds whose outcomes differ from those with every call a place.
fn differ(weaker: Weaker, model: Model, seeds: std::ops::Range<u64>) -> usize {
    let is_other = |seed: &u64| {
        let threads = 2 + usize::from(seed % 4 == 3);
        let all = |weaker| outcomes(weaker, model, threads, |memory| act(memory, *seed));
        all(weaker) != all(Weaker::EachCall)
    };
    seeds.filter(is_other).count()
}

#[test]
fn interruptions_at_every_call_find_nothing_more() {
    for model in [Model::Px86, Model::Bep, Model::Strict] {
        assert_eq!(differ(Weaker::Not, model, 0..25), 0, "{model}");
    }
}

#[test]
fn what_threads_share_only_after_an_interruption_is_a_place_before_it() {
    assert!(differ(Weaker::OneRound, Model::Px86, 0..40) > 0);
}

#[test]
fn a_fence_is_a_place_as_a_crash_may_come_before_it() {
    let body = |memory: &RecoveryThread<'_>| match memory.thread() {
        0 => {
            memory.store(WORDS[4], 1u64);
            memory.store(WORDS[2], 7u64);
            memory.persist(WORDS[2], 8);
        }
        _ if memory.load::<u64>(WORDS[4]) == 1 => memory.store(WORDS[3], 1u64),
        _ => {}
    };
    let lost_and_kept = |found: &Vec<u64>| (found[2], found[3]) == (0, 1);
    let any = |weaker| outcomes(weaker, Model::Px86, 2, body).iter().any(lost_and_kept);
    assert!(any(Weaker::Not));
    assert!(!any(Weaker::Fences));
}
