//! Reservations, and going from one object to the next.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_memory::{Addr, Image, Memory};
use seawall_native::{Pool, PoolOptions};
use seawall_runtime::{
    BLOCK_BYTES_MAX, CHUNK_BYTES, Heap, HeapError, HeapOptions, Logging, Object, Session,
    SharedSpace, TxError, block_bytes,
};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

fn heap(threads: u64, chunks: u64) -> (Image, Heap) {
    let bytes = chunks << 16;
    let options =
        HeapOptions { bytes, bytes_max: bytes, threads, in_place: true, ..HeapOptions::default() };
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let heap = Heap::create(&image, "reserved", 7, &options).unwrap();
    (image, heap)
}

/// The object that starts at `at`.
fn object_at<M: Memory>(heap: &Heap, memory: &M, at: Addr) -> Result<Option<Object>, HeapError> {
    let mut found = None;
    heap.objects(memory, |object| found = found.or(Some(object).filter(|it| it.at == at)))?;
    Ok(found)
}

/// A heap for two threads.
fn shared() -> (Pool, Heap) {
    shared_of(HeapOptions::default())
}

/// A heap of one chunk, for two threads whose sessions share their space.
fn shared_chunk() -> (Pool, Heap, SharedSpace) {
    let options =
        HeapOptions { bytes: CHUNK_BYTES, bytes_max: CHUNK_BYTES, ..HeapOptions::default() };
    let (pool, heap) = shared_of(options);
    (pool, heap, SharedSpace::default())
}

fn shared_of(options: HeapOptions) -> (Pool, Heap) {
    let options = HeapOptions { threads: 2, in_place: true, ..options };
    let file = PoolOptions { dram_bytes: options.dram_bytes(), ..PoolOptions::default() };
    let pool = Pool::temporary(options.pm_bytes(), &file).unwrap();
    let heap = Heap::create(&pool.memory(0), "reserved", 7, &options).unwrap();
    (pool, heap)
}

fn publish<M: Memory>(session: &mut Session<'_, M>, at: Addr) -> Result<(), TxError> {
    session.transaction(|tx| tx.publish(at))
}

#[test]
fn nobody_gets_reserved_space_and_a_cancelled_reservation_is_space_again() {
    let (image, heap) = heap(1, 2);
    let mut session = heap.join(&image);
    session.share(&SharedSpace::default());
    let mut reserved = BTreeSet::new();
    let error = loop {
        match session.reserve(1000) {
            Ok(at) => assert!(reserved.insert(at), "{at} twice"),
            Err(error) => break error,
        }
        // Chunks are looked through again.
        session.give_up_space();
    };
    assert!(matches!(error, TxError::Full { .. }), "{error}");
    assert!(reserved.len() > 60, "{}", reserved.len());
    assert!(session.transaction(|tx| tx.alloc(1000)).is_err());
    for at in &reserved {
        session.cancel(*at).unwrap();
    }
    let mut again = 0;
    while session.transaction(|tx| tx.alloc(1000)).is_ok() {
        again += 1;
    }
    assert_eq!(again, reserved.len());
}

#[test]
fn what_one_session_reserves_another_one_publishes_once() -> Result<(), HeapError> {
    let (pool, heap) = shared();
    let memory = [pool.memory(0), pool.memory(1)];
    let reservations = SharedSpace::default();
    let mut one = heap.join(&memory[0]);
    one.share(&reservations);
    let at = one.reserve(100)?;
    let large = one.reserve(BLOCK_BYTES_MAX + 1)?;
    let mut other = heap.join(&memory[1]);
    other.share(&reservations);
    for at in [at, large] {
        assert_eq!(object_at(&heap, &memory[0], at)?, None, "not yet");
        publish(&mut other, at)?;
        let object = object_at(&heap, &memory[0], at)?.unwrap();
        assert_eq!((object.at, object.bytes), (at, object.bytes.max(100)));
        assert_eq!(publish(&mut one, at), Err(TxError::NoObject { at }));
        assert_eq!(one.cancel(at), Err(TxError::NoObject { at }));
        one.transaction(|tx| tx.free(at))?;
    }
    Ok(())
}

#[test]
fn a_run_that_a_session_keeps_is_its_own_until_it_gives_that_up() -> Result<(), HeapError> {
    const BYTES: u64 = 2 * CHUNK_BYTES;
    let options = HeapOptions {
        bytes: 4 * CHUNK_BYTES,
        bytes_max: 4 * CHUNK_BYTES,
        threads: 2,
        in_place: true,
        ..HeapOptions::default()
    };
    let file = PoolOptions { dram_bytes: options.dram_bytes(), ..PoolOptions::default() };
    let pool = Pool::temporary(options.pm_bytes(), &file).expect("a temporary pool");
    let heap = Heap::create(&pool.memory(0), "kept", 7, &options)?;
    let memory = [pool.memory(0), pool.memory(1)];
    let (mut one, mut other) = (heap.join(&memory[0]), heap.join(&memory[1]));
    one.keep_freed_run(true);
    let at = one.transaction(|tx| tx.alloc(BYTES))?;
    let behind = other.transaction(|tx| tx.alloc(BYTES))?;
    one.transaction(|tx| tx.free(at))?;
    assert!(other.transaction(|tx| tx.alloc(BYTES)).is_err(), "it is kept");
    assert_eq!(one.transaction(|tx| tx.alloc(BYTES))?, at, "for objects of its length");
    one.transaction(|tx| tx.free(at))?;
    let small = one.transaction(|tx| tx.alloc(100))?;
    assert!(small > at && small < behind, "for others, when there is no other room");
    one.transaction(|tx| tx.free(small))?;
    one.give_up_space();
    one.transaction(|tx| tx.free(behind))?;
    assert!(other.transaction(|tx| tx.alloc(2 * BYTES)).is_err(), "it keeps another one");
    one.leave();
    other.transaction(|tx| tx.alloc(2 * BYTES))?;
    Ok(())
}

