//! Search and range scan without locks (FAST'18, section 4): against the direction in which records
//! move, and again if that direction has changed meanwhile.

use super::{DEAD, FastFairTree, LEFTMOST, LEVEL, LOW, SIBLING, key, left_of, pointer, word};
use seawall_memory::{Addr, Memory, MemoryExt};

/// The result of a search for a key in a node.
enum Look {
    /// The child of the key, or its tag.
    At(u64),
    /// The key belongs to a node further to the right.
    Right(Addr),
    /// The key does not exist.
    Absent,
    /// The node is no longer the one to which the pointer led.
    Lost,
}

impl FastFairTree {
    /// The pointer of a record, if it is valid and its key is `fit`. The key is read first and
    /// last, because a shift stores a pointer before its key.
    fn record<M: Memory>(
        memory: &M,
        node: Addr,
        index: u64,
        fit: impl Fn(u64) -> bool,
    ) -> Option<(u64, u64)> {
        let found = memory.load::<u64>(key(node, index));
        if !fit(found) {
            return None;
        }
        let to = memory.load::<u64>(pointer(node, index));
        let counts = to != 0
            && to != memory.load::<u64>(left_of(node, index))
            && found == memory.load::<u64>(key(node, index));
        counts.then_some((found, to))
    }

    /// The records of a node in the direction of `switch`, each at least once.
    fn records<M: Memory>(
        &self,
        memory: &M,
        (node, switch): (Addr, u64),
        fit: impl Fn(u64) -> bool + Copy,
    ) -> impl Iterator<Item = (u64, u64)> {
        let slots = self.shape.slots;
        let is_left = switch % 2 == 1;
        let end = if is_left { self.count(memory, node) } else { slots };
        let places = (0..end).map(move |place| if is_left { end - 1 - place } else { place });
        places
            .take_while(move |index| is_left || memory.load::<u64>(pointer(node, *index)) != 0)
            .filter_map(move |index| FastFairTree::record(memory, node, index, fit))
    }

    /// Searches for a key in a node of `level`.
    fn look<M: Memory>(&self, memory: &M, node: Addr, level: u64, wanted: u64) -> Look {
        loop {
            let switch = self.switch(memory, node);
            let is_it = switch & DEAD == 0
                && word(memory, node, LEVEL) == level
                && word(memory, node, LOW) <= wanted;
            if !is_it {
                return Look::Lost;
            }
            memory.work(8);
            let found = if level == 0 {
                let mut found = self.records(memory, (node, switch), move |key| key == wanted);
                found.next().map(|(_, tag)| tag)
            } else {
                Some(self.child(memory, node, switch, wanted))
            };
            let beyond = FastFairTree::beyond(memory, node, wanted);
            if self.switch(memory, node) == switch {
                return match (beyond, found) {
                    (Some(sibling), _) => Look::Right(sibling),
                    (None, Some(to)) => Look::At(to),
                    (None, None) => Look::Absent,
                };
            }
        }
    }

    /// The child of an inner node for a key.
    fn child<M: Memory>(&self, memory: &M, node: Addr, switch: u64, wanted: u64) -> u64 {
        let leftmost = word(memory, node, LEFTMOST);
        let mut children = self.records(memory, (node, switch), move |key| key <= wanted);
        let child = if switch % 2 == 1 { children.next() } else { children.last() };
        child.map_or(leftmost, |(_, child)| child)
    }

    /// A node of `level` to which a key belongs, or one to the left of it; `None` if the tree is
    /// not that high.
    pub(super) fn descend<M: Memory>(&self, memory: &M, level: u64, wanted: u64) -> Option<Addr> {
        'root: loop {
            let mut node = memory.load::<Addr>(self.root);
            let mut at = word(memory, node, LEVEL);
            if at < level {
                return None;
            }
            while at > level {
                match self.look(memory, node, at, wanted) {
                    Look::At(child) => (node, at) = (Addr::from_bits(child), at - 1),
                    Look::Right(sibling) => node = sibling,
                    Look::Absent | Look::Lost => continue 'root,
                }
            }
            return Some(node);
        }
    }

    /// The tag of a key; `None` if it does not exist. Takes no lock, and can return a tag that is
    /// not durable yet and is lost in a crash.
    #[track_caller]
    pub fn search<M: Memory>(&self, memory: &M, wanted: u64) -> Option<u64> {
        let mut node = self.descend(memory, 0, wanted)?;
        loop {
            match self.look(memory, node, 0, wanted) {
                Look::At(tag) => return Some(tag),
                Look::Absent => return None,
                Look::Right(sibling) => node = sibling,
                Look::Lost => node = self.descend(memory, 0, wanted)?,
            }
        }
    }

    /// Calls `each` with the tags of up to `most` keys from `from` on, in the order of keys;
    /// returns their number. Concurrent changes by other threads can be visible or not; except for
    /// inserts, each leaf is read as of one moment.
    #[track_caller]
    pub fn scan<M: Memory>(
        &self,
        memory: &M,
        from: u64,
        most: u64,
        mut each: impl FnMut(u64, u64),
    ) -> u64 {
        let (mut from, mut shown) = (from, 0);
        let mut node = self.descend(memory, 0, from);
        while let Some(leaf) = node {
            let Some((records, sibling)) = self.leaf(memory, leaf, from) else {
                node = self.descend(memory, 0, from);
                continue;
            };
            for (found, tag) in records {
                if found < from {
                    continue;
                }
                if shown == most {
                    return shown;
                }
                each(found, tag);
                shown += 1;
                let Some(next) = found.checked_add(1) else { return shown };
                from = next;
            }
            let Some((next, low)) = sibling else { return shown };
            (node, from) = (Some(next), from.max(low));
        }
        shown
    }

    /// The leaf's own records, in order, and its sibling with that one's least key; `None` if the
    /// leaf is neither the one to which `from` belongs nor to the left of it.
    #[expect(clippy::type_complexity, reason = "named nowhere else")]
    fn leaf<M: Memory>(
        &self,
        memory: &M,
        leaf: Addr,
        from: u64,
    ) -> Option<(Vec<(u64, u64)>, Option<(Addr, u64)>)> {
        loop {
            let switch = self.switch(memory, leaf);
            let is_one = switch & DEAD == 0
                && word(memory, leaf, LEVEL) == 0
                && word(memory, leaf, LOW) <= from;
            if !is_one {
                return None;
            }
            let mut records: Vec<_> = self.records(memory, (leaf, switch), |_| true).collect();
            let sibling = memory.load::<Addr>(leaf.plus(SIBLING));
            let sibling = (!sibling.is_null()).then(|| (sibling, word(memory, sibling, LOW)));
            if self.switch(memory, leaf) == switch {
                records.sort_unstable();
                records.dedup_by_key(|record| record.0);
                records.retain(|(key, _)| sibling.is_none_or(|(_, low)| *key < low));
                return Some((records, sibling));
            }
        }
    }
}
