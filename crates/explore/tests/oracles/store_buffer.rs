//! x86 with store buffers, after Khyzha and Lahav (POPL'21), their synchronous machine:
//!
//! - a thread's stores, flushes, write-backs and sfences stand in its buffer; an entry may leave
//!   when none before it blocks it (the table of POPL'20, in [`blocks`]);
//! - a store that leaves enters coherent memory and the queue of its line, whose stores reach
//!   persistence in order, at any time;
//! - clflush leaves only when its line's queue is empty; a write-back leaves at any time, and what
//!   is in the queue then is owed; sfence leaves, mfence and a locked operation run with an empty
//!   buffer, only when nothing is owed;
//! - a non-temporal store leaves for the thread's write-combining list, and that at any time for
//!   memory, but after those of the same word; then it is owed like a store that was written back.
//!   Stores and flushes of its line, sfence, mfence and locked operations wait for that;
//! - a compare-exchange that fails is a load that runs with an empty buffer.
//!
//! A load runs at once, from the newest store of the thread that is on its way or from memory, and
//! leaves a mark in the buffer: what it read counts as told when the mark leaves, after all that
//! stands before it.
//! With batteries (eADR) coherent memory is what persists.

use seawall_explore::litmus::{Instruction, Litmus, Outcome, Place, Register, Threads, Value};
use std::collections::{BTreeSet, HashSet};

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Entry {
    Store(Place, Value),
    Stream(Place, Value),
    Flush(u8),
    WriteBack(u8),
    Fence,
    Told(Register, Value),
}

