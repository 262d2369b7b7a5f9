//! The machine that records: memory that keeps a trace of all operations on it.
//!
//! The threads of a run are fibers on one OS thread. A [`Schedule`] determines which thread runs,
//! and for how many calls of the seam, so every call is a switch point; its random choices come
//! from a seeded generator (Xoshiro256PlusPlus). Execution is sequentially consistent: stores are
//! visible at once, also non-temporal ones. (A single thread cannot see a difference; several
//! threads could see stores late, and persist in ways that no run here shows; litmus tests do model
//! that.)
//!
//! A run always ends: it is cut off after a number of seam calls, and a state in which all threads
//! wait is a deadlock. Both are errors, not hangs. A loop that never accesses memory is not
//! bounded.

use crate::access::{Access, FENCES};
use crate::guard::guarded;
use crate::relocated::Copied;
use crate::schedule::{Schedule, Turns};
use crate::trace::{Event, Kind, Trace};
use crate::words::Words;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustc_hash::FxHashMap;
use seawall_fiber::{Fiber, Pause};
use seawall_memory::relocation::{Relocation, RelocationUnit};
use seawall_memory::{Addr, Fence, Image, LINE_BYTES, Memory, Space, ThreadSlots, Width, lines_of};
use std::cell::{Cell, RefCell};
use std::panic::Location;
use std::rc::Rc;

/// The longest turn of a thread, in seam calls; each run draws one of these.
const SPANS: [u64; 4] = [3, 12, 48, 400];

/// Why a run has no trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// All unfinished threads wait.
    #[error("deadlock: {0}; the program is wrong, or the schedule found its lock bug")]
    Deadlock(String),
    /// More seam calls than allowed.
    #[error(
        "the run made more than {0} memory accesses: give it fewer operations, or a loop in it \
         never ends"
    )]
    TooLong(u64),
    /// The program panicked.
    #[error("thread {thread} of the program panicked: {message}")]
    Panicked {
        /// The thread.
        thread: usize,
        /// Its message, and the location.
        message: String,
    },
    /// The system has no memory for the stack of a thread.
    #[error("no memory for the stack of thread {thread} ({why}); allow more (ulimit -v)")]
    Stack {
        /// The thread.
        thread: usize,
        /// The error of the system.
        why: String,
    },
    /// No threads.
    #[error("a run needs at least 1 thread")]
    NoThreads,
}

struct Shared {
    pm: Words,
    dram: Words,
    trace: RefCell<Trace>,
    /// The last writer of each line, and of each word.
    writer: RefCell<Vec<u16>>,
    word_writer: RefCell<FxHashMap<u32, u16>>,
    /// The last writer of each word of DRAM, and the number of stores to persistent memory before
    /// that write.
    dram_writer: RefCell<FxHashMap<u64, (u16, u32)>>,
    operation: Vec<Cell<u32>>,
    waits: Vec<Cell<Option<(Addr, u64)>>>,
    turn: Cell<u64>,
    /// Whether accesses are recorded, for the search for places to preempt.
    notes_accesses: bool,
    calls: u64,
    steps: Cell<u64>,
    closing: Cell<bool>,
    relocation: Cell<Option<Relocation>>,
    seed: u64,
    /// Bits of the reached bitmap that loads see set, by word.
    told: RefCell<FxHashMap<u32, u64>>,
}

/// One thread's handle on the recording memory.
pub struct Traced<'a> {
    shared: Rc<Shared>,
    thread: usize,
    pause: &'a Pause<'a>,
}

