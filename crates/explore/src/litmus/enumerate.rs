//! Everything that a crash may leave of a litmus test under a model.
//!
//! A depth-first walk over the ways in which the threads' instructions may take effect one after
//! the other. Where the model lets a load return an older store, each that it may return is a move
//! of its own, and so is each moment at which a non-temporal store leaves its thread's
//! write-combining list for memory. At every state the model yields the memories that a crash may
//! leave.
//!
//! Every state is visited, but not every order that leads to it: of two moves that do not meet,
//! what the second order would bring is left out (sleep sets: Godefroid, "Partial-Order Methods for
//! the Verification of Concurrent Systems", LNCS 1032). Which moves meet is in [`Walk::meet`].

use super::language::{Column, Instruction, Litmus, Place, Register, Threads};
use super::outcome::{Outcome, Value};
use crate::models::order::PersistOrder;
use crate::models::{Act, State, Step, Target};
use crate::wide::Part;
use seawall_memory::Model;
use std::collections::{BTreeMap, BTreeSet};

/// States after which an enumeration is cut, unless told otherwise.
pub const STATES_MAX: u64 = 500_000;

/// What a thread may do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Move {
    thread: usize,
    /// Number of the instruction in the thread.
    at: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The instruction does the only thing that it can do.
    Run,
    /// It loads what the store of this number left.
    Load(u32),
    /// It loads what is in the thread's write-combining list.
    Forward,
    /// It compares, and stores nothing.
    Fail,
    /// It was run before, and its non-temporal store leaves for memory.
    Leave,
}

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
        walk.explore(&start, &[]);
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
}

impl Rules {
    fn of(model: Model) -> Rules {
        Rules {
            x86: matches!(model, Model::Px86 | Model::Eadr),
            fences: !matches!(model, Model::Strict | Model::Eadr),
            flushes: model == Model::Px86,
        }
    }
}

#[derive(Clone)]
struct Machine {
    next: Vec<usize>,
    /// Non-temporal stores of each thread on their way to memory, by the numbers of their
    /// instructions.
    combining: Vec<Vec<(usize, Place, Value)>>,
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
        self.newest_store(at).1
    }

    /// What a locked operation finds: the number of the newest store to the word, and the value.
    fn newest_store(&self, at: Place) -> (u32, Value) {
        let found = self.stores.iter().rposition(|(place, _)| *place == at);
        found.map_or((0, 0), |number| (number as u32 + 1, self.stores[number].1))
    }

    /// What the thread's write-combining list has of the word.
    fn combined(&self, thread: usize, at: Place) -> Option<Value> {
        let own = self.combining[thread].iter().rev();
        own.clone().find(|(_, place, _)| overlap(*place, at)).map(|(_, _, value)| *value)
    }

    fn combines(&self, thread: usize, line: u8) -> bool {
        self.combining[thread].iter().any(|(_, at, _)| at.line == line)
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

    /// The thread loads the word as the move says; returns the value.
    fn load(&mut self, thread: usize, at: Place, kind: Kind) -> Value {
        let (from, combined) = match kind {
            Kind::Load(from) => (from, None),
            _ => (self.newest_store(at).0, self.combined(thread, at)),
        };
        let value = combined.unwrap_or_else(|| {
            let (line, word) = (u32::from(at.line), word(at));
            self.act(thread, Act::Load { line, word, from: Some(from) });
            from.checked_sub(1).map_or(0, |from| self.stores[from as usize].1)
        });
        if kind == Kind::Fail {
            self.act(thread, Act::Failed);
        }
        value
    }

    fn act(&mut self, thread: usize, act: Act) {
        self.state.follow(Step { thread: thread as u16, act });
    }

    /// The non-temporal store of that instruction leaves its buffer.
    fn leave(&mut self, thread: usize, number: usize) {
        let list = &mut self.combining[thread];
        let place = list.iter().position(|(at, ..)| *at == number).expect("it is there");
        let (_, at, value) = list.remove(place);
        match at.word {
            WHOLE_LINE => self.append_line(thread, (at, value)),
            _ => self.append(thread, (at, value), Act::StoreNt),
        }
    }

    /// The next instruction of the thread loads: the value, and the register that has it.
    fn take_load(
        &mut self,
        Move { thread, kind, .. }: Move,
        step: Instruction,
    ) -> (Value, Register) {
        let (at, into) = match step {
            Instruction::Read(at, into) | Instruction::Exchange { at, into, .. } => (at, into),
            _ => unreachable!("only these load"),
        };
        let value = self.load(thread, at, kind);
        self.set(into, value);
        (value, into)
    }

    fn set(&mut self, register: Register, value: Value) {
        self.registers[usize::from(register.0)] = Some(value);
    }

    fn append(
        &mut self,
        thread: usize,
        (at, value): (Place, Value),
        act: impl FnOnce(Target) -> Act,
    ) {
        self.act(thread, act(Target::of_line(at.line.into(), word(at))));
        self.stores.push((at, value));
    }

    /// The stores of a whole line, as one.
    fn append_line(&mut self, thread: usize, (first, value): (Place, Value)) {
        let part = Part::Whole(self.stores.len() as u32);
        for at in first.words_of_line() {
            let target = Target { part, ..Target::of_line(at.line.into(), word(at)) };
            self.act(thread, Act::StoreNt(target));
            self.stores.push((at, value));
        }
    }
}

