//! The free cycles of a shared resource (a link, a port, a channel, a memory bank).
//!
//! A message is followed to its end when it is sent, so requests reach a resource's calendar
//! slightly out of time order. With a single "next free" time, an early request that is simulated
//! late would wait behind a later one; so the calendar keeps its last few busy intervals and fills
//! the gaps between them.

use crate::Cycle;

/// The number of intervals kept; a power of two.
const KEPT: usize = 16;

/// The busy intervals of one resource, sorted, disjoint, not adjacent; the newest last, in a ring.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calendar {
    busy: [(Cycle, Cycle); KEPT],
    /// One past the newest, counted without wrapping.
    end: usize,
    len: usize,
}

impl Calendar {
    #[inline]
    fn at(&mut self, back: usize) -> &mut (Cycle, Cycle) {
        &mut self.busy[self.end.wrapping_sub(1 + back) % KEPT]
    }

    /// Books `cycles` at the first free cycle from `from` on; returns the start.
    #[inline]
    pub(crate) fn book(&mut self, from: Cycle, cycles: u64) -> Cycle {
        let newest = self.at(0);
        if from > newest.1 || newest.1 == 0 {
            self.busy[self.end % KEPT] = (from, from + cycles);
            self.end = self.end.wrapping_add(1);
            self.len = (self.len + 1).min(KEPT);
            return from;
        }
        if from >= newest.0 {
            let start = newest.1;
            newest.1 += cycles;
            return start;
        }
        self.book_between(from, cycles)
    }

    /// As [`book`](Calendar::book), from before the newest interval on: fills a gap, if one is wide
    /// enough.
    fn book_between(&mut self, from: Cycle, cycles: u64) -> Cycle {
        // `back` counts the intervals behind the place; the newest has number 0.
        let mut back = self.len;
        while back > 0 && self.at(back - 1).1 < from {
            back -= 1;
        }
        let mut start = from;
        while back > 0 {
            let (busy_from, busy_to) = *self.at(back - 1);
            if start + cycles <= busy_from {
                break;
            }
            start = start.max(busy_to);
            back -= 1;
        }
        let end = start + cycles;
        let joins_before = back < self.len && self.at(back).1 == start;
        let joins_after = back > 0 && self.at(back - 1).0 == end;
        match (joins_before, joins_after) {
            (true, true) => {
                self.at(back).1 = self.at(back - 1).1;
                self.remove(back - 1);
            }
            (true, false) => self.at(back).1 = end,
            (false, true) => self.at(back - 1).0 = start,
            (false, false) => self.insert(back, (start, end)),
        }
        start
    }

    fn remove(&mut self, back: usize) {
        for place in (0..back).rev() {
            *self.at(place + 1) = *self.at(place);
        }
        self.end = self.end.wrapping_sub(1);
        self.len -= 1;
    }

    fn insert(&mut self, back: usize, interval: (Cycle, Cycle)) {
        if back == KEPT {
            return; // older than every interval kept: no request starts there
        }
        self.end = self.end.wrapping_add(1);
        self.len = (self.len + 1).min(KEPT);
        for place in 0..back {
            *self.at(place) = *self.at(place + 1);
        }
        *self.at(back) = interval;
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

    #[test]
    fn a_dozen_gaps_are_all_remembered() {
        let mut calendar = Calendar::default();
        for number in 0..12 {
            assert_eq!(calendar.book(number * 20, 10), number * 20);
        }
        for number in 0..11 {
            assert_eq!(calendar.book(0, 10), 10 + number * 20, "gap {number}");
        }
    }

    proptest! {
        #[test]
        fn bookings_never_overlap_and_never_start_early(
            asks in proptest::collection::vec((0u64..60, 1u64..20), 1..KEPT + 1),
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
