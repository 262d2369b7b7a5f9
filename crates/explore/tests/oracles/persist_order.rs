//! Sequentially consistent threads, and an order of persists: by brute force, every interleaving,
//! and at every moment every set of stores that is closed under the order.
//!
//! A store is a bit, numbered by its place in the program. For each store that was made, `before`
//! is the set of stores that are durable if it is. What may be in an image is any set that holds
//! `before` of each of its members, and all of `durable`: what a barrier has waited for.
//!
//! - The stores of one line persist in order, under all rules (a line moves as a unit).
//! - *strict*: memory order is persist order, and nothing that was stored is not durable.
//! - *epoch* (Pelley et al., ISCA'14): events of a thread are ordered across a barrier, conflicting
//!   accesses of a word (one of them a store) in memory order, transitively. If barriers wait
//!   (*epoch* here), what the thread has stored is durable when its barrier returns.
//! - *lines* (MICRO'15: LB, LB++; HOPS): the epochs of a thread are ordered; a load or store of a
//!   line that another thread stored to last orders all that the thread stores from there on behind
//!   what that other had done up to that store, and all that this depends on. A durable barrier
//!   waits for the thread's epochs and all they depend on.
//! - *strands* (ISCA'20): as *lines*, but a new strand of a thread knows nothing of those before,
//!   as if it were a thread of its own, which does not conflict with them. A join orders what was
//!   done in any of them before all that comes, new strands too; a durable barrier waits for it.

use seawall_explore::litmus::{Instruction, Litmus, Outcome, Place, Threads, Value};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// A set of stores, one bit each.
type Set = u64;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rules {
    Strict,
    Epoch { waits: bool },
    Lines,
    Strands,
}

impl Rules {
    pub(super) fn of(model: &str) -> Rules {
        match model {
            "strict" => Rules::Strict,
            "epoch" => Rules::Epoch { waits: true },
            "bep" | "hops" => Rules::Lines,
            "strand" => Rules::Strands,
            _ => panic!("no oracle for {model}"),
        }
    }
}

/// What a thread has behind it.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Thread {
    next: usize,
    /// Behind the last barrier: ordered before whatever comes.
    ordered: Set,
    /// Since then.
    recent: Set,
    /// The stores of the open epoch.
    stored: Set,
    /// What other threads' epochs brought, for all that this thread does now.
    depends: Set,
    /// What was done in strands before.
    elsewhere: Set,
    /// What every new strand knows of: all that was done up to the last join.
    joined: Set,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    threads: Vec<Thread>,
    registers: Vec<Option<Value>>,
    /// All stores of each line, in order: bit, word, value.
    lines: Vec<Vec<(u32, u8, Value)>>,
    /// The thread that stored to a line last, and what it had done by then.
    writers: Vec<Option<(usize, Set)>>,
    /// What loads and stores of a word carry with them (epoch rules only).
    loads: BTreeMap<Place, Set>,
    stores: BTreeMap<Place, Set>,
    before: BTreeMap<u32, Set>,
    durable: Set,
}

impl State {
    fn read(&self, at: Place, present: Set) -> Value {
        let line = self.lines[usize::from(at.line)].iter().rev();
        let is_there = |bit: u32, word| present >> bit & 1 == 1 && super::is_of(word, at);
        let mut there = line.filter(|(bit, word, _)| is_there(*bit, *word));
        there.next().map_or(0, |(_, _, value)| *value)
    }

    /// The thread is about to use the word.
    fn access(&mut self, rules: Rules, thread: usize, at: Place) {
        if let Some((source, done)) = self.writers[usize::from(at.line)]
            && source != thread
            && matches!(rules, Rules::Lines | Rules::Strands)
        {
            self.threads[thread].depends |= done;
        }
    }

    fn barrier(&mut self, rules: Rules, thread: usize, drains: bool) {
        match rules {
            Rules::Strict => {}
            Rules::Epoch { waits } => {
                if waits {
                    let own = self.threads[thread].stored_with(&self.before);
                    self.durable |= own;
                }
                let it = &mut self.threads[thread];
                it.ordered |= std::mem::take(&mut it.recent);
            }
            Rules::Lines | Rules::Strands => {
                let it = &mut self.threads[thread];
                it.ordered |= it.stored_with(&self.before) | it.depends;
                it.stored = 0;
                if drains {
                    self.durable |= it.ordered | it.elsewhere;
                }
            }
        }
    }

    fn strand(&mut self, thread: usize) {
        let done = self.threads[thread].stored_with(&self.before);
        let it = &mut self.threads[thread];
        it.elsewhere |= done | it.ordered | it.depends;
        (it.ordered, it.stored, it.depends) = (it.joined, 0, 0);
    }

    fn join(&mut self, thread: usize) {
        self.strand(thread);
        let it = &mut self.threads[thread];
        it.joined = it.elsewhere;
        it.ordered = it.joined;
    }

    fn load(&mut self, rules: Rules, thread: usize, at: Place) -> Value {
        self.access(rules, thread, at);
        if let Rules::Epoch { .. } = rules {
            let carried = self.stores.get(&at).copied().unwrap_or(0) | self.threads[thread].ordered;
            *self.loads.entry(at).or_default() |= carried;
            self.threads[thread].recent |= carried;
        }
        self.read(at, Set::MAX)
    }

