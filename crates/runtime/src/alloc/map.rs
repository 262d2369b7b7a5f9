//! The map of a shelf: granules of 16 bytes, four in a cache line, and the rule of placement.
//!
//! The rule: no object touches more lines than its length requires. So an object of up to 64 bytes
//! never straddles lines. There are two causes of flushed lines that are hardly dirty (PACT'20,
//! "flush coalescing"): objects that straddle, which the rule excludes, and objects that change
//! together on different lines, which granules far smaller than lines allow to share a line.

use crate::alloc::size_class::CHUNK_BYTES;
use seawall_memory::LINE_BYTES;

/// Bytes of a granule: objects begin at a granule and take whole ones.
pub(crate) const GRANULE_BYTES: u64 = 16;
/// Bytes of a shelf's states, at its start: one for each granule, and some unused ones.
pub(crate) const SHELF_STATE_BYTES: u64 = 4 << 10;
/// Granules of a shelf.
pub(crate) const GRANULES: u64 = (CHUNK_BYTES - SHELF_STATE_BYTES) / GRANULE_BYTES;
/// Granules of a line.
const LINE_GRANULES: u64 = LINE_BYTES / GRANULE_BYTES;
const WORDS: usize = GRANULES as usize / 64;
/// The first granule of each line, in a word of the map.
const FIRSTS: u64 = 0x1111_1111_1111_1111;

/// The maximum bytes, with the gaps between them, of objects that are placed together. Longer
/// groups are allocated one by one: with that many lines, sharing one matters little.
pub const TOGETHER_BYTES_MAX: u64 = 1024;

/// Granules of an object of `bytes` bytes.
pub(crate) const fn granules(bytes: u64) -> u64 {
    if bytes == 0 { 1 } else { bytes.div_ceil(GRANULE_BYTES) }
}

/// Whether `count` granules from `first` on touch no more lines than their length requires.
pub(crate) const fn fits(first: u64, count: u64) -> bool {
    first % LINE_GRANULES + count <= count.next_multiple_of(LINE_GRANULES)
}

/// Lays out objects of those numbers of bytes one behind the other from the start of a line:
/// returns the first granule of each and the total number of granules; `None` if that is too much.
pub(crate) fn together<const N: usize>(bytes: [u64; N]) -> Option<([u64; N], u64)> {
    let mut end = 0;
    let firsts = bytes.map(|bytes| {
        let count = granules(bytes.min(CHUNK_BYTES));
        let first = if fits(end, count) { end } else { end.next_multiple_of(LINE_GRANULES) };
        end = first + count;
        first
    });
    (end <= TOGETHER_BYTES_MAX / GRANULE_BYTES).then_some((firsts, end))
}

/// The free granules of a shelf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FreeMap([u64; WORDS]);

impl FreeMap {
    /// A map with all granules taken.
    pub(crate) fn full() -> FreeMap {
        FreeMap([0; WORDS])
    }

    #[inline]
    pub(crate) fn is_free(&self, granule: u64) -> bool {
        self.0[granule as usize / 64] >> (granule % 64) & 1 == 1
    }

    /// Marks `count` granules from `first` on as free or taken.
    pub(crate) fn set(&mut self, first: u64, count: u64, is_free: bool) {
        for granule in first..first + count {
            let bit = 1 << (granule % 64);
            let word = &mut self.0[granule as usize / 64];
            *word = if is_free { *word | bit } else { *word & !bit };
        }
    }

    fn are_free(&self, first: u64, count: u64) -> bool {
        first + count <= GRANULES && (first..first + count).all(|granule| self.is_free(granule))
    }

    /// The first of enough consecutive free lines for `count` granules, from granule `from` on,
    /// which starts a line.
    pub(crate) fn free_lines(&self, from: u64, count: u64) -> Option<u64> {
        let wanted = count.next_multiple_of(LINE_GRANULES);
        let mut first = from;
        while first + wanted <= GRANULES {
            let word = self.0[first as usize / 64];
            let lines = word & word >> 1 & word >> 2 & word >> 3 & FIRSTS;
            let here = lines >> (first % 64);
            if here == 0 {
                first = (first / 64 + 1) * 64;
                continue;
            }
            first += u64::from(here.trailing_zeros());
            if self.are_free(first, wanted) {
                return Some(first);
            }
            first += LINE_GRANULES;
        }
        None
    }

