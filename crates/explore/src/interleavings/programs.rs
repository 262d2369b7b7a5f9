//! Random programs of a few calls on a few words, for tests of what the explorer leaves out.

use crate::recorder::record;
use crate::run::RunError;
use crate::schedule::Schedule;
use crate::trace::Trace;
use crate::traced::Traced;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_memory::{Addr, Image, Memory, MemoryExt};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// Words of persistent memory: two of one line, two lines more, and a line of each thread.
pub(super) const WORDS: [Addr; 7] = [
    Addr::pm(64),
    Addr::pm(72),
    Addr::pm(128),
    Addr::pm(192),
    Addr::pm(256),
    Addr::pm(320),
    Addr::pm(384),
];

/// The words of no thread, and words of volatile memory.
const SHARED: usize = 4;
const VOLATILE: [Addr; 2] = [Addr::dram(0), Addr::dram(8)];

/// What a thread calls.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Store(Addr, u64),
    StoreNt(Addr, u64),
    /// Stores it to both words of the line that has two, by one write.
    Wide(u64),
    Load(Addr),
    Flush(Addr),
    Order,
    Drain,
    FullFence,
    Add(Addr, u64),
    Exchange(Addr, u64, u64),
    Output,
}

/// A call, if the last value that the thread has loaded is this one.
#[derive(Clone, Copy)]
pub(super) struct Step {
    pub(super) call: Call,
    pub(super) only_if: Option<u64>,
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(value) = self.only_if {
            write!(f, "if {value} ")?;
        }
        write!(f, "{:?}", self.call)
    }
}

/// The calls of each thread.
#[derive(Clone, Debug)]
pub(super) struct Program(pub(super) Vec<Vec<Step>>);

/// A run, and the thread of each of its calls.
pub(super) struct Ran {
    pub(super) trace: Trace,
    pub(super) calls: BTreeMap<u64, u16>,
}

impl Program {
    /// A program of so many threads and calls of each.
    pub(super) fn random(seed: u64, (threads_of, calls): (usize, usize)) -> Program {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        // Few words: what two threads do meets often.
        let words = [1, 2, 2, 2, 3, SHARED][rng.random_range(0..6)];
        let volatile = [0, 0, 1, VOLATILE.len()][rng.random_range(0..4)];
        let first = rng.random_range(0..SHARED);
        let mut threads: Vec<Vec<Step>> = Vec::new();
        for thread in 0..threads_of {
            let mut steps: Vec<Step> = Vec::new();
            while steps.len() < calls {
                let mut word = || match rng.random_range(0..4 * words + volatile + 1) {
                    at if at < 4 * words => WORDS[(first + at / 4) % SHARED],
                    at if at < 4 * words + volatile => VOLATILE[at - 4 * words],
                    _ => WORDS[SHARED + thread],
                };
                let (one, other) = (word(), word());
                let value = (1 + thread * calls + steps.len()) as u64;
                let always = |call| Step { call, only_if: None };
                steps.extend(phrase(&mut rng, (one, other), value).into_iter().map(always));
            }
            steps.truncate(calls);
            threads.push(steps);
        }
        expect(&mut rng, &mut threads);
        Program(threads)
    }

    pub(super) fn threads(&self) -> usize {
        self.0.len()
    }

    /// Runs the program.
    pub(super) fn run(&self, schedule: &Schedule) -> Result<Ran, RunError> {
        let log = Rc::new(RefCell::new(BTreeMap::new()));
        let (program, noted) = (self.clone(), log.clone());
        let program = move |memory: &Traced<'_>| {
            let thread = memory.thread();
            let (mut seen, mut outputs) = (0, 0);
            for Step { call, only_if } in &program.0[thread] {
                if only_if.is_none_or(|value| value == seen) {
                    make(memory, *call, &mut seen, &mut outputs);
                    noted.borrow_mut().insert(memory.shared.calls(), thread as u16);
                }
            }
        };
        let trace = record(Image::new(512, 64), schedule, program)?;
        let mut calls = log.take();
        // The first word of a write of two.
        calls.extend(trace.accesses.iter().map(|access| (access.call, access.thread)));
        Ok(Ran { trace, calls })
    }
}

