//! Consistent cuts, by brute force: buffered strict persistency from its definition.
//!
//! Every interleaving of sequentially consistent threads, and at every moment every way to cut each
//! thread's history somewhere. A cut is consistent if with each event that met a line which another
//! thread had stored to it has that store too, and if it has all that a durable barrier waited for.
//! Memory is then what the stores in the cut leave, in the order in which they took effect.

use seawall_explore::litmus::{Instruction, Litmus, Outcome, Place, Register, Threads, Value};
use std::collections::{BTreeSet, HashSet};

/// An event of a thread's history: a thread, and its place there.
type Event = (usize, usize);

#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Thread {
    next: usize,
    /// For each event, the store of another thread that it met.
    met: Vec<Option<Event>>,
    /// Events that a durable barrier waited for.
    durable: usize,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    threads: Vec<Thread>,
    registers: Vec<Option<Value>>,
    /// All stores of each line, in the order in which they took effect.
    lines: Vec<Vec<(Event, u8, Value)>>,
}

impl State {
    fn memory(&self, at: Place, has: impl Fn(Event) -> bool) -> Value {
        let stores = self.lines[usize::from(at.line)].iter().rev();
        let mut there = stores.filter(|(event, word, _)| super::is_of(*word, at) && has(*event));
        there.next().map_or(0, |(_, _, value)| *value)
    }

    /// The thread uses the line; gives the event.
    fn event(&mut self, thread: usize, at: Place) -> Event {
        let last = self.lines[usize::from(at.line)].last().map(|(event, ..)| *event);
        let met = &mut self.threads[thread].met;
        met.push(last.filter(|(other, _)| *other != thread));
        (thread, met.len() - 1)
    }

    fn load(&mut self, thread: usize, at: Place, into: Option<Register>) -> Value {
        self.event(thread, at);
        let value = self.memory(at, |_| true);
        if let Some(into) = into {
            self.registers[usize::from(into.0)] = Some(value);
        }
        value
    }

    fn store(&mut self, thread: usize, at: Place, value: Value) {
        let event = self.event(thread, at);
        self.lines[usize::from(at.line)].push((event, at.word, value));
    }

    fn run(&mut self, thread: usize, step: Instruction) {
        self.threads[thread].next += 1;
        match step {
            Instruction::Write(at, value) | Instruction::Stream(at, value) => {
                self.store(thread, at, value);
            }
            Instruction::Line(at, value) => {
                self.store(thread, Place { word: super::WHOLE_LINE, ..at }, value);
            }
            Instruction::Read(at, into) => drop(self.load(thread, at, Some(into))),
            Instruction::Add(at, by, into) => {
                let old = self.load(thread, at, into);
                self.store(thread, at, old + by);
            }
            Instruction::Exchange { at, old, new, into } => {
                if self.load(thread, at, Some(into)) == old {
                    self.store(thread, at, new);
                }
            }
            Instruction::Drain => self.threads[thread].durable = self.threads[thread].met.len(),
            Instruction::If(register, value) => {
                if self.registers[usize::from(register.0)] != Some(value) {
                    self.threads[thread].next = usize::MAX;
                }
            }
            Instruction::WriteBack(_)
            | Instruction::Flush(_)
            | Instruction::StoreFence
            | Instruction::Fence
            | Instruction::Barrier
            | Instruction::Join
            | Instruction::Strand => {}
            Instruction::Wide(..) => unreachable!("variants have none"),
        }
    }

    fn is_consistent(&self, cut: &[usize]) -> bool {
        self.threads.iter().zip(cut).all(|(thread, &events)| {
            let met = thread.met[..events].iter().flatten();
            events >= thread.durable && met.clone().all(|(other, event)| cut[*other] > *event)
        })
    }

    /// Adds the outcome of every consistent cut.
    fn crash(&self, test: &Litmus, found: &mut BTreeSet<Outcome>) {
        let mut cuts = vec![Vec::new()];
        for thread in &self.threads {
            let longer = |cut: &Vec<usize>| {
                let cut = cut.clone();
                (0..=thread.met.len()).map(move |events| [&cut[..], &[events]].concat())
            };
            cuts = cuts.iter().flat_map(longer).collect();
        }
        for cut in cuts.iter().filter(|cut| self.is_consistent(cut)) {
            let memory = |at: Place| self.memory(at, |(thread, event)| event < cut[thread]);
            found.insert(super::outcome(test, memory, &self.registers));
        }
    }
}

pub(super) fn explore(test: &Litmus, threads: &Threads, found: &mut BTreeSet<Outcome>) {
    let start = State {
        threads: vec![Thread::default(); threads.len()],
        registers: vec![None; test.register_count()],
        lines: vec![Vec::new(); test.line_count()],
    };
    let mut seen = HashSet::from([start.clone()]);
    let mut open = vec![start];
    while let Some(state) = open.pop() {
        state.crash(test, found);
        for (thread, code) in threads.iter().enumerate() {
            if let Some(step) = code.get(state.threads[thread].next) {
                let mut after = state.clone();
                after.run(thread, *step);
                if seen.insert(after.clone()) {
                    open.push(after);
                }
            }
        }
    }
}
