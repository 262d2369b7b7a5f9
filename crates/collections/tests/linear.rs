//! Histories of many threads in a map, a tree and a heap, and whether some order explains them:
//! on this machine, killed or not, in orders that a seed decides, and on simulated machines that
//! crash.
//!
//! Ranges and `for_each` are left out: they promise no moment at which all that they show was there
//! at once.

mod cells;
mod checker;
mod crashed;
mod killed;
mod native;
mod objects;
mod simulated;

use crate::subject::{Contents, NAME, TINY, heap_options, value_bytes, value_of};
use checker::{Act, Answer, Op};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_collections::{KvMap, Map, MapError, Tree};
use seawall_memory::{Addr, Memory};
use seawall_runtime::{Heap, HeapOptions, Logging, Session};
use std::cell::RefCell;

/// A tree whose nodes are soon full.
type Small = Tree<3, 3>;
/// Few version words, so that nodes share them.
const VERSIONS: u64 = 8;

/// Stands for bytes that nobody put there, and so does nobody this.
const TORN: u64 = u64::MAX;

/// A structure whose operations on single keys are recorded.
trait Keyed: Clone + Send + 'static {
    fn create<M: Memory>(session: &mut Session<'_, M>) -> Self;
    fn open<M: Memory>(session: &mut Session<'_, M>) -> Result<Self, String>;
    fn act<M: Memory>(&self, session: &mut Session<'_, M>, key: u64, act: Act) -> Answer;
}

impl Keyed for Map {
    fn create<M: Memory>(session: &mut Session<'_, M>) -> Map {
        let root = session.heap().root();
        session.transaction(|tx| Map::create(tx, root, &TINY)).expect("room")
    }

    fn open<M: Memory>(session: &mut Session<'_, M>) -> Result<Map, String> {
        let root = session.heap().root();
        Map::open(session, root).map_err(|error| error.to_string())
    }

    fn act<M: Memory>(&self, session: &mut Session<'_, M>, key: u64, act: Act) -> Answer {
        Answer::Value(match act {
            Act::Get => self.get(session.memory(), key).expect("sound"),
            Act::Insert(value) => self.insert(session, key, value).expect("room"),
            Act::Remove => self.remove(session, key).expect("sound"),
        })
    }
}

/// The bytes that stand for a number as key: of different lengths.
fn key_bytes(key: u64) -> Vec<u8> {
    vec![key as u8; 1 + key as usize % 12]
}

impl Keyed for KvMap {
    fn create<M: Memory>(session: &mut Session<'_, M>) -> KvMap {
        let root = session.heap().root();
        session.transaction(|tx| KvMap::create(tx, root, &TINY)).expect("room")
    }

    fn open<M: Memory>(session: &mut Session<'_, M>) -> Result<KvMap, String> {
        let root = session.heap().root();
        KvMap::open(session, root).map_err(|error| error.to_string())
    }

    /// Every other change is a transaction that looks up what was there before.
    fn act<M: Memory>(&self, session: &mut Session<'_, M>, key: u64, act: Act) -> Answer {
        let key = &key_bytes(key)[..];
        let number = |bytes: &Vec<u8>| value_of(bytes).unwrap_or(TORN);
        match act {
            Act::Get => {
                let found = self.get(session.memory(), key).expect("sound");
                Answer::Value(found.as_ref().map(number))
            }
            Act::Remove => Answer::There(self.remove(session, key).expect("sound")),
            Act::Insert(value) if value.is_multiple_of(2) => {
                let there = self.insert(session, key, &value_bytes(value)).expect("room");
                Answer::There(there)
            }
            Act::Insert(value) => {
                let replaced = session.retry(Logging::Redo, |tx| {
                    let old = self.get_in(tx, key)?;
                    self.insert_in(tx, key, &value_bytes(value))?;
                    Ok::<_, MapError>(old)
                });
                Answer::Value(replaced.expect("room").as_ref().map(number))
            }
        }
    }
}

impl Keyed for Small {
    fn create<M: Memory>(session: &mut Session<'_, M>) -> Small {
        let (root, dram) = (session.heap().root(), Addr::dram(session.heap().dram_bytes()));
        Small::create(session, root, dram, VERSIONS).expect("room")
    }

    fn open<M: Memory>(session: &mut Session<'_, M>) -> Result<Small, String> {
        let (root, dram) = (session.heap().root(), Addr::dram(session.heap().dram_bytes()));
        Small::open(session, root, dram, VERSIONS).map_err(|error| error.to_string())
    }

    fn act<M: Memory>(&self, session: &mut Session<'_, M>, key: u64, act: Act) -> Answer {
        Answer::Value(match act {
            Act::Get => self.get(session, key).expect("sound"),
            Act::Insert(value) => self.insert(session, key, value).expect("room"),
            Act::Remove => self.remove(session, key).expect("sound"),
        })
    }
}

/// What each thread of a run does, and how often.
#[derive(Clone, Copy, Debug)]
struct Plan {
    threads: usize,
    /// Few, so that threads meet.
    keys: u64,
    /// Operations of each thread.
    count: u64,
    seed: u64,
    /// No value is inserted twice: this is above those of runs before.
    base: u64,
}

fn options(threads: usize) -> HeapOptions {
    HeapOptions { root_bytes: 16, ..heap_options(threads as u64, 16 + 6 * threads as u64) }
}

fn dram_bytes(options: &HeapOptions) -> u64 {
    options.dram_bytes() + Small::dram_bytes(VERSIONS)
}

/// Keys start at different places for each seed, so that they meet in different parts.
fn keys(plan: &Plan) -> impl Iterator<Item = u64> + use<> {
    let first = plan.seed % 100;
    first..first + plan.keys
}

/// Where operations are recorded when they are called, and when they are back.
trait Recorder {
    fn now(&self) -> u64;
    /// Gives the number of the operation.
    fn begin(&self, op: Op) -> usize;
    fn end(&self, number: usize, op: Op);
}

/// Keeps operations in memory, with moments of a clock.
struct Kept<'a, C> {
    ops: &'a RefCell<Vec<Op>>,
    clock: C,
}

impl<C: Fn() -> u64> Recorder for Kept<'_, C> {
    fn now(&self) -> u64 {
        (self.clock)()
    }

    fn begin(&self, op: Op) -> usize {
        self.ops.borrow_mut().push(op);
        self.ops.borrow().len() - 1
    }

    fn end(&self, number: usize, op: Op) {
        self.ops.borrow_mut()[number] = op;
    }
}

