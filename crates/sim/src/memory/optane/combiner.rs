//! The write buffer of a DIMM, in which written lines wait for the rest of their XPLine.
//!
//! LENS (MICRO'20) found 64 lines of 64 bytes, 4 KB, in which a DIMM combines lines before it
//! writes to the media. Their organisation is unpublished. Here they are sets, found by a hash of
//! the XPLine's number: a line goes into the set of its XPLine, and leaves with its neighbours when
//! the XPLine is whole. When its set is full, the oldest XPLine in it leaves with the lines that
//! are present. So a few sequential writers send whole XPLines, while the lines of many writers
//! collide in the sets and evict partial XPLines: the thrashing that FAST'20 measured. The
//! organisation is our only choice here (16 sets of 4 lines).
//!
//! A line that leaves keeps its place until the queue of the media has accepted its XPLine.

use super::XPLINE_LINES;
use crate::Cycle;

const OPEN: Cycle = Cycle::MAX;

/// A waiting line, or a place that is free from a cycle on.
#[derive(Clone, Copy, Debug)]
struct Place {
    line: u64,
    /// [`OPEN`] while the line waits for its neighbours.
    free: Cycle,
}

/// An XPLine that leaves, with some or all of its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Leaving {
    pub(super) xpline: u64,
    set: usize,
}

/// The condition for a line to have a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// A place is free from this cycle on.
    At(Cycle),
    /// This XPLine must leave first.
    Behind(Leaving),
}

/// The waiting lines of one DIMM.
#[derive(Clone, Debug)]
pub(super) struct Combiner {
    ways: usize,
    mask: u64,
    sets: Vec<Vec<Place>>,
}

impl Combiner {
    /// A buffer of `sets`, a power of two, of `ways` lines each.
    pub(super) fn new(sets: usize, ways: usize) -> Combiner {
        let empty = || Vec::with_capacity(ways);
        Combiner { ways, mask: sets as u64 - 1, sets: (0..sets).map(|_| empty()).collect() }
    }

    /// Folds the XPLine's number onto itself: consecutive XPLines are in different sets, and those
    /// of distant writers are spread at random.
    #[inline]
    fn set(&self, xpline: u64) -> usize {
        let (mut rest, mut set) = (xpline, 0);
        while rest != 0 {
            set ^= rest & self.mask;
            rest >>= self.mask.count_ones().max(1);
        }
        set as usize
    }

    /// True if the line waits here.
    #[inline]
    pub(super) fn has(&self, line: u64) -> bool {
        let set = &self.sets[self.set(line / XPLINE_LINES)];
        set.iter().any(|place| place.line == line && place.free == OPEN)
    }

    /// The condition for a line that comes at `at` to have a place.
    pub(super) fn room(&mut self, line: u64, at: Cycle) -> Room {
        let number = self.set(line / XPLINE_LINES);
        let set = &mut self.sets[number];
        if set.iter().any(|place| place.line == line && place.free == OPEN) {
            return Room::At(at);
        }
        set.retain(|place| place.free > at);
        if set.len() < self.ways {
            return Room::At(at);
        }
        match set.iter().map(|place| place.free).min() {
            Some(OPEN) | None => {
                let xpline = set.first().map_or(0, |place| place.line / XPLINE_LINES);
                Room::Behind(Leaving { xpline, set: number })
            }
            Some(free) => {
                set.retain(|place| place.free > free);
                Room::At(free)
            }
        }
    }

    /// Puts a line that has [`room`](Combiner::room) in its place; returns its XPLine if that is
    /// whole and must leave.
    pub(super) fn put(&mut self, line: u64) -> Option<Leaving> {
        let xpline = line / XPLINE_LINES;
        let number = self.set(xpline);
        let set = &mut self.sets[number];
        if set.iter().any(|place| place.line == line && place.free == OPEN) {
            return None;
        }
        set.push(Place { line, free: OPEN });
        let of_xpline = |place: &&Place| place.free == OPEN && place.line / XPLINE_LINES == xpline;
        let lines = set.iter().filter(of_xpline).count() as u64;
        (lines == XPLINE_LINES).then_some(Leaving { xpline, set: number })
    }

    /// The lines of `leaving` leave: their places are free from `free` on.
    pub(super) fn leave(&mut self, leaving: Leaving, free: Cycle) {
        for place in &mut self.sets[leaving.set] {
            if place.free == OPEN && place.line / XPLINE_LINES == leaving.xpline {
                place.free = free;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts a line; returns the XPLines that left for it and with it.
    fn put(combiner: &mut Combiner, line: u64, at: Cycle) -> Vec<u64> {
        let mut left = Vec::new();
        while let Room::Behind(leaving) = combiner.room(line, at) {
            combiner.leave(leaving, at);
            left.push(leaving.xpline);
        }
        if let Some(leaving) = combiner.put(line) {
            combiner.leave(leaving, at);
            left.push(leaving.xpline);
        }
        left
    }

    fn puts(combiner: &mut Combiner, lines: impl IntoIterator<Item = u64>) -> Vec<u64> {
        lines.into_iter().flat_map(|line| put(combiner, line, 1)).collect()
    }

    #[test]
    fn an_xpline_leaves_when_it_is_whole_in_whatever_order_it_came() {
        let mut combiner = Combiner::new(16, 4);
        assert_eq!(puts(&mut combiner, [9, 11, 8, 9]), []);
        assert!(combiner.has(9) && !combiner.has(10));
        assert_eq!(put(&mut combiner, 10, 1), [2]);
        assert!(!combiner.has(9), "it has left");
        assert_eq!(put(&mut combiner, 9, 1), [], "and begins anew");
    }

    #[test]
    fn in_a_full_set_the_oldest_xpline_leaves_in_part() {
        let mut combiner = Combiner::new(1, 4);
        assert_eq!(puts(&mut combiner, [0, 4, 1, 8]), []);
        assert_eq!(put(&mut combiner, 12, 1), [0], "with both of its lines");
        assert_eq!(puts(&mut combiner, [5, 9, 13, 16]), [1, 2]);
    }

    #[test]
    fn one_writer_sends_whole_xplines_and_many_push_each_other_out() {
        let lines_each = |writers: u64| {
            let mut combiner = Combiner::new(16, 4);
            let lines = (0..4096).flat_map(|line| {
                (0..writers).map(move |writer| writer * 7919 * 64 * 37 + writer * 131 + line)
            });
            4096.0 * writers as f64 / puts(&mut combiner, lines).len() as f64
        };
        assert_eq!(lines_each(1), 4.0);
        assert!(lines_each(2) > 3.3, "{}", lines_each(2));
        assert!((2.0..3.2).contains(&lines_each(8)), "{}", lines_each(8));
        assert!(lines_each(24) < lines_each(8));
    }

    #[test]
    fn sixteen_xplines_side_by_side_fit_without_pushing() {
        let mut combiner = Combiner::new(16, 4);
        let first = 1_000_000 * XPLINE_LINES / 64 * 64;
        let by_line = (0..4).flat_map(|line| (0..16).map(move |xpline| xpline * 4 + line));
        let left = puts(&mut combiner, by_line.map(|line| first + line));
        assert_eq!(left.len(), 16);
    }

    #[test]
    fn a_line_waits_for_a_place_until_what_leaves_has_been_taken() {
        let mut combiner = Combiner::new(1, 4);
        let left = (0..4).filter_map(|line| combiner.put(line)).last().unwrap();
        combiner.leave(left, 500);
        assert_eq!(combiner.room(9, 100), Room::At(500));
        assert_eq!(combiner.put(9), None);
        assert_eq!(combiner.room(10, 600), Room::At(600));
    }
}
