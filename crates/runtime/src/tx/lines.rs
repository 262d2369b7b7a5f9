//! A set of cache lines: those that were flushed since the last fence.
//!
//! Truncating a log meets the same lines again and again, and flushing one that is in flight waits
//! for it. Open addressing over line numbers. A slot also has the number of the use in which it was
//! filled; those of earlier uses are free, so that a set is cleared in no time.

use seawall_memory::LINE_BYTES;

const SLOTS_MIN: usize = 1024;
/// Bits of a line's number: the log has addresses of 48 bits.
const LINE_BITS: u32 = 48 - LINE_BYTES.trailing_zeros();
const USE_MAX: u64 = u64::MAX >> LINE_BITS;

/// Lines by number.
#[derive(Clone, Debug)]
pub(crate) struct LineSet {
    slots: Vec<u64>,
    len: usize,
    /// The number of this use, from 1 on.
    using: u64,
}

impl Default for LineSet {
    fn default() -> LineSet {
        LineSet { slots: Vec::new(), len: 0, using: 1 }
    }
}

impl LineSet {
    pub(crate) fn clear(&mut self) {
        self.len = 0;
        if self.using == USE_MAX {
            self.slots.fill(0);
            self.using = 0;
        }
        self.using += 1;
    }

    /// Adds the line; returns false if it was in the set.
    #[inline]
    pub(crate) fn insert(&mut self, line: u64) -> bool {
        debug_assert_eq!(line >> LINE_BITS, 0, "no address of a log");
        if 2 * self.len >= self.slots.len() {
            self.grow();
        }
        let filled = self.using << LINE_BITS | line;
        let mut at = self.slot(line);
        while self.slots[at] >> LINE_BITS == self.using {
            if self.slots[at] == filled {
                return false;
            }
            at = (at + 1) % self.slots.len();
        }
        self.slots[at] = filled;
        self.len += 1;
        true
    }

    #[inline]
    fn slot(&self, line: u64) -> usize {
        let hashed = line.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hashed >> 32) as usize & (self.slots.len() - 1)
    }

    fn grow(&mut self) {
        let slots = (2 * self.slots.len()).max(SLOTS_MIN);
        let old = std::mem::replace(&mut self.slots, vec![0; slots]);
        self.len = 0;
        let using = self.using;
        for slot in old.into_iter().filter(|slot| slot >> LINE_BITS == using) {
            self.insert(slot & ((1 << LINE_BITS) - 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn a_line_is_new_once(lines in proptest::collection::vec(0u64..3000, 0..3000)) {
            let (mut set, mut model) = (LineSet::default(), HashSet::new());
            set.using = USE_MAX - 1;
            for round in 0..3 {
                for line in &lines {
                    prop_assert_eq!(set.insert(*line), model.insert(*line), "round {}", round);
                }
                set.clear();
                model.clear();
            }
        }
    }
}
