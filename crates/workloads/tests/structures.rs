//! Level hashing and FAST & FAIR with several threads: on this machine at full speed, and in every
//! order with a few interruptions at any store. Keys that no thread deletes are always found.

use seawall_explore::{Model, Schedule, Schedules, Traced, record};
use seawall_memory::{Image, Memory};
use seawall_native::{Pool, PoolOptions};
use seawall_runtime::Arena;
use seawall_workloads::Change;
use seawall_workloads::ribbon20::structures::{FastFairShape, FastFairTree, LevelHash, LevelShape};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

mod visits;

const KEYS: u64 = 600;

/// The common operations of both.
trait Subject: Copy + Send + Sync + 'static {
    fn place(threads: u64, keys: u64, arena: &mut Arena) -> Self;
    fn recover<M: Memory>(&self, memory: &M);
    fn insert<M: Memory>(&self, memory: &M, key: u64, tag: u64) -> bool;
    fn update<M: Memory>(&self, memory: &M, key: u64, tag: u64) -> bool;
    fn delete<M: Memory>(&self, memory: &M, key: u64) -> bool;
    fn search<M: Memory>(&self, memory: &M, key: u64) -> Option<u64>;
    fn contents<M: Memory>(&self, memory: &M) -> BTreeMap<u64, u64>;
    /// The keys of a scan; `None` without an order of keys.
    fn scan<M: Memory>(&self, _: &M, _: u64, _: u64) -> Option<Vec<u64>> {
        None
    }
}

macro_rules! operations {
    ($Structure:ident) => {
        fn recover<M: Memory>(&self, memory: &M) {
            $Structure::recover(self, memory).expect("a sound pool");
        }
        fn insert<M: Memory>(&self, memory: &M, key: u64, tag: u64) -> bool {
            $Structure::insert(self, memory, key, Change::of(tag)).expect("room")
        }
        fn update<M: Memory>(&self, memory: &M, key: u64, tag: u64) -> bool {
            $Structure::update(self, memory, key, Change::of(tag))
        }
        fn delete<M: Memory>(&self, memory: &M, key: u64) -> bool {
            $Structure::delete(self, memory, key, Change::of(0))
        }
        fn search<M: Memory>(&self, memory: &M, key: u64) -> Option<u64> {
            $Structure::search(self, memory, key)
        }
        fn contents<M: Memory>(&self, memory: &M) -> BTreeMap<u64, u64> {
            $Structure::contents(self, memory).expect("every invariant holds")
        }
    };
}

impl Subject for LevelHash {
    fn place(threads: u64, keys: u64, arena: &mut Arena) -> LevelHash {
        LevelHash::place(LevelShape { threads, capacity: keys }, arena)
    }

    operations!(LevelHash);
}

impl Subject for FastFairTree {
    fn place(threads: u64, keys: u64, arena: &mut Arena) -> FastFairTree {
        FastFairTree::place(FastFairShape { threads, slots: 8, keys }, arena)
    }

    fn scan<M: Memory>(&self, memory: &M, from: u64, most: u64) -> Option<Vec<u64>> {
        let mut keys = Vec::new();
        FastFairTree::scan(self, memory, from, most, |key, _| keys.push(key));
        Some(keys)
    }

    operations!(FastFairTree);
}

/// One in four keys is never deleted.
fn stays(key: u64) -> bool {
    key.is_multiple_of(4)
}

/// The tag of a key that stays: a thread that finds another one has mixed two records.
fn tag_of(key: u64, number: u64) -> u64 {
    (number + 2) << 32 | key
}

fn check_reads<S: Subject, M: Memory>(index: &S, memory: &M, key: u64) {
    match index.search(memory, key) {
        Some(tag) => assert_eq!(tag as u32 as u64, key, "the tag of another key"),
        None => assert!(!stays(key), "key {key} is there for ever"),
    }
    let Some(keys) = index.scan(memory, key, 20) else { return };
    assert!(keys.is_sorted_by(|left, right| left < right), "{keys:?}");
    let end = if keys.len() < 20 { KEYS } else { keys[19] };
    for wanted in (key..end).filter(|key| stays(*key)) {
        assert!(keys.contains(&wanted), "{wanted} is not in {keys:?} from {key}");
    }
}

