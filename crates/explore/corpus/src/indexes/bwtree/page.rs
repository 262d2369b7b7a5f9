//! What lies in the pool: records, the chain of records that is a page, and the page it stands for.
//!
//! A record never changes once it can be reached. Each has the level, the length of the chain
//! below it, and the number of items, high key and right sibling of the page that it is the top
//! of, so that most visitors read the top only.

use crate::kit::{Words, ensure, word};
use seawall_memory::{Addr, LINE_BYTES, Memory};

/// The high key of a page without a right sibling; no key is as large.
pub(super) const END: u64 = u64::MAX;

/// Bytes of a delta record.
pub(super) const DELTA_BYTES: u64 = LINE_BYTES;

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// All items of the page, in order.
    Base = 1,
    /// The leaf has one more key.
    Insert,
    /// The leaf has one key less.
    Delete,
    /// The inner page has one more separator: an index term.
    Index,
    /// The upper part of the page has moved to a right sibling.
    Split,
}

const KINDS: [Kind; 5] = [Kind::Base, Kind::Insert, Kind::Delete, Kind::Index, Kind::Split];

/// The first word of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    /// 0 for a leaf.
    pub(super) level: u64,
    /// Deltas from here down to the base.
    pub(super) depth: u64,
    /// Items of the page.
    pub(super) items: u64,
}

impl Header {
    fn bits(self) -> u64 {
        self.kind as u64 | self.level << 8 | self.depth << 16 | self.items << 32
    }

    /// The header of the record at `at`.
    pub(super) fn read<M: Memory>(memory: &M, at: Addr) -> Result<Header, String> {
        let bits = memory.get(at);
        let kind = KINDS.into_iter().find(|kind| *kind as u64 == bits & 0xff);
        let kind = kind.ok_or_else(|| format!("there is no record at {at}"))?;
        let (level, depth, items) = (bits >> 8 & 0xff, bits >> 16 & 0xffff, bits >> 32);
        Ok(Header { kind, level, depth, items })
    }

    /// As [`read`](Header::read), where a record is known to be.
    pub(super) fn of<M: Memory>(memory: &M, at: Addr) -> Header {
        Header::read(memory, at).expect("a page consists of records")
    }
}

/// The high key of the page that the record is the top of.
pub(super) fn high(record: Addr) -> Addr {
    word(record, 1)
}

/// The id of the right sibling, or 0.
pub(super) fn right(record: Addr) -> Addr {
    word(record, 2)
}

/// The next record of the chain; the low key in a base.
pub(super) fn next(record: Addr) -> Addr {
    word(record, 3)
}

/// The key of a delta: of an item, or the separator.
pub(super) fn delta_key(record: Addr) -> Addr {
    word(record, 4)
}

/// The value of a delta: of an item, or the id of a child or sibling.
pub(super) fn delta_value(record: Addr) -> Addr {
    word(record, 5)
}

/// Where the range of an index term ends.
pub(super) fn delta_end(record: Addr) -> Addr {
    word(record, 6)
}

/// The key of an item of a base; its value is behind it.
fn item(base: Addr, index: u64) -> Addr {
    word(base, 4 + 2 * index)
}

/// Bytes of a base with so many items.
pub(super) fn base_bytes(items: usize) -> u64 {
    item(Addr::NULL, items as u64).offset().next_multiple_of(LINE_BYTES)
}

/// The top of the chain of a page, as a visitor has read it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Top {
    /// The page.
    pub(super) id: u64,
    /// The record that its entry of the mapping table led to.
    pub(super) record: Addr,
    pub(super) header: Header,
    pub(super) high: u64,
}

impl Top {
    /// The header of a delta on this record, after which the page has so many items.
    pub(super) fn header_above(&self, kind: Kind, items: u64) -> Header {
        Header { kind, depth: self.header.depth + 1, items, ..self.header }
    }
}

/// A delta record before it is in the pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delta {
    pub(super) header: Header,
    pub(super) high: u64,
    pub(super) right: u64,
    pub(super) next: Addr,
    pub(super) key: u64,
    pub(super) value: u64,
    /// Where the range of an index term ends; else 0.
    pub(super) end: u64,
}

impl Delta {
    /// Writes the record to `at` and starts to write it back.
    pub(super) fn write<M: Memory>(&self, memory: &M, at: Addr) {
        memory.put(at, self.header.bits());
        memory.put(high(at), self.high);
        memory.put(right(at), self.right);
        memory.put(next(at), self.next.bits());
        memory.put(delta_key(at), self.key);
        memory.put(delta_value(at), self.value);
        memory.put(delta_end(at), self.end);
        memory.flush(at, DELTA_BYTES);
    }
}

/// What a chain stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) level: u64,
    pub(super) low: u64,
    pub(super) high: u64,
    pub(super) right: u64,
    /// Keys with values, or separators with the ids of children; the first separator is the low
    /// key.
    pub(super) items: Vec<(u64, u64)>,
}