/// Runs `program` once for each thread, each with its own handle, from the memory in `start`.
///
/// # Errors
/// When the run does not end, or a thread panics.
pub fn record<P>(start: Image, schedule: &Schedule, program: P) -> Result<Trace, RunError>
where
    P: Fn(&Traced<'_>) + Clone + 'static,
{
    if schedule.threads == 0 {
        return Err(RunError::NoThreads);
    }
    let shared = Shared::new(start, schedule);
    let fiber = |thread| {
        let (shared, program) = (shared.clone(), program.clone());
        let fiber = Fiber::new(move |pause| {
            program(&Traced { shared: shared.clone(), thread, pause });
        });
        fiber.map_err(|error| RunError::Stack { thread, why: error.to_string() })
    };
    let fibers: Result<Vec<Fiber>, RunError> = (0..schedule.threads).map(fiber).collect();
    let mut fibers = fibers?;
    let result = drive(&shared, &mut fibers, schedule);
    shared.closing.set(true);
    drop(fibers);
    drop(program);
    result.map(|()| shared.trace.replace(Trace::new(schedule.threads, Vec::new(), 0)))
}

fn drive(shared: &Shared, fibers: &mut [Fiber], schedule: &Schedule) -> Result<(), RunError> {
    let mut turns = Dispatcher::new(schedule);
    loop {
        let ready: Vec<usize> =
            (0..fibers.len()).filter(|&t| !fibers[t].is_done() && shared.ready(t)).collect();
        if ready.is_empty() {
            return match shared.waiting(fibers) {
                None => Ok(()),
                Some(who) => Err(RunError::Deadlock(who)),
            };
        }
        let (thread, calls) = turns.next(&ready, schedule.steps.max(1) - shared.steps.get());
        shared.turn.set(if fibers.len() == 1 { u64::MAX } else { calls });
        guarded(|| fibers[thread].resume())
            .map_err(|message| RunError::Panicked { thread, message })?;
        if shared.steps.get() == 0 {
            return Err(RunError::TooLong(schedule.steps));
        }
    }
}

/// Determines which thread runs next, and for how many calls of the seam.
struct Dispatcher<'s> {
    turns: &'s Turns,
    rng: Xoshiro256PlusPlus,
    /// Longest random turn.
    span: u64,
    /// For each thread, highest first to run.
    priorities: Vec<i64>,
    /// Calls at which the running thread gets the lowest priority; preemptions so far.
    changes: Vec<u64>,
    done: usize,
    last: usize,
}

/// The fewest calls among which priorities change; a seed draws up to 128 times as many.
const CHANGES_WITHIN: u64 = 8;

impl Dispatcher<'_> {
    fn new(schedule: &Schedule) -> Dispatcher<'_> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(schedule.seed);
        let span = SPANS[rng.random_range(0..SPANS.len())];
        let priorities = (0..schedule.threads).map(|_| rng.random_range(0..1 << 32)).collect();
        let changes = match schedule.turns {
            Turns::Priorities(changes) => changes,
            _ => 0,
        };
        let within = CHANGES_WITHIN << rng.random_range(0..8);
        let mut changes: Vec<u64> = (0..changes).map(|_| rng.random_range(1..within)).collect();
        changes.sort_unstable();
        let turns = &schedule.turns;
        Dispatcher { turns, rng, span, priorities, changes, done: 0, last: 0 }
    }

    /// Continues after `calls` seam calls.
    fn next(&mut self, ready: &[usize], calls: u64) -> (usize, u64) {
        match self.turns {
            Turns::Random => {
                let thread = ready[self.rng.random_range(0..ready.len())];
                (thread, self.rng.random_range(1..=self.span))
            }
            Turns::Priorities(_) => {
                while self.changes.get(self.done).is_some_and(|&at| at <= calls) {
                    self.done += 1;
                    self.priorities[self.last] = -(self.done as i64);
                }
                let highest = ready.iter().max_by_key(|&&thread| self.priorities[thread]);
                self.last = *highest.expect("a thread is ready");
                let until = self.changes.get(self.done).copied();
                (self.last, until.map_or(u64::MAX, |at| at - calls - 1))
            }
            Turns::Preempted(all) => {
                let mut wanted = self.last;
                while let Some(one) = all.get(self.done).filter(|one| one.before <= calls) {
                    self.done += 1;
                    wanted = usize::from(one.to);
                }
                let running = ready.contains(&self.last).then_some(self.last);
                let to = ready.contains(&wanted).then_some(wanted);
                let after = ready.iter().copied().find(|&thread| thread > self.last);
                self.last = to.or(running).or(after).unwrap_or(ready[0]);
                let until = all.get(self.done).map(|one| one.before);
                (self.last, until.map_or(u64::MAX, |at| at - calls - 1))
            }
        }
    }
}