#[test]
fn an_opened_heap_has_no_reservations() -> Result<(), HeapError> {
    let (image, heap) = heap(1, 2);
    let mut session = heap.join(&image);
    session.share(&SharedSpace::default());
    let at = session.reserve(100)?;
    let dram_bytes = heap.dram_bytes();
    let image = Image::from_pm(image.into_pm(), dram_bytes);
    let (heap, _) = Heap::open(&image, "reserved", image.pm_bytes())?;
    let mut session = heap.join(&image);
    session.share(&SharedSpace::default());
    assert_eq!(publish(&mut session, at), Err(TxError::NoObject { at }));
    assert_eq!(session.transaction(|tx| tx.alloc(100))?, at, "its space is free");
    Ok(())
}

#[test]
fn going_from_one_to_the_next_finds_what_a_walk_finds() -> Result<(), HeapError> {
    let (image, heap) = heap(1, 40);
    let mut session = heap.join(&image);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut live = Vec::new();
    for _ in 0..600 {
        if rng.random_range(0..3) > 0 || live.is_empty() {
            let most = [60, 600, 6000, 100_000][rng.random_range(0..4)];
            match session.transaction(|tx| tx.alloc(rng.random_range(1..most))) {
                Ok(at) => live.push(at),
                Err(error) => assert!(matches!(error, TxError::Full { .. }), "{error}"),
            }
        } else {
            let at = live.swap_remove(rng.random_range(0..live.len()));
            session.transaction(|tx| tx.free(at))?;
            assert_eq!(object_at(&heap, &image, at)?, None);
        }
    }
    let mut walked = Vec::new();
    heap.objects(&image, |object| walked.push(object))?;
    let mut found = Vec::new();
    let mut at = None;
    while let Some(object) = heap.object_after(&image, at)? {
        assert_eq!(object_at(&heap, &image, object.at)?, Some(object));
        assert_eq!(object_at(&heap, &image, object.at.plus(1))?, None);
        at = Some(object.at);
        found.push(object);
    }
    assert_eq!(found, walked);
    assert_eq!(walked.len(), live.len());
    Ok(())
}

#[test]
fn going_from_one_to_the_next_beside_another_thread_finds_all_that_stays() -> Result<(), HeapError>
{
    let bytes = 60 * CHUNK_BYTES;
    let (pool, heap) = shared_of(HeapOptions { bytes, bytes_max: bytes, ..Default::default() });
    let memory = pool.memory(0);
    let mut session = heap.join(&memory);
    let (mut stay, mut go) = (BTreeSet::new(), Vec::new());
    for round in 0..60 {
        let at = session.transaction(|tx| tx.alloc([40, 9000, 70_000][round % 3]))?;
        if round % 4 == 3 {
            go.push(at);
        } else {
            stay.insert(at);
        }
    }
    go.into_iter().try_for_each(|at| session.transaction(|tx| tx.free(at)))?;
    session.leave();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            churn(&mut heap.join(&pool.memory(1)));
            is_over.store(true, SeqCst);
        });
        let mut walks = 0;
        while !is_over.load(SeqCst) || walks == 0 {
            let (mut at, mut left) = (None, stay.clone());
            while let Some(object) = heap.object_after(&memory, at)? {
                assert!(at < Some(object.at), "{object:?} behind {at:?}");
                left.remove(&object.at);
                at = Some(object.at);
            }
            assert_eq!(left, BTreeSet::new(), "walk {walks}");
            walks += 1;
        }
        Ok(())
    })
}

/// Allocates and frees objects of all lengths, full of bytes that are no states, so that chunks
/// hold now blocks and now one object.
fn churn<M: Memory>(session: &mut Session<'_, M>) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    let mut live = Vec::new();
    for _ in 0..6000 {
        if live.len() < 12 && rng.random_range(0..3) > 0 {
            let most = [60, 6000, 60_000, 400_000][rng.random_range(0..4)];
            let bytes = rng.random_range(1..most);
            match session.transaction(|tx| tx.alloc(bytes)) {
                Ok(at) => {
                    session.memory().write(at, &vec![1; bytes as usize]);
                    live.push(at);
                }
                Err(error) => assert!(matches!(error, TxError::Full { .. }), "{error}"),
            }
        } else if !live.is_empty() {
            let at = live.swap_remove(rng.random_range(0..live.len()));
            session.transaction(|tx| tx.free(at)).unwrap();
        }
        if rng.random_range(0..20) == 0 {
            session.give_up_space();
        }
    }
}

