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
    pub(crate) since: Cycle,
    /// Whether it is on its way to memory.
    pub(crate) is_sent: bool,
}

/// The persist buffer of a core, the oldest entry first.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    entries: VecDeque<Entry>,
    /// The lines after the stores, by slot: apart, because entries are searched all the time.
    data: Vec<LineData>,
    free: Vec<u8>,
    /// How many entries have not been sent.
    waiting: usize,
}

impl Buffer {
    /// A buffer of `size` entries, up to 255.
    pub(crate) fn new(size: usize) -> Buffer {
        let free = (0..size as u8).rev().collect();
        Buffer { entries: VecDeque::new(), data: vec![[0; 8]; size], free, waiting: 0 }
    }

    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// The entries, the oldest first: their epochs ascend.
    pub(crate) fn entries(&self) -> &VecDeque<Entry> {
        &self.entries
    }

    /// The slot of the entry that a store of `epoch`, the newest, to `line` can join.
    pub(crate) fn joins(&self, line: LineId, epoch: Epoch) -> Option<u8> {
        if self.waiting == 0 {
            return None;
        }
        let mut newest = self.entries.iter().rev().take_while(|entry| entry.epoch == epoch);
        newest.find(|entry| entry.line == line && !entry.is_sent).map(|entry| entry.slot)
    }

    /// Appends a store; the buffer has room.
    pub(crate) fn push(&mut self, line: LineId, epoch: Epoch, data: LineData, now: Cycle) {
        let slot = self.free.pop().expect("room");
        self.entries.push_back(Entry { slot, line, epoch, since: now, is_sent: false });
        self.data[usize::from(slot)] = data;
        self.waiting += 1;
    }

    /// The line of the entry in `slot`, after its store.
    pub(crate) fn data(&self, slot: u8) -> &LineData {
        &self.data[usize::from(slot)]
    }

    /// A store joins the entry in `slot`: its line is the one after that store.
    pub(crate) fn join(&mut self, slot: u8, data: LineData) {
        self.data[usize::from(slot)] = data;
    }

    /// The entry in `slot`.
    pub(crate) fn entry(&self, slot: u8) -> &Entry {
        self.entries.iter().find(|entry| entry.slot == slot).expect("it is here")
    }

    fn place(&self, slot: u8) -> usize {
        self.entries.iter().position(|entry| entry.slot == slot).expect("it is here")
    }

    /// The entry at `place` is on its way.
    pub(crate) fn send(&mut self, place: usize) {
        let is_sent = std::mem::replace(&mut self.entries[place].is_sent, true);
        self.waiting -= usize::from(!is_sent);
    }

    /// The entry in `slot` is on its way.
    pub(crate) fn send_slot(&mut self, slot: u8) -> Entry {
        let place = self.place(slot);
        self.send(place);
        self.entries[place]
    }

    /// The entry in `slot`, which was sent, has to be sent again.
    pub(crate) fn take_back(&mut self, slot: u8) {
        let place = self.place(slot);
        self.waiting += usize::from(std::mem::take(&mut self.entries[place].is_sent));
    }

    /// Removes the entry in `slot`.
    pub(crate) fn remove(&mut self, slot: u8) -> Entry {
        let place = self.place(slot);
        self.free.push(slot);
        let entry = self.entries.remove(place).expect("it is here");
        self.waiting -= usize::from(!entry.is_sent);
        entry
    }

    /// The number of entries that have not been sent.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// The oldest entry that has not been sent.
    pub(crate) fn oldest_waiting(&self) -> Option<&Entry> {
        if self.waiting == 0 { None } else { self.entries.iter().find(|entry| !entry.is_sent) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_keeps_a_version_of_a_line_for_each_epoch_and_joins_stores_of_one() {
        let mut buffer = Buffer::new(2);
        buffer.push(7, 1, [1; 8], 0);
        let first = buffer.entries()[0].slot;
        assert_eq!(buffer.joins(7, 1), Some(first));
        assert_eq!(buffer.joins(7, 2), None);
        buffer.push(7, 2, [2; 8], 0);
        assert!(!buffer.has_room());
        assert_eq!((buffer.data(first), buffer.waiting()), (&[1; 8], 2));
        buffer.send(0);
        assert_eq!(buffer.joins(7, 1), None, "it is on its way");
        assert_eq!((buffer.oldest_waiting().unwrap().epoch, buffer.waiting()), (2, 1));
        buffer.take_back(first);
        assert_eq!((buffer.oldest_waiting().unwrap().epoch, buffer.waiting()), (1, 2));
        assert_eq!(buffer.send_slot(first).line, 7);
        assert_eq!(buffer.remove(first).slot, first);
        assert!(buffer.has_room() && buffer.waiting() == 1);
    }
}
