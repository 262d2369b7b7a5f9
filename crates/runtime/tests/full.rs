//! Full pools: what a request costs that finds no room, and what freed space is good for.

use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_memory::{Addr, Image, LINE_BYTES, Memory, Width, layer};
use seawall_native::{Pool, PoolOptions};
use seawall_runtime::{
    CHUNK_BYTES, Heap, HeapError, HeapOptions, Logging, Session, SharedSpace, Tx, TxError,
};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};

const NAME: &str = "full";

/// Counts accesses, and the words of ranges.
struct Counted {
    image: Image,
    accesses: Cell<u64>,
}

impl Counted {
    fn add(&self, accesses: u64) {
        self.accesses.set(self.accesses.get() + accesses);
    }
}

impl layer::Layer for Counted {
    type Below = Image;

    fn below(&self) -> &Image {
        &self.image
    }

    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        self.add(1);
        self.image.load_bits(at, width)
    }

    fn load_line(&self, at: Addr) -> [u64; LINE_BYTES as usize / 8] {
        self.add(LINE_BYTES / 8);
        self.image.load_line(at)
    }

    fn read(&self, at: Addr, into: &mut [u8]) {
        self.add(into.len().div_ceil(8) as u64);
        self.image.read(at, into);
    }

    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        self.add(1);
        self.image.compare_exchange(at, current, new)
    }

    fn swap(&self, at: Addr, new: u64) -> u64 {
        self.add(1);
        self.image.swap(at, new)
    }
}

fn options(chunks: u64) -> HeapOptions {
    let bytes = chunks * CHUNK_BYTES;
    HeapOptions { bytes, bytes_max: bytes, threads: 2, together: true, ..HeapOptions::default() }
}

fn counted(chunks: u64) -> (Counted, Heap) {
    let options = options(chunks);
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let heap = Heap::create(&image, NAME, 7, &options).expect("good options");
    (Counted { image, accesses: Cell::new(0) }, heap)
}

/// What is allocated.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Object(u64),
    Lines(u64),
    Together,
}

impl Kind {
    fn alloc<M: Memory>(self, tx: &mut Tx<'_, '_, M>) -> Result<Addr, TxError> {
        match self {
            Kind::Object(bytes) => tx.alloc(bytes),
            Kind::Lines(bytes) => tx.alloc_lines(bytes),
            Kind::Together => tx.alloc_together([150]).map(|[at]| at),
        }
    }
}

fn is_full<T>(outcome: &Result<T, TxError>) -> bool {
    matches!(outcome, Err(TxError::Full { .. }))
}

/// The accesses of a put in a full pool that frees the oldest object when there is no room, on
/// average; among them are requests for what never fits.
fn accesses_of_puts(chunks: u64, kind: Kind, logging: Logging) -> u64 {
    const PUTS: u64 = 400;
    let (memory, heap) = counted(chunks);
    let mut session = heap.join(&memory);
    let mut objects = VecDeque::new();
    while let Ok(at) = session.transaction_with(logging, |tx| kind.alloc(tx)) {
        objects.push_back(at);
    }
    let before = memory.accesses.get();
    for number in 0..PUTS {
        if number % 4 == 0 {
            let large = session.transaction_with(logging, |tx| tx.alloc(chunks * CHUNK_BYTES));
            assert!(is_full(&large), "{large:?}");
        }
        loop {
            match session.transaction_with(logging, |tx| kind.alloc(tx)) {
                Ok(at) => break objects.push_back(at),
                full => assert!(is_full(&full), "{full:?}"),
            }
            let oldest = objects.pop_front().expect("an object");
            session.transaction_with(logging, |tx| tx.free(oldest)).expect("an object");
        }
    }
    (memory.accesses.get() - before) / PUTS
}

#[test]
fn a_request_that_finds_no_room_costs_no_more_in_a_larger_pool() {
    let kinds = [
        Kind::Object(1000),
        Kind::Object(10_000),
        Kind::Object(CHUNK_BYTES),
        Kind::Object(3 * CHUNK_BYTES),
        Kind::Lines(60),
        Kind::Together,
    ];
    for kind in kinds {
        for logging in [Logging::Redo, Logging::Undo] {
            let [small, large] = [16, 256].map(|chunks| accesses_of_puts(chunks, kind, logging));
            // Sixteen times as many chunks; a set of them has one more level.
            assert!(large < 2 * small, "{kind:?}: {small}, then {large}");
        }
    }
}

