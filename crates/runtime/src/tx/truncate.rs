//! Truncation of the redo log: what its records wrote is made durable in place, so that their half
//! can be reused (`redo_log` describes generations and halves). Most of it may have been done
//! [before](super::ahead), in steps.

use super::ahead::entries_left;
use super::redo_log::{COUNT_BITS, Log, USED_BITS};
use crate::defrag::pages::{PAGE_BYTES, Pages};
use crate::flaws::HeapFlaw;
use crate::heap::checked_word;
use crate::heap::layout::RETIRE_LOCK;
use seawall_memory::{LINE_BYTES, Line, Memory, MemoryExt};

impl Log {
    /// Moves the heap on from `generation`, unless another thread has, after truncating the
    /// generation before; if it `closes` the generation, records where that ends.
    #[cold]
    #[inline(never)]
    pub(super) fn advance<M: Memory>(&mut self, memory: &M, generation: u64, closes: bool) {
        let layout = self.layout;
        let guard = layout.locks.acquire(memory, RETIRE_LOCK, 0);
        if memory.load::<u64>(layout.generation) == generation {
            if memory.load::<u64>(layout.retired_now) + 1 < generation {
                self.truncate(memory, generation - 1);
            }
            // Locked: a thread that does not see this has announced before that it is writing.
            memory.swap(layout.generation, generation + 1);
            if closes {
                self.close(memory, generation);
            }
        }
        layout.locks.release(memory, guard);
    }

    /// Records where the halves of `generation` end, in which no thread begins a record any more.
    /// Leaves out threads that are writing one, and this thread: its next record states it. Needs
    /// no fence of its own: a thread stores `done`, in the same line, behind each of its records.
    fn close<M: Memory>(&self, memory: &M, generation: u64) {
        let threads = self.threads(memory);
        for thread in threads.filter(|thread| *thread != self.places.thread) {
            let (busy, at) = (self.layout.busy(thread), self.layout.last(thread));
            let early: u64 = if self.flaw.is(HeapFlaw::EarlyEnd) { memory.load(at) } else { 0 };
            // In this order: a thread that is no longer writing has stored its last line.
            let is_writing = memory.load::<u64>(busy) == generation;
            let last = if self.flaw.is(HeapFlaw::EarlyEnd) { early } else { memory.load(at) };
            if last >> USED_BITS != generation || is_writing {
                continue;
            }
            let [closed, end] = self.layout.closed(thread);
            let lines = last & ((1 << USED_BITS) - 1);
            memory.store(end, checked_word::encode(end, lines));
            memory.store(closed, checked_word::encode(closed, generation));
            memory.flush(closed, 16);
        }
    }

    /// Makes durable in place all that the records of `generation` wrote.
    fn truncate<M: Memory>(&mut self, memory: &M, generation: u64) {
        let layout = self.layout;
        self.flushed.clear();
        // All threads before the first flush: a line that several wrote is flushed once.
        for thread in self.threads(memory) {
            let busy = layout.busy(thread);
            while memory.load::<u64>(busy) == generation && !self.flaw.is(HeapFlaw::NoWait) {
                memory.spin_while(busy, generation);
            }
        }
        for thread in self.threads(memory) {
            let count: u64 = memory.load(layout.dirty_count(thread, generation));
            if count == 0 {
                continue;
            }
            let left = entries_left(memory, &layout, thread, (generation, count));
            self.flush_listed(memory, thread, generation, left);
            memory.load::<u64>(layout.done(thread));
            memory.store(layout.dirty_count(thread, generation), 0u64);
        }
        memory.drain();
        memory.store(layout.retired, checked_word::encode(layout.retired, generation));
        memory.persist(layout.retired, 8);
        memory.store(layout.retired_now, generation);
        self.counts.retired += 1;
    }

    fn flush_listed<M: Memory>(&mut self, memory: &M, thread: u64, generation: u64, count: u64) {
        let list = self.layout.dirty(thread, generation);
        for place in 0..count {
            let listed: u64 = memory.load(list.plus(8 * place));
            let first = listed >> COUNT_BITS;
            for line in first..first + (listed & ((1 << COUNT_BITS) - 1)) {
                self.flush_once(memory, Line(line));
            }
        }
    }

    /// Flushes a line, unless it is in the set of those that were.
    #[inline]
    pub(super) fn flush_once<M: Memory>(&mut self, memory: &M, line: Line) {
        let is_lost = self.flaw.is(HeapFlaw::NoFlush);
        if !is_lost && self.flushed.insert(line.0) && !self.is_vacant(memory, line) {
            self.counts.flushed += 1;
            memory.flush(line.start(), LINE_BYTES);
        }
    }

    /// Whether the line is in a page that was returned to the system, or will be when all scopes
    /// end that were open when it was marked. Its log records are void. (Truncation runs in a
    /// scope.)
    fn is_vacant<M: Memory>(&self, memory: &M, line: Line) -> bool {
        let layout = &self.layout;
        layout.numbers.moves
            && layout.chunk_of(line.start()).is_some_and(|chunk| {
                let into = line.start().offset() - layout.chunk(chunk).offset();
                Pages::load(memory, layout, chunk).is_hole(into / PAGE_BYTES)
            })
    }

    /// Truncates the logs of all threads, except for what they write meanwhile.
    pub(crate) fn truncate_all<M: Memory>(&mut self, memory: &M) {
        for _ in 0..2 {
            let generation = memory.load(self.layout.generation);
            self.advance(memory, generation, false);
        }
    }
}
