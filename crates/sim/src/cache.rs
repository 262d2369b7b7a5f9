//! The caches: what each line's copy holds, who may write it, and which epoch wrote it.
//!
//! Private L1 caches and one shared, inclusive, banked last-level cache whose tags are also the
//! MESI directory. Both keep real values: a stale or lost copy shows as a wrong value, in the
//! program or after a crash. Epoch tags (MICRO'15, section 4.3) stand in both; whether an epoch is
//! still live is the design's business.

use crate::config::Machine;
use crate::controller::spread;
use crate::counters::Reason;
use crate::values::Version;
use crate::{Cycle, Epoch, LineId};

/// No line.
pub(crate) const NO_LINE: LineId = LineId::MAX;
/// No core.
pub(crate) const NO_CORE: u8 = u8::MAX;

/// Which of a set's tags is `line`; looks at four at a time, without branches in between.
#[inline]
fn position(tags: &[LineId], line: LineId) -> Option<usize> {
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

/// What a copy in an L1 may be used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Read only; other copies may exist.
    Shared,
    /// The only L1 copy; may be written without asking.
    Exclusive,
}

/// A line's place in one L1: set times ways plus way.
pub(crate) type Way = usize;

/// One copy in an L1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy1 {
    /// Whether it may be written.
    pub(crate) state: State,
    /// What it holds, if that is newer than what the shared cache has.
    pub(crate) version: Version,
    /// The owner's epoch that wrote it, 0 if it was not written since it came.
    pub(crate) epoch: Epoch,
    /// When the fill that brought it is complete.
    pub(crate) ready: Cycle,
    /// Who answered that fill, as a reason for waiting on it.
    pub(crate) source: Reason,
    used: u32,
}

impl Copy1 {
    /// Newer than the shared cache's.
    #[inline]
    pub(crate) fn is_dirty(&self) -> bool {
        self.version.is_some()
    }
}

/// A private first-level cache.
pub(crate) struct L1 {
    tags: Vec<LineId>,
    copies: Vec<Copy1>,
    ways: usize,
    set_mask: usize,
    clock: u32,
}

impl L1 {
    pub(crate) fn new(machine: &Machine) -> L1 {
        let (sets, ways) = (machine.l1_sets(), machine.l1.ways);
        let empty = Copy1 {
            state: State::Shared,
            version: Version::NONE,
            epoch: 0,
            ready: 0,
            source: Reason::LoadLlc,
            used: 0,
        };
        L1 {
            tags: vec![NO_LINE; sets * ways],
            copies: vec![empty; sets * ways],
            ways,
            set_mask: sets - 1,
            clock: 0,
        }
    }

    /// The first way of the set that `line` belongs to.
    #[inline]
    pub(crate) fn first_way(&self, line: LineId) -> Way {
        (line as usize & self.set_mask) * self.ways
    }

    /// Where the line is, if it is here.
    #[inline]
    pub(crate) fn find(&self, line: LineId) -> Option<Way> {
        let first = self.first_way(line);
        position(&self.tags[first..first + self.ways], line).map(|way| first + way)
    }

    /// As [`find`](L1::find), and counts as a use for replacement.
    #[inline]
    pub(crate) fn touch(&mut self, line: LineId) -> Option<Way> {
        let way = self.find(line)?;
        self.clock += 1;
        self.copies[way].used = self.clock;
        Some(way)
    }

    #[inline]
    pub(crate) fn line(&self, way: Way) -> LineId {
        self.tags[way]
    }

    #[inline]
    pub(crate) fn copy(&self, way: Way) -> &Copy1 {
        &self.copies[way]
    }

    #[inline]
    pub(crate) fn copy_mut(&mut self, way: Way) -> &mut Copy1 {
        &mut self.copies[way]
    }

    /// The ways that `line` could go into, the best victim first: free, then least recently used.
    pub(crate) fn victims(&self, line: LineId) -> impl Iterator<Item = (Way, LineId)> + use<> {
        let first = self.first_way(line);
        let mut order: Vec<(u32, Way)> = (first..first + self.ways)
            .map(|way| (if self.tags[way] == NO_LINE { 0 } else { self.copies[way].used }, way))
            .collect();
        order.sort_unstable();
        let tags: Vec<LineId> = order.iter().map(|(_, way)| self.tags[*way]).collect();
        order.into_iter().zip(tags).map(|((_, way), tag)| (way, tag))
    }

    /// The best victim for `line`: a free way, or the least recently used.
    #[inline]
    pub(crate) fn victim(&self, line: LineId) -> (Way, LineId) {
        let first = self.first_way(line);
        let mut best = (u32::MAX, first);
        for way in first..first + self.ways {
            if self.tags[way] == NO_LINE {
                return (way, NO_LINE);
            }
            if self.copies[way].used < best.0 {
                best = (self.copies[way].used, way);
            }
        }
        (best.1, self.tags[best.1])
    }