/// The operations of one thread. `memory.output` tells the world that one is back.
fn work<K: Keyed, M: Memory>(
    (memory, heap, target): (&M, &Heap, &K),
    plan: &Plan,
    recorder: &impl Recorder,
) {
    let thread = memory.thread();
    let stream = plan.seed ^ plan.base << 20 ^ (thread as u64) << 48;
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(stream);
    let first = keys(plan).next().expect("a key");
    let mut session = heap.join(memory);
    for number in 0..plan.count {
        let key = first + rng.random_range(0..plan.keys);
        let act = match rng.random_range(0..10) {
            0..4 => Act::Get,
            4..8 => Act::Insert(plan.base + thread as u64 * plan.count + number),
            _ => Act::Remove,
        };
        let (answer, call, back) = (Answer::Lost, recorder.now(), u64::MAX);
        let op = Op { thread, key, act, answer, call, back, cut: true };
        let at = recorder.begin(op);
        let answer = target.act(&mut session, key, act);
        recorder.end(at, Op { answer, back: recorder.now(), cut: false, ..op });
        memory.output(number);
    }
    session.leave();
}

/// What a heap holds after a crash at a plan's keys, each looked up.
fn recovered<K: Keyed, M: Memory>(
    memory: &M,
    bytes: u64,
    plan: &Plan,
) -> Result<(Heap, K, Contents), String> {
    let (heap, _) = Heap::open(memory, NAME, bytes).map_err(|error| error.to_string())?;
    let mut session = heap.join(memory);
    let target = K::open(&mut session)?;
    let mut found = Contents::new();
    for key in keys(plan) {
        match target.act(&mut session, key, Act::Get) {
            Answer::Value(Some(value)) => drop(found.insert(key, value)),
            Answer::Value(None) => {}
            other => return Err(format!("a get that gives {other:?}")),
        }
    }
    session.leave();
    Ok((heap, target, found))
}

/// A history that a crash ended when so many operations of each thread had been told to the world,
/// and what was found after it.
fn crashed(ops: &[Op], done: &[u64], crash: u64, plan: &Plan, found: &Contents) -> Vec<Op> {
    let mut numbers = vec![0; done.len()];
    let mut history = Vec::new();
    for op in ops.iter().filter(|op| op.call <= crash) {
        let number = &mut numbers[op.thread];
        *number += 1;
        history.push(match *number <= done[op.thread] {
            true => *op,
            false => Op { cut: true, back: crash, ..*op },
        });
    }
    history.extend(keys(plan).map(|key| {
        let answer = Answer::Value(found.get(&key).copied());
        Op { thread: 0, key, act: Act::Get, answer, call: crash + 1, back: crash + 2, cut: false }
    }));
    history
}