/// The accesses of an allocation, on average, in a transaction with so many, which begins behind a
/// request that found no room; half of the pool's blocks are free.
fn accesses_in_a_transaction(count: u64, shares: bool) -> u64 {
    let (memory, heap) = counted(64);
    let mut session = heap.join(&memory);
    if shares {
        session.share(&SharedSpace::default());
    }
    let mut objects = Vec::new();
    while let Ok(at) = session.transaction(|tx| tx.alloc(100)) {
        objects.push(at);
    }
    for at in objects.iter().step_by(2) {
        session.transaction(|tx| tx.free(*at)).expect("an object");
    }
    assert!(is_full(&session.transaction(|tx| tx.alloc(CHUNK_BYTES))));
    let before = memory.accesses.get();
    let outcome = session.transaction(|tx| {
        (0..count).try_for_each(|_| tx.alloc(100).map(|_| ()))?;
        Err::<(), _>(TxError::Types)
    });
    assert_eq!(outcome, Err(TxError::Types));
    (memory.accesses.get() - before) / count
}

#[test]
fn behind_a_refusal_an_allocation_costs_the_same_however_many_a_transaction_has() {
    for shares in [false, true] {
        let [few, many] = [1000, 8000].map(|count| accesses_in_a_transaction(count, shares));
        assert!(many <= few + few / 4 + 1 && many < 30, "{few}, then {many}");
    }
}

/// Two sessions in a pool of so many chunks.
fn with_two(
    chunks: u64,
    body: impl FnOnce(Heap, [Session<'_, seawall_native::NativeMemory<'_>>; 2]),
) -> Result<(), HeapError> {
    let options = options(chunks);
    let file = PoolOptions { dram_bytes: options.dram_bytes(), ..PoolOptions::default() };
    let pool = Pool::temporary(options.pm_bytes(), &file).expect("a temporary pool");
    let heap = Heap::create(&pool.memory(0), NAME, 7, &options)?;
    let [one, two] = [pool.memory(0), pool.memory(1)];
    body(heap, [heap.join(&one), heap.join(&two)]);
    Ok(())
}

/// Allocates until there is no room.
fn fill<M: Memory>(session: &mut Session<'_, M>, kind: Kind) -> Vec<Addr> {
    std::iter::from_fn(|| session.transaction(|tx| kind.alloc(tx)).ok()).collect()
}

fn free_all<'a, M: Memory>(
    session: &mut Session<'_, M>,
    objects: impl IntoIterator<Item = &'a Addr>,
) {
    for at in objects {
        session.transaction(|tx| tx.free(*at)).expect("an object");
    }
}

#[test]
fn a_free_block_serves_a_smaller_object_when_there_is_nothing_else() -> Result<(), HeapError> {
    with_two(4, |heap, [mut one, _]| {
        let large = fill(&mut one, Kind::Object(3000));
        let gone: Vec<Addr> = large.iter().step_by(3).copied().collect();
        free_all(&mut one, &gone);
        let mut small = fill(&mut one, Kind::Object(100));
        small.sort_unstable();
        assert_eq!(small, gone);
        free_all(&mut one, &small);
        let mut lines = fill(&mut one, Kind::Lines(1000));
        lines.sort_unstable();
        assert_eq!(lines, gone, "blocks of 3072 bytes start at lines");
        assert!(lines.iter().all(|at| at.bits().is_multiple_of(LINE_BYTES)));
        free_all(&mut one, &lines);
        assert_eq!(fill(&mut one, Kind::Object(4000)), [], "too long for them");
        assert_eq!(heap.objects(one.memory(), |object| assert_eq!(object.bytes, 3072)), Ok(()));
    })
}

#[test]
fn chunks_that_are_empty_again_become_runs_of_any_length() -> Result<(), HeapError> {
    for kind in [Kind::Object(30), Kind::Object(1000), Kind::Object(60_000), Kind::Together] {
        with_two(16, |_, [mut one, mut two]| {
            let objects = fill(&mut one, kind);
            // The other session frees most of what this one has allocated.
            free_all(&mut two, &objects[1..objects.len() / 2]);
            free_all(&mut one, &objects[objects.len() / 2..]);
            assert!(is_full(&two.transaction(|tx| tx.alloc(16 * CHUNK_BYTES))), "{kind:?}");
            free_all(&mut two, &objects[..1]);
            one.give_up_space();
            let all = two.transaction(|tx| tx.alloc(16 * CHUNK_BYTES));
            assert!(all.is_ok(), "{kind:?}: {all:?}");
        })?;
    }
    Ok(())
}

