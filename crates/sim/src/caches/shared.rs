//! The shared cache: the state of each line, the cores with copies, and the epoch that wrote it.
//!
//! One inclusive, banked last-level cache, whose tags are also the MESI directory, beside the
//! cores' [private caches](crate::caches::private). Both hold real values: a stale or lost copy
//! shows as a wrong value, in the program or after a crash. Both hold epoch tags (MICRO'15, section
//! 4.3); the design decides whether an epoch is still live. A machine without a shared cache has
//! the directory alone: a line is present as long as some core has a copy.

use crate::config::Machine;
use crate::memory::controller::spread;
use crate::memory::versions::Version;
use crate::{Cycle, Epoch, LineId};
use rustc_hash::FxHashSet;

/// Stands for no line.
pub(crate) const NO_LINE: LineId = LineId::MAX;
/// Stands for no core.
pub(crate) const NO_CORE: u8 = u8::MAX;

/// The index of `line` among a set's tags; compares four at a time, without branches in between.
#[inline]
pub(crate) fn position(tags: &[LineId], line: LineId) -> Option<usize> {
    let (mut rest, mut first) = (tags, 0);
    while let Some((chunk, more)) = rest.split_first_chunk::<4>() {
        let equal = |way: usize| u32::from(chunk[way] == line) << way;
        let found = equal(0) | equal(1) | equal(2) | equal(3);
        if found != 0 {
            return Some(first + found.trailing_zeros() as usize);
        }
        (rest, first) = (more, first + 4);
    }
    rest.iter().position(|tag| *tag == line).map(|way| first + way)
}

/// A line of the last-level cache. Its state is stored by line number, as its data are, because
/// neighbouring lines are used together; the sets only record which lines are present.
pub(crate) type Slot = LineId;

/// One line of the last-level cache, with its directory entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Cores that have a copy, a bit each.
    pub(crate) sharers: u64,
    /// When the fill of the line is complete.
    pub(crate) ready: Cycle,
    /// Epoch of `writer` that wrote this version; 0 if it has not been written since its fill.
    pub(crate) epoch: Epoch,
    /// The value in memory, if it differs from the shared value.
    pub(crate) memory: Version,
    /// When it was last used; 0 if it is not present.
    used: u32,
    /// The core with write permission, or [`NO_CORE`].
    pub(crate) owner: u8,
    /// The owner's place for the line ([`Private::place`]).
    ///
    /// [`Private::place`]: crate::caches::private::Private::place
    pub(crate) owner_way: u8,
    /// The core whose epoch wrote this version.
    pub(crate) writer: u8,
    /// Whether it is newer than memory's value.
    pub(crate) dirty: bool,
}

const ABSENT: Entry = Entry {
    sharers: 0,
    ready: 0,
    epoch: 0,
    memory: Version::NONE,
    used: 0,
    owner: NO_CORE,
    owner_way: 0,
    writer: NO_CORE,
    dirty: false,
};

/// A way of a set of the last-level cache.
pub(crate) type Place = usize;

/// The shared last-level cache, all banks.
pub(crate) struct Llc {
    residents: Vec<LineId>,
    /// By line; those of lines in a second part of memory are in `second`.
    entries: Vec<Entry>,
    second: Vec<Entry>,
    /// The first line of that part.
    second_from: LineId,
    /// Dirty lines in this cache with their pending bit, as in
    /// [`LineCopy::relocated`](crate::caches::private::LineCopy::relocated); few at a time.
    pub(crate) relocated: FxHashSet<LineId>,
    ways: usize,
    set_mask: usize,
    bank_mask: usize,
    sets: usize,
    clock: u32,
}

impl Llc {
    /// An empty cache for a memory of `lines` lines.
    pub(crate) fn new(machine: &Machine, lines: LineId) -> Llc {
        let (sets, ways, banks) = (machine.llc_sets(), machine.llc.ways, machine.llc.banks);
        Llc {
            residents: vec![NO_LINE; sets * ways * banks],
            entries: vec![ABSENT; lines as usize],
            second: Vec::new(),
            second_from: LineId::MAX,
            relocated: FxHashSet::default(),
            ways,
            set_mask: sets - 1,
            bank_mask: banks - 1,
            sets,
            clock: 0,
        }
    }