#[test]
fn a_block_has_the_bytes_that_are_said_before() -> Result<(), HeapError> {
    let (image, heap) = heap(1, 40);
    let mut session = heap.join(&image);
    for bytes in [1, 32, 33, 100, 4096, 31_745, BLOCK_BYTES_MAX, BLOCK_BYTES_MAX + 1, 200_000] {
        let at = session.transaction(|tx| tx.alloc(bytes))?;
        let object = object_at(&heap, &image, at)?.unwrap();
        assert_eq!(object.bytes, block_bytes(bytes), "{bytes}");
    }
    Ok(())
}

#[test]
fn a_session_in_a_transaction_keeps_what_that_has_taken() -> Result<(), HeapError> {
    let (pool, heap) = shared();
    let memory = [pool.memory(0), pool.memory(1)];
    let (mut one, mut other) = (heap.join(&memory[0]), heap.join(&memory[1]));
    let mut tx = one.start(Logging::Undo)?;
    let at = tx.alloc(1000)?;
    let paused = tx.pause();
    one.give_up_space();
    while let Ok(taken) = other.transaction(|tx| tx.alloc(1000)) {
        assert_ne!(taken, at, "two transactions have it");
    }
    one.take_up(paused).commit()?;
    assert!(heap.object_after(&memory[0], None)?.is_some());
    Ok(())
}

/// The blocks of 1000 bytes that a session gets.
fn all_blocks<M: Memory>(session: &mut Session<'_, M>) -> BTreeSet<Addr> {
    std::iter::from_fn(|| session.transaction(|tx| tx.alloc(1000)).ok()).collect()
}

#[test]
fn a_session_that_shares_its_space_returns_in_a_transaction_what_that_has_not_taken()
-> Result<(), HeapError> {
    for commits in [true, false] {
        let (pool, heap, space) = shared_chunk();
        let memory = [pool.memory(0), pool.memory(1)];
        let (mut one, mut other) = (heap.join(&memory[0]), heap.join(&memory[1]));
        one.share(&space);
        other.share(&space);
        let mut tx = one.start(Logging::Undo)?;
        let at = tx.alloc(1000)?;
        let paused = tx.pause();
        assert_eq!(all_blocks(&mut other), BTreeSet::new(), "the only chunk is owned");
        one.give_up_space();
        let others = all_blocks(&mut other);
        assert!(others.len() > 50 && !others.contains(&at), "{}, {at}", others.len());
        other.give_up_space();
        // It goes on in the same chunk, which is full, and gives up twice.
        let mut tx = one.take_up(paused);
        assert!(tx.alloc(1000).is_err());
        let paused = tx.pause();
        one.give_up_space();
        let tx = one.take_up(paused);
        if commits {
            tx.commit()?
        } else {
            tx.abort()?
        }
        assert_eq!(object_at(&heap, &memory[0], at)?.is_some(), commits);
        let free_again = if commits { BTreeSet::new() } else { BTreeSet::from([at]) };
        assert_eq!(all_blocks(&mut other), free_again);
    }
    Ok(())
}

#[test]
fn a_session_that_packs_opens_no_chunk() -> Result<(), HeapError> {
    let (image, heap) = heap(1, 4);
    let mut session = heap.join(&image);
    let mut in_chunk = Vec::new();
    let chunk = |at: Addr| (at.offset() - heap.data().offset()) / CHUNK_BYTES;
    while in_chunk.last().is_none_or(|at| chunk(*at) == chunk(in_chunk[0])) {
        in_chunk.push(session.transaction(|tx| tx.alloc(1000))?);
    }
    let last = in_chunk.pop().unwrap();
    session.transaction(|tx| tx.free(last))?;
    session.transaction(|tx| tx.free(in_chunk[0]))?;
    session.give_up_space();
    session.set_packing(true);
    assert_eq!(session.transaction(|tx| tx.alloc(1000))?, in_chunk[0], "the first free block");
    let other_class = session.transaction(|tx| tx.alloc(3000));
    assert!(matches!(other_class, Err(TxError::Full { .. })), "{other_class:?}");
    session.set_packing(false);
    session.transaction(|tx| tx.alloc(3000))?;
    Ok(())
}

#[test]
fn what_sessions_give_up_others_use_before_they_open_a_chunk() -> Result<(), HeapError> {
    let (pool, heap) = shared();
    let memory = [pool.memory(0), pool.memory(1)];
    let space = SharedSpace::default();
    let mut sessions = memory.each_ref().map(|memory| heap.join(memory));
    sessions.iter_mut().for_each(|session| session.share(&space));
    let mut chunks = BTreeSet::new();
    for round in 0..100 {
        let session = &mut sessions[round % 2];
        let at = session.transaction(|tx| tx.alloc(100))?;
        chunks.insert(at.offset() / CHUNK_BYTES);
        session.give_up_space();
    }
    assert!(chunks.len() <= 2, "100 objects of 100 bytes in {} chunks", chunks.len());
    Ok(())
}
