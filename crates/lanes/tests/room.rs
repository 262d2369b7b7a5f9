//! What lanes leave to each other in a pool that is nearly full.

use seawall_lanes::{LaneGuard, LanePurpose, Lanes};
use seawall_memory::Addr;
use seawall_native::{Pool, PoolOptions};
use seawall_runtime::{CHUNK_BYTES, Heap, HeapOptions, Logging, Paused, TxError};
use std::collections::BTreeSet;
use std::sync::Barrier;

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
    // So many that both lanes keep their free space.
    let lanes = lanes(130);
    let full = fill(lanes, CHUNK_BYTES);
    let mut lane = LaneGuard::take(lanes, LanePurpose::Call, 0);
    for at in full.iter().step_by(50).take(2) {
        lane.session().transaction(|tx| tx.free(*at)).unwrap();
    }
    drop(lane);
    // The pool is taken to be short of room for so many calls.
    for _ in 0..2000 {
        drop(LaneGuard::take(lanes, LanePurpose::Call, 0));
    }
    let both = Barrier::new(2);
    std::thread::scope(|scope| {
        for (number, [first, then]) in [[1000, 3000], [3000, 1000]].into_iter().enumerate() {
            let both = &both;
            scope.spawn(move || {
                let mut open = Open::new(lanes, number);
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