impl Shared {
    fn new(start: Image, schedule: &Schedule) -> Rc<Shared> {
        let room = start.pm_bytes_max();
        let (pm, dram) = start.into_parts();
        let threads = schedule.threads;
        Rc::new(Shared {
            pm: Words::with_room(&pm, room),
            dram: Words::from_bytes(&dram),
            trace: RefCell::new(Trace::new(threads, pm, dram.len() as u64)),
            writer: RefCell::new(Vec::new()),
            word_writer: RefCell::default(),
            dram_writer: RefCell::default(),
            operation: vec![Cell::new(0); threads],
            waits: vec![Cell::new(None); threads],
            turn: Cell::new(0),
            notes_accesses: threads > 1 && matches!(schedule.turns, Turns::Preempted(_)),
            calls: schedule.steps.max(1),
            steps: Cell::new(schedule.steps.max(1)),
            closing: Cell::new(false),
            relocation: Cell::new(None),
            seed: schedule.seed,
            told: RefCell::default(),
        })
    }

    fn region(&self, at: Addr) -> &Words {
        if at.is_pm() { &self.pm } else { &self.dram }
    }

    /// The bits that hardware has set in a word of its bitmap.
    fn told(&self, at: Addr, width: Width) -> u64 {
        let told = self.told.borrow();
        if told.is_empty() || !at.is_pm() || width != Width::B8 {
            return 0;
        }
        told.get(&((at.offset() / 8) as u32)).copied().unwrap_or(0)
    }

    /// Whether the line leaves the caches with its first copy; if so, sets its reached bit.
    fn write_back(&self, copied: Copied) -> bool {
        let mut told = self.told.borrow_mut();
        let bits = told.entry(copied.word).or_default();
        let leaves = *bits >> copied.bit & 1 == 0 && copied.leaves(self.seed);
        *bits |= u64::from(leaves) << copied.bit;
        leaves
    }

    fn ready(&self, thread: usize) -> bool {
        self.waits[thread]
            .get()
            .is_none_or(|(at, value)| self.region(at).load(at, Width::B8) != value)
    }

    fn waiting(&self, fibers: &[Fiber]) -> Option<String> {
        let stuck: Vec<String> = (0..fibers.len())
            .filter(|&thread| !fibers[thread].is_done())
            .filter_map(|thread| {
                let (at, value) = self.waits[thread].get()?;
                Some(format!("thread {thread} waits for {at} to change from {value:#x}"))
            })
            .collect();
        (!stuck.is_empty()).then(|| stuck.join(", "))
    }
}