impl Page {
    /// Follows the chain from its top.
    ///
    /// # Errors
    /// In which way it is no chain.
    pub(super) fn read<M: Memory>(memory: &M, top: Addr) -> Result<Page, String> {
        let first = Header::read(memory, top)?;
        let (mut deltas, mut at, mut header) = (Vec::new(), top, first);
        while header.kind != Kind::Base {
            deltas.push((header, at));
            at = memory.follow(next(at))?;
            let below = Header::read(memory, at)?;
            ensure(below.depth + 1 == header.depth, "a chain has a wrong length")?;
            ensure(below.level == header.level, "a chain has records of two levels")?;
            header = below;
        }
        ensure(header.depth == 0, "a base is not the end of its chain")?;
        let mut page = Page {
            level: first.level,
            low: memory.get(next(at)),
            high: memory.get(high(top)),
            right: memory.get(right(top)),
            items: (0..header.items).map(|index| item_at(memory, at, index)).collect(),
        };
        for (header, at) in deltas.into_iter().rev() {
            page.apply(header.kind, memory.get(delta_key(at)), memory.get(delta_value(at)))?;
            let counted = page.items.len() as u64 == header.items;
            ensure(counted, "a record counts other items than its page has")?;
        }
        Ok(page)
    }

    fn apply(&mut self, kind: Kind, key: u64, value: u64) -> Result<(), String> {
        let place = self.items.binary_search_by_key(&key, |(key, _)| *key);
        match (kind, place) {
            (Kind::Insert | Kind::Index, Err(place)) => self.items.insert(place, (key, value)),
            (Kind::Delete, Ok(place)) => {
                self.items.remove(place);
            }
            (Kind::Split, Ok(place) | Err(place)) => self.items.truncate(place),
            _ => return Err(format!("a delta does not fit its page: {kind:?} of {key}")),
        }
        Ok(())
    }

    /// Writes a base with all of this to `at` and starts to write it back.
    pub(super) fn write<M: Memory>(&self, memory: &M, at: Addr) {
        let items = self.items.len() as u64;
        let header = Header { kind: Kind::Base, level: self.level, depth: 0, items };
        memory.put(at, header.bits());
        memory.put(high(at), self.high);
        memory.put(right(at), self.right);
        memory.put(next(at), self.low);
        for (index, (key, value)) in (0..).zip(&self.items) {
            memory.put(item(at, index), *key);
            memory.put(item(at, index).plus(8), *value);
        }
        memory.flush(at, base_bytes(self.items.len()));
    }

    /// Whether all keys are in order and in the range of the page.
    pub(super) fn check(&self) -> Result<(), String> {
        ensure(self.low < self.high, "a page has an empty range")?;
        ensure((self.right == 0) == (self.high == END), "the last page has a sibling")?;
        let in_order = self.items.windows(2).all(|pair| pair[0].0 < pair[1].0);
        ensure(in_order, "the keys of a page are not in order")?;
        let in_range = self.items.iter().all(|(key, _)| (self.low..self.high).contains(key));
        ensure(in_range, "a key is outside the range of its page")?;
        let first = self.items.first().map(|(key, _)| *key);
        let has_first = self.level == 0 || first == Some(self.low);
        ensure(has_first, "an inner page has no child for its lowest keys")
    }
}

fn item_at<M: Memory>(memory: &M, base: Addr, index: u64) -> (u64, u64) {
    (memory.get(item(base, index)), memory.get(item(base, index).plus(8)))
}

/// Items of a base whose keys are at most `key`.
fn items_up_to<M: Memory>(memory: &M, base: Addr, items: u64, key: u64) -> u64 {
    let (mut from, mut to) = (0, items);
    while from < to {
        let middle = from.midpoint(to);
        if memory.get(item(base, middle)) <= key {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    from
}

/// The child of an inner page for `key`, and where its range ends. The newest record that knows
/// decides; records above it can only have cut the range.
pub(super) fn child_for<M: Memory>(memory: &M, top: &Top, key: u64) -> (u64, u64) {
    let (mut at, mut header, mut end) = (top.record, top.header, top.high);
    while header.kind != Kind::Base {
        if header.kind == Kind::Index {
            let separator = memory.get(delta_key(at));
            let upto = memory.get(delta_end(at));
            if key < separator {
                end = end.min(separator);
            } else if key < upto {
                return (memory.get(delta_value(at)), end.min(upto));
            }
        }
        at = Addr::from_bits(memory.get(next(at)));
        header = Header::of(memory, at);
    }
    let upper = items_up_to(memory, at, header.items, key);
    if upper < header.items {
        end = end.min(memory.get(item(at, upper)));
    }
    (memory.get(item(at, upper - 1).plus(8)), end)
}

/// The value of a key of a leaf.
pub(super) fn value_for<M: Memory>(memory: &M, top: &Top, key: u64) -> Option<u64> {
    let (mut at, mut header) = (top.record, top.header);
    while header.kind != Kind::Base {
        let is_item = header.kind != Kind::Split;
        if is_item && memory.get(delta_key(at)) == key {
            return (header.kind == Kind::Insert).then(|| memory.get(delta_value(at)));
        }
        at = Addr::from_bits(memory.get(next(at)));
        header = Header::of(memory, at);
    }
    let upper = items_up_to(memory, at, header.items, key);
    let (found, value) = item_at(memory, at, upper.checked_sub(1)?);
    (found == key).then_some(value)
}