/// Threads that insert and delete keys of their own, in waves, while they search for keys that
/// stay, among them some whose values change.
fn race<S: Subject>(threads: u64, rounds: u64) {
    let mut arena = Arena::new();
    let index = S::place(threads, KEYS, &mut arena);
    let options = PoolOptions { dram_bytes: arena.dram_bytes(), ..PoolOptions::default() };
    let pool = Pool::temporary(arena.pm_bytes(), &options).expect("a pool");
    index.recover(&pool.memory(0));
    for key in (0..KEYS).filter(|key| stays(*key)) {
        assert!(index.insert(&pool.memory(0), key, tag_of(key, 0)));
    }
    let work = |thread: u64| {
        let memory = pool.memory(thread as usize);
        let mut mine = BTreeMap::new();
        for number in 0..rounds {
            let random = (number ^ thread << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            let (key, tag) = (random % KEYS, tag_of(random % KEYS, number << 8 | thread));
            check_reads(&index, &memory, random / KEYS % KEYS);
            if stays(key) {
                assert!(index.update(&memory, key, tag));
            } else if key % 4 % threads == thread {
                let grows = number / 500 % 2 == 0;
                match grows {
                    true => {
                        let is_new = !mine.contains_key(&key);
                        assert_eq!(index.insert(&memory, key, tag), is_new);
                        mine.entry(key).or_insert(tag);
                    }
                    false => assert_eq!(index.delete(&memory, key), mine.remove(&key).is_some()),
                }
                assert_eq!(index.search(&memory, key), mine.get(&key).copied());
            }
        }
        mine
    };
    let work = &work;
    let all: BTreeMap<u64, u64> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it holds")).collect()
    });
    let contents = index.contents(&pool.memory(0));
    let (stayed, others): (BTreeMap<u64, u64>, BTreeMap<u64, u64>) =
        contents.into_iter().partition(|(key, _)| stays(*key));
    assert_eq!(others, all);
    assert_eq!(stayed.len() as u64, KEYS.div_ceil(4));
}

#[test]
fn threads_at_full_speed_find_what_stays_and_keep_what_they_did() {
    race::<LevelHash>(3, 20_000);
    race::<FastFairTree>(3, 20_000);
}

