//! The tags of a DIMM's read buffer of XPLines, and of its translation buffer of pages.
//!
//! LENS (MICRO'20) found two sizes at which the latency of reads rises: 16 KB, which are 64 XPLines
//! that the controller can read, modify and write, and 16 MB, which are 4096 pages whose media
//! address it knows (the address indirection table, kept in DRAM on the DIMM). Both are tags here,
//! with the cycle from which the data are present: a request for data on their way waits for them.
//! The least recently used way of a set is replaced, which is our choice.

use crate::Cycle;

const NONE: u32 = u32::MAX;

/// The most recent entries by number, in sets.
#[derive(Clone, Debug)]
pub(super) struct Tags {
    ways: usize,
    sets: usize,
    numbers: Vec<u32>,
    ready: Vec<Cycle>,
    used: Vec<u64>,
    clock: u64,
}

impl Tags {
    /// Tags for `entries`, a multiple of `ways`.
    pub(super) fn new(entries: usize, ways: usize) -> Tags {
        Tags {
            ways,
            sets: entries / ways,
            numbers: vec![NONE; entries],
            ready: vec![0; entries],
            used: vec![0; entries],
            clock: 0,
        }
    }

    /// Consecutive numbers are in consecutive sets, so that neighbours do not collide.
    #[inline]
    fn set(&self, number: u32) -> std::ops::Range<usize> {
        let first = number as usize % self.sets * self.ways;
        first..first + self.ways
    }

    /// Returns from when the entry is present, if it is present or on its way; updates its age.
    #[inline]
    pub(super) fn touch(&mut self, number: u32) -> Option<Cycle> {
        let set = self.set(number);
        let way = self.numbers[set.clone()].iter().position(|tag| *tag == number)?;
        self.clock += 1;
        self.used[set.start + way] = self.clock;
        Some(self.ready[set.start + way])
    }

    /// Inserts an entry that is present from `ready` on, in place of the least recently used one.
    pub(super) fn put(&mut self, number: u32, ready: Cycle) {
        let set = self.set(number);
        let known = self.numbers[set.clone()].iter().position(|tag| *tag == number);
        let oldest = || (0..self.ways).min_by_key(|way| self.used[set.start + way]).unwrap_or(0);
        let place = set.start + known.unwrap_or_else(oldest);
        self.clock += 1;
        self.numbers[place] = number;
        self.ready[place] = ready;
        self.used[place] = self.clock;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_of_a_set_makes_room() {
        let mut tags = Tags::new(4, 2);
        tags.put(0, 10);
        tags.put(2, 20);
        assert_eq!(tags.touch(0), Some(10));
        tags.put(4, 30);
        assert_eq!((tags.touch(0), tags.touch(2), tags.touch(4)), (Some(10), None, Some(30)));
        tags.put(1, 40);
        assert_eq!(tags.touch(0), Some(10), "the other set has room of its own");
    }

    #[test]
    fn a_piece_that_is_put_again_keeps_its_place() {
        let mut tags = Tags::new(2, 2);
        tags.put(5, 1);
        tags.put(6, 1);
        tags.put(5, 9);
        assert_eq!((tags.touch(5), tags.touch(6)), (Some(9), Some(1)));
    }

    #[test]
    fn pieces_that_follow_each_other_all_fit() {
        for (entries, ways) in [(64, 64), (4096, 16)] {
            let mut tags = Tags::new(entries, ways);
            for number in 0..entries as u32 {
                tags.put(1000 + number, 0);
            }
            assert!((0..entries as u32).all(|number| tags.touch(1000 + number).is_some()));
            tags.put(0, 0);
            let kept = (0..entries as u32).filter(|number| tags.touch(1000 + number).is_some());
            assert_eq!(kept.count(), entries - 1);
        }
    }
}
