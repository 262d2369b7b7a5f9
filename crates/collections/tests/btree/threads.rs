//! Several threads in one tree: all orders of a few small programs, and real threads.

use crate::script::{Small, State, Step, VERSIONS, checked, made, options, reopen};
use seawall_collections::{BTree, BTreeFlaw};
use seawall_explore::{
    CrashImage, CrashPoint, Model, Schedule, Schedules, Search, Trace, Turns, check, record, search,
};
use seawall_memory::{Addr, Memory};
use seawall_native::{Domain, Pool, PoolOptions};
use seawall_runtime::Heap;

/// What a thread does; each has keys of its own, but for those that it looks at.
#[derive(Clone, Debug)]
enum Act {
    Change(Step),
    /// Finds the key, which is there all the time.
    Get(u64),
    /// Finds these keys, which are there all the time, in order and once.
    Range(Vec<u64>),
}

struct Race {
    name: &'static str,
    before: Vec<u64>,
    acts: [Vec<Act>; 2],
}

struct Run(Trace);

impl AsMut<Trace> for Run {
    fn as_mut(&mut self) -> &mut Trace {
        &mut self.0
    }
}

fn insert(key: u64) -> Act {
    Act::Change(Step::Insert(key, key + 1000))
}

fn remove(key: u64) -> Act {
    Act::Change(Step::Remove(key))
}

fn races() -> Vec<Race> {
    let race = |name, before: &[u64], first: &[Act], second: &[Act]| Race {
        name,
        before: before.to_vec(),
        acts: [first.to_vec(), second.to_vec()],
    };
    let four = [10, 20, 30, 40];
    vec![
        race("inserts into one leaf", &[10], &[insert(11)], &[insert(12)]),
        race("updates in one leaf", &[10, 20], &[Act::Change(Step::Update(10, 1))], &[remove(20)]),
        race("a get and a split of the root", &[10, 20, 30], &[Act::Get(30)], &[insert(25)]),
        race("a get and a split", &[10, 20, 30, 40, 50], &[Act::Get(50)], &[insert(45)]),
        race("a get and a freed leaf", &four, &[Act::Get(30)], &[remove(10), remove(20)]),
        race("a place used again", &four, &[Act::Get(30)], &[remove(10), remove(20), insert(41)]),
        race("two splits", &[10, 20, 30], &[insert(15)], &[insert(25)]),
        race("a split and a freeing", &four, &[insert(25), insert(35)], &[remove(10), remove(20)]),
        race("two freeings", &four, &[remove(10), remove(20)], &[remove(30), remove(40)]),
        race("a range and a split", &four, &[Act::Range(four.to_vec())], &[insert(35), insert(36)]),
    ]
}

/// Runs every way of interleaving with at most two interruptions, up to `limit`; the first thing
/// that goes wrong in any of them, or in an image that a crash of some leaves.
fn explore(race: &Race, flaw: BTreeFlaw, limit: usize, budget: u64) -> Result<usize, String> {
    let options = options(2, 3);
    let bytes = options.pm_bytes();
    let start = || {
        let (image, heap, tree) = made::<3, 3>(&options);
        let tree: Small = tree.with_flaw(flaw);
        let mut session = heap.join(&image);
        for key in &race.before {
            tree.insert(&mut session, *key, key + 1000).expect("room");
        }
        session.leave();
        (image, heap, tree)
    };
    let record_one = |schedule: &Schedule| {
        let (image, heap, tree) = start();
        let acts = race.acts.clone();
        let trace = record(image, schedule, move |memory| run(memory, &heap, &tree, &acts));
        trace.map(Run).map_err(|error| error.to_string())
    };
    let base = Schedule {
        threads: 2,
        turns: Turns::Random,
        seed: 1,
        steps: 1_000_000,
        ..Schedule::default()
    };
    let all = Schedules { interruptions: 2, limit, ..Schedules::new(Model::Px86) };
    let found = all.all(&base, record_one)?;
    let recover = |image: &CrashImage| reopen::<_, 3, 3>(image, bytes).map(|(_, _, state)| state);
    let judge = |found: &State, point: &CrashPoint| explained(race, found, &point.outputs);
    for (schedule, Run(trace)) in &found.runs {
        let how = Search { depth: 0, budget, ..Search::new(Model::Px86) };
        if let Some(finding) = search(trace, &how, &check(recover, judge)).finding {
            return Err(format!("{:?}: {finding}", schedule.turns));
        }
    }
    Ok(found.runs.len())
}

