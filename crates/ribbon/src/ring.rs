//! A thread's end of the ring of lines that it hands to flusher 0 to be cleaned early. The hook
//! (`early`) or samples of stores (`sampler`) find the lines.
//!
//! Requests are numbered from 1. Flusher 0 is shown some at a time, as each time costs the thread a
//! line that the flusher is looking at. A ring of which it has done nothing for so long that it is
//! full takes no request.

use super::{EARLY_DONE, EARLY_LINES, EARLY_PUSHED, Fifo};
use seawall_memory::{Line, Memory, MemoryExt};

#[derive(Debug)]
pub(super) struct EarlyRing {
    fifo: Fifo,
    /// Requests so far, and those that the flusher is shown.
    pushed: u64,
    shown: u64,
    /// Requests that are done, as last seen.
    done: u64,
}

impl EarlyRing {
    pub(super) fn new<M: Memory>(memory: &M, fifo: Fifo) -> EarlyRing {
        let pushed = memory.load(fifo.word(EARLY_PUSHED));
        let done = memory.load(fifo.word(EARLY_DONE));
        EarlyRing { fifo, pushed, shown: pushed, done }
    }

    /// The last request so far.
    pub(super) fn last(&self) -> u64 {
        self.pushed
    }

    /// True if the flusher has been shown the request.
    pub(super) fn has_shown(&self, request: u64) -> bool {
        request <= self.shown
    }

    /// True if the flusher has flushed, and fenced, the line of the request.
    pub(super) fn has_done<M: Memory>(&mut self, memory: &M, request: u64) -> bool {
        if request > self.done {
            self.done = memory.load(self.fifo.word(EARLY_DONE));
        }
        request <= self.done
    }

    /// True if the place of the next request is still needed for the one before it there.
    pub(super) fn is_full<M: Memory>(&mut self, memory: &M) -> bool {
        let before_it = (self.pushed + 1).saturating_sub(EARLY_LINES);
        !self.has_done(memory, before_it)
    }

    /// Adds the line to the ring, which is not full; returns the request.
    pub(super) fn push<M: Memory>(&mut self, memory: &M, line: Line) -> u64 {
        memory.store(self.fifo.early_slot(self.pushed), line.start().bits());
        self.pushed += 1;
        self.pushed
    }

    /// Shows the flusher what it has not been shown yet, if these are at least `chunk` requests.
    /// True if it did.
    pub(super) fn show<M: Memory>(&mut self, memory: &M, chunk: u64) -> bool {
        let shows = self.pushed - self.shown >= chunk;
        if shows {
            memory.store(self.fifo.word(EARLY_PUSHED), self.pushed);
            self.shown = self.pushed;
        }
        shows
    }
}
