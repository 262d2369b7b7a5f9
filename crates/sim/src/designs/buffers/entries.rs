//! A persist buffer: the stores of a thread to persistent memory in their order.
//!
//! It has as many versions of a line as epochs wrote it ("An Analysis of Persistent Memory Use with
//! WHISPER", ASPLOS'17, section 6.3); only what leaves it writes persistent memory.

use crate::values::LineData;
use crate::{Cycle, Epoch, LineId};
use std::collections::VecDeque;

/// A store, or several of one epoch to one line.
#[derive(Clone, Copy, Debug)]
pub(in crate::designs) struct Entry {
    pub(in crate::designs) slot: u8,
    pub(in crate::designs) line: LineId,
    pub(in crate::designs) epoch: Epoch,
    /// The line as the store left it.
    pub(in crate::designs) data: LineData,
    pub(in crate::designs) since: Cycle,
    /// It is on its way to memory.
    pub(in crate::designs) is_sent: bool,
}

/// The persist buffer of a core, the oldest entry first.
#[derive(Clone, Debug)]
pub(in crate::designs) struct Buffer {
    pub(in crate::designs) entries: VecDeque<Entry>,
    free: Vec<u8>,
}

impl Buffer {
    /// A buffer of `size` entries, up to 255.
    pub(in crate::designs) fn new(size: usize) -> Buffer {
        Buffer { entries: VecDeque::new(), free: (0..size as u8).rev().collect() }
    }

    pub(in crate::designs) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// The entry that a store of `epoch` to `line` can join.
    pub(in crate::designs) fn joins(&self, line: LineId, epoch: Epoch) -> Option<usize> {
        let fits = |entry: &Entry| entry.line == line && entry.epoch == epoch && !entry.is_sent;
        self.entries.iter().rposition(fits)
    }

    /// Puts a store behind all others; there is room.
    pub(in crate::designs) fn push(
        &mut self,
        line: LineId,
        epoch: Epoch,
        data: LineData,
        now: Cycle,
    ) {
        let slot = self.free.pop().expect("room");
        self.entries.push_back(Entry { slot, line, epoch, data, since: now, is_sent: false });
    }

    /// The entry in `slot`.
    pub(in crate::designs) fn entry(&self, slot: u8) -> &Entry {
        self.entries.iter().find(|entry| entry.slot == slot).expect("it is here")
    }

    /// The entry in `slot`, to be changed.
    pub(in crate::designs) fn entry_mut(&mut self, slot: u8) -> &mut Entry {
        self.entries.iter_mut().find(|entry| entry.slot == slot).expect("it is here")
    }

    /// The entry in `slot` leaves.
    pub(in crate::designs) fn remove(&mut self, slot: u8) -> Entry {
        let at = self.entries.iter().position(|entry| entry.slot == slot).expect("it is here");
        self.free.push(slot);
        self.entries.remove(at).expect("it is here")
    }

    /// How many entries have not been sent.
    pub(in crate::designs) fn waiting(&self) -> usize {
        self.entries.iter().filter(|entry| !entry.is_sent).count()
    }

    /// The oldest entry that has not been sent.
    pub(in crate::designs) fn oldest_waiting(&self) -> Option<&Entry> {
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