fn run<M: Memory>(memory: &M, heap: &Heap, tree: &Small, acts: &[Vec<Act>; 2]) {
    let mut session = heap.join(memory);
    for (number, act) in (0..).zip(&acts[memory.thread()]) {
        match act {
            Act::Change(step) => {
                step.run(tree, &mut session).expect("room");
            }
            Act::Get(key) => {
                assert_eq!(tree.get(&mut session, *key), Ok(Some(key + 1000)), "key {key}");
            }
            Act::Range(keys) => {
                let mut found = Vec::new();
                tree.range(&mut session, .., |key, _| found.push(key)).expect("sound");
                assert!(found.is_sorted_by(|a, b| a < b), "{found:?}");
                assert!(keys.iter().all(|key| found.contains(key)), "{found:?}");
            }
        }
        memory.output(number);
    }
}

/// Refuses a state that no prefixes of what the threads did explain: each as long as what it had
/// seen the end of, or longer by one. The threads change different keys, so order is no matter.
fn explained(race: &Race, found: &State, outputs: &[u64]) -> Result<(), String> {
    let changes = |thread: usize, count: u64| {
        race.acts[thread].iter().take(count as usize).filter_map(|act| match act {
            Act::Change(step) => Some(*step),
            _ => None,
        })
    };
    for more in [[0, 0], [0, 1], [1, 0], [1, 1]] {
        let mut state: State = race.before.iter().map(|key| (*key, key + 1000)).collect();
        for thread in 0..2 {
            changes(thread, outputs[thread] + more[thread]).for_each(|step| {
                step.apply(&mut state);
            });
        }
        if state == *found {
            return Ok(());
        }
    }
    Err(format!("{outputs:?} steps were done, and the tree holds {found:?}"))
}

#[test]
fn two_threads_agree_in_every_order_with_two_interruptions_and_after_every_crash() {
    for race in races() {
        let runs = explore(&race, BTreeFlaw::None, 150, 1_000);
        runs.unwrap_or_else(|finding| panic!("{}: {finding}", race.name));
    }
}

#[test]
fn each_deliberate_mistake_between_threads_is_caught() {
    for flaw in [BTreeFlaw::NoValidation, BTreeFlaw::NoLock, BTreeFlaw::EarlyUnlock] {
        let caught = races().iter().any(|race| explore(race, flaw, 300, 100).is_err());
        assert!(caught, "{flaw:?} was not caught");
    }
}

/// Each thread changes keys of its own at random, and sees after each step what it left there.
fn mixed<M: Memory>(memory: &M, heap: &Heap, tree: &Small, seed: u64) {
    let mut session = heap.join(memory);
    let thread = memory.thread() as u64;
    let mut state = State::new();
    let mut random = seed ^ thread << 32;
    for number in 0..60 {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let key = 3 * (random >> 40) % 36 + thread;
        let step = match random >> 60 {
            0..9 => Step::Insert(key, number),
            9..11 => Step::Update(key, 7),
            _ => Step::Remove(key),
        };
        assert_eq!(step.run(tree, &mut session), Ok(step.apply(&mut state)), "{step:?}");
        let other = 3 * (random >> 20) % 36 + thread;
        assert_eq!(tree.get(&mut session, other), Ok(state.get(&other).copied()));
        if number % 10 == 0 {
            let mut mine = State::new();
            let all = |key: u64, value| {
                if key % 3 == thread {
                    assert_eq!(mine.insert(key, value), None, "shown twice");
                }
            };
            tree.range(&mut session, .., all).expect("sound");
            assert_eq!(mine, state);
        }
    }
}

fn mixed_runs(flaw: BTreeFlaw, seeds: u64) -> Result<(), String> {
    for seed in 1..=seeds {
        let (image, heap, tree) = made::<3, 3>(&options(3, 8));
        let tree = tree.with_flaw(flaw);
        let turns = if seed % 2 == 0 { Turns::Random } else { Turns::Priorities(5) };
        let schedule =
            Schedule { threads: 3, turns, seed, steps: 10_000_000, ..Schedule::default() };
        record(image, &schedule, move |memory| mixed(memory, &heap, &tree, seed))
            .map_err(|error| format!("seed {seed}: {error}"))?;
    }
    Ok(())
}

