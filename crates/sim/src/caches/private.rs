//! A core's private caches: the first level and, if the machine has one, a second.
//!
//! The second level is exclusive of the first (ASPLOS'17, Table 3): victims of the first go into
//! it, and lines that the core uses again come back. The directory sees both as one. So the place
//! of a copy is one number, which encodes the level too.

use crate::caches::shared::{NO_LINE, position};
use crate::config::Machine;
use crate::engine::counters::Reason;
use crate::memory::versions::Version;
use crate::{Cycle, Epoch, LineId};
use std::ops::Range;

/// The permission of a core's copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Read only; other copies may exist.
    Shared,
    /// No other core has a copy; the core can write without a request.
    Exclusive,
}

/// The place of a copy in a core's private caches: set times ways plus way; the second level is
/// numbered behind all of the first.
pub(crate) type Way = usize;

/// A core's copy of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineCopy {
    /// The permission to write it.
    pub(crate) state: State,
    /// Its data, if newer than those of the shared cache.
    pub(crate) version: Version,
    /// The owner's epoch that wrote it; 0 if it has not been written since it was filled.
    pub(crate) epoch: Epoch,
    /// When the fill of the copy is complete.
    pub(crate) ready: Cycle,
    /// The source of that fill, as a reason for waiting.
    pub(crate) source: Reason,
    /// Whether it is dirty and has bytes of a relocated copy that are not on their way to memory
    /// yet: the pending bit of FFCCD.
    pub(crate) relocated: bool,
    used: u32,
}

const ABSENT: LineCopy = LineCopy {
    state: State::Shared,
    version: Version::NONE,
    epoch: 0,
    ready: 0,
    source: Reason::LoadLlc,
    relocated: false,
    used: 0,
};

impl LineCopy {
    /// Whether it is newer than the shared cache's.
    #[inline]
    pub(crate) fn is_dirty(&self) -> bool {
        self.version.is_some()
    }
}

/// The shape of a level, and its first way.
#[derive(Clone, Copy)]
struct Level {
    start: Way,
    ways: usize,
    set_mask: usize,
    /// The latency from a request of the core to the answer of this level, including the levels
    /// above.
    latency: Cycle,
}

impl Level {
    /// The ways of the set that `line` belongs to.
    #[inline]
    fn set(&self, line: LineId) -> Range<Way> {
        let first = self.start + (line as usize & self.set_mask) * self.ways;
        first..first + self.ways
    }

    fn end(&self) -> Way {
        self.start + (self.set_mask + 1) * self.ways
    }
}

/// The private caches of a core.
pub(crate) struct Private {
    tags: Vec<LineId>,
    copies: Vec<LineCopy>,
    first: Level,
    second: Option<Level>,
    clock: u32,
}

impl Private {
    /// Empty caches.
    pub(crate) fn new(machine: &Machine) -> Private {
        let level =
            |start, sets: usize, ways, latency| Level { start, ways, set_mask: sets - 1, latency };
        let latency = machine.l1.latency;
        let first = level(0, machine.l1_sets(), machine.l1.ways, latency);
        let second =
            machine.l2.map(|l2| level(first.end(), l2.sets(), l2.ways, latency + l2.latency));
        let ways = second.unwrap_or(first).end();
        Private { tags: vec![NO_LINE; ways], copies: vec![ABSENT; ways], first, second, clock: 0 }
    }

    fn find_in(&self, level: &Level, line: LineId) -> Option<Way> {
        let set = level.set(line);
        position(&self.tags[set.clone()], line).map(|way| set.start + way)
    }

    /// The way of `line`, if it is in the first level.
    #[inline]
    pub(crate) fn find_near(&self, line: LineId) -> Option<Way> {
        self.find_in(&self.first, line)
    }

    /// The way of `line`, if it is in the second level.
    #[inline]
    pub(crate) fn find_far(&self, line: LineId) -> Option<Way> {
        self.second.as_ref().and_then(|second| self.find_in(second, line))
    }