#[test]
fn what_a_dropped_session_listed_is_found_by_the_next_of_its_number() -> Result<(), HeapError> {
    with_two(4, |heap, [one, two]| {
        drop(two);
        let memory = one.memory();
        drop(one);
        let (mut most, mut objects) = (0, Vec::new());
        for _ in 0..50 {
            let mut session = heap.join(memory);
            objects.extend(session.transaction(|tx| tx.alloc(3000)));
            most = most.max(objects.len());
        }
        assert_eq!(most, 50, "each leaves the rest of its chunk behind");
        let mut session = heap.join(memory);
        objects.append(&mut fill(&mut session, Kind::Object(3000)));
        assert_eq!(objects.len(), 4 * 20);
        free_all(&mut session, &objects);
        assert!(session.transaction(|tx| tx.alloc(4 * CHUNK_BYTES)).is_ok());
    })
}

/// Does whatever comes with objects of all sizes, in transactions that mostly commit.
fn churn<M: Memory>(
    sessions: &mut [Session<'_, M>],
    random: &mut Xoshiro256PlusPlus,
    live: &mut BTreeMap<Addr, u64>,
) {
    let session = &mut sessions[random.random_range(0..2)];
    let aborts = random.random_ratio(1, 5);
    let mut now = live.clone();
    let logging = if random.random() { Logging::Redo } else { Logging::Undo };
    let outcome = session.transaction_with(logging, |tx| {
        for _ in 0..random.random_range(1..12) {
            if random.random_ratio(2, 5) && !now.is_empty() {
                let number = random.random_range(0..now.len());
                let at = *now.keys().nth(number).expect("an object");
                tx.free(at)?;
                now.remove(&at);
                continue;
            }
            let bytes = match random.random_range(0..4) {
                0 => random.random_range(1..200),
                1 => random.random_range(1..8000),
                2 => random.random_range(1..70_000),
                _ => random.random_range(1..4 * CHUNK_BYTES),
            };
            let kind = match random.random_range(0..8) {
                0 => Kind::Together,
                1 => Kind::Lines(bytes),
                _ => Kind::Object(bytes),
            };
            match kind.alloc(tx) {
                Ok(at) => {
                    let before = now.insert(at, bytes.min(150));
                    assert!(before.is_none(), "{at} is live");
                    // Aborted objects too must be nobody else's.
                    assert!(!live.contains_key(&at), "{at} is not yet free");
                }
                full => assert!(is_full(&full), "{full:?}"),
            }
        }
        if aborts { Err(TxError::Types) } else { Ok(()) }
    });
    match outcome {
        Ok(()) => *live = now,
        Err(error) => assert_eq!(error, TxError::Types),
    }
    if random.random_ratio(1, 20) {
        session.give_up_space();
    }
}

#[test]
fn whatever_is_allocated_and_freed_in_a_full_pool_objects_are_apart_and_none_is_lost() {
    for seed in 0..12 {
        let chunks = 2 + 5 * (seed % 3);
        with_two(chunks, |heap, mut sessions| {
            let space = SharedSpace::default();
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            if seed % 2 == 0 {
                sessions.iter_mut().for_each(|session| session.share(&space));
            }
            sessions[0].keep_freed_run(seed % 4 == 0);
            let mut live = BTreeMap::new();
            for _ in 0..1500 {
                churn(&mut sessions, &mut random, &mut live);
            }
            let (mut found, mut end) = (Vec::new(), Addr::NULL);
            let walk = heap.objects(sessions[0].memory(), |object| {
                assert!(object.at >= end, "{} lies in another object", object.at);
                end = object.at.plus(object.bytes);
                found.push(object.at);
            });
            assert_eq!((walk, found), (Ok(()), live.keys().copied().collect::<Vec<_>>()));
            let [one, two] = &mut sessions;
            for at in live.keys() {
                let session = if random.next_u64() % 2 == 0 { &mut *one } else { &mut *two };
                session.transaction(|tx| tx.free(*at)).expect("an object");
            }
            one.give_up_space();
            two.transaction(|tx| tx.alloc(chunks * CHUNK_BYTES)).expect("all is free");
        })
        .expect("good options");
    }
}