#[test]
fn three_threads_in_random_turns_see_their_own_changes() {
    assert_eq!(mixed_runs(BTreeFlaw::None, 40), Ok(()));
    for flaw in [BTreeFlaw::NoValidation, BTreeFlaw::NoLock, BTreeFlaw::EarlyUnlock] {
        assert!(mixed_runs(flaw, 40).is_err(), "{flaw:?} was not caught");
    }
}

/// Runs `body` in as many real threads, on a pool in the file system for temporary files, then
/// looks at everything.
fn natively(threads: u64, body: impl Fn(u64, &BTree, &mut dyn FnMut(Step) -> Option<u64>) + Sync) {
    let options = options(threads, 256);
    let dram_bytes = options.dram_bytes() + BTree::dram_bytes(VERSIONS);
    let how = PoolOptions { domain: Some(Domain::Line), dram_bytes, ..PoolOptions::default() };
    let pool = Pool::temporary(options.pm_bytes(), &how).expect("room");
    let memory = pool.memory(0);
    let heap = Heap::create(&memory, "btree", 7, &options).expect("good options");
    let dram = Addr::dram(heap.dram_bytes());
    let tree = BTree::create(&mut heap.join(&memory), heap.root(), dram, VERSIONS);
    let tree = tree.expect("room");
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (tree, pool, body) = (tree.clone(), &pool, &body);
            scope.spawn(move || {
                let memory = pool.memory(thread as usize);
                let mut session = heap.join(&memory);
                body(thread, &tree, &mut |step| step.run(&tree, &mut session).expect("room"));
            });
        }
    });
    let state = checked(&memory, &heap, &tree).expect("sound");
    let mut session = heap.join(&memory);
    for (key, value) in &state {
        assert_eq!(tree.get(&mut session, *key), Ok(Some(*value)));
    }
    assert_eq!(state.len() as u64, threads * 1000);
}

#[test]
fn real_threads_that_insert_and_remove_between_each_other_lose_nothing() {
    natively(2, |thread, _, run| {
        let key = |number: u64| 2 * number + thread;
        for number in 0..4000 {
            assert_eq!(run(Step::Insert(key(number), number)), None);
            if number >= 1000 {
                assert_eq!(run(Step::Update(key(number - 1000), 1)), Some(number - 1000));
                assert_eq!(run(Step::Remove(key(number - 1000))), Some(number - 999));
            }
        }
    });
}

#[test]
fn real_threads_that_read_find_every_key_that_is_there_all_the_time() {
    let options = options(2, 256);
    let dram_bytes = options.dram_bytes() + Small::dram_bytes(VERSIONS);
    let how = PoolOptions { domain: Some(Domain::Line), dram_bytes, ..PoolOptions::default() };
    let pool = Pool::temporary(options.pm_bytes(), &how).expect("room");
    let memory = pool.memory(0);
    let heap = Heap::create(&memory, "btree", 7, &options).expect("good options");
    let dram = Addr::dram(heap.dram_bytes());
    let mut session = heap.join(&memory);
    let tree = Small::create(&mut session, heap.root(), dram, VERSIONS).expect("room");
    for key in 0..100 {
        tree.insert(&mut session, 10 * key, key).expect("room");
    }
    std::thread::scope(|scope| {
        let (reader, pool) = (tree.clone(), &pool);
        scope.spawn(move || {
            let memory = pool.memory(1);
            let mut session = heap.join(&memory);
            for round in 0..2000 {
                let key = 10 * (round % 100);
                assert_eq!(reader.get(&mut session, key), Ok(Some(round % 100)));
                let mut found = Vec::new();
                let range = key..key + 100;
                reader.range(&mut session, range, |key, _| found.push(key)).expect("sound");
                let kept = found.iter().filter(|key| *key % 10 == 0).count() as u64;
                assert!(found.is_sorted_by(|a, b| a < b));
                assert_eq!(kept, 10.min(100 - round % 100));
            }
        });
        for round in 0..200 {
            for key in (0..1000).filter(|key| key % 10 != 0) {
                let step = if round % 2 == 0 { Step::Insert(key, 1) } else { Step::Remove(key) };
                step.run(&tree, &mut session).expect("room");
            }
        }
    });
    assert_eq!(checked(&memory, &heap, &tree).expect("sound").len(), 100);
}