impl Traced<'_> {
    /// Counts a seam call and switches to another thread when the turn is over.
    fn step(&self) {
        let shared = &*self.shared;
        if shared.closing.get() {
            return;
        }
        shared.steps.set(shared.steps.get() - 1);
        if shared.steps.get() == 0 {
            return self.pause.pause();
        }
        match shared.turn.get() {
            0 => self.pause.pause(),
            left => shared.turn.set(left - 1),
        }
    }

    /// Records which word this call of the seam uses.
    fn note_access(&self, at: Addr, writes: bool) {
        let shared = &*self.shared;
        if shared.notes_accesses {
            let call = shared.calls - shared.steps.get();
            // The stores of a line persist in order, whatever words they are to.
            let bytes = if at.is_pm() { LINE_BYTES } else { 8 };
            let (thread, word) = (self.thread as u16, at.bits() / bytes * bytes / 8);
            let access = Access { call, thread, word, writes };
            shared.trace.borrow_mut().accesses.push(access);
        }
    }

    fn event(&self, trace: &mut Trace, kind: Kind, at: &'static Location<'static>) {
        let operation = self.shared.operation[self.thread].get();
        trace.events.push(Event { thread: self.thread as u16, operation, kind, at });
    }

    #[track_caller]
    fn note(&self, kind: Kind) {
        self.event(&mut self.shared.trace.borrow_mut(), kind, Location::caller());
    }

    /// Records a load of a word that another thread wrote last: a dependence between epochs if it
    /// is persistent; and in any case the thread now depends on what that thread had stored before.
    fn note_read(&self, at: Addr, from: &'static Location<'static>) {
        if self.shared.operation.len() == 1 {
            return;
        }
        let mut trace = self.shared.trace.borrow_mut();
        let mine = self.thread as u16;
        if !at.is_pm() {
            let writers = self.shared.dram_writer.borrow();
            let last = writers.get(&(at.offset() / 8)).filter(|(writer, _)| *writer != mine);
            if let Some(&(_, stores)) = last {
                self.event(&mut trace, Kind::Sync { stores }, from);
            }
            return;
        }
        let Some(line) = trace.find_line(at.line()) else { return };
        let word = (at.offset() / 8) as u32;
        let other = |writer: Option<&u16>| writer.is_some_and(|&w| w != u16::MAX && w != mine);
        if other(self.shared.writer.borrow().get(line as usize))
            || other(self.shared.word_writer.borrow().get(&word))
        {
            self.event(&mut trace, Kind::Read { line, word }, from);
        }
    }

    /// Stores, and returns the number of the store if it was to persistent memory.
    #[track_caller]
    fn put(&self, trace: &mut Trace, at: Addr, width: Width, value: u64) -> Option<u32> {
        let change = self.shared.region(at).store(at, width, value);
        if !at.is_pm() {
            let stores = trace.stores.len() as u32;
            let writer = (self.thread as u16, stores);
            self.shared.dram_writer.borrow_mut().insert(at.offset() / 8, writer);
            return None;
        }
        let store = trace.add_store(at, width, change);
        let line = trace.stores[store as usize].line as usize;
        let mut writer = self.shared.writer.borrow_mut();
        if writer.len() <= line {
            writer.resize(line + 1, u16::MAX);
        }
        writer[line] = self.thread as u16;
        self.shared.word_writer.borrow_mut().insert(change.word, self.thread as u16);
        Some(store)
    }

    #[track_caller]
    fn locked(&self, at: Addr, change: impl FnOnce(u64) -> Option<u64>) -> u64 {
        self.step();
        self.note_access(at, true);
        let caller = Location::caller();
        let old = self.shared.region(at).load(at, Width::B8);
        match change(old) {
            None => self.note_read(at, caller),
            Some(new) => {
                let mut trace = self.shared.trace.borrow_mut();
                let store = self.put(&mut trace, at, Width::B8, new);
                self.event(&mut trace, Kind::Locked { store }, caller);
            }
        }
        old
    }
}

impl Memory for Traced<'_> {
    fn thread(&self) -> usize {
        self.thread
    }

    /// The run starts each thread once.
    fn slots(&self) -> Option<&ThreadSlots> {
        None
    }

    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        self.step();
        self.note_access(at, false);
        self.note_read(at, Location::caller());
        self.shared.region(at).load(at, width) | self.shared.told(at, width)
    }

    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        self.step();
        self.note_access(at, true);
        let mut trace = self.shared.trace.borrow_mut();
        if let Some(store) = self.put(&mut trace, at, width, value) {
            self.event(&mut trace, Kind::Store { store }, Location::caller());
        }
    }

    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        let old = self.locked(at, |old| (old == current).then_some(new));
        if old == current { Ok(old) } else { Err(old) }
    }

    fn swap(&self, at: Addr, new: u64) -> u64 {
        self.locked(at, |_| Some(new))
    }

    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        self.locked(at, |old| Some(old.wrapping_add(by)))
    }

    fn flush(&self, at: Addr, len: u64) {
        self.step();
        if !at.is_pm() {
            self.note(Kind::FlushElsewhere);
        } else if len > 0 {
            let end = at.offset().saturating_add(len);
            assert!(end <= self.shared.pm.bytes(), "flush of {len} bytes from {at}, past the pool");
            for line in lines_of(at, len) {
                let line = self.shared.trace.borrow_mut().line(line);
                self.note(Kind::Flush { line });
            }
        }
    }

    fn write_nt(&self, at: Addr, from: &[u8]) {
        let first = self.shared.trace.borrow().events.len();
        self.write(at, from);
        let mut trace = self.shared.trace.borrow_mut();
        let mine = self.thread as u16;
        for event in trace.events[first..].iter_mut().filter(|event| event.thread == mine) {
            if let Kind::Store { store } = event.kind {
                event.kind = Kind::StoreNt { store };
                event.at = Location::caller();
            }
        }
    }

    fn fence(&self, fence: Fence) {
        self.step();
        if fence != Fence::Strand {
            self.note_access(FENCES, true);
        }
        self.note(fence.into());
    }

    fn work(&self, _: u32) {}

    fn spin_while(&self, at: Addr, value: u64) -> u64 {
        let shared = &*self.shared;
        loop {
            let now = self.load_bits(at, Width::B8);
            if now != value || shared.closing.get() {
                return now;
            }
            shared.waits[self.thread].set(Some((at, value)));
            self.pause.pause();
            shared.waits[self.thread].set(None);
        }
    }

    fn output(&self, number: u64) {
        self.step();
        self.note_access(FENCES, true);
        self.note(Kind::Output { number });
        let operation = &self.shared.operation[self.thread];
        operation.set(operation.get() + 1);
    }

    fn space(&self) -> Option<impl Space> {
        Some(self)
    }

    fn relocation(&self) -> Option<impl RelocationUnit> {
        Some(self)
    }
}

