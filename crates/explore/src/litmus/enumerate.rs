//! Everything that a crash may leave of a litmus test under a model.
//!
//! A depth-first walk over all ways in which the threads' instructions may take effect one after
//! the other. Where the model lets a load return an older store, each that it may return is a way
//! of its own, and so is each moment at which a non-temporal store leaves its thread's
//! write-combining list for memory. At every state the model gives the memories that a crash may
//! leave. Steps that concern nobody else are taken at once; nothing else is left out.

use super::language::{Column, Instruction, Litmus, Place, Register, Threads};
use super::outcome::{Outcome, Value};
use crate::models::order::PersistOrder;
use crate::models::{Act, Model, State, Step};
use std::collections::{BTreeMap, BTreeSet};

/// States after which an enumeration is cut, unless told otherwise.
pub const STATES_MAX: u64 = 4_000_000;

/// One thing that took effect on the way to an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Taken {
    thread: u8,
    step: Instruction,
    /// What it read.
    read: Option<Value>,
    /// It is a non-temporal store that leaves for memory.
    leaves: bool,
}

/// The outcomes of a test under a model.
#[derive(Clone, Debug)]
pub struct Reachable {
    ways: BTreeMap<Outcome, Vec<Taken>>,
    /// States that were looked at.
    pub states: u64,
    /// False if the walk was cut: there may be more outcomes.
    pub is_complete: bool,
}

impl Reachable {
    /// The outcomes that a crash may leave.
    pub fn outcomes(&self) -> BTreeSet<Outcome> {
        self.ways.keys().cloned().collect()
    }

    /// A way to the outcome, one instruction a line, if it was reached.
    pub fn way(&self, test: &Litmus, outcome: &Outcome) -> Option<Vec<String>> {
        let tell = |taken: &Taken| {
            let mut text =
                format!("thread {}: {}", taken.thread + 1, test.instruction(&taken.step));
            if taken.leaves {
                text.push_str(" (leaves for memory)");
            }
            if let Some(value) = taken.read {
                text.push_str(&format!(" -> {value}"));
            }
            text
        };
        Some(self.ways.get(outcome)?.iter().map(tell).collect())
    }
}

/// All outcomes of the test under the model; cut after `states_max` states.
pub fn enumerate(test: &Litmus, model: Model, states_max: u64) -> Reachable {
    let mut found = Reachable { ways: BTreeMap::new(), states: 0, is_complete: true };
    for threads in test.variants() {
        let mut walk = Walk {
            test,
            threads,
            rules: Rules::of(model),
            states_max,
            path: Vec::new(),
            found: &mut found,
        };
        let mut start = Machine::new(test, &walk.threads, model);
        walk.crash(&mut start);
        walk.explore(start);
    }
    found
}

/// What a model does that concerns the walk.
#[derive(Clone, Copy)]
struct Rules {
    /// Threads see memory as x86-TSO has it, and there are write-combining lists.
    x86: bool,
    /// Fences change what may be in an image, or what comes to be ordered.
    fences: bool,
    /// clflush makes its line durable.
    flushes: bool,
    /// An epoch that ends may bring new images.
    atomic: bool,
}

impl Rules {
    fn of(model: Model) -> Rules {
        Rules {
            x86: matches!(model, Model::Px86 | Model::Eadr),
            fences: !matches!(model, Model::Strict | Model::Eadr),
            flushes: model == Model::Px86,
            atomic: model == Model::Bsp,
        }
    }
}

#[derive(Clone)]
struct Machine {
    next: Vec<usize>,
    /// Non-temporal stores of each thread on their way to memory.
    combining: Vec<Vec<(Place, Value)>>,
    registers: Vec<Option<Value>>,
    /// All stores in memory order.
    stores: Vec<(Place, Value)>,
    state: State,
}

impl Machine {
    fn new(test: &Litmus, threads: &Threads, model: Model) -> Machine {
        Machine {
            next: vec![0; threads.len()],
            combining: vec![Vec::new(); threads.len()],
            registers: vec![None; test.register_count()],
            stores: Vec::new(),
            state: State::new(model),
        }
    }

    fn newest(&self, at: Place) -> Value {
        let mut stores = self.stores.iter().rev();
        stores.find(|(place, _)| *place == at).map_or(0, |(_, value)| *value)
    }

    fn combines(&self, thread: usize, line: u8) -> bool {
        self.combining[thread].iter().any(|(at, _)| at.line == line)
    }

