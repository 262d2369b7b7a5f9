//! When a link of the mesh is free: a bit per cycle, one flit each.
//!
//! Like a [`Calendar`](crate::calendar::Calendar), but made for very many short bookings close to
//! now: the next thousand cycles are sixteen words of bits, and the usual booking is one test.

use crate::Cycle;

const WORDS: usize = 16;

/// Which 64 cycles (their number) a word stands for, and which of them are busy.
#[derive(Clone, Copy, Default)]
struct Span {
    number: u64,
    busy: u64,
}

/// The busy cycles of one link.
#[derive(Clone, Default)]
pub(crate) struct Link {
    spans: [Span; WORDS],
}

impl Link {
    /// Books `flits` cycles in a row (1 to 64) from `from` or the first later moment that is free;
    /// gives the start.
    #[inline]
    pub(crate) fn book(&mut self, from: Cycle, flits: u64) -> Cycle {
        let wanted = u64::MAX >> (64 - flits) << (from % 64);
        let span = self.span(from / 64);
        if from % 64 + flits <= 64 && span.busy & wanted == 0 {
            span.busy |= wanted;
            return from;
        }
        self.search(from, flits)
    }

    /// The word for those 64 cycles. One that stands for later cycles is given up: whoever asks
    /// for a time so long past meets nobody.
    #[inline]
    fn span(&mut self, number: u64) -> &mut Span {
        let span = &mut self.spans[number as usize % WORDS];
        if span.number != number {
            *span = Span { number, busy: 0 };
        }
        span
    }

    #[inline(never)]
    fn search(&mut self, from: Cycle, flits: u64) -> Cycle {
        let run = u64::MAX >> (64 - flits);
        let mut start = from;
        loop {
            let (number, bit) = (start / 64, start % 64);
            let over = (bit + flits).saturating_sub(64);
            if over > 0 {
                let beyond = u64::MAX >> (64 - over);
                let met = self.span(number + 1).busy & beyond;
                if met != 0 {
                    start = (number + 1) * 64 + 64 - u64::from(met.leading_zeros());
                    continue;
                }
                if self.span(number).busy & run << bit == 0 {
                    self.span(number).busy |= run << bit;
                    self.span(number + 1).busy |= beyond;
                    return start;
                }
            }
            let span = self.span(number);
            let met = span.busy & run << bit;
            if met == 0 {
                span.busy |= run << bit;
                return start;
            }
            start = number * 64 + 64 - u64::from(met.leading_zeros());
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
            asks in proptest::collection::vec((0u64..500, 1u64..=64), 1..20),
        ) {
            let mut link = Link::default();
            let mut busy = vec![false; 4000];
            for (from, flits) in asks {
                let start = link.book(from, flits);
                let free = |at: u64| (at..at + flits).all(|cycle| !busy[cycle as usize]);
                prop_assert_eq!((from..).find(|at| free(*at)), Some(start));
                (start..start + flits).for_each(|cycle| busy[cycle as usize] = true);
                prop_assume!(start + flits < 1000);
            }
        }
    }

    #[test]
    fn a_link_forgets_what_is_long_past() {
        let mut link = Link::default();
        assert_eq!(link.book(10, 5), 10);
        assert_eq!(link.book(10 + 64 * WORDS as u64, 5), 10 + 64 * WORDS as u64);
    }
}