impl Space for &Traced<'_> {
    fn grow(&self, bytes: u64) -> bool {
        self.step();
        self.note_access(FENCES, true);
        let pm = &self.shared.pm;
        if bytes > pm.bytes() && bytes <= pm.room() {
            pm.set_bytes(bytes);
            self.note(Kind::Grow { bytes });
        }
        bytes <= pm.bytes()
    }

    fn will_write(&self, _: Addr, _: u64) {}

    /// Sets the first word of each line to zero, in one step; a crash may keep or lose each of
    /// these stores.
    fn discard(&self, at: Addr, len: u64) {
        self.step();
        self.note_access(FENCES, true);
        let mut trace = self.shared.trace.borrow_mut();
        for line in lines_of(at, len) {
            if let Some(store) = self.put(&mut trace, line.start(), Width::B8, 0) {
                self.event(&mut trace, Kind::Store { store }, Location::caller());
            }
        }
    }

    fn bring_back(&self, _: Addr, _: u64) -> bool {
        true
    }
}

impl RelocationUnit for &Traced<'_> {
    fn forwards(&self) -> bool {
        true
    }

    fn set(&self, registers: Option<Relocation>) {
        self.step();
        self.note_access(FENCES, true);
        self.shared.relocation.set(registers);
        self.shared.told.borrow_mut().clear();
        let mut trace = self.shared.trace.borrow_mut();
        let since = trace.events.len() as u32;
        trace.relocated.settings.push(since);
    }

    /// Copies each line in one step.
    fn relocate(&self, to: Addr, from: Addr, len: u64) {
        let caller = Location::caller();
        for line in lines_of(to, len) {
            self.step();
            self.note_access(line.start(), true);
            let start = line.start().max(to);
            let end = line.start().plus(LINE_BYTES).min(to.plus(len));
            for at in (start.bits()..end.bits()).step_by(8).map(Addr::from_bits) {
                let source = from.plus(at.bits() - to.bits());
                self.note_read(source, caller);
                let mut trace = self.shared.trace.borrow_mut();
                let word = self.shared.region(source).load(source, Width::B8);
                if let Some(store) = self.put(&mut trace, at, Width::B8, word) {
                    self.event(&mut trace, Kind::Store { store }, caller);
                }
            }
            let registers = self.shared.relocation.get();
            let mut trace = self.shared.trace.borrow_mut();
            let copied = registers.and_then(|registers| trace.add_copied(&registers, start));
            if let Some(copied) = copied.filter(|copied| self.shared.write_back(*copied)) {
                self.event(&mut trace, Kind::WroteBack { line: copied.line }, caller);
            }
        }
    }

    fn forward(&self, at: Addr) -> Addr {
        let registers = self.shared.relocation.get();
        registers.map_or(at, |registers| registers.look_up(*self, at))
    }
}
