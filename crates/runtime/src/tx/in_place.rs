//! The commit of pools whose programs also store in place, outside of transactions.
//!
//! Elsewhere a commit leaves the new values in the log for hundreds of transactions, and a crash
//! stores them again. A program that writes one of these bytes with a plain store and makes it
//! durable would lose that: recovery replays the older value over it. So in these pools nothing of
//! the program's data is replayed once a transaction has ended. Its old values are logged, its new
//! ones are flushed in place, and then its end is logged. Only the words of the allocator, which no
//! program stores to, are logged as elsewhere.
//!
//! | step | what a crash behind it finds |
//! |---|---|
//! | old values are logged, a fence | they are restored |
//! | bytes are stored and flushed, a fence | they are restored |
//! | the end is logged, with the changes of the allocator, a fence | nothing is restored |
//!
//! The last fence cannot be spared: without it, a crash could find the bytes that the program
//! stored after the end, but not the end itself, and restore values older than both. Nor can the
//! second: the end must not persist before what it ends. A transaction that only frees has the last
//! fence alone; one that stores nothing but fresh objects, all of which are flushed, has the last
//! two.
//!
//! Old values are logged to the byte, as other bytes of the same word may belong to other threads.

use super::buffers::Buffers;
use super::extension::RECORD_BYTES;
use super::ranges::Ranges;
use super::record::{Builder, Entry};
use super::redo_log::{Wait, store_in_place};
use crate::flaws::HeapFlaw;
use crate::{Session, TxError};
use seawall_memory::{Addr, Memory, MemoryExt};

impl<M: Memory> Session<'_, M> {
    pub(super) fn commit_in_place(&mut self, wait: Wait) -> Result<(), TxError> {
        if !self.buffers.words.record.is_empty() {
            self.store_words()?;
        }
        let Buffers { own, saved, taken, bare, changed, .. } = &mut *self.buffers;
        if self.undo.is_open() {
            own.record.push_end(self.undo.number());
        }
        changed.clear();
        // Both are in the order in which blocks were taken.
        let mut bare = bare.iter().peekable();
        let fresh = taken.iter().filter(|block| bare.next_if_eq(&&block.at).is_none());
        for (from, to) in saved.iter().chain(fresh.map(|block| (block.at, block.end()))) {
            changed.add_lines(from, to);
        }
        self.make_durable();
        let mut own = std::mem::take(&mut self.buffers.own.record);
        let outcome = self.log_record(&mut own, wait);
        self.buffers.own.record = own;
        outcome
    }

    /// Redo: logs the old values of the words that the transaction has noted, and stores them.
    fn store_words(&mut self) -> Result<(), TxError> {
        let mut words = std::mem::take(&mut self.buffers.words.record);
        if !self.log.holds(&words, 0) {
            self.drop_freed(&mut words);
        }
        let outcome = self.save_old(&words);
        if outcome.is_ok() {
            for entry in words.entries() {
                store_in_place(self.memory, &self.heap.layout, self.thread, entry);
            }
        }
        self.buffers.words.record = words;
        outcome
    }

    /// Logs what memory has where these words will be stored.
    fn save_old(&mut self, words: &Builder) -> Result<(), TxError> {
        for (from, to) in words.entries().flat_map(bytes_of) {
            let Buffers { saved, fresh, .. } = &mut *self.buffers;
            fresh.missing(from, to, |from, to| self.undo.note(self.memory, from, to));
            saved.add(from, to);
            if self.undo.noted() > RECORD_BYTES {
                self.save_noted()?;
            }
        }
        self.save_noted()
    }

    /// Restores old values in place, and ends the transaction of that number; takes no room.
    pub(super) fn put_back_in_place(&mut self, old: &Builder, number: u64) -> Result<(), TxError> {
        self.buffers.changed.clear();
        let rest;
        let old = if self.buffers.kept.is_empty() {
            old
        } else {
            rest = without(old, &self.buffers.kept);
            &rest
        };
        for entry in old.entries() {
            store_in_place(self.memory, &self.heap.layout, self.thread, entry);
            for (from, to) in bytes_of(entry) {
                self.buffers.changed.add_lines(from, to);
            }
        }
        self.make_durable();
        let mut end = Builder::default();
        end.clear();
        end.push_end(number);
        self.log.commit(self.memory, &mut end, Wait::Durable)
    }

    /// Makes the changed lines durable, and what was written past the caches.
    pub(super) fn make_durable(&self) {
        let lines = &self.buffers.changed;
        if lines.is_empty() && !self.buffers.direct {
            return;
        }
        if !self.heap.flaw.is(HeapFlaw::UnflushedStores) {
            for (from, to) in lines.iter() {
                self.memory.flush(from, to.bits() - from.bits());
            }
        }
        if !self.heap.flaw.is(HeapFlaw::EarlyEndMark) {
            self.memory.order();
        }
    }
}

/// What a record stores, but for these bytes.
fn without(old: &Builder, kept: &Ranges) -> Builder {
    let mut rest = Builder::default();
    rest.clear();
    let mut put = |word: Addr, mask: u8, value: u64| {
        let mut left = 0;
        for byte in (0..8).filter(|byte| mask >> byte & 1 == 1) {
            let at = word.plus(byte);
            left |= u8::from(!kept.overlaps(at, at.plus(1))) << byte;
        }
        if left != 0 {
            rest.push_bytes(word, left, value);
        }
    };
    for entry in old.entries() {
        match entry {
            Entry::Words(at, values) => {
                for (word, value) in (0..).zip(values) {
                    put(at.plus(8 * word), 0xff, u64::from_le_bytes(*value));
                }
            }
            Entry::Bytes(at, mask, value) => put(at, mask, value),
            _ => {}
        }
    }
    rest
}

/// The ranges of bytes that an entry stores.
fn bytes_of(entry: Entry<'_>) -> impl Iterator<Item = (Addr, Addr)> {
    let (at, mask, bytes) = match entry {
        Entry::Words(at, values) => (at, 1u16, 8 * values.len() as u64),
        Entry::Bytes(at, mask, _) => (at, mask.into(), 1),
        Entry::End(_) | Entry::Freed(..) | Entry::Before(_) | Entry::Elsewhere(..) => {
            (Addr::NULL, 0, 0)
        }
    };
    let places = (0..8).filter(move |byte| mask >> byte & 1 == 1);
    places.map(move |byte| (at.plus(byte), at.plus(byte + bytes)))
}
