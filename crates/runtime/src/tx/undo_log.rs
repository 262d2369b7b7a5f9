//! The undo log: it lets a transaction change data in place before it commits.
//!
//! Before words are changed for the first time, a record of their old values goes to the thread's
//! undo log, with a fence of its own; then they can be stored and can persist at any time. Commit
//! writes the new values as one redo record, which also marks the end of the undo transaction: so a
//! commit flushes no data and costs one more fence. Abort restores the old values and writes such a
//! record with them as the new ones.
//!
//! The records of an undo transaction carry its number, which grows from one transaction to the
//! next. Recovery rolls back the one undo transaction whose number is greater than that of the last
//! that ended.

use super::checksum::Keys;
use super::reach::Reach;
use super::record::{Builder, HEADER_WORDS};
use crate::flaws::{HeapFlaw, Planted};
use crate::heap::checked_word;
use crate::{Heap, Route, RouteChoice, TxError};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};

/// One thread's undo log.
#[derive(Clone, Debug)]
pub(crate) struct Undo {
    at: Addr,
    keys: Keys,
    room: u64,
    flaw: Planted,
    /// The number of the current transaction, or of the last one.
    number: u64,
    used: u64,
    reach: Reach,
    builder: Builder,
    pub(crate) route: Route,
    /// All old values of the current transaction.
    old: Builder,
    /// The part of `old` that is in the log.
    saved: usize,
}

impl Undo {
    pub(crate) fn new<M: Memory>(memory: &M, heap: &Heap, thread: u64) -> Undo {
        let Heap { layout, flaw, uuid, .. } = *heap;
        Undo {
            at: layout.undo(thread),
            keys: Keys::of(uuid, layout.undo(thread)),
            // So that the record of an abort always fits the redo log.
            room: layout.numbers.log_bytes - 2 * LINE_BYTES,
            flaw,
            number: checked_word::claimed(memory, layout.ended(thread)),
            used: 0,
            reach: Reach::new(heap, thread, 2),
            builder: Builder::default(),
            route: Route::new(RouteChoice::Adaptive),
            old: Builder::default(),
            saved: 0,
        }
    }

    /// Whether old values of the current transaction are in the log.
    pub(crate) fn is_open(&self) -> bool {
        self.used > 0
    }

    /// The number of the current transaction.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Notes the old values of words of one line, to be logged with the next [`save`](Undo::save).
    #[inline]
    pub(crate) fn note(&mut self, at: Addr, old: &[u8]) {
        if self.builder.is_empty() {
            self.builder.clear();
        }
        if self.old.is_empty() {
            self.old.clear();
        }
        self.builder.push_words(at, old);
        self.old.push_words(at, old);
    }

    /// Makes the noted values durable; returns the bytes of the record, 0 if nothing was noted.
    ///
    /// # Errors
    /// When they do not fit; then they are no longer noted.
    pub(crate) fn save<M: Memory>(&mut self, memory: &M) -> Result<u64, TxError> {
        if self.builder.is_empty() {
            return Ok(0);
        }
        let size = self.builder.bytes();
        if self.used + size > self.room {
            self.builder.clear();
            self.old.truncate(self.saved.max(HEADER_WORDS));
            return Err(TxError::TooLarge { bytes: self.used + size, room: self.room });
        }
        if !self.is_open() {
            self.number += 1;
        }
        self.reach.cover(memory, self.number, self.used + size);
        let line = self.used / LINE_BYTES;
        let record = self.builder.finish(0, self.number, line, &self.keys);
        self.route.write(memory, self.at.plus(self.used), record);
        if !self.flaw.is(HeapFlaw::LateUndo) {
            memory.order();
        }
        self.route.fenced(memory);
        self.used += size;
        // Values that are noted next can be discarded, so they must begin an entry of their own.
        self.old.close();
        self.saved = self.old.len();
        self.builder.clear();
        Ok(size)
    }

    /// A record that restores all old values, each word once, and marks the end of the transaction.
    pub(crate) fn put_back(&mut self) -> &mut Builder {
        self.old.push_end(self.number);
        &mut self.old
    }

    /// To be called when the end of the current transaction is durable.
    #[inline]
    pub(crate) fn close(&mut self) {
        if self.old.is_empty() {
            return;
        }
        self.used = 0;
        self.saved = 0;
        self.old.clear();
        self.builder.clear();
    }
}