/// A few random calls that belong together, on one or two words: what programs do, and calls alone
/// rarely make up. Stored is this value, and what follows it.
fn phrase(rng: &mut Xoshiro256PlusPlus, (at, other): (Addr, Addr), value: u64) -> Vec<Call> {
    let fence = |rng: &mut Xoshiro256PlusPlus| match rng.random_range(0..4) {
        0 => Call::Drain,
        1 => Call::Order,
        2 => Call::Exchange(at, 0, value + 2),
        _ => Call::Exchange(other, 0, value + 2),
    };
    match rng.random_range(0..8) {
        0 => vec![Call::Store(at, value), Call::Drain],
        1 | 2 => vec![Call::Flush(at), fence(rng)],
        3 => vec![Call::Store(at, value), Call::Flush(other), fence(rng)],
        4 => vec![Call::Load(at), Call::Store(other, value + 1)],
        5 => vec![Call::Store(at, value), Call::Load(at), Call::Store(other, value + 2)],
        _ => vec![call_on(rng, at, value)],
    }
}

/// A random call on the word, which stores this value if it stores.
fn call_on(rng: &mut Xoshiro256PlusPlus, at: Addr, value: u64) -> Call {
    match rng.random_range(0..24) {
        0..6 if WORDS[..2].contains(&at) && rng.random_bool(0.3) => Call::Wide(value),
        0..6 => Call::Store(at, value),
        6 => Call::StoreNt(at, value),
        7..12 => Call::Load(at),
        12..15 => Call::Flush(at),
        15 => Call::Order,
        16..18 => Call::Drain,
        18 => Call::FullFence,
        19 => Call::Add(at, 100),
        20..23 => Call::Exchange(at, 0, value),
        _ => Call::Output,
    }
}

/// Gives compare-and-exchanges a value that another thread stores to the word, and some calls the
/// condition that the thread has loaded such a value before.
fn expect(rng: &mut Xoshiro256PlusPlus, threads: &mut [Vec<Step>]) {
    let stored = |call: &Call| match *call {
        Call::Store(at, value) | Call::StoreNt(at, value) | Call::Exchange(at, _, value) => {
            Some((at, value))
        }
        Call::Wide(value) => Some((WORDS[1], value)),
        Call::Add(at, by) => Some((at, by)),
        _ => None,
    };
    let of_thread = |(thread, steps): (usize, &Vec<Step>)| {
        let stored = steps.iter().filter_map(|step| stored(&step.call));
        stored.map(|(at, value)| (thread, at, value)).collect::<Vec<_>>()
    };
    let all: Vec<(usize, Addr, u64)> = threads.iter().enumerate().flat_map(of_thread).collect();
    let value_of = |rng: &mut Xoshiro256PlusPlus, thread: usize, word: Addr| {
        let others = all.iter().filter(|(of, at, _)| (*of, *at) != (thread, word) && *at == word);
        let values: Vec<u64> = others.map(|(.., value)| *value).collect();
        match values.len() {
            0 => 0,
            _ if rng.random_bool(0.2) => 0,
            len => values[rng.random_range(0..len)],
        }
    };
    for (thread, steps) in threads.iter_mut().enumerate() {
        let mut loaded = None;
        for Step { call, only_if } in steps {
            let may_depend = stored(call).is_some() || matches!(call, Call::Output);
            if let Some(at) = loaded.filter(|_| may_depend && rng.random_bool(0.7)) {
                *only_if = Some(value_of(rng, thread, at));
            }
            match call {
                Call::Load(at) | Call::Add(at, _) => loaded = Some(*at),
                Call::Exchange(at, expected, _) => {
                    *expected = value_of(rng, thread, *at);
                    loaded = Some(*at);
                }
                _ => {}
            }
        }
    }
}

/// Makes one call of the seam.
fn make(memory: &Traced<'_>, call: Call, seen: &mut u64, outputs: &mut u64) {
    match call {
        Call::Store(at, value) => memory.store(at, value),
        Call::StoreNt(at, value) => memory.write_nt(at, &value.to_le_bytes()),
        Call::Wide(value) => memory.write(WORDS[0], &[value.to_le_bytes(); 2].concat()),
        Call::Load(at) => *seen = memory.load(at),
        Call::Flush(at) => memory.flush(at, 8),
        Call::Order => memory.order(),
        Call::Drain => memory.drain(),
        Call::FullFence => memory.full_fence(),
        Call::Add(at, by) => *seen = memory.fetch_add(at, by),
        Call::Exchange(at, old, new) => {
            *seen = memory.compare_exchange(at, old, new).unwrap_or_else(|found| found);
        }
        Call::Output => {
            memory.output(*outputs);
            *outputs += 1;
        }
    }
}
