//! When a link of the mesh is free: a bit per cycle, one flit each.
//!
//! Like a [`Calendar`](crate::calendar::Calendar), but made for very many short bookings close to
//! now: the next four thousand cycles are a ring of words of bits, and the usual booking is one
//! test. Only the words near now are ever touched, so that all links together stay in the nearest
//! cache of the computer that simulates.

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
        let (number, bit) = (from / 64, from % 64);
        let at = number as usize % WORDS;
        if self.numbers[at] > number as u32 {
            return self.book_across(from, flits);
        }
        // No branch on what is booked: it cannot be foretold.
        let busy = if self.numbers[at] == number as u32 { self.words[at] } else { 0 };
        let starts = starts(!busy, flits) >> bit;
        if starts == 0 {
            return self.book_across(from, flits);
        }
        let start = bit + u64::from(starts.trailing_zeros());
        self.numbers[at] = number as u32;
        self.words[at] = busy | u64::MAX >> (64 - flits) << start;
        number * 64 + start
    }

    /// The word for those 64 cycles. If its place stands for later ones, the link is booked a whole
    /// ring ahead: what is asked for now has no place before that.
    fn word(&mut self, number: u64) -> &mut u64 {
        let at = number as usize % WORDS;
        if self.numbers[at] > number as u32 {
            self.full = u64::MAX;
            return &mut self.full;
        }
        if self.numbers[at] != number as u32 {
            self.numbers[at] = number as u32;
            self.words[at] = 0;
        }
        &mut self.words[at]
    }

    /// As [`book`](Link::book), where no run fits the word that `from` falls into.
    #[inline(never)]
    fn book_across(&mut self, from: Cycle, flits: u64) -> Cycle {
        let mut start = from;
        loop {
            let (number, bit) = (start / 64, start % 64);
            let here = u64::MAX >> (64 - flits) << bit;
            let over = (bit + flits).saturating_sub(64);
            let beyond = if over == 0 { 0 } else { u64::MAX >> (64 - over) };
            let met = *self.word(number) & here;
            if met != 0 {
                start = number * 64 + 64 - u64::from(met.leading_zeros());
                continue;
            }
            let met = *self.word(number + 1) & beyond;
            if met != 0 {
                start = (number + 1) * 64 + 64 - u64::from(met.leading_zeros());
                continue;
            }
            *self.word(number) |= here;
            *self.word(number + 1) |= beyond;
            return start;
        }
    }
}

/// The bits at which `flits` bits in a row of `free` start.
#[inline]
fn starts(free: u64, flits: u64) -> u64 {
    let (mut runs, mut length) = (free, 1);
    while 2 * length <= flits {
        runs &= runs >> length;
        length *= 2;
    }
    runs & runs >> (flits - length)
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
