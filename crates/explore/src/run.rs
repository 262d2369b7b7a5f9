//! A run of a program on the recording memory: its threads, and what they share.
//!
//! The threads of a run are fibers on one OS thread, and every call of the seam is a switch point;
//! the [`Dispatcher`] determines which thread goes next.
//!
//! A run always ends: it is cut off after a number of seam calls, and a state in which all threads
//! wait is a deadlock. Both are errors, not hangs. A loop that never accesses memory is not
//! bounded; one that only repeats what it reads waits for another thread
//! ([`Waiting`](crate::waiting::Waiting)).

use crate::access::{Access, Handover, Met, Use, shared_word};
use crate::combining::Combining;
use crate::dispatch::{Dispatcher, Turn};
use crate::guard::guarded;
use crate::recorder::Regions;
use crate::relocated::Copied;
use crate::schedule::{Schedule, Turns};
use crate::trace::Trace;
use crate::visible::Visible;
use crate::waiting::{Read, Wait, Waiting};
use crate::wide::Writes;
use crate::words::Words;
use rustc_hash::FxHashMap;
use seawall_fiber::Fiber;
use seawall_memory::relocation::Relocation;
use seawall_memory::{Addr, Width};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::thread::panicking;

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

/// A write of several words that a thread is making: its first call, and its words as
/// [`shared_word`] has them.
type UnderWay = (u64, Vec<u64>);

/// What the threads of a run share.
pub(crate) struct Shared {
    pub(crate) pm: Words,
    pub(crate) dram: Words,
    pub(crate) trace: RefCell<Trace>,
    /// The last writer of each line, and of each word.
    pub(crate) writer: RefCell<Vec<u16>>,
    pub(crate) word_writer: RefCell<FxHashMap<u32, u16>>,
    /// The last writer of each word of DRAM, and the number of stores to persistent memory before
    /// that write.
    pub(crate) dram_writer: RefCell<FxHashMap<u64, (u16, u32)>>,
    /// Who sees which store, where that is not always the newest one.
    pub(crate) visible: RefCell<Option<Visible>>,
    /// The loads that are not to return the newest store: their calls, and how far behind.
    behind: Vec<(u64, u32)>,
    pub(crate) combining: RefCell<Combining>,
    pub(crate) writes: Writes,
    /// The first calls of writes whose words are made from the last to the first.
    reversed: Vec<u64>,
    /// For each thread the write of several words that it is making.
    pub(crate) under_way: RefCell<Vec<Option<UnderWay>>>,
    pub(crate) operation: Vec<Cell<u32>>,
    waiting: Waiting,
    /// Seam calls so far, and the one before which the running thread pauses.
    calls: Cell<u64>,
    until: Cell<u64>,
    limit: u64,
    is_cut: Cell<bool>,
    /// Whether accesses are recorded, for the search for other schedules.
    pub(crate) notes_accesses: bool,
    /// Whether loads are recorded of which no other thread has stored the value.
    pub(crate) notes_loads: bool,
    /// Whether compare-and-exchanges that fail are recorded.
    pub(crate) notes_failed: bool,
    /// For each thread whether it has asked for durability since its last fence.
    pub(crate) owes: Vec<Cell<bool>>,
    closing: Cell<bool>,
    pub(crate) relocation: Cell<Option<Relocation>>,
    seed: u64,
    /// Bits of the reached bitmap that loads see set, by word.
    pub(crate) told: RefCell<FxHashMap<u32, u64>>,
}

/// Threads of a run up to which other schedules are searched for.
pub(crate) const THREADS_MAX: usize = 64;

