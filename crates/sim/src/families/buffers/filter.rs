//! The counting Bloom filter at a memory controller, and the fetches that wait at it.
//!
//! A fetch must not read a line from memory while a newer version is in a persist buffer
//! (ASPLOS'17, section 6.3).

use crate::LineId;
use crate::core::Waiter;

/// A counting Bloom filter of the lines that are buffered for one controller: it has no false
/// negatives, but false positives.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    counts: Vec<u32>,
    waiting: Vec<(LineId, Waiter)>,
}

/// The number of counters per line.
const HASHES: usize = 2;

impl Filter {
    /// A filter of `size` counters, a power of two.
    pub(crate) fn new(size: usize) -> Filter {
        Filter { counts: vec![0; size], waiting: Vec::new() }
    }

    fn places(&self, line: LineId) -> [usize; HASHES] {
        let mixed = (u64::from(line) + 1).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let mask = self.counts.len() - 1;
        [(mixed >> 24) as usize & mask, (mixed >> 44) as usize & mask]
    }

    pub(crate) fn add(&mut self, line: LineId) {
        for place in self.places(line) {
            self.counts[place] += 1;
        }
    }

    pub(crate) fn remove(&mut self, line: LineId) {
        for place in self.places(line) {
            self.counts[place] -= 1;
        }
    }

    pub(crate) fn may_have(&self, line: LineId) -> bool {
        self.places(line).iter().all(|place| self.counts[*place] > 0)
    }

    /// True if `other` can keep the filter from releasing `line`.
    pub(crate) fn shares(&self, line: LineId, other: LineId) -> bool {
        let places = self.places(other);
        self.places(line).iter().any(|place| places.contains(place))
    }

    /// True if `line`, which has just been added, can prolong the wait of a fetch of another line.
    pub(crate) fn holds_up(&self, line: LineId) -> bool {
        self.waiting.iter().any(|(waits, _)| self.shares(*waits, line))
    }

    pub(crate) fn wait(&mut self, line: LineId, who: Waiter) {
        self.waiting.push((line, who));
    }

    /// Removes and returns the waiters whose line is no longer buffered.
    pub(crate) fn released(&mut self) -> Vec<Waiter> {
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
