//! What designs with persist buffers share: the buffer of a core, its epochs, and the filter of
//! what is buffered.
//!
//! A persist buffer sits beside the L1 and holds the stores of its thread to persistent memory in
//! their order ("An Analysis of Persistent Memory Use with WHISPER", ASPLOS'17, section 6.3). It
//! has as many versions of a line as epochs wrote it; only what leaves it writes persistent memory.
//! What may leave when is each design's business.

use crate::hw::Waiter;
use crate::values::LineData;
use crate::{Cycle, Epoch, LineId};
use std::collections::VecDeque;

/// An epoch of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) core: usize,
    pub(super) epoch: Epoch,
}

/// A store, or several of one epoch to one line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) slot: u8,
    pub(super) line: LineId,
    pub(super) epoch: Epoch,
    /// The line as the store left it.
    pub(super) data: LineData,
    pub(super) since: Cycle,
    /// It is on its way to memory.
    pub(super) is_sent: bool,
}

/// The persist buffer of a core, the oldest entry first.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub(super) entries: VecDeque<Entry>,
    free: Vec<u8>,
}

impl Buffer {
    /// A buffer of `size` entries, up to 255.
    pub(super) fn new(size: usize) -> Buffer {
        Buffer { entries: VecDeque::new(), free: (0..size as u8).rev().collect() }
    }

    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// The entry that a store of `epoch` to `line` can join.
    pub(super) fn joins(&self, line: LineId, epoch: Epoch) -> Option<usize> {
        let fits = |entry: &Entry| entry.line == line && entry.epoch == epoch && !entry.is_sent;
        self.entries.iter().rposition(fits)
    }

    /// Puts a store behind all others; there is room.
    pub(super) fn push(&mut self, line: LineId, epoch: Epoch, data: LineData, now: Cycle) {
        let slot = self.free.pop().expect("room");
        self.entries.push_back(Entry { slot, line, epoch, data, since: now, is_sent: false });
    }

    /// The entry in `slot`.
    pub(super) fn entry(&self, slot: u8) -> &Entry {
        self.entries.iter().find(|entry| entry.slot == slot).expect("it is here")
    }

    /// The entry in `slot`, to be changed.
    pub(super) fn entry_mut(&mut self, slot: u8) -> &mut Entry {
        self.entries.iter_mut().find(|entry| entry.slot == slot).expect("it is here")
    }

    /// The entry in `slot` leaves.
    pub(super) fn remove(&mut self, slot: u8) -> Entry {
        let at = self.entries.iter().position(|entry| entry.slot == slot).expect("it is here");
        self.free.push(slot);
        self.entries.remove(at).expect("it is here")
    }

    /// The oldest entry that has not been sent.
    pub(super) fn oldest_waiting(&self) -> Option<&Entry> {
        self.entries.iter().find(|entry| !entry.is_sent)
    }
}

/// An epoch that is not durable.
#[derive(Clone, Debug, Default)]
pub(super) struct EpochState {
    /// Entries that are not acknowledged.
    pub(super) left: u32,
    /// What has to be durable before.
    pub(super) depends_on: Option<Source>,
    /// What it wrote; a line may stand more than once.
    pub(super) lines: Vec<LineId>,
    /// The cores that are to be told when it is durable, a bit each.
    pub(super) dependents: u64,
    /// The controllers that are to be told, a bit each.
    pub(super) controllers: u8,
}

/// The epochs of a core: its timestamp, and what is in flight.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    /// All up to this one are durable; the states of the others follow.
    pub(super) durable: Epoch,
    states: VecDeque<EpochState>,
}

impl Timeline {
    pub(super) fn new() -> Timeline {
        Timeline { durable: 0, states: VecDeque::from([EpochState::default()]) }
    }

    /// The open epoch; the first is 1.
    pub(super) fn current(&self) -> Epoch {
        self.durable + self.states.len() as Epoch
    }

    /// How many epochs are not durable, the open one included.
    pub(super) fn in_flight(&self) -> usize {
        self.states.len()
    }

    pub(super) fn is_durable(&self, epoch: Epoch) -> bool {
        epoch <= self.durable
    }

    pub(super) fn state(&mut self, epoch: Epoch) -> &mut EpochState {
        let at = epoch - self.durable - 1;
        &mut self.states[at as usize]
    }

    pub(super) fn open(&mut self) -> &mut EpochState {
        self.states.back_mut().expect("one is open")
    }

    /// True while the open epoch wrote nothing and depends on nothing.
    pub(super) fn is_open_empty(&self) -> bool {
        let open = self.states.back().expect("one is open");
        open.lines.is_empty() && open.depends_on.is_none()
    }

    /// The newest epoch in flight that wrote a line of that kind.
    pub(super) fn newest_with(&self, mut is_it: impl FnMut(&LineId) -> bool) -> Option<Epoch> {
        let at = self.states.iter().rposition(|state| state.lines.iter().any(&mut is_it))?;
        Some(self.durable + 1 + at as Epoch)
    }

    /// Closes the open epoch and opens the next; gives the number of that which was closed.
    pub(super) fn close(&mut self) -> Epoch {
        self.states.push_back(EpochState::default());
        self.current() - 1
    }

    /// True if an epoch is closed and not durable.
    pub(super) fn is_any_closed(&self) -> bool {
        self.states.len() > 1
    }

    /// What the oldest epoch that is not durable depends on.
    pub(super) fn oldest_depends_on(&self) -> Option<Source> {
        self.states[0].depends_on
    }

