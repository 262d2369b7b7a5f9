//! The write-combining buffer of a core: where non-temporal stores wait to leave as whole lines.
//!
//! After "Logging in Persistent Memory: to Cache, or Not to Cache?" (MEMSYS'17), slides 11 to 13
//! and 17. Each of a few entries holds a line with a mask of the bytes written; a store joins the
//! entry of its line. An entry leaves when it is full, at a fence or a locked operation, when its
//! own core accesses the line in another way, and, if it is the oldest, when a store finds no free
//! entry. The entry is free again when the memory controller has accepted the line. If the machine
//! sets `combining_leave`, leaving takes that much longer than the path of a flushed line, as was
//! measured.
//!
//! On slide 13 a partial write takes one bus clock, the same as a full one. So every entry is one
//! message, one slot of the memory channel and one write of the device whatever its mask, which the
//! device applies (a masked write, as in DRAM without error correction). A memory that must read,
//! merge and write instead would make partial writes more expensive; by how much is unpublished.
//!
//! No core sees an entry before it leaves; an access by its own core first makes it leave. When the
//! entry leaves, the line is removed from all caches, and their dirty bytes are merged into the
//! write.

use crate::LineId;
use crate::caches::shared::NO_CORE;
use crate::core::Entry;
use crate::core::Waiter;
use crate::memory::versions::LineData;

/// The bits of a line that were written: a mask for each word.
pub(crate) type Masks = [u64; 8];

/// An entry that collects stores.
#[derive(Clone, Debug)]
pub(crate) struct OpenEntry {
    pub(crate) line: LineId,
    pub(crate) masks: Masks,
    pub(crate) data: LineData,
}

impl OpenEntry {
    pub(crate) fn is_full(&self) -> bool {
        self.masks.iter().fold(u64::MAX, |all, mask| all & mask) == u64::MAX
    }

    /// Copies the bytes written into `line`.
    pub(crate) fn lay_over(&self, line: &mut LineData) {
        for ((word, mask), value) in line.iter_mut().zip(self.masks).zip(self.data) {
            *word = *word & !mask | value & mask;
        }
    }
}

/// The buffer of one core.
#[derive(Clone, Debug)]
pub(crate) struct WriteCombiningBuffer {
    places: usize,
    /// The entries that collect stores, oldest first.
    open: Vec<OpenEntry>,
    /// The number of entries that have left and that no controller has accepted yet.
    pub(crate) leaving: usize,
    /// The number of non-temporal stores that are still in the store buffer.
    pub(crate) queued: usize,
    /// The waiter for a free entry, or for an empty buffer.
    pub(crate) waits: Option<Waiter>,
}

/// The core whose write-combining buffer sent a write, or none if it came from a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin(pub(crate) u8);

impl Origin {
    /// The origin of a write from a cache.
    pub(crate) const CACHE: Origin = Origin(NO_CORE);
}

impl WriteCombiningBuffer {
    pub(crate) fn new(places: usize) -> WriteCombiningBuffer {
        WriteCombiningBuffer { places, open: Vec::new(), leaving: 0, queued: 0, waits: None }
    }

    /// True while a non-temporal store of the core is not visible to other cores.
    #[inline]
    pub(crate) fn is_live(&self) -> bool {
        self.queued > 0 || !self.open.is_empty()
    }

    /// True while an entry collects stores.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// The number of the entry that collects stores to `line`.
    pub(crate) fn find(&self, line: LineId) -> Option<usize> {
        self.open.iter().position(|filling| filling.line == line)
    }

    /// True if a store to a new line finds a free entry.
    pub(crate) fn has_room(&self) -> bool {
        self.open.len() + self.leaving < self.places
    }

    /// The line of entry `number`, 0 being the oldest.
    pub(crate) fn line(&self, number: usize) -> Option<LineId> {
        self.open.get(number).map(|filling| filling.line)
    }

    /// Adds a store to the entry of its line; returns the entry's number if it is now full.
    pub(crate) fn join(&mut self, store: &Entry) -> Option<usize> {
        let number = self.find(store.line).unwrap_or_else(|| {
            self.open.push(OpenEntry { line: store.line, masks: [0; 8], data: [0; 8] });
            self.open.len() - 1
        });
        let filling = &mut self.open[number];
        let word = usize::from(store.word % 8);
        filling.data[word] = filling.data[word] & !store.mask | store.value & store.mask;
        filling.masks[word] |= store.mask;
        filling.is_full().then_some(number)
    }

    /// Removes entry `number`, which leaves.
    pub(crate) fn take(&mut self, number: usize) -> OpenEntry {
        self.leaving += 1;
        self.open.remove(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Kind;

    fn store(line: LineId, word: u8, mask: u64, value: u64) -> Entry {
        Entry { word, mask, value, ..Entry::mark(Kind::NonTemporal, line) }
    }

    #[test]
    fn stores_to_a_line_join_byte_by_byte_and_the_last_one_fills_it() {
        let mut buffer = WriteCombiningBuffer::new(2);
        for word in 0..7 {
            assert_eq!(buffer.join(&store(5, word, u64::MAX, 1 + u64::from(word))), None);
        }
        assert_eq!(buffer.join(&store(5, 7, 0xffff_ffff, 0xabcd)), None, "half a word is missing");
        assert_eq!(buffer.join(&store(9, 0, 0xff, 7)), None);
        assert!(!buffer.has_room());
        let full = buffer.join(&store(5, 7, !0xffff_ffff, 0x11 << 32));
        let filling = buffer.take(full.unwrap());
        assert_eq!((filling.data[0], filling.data[7]), (1, 0x11_0000_abcd));
        assert!(!buffer.has_room(), "its place is taken until the controller has it");
        let (mut line, filling) = ([u64::MAX; 8], buffer.take(0));
        filling.lay_over(&mut line);
        assert_eq!((line[0], line[1]), (u64::MAX << 8 | 7, u64::MAX));
    }
}