    /// Puts a clean copy of `line` into `way`.
    pub(crate) fn fill(
        &mut self,
        way: Way,
        line: LineId,
        state: State,
        (ready, source): (Cycle, Reason),
    ) {
        self.clock += 1;
        self.tags[way] = line;
        let used = self.clock;
        let version = Version::NONE;
        self.copies[way] = Copy1 { state, version, epoch: 0, ready, source, used };
    }

    /// Forgets the copy, which is clean.
    pub(crate) fn invalidate(&mut self, way: Way) {
        debug_assert!(!self.copies[way].is_dirty(), "dirty data is never dropped");
        self.tags[way] = NO_LINE;
        self.copies[way].epoch = 0;
    }

    /// Every dirty line with its data.
    pub(crate) fn dirty(&self) -> impl Iterator<Item = (LineId, Version)> {
        let copies = self.tags.iter().zip(&self.copies);
        copies.filter(|(_, copy)| copy.is_dirty()).map(|(line, copy)| (*line, copy.version))
    }
}

/// A line of the last-level cache: its state stands by line number, as its data does, since
/// neighbouring lines are used together; sets only say which lines are here.
pub(crate) type Slot = LineId;

/// One line of the last-level cache, with its directory entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// L1 caches that have a copy, a bit each.
    pub(crate) sharers: u64,
    /// When the fill that brought the line is complete.
    pub(crate) ready: Cycle,
    /// Epoch of `writer` that wrote this version, 0 if none did since it came from memory.
    pub(crate) epoch: Epoch,
    /// What memory holds, if that is not the shared value.
    pub(crate) memory: Version,
    /// When it was used last; 0 if it is not here.
    used: u32,
    /// The L1 that may write, or [`NO_CORE`].
    pub(crate) owner: u8,
    /// Where in its set the owner has the line.
    pub(crate) owner_way: u8,
    /// The core whose epoch wrote this version.
    pub(crate) writer: u8,
    /// Newer than memory's.
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
    entries: Vec<Entry>,
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
            ways,
            set_mask: sets - 1,
            bank_mask: banks - 1,
            sets,
            clock: 0,
        }
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

    /// Where the line is, if it is here.
    #[inline]
    pub(crate) fn find(&self, line: LineId) -> Option<Slot> {
        (self.entries[line as usize].used != 0).then_some(line)
    }

    /// Counts as a use for replacement.
    #[inline]
    pub(crate) fn touch(&mut self, slot: Slot) {
        self.clock += 1;
        self.entries[slot as usize].used = self.clock;
    }

    #[inline]
    pub(crate) fn entry(&self, slot: Slot) -> &Entry {
        &self.entries[slot as usize]
    }

    #[inline]
    pub(crate) fn entry_mut(&mut self, slot: Slot) -> &mut Entry {
        &mut self.entries[slot as usize]
    }

    /// The best place for `line`, and what is there now: nothing, or the least recently used.
    pub(crate) fn victim(&self, line: LineId) -> (Place, Option<Slot>) {
        let places = self.places(line);
        let set = &self.residents[places.clone()];
        if let Some(free) = position(set, NO_LINE) {
            return (places.start + free, None);
        }
        let age = |way: &usize| self.entries[set[*way] as usize].used;
        let way = (0..self.ways).min_by_key(age).expect("a set has ways");
        (places.start + way, Some(set[way]))
    }

    /// Puts a clean line that nobody shares into an empty `place`.
    pub(crate) fn fill(&mut self, place: Place, line: LineId, ready: Cycle) {
        self.clock += 1;
        self.residents[place] = line;
        self.entries[line as usize] = Entry { ready, used: self.clock, ..ABSENT };
    }

    /// Forgets the line.
    pub(crate) fn invalidate(&mut self, slot: Slot) {
        let places = self.places(slot);
        let way = position(&self.residents[places.clone()], slot).expect("a present line");
        self.residents[places.start + way] = NO_LINE;
        self.entries[slot as usize].used = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_way_is_the_victim_once_all_are_taken() {
        let machine = Machine::load("micro15").unwrap();
        let mut l1 = L1::new(&machine);
        let same_set: Vec<LineId> = (0..5).map(|at| at * 128).collect();
        for line in &same_set[..4] {
            let (way, tag) = l1.victim(*line);
            assert_eq!(tag, NO_LINE);
            l1.fill(way, *line, State::Shared, (0, Reason::LoadLlc));
        }
        l1.touch(same_set[0]);
        assert_eq!(l1.victim(same_set[4]).1, same_set[1]);
        let order: Vec<LineId> = l1.victims(same_set[4]).map(|(_, line)| line).collect();
        assert_eq!(order, [same_set[1], same_set[2], same_set[3], same_set[0]]);
        l1.invalidate(l1.find(same_set[2]).unwrap());
        assert_eq!(l1.victim(same_set[4]).1, NO_LINE);
    }

    #[test]
    fn neighbouring_lines_spread_over_all_banks_and_controllers() {
        let machine = Machine::load("micro15").unwrap();
        let llc = Llc::new(&machine, 0);
        let mut seen = [0; 32];
        (0..3200).for_each(|line| seen[llc.bank(line)] += 1);
        assert!(seen.iter().all(|count| (60..140).contains(count)), "{seen:?}");
    }
}
