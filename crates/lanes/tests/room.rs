//! What lanes leave to each other in a pool that is nearly full.

use seawall_lanes::{LaneGuard, LanePurpose, Lanes};
use seawall_memory::Addr;
use seawall_native::{Pool, PoolOptions};
use seawall_runtime::{CHUNK_BYTES, Heap, HeapOptions, Logging, Paused, TxError};
use std::collections::BTreeSet;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Four lanes, of which two are for transactions, in a pool with that many chunks.
fn lanes(chunks: u64) -> &'static Lanes {
    let bytes = chunks * CHUNK_BYTES;
    let options =
        HeapOptions { bytes, bytes_max: bytes, threads: 4, in_place: true, ..Default::default() };
    let file = PoolOptions { dram_bytes: options.dram_bytes(), ..PoolOptions::default() };
    let pool = Box::leak(Box::new(Pool::temporary(options.pm_bytes(), &file).unwrap()));
    let heap = Heap::create(&pool.memory(0), "lanes", 7, &options).unwrap();
    Box::leak(Box::new(Lanes::new(pool, heap)))
}

/// A transaction that has a lane, and stays open from call to call.
struct Open {
    lane: LaneGuard,
    paused: Option<Paused>,
}

impl Open {
    fn new(lanes: &'static Lanes, number: usize) -> Open {
        let mut lane = LaneGuard::take(lanes, LanePurpose::Transaction, number);
        assert_eq!(lane.number(), number);
        let paused = Some(lane.session().start(Logging::Undo).unwrap().pause());
        Open { lane, paused }
    }

    fn alloc(&mut self, bytes: u64) -> Result<Addr, TxError> {
        let paused = &mut self.paused;
        self.lane.with_room(|session| {
            let mut tx = session.take_up(paused.take().unwrap());
            let outcome = tx.alloc(bytes);
            *paused = Some(tx.pause());
            outcome
        })
    }

    fn commit(mut self) {
        self.lane.session().take_up(self.paused.take().unwrap()).commit().unwrap();
    }
}

/// Allocates objects of that length, each in a call of its own, until there is no room.
fn fill(lanes: &'static Lanes, bytes: u64) -> BTreeSet<Addr> {
    let alloc = || {
        let mut lane = LaneGuard::take(lanes, LanePurpose::Call, 0);
        lane.with_room(|session| session.transaction(|tx| tx.alloc(bytes)))
    };
    std::iter::from_fn(|| alloc().ok()).collect()
}

/// Frees objects, each in a call of its own.
fn free<'a>(lanes: &'static Lanes, objects: impl IntoIterator<Item = &'a Addr>) {
    for at in objects {
        let mut lane = LaneGuard::take(lanes, LanePurpose::Call, 0);
        lane.session().transaction(|tx| tx.free(*at)).unwrap();
    }
}

#[test]
fn an_open_transaction_leaves_the_rest_of_its_chunks_to_calls() {
    let all = fill(lanes(2), 1000).len();
    let lanes = lanes(2);
    // In so small a pool, the first lane alone keeps its free space.
    let _first = LaneGuard::take(lanes, LanePurpose::Call, 0);
    let mut open = Open::new(lanes, 1);
    let at = open.alloc(1000).unwrap();
    let others = fill(lanes, 1000);
    assert!(!others.contains(&at), "two have {at}");
    assert_eq!(others.len(), all - 1, "of {all} in two chunks");
    open.commit();
}

#[test]
fn two_open_transactions_that_want_room_give_each_other_theirs() {
    let lanes = lanes(130);
    let full = fill(lanes, CHUNK_BYTES);
    free(lanes, full.iter().step_by(50).take(2));
    let both = Barrier::new(2);
    std::thread::scope(|scope| {
        for (number, [first, then]) in [[1000, 3000], [3000, 1000]].into_iter().enumerate() {
            let both = &both;
            scope.spawn(move || {
                let mut open = Open::new(lanes, number);
                both.wait();
                let outcome = open.alloc(first);
                both.wait();
                let outcome = outcome.and_then(|_| open.alloc(then));
                both.wait();
                outcome.unwrap();
                open.commit();
            });
        }
    });
}

#[test]
fn a_thread_that_waits_for_a_lane_first_returns_what_its_transaction_keeps() {
    // So large a pool that the lanes for transactions keep their free space.
    let lanes = lanes(130);
    let mut lane = LaneGuard::take(lanes, LanePurpose::Call, 0);
    for _ in 0..127 {
        lane.session().transaction(|tx| tx.alloc(CHUNK_BYTES)).unwrap();
    }
    drop(lane);
    let waits = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut open = Open::new(lanes, 0);
            open.alloc(1000).unwrap();
            waits.wait();
            waits.wait();
            let gives_up = || open.lane.give_up_space();
            drop(LaneGuard::take_beside(lanes, 0, gives_up));
            open.commit();
        });
        waits.wait();
        let mut others = [(); 3].map(|()| LaneGuard::take(lanes, LanePurpose::Call, 0));
        let mut alloc = || others[0].session().transaction(|tx| tx.alloc(1000));
        let before = alloc();
        waits.wait();
        let end = Instant::now() + Duration::from_secs(5);
        let after = loop {
            let after = alloc();
            if after.is_ok() || Instant::now() > end {
                break after;
            }
        };
        drop(others);
        assert!(before.is_err() && after.is_ok(), "{before:?}, {after:?}");
    });
}

#[test]
fn threads_that_free_one_for_each_new_one_in_a_full_pool_lose_no_room() {
    for (bytes, purpose) in [
        (1000, LanePurpose::Call),
        (10_000, LanePurpose::Call),
        (2 * CHUNK_BYTES, LanePurpose::Call),
        (1000, LanePurpose::Transaction),
    ] {
        let lanes = lanes(40);
        let full = fill(lanes, bytes);
        let mut shares: Vec<Vec<Addr>> = vec![Vec::new(); 4];
        for (at, number) in full.iter().zip((0..4).cycle()) {
            shares[number].push(*at);
        }
        std::thread::scope(|scope| {
            for (number, mut mine) in shares.into_iter().enumerate() {
                let alloc = move || {
                    let mut lane = LaneGuard::take(lanes, purpose, number);
                    lane.with_room(|session| session.transaction(|tx| tx.alloc(bytes)))
                };
                scope.spawn(move || {
                    for _ in 0..300 {
                        if let Ok(at) = alloc() {
                            mine.push(at);
                        } else if let Some(at) = mine.pop() {
                            free(lanes, [&at]);
                        }
                    }
                    free(lanes, &mine);
                });
            }
        });
        assert_eq!(fill(lanes, bytes).len(), full.len(), "of {bytes} bytes");
    }
}
