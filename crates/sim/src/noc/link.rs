//! The free cycles of the links of the mesh: a bit per link and cycle, one flit each.
//!
//! Like a [`Calendar`](crate::engine::calendar::Calendar), but made for a great number of short
//! bookings close to now: the next four thousand cycles are a ring of words of bits, and the usual
//! booking is one test. The words of all links for the same cycles are adjacent, because a message
//! uses several links within a few cycles, and only the words near now are ever touched.

use crate::Cycle;
use std::cmp::Ordering;

/// Words of the ring.
const WORDS: usize = 64;
/// The greatest number of links: the range of [`Link`].
const LINKS: usize = 256;

/// The number of a link.
pub(crate) type Link = u8;

/// The number of flits that use a link in a row, 1 to 64, and the shifts that find room for them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    mask: u64,
    flits: u32,
    /// Shifts that find runs of up to 8 flits, the usual ones, without a branch.
    shifts: [u32; 3],
}

impl Run {
    pub(crate) const fn new(flits: u32) -> Run {
        assert!(flits >= 1 && flits <= 64, "a run fits a word");
        let one = if flits > 1 { 1 } else { 0 };
        let two = if flits > 3 { 2 } else { flits - 1 - one };
        let four = if flits > 7 { 4 } else { flits - 1 - one - two };
        Run { mask: u64::MAX >> (64 - flits), flits, shifts: [one, two, four] }
    }

    #[inline]
    pub(crate) fn flits(self) -> u64 {
        self.flits.into()
    }

    /// The bits at which a run of this length starts within the bits `free`.
    #[inline(always)]
    fn starts(self, free: u64) -> u64 {
        let runs = self.shifts.into_iter().fold(free, |runs, shift| runs & runs >> shift);
        if self.flits > 8 { self.long_starts(runs) } else { runs }
    }

    fn long_starts(self, runs_of_8: u64) -> u64 {
        let (mut runs, mut length) = (runs_of_8, 8);
        while length < self.flits {
            let more = (self.flits - length).min(length);
            runs &= runs >> more;
            length += more;
        }
        runs
    }
}

/// The busy cycles of all links.
pub(crate) struct Links {
    words: Box<[u64; WORDS * LINKS]>,
    /// The number of the 64 cycles that each word describes.
    numbers: Box<[u32; WORDS * LINKS]>,
}

impl Default for Links {
    fn default() -> Links {
        Links { words: zeros(), numbers: zeros() }
    }
}

fn zeros<T: Copy + Default>() -> Box<[T; WORDS * LINKS]> {
    let zeros = vec![T::default(); WORDS * LINKS].into_boxed_slice();
    zeros.try_into().unwrap_or_else(|_| unreachable!("as long as the array"))
}

#[inline]
fn place(link: Link, number: u64) -> usize {
    number as usize % WORDS * LINKS + usize::from(link)
}

impl Links {
    /// Books a run on `link` at the first free cycle from `from` on; returns the start.
    #[inline(always)]
    pub(crate) fn book(&mut self, link: Link, from: Cycle, run: Run) -> Cycle {
        let (number, bit) = (from / 64, from % 64);
        let at = place(link, number);
        if self.numbers[at] > number as u32 {
            return self.book_across(link, from, run);
        }
        // No branch on the bookings: it would be mispredicted.
        let busy = if self.numbers[at] == number as u32 { self.words[at] } else { 0 };
        let starts = run.starts(!busy) >> bit;
        if starts == 0 {
            return self.book_across(link, from, run);
        }
        let start = bit + u64::from(starts.trailing_zeros());
        self.numbers[at] = number as u32;
        self.words[at] = busy | run.mask << start;
        number * 64 + start
    }

    /// The bookings in these 64 cycles. If their word describes later cycles, the link is booked a
    /// whole ring ahead and has no room before that.
    fn busy(&self, link: Link, number: u64) -> u64 {
        let at = place(link, number);
        match self.numbers[at].cmp(&(number as u32)) {
            Ordering::Less => 0,
            Ordering::Equal => self.words[at],
            Ordering::Greater => u64::MAX,
        }
    }

    fn set_busy(&mut self, link: Link, number: u64, busy: u64) {
        let at = place(link, number);
        if self.numbers[at] <= number as u32 {
            self.numbers[at] = number as u32;
            self.words[at] = busy;
        }
    }

    /// As [`book`](Links::book), if no run fits the word of `from`: a run can end in the next word.
    #[inline(never)]
    fn book_across(&mut self, link: Link, from: Cycle, run: Run) -> Cycle {
        let (mut number, mut bit) = (from / 64, from % 64);
        let mut here = self.busy(link, number);
        loop {
            let inside = run.starts(!here) >> bit;
            if inside != 0 {
                let start = bit + u64::from(inside.trailing_zeros());
                self.set_busy(link, number, here | run.mask << start);
                return number * 64 + start;
            }
            let next = self.busy(link, number + 1);
            // Only a run that starts right after the last busy bit can end in the next word.
            let start = bit.max(64 - u64::from(here.leading_zeros()));
            let over = start + run.flits() - 64;
            if start < 64 && over <= u64::from(next.trailing_zeros()) {
                self.set_busy(link, number, here | u64::MAX << start);
                self.set_busy(link, number + 1, next | u64::MAX >> (64 - over));
                return number * 64 + start;
            }
            (number, bit, here) = (number + 1, 0, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bookings_never_overlap_and_take_the_first_gap(
            asks in proptest::collection::vec((0u64..500, 1u64..=64), 1..40),
        ) {
            let mut links = Links::default();
            let mut busy = vec![false; 4000];
            for (from, flits) in asks {
                let start = links.book(9, from, Run::new(flits as u32));
                let free = |at: u64| (at..at + flits).all(|cycle| !busy[cycle as usize]);
                prop_assert_eq!((from..).find(|at| free(*at)), Some(start));
                (start..start + flits).for_each(|cycle| busy[cycle as usize] = true);

            }
        }
    }

    #[test]
    fn a_link_that_is_full_for_longer_than_it_can_tell_moves_a_flit_a_cycle_all_the_same() {
        let mut links = Links::default();
        let last = (0..10_000).map(|_| links.book(9, 0, Run::new(5))).max();
        assert!(last >= Some(9_999 * 5), "{last:?}");
    }

    #[test]
    fn links_are_booked_each_by_itself() {
        let mut links = Links::default();
        assert_eq!(links.book(0, 10, Run::new(5)), 10);
        assert_eq!(links.book(255, 10, Run::new(5)), 10);
        assert_eq!(links.book(0, 10, Run::new(5)), 15);
    }

    #[test]
    fn a_link_forgets_what_is_long_past() {
        let mut links = Links::default();
        assert_eq!(links.book(9, 10, Run::new(5)), 10);
        assert_eq!(links.book(9, 10 + 64 * WORDS as u64, Run::new(5)), 10 + 64 * WORDS as u64);
    }
}