/// The word that stands for all of a line.
const WHOLE_LINE: u8 = 8;

fn overlap(one: Place, other: Place) -> bool {
    let is_whole = one.word == WHOLE_LINE || other.word == WHOLE_LINE;
    one.line == other.line && (one.word == other.word || is_whole)
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
    /// Goes everywhere from here but where `asleep` leads; the outcomes of this state are known.
    fn explore(&mut self, machine: &Machine, asleep: &[Move]) {
        if self.found.states >= self.states_max {
            self.found.is_complete = false;
            return;
        }
        self.found.states += 1;
        let mut moves = Vec::new();
        match (0..self.threads.len()).find(|&thread| self.is_private(machine, thread)) {
            Some(thread) => moves.extend(self.next(machine, thread)),
            None => (0..self.threads.len()).for_each(|t| moves.extend(self.next(machine, t))),
        }
        let mut asleep = asleep.to_vec();
        for one in moves {
            if asleep.contains(&one) {
                continue;
            }
            let (mut after, taken, brings) = self.run(machine, one);
            self.path.push(taken);
            if brings {
                self.crash(&mut after);
            }
            let apart = asleep.iter().filter(|other| !self.meet(one, **other));
            let apart: Vec<Move> = apart.copied().collect();
            self.explore(&after, &apart);
            self.path.pop();
            asleep.push(one);
        }
    }

    fn step(&self, one: Move) -> Instruction {
        self.threads[one.thread][one.at]
    }

    /// True if two moves may not change places without a change of what comes of them.
    ///
    /// With x86's views, memory is one list of stores, and all else is what a thread knows of it:
    /// moves meet if both store. With one memory, moves meet on the same line.
    fn meet(&self, one: Move, other: Move) -> bool {
        if one.thread == other.thread {
            return true;
        }
        if self.rules.x86 {
            return self.stores(one) && self.stores(other);
        }
        let lines = |it: Move| self.step(it).places().into_iter().map(|at| usize::from(at.line));
        lines(one).any(|line| lines(other).any(|other| other == line))
    }

    /// True if the move adds to x86's list of stores, or comes to know all of it.
    fn stores(&self, one: Move) -> bool {
        match (self.step(one), one.kind) {
            (_, Kind::Leave) => true,
            (Instruction::Write(..) | Instruction::Add(..), _) => true,
            // One that fails looks at the end of the list.
            (Instruction::Exchange { .. }, _) => true,
            _ => false,
        }
    }

    /// True if the thread's next instruction may run, adds no outcome, and would do the same at any
    /// later time.
    fn is_private(&self, machine: &Machine, thread: usize) -> bool {
        let Some(step) = self.threads[thread].get(machine.next[thread]) else { return false };
        match *step {
            Instruction::If(..) | Instruction::WriteBack(_) | Instruction::Strand => true,
            Instruction::Flush(at) => !self.rules.flushes && !machine.combines(thread, at.line),
            Instruction::StoreFence
            | Instruction::Fence
            | Instruction::Barrier
            | Instruction::Join
            | Instruction::Drain => !self.rules.fences && machine.combining[thread].is_empty(),
            _ => false,
        }
    }

    /// All that the thread may do next.
    fn next(&self, machine: &Machine, thread: usize) -> Vec<Move> {
        let at = machine.next[thread];
        let mut moves = Vec::new();
        if let Some(step) = self.threads[thread].get(at) {
            let kinds = self.kinds(machine, thread, *step);
            moves.extend(kinds.into_iter().map(|kind| Move { thread, at, kind }));
        }
        let combining = &machine.combining[thread];
        for (number, (at, place, _)) in combining.iter().enumerate() {
            if !combining[..number].iter().any(|(_, earlier, _)| overlap(*earlier, *place)) {
                moves.push(Move { thread, at: *at, kind: Kind::Leave });
            }
        }
        moves
    }

    /// What the thread's next instruction may do; nothing if it has to wait.
    fn kinds(&self, machine: &Machine, thread: usize, step: Instruction) -> Vec<Kind> {
        let quiet = machine.combining[thread].is_empty();
        match step {
            Instruction::Stream(..)
            | Instruction::Line(..)
            | Instruction::WriteBack(_)
            | Instruction::If(..)
            | Instruction::Strand => vec![Kind::Run],
            Instruction::Write(at, _) | Instruction::Flush(at)
                if machine.combines(thread, at.line) =>
            {
                Vec::new()
            }
            Instruction::Write(..) | Instruction::Flush(_) => vec![Kind::Run],
            Instruction::Read(at, _) if machine.combined(thread, at).is_some() => {
                vec![Kind::Forward]
            }
            Instruction::Read(at, _) => {
                let readable = machine.readable(thread, at).into_iter();
                readable.map(|(from, _)| Kind::Load(from)).collect()
            }
            Instruction::Exchange { at, old, .. } => {
                let found = machine.combined(thread, at).unwrap_or_else(|| machine.newest(at));
                match found == old {
                    false => vec![Kind::Fail],
                    true if quiet => vec![Kind::Run],
                    true => Vec::new(),
                }
            }
            _ if quiet => vec![Kind::Run],
            _ => Vec::new(),
        }
    }

    /// The state after a move, the move's description, and whether it may have brought outcomes.
    fn run(&self, machine: &Machine, one: Move) -> (Machine, Taken, bool) {
        let (thread, step) = (one.thread, self.step(one));
        let mut after = machine.clone();
        let mut taken = Taken { thread: thread as u8, step, read: None, leaves: false };
        if one.kind == Kind::Leave {
            after.leave(thread, one.at);
            taken.leaves = true;
            return (after, taken, true);
        }
        after.next[thread] += 1;
        let mut brings = false;
        if let Kind::Load(_) | Kind::Forward | Kind::Fail = one.kind {
            let (value, into) = after.take_load(one, step);
            taken.read = Some(value);
            brings = self.test.columns.contains(&Column::Register(into));
            return (after, taken, brings);
        }
        match step {
            Instruction::Stream(at, value) if self.rules.x86 => {
                after.combining[thread].push((one.at, at, value));
            }
            Instruction::Line(at, value) if self.rules.x86 => {
                let line = Place { word: WHOLE_LINE, ..at };
                after.combining[thread].push((one.at, line, value));
            }
            Instruction::Line(at, value) => {
                after.append_line(thread, (at, value));
                brings = true;
            }
            Instruction::Write(at, value) | Instruction::Stream(at, value) => {
                after.append(thread, (at, value), Act::Store);
                brings = true;
            }
            Instruction::Add(at, by, into) => {
                let old = machine.newest(at);
                after.append(thread, (at, old + by), |at| Act::Locked { store: Some(at) });
                if let Some(into) = into {
                    after.set(into, old);
                    taken.read = Some(old);
                }
                brings = true;
            }
            Instruction::Exchange { at, old, new, into } => {
                after.append(thread, (at, new), |at| Act::Locked { store: Some(at) });
                after.set(into, old);
                (taken.read, brings) = (Some(old), true);
            }
            Instruction::If(register, value) => {
                if machine.registers[usize::from(register.0)] != Some(value) {
                    after.next[thread] = self.threads[thread].len();
                }
            }
            Instruction::WriteBack(at) => {
                after.act(thread, Act::WriteBack { line: at.line.into() })
            }
            Instruction::Flush(at) => after.act(thread, Act::Flush { line: at.line.into() }),
            Instruction::StoreFence | Instruction::Barrier => after.act(thread, Act::Order),
            Instruction::Fence => after.act(thread, Act::FullFence),
            Instruction::Drain => after.act(thread, Act::Drain),
            Instruction::Strand => after.act(thread, Act::Strand),
            Instruction::Join => after.act(thread, Act::Join),
            Instruction::Read(..) | Instruction::Wide(..) => {
                unreachable!("a load has a store to load from, and variants have no wide stores")
            }
        }
        (after, taken, brings)
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
