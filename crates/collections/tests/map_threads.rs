//! Two threads: on this machine as fast as they go, and in every order with a few interruptions.

use crate::is_tried;
use crate::subject::{Contents, NAME, Subject, TINY, WIDE, heap_options, made, reopened, whole};
use seawall_collections::{KvMap, Map, MapFlaw, MapOptions};
use seawall_explore::{CrashImage, CrashPoint, Interleavings, Model, RunError, Schedules};
use seawall_explore::{Schedule, Search, Trace, Traced, check, record, search};
use seawall_memory::Memory;
use seawall_native::{Pool, PoolOptions};
use seawall_runtime::Heap;
use std::ops::Range;

/// Threads that change keys of their own, next to each other, while they read those of others.
fn race<S: Subject>(rounds: u64) {
    const KEYS: u64 = 150;
    let options = heap_options(2, 60);
    let pool_options = PoolOptions { dram_bytes: options.dram_bytes(), ..PoolOptions::default() };
    let pool = Pool::temporary(options.pm_bytes(), &pool_options).expect("a pool");
    let heap = Heap::create(&pool.memory(0), NAME, 7, &options).expect("good options");
    let memory = pool.memory(0);
    let mut session = heap.join(&memory);
    let map = session.transaction(|tx| S::create(tx, heap.root(), &TINY)).expect("room");
    session.leave();
    let work = |thread: u64| {
        let memory = pool.memory(thread as usize);
        let mut session = heap.join(&memory);
        let mut model = Contents::new();
        for number in 0..rounds {
            let random = (number ^ thread << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            let key = 2 * (random % KEYS) + thread;
            if random >> 20 & 3 == 0 {
                assert_eq!(map.remove(&mut session, key), Ok(model.remove(&key).is_some()));
            } else {
                let value = number * 16 + thread;
                let was = map.insert(&mut session, key, value);
                assert_eq!(was, Ok(model.insert(key, value).is_some()));
            }
            assert_eq!(map.get(&memory, key), model.get(&key).copied());
            if let Some(value) = map.get(&memory, key ^ 1) {
                assert_eq!(value % 16, 1 - thread, "the other thread writes other values");
            }
            if number % 500 == 0 {
                map.contents(&memory).expect("no key twice, no value torn");
            }
        }
        session.leave();
        model
    };
    let work = &work;
    let [mut one, mut two] = std::thread::scope(|scope| {
        let threads = [0, 1].map(|thread| scope.spawn(move || work(thread)));
        threads.map(|thread| thread.join().expect("it holds"))
    });
    one.append(&mut two);
    assert_eq!(whole(&memory, &heap, &map), Ok(one));
}

#[test]
fn two_threads_at_full_speed_do_not_disturb_each_other() {
    race::<Map>(20_000);
    race::<KvMap>(20_000);
}

/// All runs of two threads with at most so many interruptions, up to a limit.
fn interleaved<S: Subject>(
    first: u64,
    flaw: MapFlaw,
    interruptions: usize,
    program: impl Fn(&S, &Heap, &Traced<'_>) + Clone + 'static,
) -> Result<Interleavings<Trace>, RunError> {
    interleaved_up_to(&TINY, 40, 0..first, flaw, interruptions, program)
}

fn interleaved_up_to<S: Subject>(
    map_options: &MapOptions,
    limit: usize,
    mut first: Range<u64>,
    flaw: MapFlaw,
    interruptions: usize,
    program: impl Fn(&S, &Heap, &Traced<'_>) + Clone + 'static,
) -> Result<Interleavings<Trace>, RunError> {
    let options = heap_options(2, 24);
    let (image, heap, map) = made::<S>(&options, map_options);
    let mut session = heap.join(&image);
    assert!(first.all(|key| map.insert(&mut session, key, key) == Ok(false)));
    session.retire();
    session.leave();
    let map = map.flawed(flaw);
    let preemptions = Schedules { interruptions, limit, delays: 0, ..Schedules::new(Model::Px86) };
    let base = Schedule { threads: 2, ..Schedule::default() };
    preemptions.all(&base, |schedule| {
        let program = program.clone();
        record(image.clone(), schedule, move |memory| program(&map, &heap, memory))
    })
}

/// Each thread changes a key that is there and two that are not, of its own.
fn change<S: Subject>(map: &S, heap: &Heap, memory: &Traced<'_>) {
    let thread = memory.thread() as u64;
    let mut session = heap.join(memory);
    map.insert(&mut session, 100 + thread, 1).map(drop).expect("room");
    memory.output(0);
    map.insert(&mut session, 102 + thread, 2).map(drop).expect("room");
    memory.output(1);
    map.insert(&mut session, thread, 16).map(drop).expect("room");
    memory.output(2);
    map.remove(&mut session, 100 + thread).map(drop).expect("there");
    memory.output(3);
}

/// What the keys of a thread of [`change`] are after so many of its steps.
fn after(thread: u64, steps: u64) -> [Option<u64>; 3] {
    let added = [None, Some(1), Some(1), Some(1), None][steps as usize];
    [added, (steps > 1).then_some(2), Some(if steps < 3 { thread } else { 16 })]
}

fn survives<S: Subject>(model: Model, first: u64, flaw: MapFlaw) -> Result<(), String> {
    let found =
        interleaved::<S>(first, flaw, 2, change::<S>).map_err(|error| format!("{error:?}"))?;
    let bytes = heap_options(2, 24).pm_bytes();
    for (schedule, trace) in found.runs {
        let recover =
            |image: &CrashImage| reopened::<S, _>(image, bytes).map(|(_, _, found)| found);
        let judge = |found: &Contents, point: &CrashPoint| {
            let keys =
                |thread| [100 + thread, 102 + thread, thread].map(|key| found.get(&key).copied());
            let fits = |thread: u64, steps: u64| keys(thread) == after(thread, steps);
            for thread in 0..2 {
                let done = point.outputs[thread as usize];
                if !(done..=(done + 1).min(4)).any(|steps| fits(thread, steps)) {
                    return Err(format!("after {done} steps of {thread}: {found:?}"));
                }
            }
            match (2..first).all(|key| found.get(&key) == Some(&key)) {
                true => Ok(()),
                false => Err(format!("a key that nobody touched: {found:?}")),
            }
        };
        let how = Search { depth: 0, budget: 300, ..Search::new(model) };
        if let Some(finding) = search(&trace, &how, &check(recover, judge)).finding {
            return Err(format!("{:?}: {finding}", schedule.turns));
        }
    }
    Ok(())
}

#[test]
fn no_crash_of_two_threads_breaks_a_map() {
    for model in Model::all() {
        for (at, first) in [4, 24].into_iter().enumerate() {
            if is_tried(model, 2 * at, 4) {
                survives::<Map>(model, first, MapFlaw::None).unwrap();
            }
            if is_tried(model, 2 * at + 1, 4) {
                survives::<KvMap>(model, first, MapFlaw::None).unwrap();
            }
        }
    }
}

#[test]
fn writers_that_take_no_lock_are_caught() {
    assert!(survives::<Map>(Model::Px86, 4, MapFlaw::NoLock).is_err());
}

/// One thread puts another key where the one was that the other thread reads.
fn replace<S: Subject>(map: &S, heap: &Heap, memory: &Traced<'_>) {
    if memory.thread() == 0 {
        let seen = map.get(memory, 1);
        assert!([None, Some(1), Some(7)].contains(&seen), "{seen:?}");
    } else {
        let mut session = heap.join(memory);
        assert_eq!(map.remove(&mut session, 1), Ok(true));
        for key in [50, 51, 52] {
            assert_eq!(map.insert(&mut session, key, 33), Ok(false));
        }
        assert_eq!(map.insert(&mut session, 1, 7), Ok(false));
    }
}

/// One thread splits segments and fills them, while the other reads what moves.
fn split<S: Subject>(map: &S, heap: &Heap, memory: &Traced<'_>) {
    if memory.thread() == 0 {
        for key in 0..4 {
            assert_eq!(map.get(memory, key), Some(key));
        }
    } else {
        let mut session = heap.join(memory);
        for key in 50..75 {
            assert_eq!(map.insert(&mut session, key, 33), Ok(false));
        }
    }
}

fn reads<S: Subject>(flaw: MapFlaw) -> Result<usize, RunError> {
    let replaced = interleaved::<S>(4, flaw, 2, replace::<S>)?;
    let split = interleaved::<S>(20, flaw, 2, split::<S>)?;
    Ok(replaced.runs.len() + split.runs.len())
}

#[test]
fn a_reader_never_sees_what_was_not_there() {
    assert!(reads::<Map>(MapFlaw::None).unwrap() > 50);
    assert!(reads::<KvMap>(MapFlaw::None).unwrap() > 50);
}

#[test]
fn a_reader_that_does_not_look_at_versions_is_caught() {
    assert!(reads::<Map>(MapFlaw::NoVersion).is_err());
    assert!(reads::<KvMap>(MapFlaw::NoVersion).is_err());
}

/// One thread removes until segments merge, while the other adds to what they merge with, and
/// reads.
fn merge<S: Subject>(from: u64) -> impl Fn(&S, &Heap, &Traced<'_>) + Clone {
    move |map, heap, memory| {
        let mut session = heap.join(memory);
        if memory.thread() == 0 {
            for key in from..from + 2 {
                assert_eq!(map.remove(&mut session, key), Ok(true));
            }
        } else {
            for key in 100..103 {
                assert_eq!(map.get(memory, key - 1), Some(key - 1).filter(|key| *key >= 100));
                assert_eq!(map.insert(&mut session, key, key), Ok(false));
                assert_eq!(map.get(memory, 39), Some(39));
            }
            assert_eq!(map.get(memory, 100), Some(100));
        }
    }
}

/// The first key whose removal, after that of those before it, merges segments.
fn merging<S: Subject>() -> u64 {
    let (image, heap, map) = made::<S>(&heap_options(2, 24), &WIDE);
    let mut session = heap.join(&image);
    assert!((0..40).all(|key| map.insert(&mut session, key, key) == Ok(false)));
    let objects = |map: &S| {
        let size = map.check(&image, &heap).expect("whole");
        size.objects - size.keys * S::RECORDS
    };
    let before = objects(&map);
    let merges = |key: &u64| {
        map.remove(&mut session, *key).expect("there");
        objects(&map) < before
    };
    (0..38).find(merges).expect("little is left")
}

fn merges<S: Subject>(flaw: MapFlaw, limit: usize) -> Result<usize, String> {
    let from = merging::<S>();
    let found = interleaved_up_to::<S>(&WIDE, limit, from..40, flaw, 2, merge::<S>(from));
    let found = found.map_err(|error| format!("{error:?}"))?;
    let bytes = heap_options(2, 24).pm_bytes();
    for (schedule, trace) in &found.runs {
        let recover =
            |image: &CrashImage| reopened::<S, _>(image, bytes).map(|(_, _, found)| found);
        let kept = |found: &Contents| (from + 2..40).all(|key| found.get(&key) == Some(&key));
        let judge = |found: &Contents, _: &CrashPoint| match kept(found) {
            true => Ok(()),
            false => Err(format!("a key that nobody touched: {found:?}")),
        };
        let how = Search { depth: 0, budget: 50, ..Search::new(Model::Px86) };
        if let Some(finding) = search(trace, &how, &check(recover, judge)).finding {
            return Err(format!("{:?}: {finding}", schedule.turns));
        }
    }
    Ok(found.runs.len())
}

#[test]
fn nothing_is_lost_when_segments_merge_under_others() {
    assert!(merges::<Map>(MapFlaw::None, 100).unwrap() > 50);
    assert!(merges::<KvMap>(MapFlaw::None, 100).unwrap() > 50);
    assert!(merges::<Map>(MapFlaw::LooseBuddy, 400).is_err(), "the buddy was not locked");
}

#[test]
fn keys_are_shown_once_while_segments_split() {
    let found = interleaved::<Map>(20, MapFlaw::None, 2, |map, heap, memory| {
        if memory.thread() == 0 {
            let contents = map.contents(memory).expect("no key twice");
            assert!((0..20).all(|key| contents.get(&key) == Some(&key)));
        } else {
            split(map, heap, memory);
        }
    });
    assert!(found.unwrap().runs.len() > 20);
}
