//! Objects of a heap that many threads allocate, give to each other and free: no two that live at
//! the same time share a byte, and each holds what its owner put there.

use super::native::{pool, times};
use super::options;
use crate::subject::NAME;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_runtime::{Heap, Logging, Session, TxError};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// When an object surely lived: from the return of its allocation to the call that freed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Life {
    at: u64,
    bytes: u64,
    from: u64,
    to: u64,
}

/// Refuses lives that overlap in time and space.
fn check(lives: &[Life]) -> Result<(), String> {
    let mut moments: Vec<(u64, bool, &Life)> = Vec::new();
    for life in lives {
        moments.push((life.from, true, life));
        moments.push((life.to, false, life));
    }
    moments.sort_by_key(|(moment, begins, _)| (*moment, *begins));
    let mut live: BTreeMap<u64, &Life> = BTreeMap::new();
    for (_, begins, life) in moments {
        if !begins {
            live.remove(&life.at);
            continue;
        }
        let below = live.range(..life.at + life.bytes).next_back();
        if let Some((_, other)) = below.filter(|(_, other)| other.at + other.bytes > life.at) {
            return Err(format!("{other:?} and {life:?} overlap"));
        }
        live.insert(life.at, life);
    }
    Ok(())
}

/// An object between its allocation and its end.
struct Owned {
    at: Addr,
    bytes: u64,
    from: u64,
    /// What all of its words hold.
    mark: u64,
}

fn allocated<M: Memory>(
    session: &mut Session<'_, M>,
    bytes: u64,
    mark: u64,
    tick: &impl Fn() -> u64,
) -> Owned {
    let at = session.retry(Logging::Redo, |tx| {
        let at = tx.alloc(bytes)?;
        for word in 0..bytes / 8 {
            tx.store(at.plus(8 * word), mark)?;
        }
        Ok::<_, TxError>(at)
    });
    Owned { at: at.expect("room"), bytes, from: tick(), mark }
}

fn freed<M: Memory>(session: &mut Session<'_, M>, owned: &Owned, tick: &impl Fn() -> u64) -> Life {
    for word in 0..owned.bytes / 8 {
        let found: u64 = session.memory().load(owned.at.plus(8 * word));
        assert_eq!(found, owned.mark, "word {word} of {:?}", owned.at);
    }
    let to = tick();
    session.retry(Logging::Redo, |tx| tx.free(owned.at)).expect("live");
    Life { at: owned.at.offset(), bytes: owned.bytes, from: owned.from, to }
}

/// Threads that put objects into one basket and free what others put there.
fn lives(threads: usize, count: u64, seed: u64) -> Vec<Life> {
    let (pool, options) = (pool(threads), options(threads));
    let heap = Heap::create(&pool.memory(0), NAME, 7, &options).expect("good options");
    let (clock, basket) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let tick = || clock.fetch_add(1, Ordering::SeqCst);
    let work = |thread: usize| {
        let memory = pool.memory(thread);
        let mut session = heap.join(&memory);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ (thread as u64) << 32);
        let mut lives = Vec::new();
        for number in 0..count {
            let bytes = 8 << rng.random_range(0..5);
            let mark = (thread as u64) << 32 | number;
            let owned = allocated(&mut session, bytes, mark, &tick);
            let taken = {
                let mut basket = basket.lock().expect("no thread panics");
                basket.push(owned);
                let at = rng.random_range(0..basket.len());
                (basket.len() > 4 * threads).then(|| basket.swap_remove(at))
            };
            lives.extend(taken.map(|owned| freed(&mut session, &owned, &tick)));
        }
        session.leave();
        lives
    };
    let work = &work;
    let mut all: Vec<Life> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it holds")).collect()
    });
    let memory = pool.memory(0);
    let mut session = heap.join(&memory);
    let rest = basket.into_inner().expect("no thread panics");
    all.extend(rest.iter().map(|owned| freed(&mut session, owned, &tick)));
    assert_eq!(heap.stats(&memory).expect("sound").objects, 0);
    all
}

#[test]
fn no_two_objects_of_up_to_32_threads_live_in_one_place_at_once() {
    for seed in 1..=3 * times() {
        for threads in [8, 16, 32] {
            let lives = lives(threads, 200, seed);
            assert_eq!(lives.len(), 200 * threads);
            check(&lives).unwrap_or_else(|why| panic!("seed {seed}, {threads} threads: {why}"));
        }
    }
}

/// What a heap would do that gives away a place before its object is freed: each life is told to
/// end a while later than it did.
#[test]
fn lives_that_overlap_are_refused() {
    let life = |at, bytes, from, to| Life { at, bytes, from, to };
    assert_eq!(check(&[life(64, 64, 0, 5), life(64, 64, 6, 9), life(128, 8, 0, 9)]), Ok(()));
    assert!(check(&[life(64, 64, 0, 7), life(64, 64, 6, 9)]).is_err());
    assert!(check(&[life(64, 64, 0, 9), life(120, 64, 1, 2)]).is_err());
    assert!(check(&[life(120, 64, 0, 9), life(64, 64, 1, 2)]).is_err());
    assert!(check(&[life(64, 640, 0, 9), life(128, 8, 1, 2)]).is_err());
    let mut late = lives(8, 200, 1);
    late.iter_mut().for_each(|life| life.to += 200);
    assert!(check(&late).is_err(), "places are used again soon");
}
