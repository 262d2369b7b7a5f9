//! When a shared resource (a link, a port, a channel, a memory bank) is free.
//!
//! A message is followed to its end when it is sent, so requests reach a resource's calendar
//! slightly out of time order. A single "next free" time would let a request that is early in the
//! calendar but late in simulation wait behind one that comes after it; so the calendar keeps its
//! last few busy intervals and fills the gaps between them.

use crate::Cycle;

const KEPT: usize = 8;

/// The busy intervals of one resource, sorted, disjoint, not adjacent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calendar {
    busy: [(Cycle, Cycle); KEPT],
    len: usize,
}

impl Calendar {
    /// Books `cycles` from `from` or the first later moment that is free; gives the start.
    #[inline]
    pub(crate) fn book(&mut self, from: Cycle, cycles: u64) -> Cycle {
        let last = self.len.wrapping_sub(1);
        match self.busy.get_mut(last) {
            Some((_, end)) if from == *end => *end += cycles,
            Some((_, end)) if from < *end => return self.book_between(from, cycles),
            _ => self.insert(self.len, (from, from + cycles)),
        }
        from
    }

    #[cold]
    fn book_between(&mut self, from: Cycle, cycles: u64) -> Cycle {
        let mut start = from;
        let mut at = 0;
        while at < self.len {
            let (busy_from, busy_to) = self.busy[at];
            if start + cycles <= busy_from {
                break;
            }
            start = start.max(busy_to);
            at += 1;
        }
        let end = start + cycles;
        let joins_before = at > 0 && self.busy[at - 1].1 == start;
        let joins_after = at < self.len && self.busy[at].0 == end;
        match (joins_before, joins_after) {
            (true, true) => {
                self.busy[at - 1].1 = self.busy[at].1;
                self.busy.copy_within(at + 1..self.len, at);
                self.len -= 1;
            }
            (true, false) => self.busy[at - 1].1 = end,
            (false, true) => self.busy[at].0 = start,
            (false, false) => self.insert(at, (start, end)),
        }
        start
    }

    fn insert(&mut self, mut at: usize, interval: (Cycle, Cycle)) {
        if self.len == KEPT {
            if at == 0 {
                return; // older than all that is remembered: nobody will ask there again
            }
            self.busy.copy_within(1.., 0);
            self.len -= 1;
            at -= 1;
        }
        self.busy.copy_within(at..self.len, at + 1);
        self.busy[at] = interval;
        self.len += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_lone_request_starts_at_once_and_the_next_waits() {
        let mut calendar = Calendar::default();
        assert_eq!(calendar.book(100, 24), 100);
        assert_eq!(calendar.book(100, 24), 124);
        assert_eq!(calendar.book(500, 24), 500);
    }

    #[test]
    fn a_gap_before_a_later_booking_is_used() {
        let mut calendar = Calendar::default();
        calendar.book(100, 10);
        calendar.book(200, 10);
        assert_eq!(calendar.book(105, 20), 110);
        assert_eq!(calendar.book(105, 80), 210, "too long for the gap");
    }

    proptest! {
        #[test]
        fn bookings_never_overlap_and_never_start_early(
            asks in proptest::collection::vec((0u64..60, 1u64..20), 1..7),
        ) {
            let mut calendar = Calendar::default();
            let mut taken: Vec<(u64, u64)> = Vec::new();
            for (from, cycles) in asks {
                let start = calendar.book(from, cycles);
                prop_assert!(start >= from);
                for (other_from, other_to) in &taken {
                    prop_assert!(start >= *other_to || start + cycles <= *other_from);
                }
                taken.push((start, start + cycles));
            }
        }

        #[test]
        fn a_saturated_resource_is_never_idle(count in 1u64..200, cycles in 1u64..30) {
            let mut calendar = Calendar::default();
            for number in 0..count {
                prop_assert_eq!(calendar.book(0, cycles), number * cycles);
            }
        }
    }
}