/// Whether `later` must stay in the buffer as long as `earlier` does.
fn blocks(earlier: Entry, later: Entry) -> bool {
    use Entry::{Fence, Flush, Store, Stream, Told, WriteBack};
    match (earlier, later) {
        (Fence, _) => true,
        (Told(..), WriteBack(_)) | (WriteBack(_), Told(..)) => false,
        (WriteBack(_), Store(..) | Stream(..) | WriteBack(_)) => false,
        (WriteBack(line), Flush(other)) => line == other,
        (WriteBack(_), Fence) => true,
        (Store(at, _) | Stream(at, _), WriteBack(line)) => at.line == line,
        (Flush(line), WriteBack(other)) => line == other,
        (Store(..) | Stream(..) | Flush(_) | Told(..), _) => true,
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Core {
    next: usize,
    buffer: Vec<Entry>,
    combining: Vec<(Place, Value)>,
    /// For each line, how many of its stores must be durable at the next fence.
    owed: Vec<usize>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    cores: Vec<Core>,
    registers: Vec<Option<Value>>,
    told: Vec<Option<Value>>,
    /// Every store of each line, in memory order, and how many of them are durable.
    lines: Vec<(Vec<(u8, Value)>, usize)>,
}

impl State {
    fn new(test: &Litmus, threads: usize) -> State {
        let lines = test.line_count();
        let core =
            Core { next: 0, buffer: Vec::new(), combining: Vec::new(), owed: vec![0; lines] };
        State {
            cores: vec![core; threads],
            registers: vec![None; test.register_count()],
            told: vec![None; test.register_count()],
            lines: vec![(Vec::new(), 0); lines],
        }
    }

    fn read(&self, at: Place, stores: usize) -> Value {
        let line = &self.lines[usize::from(at.line)].0[..stores];
        let mut to_it = line.iter().rev().filter(|(word, _)| super::is_of(*word, at));
        to_it.next().map_or(0, |(_, value)| *value)
    }

    fn memory(&self, at: Place) -> Value {
        self.read(at, self.lines[usize::from(at.line)].0.len())
    }

    fn append(&mut self, at: Place, value: Value, battery: bool) -> usize {
        let (stores, durable) = &mut self.lines[usize::from(at.line)];
        stores.push((at.word, value));
        if battery {
            *durable = stores.len();
        }
        stores.len()
    }

    fn owes_nothing(&self, core: usize) -> bool {
        let core = &self.cores[core];
        core.combining.is_empty()
            && core.owed.iter().zip(&self.lines).all(|(owed, (_, durable))| owed <= durable)
    }

    fn combines(&self, core: usize, line: u8) -> bool {
        self.cores[core].combining.iter().any(|(at, _)| at.line == line)
    }

    /// What a load reads: the newest store of the thread that is on its way, or memory.
    fn load(&self, core: usize, at: Place) -> Value {
        let core = &self.cores[core];
        let own = core.buffer.iter().rev().find_map(|entry| match entry {
            Entry::Store(other, value) | Entry::Stream(other, value)
                if super::overlap(*other, at) =>
            {
                Some(*value)
            }
            _ => None,
        });
        let combined = core.combining.iter().rev().find(|(other, _)| super::overlap(*other, at));
        own.or(combined.map(|(_, value)| *value)).unwrap_or_else(|| self.memory(at))
    }

    /// Nothing of the core is on its way: a locked operation may run.
    fn is_quiet(&self, core: usize) -> bool {
        self.cores[core].buffer.is_empty() && self.owes_nothing(core)
    }
}

/// The states after the core's next instruction.
fn run(state: &State, core: usize, step: Instruction, battery: bool) -> Vec<State> {
    let mut after = state.clone();
    after.cores[core].next += 1;
    let mut push = |entry| after.cores[core].buffer.push(entry);
    match step {
        Instruction::Write(at, value) => push(Entry::Store(at, value)),
        Instruction::Stream(at, value) => push(Entry::Stream(at, value)),
        Instruction::Line(at, value) => {
            push(Entry::Stream(Place { word: super::WHOLE_LINE, ..at }, value));
        }
        Instruction::WriteBack(at) => push(Entry::WriteBack(at.line)),
        Instruction::Flush(at) => push(Entry::Flush(at.line)),
        Instruction::StoreFence | Instruction::Barrier | Instruction::Join | Instruction::Drain => {
            push(Entry::Fence)
        }
        Instruction::Read(at, into) => {
            let value = state.load(core, at);
            push(Entry::Told(into, value));
            after.registers[usize::from(into.0)] = Some(value);
        }
        Instruction::Fence if !state.is_quiet(core) => return Vec::new(),
        Instruction::Fence | Instruction::Strand => {}
        Instruction::Add(..) if !state.is_quiet(core) => return Vec::new(),
        Instruction::Add(at, by, into) => {
            let old = state.memory(at);
            after.append(at, old + by, battery);
            if let Some(into) = into {
                after.registers[usize::from(into.0)] = Some(old);
                after.told[usize::from(into.0)] = Some(old);
            }
        }
        Instruction::Exchange { at, old, new, into } => {
            let value = state.load(core, at);
            let may_run = match value == old {
                true => state.is_quiet(core),
                false => state.cores[core].buffer.is_empty(),
            };
            if !may_run {
                return Vec::new();
            }
            if value == old {
                after.append(at, new, battery);
            }
            after.told[usize::from(into.0)] = Some(value);
            after.registers[usize::from(into.0)] = Some(value);
        }
        Instruction::If(register, value) => {
            if state.registers[usize::from(register.0)] != Some(value) {
                after.cores[core].next = usize::MAX;
            }
        }
        Instruction::Wide(..) => unreachable!("variants have none"),
    }
    vec![after]
}

/// The state after an entry of the core's buffer has left, if it may.
fn leave(state: &State, core: usize, at: usize, battery: bool) -> Option<State> {
    let buffer = &state.cores[core].buffer;
    let entry = buffer[at];
    if buffer[..at].iter().any(|earlier| blocks(*earlier, entry)) {
        return None;
    }
    let mut after = state.clone();
    after.cores[core].buffer.remove(at);
    match entry {
        Entry::Store(at, _) if state.combines(core, at.line) => return None,
        Entry::Store(at, value) => drop(after.append(at, value, battery)),
        Entry::Stream(at, value) => after.cores[core].combining.push((at, value)),
        Entry::Flush(line) | Entry::WriteBack(line) if state.combines(core, line) => return None,
        Entry::Flush(line) => {
            let (stores, durable) = &state.lines[usize::from(line)];
            if *durable < stores.len() {
                return None;
            }
        }
        Entry::WriteBack(line) => {
            let line = usize::from(line);
            after.cores[core].owed[line] = state.lines[line].0.len();
        }
        Entry::Fence if !state.owes_nothing(core) => return None,
        Entry::Fence => {}
        Entry::Told(register, value) => after.told[usize::from(register.0)] = Some(value),
    }
    Some(after)
}

/// The state after a non-temporal store has left the core's write-combining list, if it may.
fn combine(state: &State, core: usize, at: usize, battery: bool) -> Option<State> {
    let (place, value) = state.cores[core].combining[at];
    if state.cores[core].combining[..at].iter().any(|(it, _)| super::overlap(*it, place)) {
        return None;
    }
    let mut after = state.clone();
    after.cores[core].combining.remove(at);
    after.cores[core].owed[usize::from(place.line)] = after.append(place, value, battery);
    Some(after)
}

pub(super) fn explore(
    test: &Litmus,
    threads: &Threads,
    battery: bool,
    found: &mut BTreeSet<Outcome>,
) {
    let start = State::new(test, threads.len());
    let mut seen = HashSet::from([start.clone()]);
    let mut open = vec![start];
    while let Some(state) = open.pop() {
        let memory = |at: Place| state.read(at, state.lines[usize::from(at.line)].1);
        found.insert(super::outcome(test, memory, &state.told));
        let mut next = Vec::new();
        for (core, code) in threads.iter().enumerate() {
            let here = &state.cores[core];
            if let Some(step) = code.get(here.next) {
                next.extend(run(&state, core, *step, battery));
            }
            next.extend((0..here.buffer.len()).filter_map(|at| leave(&state, core, at, battery)));
            let combining = 0..here.combining.len();
            next.extend(combining.filter_map(|at| combine(&state, core, at, battery)));
        }
        for line in 0..state.lines.len() {
            if state.lines[line].1 < state.lines[line].0.len() {
                let mut after = state.clone();
                after.lines[line].1 += 1;
                next.push(after);
            }
        }
        open.extend(next.into_iter().filter(|state| seen.insert(state.clone())));
    }
}
