//! A persist buffer: the stores of a thread to persistent memory in order.
//!
//! It holds a version of a line for each epoch that wrote it ("An Analysis of Persistent Memory Use
//! with WHISPER", ASPLOS'17, section 6.3); persistent memory is written from this buffer only.

use crate::memory::versions::LineData;
use crate::{Cycle, Epoch, LineId};
use std::collections::VecDeque;

/// A store, or several of one epoch to one line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) slot: u8,
    pub(crate) line: LineId,
    pub(crate) epoch: Epoch,
    /// The line after the store.
    pub(crate) data: LineData,
    pub(crate) since: Cycle,
    /// Whether it is on its way to memory.
    pub(crate) is_sent: bool,
}

/// The persist buffer of a core, the oldest entry first.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    pub(crate) entries: VecDeque<Entry>,
    free: Vec<u8>,
}

impl Buffer {
    /// A buffer of `size` entries, up to 255.
    pub(crate) fn new(size: usize) -> Buffer {
        Buffer { entries: VecDeque::new(), free: (0..size as u8).rev().collect() }
    }

    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// The entry that a store of `epoch` to `line` can join.
    pub(crate) fn joins(&self, line: LineId, epoch: Epoch) -> Option<usize> {
        let fits = |entry: &Entry| entry.line == line && entry.epoch == epoch && !entry.is_sent;
        self.entries.iter().rposition(fits)
    }

    /// Appends a store; the buffer has room.
    pub(crate) fn push(&mut self, line: LineId, epoch: Epoch, data: LineData, now: Cycle) {
        let slot = self.free.pop().expect("room");
        self.entries.push_back(Entry { slot, line, epoch, data, since: now, is_sent: false });
    }

    /// The entry in `slot`.
    pub(crate) fn entry(&self, slot: u8) -> &Entry {
        self.entries.iter().find(|entry| entry.slot == slot).expect("it is here")
    }

    /// The entry in `slot`, mutably.
    pub(crate) fn entry_mut(&mut self, slot: u8) -> &mut Entry {
        self.entries.iter_mut().find(|entry| entry.slot == slot).expect("it is here")
    }

    /// Removes the entry in `slot`.
    pub(crate) fn remove(&mut self, slot: u8) -> Entry {
        let at = self.entries.iter().position(|entry| entry.slot == slot).expect("it is here");
        self.free.push(slot);
        self.entries.remove(at).expect("it is here")
    }

    /// The number of entries that have not been sent.
    pub(crate) fn waiting(&self) -> usize {
        self.entries.iter().filter(|entry| !entry.is_sent).count()
    }

    /// The oldest entry that has not been sent.
    pub(crate) fn oldest_waiting(&self) -> Option<&Entry> {
        self.entries.iter().find(|entry| !entry.is_sent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_keeps_a_version_of_a_line_for_each_epoch_and_joins_stores_of_one() {
        let mut buffer = Buffer::new(2);
        buffer.push(7, 1, [1; 8], 0);
        assert_eq!(buffer.joins(7, 1), Some(0));
        assert_eq!(buffer.joins(7, 2), None);
        buffer.push(7, 2, [2; 8], 0);
        assert!(!buffer.has_room());
        let first = buffer.entries[0].slot;
        buffer.entries[0].is_sent = true;
        assert_eq!(buffer.joins(7, 1), None, "it is on its way");
        assert_eq!(buffer.oldest_waiting().unwrap().epoch, 2);
        assert_eq!(buffer.remove(first).data, [1; 8]);
        assert!(buffer.has_room());
    }
}
