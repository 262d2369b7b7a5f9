//! Which addresses are persistent memory: the mappings that were made, less what was unmapped.

use seawall_native::OfProcess;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Ranges of addresses, none of which touch: the start of each, and its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges(BTreeMap<usize, usize>);

static MAPPED: OfProcess<RwLock<Ranges>> = OfProcess::new();

/// The ranges of this process. The child of a fork has the mappings of its parent: it begins with a
/// copy of these, or none if a thread of the parent was changing them.
fn of_process() -> &'static RwLock<Ranges> {
    MAPPED.get_or_make(|| {
        let of_parent = MAPPED.inherited().next().and_then(|mapped| mapped.try_read().ok());
        RwLock::new(of_parent.map_or_else(Ranges::default, |mapped| mapped.clone()))
    })
}

/// The ranges of this process, to look at.
pub(crate) fn mapped() -> RwLockReadGuard<'static, Ranges> {
    of_process().read().unwrap_or_else(PoisonError::into_inner)
}

/// The ranges of this process, to change.
pub(crate) fn mapped_mut() -> RwLockWriteGuard<'static, Ranges> {
    of_process().write().unwrap_or_else(PoisonError::into_inner)
}

impl Ranges {
    pub(crate) fn add(&mut self, range: Range<usize>) {
        self.remove(range.clone());
        let before = self.0.range(..=range.start).next_back().map(|(start, end)| (*start, *end));
        let after = self.0.get(&range.end).copied();
        let start = before.filter(|(_, end)| *end == range.start).map(|(start, _)| start);
        if after.is_some() {
            self.0.remove(&range.end);
        }
        if !range.is_empty() {
            self.0.insert(start.unwrap_or(range.start), after.unwrap_or(range.end));
        }
    }

    pub(crate) fn remove(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let meets = |&(start, end): &(usize, usize)| start < range.end && range.start < end;
        let before = self.0.range(..range.end).rev().map(|(start, end)| (*start, *end));
        let met: Vec<(usize, usize)> = before.take_while(meets).collect();
        for (start, end) in met {
            self.0.remove(&start);
            if start < range.start {
                self.0.insert(start, range.start);
            }
            if range.end < end {
                self.0.insert(range.end, end);
            }
        }
    }

    /// True if every byte of a range that has one is here.
    pub(crate) fn cover(&self, range: Range<usize>) -> bool {
        let around = self.0.range(..=range.start).next_back();
        !range.is_empty() && around.is_some_and(|(_, end)| range.end <= *end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_hold_what_a_list_of_bytes_holds(
            steps in prop::collection::vec((any::<bool>(), 0usize..40, 0usize..12), 0..40),
            start in 0usize..50,
            len in 0usize..20,
        ) {
            let mut ranges = Ranges::default();
            let mut bytes = [false; 80];
            for (add, start, len) in steps {
                bytes[start..start + len].fill(add);
                match add {
                    true if len > 0 => ranges.add(start..start + len),
                    true => {}
                    false => ranges.remove(start..start + len),
                }
            }
            let all = len > 0 && bytes[start..start + len].iter().all(|byte| *byte);
            prop_assert_eq!(ranges.cover(start..start + len), all, "{:?}", ranges);
        }
    }

    #[test]
    fn mappings_that_touch_cover_what_lies_over_both() {
        let mut ranges = Ranges::default();
        ranges.add(8..16);
        ranges.add(0..8);
        ranges.add(16..24);
        assert!(ranges.cover(0..24) && !ranges.cover(0..25));
        ranges.remove(8..9);
        assert!(ranges.cover(0..8) && ranges.cover(9..24) && !ranges.cover(7..9));
    }
}