    /// The oldest epoch, which is closed, is durable.
    pub(super) fn retire(&mut self) -> EpochState {
        self.durable += 1;
        self.states.pop_front().expect("it was in flight")
    }

    /// True if the open epoch is known to come after `source`: it depends on it or a later epoch of
    /// that core, or one before it in flight does.
    pub(super) fn follows(&self, source: Source) -> bool {
        let covers = |on: Source| on.core == source.core && on.epoch >= source.epoch;
        self.states.iter().any(|state| state.depends_on.is_some_and(covers))
    }

    /// The open epoch comes after `source` from now on: one that has begun is closed first.
    pub(super) fn depend(&mut self, source: Source) {
        if !self.is_open_empty() {
            self.close();
        }
        self.open().depends_on = Some(source);
    }

    /// `source` is durable, and what came before it: nothing depends on it any more.
    pub(super) fn resolve(&mut self, source: Source) {
        let is_over = |on: &Source| on.core == source.core && on.epoch <= source.epoch;
        for state in &mut self.states {
            state.depends_on = state.depends_on.filter(|on| !is_over(on));
        }
    }

    /// Forgets every dependence on `core`.
    pub(super) fn forget(&mut self, core: usize) {
        for state in &mut self.states {
            state.depends_on = state.depends_on.filter(|source| source.core != core);
        }
    }
}

/// A counting Bloom filter of the lines that are buffered for one controller: it never misses one,
/// and may name others.
#[derive(Clone, Debug)]
pub(super) struct Filter {
    counts: Vec<u16>,
    waiting: Vec<(LineId, Waiter)>,
}

/// Counters of a filter that a line has.
const HASHES: usize = 2;

impl Filter {
    /// A filter of `size` counters, a power of two.
    pub(super) fn new(size: usize) -> Filter {
        Filter { counts: vec![0; size], waiting: Vec::new() }
    }

    fn places(&self, line: LineId) -> [usize; HASHES] {
        let mixed = (u64::from(line) + 1).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mask = self.counts.len() - 1;
        [(mixed >> 24) as usize & mask, (mixed >> 44) as usize & mask]
    }

    pub(super) fn add(&mut self, line: LineId) {
        for place in self.places(line) {
            self.counts[place] += 1;
        }
    }

    pub(super) fn remove(&mut self, line: LineId) {
        for place in self.places(line) {
            self.counts[place] -= 1;
        }
    }

    pub(super) fn may_have(&self, line: LineId) -> bool {
        self.places(line).iter().all(|place| self.counts[*place] > 0)
    }

    /// True if `other` may keep the filter from letting `line` go.
    pub(super) fn shares(&self, line: LineId, other: LineId) -> bool {
        let places = self.places(other);
        self.places(line).iter().any(|place| places.contains(place))
    }

    /// True if `line`, which has just been added, may make a fetch of another wait for longer.
    pub(super) fn holds_up(&self, line: LineId) -> bool {
        self.waiting.iter().any(|(waits, _)| self.shares(*waits, line))
    }

    pub(super) fn wait(&mut self, line: LineId, who: Waiter) {
        self.waiting.push((line, who));
    }

    /// The lines that are waited for.
    pub(super) fn waiting(&self) -> impl Iterator<Item = LineId> {
        self.waiting.iter().map(|(line, _)| *line)
    }

    /// Those whose line is buffered no longer.
    pub(super) fn released(&mut self) -> Vec<Waiter> {
        let waiting = std::mem::take(&mut self.waiting);
        let (still, free): (Vec<_>, _) =
            waiting.into_iter().partition(|(line, _)| self.may_have(*line));
        self.waiting = still;
        free.into_iter().map(|(_, who)| who).collect()
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

    #[test]
    fn a_dependence_opens_a_new_epoch_unless_the_open_one_is_empty() {
        let mut line = Timeline::new();
        let source = |epoch| Source { core: 3, epoch };
        line.depend(source(5));
        assert_eq!(line.current(), 1);
        assert!(line.follows(source(4)) && line.follows(source(5)) && !line.follows(source(6)));
        line.depend(source(6));
        assert_eq!(line.current(), 2);
        line.retire();
        assert!(line.follows(source(6)));
        line.forget(3);
        assert!(!line.follows(source(1)) && line.is_open_empty());
    }

    #[test]
    fn what_depends_on_a_durable_epoch_or_an_older_one_is_free() {
        let mut line = Timeline::new();
        let source = |epoch| Source { core: 3, epoch };
        line.depend(source(5));
        line.depend(source(7));
        line.resolve(Source { core: 2, epoch: 9 });
        line.resolve(source(6));
        assert_eq!(line.oldest_depends_on(), None);
        assert!(line.follows(source(7)) && line.in_flight() == 2);
        line.resolve(source(7));
        assert!(!line.follows(source(1)) && line.is_open_empty());
    }

    #[test]
    fn a_filter_counts_so_that_lines_can_leave_and_never_misses_one() {
        let mut filter = Filter::new(64);
        for line in 0..100 {
            filter.add(line);
        }
        assert!((0..100).all(|line| filter.may_have(line)));
        for line in 0..99 {
            filter.remove(line);
        }
        assert!(filter.may_have(99));
        assert!((0..99).filter(|line| filter.may_have(*line)).count() < 10);
        filter.remove(99);
        assert!(!filter.may_have(99));
    }
}