/// All runs of a reader and a writer with a bounded number of interruptions.
fn interleaved<S: Subject>(first: &[u64], write: impl Fn(&S, &Traced<'_>) + Copy + 'static) {
    let mut arena = Arena::new();
    let index = S::place(2, 64, &mut arena);
    let image = Image::new(arena.pm_bytes(), arena.dram_bytes());
    index.recover(&image);
    for key in first {
        assert!(index.insert(&image, *key, tag_of(*key, 0)));
    }
    let stay: Vec<u64> = first.iter().copied().filter(|key| stays(*key)).collect();
    let preemptions = Schedules { interruptions: 2, limit: 600, ..Schedules::new(Model::Strict) };
    let base = Schedule { threads: 2, ..Schedule::default() };
    let runs = preemptions.all(&base, |schedule| {
        let stay = stay.clone();
        record(image.clone(), schedule, move |memory| {
            if memory.thread() == 0 {
                write(&index, memory);
                return;
            }
            for key in &stay {
                let found = index.search(memory, *key);
                assert_eq!(found.map(|tag| tag as u32 as u64), Some(*key));
            }
        })
    });
    assert!(runs.expect("no reader misses a key").runs.len() > 80);
}

#[test]
fn a_reader_finds_what_stays_wherever_a_writer_interrupts_it() {
    let keys: Vec<u64> = (0..12).collect();
    interleaved::<FastFairTree>(&keys, |tree, memory| {
        for key in [1, 2, 3, 5] {
            Subject::delete(tree, memory, key);
        }
        for key in [20, 21, 22, 1] {
            Subject::insert(tree, memory, key, tag_of(key, 1));
        }
    });
    interleaved::<LevelHash>(&keys, |table, memory| {
        for key in 12..30 {
            Subject::insert(table, memory, key, tag_of(key, 1));
        }
    });
}

/// The part of a thread: a function on the tree.
type Part<S> = fn(&S, &Traced<'_>);

/// Every run of two threads on an index of these keys with a bounded number of interruptions, after
/// `between`. The result must be consistent, and contain all of `kept`.
fn every_run<S: Subject>(
    interruptions: usize,
    (keys, between): (&[u64], fn(&S, &Image)),
    parts: [Part<S>; 2],
    kept: &[u64],
) {
    let mut arena = Arena::new();
    let tree = S::place(2, 64, &mut arena);
    let image = Image::new(arena.pm_bytes(), arena.dram_bytes());
    tree.recover(&image);
    for key in keys {
        assert!(tree.insert(&image, *key, tag_of(*key, 0)));
    }
    between(&tree, &image);
    let preemptions = Schedules { interruptions, limit: 1500, ..Schedules::new(Model::Strict) };
    let base = Schedule { threads: 2, ..Schedule::default() };
    let runs = preemptions.all(&base, |schedule| {
        let (ended, kept) = (Rc::new(Cell::new(0)), kept.to_vec());
        record(image.clone(), schedule, move |memory| {
            parts[memory.thread()](&tree, memory);
            ended.set(ended.get() + 1);
            if ended.get() == 2 {
                let contents = tree.contents(memory);
                assert!(kept.iter().all(|key| contents.contains_key(key)), "{contents:?}");
            }
        })
    });
    assert!(runs.expect("no run goes wrong").runs.len() > 20);
}

fn add<S: Subject>(index: &S, memory: &Traced<'_>, key: u64) {
    assert!(index.insert(memory, key, tag_of(key, 1)));
}

fn find<S: Subject>(index: &S, memory: &Traced<'_>, key: u64) {
    let found = index.search(memory, key);
    assert_eq!(found.map(|tag| tag as u32 as u64), Some(key));
}

#[test]
fn a_reader_meets_a_shift_to_the_left_from_the_right_and_one_to_the_right_from_the_left() {
    // The node was last shifted to the left, and is again.
    every_run::<FastFairTree>(
        2,
        (&[1, 2, 3, 4, 5], |tree, image| assert!(Subject::delete(tree, image, 5))),
        [
            |tree, memory| assert!(Subject::delete(tree, memory, 1)),
            |tree, memory| find(tree, memory, 4),
        ],
        &[2, 3, 4],
    );
    // A key is read, and the record moves on before its tag is read.
    every_run::<FastFairTree>(
        2,
        (&[2, 4, 5], |_, _| {}),
        [|tree, memory| add(tree, memory, 1), |tree, memory| find(tree, memory, 4)],
        &[1, 2, 4, 5],
    );
}

/// Every run of a thread whose delete joins two leaves, and another.
fn while_leaves_join(other: Part<FastFairTree>, kept: &[u64]) {
    let between = |tree: &FastFairTree, image: &Image| {
        for key in [1, 2, 8, 7, 5] {
            assert!(Subject::delete(tree, image, key));
        }
    };
    every_run::<FastFairTree>(
        2,
        (&[1, 2, 3, 4, 5, 6, 7, 8], between),
        [|tree, memory| assert!(Subject::delete(tree, memory, 6)), other],
        kept,
    );
}

#[test]
fn a_writer_on_its_way_to_a_node_that_splits_or_joins_another_goes_on_to_the_right_one() {
    every_run::<FastFairTree>(
        2,
        (&[1, 2, 3, 4, 5, 6, 7], |_, _| {}),
        [|tree, memory| add(tree, memory, 0), |tree, memory| add(tree, memory, 20)],
        &[0, 1, 2, 3, 4, 5, 6, 7, 20],
    );
    while_leaves_join(|tree, memory| add(tree, memory, 20), &[3, 4, 20]);
}

#[test]
fn a_reader_finds_what_a_join_moves() {
    while_leaves_join(|tree, memory| find(tree, memory, 4), &[3, 4]);
}

#[test]
fn a_move_to_a_bucket_where_another_thread_inserts_loses_nothing() {
    // Of 48 slots few are left, so that inserts move entries.
    let keys: Vec<u64> = (0..38).collect();
    let more = [38, 39, 40, 41, 50, 51, 52, 53];
    every_run::<LevelHash>(
        2,
        (&keys, |_, _| {}),
        [
            |table, memory| (38..42).for_each(|key| add(table, memory, key)),
            |table, memory| {
                (50..54).for_each(|key| add(table, memory, key));
            },
        ],
        &[&keys[..], &more].concat(),
    );
}

#[test]
fn a_reader_of_a_slot_that_another_key_gets_does_not_take_its_tag() {
    // Two levels of four and two buckets, where each update uses the slot that the previous one has
    // freed.
    let keys: Vec<u64> = (0..18).collect();
    every_run::<LevelHash>(
        1,
        (&keys, |_, _| {}),
        [
            |table, memory| (0..18).for_each(|key| find(table, memory, key)),
            |table, memory| {
                for key in 0..18 {
                    assert!(Subject::update(table, memory, key, tag_of(key, 1)));
                }
            },
        ],
        &keys,
    );
}

#[test]
fn who_changes_a_key_while_the_table_grows_changes_it_where_it_is_then() {
    // Twelve slots, all taken; the last keys are below.
    let keys: Vec<u64> = (0..12).collect();
    every_run::<LevelHash>(
        1,
        (&keys, |_, _| {}),
        [
            |table, memory| {
                for key in (0..12).rev() {
                    assert!(Subject::delete(table, memory, key));
                    assert_eq!(Subject::search(table, memory, key), None);
                }
            },
            |table, memory| add(table, memory, 12),
        ],
        &[12],
    );
}
