//! A set of bytes, as disjoint ranges in order.
//!
//! Most transactions change a few ranges, one after the other, and ask for a range again that they
//! have just added. So the ranges are a list, the last one that was found is tried first, and a new
//! one behind all others is appended. A list that becomes long by others is split in two, so that
//! a range in the middle moves few.

use seawall_memory::{Addr, LINE_BYTES};

/// The number of ranges at which a list is split, or another begun behind it.
const LISTED: usize = 256;

type Range = (u64, u64);

/// Disjoint ranges of addresses: start and end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    /// Lists of ranges. Only the first can be empty, if it is the only one.
    lists: Vec<Vec<Range>>,
    /// The range that was added or found last.
    last: Range,
}

impl Ranges {
    #[inline]
    pub(crate) fn clear(&mut self) {
        if !self.is_empty() {
            self.lists.truncate(1);
            self.lists[0].clear();
            self.last = (0, 0);
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.lists.first().is_none_or(Vec::is_empty)
    }

    /// Adds the bytes from `start` to `end`.
    #[inline]
    pub(crate) fn add(&mut self, start: Addr, end: Addr) {
        let (start, end) = (start.bits(), end.bits());
        if start >= end || self.is_last(start, end) {
            return;
        }
        match self.lists.last_mut().and_then(|list| list.last_mut()) {
            Some(back) if start < back.0 => self.add_before(start, end),
            Some(back) if start <= back.1 => {
                back.1 = back.1.max(end);
                self.last = *back;
            }
            _ => self.push((start, end)),
        }
    }

    /// Puts in a range behind all others.
    #[inline]
    fn push(&mut self, range: Range) {
        match self.lists.last_mut() {
            Some(list) if list.len() < LISTED => list.push(range),
            _ => self.lists.push(Vec::from([range])),
        }
        self.last = range;
    }

    /// Adds bytes of which the first is before the last range.
    #[inline(never)]
    fn add_before(&mut self, mut start: u64, end: u64) {
        while start < end && !self.is_last(start, end) {
            let (list, at) = self.find(start);
            match self.get(list, at) {
                Some((first, last)) if first <= start => {
                    self.last = (first, last);
                    start = last;
                }
                next => {
                    let stop = next.map_or(end, |(first, _)| first.min(end));
                    self.insert(list, at, (start, stop));
                    start = stop;
                }
            }
        }
    }

    /// Whether one range has all bytes from `start` to `end`, which is then the one found last.
    #[inline]
    pub(super) fn holds(&mut self, start: Addr, end: Addr) -> bool {
        let (start, end) = (start.bits(), end.bits());
        if self.is_last(start, end) {
            return true;
        }
        let (list, at) = self.find(start);
        match self.get(list, at) {
            Some(range) if range.0 <= start && end <= range.1 => {
                self.last = range;
                true
            }
            _ => false,
        }
    }

    /// Whether the range that was added or found last has all bytes from `start` to `end`.
    #[inline]
    fn is_last(&self, start: u64, end: u64) -> bool {
        self.last.0 <= start && end <= self.last.1
    }

    /// The place of the first range that ends behind `start`.
    #[inline]
    fn find(&self, start: u64) -> (usize, usize) {
        let ends_before = |range: &Range| range.1 <= start;
        let Some(back) = self.lists.len().checked_sub(1) else { return (0, 0) };
        if self.lists[back].last().is_some_and(ends_before) {
            return (back, self.lists[back].len());
        }
        let list = self.lists.partition_point(|list| list.last().is_some_and(ends_before));
        (list, self.lists[list].partition_point(ends_before))
    }

    #[inline]
    fn get(&self, list: usize, at: usize) -> Option<Range> {
        self.lists.get(list)?.get(at).copied()
    }

    /// Puts in a range before that place, or joins it with the one before.
    fn insert(&mut self, list: usize, at: usize, range: Range) {
        let ranges = &mut self.lists[list];
        match at.checked_sub(1).and_then(|before| ranges.get_mut(before)) {
            Some(before) if before.1 == range.0 => {
                before.1 = range.1;
                self.last = *before;
            }
            _ => {
                ranges.insert(at, range);
                self.last = range;
            }
        }
        if ranges.len() > LISTED {
            let rest = ranges.split_off(LISTED / 2);
            self.lists.insert(list + 1, rest);
        }
    }

    /// Calls `each` with the parts of the bytes from `start` to `end` that are not in the set, in
    /// order.
    #[inline]
    pub(crate) fn missing(&self, start: Addr, end: Addr, mut each: impl FnMut(Addr, Addr)) {
        let (mut at, end) = (start.bits(), end.bits());
        let mut gap = |at: u64, to: u64| each(Addr::from_bits(at), Addr::from_bits(to));
        if self.span().is_none_or(|(first, last)| end <= first || last <= at) {
            return if at < end {
                gap(at, end)
            };
        }
        if self.is_last(at, end) {
            return;
        }
        for (first, last) in self.from(at) {
            if first >= end {
                break;
            }
            if at < first {
                gap(at, first);
            }
            at = at.max(last);
        }
        if at < end {
            gap(at, end);
        }
    }

    /// The first byte of all, and the end of the last range.
    #[inline]
    fn span(&self) -> Option<Range> {
        Some((self.lists.first()?.first()?.0, self.lists.last()?.last()?.1))
    }

    /// Whether one of these bytes is in the set.
    #[inline]
    pub(crate) fn overlaps(&self, start: Addr, end: Addr) -> bool {
        let first = self.from(start.bits()).next();
        first.is_some_and(|(first, _)| first.max(start.bits()) < end.bits())
    }

    /// The ranges that end behind `start`.
    #[inline]
    fn from(&self, start: u64) -> impl Iterator<Item = Range> + '_ {
        let (list, at) = self.find(start);
        let first = self.lists.get(list).map_or(&[][..], |list| &list[at..]);
        let rest = self.lists.get(list + 1..).unwrap_or_default().iter().flatten();
        first.iter().chain(rest).copied()
    }

    /// The ranges: start and end.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Addr, Addr)> + '_ {
        let ranges = self.lists.iter().flatten();
        ranges.map(|(start, end)| (Addr::from_bits(*start), Addr::from_bits(*end)))
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
            adds in proptest::collection::vec((0u64..9000, 0u64..30), 0..1500),
            asked in proptest::collection::vec((0u64..9000, 0u64..100), 10),
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
                    prop_assert!(last <= Some(start) && start < end, "in order: {}", round);
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
                    let one = ranges.iter().any(|(from, to)| {
                        from <= at(*start) && at(start + bytes) <= to
                    });
                    let is_held = ranges.holds(at(*start), at(start + bytes));
                    prop_assert!(is_held == one || *bytes == 0);
                    let any = model.range(asked).next().is_some();
                    prop_assert_eq!(ranges.overlaps(at(*start), at(start + bytes)), any);
                }
                ranges.clear();
                model.clear();
            }
        }
    }
}