pub(crate) fn drive(
    shared: &Shared,
    fibers: &mut [Fiber],
    schedule: &Schedule,
) -> Result<(), RunError> {
    let mut turns = Dispatcher::new(schedule);
    let mut last = None;
    loop {
        let ready = shared.waiting.ready(|at| shared.word(at));
        let running = last.filter(|&last| ready.contains(&last) && shared.is_ready(last));
        let is_handover = running.is_none() && ready.len() > 1 && shared.is_ready(ready[0]);
        if ready.is_empty() {
            return match shared.waiting.stuck() {
                None => Ok(()),
                Some(who) => Err(RunError::Deadlock(who)),
            };
        }
        let Turn { thread, until } = turns.next(&ready, running, shared.calls.get());
        if is_handover {
            shared.note_handover(&ready, thread);
        }
        shared.until.set(if fibers.len() == 1 { u64::MAX } else { until });
        guarded(|| fibers[thread].resume())
            .map_err(|message| RunError::Panicked { thread, message })?;
        if fibers[thread].is_done() {
            shared.waiting.end(thread);
        }
        if shared.is_cut.get() {
            return Err(RunError::TooLong(schedule.steps));
        }
        last = Some(thread);
    }
}

impl Shared {
    pub(crate) fn new(regions: Regions, trace: Trace, schedule: &Schedule) -> Shared {
        let threads = schedule.threads;
        let choices = match &schedule.turns {
            Turns::Chosen(choices) => &choices[..],
            _ => &[],
        };
        let behind: Vec<(u64, u32)> = choices.iter().filter_map(|choice| choice.behind()).collect();
        let late = choices.iter().filter_map(|choice| choice.late()).collect();
        let buffers = threads > 1 && (schedule.buffer > 0 || !behind.is_empty());
        let visible = buffers.then(|| Visible::new(threads, schedule.buffer));
        let Regions { pm, dram } = regions;
        Shared {
            pm,
            dram,
            trace: RefCell::new(trace),
            writer: RefCell::new(Vec::new()),
            word_writer: RefCell::default(),
            dram_writer: RefCell::default(),
            visible: RefCell::new(visible),
            behind,
            combining: RefCell::new(Combining::new(late)),
            writes: Writes::default(),
            reversed: choices.iter().filter_map(|choice| choice.reversed()).collect(),
            under_way: RefCell::new(vec![None; threads]),
            operation: vec![Cell::new(0); threads],
            waiting: Waiting::new(threads),
            calls: Cell::new(0),
            until: Cell::new(0),
            limit: schedule.steps.max(1),
            is_cut: Cell::new(false),
            notes_accesses: (2..=THREADS_MAX).contains(&threads)
                && matches!(schedule.turns, Turns::Chosen(_)),
            notes_loads: threads > 1 && schedule.model.orders_loads(),
            notes_failed: schedule.model.buffers_stores(),
            owes: vec![Cell::new(false); threads],
            closing: Cell::new(false),
            relocation: Cell::new(None),
            seed: schedule.seed,
            told: RefCell::default(),
        }
    }

    /// The run is over: its threads are only to end.
    pub(crate) fn close(&self) {
        self.closing.set(true);
    }

    pub(crate) fn region(&self, at: Addr) -> &Words {
        if at.is_pm() { &self.pm } else { &self.dram }
    }

    pub(crate) fn threads(&self) -> usize {
        self.operation.len()
    }