    /// The way of `line` in either level.
    #[inline]
    pub(crate) fn find(&self, line: LineId) -> Option<Way> {
        self.find_near(line).or_else(|| self.find_far(line))
    }

    /// As [`find_near`](Private::find_near), and updates the replacement state.
    #[inline]
    pub(crate) fn touch(&mut self, line: LineId) -> Option<Way> {
        let way = self.find_near(line)?;
        self.clock += 1;
        self.copies[way].used = self.clock;
        Some(way)
    }

    /// The latency from a request to the answer with the copy in `way`.
    #[inline]
    pub(crate) fn latency(&self, way: Way) -> Cycle {
        match &self.second {
            Some(second) if way >= second.start => second.latency,
            _ => self.first.latency,
        }
    }

    /// The latency from a request until a miss in all levels is known.
    #[inline]
    pub(crate) fn miss_latency(&self) -> Cycle {
        self.last().latency
    }

    fn last(&self) -> &Level {
        self.second.as_ref().unwrap_or(&self.first)
    }

    /// The number of `way` among the possible places of `line`.
    #[inline]
    pub(crate) fn place(&self, line: LineId, way: Way) -> u8 {
        match &self.second {
            Some(second) if way >= second.start => {
                (self.first.ways + way - second.set(line).start) as u8
            }
            _ => (way - self.first.set(line).start) as u8,
        }
    }

    /// The way at this place of `line`.
    #[inline]
    pub(crate) fn at_place(&self, line: LineId, place: u8) -> Way {
        let place = usize::from(place);
        match &self.second {
            Some(second) if place >= self.first.ways => {
                second.set(line).start + place - self.first.ways
            }
            _ => self.first.set(line).start + place,
        }
    }

    #[inline]
    pub(crate) fn line(&self, way: Way) -> LineId {
        self.tags[way]
    }

    #[inline]
    pub(crate) fn copy(&self, way: Way) -> &LineCopy {
        &self.copies[way]
    }

    #[inline]
    pub(crate) fn copy_mut(&mut self, way: Way) -> &mut LineCopy {
        &mut self.copies[way]
    }

    /// True if `way` is a possible place of `line`.
    pub(crate) fn is_place_of(&self, way: Way, line: LineId) -> bool {
        let is_in = |level: &Level| level.set(line).contains(&way);
        is_in(&self.first) || self.second.as_ref().is_some_and(is_in)
    }

    /// The ways of the first level that can take `line`, the best victim first: free ways, then by
    /// least recent use.
    pub(crate) fn victims(&self, line: LineId) -> Vec<(Way, LineId)> {
        self.in_order(self.first.set(line))
    }

    /// As [`victims`](Private::victims), for the last level.
    pub(crate) fn far_victims(&self, line: LineId) -> Vec<(Way, LineId)> {
        self.in_order(self.last().set(line))
    }

