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
    words: Box<[Word; WORDS * LINKS]>,
}

/// The bookings of a link in 64 cycles; all of it in one line of the host's cache.
#[derive(Clone, Copy, Default)]
struct Word {
    busy: u64,
    /// The number of the 64 cycles that it describes.
    number: u32,
}

impl Default for Links {
    fn default() -> Links {
        let words = vec![Word::default(); WORDS * LINKS].into_boxed_slice().try_into();
        Links { words: words.unwrap_or_else(|_| unreachable!("as long as the array")) }
    }
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
        let word = &mut self.words[place(link, number)];
        if word.number > number as u32 {
            return self.book_across(link, from, run);
        }
        // No branch on the bookings: it would be mispredicted.
        let busy = if word.number == number as u32 { word.busy } else { 0 };
        let starts = run.starts(!busy) >> bit;
        if starts == 0 {
            return self.book_across(link, from, run);
        }
        let start = bit + u64::from(starts.trailing_zeros());
        *word = Word { busy: busy | run.mask << start, number: number as u32 };
        number * 64 + start
    }

    /// The bookings in these 64 cycles. If their word describes later cycles, the link is booked a
    /// whole ring ahead and has no room before that.
    fn busy(&self, link: Link, number: u64) -> u64 {
        let word = &self.words[place(link, number)];
        match word.number.cmp(&(number as u32)) {
            Ordering::Less => 0,
            Ordering::Equal => word.busy,
            Ordering::Greater => u64::MAX,
        }
    }

    fn set_busy(&mut self, link: Link, number: u64, busy: u64) {
        let word = &mut self.words[place(link, number)];
        if word.number <= number as u32 {
            *word = Word { busy, number: number as u32 };
        }
    }

    /// The first number after `number`, whose cycles are booked a ring ahead, of cycles that are
    /// not. A link with a long backlog has few of them.
    fn next_described(&self, link: Link, number: u64) -> u64 {
        let mut first = u32::MAX;
        for next in number + 1..=number + WORDS as u64 {
            let described = self.words[place(link, next)].number;
            if described <= next as u32 {
                return next;
            }
            first = first.min(described);
        }
        number + u64::from(first - number as u32)
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
            if self.words[place(link, number)].number > number as u32 {
                number = self.next_described(link, number);
                (bit, here) = (0, self.busy(link, number));
                continue;
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

        #[test]
        fn a_long_backlog_is_passed_as_by_looking_at_every_word(
            asks in proptest::collection::vec((0u64..20_000, 1u32..=64, 1usize..300), 1..40),
        ) {
            let (mut links, mut slow) = (Links::default(), Links::default());
            for (from, flits, times) in asks {
                for _ in 0..times {
                    let run = Run::new(flits);
                    let expected = book_word_by_word(&mut slow, from, run);
                    prop_assert_eq!(links.book(9, from, run), expected);
                }
            }
        }
    }

    /// As [`Links::book`], on link 9.
    fn book_word_by_word(links: &mut Links, from: Cycle, run: Run) -> Cycle {
        let (mut number, mut bit) = (from / 64, from % 64);
        loop {
            let (here, next) = (links.busy(9, number), links.busy(9, number + 1));
            let inside = run.starts(!here) >> bit;
            let start = bit.max(64 - u64::from(here.leading_zeros()));
            let over = (start + run.flits()).saturating_sub(64);
            if inside != 0 {
                let start = bit + u64::from(inside.trailing_zeros());
                links.set_busy(9, number, here | run.mask << start);
                return number * 64 + start;
            } else if start < 64 && over <= u64::from(next.trailing_zeros()) {
                links.set_busy(9, number, here | u64::MAX << start);
                links.set_busy(9, number + 1, next | u64::MAX >> (64 - over));
                return number * 64 + start;
            }
            (number, bit) = (number + 1, 0);
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
