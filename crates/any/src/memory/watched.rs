//! Counts how a program uses persistent memory, as WHISPER does (ASPLOS'17, section 5): a memory
//! around that of each simulated core, which looks at what passes and changes nothing.
//!
//! An **epoch** is what a thread does between two fences, if it stores to persistent memory at all.
//! It depends on an earlier epoch, of its own thread or of another, if it writes a line that the
//! other wrote within a window of time. A **transaction** is one operation of the workload that has
//! an epoch.

use seawall_memory::{Addr, Fence, LINE_BYTES, Memory, MemoryExt, Width, layer, lines_of};
use std::cell::RefCell;
use std::rc::Rc;

/// What is counted of all threads together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessCounts {
    /// Loads, stores and locked operations of persistent memory.
    pub pm: u64,
    /// The same of all memory.
    pub accesses: u64,
    /// Epochs of all threads.
    pub epochs: u64,
    /// Those that wrote one line.
    pub single: u64,
    /// Those that wrote a line which an earlier one of the thread wrote.
    pub own: u64,
    /// Those that wrote a line which another thread wrote.
    pub cross: u64,
    /// Lines that all epochs wrote, each counted once an epoch.
    pub lines: u64,
    /// Epochs of each transaction.
    pub transactions: Vec<u64>,
}

/// When a thread last wrote a line, and in which of its epochs.
#[derive(Clone, Copy, Default)]
struct Written {
    /// The number of the epoch; 0 if it has not written it.
    epoch: u64,
    at: u64,
}

/// The epoch that a thread is in.
#[derive(Clone, Default)]
struct Open {
    number: u64,
    lines: u64,
    own: bool,
    cross: bool,
    /// Epochs of the transaction that the thread is in.
    of_transaction: u64,
    counts: bool,
}

/// What all threads of a run write into.
pub struct Watch {
    window: u64,
    threads: usize,
    written: Vec<Written>,
    open: Vec<Open>,
    counts: AccessCounts,
}

impl Watch {
    /// For a pool of `pm_bytes` bytes and a window of that many cycles.
    pub fn new(pm_bytes: u64, threads: usize, window: u64) -> Watch {
        let lines = pm_bytes.div_ceil(LINE_BYTES) as usize;
        Watch {
            window,
            threads,
            written: vec![Written::default(); lines * threads],
            open: vec![Open { number: 1, ..Open::default() }; threads],
            counts: AccessCounts::default(),
        }
    }

    /// What was counted so far.
    pub fn counts(&self) -> &AccessCounts {
        &self.counts
    }

    fn access(&mut self, thread: usize, at: Addr, count: u64) {
        if self.open[thread].counts {
            self.counts.accesses += count;
            self.counts.pm += if at.is_pm() { count } else { 0 };
        }
    }

    fn store(&mut self, thread: usize, at: Addr, now: u64) {
        self.access(thread, at, 1);
        if !at.is_pm() {
            return;
        }
        let line = (at.offset() / LINE_BYTES) as usize * self.threads;
        let writers = &mut self.written[line..line + self.threads];
        let open = &mut self.open[thread];
        if writers[thread].epoch == open.number {
            writers[thread].at = now;
            return;
        }
        let window = self.window;
        let is_near = |written: &Written| written.epoch > 0 && now.abs_diff(written.at) <= window;
        let mut others = writers.iter().enumerate().filter(|(other, _)| *other != thread);
        open.cross |= others.any(|(_, written)| is_near(written));
        open.own |= is_near(&writers[thread]);
        open.lines += 1;
        writers[thread] = Written { epoch: open.number, at: now };
    }

    fn fence(&mut self, thread: usize) {
        let open = &mut self.open[thread];
        if open.lines > 0 && open.counts {
            self.counts.epochs += 1;
            self.counts.single += u64::from(open.lines == 1);
            self.counts.own += u64::from(open.own);
            self.counts.cross += u64::from(open.cross);
            self.counts.lines += open.lines;
            open.of_transaction += 1;
        }
        let Open { number, of_transaction, counts, .. } = *open;
        *open = Open { number: number + 1, of_transaction, counts, ..Open::default() };
    }

    /// From now on what `thread` does counts.
    fn begin(&mut self, thread: usize) {
        self.open[thread].counts = true;
    }

    /// `thread` has done an operation.
    fn done(&mut self, thread: usize) {
        let open = &mut self.open[thread];
        let epochs = std::mem::take(&mut open.of_transaction);
        if open.counts && epochs > 0 {
            self.counts.transactions.push(epochs);
        }
    }
}

/// A memory whose use is counted.
pub struct Watched<'a, M> {
    memory: &'a M,
    watch: Rc<RefCell<Watch>>,
}

impl<'a, M: Memory> Watched<'a, M> {
    /// Counts what passes to `memory` in `watch`.
    pub fn new(memory: &'a M, watch: Rc<RefCell<Watch>>) -> Watched<'a, M> {
        Watched { memory, watch }
    }

    /// From now on what this thread does counts.
    pub fn begin(&self) {
        self.watch.borrow_mut().begin(self.memory.thread());
    }

    /// This thread has done an operation.
    pub fn done(&self) {
        self.watch.borrow_mut().done(self.memory.thread());
    }

    fn loaded(&self, at: Addr, count: u64) {
        self.watch.borrow_mut().access(self.memory.thread(), at, count);
    }

    fn stored(&self, at: Addr) {
        self.watch.borrow_mut().store(self.memory.thread(), at, self.memory.now());
    }
}

impl<M: Memory> layer::Layer for Watched<'_, M> {
    type Below = M;
    const WORD_BY_WORD: bool = true;

    fn below(&self) -> &M {
        self.memory
    }

    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        let bits = self.memory.load_bits(at, width);
        self.loaded(at, 1);
        bits
    }

    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        self.memory.store_bits(at, width, value);
        self.stored(at);
    }

    fn read(&self, at: Addr, into: &mut [u8]) {
        self.memory.read(at, into);
        self.loaded(at, (into.len() as u64).div_ceil(8));
    }

    fn write_nt(&self, at: Addr, from: &[u8]) {
        self.memory.write_nt(at, from);
        let words = (from.len() as u64).div_ceil(8);
        lines_of(at, from.len() as u64).for_each(|line| self.stored(line.start()));
        self.loaded(at, words.saturating_sub(lines_of(at, from.len() as u64).count() as u64));
    }

    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        let was = self.memory.compare_exchange(at, current, new);
        if was.is_ok() {
            self.stored(at)
        } else {
            self.loaded(at, 1)
        }
        was
    }

    fn swap(&self, at: Addr, new: u64) -> u64 {
        let was = self.memory.swap(at, new);
        self.stored(at);
        was
    }

    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        let was = self.memory.fetch_add(at, by);
        self.stored(at);
        was
    }

    fn fence(&self, fence: Fence) {
        self.memory.fence(fence);
        if fence != Fence::Strand {
            self.watch.borrow_mut().fence(self.memory.thread());
        }
    }

    fn spin_while(&self, at: Addr, value: u64) -> u64 {
        let seen = self.memory.spin_while(at, value);
        self.loaded(at, 1);
        seen
    }
}