    /// What a load may return: the store (by its number from 1, 0 is the start) and the value.
    fn readable(&self, thread: usize, at: Place) -> Vec<(u32, Value)> {
        let oldest = self.state.oldest(thread as u16, word(at));
        let mut found = Vec::new();
        for (number, (place, value)) in self.stores.iter().enumerate().rev() {
            if *place == at {
                let number = number as u32 + 1;
                found.push((number, *value));
                if number <= oldest {
                    return found;
                }
            }
        }
        found.push((0, 0));
        found
    }

    fn act(&mut self, thread: usize, act: Act) {
        self.state.follow(Step { thread: thread as u16, act });
    }

    fn set(&mut self, register: Register, value: Value) {
        self.registers[usize::from(register.0)] = Some(value);
    }

    fn append(&mut self, thread: usize, (at, value): (Place, Value), act: Act) {
        self.act(thread, act);
        self.stores.push((at, value));
    }
}

/// A word's number: words of different lines differ.
fn word(at: Place) -> u32 {
    u32::from(at.line) * 8 + u32::from(at.word)
}

struct Walk<'a> {
    test: &'a Litmus,
    threads: Threads,
    rules: Rules,
    states_max: u64,
    path: Vec<Taken>,
    found: &'a mut Reachable,
}

impl Walk<'_> {
    /// Goes everywhere from here; the outcomes of this state itself are known.
    fn explore(&mut self, machine: Machine) {
        if self.found.states >= self.states_max {
            self.found.is_complete = false;
            return;
        }
        self.found.states += 1;
        if let Some(thread) = (0..self.threads.len()).find(|&t| self.is_private(&machine, t)) {
            let step = self.threads[thread][machine.next[thread]];
            self.take(&machine, thread, step);
            return;
        }
        for thread in 0..self.threads.len() {
            if let Some(step) = self.threads[thread].get(machine.next[thread]) {
                self.take(&machine, thread, *step);
            }
            for at in 0..machine.combining[thread].len() {
                self.leave(&machine, thread, at);
            }
        }
    }

    /// True if the thread's next instruction may run, adds no outcome, and would do the same at any
    /// later time.
    fn is_private(&self, machine: &Machine, thread: usize) -> bool {
        let Some(step) = self.threads[thread].get(machine.next[thread]) else { return false };
        match *step {
            Instruction::If(..) | Instruction::WriteBack(_) => true,
            Instruction::Flush(at) => !self.rules.flushes && !machine.combines(thread, at.line),
            Instruction::StoreFence
            | Instruction::Fence
            | Instruction::Barrier
            | Instruction::Drain => !self.rules.fences && machine.combining[thread].is_empty(),
            _ => false,
        }
    }

    fn take(&mut self, machine: &Machine, thread: usize, step: Instruction) {
        let quiet = machine.combining[thread].is_empty();
        let waits = match step {
            Instruction::Write(at, _)
            | Instruction::Read(at, _)
            | Instruction::Exchange { at, .. }
            | Instruction::Flush(at) => machine.combines(thread, at.line),
            Instruction::Stream(..)
            | Instruction::WriteBack(_)
            | Instruction::If(..)
            | Instruction::Wide(..) => false,
            _ => !quiet,
        };
        if waits {
            return;
        }
        match step {
            Instruction::Read(at, into) => {
                for (from, value) in machine.readable(thread, at) {
                    self.load(machine, thread, (step, at, into), (from, value));
                }
            }
            Instruction::Exchange { at, old, into, .. } => {
                for (from, value) in machine.readable(thread, at) {
                    if value != old {
                        self.load(machine, thread, (step, at, into), (from, value));
                    }
                }
                if machine.newest(at) == old && quiet {
                    self.simple(machine, thread, step);
                }
            }
            _ => self.simple(machine, thread, step),
        }
    }

    fn load(
        &mut self,
        machine: &Machine,
        thread: usize,
        (step, at, into): (Instruction, Place, Register),
        (from, value): (u32, Value),
    ) {
        let mut after = machine.clone();
        let (line, word) = (u32::from(at.line), word(at));
        after.act(thread, Act::Load { line, word, from: Some(from) });
        after.set(into, value);
        let seen = self.test.columns.contains(&Column::Register(into));
        let taken = Taken { thread: thread as u8, step, read: Some(value), leaves: false };
        self.go(after, taken, seen || self.rules.atomic);
    }

    /// An instruction that can do only one thing.
    fn simple(&mut self, machine: &Machine, thread: usize, step: Instruction) {
        let mut after = machine.clone();
        let mut read = None;
        let mut brings = self.rules.atomic;
        let named = |at: Place| (u32::from(at.line), word(at));
        match step {
            Instruction::Stream(at, value) if self.rules.x86 => {
                after.combining[thread].push((at, value));
            }
            Instruction::Write(at, value) | Instruction::Stream(at, value) => {
                let (line, word) = named(at);
                after.append(thread, (at, value), Act::Store { line, word });
                brings = true;
            }
            Instruction::Add(at, by, into) => {
                let old = machine.newest(at);
                after.append(thread, (at, old + by), Act::Locked { store: Some(named(at)) });
                if let Some(into) = into {
                    after.set(into, old);
                    read = Some(old);
                }
                brings = true;
            }
            Instruction::Exchange { at, old, new, into } => {
                after.append(thread, (at, new), Act::Locked { store: Some(named(at)) });
                after.set(into, old);
                (read, brings) = (Some(old), true);
            }
            Instruction::WriteBack(at) => after.act(thread, Act::WriteBack { line: named(at).0 }),
            Instruction::Flush(at) => after.act(thread, Act::Flush { line: named(at).0 }),
            Instruction::StoreFence | Instruction::Barrier => after.act(thread, Act::Order),
            Instruction::Fence => after.act(thread, Act::FullFence),
            Instruction::Drain => after.act(thread, Act::Drain),
            Instruction::If(register, value) => {
                if machine.registers[usize::from(register.0)] != Some(value) {
                    after.next[thread] = self.threads[thread].len();
                }
            }
            Instruction::Read(..) | Instruction::Wide(..) => {
                unreachable!("loads have choices, and variants no wide stores")
            }
        }
        self.go(after, Taken { thread: thread as u8, step, read, leaves: false }, brings);
    }

    fn leave(&mut self, machine: &Machine, thread: usize, at: usize) {
        let (place, value) = machine.combining[thread][at];
        if machine.combining[thread][..at].iter().any(|(earlier, _)| *earlier == place) {
            return;
        }
        let mut after = machine.clone();
        after.combining[thread].remove(at);
        let (line, word) = (u32::from(place.line), word(place));
        after.append(thread, (place, value), Act::StoreNt { line, word });
        let step = Instruction::Stream(place, value);
        // The thread itself stays where it is.
        after.next[thread] = machine.next[thread].wrapping_sub(1);
        self.go(after, Taken { thread: thread as u8, step, read: None, leaves: true }, true);
    }

    /// Goes on behind a step; `brings` if it may have brought outcomes.
    fn go(&mut self, mut after: Machine, taken: Taken, brings: bool) {
        let thread = usize::from(taken.thread);
        after.next[thread] = after.next[thread].wrapping_add(1);
        self.path.push(taken);
        if brings {
            self.crash(&mut after);
        }
        self.explore(after);
        self.path.pop();
    }

    /// Notes every outcome of a crash at this state.
    fn crash(&mut self, machine: &mut Machine) {
        let mut lines: Vec<u8> = Vec::new();
        for column in &self.test.columns {
            if let Column::Memory(at) = column
                && !lines.contains(&at.line)
            {
                lines.push(at.line);
            }
        }
        let mut cut = vec![0; self.test.line_count()];
        let Machine { registers, stores, state, .. } = machine;
        self.choose(&mut state.order, &lines, &mut cut, (registers, stores));
    }

    fn choose(
        &mut self,
        order: &mut PersistOrder,
        lines: &[u8],
        cut: &mut [u32],
        seen: (&[Option<Value>], &[(Place, Value)]),
    ) {
        let Some((&line, rest)) = lines.split_first() else {
            let outcome = self.outcome(cut, seen);
            if !self.found.ways.contains_key(&outcome) {
                self.found.ways.insert(outcome, self.path.clone());
            }
            return;
        };
        let (low, high) = order.window(line.into());
        for stores in low..=high {
            cut[usize::from(line)] = stores;
            if low == high {
                self.choose(order, rest, cut, seen);
                continue;
            }
            let mark = order.mark();
            if order.keep(line.into(), stores, stores) {
                self.choose(order, rest, cut, seen);
            }
            order.undo(mark);
        }
    }

    fn outcome(
        &self,
        cut: &[u32],
        (registers, stores): (&[Option<Value>], &[(Place, Value)]),
    ) -> Outcome {
        let value = |column: &Column| match *column {
            Column::Register(register) => registers[usize::from(register.0)],
            Column::Memory(at) => {
                let line = stores.iter().filter(|(place, _)| place.line == at.line);
                let kept = line.take(cut[usize::from(at.line)] as usize);
                Some(kept.filter(|(place, _)| *place == at).last().map_or(0, |(_, value)| *value))
            }
        };
        Outcome(self.test.columns.iter().map(value).collect())
    }
}
