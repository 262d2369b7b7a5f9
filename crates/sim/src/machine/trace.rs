//! Reports each access to an observer, with its position in the program of its core.
//!
//! To check what a crash left, an observer needs the order in which stores took effect, and what
//! each load saw before which store of its thread. The position of a store is counted when it takes
//! effect (a store buffer keeps program order), that of a load when it issues, behind the stores in
//! the buffer.
//!
//! An entry that stands for several stores is told as the first of them, and one store of several
//! words as a store of each word, all at one position. A non-temporal store takes effect when it
//! joins the write-combining buffer.

use super::System;
use crate::Cycle;
use crate::core::Entry;
use crate::design::{Design, Store};
use crate::hw::Event;
use crate::run::CoreAccess;

/// Counts of stores, if an observer needs them.
pub(crate) struct Trace {
    pub(super) on: bool,
    /// Stores of each core that have taken effect.
    stored: Vec<u64>,
}

impl Trace {
    pub(super) fn new(on: bool, cores: usize) -> Trace {
        Trace { on, stored: vec![0; cores] }
    }
}

impl<D: Design> System<D> {
    #[cold]
    #[inline(never)]
    pub(super) fn tell_store(&mut self, core: usize, at: Store, count: u16, now: Cycle) {
        let position = self.trace.stored[core];
        self.trace.stored[core] += u64::from(count);
        let Store { line, word, mask, value, .. } = at;
        let access = CoreAccess { core, line, word: word % 8, mask, position };
        let crash = self.observer.borrow_mut().stored(access, value & mask, now);
        if let Some(at) = crash {
            self.hw.queue.event(at.max(now), Event::Crash);
        }
    }

    /// `core`'s program has loaded the bits `mask` of a word, not from its own store buffer.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_load(&mut self, core: usize, line: u32, word: u8, mask: u64) {
        let is_store = |entry: &&Entry| entry.kind.is_store() || entry.kind.is_non_temporal();
        let queued = self.hw.cores[core].buffer.entries.iter().filter(is_store);
        let queued: u64 = queued.map(|entry| u64::from(entry.count)).sum();
        let position = self.trace.stored[core] + queued;
        let access = CoreAccess { core, line, word: word % 8, mask, position };
        self.observer.borrow_mut().loaded(access);
    }
}