    /// Seam calls that have begun to take effect.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.get()
    }

    /// How far behind the newest store the load of this call is to be.
    pub(crate) fn behind(&self) -> u32 {
        let call = self.calls.get();
        self.behind.iter().find(|(at, _)| *at == call).map_or(0, |(_, behind)| *behind)
    }

    /// Whether the write that begins with this call is made from its last word to its first.
    pub(crate) fn is_reversed(&self) -> bool {
        self.reversed.contains(&self.calls.get())
    }

    /// The first calls of writes that other threads are making to what this thread accesses, each
    /// told once.
    pub(crate) fn crosses(&self, thread: usize, word: u64) -> Vec<u64> {
        let mut all = self.under_way.borrow_mut();
        let others = all.iter_mut().enumerate().filter(|(other, _)| *other != thread);
        let met = others.filter_map(|(_, write)| {
            write.take_if(|(_, words)| words.contains(&word)).map(|(call, _)| call)
        });
        met.collect()
    }

    /// Whether the run is over and its threads are only to end; or this one, which has panicked:
    /// should it pause while it drops what it holds, it could not be ended.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.get() || panicking()
    }

    /// Counts the next seam call, after `pause` has let other threads run if it is their turn.
    pub(crate) fn step(&self, pause: impl Fn()) {
        if self.is_closing() {
            return;
        }
        if self.calls.get() + 1 == self.until.get() {
            pause();
        }
        if self.calls.get() == self.limit {
            self.is_cut.set(true);
            return pause();
        }
        self.calls.set(self.calls.get() + 1);
    }

    /// Lets other threads run until the word has changed from the value.
    pub(crate) fn wait(&self, thread: usize, at: Addr, value: u64, pause: impl Fn()) {
        self.waiting.wait_for(thread, Wait::Word(at, value), pause);
    }

    /// Lets other threads run until the word is set.
    pub(crate) fn sleep(&self, thread: usize, at: Addr, pause: impl Fn()) {
        self.waiting.wake(thread);
        while self.word(at) == 0 && !self.is_closing() {
            self.waiting.wait_for(thread, Wait::Word(at, 0), &pause);
        }
    }

    /// A thread that has not begun sleeps until this word is set.
    pub(crate) fn begins_by(&self, thread: usize, at: Addr) {
        self.waiting.begin_with(thread, Wait::Word(at, 0));
    }

    /// As [`Waiting::note_repeat`].
    #[inline]
    pub(crate) fn note_repeat(&self, thread: usize, read: Read, pause: impl Fn()) {
        if !self.is_closing() {
            self.waiting.note_repeat(thread, read, pause);
        }
    }

    /// As [`Waiting::note_progress`].
    pub(crate) fn note_progress(&self, thread: usize) {
        self.waiting.note_progress(thread);
    }

    fn word(&self, at: Addr) -> u64 {
        self.region(at).load(at, Width::B8)
    }

    fn is_ready(&self, thread: usize) -> bool {
        self.waiting.is_ready(thread, |at| self.word(at))
    }

    /// The threads that could run instead of this one, as bits.
    pub(crate) fn others(&self, thread: usize) -> u64 {
        let others = (0..self.threads()).filter(|&other| other != thread && self.is_ready(other));
        others.fold(0, |bits, other| bits | 1 << other)
    }

    /// Records which word this call of the seam uses, and how far behind the newest store it could
    /// be if it is a load.
    pub(crate) fn note_access(&self, thread: usize, at: Addr, does: Use, behind: Range<u32>) {
        if self.notes_accesses {
            let (call, word, others) = (self.calls(), at.bits() / 8, self.others(thread));
            let crossed = self.crosses(thread, shared_word(at));
            let (thread, behind) = (thread as u16, (behind.start, behind.end));
            let mut trace = self.trace.borrow_mut();
            let (returned, events) = (None, trace.events.len() as u32);
            let access = Access { call, thread, word, does, returned, events, others, behind };
            trace.accesses.push(access);
            trace.crossed.extend(crossed.into_iter().map(|store| Met { store, call }));
        }
    }

    /// Records what the access that was noted last returned.
    pub(crate) fn note_returned(&self, value: u64) {
        if self.notes_accesses
            && let Some(last) = self.trace.borrow_mut().accesses.last_mut()
        {
            last.returned = Some(value);
        }
    }

    fn note_handover(&self, ready: &[usize], to: usize) {
        if self.notes_accesses {
            let others = ready.iter().filter(|&&thread| thread != to);
            let others = others.fold(0, |bits, thread| bits | 1 << thread);
            let handover = Handover { call: self.calls.get() + 1, others };
            self.trace.borrow_mut().handovers.push(handover);
        }
    }

    /// The bits that hardware has set in a word of its bitmap.
    pub(crate) fn told(&self, at: Addr, width: Width) -> u64 {
        let told = self.told.borrow();
        if told.is_empty() || !at.is_pm() || width != Width::B8 {
            return 0;
        }
        told.get(&((at.offset() / 8) as u32)).copied().unwrap_or(0)
    }

    /// Whether the line leaves the caches with its first copy; if so, sets its reached bit.
    pub(crate) fn write_back(&self, copied: Copied) -> bool {
        let mut told = self.told.borrow_mut();
        let bits = told.entry(copied.word).or_default();
        let leaves = *bits >> copied.bit & 1 == 0 && copied.leaves(self.seed);
        *bits |= u64::from(leaves) << copied.bit;
        leaves
    }
}
