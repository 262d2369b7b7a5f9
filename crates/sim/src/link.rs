//! When a link of the mesh is free: a bit per cycle, one flit each.
//!
//! Like a [`Calendar`](crate::calendar::Calendar), but made for very many short bookings close to
//! now: the next four thousand cycles are a ring of words of bits, and the usual booking is one test.
//! Only the words near now are ever touched, so that all links together stay in the nearest cache of
//! the computer that simulates.

use crate::Cycle;

const WORDS: usize = 64;

/// The busy cycles of one link.
#[derive(Clone)]
pub(crate) struct Link {
    words: [u64; WORDS],
    /// Which 64 cycles, by number, each word stands for.
    numbers: [u32; WORDS],
    /// What a word that cannot be had looks like.
    full: u64,
}

impl Default for Link {
    fn default() -> Link {
        Link { words: [0; WORDS], numbers: [0; WORDS], full: 0 }
    }
}

impl Link {
    /// Books `flits` cycles in a row (1 to 64) from `from` or the first later moment that is free;
    /// gives the start.
    #[inline]
    pub(crate) fn book(&mut self, from: Cycle, flits: u64) -> Cycle {
        let run = u64::MAX >> (64 - flits);
        let mut start = from;
        while start % 64 + flits <= 64 {
            let word = self.word(start / 64);
            let met = *word & run << (start % 64);
            if met == 0 {
                *word |= run << (start % 64);
                return start;
            }
            start = start / 64 * 64 + 64 - u64::from(met.leading_zeros());
        }
        self.book_across(start, flits)
    }

    /// The word for those 64 cycles. If its place stands for later ones, the link is booked a whole
    /// ring ahead: what is asked for now has no place before that.
    #[inline]
    fn word(&mut self, number: u64) -> &mut u64 {
        let at = number as usize % WORDS;
        if self.numbers[at] != number as u32 {
            return self.turn(number);
        }
        &mut self.words[at]
    }

    #[cold]
    fn turn(&mut self, number: u64) -> &mut u64 {
        let at = number as usize % WORDS;
        if self.numbers[at] > number as u32 {
            self.full = u64::MAX;
            return &mut self.full;
        }
        self.numbers[at] = number as u32;
        self.words[at] = 0;
        &mut self.words[at]
    }

    /// As [`book`](Link::book), where the run does not fit the word that it starts in.
    #[inline(never)]
    fn book_across(&mut self, from: Cycle, flits: u64) -> Cycle {
        let (number, bit) = (from / 64, from % 64);
        let here = u64::MAX << bit;
        let beyond = u64::MAX >> (128 - bit - flits);
        let later = *self.word(number + 1) & beyond;
        let met = *self.word(number) & here;
        if later != 0 {
            self.book((number + 1) * 64 + 64 - u64::from(later.leading_zeros()), flits)
        } else if met != 0 {
            self.book(number * 64 + 64 - u64::from(met.leading_zeros()), flits)
        } else {
            *self.word(number) |= here;
            *self.word(number + 1) |= beyond;
            from
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
            let mut link = Link::default();
            let mut busy = vec![false; 4000];
            for (from, flits) in asks {
                let start = link.book(from, flits);
                let free = |at: u64| (at..at + flits).all(|cycle| !busy[cycle as usize]);
                prop_assert_eq!((from..).find(|at| free(*at)), Some(start));
                (start..start + flits).for_each(|cycle| busy[cycle as usize] = true);

            }
        }
    }

    #[test]
    fn a_link_that_is_full_for_longer_than_it_can_tell_moves_a_flit_a_cycle_all_the_same() {
        let mut link = Link::default();
        let last = (0..10_000).map(|_| link.book(0, 5)).max();
        assert!(last >= Some(9_999 * 5), "{last:?}");
    }

    #[test]
    fn a_link_forgets_what_is_long_past() {
        let mut link = Link::default();
        assert_eq!(link.book(10, 5), 10);
        assert_eq!(link.book(10 + 64 * WORDS as u64, 5), 10 + 64 * WORDS as u64);
    }
}
