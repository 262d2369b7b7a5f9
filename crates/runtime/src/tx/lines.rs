//! A set of cache lines: those that were flushed since the last fence.
//!
//! Truncating a log meets the same lines again and again, and flushing one that is in flight waits
//! for it. Open addressing over line numbers; line 0 is the pool's header, which no log writes.

const SLOTS_MIN: usize = 1024;

/// Lines by number, without 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct LineSet {
    slots: Vec<u64>,
    len: usize,
}

impl LineSet {
    pub(crate) fn clear(&mut self) {
        if self.len > 0 {
            self.slots.fill(0);
            self.len = 0;
        }
    }

    /// Adds the line; returns false if it was in the set.
    #[inline]
    pub(crate) fn insert(&mut self, line: u64) -> bool {
        debug_assert_ne!(line, 0, "the pool's header is in no log");
        if 2 * self.len >= self.slots.len() {
            self.grow();
        }
        let mut at = self.slot(line);
        loop {
            match self.slots[at] {
                0 => break,
                known if known == line => return false,
                _ => at = (at + 1) % self.slots.len(),
            }
        }
        self.slots[at] = line;
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
        for line in old.into_iter().filter(|line| *line != 0) {
            self.insert(line);
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
        fn a_line_is_new_once(lines in proptest::collection::vec(1u64..3000, 0..3000)) {
            let (mut set, mut model) = (LineSet::default(), HashSet::new());
            for round in 0..2 {
                for line in &lines {
                    prop_assert_eq!(set.insert(*line), model.insert(*line), "round {}", round);
                }
                set.clear();
                model.clear();
            }
        }
    }
}