    /// An empty cache for a memory without lines, whose two parts
    /// [grow](Llc::grow); the second begins with line `second_from`.
    pub(crate) fn in_parts(machine: &Machine, second_from: LineId) -> Llc {
        Llc { second_from, ..Llc::new(machine, 0) }
    }

    /// The parts of memory have their lines up to these now.
    pub(crate) fn grow(&mut self, first_end: LineId, second_end: LineId) {
        self.entries.resize(first_end as usize, ABSENT);
        self.second.resize((second_end - self.second_from) as usize, ABSENT);
    }

    /// The bank that a line belongs to.
    #[inline]
    pub(crate) fn bank(&self, line: LineId) -> usize {
        (spread(line) >> 16) as usize & self.bank_mask
    }

    /// The set of a line within its bank.
    #[inline]
    pub(crate) fn set(&self, line: LineId) -> usize {
        (spread(line) >> 24) as usize & self.set_mask
    }

    fn places(&self, line: LineId) -> std::ops::Range<Place> {
        let first = (self.bank(line) * self.sets + self.set(line)) * self.ways;
        first..first + self.ways
    }

    /// The slot of the line, if it is present.
    #[inline]
    pub(crate) fn find(&self, line: LineId) -> Option<Slot> {
        (self.entry(line).used != 0).then_some(line)
    }

    /// Updates the replacement state.
    #[inline]
    pub(crate) fn touch(&mut self, slot: Slot) {
        self.clock += 1;
        self.entry_mut(slot).used = self.clock;
    }

    #[inline]
    pub(crate) fn entry(&self, slot: Slot) -> &Entry {
        match self.entries.get(slot as usize) {
            Some(entry) => entry,
            None => self.in_second(slot),
        }
    }

    #[inline]
    pub(crate) fn entry_mut(&mut self, slot: Slot) -> &mut Entry {
        if (slot as usize) < self.entries.len() {
            return &mut self.entries[slot as usize];
        }
        self.in_second_mut(slot)
    }

    #[cold]
    #[inline(never)]
    fn in_second(&self, slot: Slot) -> &Entry {
        &self.second[(slot - self.second_from) as usize]
    }

    #[cold]
    #[inline(never)]
    fn in_second_mut(&mut self, slot: Slot) -> &mut Entry {
        &mut self.second[(slot - self.second_from) as usize]
    }

    /// The best place for `line`, and the victim in it: none, or the least recently used line.
    pub(crate) fn victim(&self, line: LineId) -> (Place, Option<Slot>) {
        let places = self.places(line);
        let set = &self.residents[places.clone()];
        if let Some(free) = position(set, NO_LINE) {
            return (places.start + free, None);
        }
        let age = |way: &usize| self.entry(set[*way]).used;
        let way = (0..self.ways).min_by_key(age).expect("a set has ways");
        (places.start + way, Some(set[way]))
    }

    /// Fills an empty `place` with a clean line without sharers.
    pub(crate) fn fill(&mut self, place: Place, line: LineId, ready: Cycle) {
        self.clock += 1;
        self.residents[place] = line;
        *self.entry_mut(line) = Entry { ready, used: self.clock, ..ABSENT };
    }

    /// Removes the line.
    pub(crate) fn invalidate(&mut self, slot: Slot) {
        let places = self.places(slot);
        let way = position(&self.residents[places.clone()], slot).expect("a present line");
        self.residents[places.start + way] = NO_LINE;
        self.entry_mut(slot).used = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_lines_spread_over_all_banks_and_controllers() {
        let machine = Machine::load("micro15").unwrap();
        let llc = Llc::new(&machine, 0);
        let mut seen = [0; 32];
        (0..3200).for_each(|line| seen[llc.bank(line)] += 1);
        assert!(seen.iter().all(|count| (60..140).contains(count)), "{seen:?}");
    }
}