    fn store(&mut self, rules: Rules, thread: usize, bit: u32, (at, value): (Place, Value)) {
        self.access(rules, thread, at);
        let line = &mut self.lines[usize::from(at.line)];
        let mut before = self.threads[thread].ordered;
        before |= line.last().map_or(0, |(last, ..)| self.before[last] | 1 << last);
        line.push((bit, at.word, value));
        match rules {
            Rules::Strict => self.durable |= 1 << bit,
            Rules::Epoch { .. } => {
                let words = at.words_of_line().filter(|word| super::overlap(*word, at));
                let words: Vec<Place> = words.collect();
                for word in &words {
                    before |= self.loads.get(word).copied().unwrap_or(0);
                    before |= self.stores.get(word).copied().unwrap_or(0);
                }
                for word in words {
                    *self.stores.entry(word).or_default() |= before | 1 << bit;
                }
                self.threads[thread].recent |= before | 1 << bit;
            }
            Rules::Lines | Rules::Strands => before |= self.threads[thread].depends,
        }
        self.before.insert(bit, before);
        let it = &mut self.threads[thread];
        it.stored |= 1 << bit;
        let done = it.stored_with(&self.before) | it.depends | it.ordered;
        self.writers[usize::from(at.line)] = Some((thread, done));
    }

    fn set(&mut self, register: seawall_explore::litmus::Register, value: Value) {
        self.registers[usize::from(register.0)] = Some(value);
    }

    /// The thread runs its next instruction, which is number `bit` of the program.
    fn run(&mut self, rules: Rules, thread: usize, bit: u32, step: Instruction) {
        self.threads[thread].next += 1;
        match step {
            Instruction::Write(at, value) | Instruction::Stream(at, value) => {
                self.store(rules, thread, bit, (at, value));
            }
            Instruction::Line(at, value) => {
                let line = Place { word: super::WHOLE_LINE, ..at };
                self.store(rules, thread, bit, (line, value));
            }
            Instruction::Read(at, into) => {
                let value = self.load(rules, thread, at);
                self.set(into, value);
            }
            Instruction::Add(at, by, into) => {
                let old = self.load(rules, thread, at);
                self.store(rules, thread, bit, (at, old + by));
                if let Some(into) = into {
                    self.set(into, old);
                }
            }
            Instruction::Exchange { at, old, new, into } => {
                let value = self.load(rules, thread, at);
                if value == old {
                    self.store(rules, thread, bit, (at, new));
                }
                self.set(into, value);
            }
            Instruction::WriteBack(_) | Instruction::Flush(_) => {}
            Instruction::Join if rules == Rules::Strands => self.join(thread),
            Instruction::StoreFence
            | Instruction::Fence
            | Instruction::Barrier
            | Instruction::Join => {
                self.barrier(rules, thread, false);
            }
            Instruction::Drain => self.barrier(rules, thread, true),
            Instruction::Strand if rules == Rules::Strands => self.strand(thread),
            Instruction::Strand => {}
            Instruction::If(register, value) => {
                if self.registers[usize::from(register.0)] != Some(value) {
                    self.threads[thread].next = usize::MAX;
                }
            }
            Instruction::Wide(..) => unreachable!("variants have none"),
        }
    }

    /// Adds the outcome of every set of stores that a crash may leave now.
    fn crash(&self, test: &Litmus, found: &mut BTreeSet<Outcome>) {
        let made: Set = self.before.keys().fold(0, |set, bit| set | 1 << bit);
        let free = made & !self.durable;
        let mut chosen = free;
        loop {
            let present = chosen | self.durable;
            if bits(present).all(|bit| self.before[&bit] & !present == 0) {
                let memory = |at: Place| self.read(at, present);
                found.insert(super::outcome(test, memory, &self.registers));
            }
            if chosen == 0 {
                return;
            }
            chosen = (chosen - 1) & free;
        }
    }
}

impl Thread {
    /// The stores of the open epoch, with all that comes before them.
    fn stored_with(&self, before: &BTreeMap<u32, Set>) -> Set {
        bits(self.stored).fold(self.stored, |set, bit| set | before[&bit])
    }
}

fn bits(set: Set) -> impl Iterator<Item = u32> {
    (0..Set::BITS).filter(move |bit| set >> bit & 1 == 1)
}

pub(super) fn explore(
    test: &Litmus,
    threads: &Threads,
    rules: Rules,
    found: &mut BTreeSet<Outcome>,
) {
    let first: Vec<usize> =
        (0..threads.len()).map(|thread| threads[..thread].iter().map(Vec::len).sum()).collect();
    let start = State {
        threads: vec![Thread::default(); threads.len()],
        registers: vec![None; test.register_count()],
        lines: vec![Vec::new(); test.line_count()],
        writers: vec![None; test.line_count()],
        loads: BTreeMap::new(),
        stores: BTreeMap::new(),
        before: BTreeMap::new(),
        durable: 0,
    };
    let mut seen = HashSet::from([start.clone()]);
    let mut open = vec![start];
    while let Some(state) = open.pop() {
        state.crash(test, found);
        for (thread, code) in threads.iter().enumerate() {
            let next = state.threads[thread].next;
            if let Some(step) = code.get(next) {
                let mut after = state.clone();
                after.run(rules, thread, (first[thread] + next) as u32, *step);
                if seen.insert(after.clone()) {
                    open.push(after);
                }
            }
        }
    }
}