    /// The most consecutive free lines, if they are no more than `most`.
    pub(crate) fn longest(&self, most: u64) -> u64 {
        let has = |lines: &u64| self.free_lines(0, LINE_GRANULES * lines).is_some();
        (1..=most).rev().find(has).unwrap_or(0)
    }

    /// A place for `count` granules on the lines of the object with `held` granules from `near` on,
    /// or from those lines into free lines behind them, or in free lines right behind it.
    pub(crate) fn place_near(&self, near: u64, held: u64, count: u64) -> Option<u64> {
        let start = near / LINE_GRANULES * LINE_GRANULES;
        let end = (near + held).next_multiple_of(LINE_GRANULES);
        let may_begin = |first: &u64| {
            let over = (first + count).saturating_sub(end).next_multiple_of(LINE_GRANULES);
            fits(*first, count)
                && self.are_free(*first, count)
                && (over == 0 || self.are_free(end, over))
        };
        (start..=end).find(may_begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(first: u64, count: u64) -> u64 {
        (first + count - 1) / LINE_GRANULES - first / LINE_GRANULES + 1
    }

    proptest! {
        #[test]
        fn objects_together_lie_behind_each_other_and_none_touches_a_line_too_many(
            bytes: [u16; 4],
        ) {
            let bytes = bytes.map(|bytes| u64::from(bytes % 400));
            let Some((firsts, all)) = together(bytes) else {
                let sum: u64 = bytes.iter().map(|bytes| bytes + LINE_BYTES).sum();
                prop_assert!(sum > TOGETHER_BYTES_MAX);
                return Ok(());
            };
            let mut end = 0;
            for (first, bytes) in firsts.into_iter().zip(bytes) {
                prop_assert!(first >= end && first < end + LINE_GRANULES);
                prop_assert_eq!(lines(first, granules(bytes)), bytes.max(1).div_ceil(LINE_BYTES));
                end = first + granules(bytes);
            }
            prop_assert_eq!(end, all);
        }

        #[test]
        fn places_are_free_fit_and_break_into_no_line_of_others(
            taken in proptest::collection::vec((0u64..GRANULES, 1u64..9), 0..400),
            near in 0u64..GRANULES - 40, held in 1u64..30, count in 1u64..40,
        ) {
            let mut map = FreeMap::full();
            map.set(0, GRANULES, true);
            taken.iter().for_each(|(first, count)| {
                map.set(*first, (*count).min(GRANULES - first), false);
            });
            map.set(near, held, false);
            let is_free_line = |line: u64| map.are_free(4 * line, 4);
            if let Some(first) = map.place_near(near, held, count) {
                prop_assert!(map.are_free(first, count) && fits(first, count));
                let own = near / 4..=(near + held - 1) / 4;
                let touched = first / 4..=(first + count - 1) / 4;
                let is_other = |line: &u64| !own.contains(line);
                prop_assert!(touched.clone().filter(is_other).all(is_free_line));
                prop_assert!(*touched.start() <= own.end() + 1);
            }
            match map.free_lines(0, count) {
                Some(first) => {
                    let touched = first / 4..=(first + count - 1) / 4;
                    prop_assert!(first % 4 == 0 && touched.into_iter().all(is_free_line));
                    let earlier = (0..first / 4).find(|line| {
                        (*line..line + count.div_ceil(4)).all(is_free_line)
                    });
                    prop_assert_eq!(earlier, None);
                }
                None => {
                    let places = 0..=GRANULES / 4 - count.div_ceil(4);
                    let is_place = |line: u64| {
                        (line..line + count.div_ceil(4)).all(is_free_line)
                    };
                    prop_assert!(!places.into_iter().any(is_place));
                }
            }
        }
    }

    #[test]
    fn a_place_near_an_object_is_on_its_line_as_long_as_there_is_room() {
        let mut map = FreeMap::full();
        map.set(0, GRANULES, true);
        map.set(0, 2, false);
        assert_eq!(map.place_near(0, 2, 2), Some(2));
        assert_eq!(map.place_near(0, 2, 3), Some(4), "it would straddle");
        assert_eq!(map.place_near(0, 2, 6), Some(2), "two lines, as it needs");
        map.set(2, 2, false);
        map.set(5, 1, false);
        assert_eq!(map.place_near(0, 2, 1), None, "the line behind is not all free");
    }
}
