//! Several structures in one transaction: all of it happens, or nothing.

use crate::subject::{TINY, heap_options};
use proptest::prelude::*;
use seawall_collections::{BTreeError, KvMap, Map, MapError, MapFlaw, Tree};
use seawall_explore::{CrashImage, CrashPoint, Interleavings, Model, RunError, Schedules};
use seawall_explore::{Schedule, Search, Trace, Traced, check, record, search};
use seawall_memory::{Addr, Image, Memory};
use seawall_native::{Pool, PoolOptions};
use seawall_runtime::{Heap, HeapOptions, Logging, Session, Tx, TxError};
use std::collections::BTreeMap;

const NAME: &str = "together";
const VERSIONS: u64 = 8;
type Small = Tree<4, 3>;
type Contents = BTreeMap<u64, u64>;

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Map(#[from] MapError),
    #[error(transparent)]
    Tree(#[from] BTreeError),
    #[error(transparent)]
    Heap(#[from] TxError),
    #[error("the program gave up")]
    GaveUp,
}

/// Two maps and a tree in one heap.
#[derive(Clone)]
struct World {
    one: Map,
    two: KvMap,
    tree: Small,
}

fn options(threads: u64) -> HeapOptions {
    HeapOptions { root_bytes: 32, ..heap_options(threads, 24) }
}

fn dram_bytes(options: &HeapOptions) -> u64 {
    options.dram_bytes() + Small::dram_bytes(VERSIONS)
}

fn links(heap: &Heap) -> ([Addr; 3], Addr) {
    ([0, 8, 16].map(|at| heap.root().plus(at)), Addr::dram(heap.dram_bytes()))
}

impl World {
    fn create<M: Memory>(memory: &M, options: &HeapOptions) -> (Heap, World) {
        let heap = Heap::create(memory, NAME, 7, options).expect("good options");
        let ([one, two, tree], dram) = links(&heap);
        let mut session = heap.join(memory);
        let made = session.transaction(|tx| {
            Ok::<_, Failure>(World {
                one: Map::create(tx, one, &TINY)?,
                two: KvMap::create(tx, two, &TINY)?,
                tree: Small::create_in(tx, tree, dram, VERSIONS)?,
            })
        });
        session.leave();
        (heap, made.expect("room"))
    }

    fn open<M: Memory>(memory: &M, bytes: u64) -> Result<(Heap, World, [Contents; 3]), String> {
        let (heap, _) = Heap::open(memory, NAME, bytes).map_err(|error| error.to_string())?;
        let ([one, two, tree], dram) = links(&heap);
        let mut session = heap.join(memory);
        let mut open = || {
            Ok::<_, Failure>(World {
                one: Map::open(&mut session, one)?,
                two: KvMap::open(&mut session, two)?,
                tree: Small::open(&mut session, tree, dram, VERSIONS)?,
            })
        };
        let world = open().map_err(|error| error.to_string())?;
        drop(session);
        let contents = world.contents(memory, &heap)?;
        Ok((heap, world, contents))
    }

    /// What the structures hold, if they are sound and nothing else is in the heap.
    fn contents<M: Memory>(&self, memory: &M, heap: &Heap) -> Result<[Contents; 3], String> {
        let mut contents: [Contents; 3] = Default::default();
        let [one, two, tree] = &mut contents;
        let sizes = [self.one.check(memory, heap), self.two.check(memory, heap)];
        let mut objects = 0;
        for size in sizes {
            objects += size.map_err(|damage| damage.to_string())?.objects;
        }
        let found = self.tree.check(memory, heap, |key, value| {
            tree.insert(key, value);
        });
        let found = found.map_err(|error| error.to_string())?;
        self.one
            .for_each(memory, |key, value| {
                one.insert(key, value);
            })
            .map_err(|error| error.to_string())?;
        self.two
            .for_each(memory, |key, value| {
                two.insert(number(key), number(value));
            })
            .map_err(|error| error.to_string())?;
        let all = heap.stats(memory).map_err(|error| error.to_string())?.objects;
        match all == objects + found.leaves + found.inners {
            true => Ok(contents),
            false => Err(format!("{all} objects, of which {objects} and {found:?} are in use")),
        }
    }

    fn insert<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        place: usize,
        key: u64,
        value: u64,
    ) -> Result<(), Failure> {
        match place {
            0 => drop(self.one.insert_in(tx, key, value)?),
            1 => drop(self.two.insert_in(tx, &key.to_le_bytes(), &value.to_le_bytes())?),
            _ => drop(self.tree.insert_in(tx, key, value)?),
        }
        Ok(())
    }

    fn get<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        place: usize,
        key: u64,
    ) -> Result<Option<u64>, Failure> {
        Ok(match place {
            0 => self.one.get_in(tx, key)?,
            1 => self.two.get_in(tx, &key.to_le_bytes())?.map(|value| number(&value)),
            _ => self.tree.get_in(tx, key)?,
        })
    }

    fn remove<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        place: usize,
        key: u64,
    ) -> Result<Option<u64>, Failure> {
        let value = self.get(tx, place, key)?;
        let was_there = match place {
            0 => self.one.remove_in(tx, key)?.is_some(),
            1 => self.two.remove_in(tx, &key.to_le_bytes())?,
            _ => self.tree.remove_in(tx, key)?.is_some(),
        };
        assert_eq!(was_there, value.is_some());
        Ok(value)
    }

    /// Moves a key from one structure to another; false if it is not there.
    fn shift<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: u64,
        from: usize,
        to: usize,
    ) -> Result<bool, Failure> {
        let Some(value) = self.remove(tx, from, key)? else { return Ok(false) };
        self.insert(tx, to, key, value + 1)?;
        Ok(true)
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

#[derive(Clone, Debug)]
enum Act {
    Insert(usize, u64, u64),
    Remove(usize, u64),
    Get(usize, u64),
}

/// A transaction: what it does, of which kind it is, whether its program gives up at the end.
type Batch = (Vec<Act>, bool, bool);

fn batch() -> impl Strategy<Value = Batch> {
    let act = prop_oneof![
        5 => (0usize..3, 0u64..60, 0u64..1000).prop_map(|(at, key, v)| Act::Insert(at, key, v)),
        5 => (0usize..3, 0u64..60).prop_map(|(at, key)| Act::Remove(at, key)),
        2 => (0usize..3, 0u64..60).prop_map(|(at, key)| Act::Get(at, key)),
    ];
    let acts = proptest::collection::vec(act, 0..25);
    (acts, proptest::bool::weighted(0.3), proptest::bool::weighted(0.3))
}

/// Runs a batch on structures and model; what the model holds then.
fn run<M: Memory>(
    world: &World,
    session: &mut Session<'_, M>,
    model: &[Contents; 3],
    (acts, is_undo, gives_up): &Batch,
) -> Result<Option<[Contents; 3]>, TestCaseError> {
    let kind = if *is_undo { Logging::Undo } else { Logging::Redo };
    let outcome = session.retry(kind, |tx| {
        let mut after = model.clone();
        for act in acts {
            let (found, wanted) = match *act {
                Act::Insert(at, key, value) => {
                    let found = world.get(tx, at, key)?;
                    world.insert(tx, at, key, value)?;
                    (found, after[at].insert(key, value))
                }
                Act::Remove(at, key) => (world.remove(tx, at, key)?, after[at].remove(&key)),
                Act::Get(at, key) => (world.get(tx, at, key)?, after[at].get(&key).copied()),
            };
            assert_eq!(found, wanted, "{act:?}");
        }
        if *gives_up { Err(Failure::GaveUp) } else { Ok(after) }
    });
    match outcome {
        Ok(after) => Ok(Some(after)),
        Err(Failure::GaveUp) => Ok(None),
        Err(error) => Err(TestCaseError::fail(error.to_string())),
    }
}

proptest! {
    #[test]
    fn transactions_over_three_structures_happen_wholly_or_leave_all_as_it_was(
        batches in proptest::collection::vec(batch(), 0..20), threads in 1u64..3,
    ) {
        let options = options(threads);
        let image = Image::new(options.pm_bytes(), dram_bytes(&options));
        let (heap, world) = World::create(&image, &options);
        let mut session = heap.join(&image);
        let mut model: [Contents; 3] = Default::default();
        for batch in &batches {
            if let Some(after) = run(&world, &mut session, &model, batch)? {
                model = after;
            }
            prop_assert_eq!(world.contents(&image, &heap), Ok(model.clone()));
        }
        session.leave();
        let again = Image::from_pm(image.into_pm(), dram_bytes(&options));
        let (.., found) = World::open(&again, options.pm_bytes()).expect("whole");
        prop_assert_eq!(found, model);
    }
}

/// A heap whose first map holds the keys 0 to 9, its second 10 to 19, its tree 20 to 29.
fn filled(threads: u64) -> (Image, Heap, World) {
    let options = options(threads);
    let image = Image::new(options.pm_bytes(), dram_bytes(&options));
    let (heap, world) = World::create(&image, &options);
    let mut session = heap.join(&image);
    for key in 0..30 {
        let place = key as usize / 10;
        session.transaction(|tx| world.insert(tx, place, key, 10 * key)).expect("room");
    }
    session.retire();
    session.leave();
    (image, heap, world)
}

/// Where every key is, if each is in one place.
fn places(contents: &[Contents; 3]) -> Result<BTreeMap<u64, usize>, String> {
    let mut places = BTreeMap::new();
    for (place, contents) in contents.iter().enumerate() {
        for key in contents.keys() {
            if places.insert(*key, place).is_some() {
                return Err(format!("key {key} is in two structures"));
            }
        }
    }
    match places.len() {
        30 => Ok(places),
        count => Err(format!("{count} of 30 keys are left")),
    }
}

/// Keys that each of two threads moves, from where to where.
type Moves = [[(u64, usize, usize); 3]; 2];

/// In opposite directions.
const MOVES: Moves = [[(3, 0, 1), (22, 2, 0), (4, 0, 2)], [(12, 1, 0), (5, 0, 2), (13, 1, 2)]];

/// Moves keys in a transaction each; or, by mistake, removes in one and inserts in the next.
fn shift_all(world: &World, heap: &Heap, memory: &Traced<'_>, moves: &Moves, is_apart: bool) {
    let mut session = heap.join(memory);
    for (number, (key, from, to)) in (0..).zip(moves[memory.thread()]) {
        if is_apart {
            let value = session.retry(Logging::Redo, |tx| world.remove(tx, from, key));
            let value = value.expect("sound").expect("there");
            let inserted = session.retry(Logging::Redo, |tx| world.insert(tx, to, key, value));
            inserted.expect("room");
        } else {
            let moved = session.retry(Logging::Redo, |tx| world.shift(tx, key, from, to));
            assert!(moved.expect("room"));
        }
        memory.output(number);
    }
}

fn survives(
    threads: usize,
    model: Model,
    how: &Search,
    moves: Moves,
    is_apart: bool,
    flaw: MapFlaw,
) -> Result<usize, String> {
    let (image, heap, mut world) = filled(threads as u64);
    world.one = world.one.with_flaw(flaw);
    world.two = world.two.with_flaw(flaw);
    let base = Schedule { threads, ..Schedule::default() };
    let preemptions = Schedules { interruptions: 2, limit: 60, ..Schedules::new(model) };
    let found: Result<Interleavings<Trace>, RunError> = preemptions.all(&base, |schedule| {
        let world = world.clone();
        let program = move |memory: &Traced<'_>| shift_all(&world, &heap, memory, &moves, is_apart);
        record(image.clone(), schedule, program)
    });
    let found = found.map_err(|error| error.to_string())?;
    let bytes = options(threads as u64).pm_bytes();
    let recover = |image: &CrashImage| World::open(image, bytes).map(|(.., found)| found);
    let judge = |found: &[Contents; 3], point: &CrashPoint| {
        let places = places(found)?;
        for (thread, moves) in moves.iter().enumerate().take(threads) {
            let done = point.outputs[thread] as usize;
            let at = |(number, (key, from, to)): (usize, &(u64, usize, usize))| {
                let place = places[key];
                place == if number < done { *to } else { *from } || (number == done && place == *to)
            };
            if !moves.iter().enumerate().all(at) {
                return Err(format!("after {done} moves of thread {thread}: {places:?}"));
            }
        }
        Ok(())
    };
    for (schedule, trace) in &found.runs {
        let how = Search { ..how.clone() };
        if let Some(finding) = search(trace, &how, &check(recover, judge)).finding {
            return Err(format!("{model:?}, {:?}: {finding}", schedule.turns));
        }
    }
    Ok(found.runs.len())
}

#[test]
fn no_crash_finds_a_moved_key_in_both_structures_or_in_none() {
    for model in Model::all() {
        let how = Search { depth: 1, budget: 20_000, ..Search::new(model) };
        survives(1, model, &how, MOVES, false, MapFlaw::None).unwrap();
    }
    let how = Search::new(Model::Px86);
    assert!(
        survives(1, Model::Px86, &how, MOVES, true, MapFlaw::None).is_err(),
        "in two transactions"
    );
}

#[test]
fn no_crash_and_no_order_of_two_threads_that_move_keys_past_each_other_loses_one() {
    for model in [Model::Px86, Model::Hops] {
        let how = Search { depth: 0, budget: 300, ..Search::new(model) };
        assert!(survives(2, model, &how, MOVES, false, MapFlaw::None).unwrap() > 20);
    }
    // Some of the keys that both threads put into the first map meet in a slot.
    let how = Search { depth: 0, budget: 300, ..Search::new(Model::Px86) };
    let is_caught = |key: u64| {
        let to_first = |place: u64| [0, 1, 2].map(|at| (10 * place + key + at, place as usize, 0));
        let moves = [to_first(1), to_first(2)];
        survives(2, Model::Px86, &how, moves, false, MapFlaw::NoLock).is_err()
    };
    assert!((0..8).any(is_caught), "without locks");
}

#[test]
fn real_threads_that_move_keys_to_and_fro_lose_none_and_always_end() {
    let options = options(2);
    let how = PoolOptions { dram_bytes: dram_bytes(&options), ..PoolOptions::default() };
    let pool = Pool::temporary(options.pm_bytes(), &how).expect("a pool");
    let memory = pool.memory(0);
    let (heap, world) = World::create(&memory, &options);
    let mut session = heap.join(&memory);
    for key in 0..30 {
        session.transaction(|tx| world.insert(tx, key as usize / 10, key, 0)).expect("room");
    }
    session.leave();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (pool, world) = (&pool, world.clone());
            scope.spawn(move || {
                let memory = pool.memory(thread as usize);
                let mut session = heap.join(&memory);
                let mut moved = 0;
                for number in 0..10_000u64 {
                    let random = (number ^ thread << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
                    let (key, from) = (random % 30, random as usize / 64 % 3);
                    let to = (from + 1 + random as usize / 256 % 2) % 3;
                    let was_there = session.retry(Logging::Redo, |tx| {
                        let places = (0..3).filter_map(|at| world.get(tx, at, key).transpose());
                        let there = places.collect::<Result<Vec<u64>, Failure>>()?;
                        assert_eq!(there.len(), 1, "key {key} is in one place");
                        world.shift(tx, key, from, to)
                    });
                    moved += u64::from(was_there.expect("room"));
                }
                session.leave();
                assert!(moved > 1000);
            });
        }
    });
    let contents = world.contents(&memory, &heap).expect("sound");
    places(&contents).unwrap();
}