    fn in_order(&self, set: Range<Way>) -> Vec<(Way, LineId)> {
        let age = |way: Way| if self.tags[way] == NO_LINE { 0 } else { self.copies[way].used };
        let mut order: Vec<(u32, Way)> = set.map(|way| (age(way), way)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, way)| (way, self.tags[way])).collect()
    }

    /// The best victim of the first level for `line`: a free way, or the least recently used one.
    #[inline]
    pub(crate) fn victim(&self, line: LineId) -> (Way, LineId) {
        self.best(self.first.set(line))
    }

    /// As [`victim`](Private::victim), for the last level.
    pub(crate) fn far_victim(&self, line: LineId) -> (Way, LineId) {
        self.best(self.last().set(line))
    }

    fn best(&self, set: Range<Way>) -> (Way, LineId) {
        let mut best = (u32::MAX, set.start);
        for way in set {
            if self.tags[way] == NO_LINE {
                return (way, NO_LINE);
            }
            if self.copies[way].used < best.0 {
                best = (self.copies[way].used, way);
            }
        }
        (best.1, self.tags[best.1])
    }

    /// Fills `way` with a clean copy of `line`.
    pub(crate) fn fill(
        &mut self,
        way: Way,
        line: LineId,
        state: State,
        (ready, source): (Cycle, Reason),
    ) {
        self.clock += 1;
        self.tags[way] = line;
        self.copies[way] = LineCopy { state, ready, source, used: self.clock, ..ABSENT };
    }

    /// Removes the copy, which is clean.
    pub(crate) fn invalidate(&mut self, way: Way) {
        debug_assert!(!self.copies[way].is_dirty(), "dirty data is never dropped");
        self.take(way);
    }

    /// Removes the copy from `way` and returns it.
    pub(crate) fn take(&mut self, way: Way) -> LineCopy {
        self.tags[way] = NO_LINE;
        std::mem::replace(&mut self.copies[way], ABSENT)
    }

    /// Puts a copy of `line`, removed from another way, into `way`; counts as a use.
    pub(crate) fn put(&mut self, way: Way, line: LineId, copy: LineCopy) {
        debug_assert_eq!(self.tags[way], NO_LINE, "the way is free");
        self.clock += 1;
        self.tags[way] = line;
        self.copies[way] = LineCopy { used: self.clock, ..copy };
    }

    /// Clears the pending bits of all copies.
    pub(crate) fn forget_relocated(&mut self) {
        self.copies.iter_mut().for_each(|copy| copy.relocated = false);
    }

    /// Every dirty line with its data.
    pub(crate) fn dirty(&self) -> impl Iterator<Item = (LineId, Version)> {
        let copies = self.tags.iter().zip(&self.copies);
        copies.filter(|(_, copy)| copy.is_dirty()).map(|(line, copy)| (*line, copy.version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_way_is_the_victim_once_all_are_taken() {
        let mut l1 = Private::new(&Machine::load("micro15").unwrap());
        let same_set: Vec<LineId> = (0..5).map(|at| at * 128).collect();
        for line in &same_set[..4] {
            let (way, tag) = l1.victim(*line);
            assert_eq!(tag, NO_LINE);
            l1.fill(way, *line, State::Shared, (0, Reason::LoadLlc));
        }
        l1.touch(same_set[0]);
        assert_eq!(l1.victim(same_set[4]).1, same_set[1]);
        let order: Vec<LineId> = l1.victims(same_set[4]).iter().map(|(_, line)| *line).collect();
        assert_eq!(order, [same_set[1], same_set[2], same_set[3], same_set[0]]);
        l1.invalidate(l1.find(same_set[2]).unwrap());
        assert_eq!(l1.victim(same_set[4]).1, NO_LINE);
        assert_eq!(l1.far_victim(same_set[4]), l1.victim(same_set[4]), "there is one level");
    }

    #[test]
    fn a_place_of_a_line_names_one_way_of_either_level() {
        let machine = Machine::load("hops17").unwrap();
        let caches = Private::new(&machine);
        for line in [0, 5, 700, 100_000] {
            let (near, far) = (caches.first.set(line), caches.second.unwrap().set(line));
            for way in near.chain(far) {
                assert_eq!(caches.at_place(line, caches.place(line, way)), way);
            }
        }
        assert_eq!(caches.latency(0), machine.l1.latency);
        assert_eq!(caches.latency(caches.tags.len() - 1), caches.miss_latency());
    }

    #[test]
    fn a_copy_that_moves_down_keeps_all_but_its_age() {
        let mut caches = Private::new(&Machine::load("hops17").unwrap());
        let (near, _) = caches.victim(9);
        caches.fill(near, 9, State::Exclusive, (7, Reason::LoadMemory));
        caches.copy_mut(near).epoch = 3;
        let (far, _) = caches.far_victim(9);
        let copy = caches.take(near);
        caches.put(far, 9, copy);
        assert_eq!((caches.find_near(9), caches.find(9)), (None, Some(far)));
        let copy = caches.copy(far);
        assert_eq!((copy.state, copy.epoch, copy.ready), (State::Exclusive, 3, 7));
    }
}
