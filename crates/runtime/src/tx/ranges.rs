//! A set of bytes, as ranges that neither overlap nor touch.
//!
//! Most transactions change a few ranges, one after the other, so a short sorted list serves. One
//! that changes many has a tree.

use seawall_memory::{Addr, LINE_BYTES};
use std::collections::BTreeMap;

/// The number of ranges up to which a list is faster than a tree.
const LISTED: usize = 48;

/// Disjoint ranges of addresses, by their starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    list: Vec<(u64, u64)>,
    /// All ranges, if there were too many for the list.
    tree: BTreeMap<u64, u64>,
}

impl Ranges {
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        if !self.tree.is_empty() {
            self.tree.clear();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty() && self.tree.is_empty()
    }

    /// Adds the bytes from `start` to `end`.
    #[inline]
    pub(crate) fn add(&mut self, start: Addr, end: Addr) {
        let (start, end) = (start.bits(), end.bits());
        if start < end {
            if self.tree.is_empty() {
                self.add_listed(start, end)
            } else {
                self.add_to_tree(start, end)
            }
        }
    }

    #[inline]
    fn add_listed(&mut self, start: u64, end: u64) {
        let from = self.list.partition_point(|range| range.1 < start);
        let joined = self.list[from..].iter().take_while(|range| range.0 <= end).count();
        if joined > 0 {
            let (first, last) = (self.list[from], self.list[from + joined - 1]);
            self.list[from] = (first.0.min(start), last.1.max(end));
            self.list.drain(from + 1..from + joined);
        } else if self.list.len() < LISTED {
            self.list.insert(from, (start, end));
        } else {
            self.tree.extend(self.list.drain(..));
            self.add_to_tree(start, end);
        }
    }

    #[inline(never)]
    fn add_to_tree(&mut self, mut start: u64, mut end: u64) {
        while let Some((first, last)) = self.tree.range(..=end).next_back().map(|(a, b)| (*a, *b))
            && last >= start
        {
            (start, end) = (first.min(start), last.max(end));
            self.tree.remove(&first);
        }
        self.tree.insert(start, end);
    }

    /// Calls `each` with the parts of the bytes from `start` to `end` that are not in the set, in
    /// order.
    #[inline]
    pub(crate) fn missing(&self, start: Addr, end: Addr, mut each: impl FnMut(Addr, Addr)) {
        let mut at = start.bits();
        let mut gap = |at: u64, to: u64| each(Addr::from_bits(at), Addr::from_bits(to));
        for (first, last) in self.from(start.bits()) {
            if first >= end.bits() {
                break;
            }
            if at < first {
                gap(at, first);
            }
            at = at.max(last);
        }
        if at < end.bits() {
            gap(at, end.bits());
        }
    }

    /// Whether one of these bytes is in the set.
    #[inline]
    pub(crate) fn overlaps(&self, start: Addr, end: Addr) -> bool {
        self.from(start.bits())
            .next()
            .is_some_and(|(first, _)| first.max(start.bits()) < end.bits())
    }

    /// The ranges that end behind `start`.
    #[inline]
    fn from(&self, start: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let listed = self.list.partition_point(|range| range.1 <= start);
        let before = self.tree.range(..start).next_back().filter(|(_, last)| **last > start);
        let rest = before.into_iter().chain(self.tree.range(start..));
        self.list[listed..].iter().copied().chain(rest.map(|(first, last)| (*first, *last)))
    }

    /// The ranges: start and end.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Addr, Addr)> + '_ {
        self.from(0).map(|(start, end)| (Addr::from_bits(start), Addr::from_bits(end)))
    }

    /// Adds all bytes of the lines that hold these.
    #[inline]
    pub(crate) fn add_lines(&mut self, start: Addr, end: Addr) {
        let up = Addr::from_bits(end.bits().next_multiple_of(LINE_BYTES));
        self.add(start.line().start(), up);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_set_of_ranges_is_a_set_of_bytes(
            adds in proptest::collection::vec((0u64..2000, 0u64..30), 0..300),
            asked in proptest::collection::vec((0u64..2000, 0u64..100), 10),
        ) {
            let (mut ranges, mut model) = (Ranges::default(), BTreeSet::new());
            let at = |byte: u64| Addr::pm(byte);
            for round in 0..2 {
                for (start, bytes) in &adds {
                    ranges.add(at(*start), at(start + bytes));
                    model.extend(*start..start + bytes);
                }
                let mut bytes = Vec::new();
                let mut last = None;
                for (start, end) in ranges.iter() {
                    prop_assert!(last < Some(start) && start < end, "apart, in order: {}", round);
                    last = Some(end);
                    bytes.extend(start.bits()..end.bits());
                }
                prop_assert_eq!(&bytes, &model.iter().copied().collect::<Vec<u64>>());
                prop_assert_eq!(ranges.is_empty(), model.is_empty());
                for (start, bytes) in &asked {
                    let mut missing = Vec::new();
                    ranges.missing(at(*start), at(start + bytes), |from, to| {
                        missing.extend(from.bits()..to.bits());
                    });
                    let asked = *start..start + bytes;
                    let absent: Vec<u64> = asked.clone().filter(|b| !model.contains(b)).collect();
                    prop_assert_eq!(missing, absent);
                    let any = model.range(asked).next().is_some();
                    prop_assert_eq!(ranges.overlaps(at(*start), at(start + bytes)), any);
                }
                ranges.clear();
                model.clear();
            }
        }
    }
}
