//! The buffers of a transaction, in DRAM: what it has changed so far.

use super::index::{Found, Index};
use super::ranges::Ranges;
use super::record::{Builder, spread};
use crate::alloc::block::Block;
use seawall_memory::{Addr, Memory, MemoryExt};

/// Words that are to be written, with an index by which the transaction finds them again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    pub(crate) record: Builder,
    pub(crate) places: Index,
    /// What nested transactions overwrote in the record: place, value, mask of bytes.
    over: Vec<(usize, u64, u8)>,
}

/// The state to which a failed nested transaction returns.
#[derive(Clone, Copy, Debug)]
pub(super) struct NotesMark {
    len: usize,
    over: usize,
}

impl Notes {
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.record.clear();
        self.places.clear();
        self.over.clear();
    }

    pub(super) fn mark(&mut self) -> NotesMark {
        self.record.close();
        NotesMark { len: self.record.len(), over: self.over.len() }
    }

    pub(super) fn return_to(&mut self, mark: NotesMark) {
        for (place, value, mask) in self.over.drain(mark.over..).rev() {
            self.record.restore(place, value, mask);
        }
        self.record.truncate(mark.len);
        self.places.clear();
        self.record.index(&mut self.places);
    }

    /// The word as it will be, with what `memory` has where nothing is noted.
    #[inline]
    #[track_caller]
    pub(super) fn load<M: Memory>(&self, memory: &M, word: Addr) -> u64 {
        match self.places.find(word) {
            None => memory.load(word),
            Some(Found::Word(place)) => self.record.word(place),
            Some(Found::Bytes(place)) => {
                let bits = spread(self.record.mask(place));
                let below: u64 = memory.load(word);
                below & !bits | self.record.word(place) & bits
            }
        }
    }

    /// Adds bytes of a word; what they replace is kept if a nested transaction adds them.
    #[inline]
    pub(super) fn put(&mut self, word: Addr, mask: u8, value: u64, is_nested: bool) {
        let Notes { record, places, over } = self;
        let place = places.place(word);
        let found = place.found();
        if let Some(Found::Word(at) | Found::Bytes(at)) = found
            && is_nested
        {
            let is_part = matches!(found, Some(Found::Bytes(_)));
            let mask = if is_part { record.mask(at) } else { 0 };
            over.push((at, record.word(at), mask));
        }
        match found {
            Some(Found::Word(at)) => {
                let bits = spread(mask);
                record.set_word(at, record.word(at) & !bits | value & bits);
            }
            Some(Found::Bytes(at)) if mask != 0xff => record.widen(at, mask, value),
            _ if mask == 0xff => place.set(Found::Word(record.push_word(word, value))),
            _ => place.set(Found::Bytes(record.push_bytes(word, mask, value))),
        }
    }
}

/// The buffers of a transaction; a session reuses them for its next one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffers {
    /// New values of the program's words, and, in pools that store them by the log, the changes of
    /// the allocator.
    pub(crate) words: Notes,
    /// The changes of the allocator, in pools whose programs store in place.
    pub(crate) own: Notes,
    /// Bytes whose old values are logged, or that no other thread can see.
    pub(crate) saved: Ranges,
    pub(crate) taken: Vec<Block>,
    pub(crate) freed: Vec<Block>,
    /// Undo, and pools whose programs store in place: the bytes of the blocks that were taken.
    pub(crate) fresh: Ranges,
    /// The starts of blocks that the program flushes, in pools whose programs store in place.
    pub(crate) bare: Vec<Addr>,
    /// The starts of reservations that end with the transaction: those that it publishes, and of
    /// blocks that it has taken in chunks that it gave up since.
    pub(crate) published: Vec<Addr>,
    /// The number of blocks taken when it last gave up chunks.
    pub(crate) noted: usize,
    /// Undo: what nested transactions overwrote in place.
    pub(super) was: Vec<(Addr, Vec<u8>)>,
    pub(super) depth: u32,
    /// The number of blocks that were taken when the innermost nested transaction began.
    pub(super) outer: usize,
    /// What an abort leaves as it is.
    pub(super) kept: Ranges,
    /// Lines that a commit in place flushes.
    pub(super) changed: Ranges,
    /// Whether something was written past the log, which must be durable before the record.
    pub(crate) direct: bool,
}

impl Buffers {
    /// Whether the transaction has changed nothing: then they are as [`clear`](Buffers::clear)
    /// leaves them.
    #[inline]
    pub(crate) fn is_clean(&self) -> bool {
        self.own.record.is_empty()
            && self.words.record.is_empty()
            && self.saved.is_empty()
            && self.taken.is_empty()
            && self.kept.is_empty()
            && !self.direct
    }

    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.own.clear();
        self.saved.clear();
        self.fresh.clear();
        self.taken.clear();
        self.freed.clear();
        self.bare.clear();
        self.kept.clear();
        self.published.clear();
        self.noted = 0;
        self.was.clear();
        self.depth = 0;
        self.outer = 0;
        self.direct = false;
    }
}
