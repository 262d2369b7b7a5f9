//! The undo log: it lets a transaction change data in place before it commits.
//!
//! Before bytes are changed for the first time, a record of their old values goes to the thread's
//! undo log, with a fence of its own; then they can be stored and can persist at any time. Commit
//! writes the new values as one redo record, which also marks the end of the undo transaction: so a
//! commit flushes no data and costs one more fence. Abort reads the old values back, restores them
//! and writes such a record with them as the new ones. (In pools whose programs store in place,
//! [both](super::in_place) flush the data instead.)
//!
//! The records of an undo transaction carry its number, which grows from one transaction to the
//! next. Recovery rolls back the one undo transaction whose number is greater than that of the last
//! that ended.

use super::checksum::Keys;
use super::reach::Reach;
use super::record::Builder;
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

    /// Lines of the log that the current transaction has written.
    pub(crate) fn lines(&self) -> u64 {
        self.used / LINE_BYTES
    }

    /// Notes the values of the bytes from `from` to `to`, to be logged with the next
    /// [`save`](Undo::save).
    #[inline]
    pub(crate) fn note<M: Memory>(&mut self, memory: &M, mut from: Addr, mut to: Addr) {
        if self.builder.is_empty() {
            self.builder.clear();
        }
        if self.flaw.is(HeapFlaw::WholeWords) {
            from = Addr::from_bits(from.bits() & !7);
            to = Addr::from_bits(to.bits().next_multiple_of(8));
        }
        self.builder.push_from(memory, from, to);
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
        self.builder.clear();
        Ok(size)
    }

    /// To be called when the end of the current transaction is durable.
    #[inline]
    pub(crate) fn close(&mut self) {
        self.used = 0;
        if !self.builder.is_empty() {
            self.builder.clear();
        }
    }
}
