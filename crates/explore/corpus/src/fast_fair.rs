//! A B+-tree whose nodes stay readable between any two stores, with the bugs of the published one.
//!
//! "Endurable Transient Inconsistency in Byte-Addressable Persistent B+-Tree" (Hwang, Kim, Won,
//! Nam, FAST'18). A node is sorted. An insert shifts records to the right one by one (FAST): the
//! pointer first, so that a record whose pointer equals that of its left neighbour is no record.
//! A line is durable before the next one to the left changes; within a line, stores persist in
//! order. A split (FAIR) makes the new node durable, links it as sibling, cuts the old one, and
//! only then adds it to the parent: readers that miss a key go on to the sibling.
//!
//! [`FastFair`] is a correct program for measurements: inserts, then a recovery that searches each
//! key and walks the leaves. The bugs (`ff-1` and so on of `seawall list corpus`) are planted in
//! `fast_fair_bugs.rs`.

use crate::kit::{Words, ensure, inserted, line, word};
use crate::program::{About, BugKind, Found, Program};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};

/// Where the pointer to the root is.
const ROOT: Addr = line(1);
/// Where the next free byte of the pool is noted.
const NEXT: Addr = line(2);
const FIRST_NODE: u64 = 4;

/// What is planted; nothing in a correct tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    /// A shift to the left flushes by the rule of a shift to the right.
    ShiftLeft,
    /// The new root is not flushed.
    Root,
    /// The fields of a new node are not flushed.
    Header,
    /// The first insert flushes one line from the start of the node.
    EmptyNode,
    /// A split does not wait until the sibling is durable before it links it.
    SplitEarly,
}

/// The tree: records in a node, and what is wrong with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tree {
    /// Records in a node with the one that ends it; a multiple of 4.
    pub(crate) slots: u64,
    pub(crate) flaw: Flaw,
}

/// A node's header line: leftmost child, sibling, level; records from the next line.
pub(crate) fn leftmost(node: Addr) -> Addr {
    node
}

pub(crate) fn sibling(node: Addr) -> Addr {
    word(node, 1)
}

pub(crate) fn level(node: Addr) -> Addr {
    word(node, 2)
}

pub(crate) fn key(node: Addr, index: u64) -> Addr {
    node.plus(LINE_BYTES + 16 * index)
}

pub(crate) fn pointer(node: Addr, index: u64) -> Addr {
    key(node, index).plus(8)
}

fn starts_line(at: Addr) -> bool {
    at == at.line().start()
}

/// Copies the upper half of a node of `count` records to its new sibling; gives the key that
/// parts them, and the records that the sibling has. The middle record of an inner node becomes the
/// sibling's leftmost child.
pub(crate) fn copy_half<M: Memory>(memory: &M, node: Addr, count: u64, right: Addr) -> (u64, u64) {
    let half = count / 2;
    let is_leaf = memory.get(level(node)) == 0;
    let from = if is_leaf { half } else { half + 1 };
    for index in from..count {
        memory.put(key(right, index - from), memory.get(key(node, index)));
        memory.put(pointer(right, index - from), memory.get(pointer(node, index)));
    }
    if !is_leaf {
        memory.put(leftmost(right), memory.get(pointer(node, half)));
    }
    memory.put(level(right), memory.get(level(node)));
    memory.put(sibling(right), memory.get(sibling(node)));
    (memory.get(key(node, half)), count - from)
}

impl Tree {
    pub(crate) fn node_bytes(&self) -> u64 {
        LINE_BYTES + 16 * self.slots
    }

    /// Makes an empty tree.
    pub(crate) fn create<M: Memory>(&self, memory: &M) {
        let node = line(FIRST_NODE);
        memory.put_persist(NEXT, node.plus(self.node_bytes()).bits());
        memory.put_persist(ROOT, node.bits());
    }

    fn allocate<M: Memory>(&self, memory: &M) -> Addr {
        let node = memory.get(NEXT);
        memory.put_persist(NEXT, node + self.node_bytes());
        Addr::from_bits(node)
    }

    /// Records before the one that ends the node. The first pointer may be null for a moment, as
    /// a leaf's leftmost child is what it is set to.
    pub(crate) fn count<M: Memory>(&self, memory: &M, node: Addr) -> u64 {
        match (1..self.slots).find(|&index| memory.get(pointer(node, index)) == 0) {
            Some(1) if memory.get(pointer(node, 0)) == 0 => 0,
            end => end.unwrap_or(self.slots),
        }
    }

    /// The valid records of a node, as a reader sees them.
    pub(crate) fn records<M: Memory>(&self, memory: &M, node: Addr) -> Vec<(u64, u64)> {
        let (mut records, mut left) = (Vec::new(), memory.get(leftmost(node)));
        for index in 0..self.slots {
            let here = memory.get(pointer(node, index));
            if here == 0 && index > 0 {
                break;
            }
            if here != left {
                records.push((memory.get(key(node, index)), here));
            }
            left = here;
        }
        records
    }

    /// The node of `level` that should hold `wanted`.
    fn descend<M: Memory>(&self, memory: &M, wanted: u64, to: u64) -> Addr {
        let mut node = Addr::from_bits(memory.get(ROOT));
        loop {
            let next = Addr::from_bits(memory.get(sibling(node)));
            if !next.is_null() && memory.get(key(next, 0)) <= wanted {
                node = next;
            } else if memory.get(level(node)) == to {
                return node;
            } else {
                let records = self.records(memory, node);
                let child = records.iter().rev().find(|(key, _)| *key <= wanted);
                let child = child.map_or(memory.get(leftmost(node)), |(_, child)| *child);
                node = Addr::from_bits(child);
            }
        }
    }

    /// The value of a key.
    pub(crate) fn search<M: Memory>(&self, memory: &M, wanted: u64) -> Option<u64> {
        let node = self.descend(memory, wanted, 0);
        let records = self.records(memory, node);
        records.iter().find(|(key, _)| *key == wanted).map(|(_, value)| *value)
    }

    /// Adds a key that is not there; `value` is not 0 and no other record has it.
    pub(crate) fn insert<M: Memory>(&self, memory: &M, new: u64, value: u64) {
        self.insert_at(memory, new, value, 0);
    }

    fn insert_at<M: Memory>(&self, memory: &M, new: u64, value: u64, at_level: u64) {
        let node = self.descend(memory, new, at_level);
        let count = self.count(memory, node);
        if count + 1 < self.slots {
            return self.shift_in(memory, node, count, new, value);
        }
        let (middle, right) = self.split(memory, node, count);
        let half = if new < middle { node } else { right };
        let count = self.count(memory, half);
        self.shift_in(memory, half, count, new, value);
        if memory.get(ROOT) == node.bits() {
            self.new_root(memory, node, middle, right);
        } else {
            self.insert_at(memory, middle, right.bits(), at_level + 1);
        }
    }

    /// FAST: shifts larger records to the right, from the end, and puts the new one in the gap.
    pub(crate) fn shift_in<M: Memory>(
        &self,
        memory: &M,
        node: Addr,
        count: u64,
        new: u64,
        value: u64,
    ) {
        memory.put(pointer(node, count + 1), 0);
        if starts_line(key(node, count + 1)) {
            memory.flush(key(node, count + 1), 16);
            memory.order();
        }
        let mut place = count;
        while place > 0 && memory.get(key(node, place - 1)) > new {
            memory.put(pointer(node, place), memory.get(pointer(node, place - 1)));
            memory.put(key(node, place), memory.get(key(node, place - 1)));
            if starts_line(key(node, place)) {
                memory.flush(key(node, place), 16);
                memory.order();
            }
            place -= 1;
        }
        let left = if place == 0 { leftmost(node) } else { pointer(node, place - 1) };
        if count > 0 {
            memory.put(pointer(node, place), memory.get(left));
        }
        memory.put(key(node, place), new);
        memory.put(pointer(node, place), value);
        if count == 0 && self.flaw == Flaw::EmptyNode {
            memory.persist(node, LINE_BYTES);
        } else {
            memory.persist(key(node, place), 16);
        }
    }

    /// FAIR: moves the upper half to a new sibling; gives its smallest key and the sibling.
    fn split<M: Memory>(&self, memory: &M, node: Addr, count: u64) -> (u64, Addr) {
        let right = self.allocate(memory);
        let (middle, _) = copy_half(memory, node, count, right);
        match self.flaw {
            Flaw::Header => memory.flush(key(right, 0), 16 * self.slots),
            _ => memory.flush(right, self.node_bytes()),
        }
        if self.flaw != Flaw::SplitEarly {
            memory.order();
        }
        memory.put_persist(sibling(node), right.bits());
        memory.put_persist(pointer(node, count / 2), 0);
        (middle, right)
    }

    fn new_root<M: Memory>(&self, memory: &M, left: Addr, middle: u64, right: Addr) {
        let root = self.allocate(memory);
        memory.put(leftmost(root), left.bits());
        memory.put(level(root), memory.get(level(left)) + 1);
        memory.put(key(root, 0), middle);
        memory.put(pointer(root, 0), right.bits());
        if self.flaw != Flaw::Root {
            memory.flush(root, self.node_bytes());
        }
        memory.order();
        memory.put_persist(ROOT, root.bits());
    }

    /// Takes out the first copy of a key; false if there is none. The copy that a crashed insert
    /// may have left beside it becomes a record.
    pub(crate) fn delete_one<M: Memory>(&self, memory: &M, old: u64) -> bool {
        let node = self.descend(memory, old, 0);
        let count = self.count(memory, node);
        let mut left = memory.get(leftmost(node));
        let found = (0..count).find(|&index| {
            let here = memory.get(pointer(node, index));
            let is_valid = here != std::mem::replace(&mut left, here);
            is_valid && memory.get(key(node, index)) == old
        });
        let Some(first) = found else { return false };
        self.shift_out(memory, node, first, count);
        true
    }

    /// Shifts the records after `first` to the left, over it.
    pub(crate) fn shift_out<M: Memory>(&self, memory: &M, node: Addr, first: u64, count: u64) {
        let left = if first == 0 { leftmost(node) } else { pointer(node, first - 1) };
        memory.put(pointer(node, first), memory.get(left));
        for index in first..count {
            memory.put(key(node, index), memory.get(key(node, index + 1)));
            memory.put(pointer(node, index), memory.get(pointer(node, index + 1)));
            let done = if self.flaw == Flaw::ShiftLeft { index } else { index + 1 };
            if starts_line(key(node, done)) {
                memory.flush(key(node, index), 16);
                memory.order();
            }
        }
        memory.persist(key(node, first), 16 * (count - first));
    }

    /// Takes the records out that are none, which a crash may have left in the leaf of `wanted`.
    pub(crate) fn repair<M: Memory>(&self, memory: &M, wanted: u64) {
        let node = self.descend(memory, wanted, 0);
        let mut index = 0;
        while index < self.count(memory, node) {
            let left = if index == 0 { leftmost(node) } else { pointer(node, index - 1) };
            if memory.get(pointer(node, index)) == memory.get(left) {
                self.shift_out(memory, node, index, self.count(memory, node));
            } else {
                index += 1;
            }
        }
    }

    /// The keys of the leaves from left to right, each once, and a check of their order.
    pub(crate) fn leaves<M: Memory>(&self, memory: &M) -> Result<Vec<(u64, u64)>, String> {
        let mut node = Addr::from_bits(memory.get(ROOT));
        while memory.get(level(node)) > 0 {
            node = memory.follow(leftmost(node))?;
        }
        let mut all: Vec<(u64, u64)> = Vec::new();
        while !node.is_null() {
            let records = self.records(memory, node);
            let order = records.windows(2).all(|pair| pair[0].0 < pair[1].0);
            ensure(order, "the records of a node are not in order")?;
            for (key, value) in records {
                if all.last().is_none_or(|(last, _)| *last < key) {
                    all.push((key, value));
                } else {
                    let known = all.contains(&(key, value));
                    ensure(known, "a record that moved to the sibling differs there")?;
                }
            }
            node = Addr::from_bits(memory.get(sibling(node)));
        }
        Ok(all)
    }
}

/// The key of insert `number`: spread, so that inserts go to all places.
pub(crate) fn nth_key(number: u64) -> u64 {
    1 + (500 + number * 379) % 1009
}

/// A value that no other key has and that is no address of a node.
pub(crate) fn value_of(key: u64) -> u64 {
    1_000_001 + 2 * key
}

/// Inserts into the tree, correct: a program to measure an explorer with.
///
/// Recovery searches every key from the root and walks all leaves; operation `n` must be there
/// once it has completed.
#[derive(Clone, Copy, Debug)]
pub struct FastFair {
    /// Inserts, up to 1000.
    pub inserts: u64,
    /// Records in a node, a multiple of 4: 28 as the published one has in 512 bytes.
    pub slots: u64,
}

impl FastFair {
    /// The most inserts: keys repeat after them.
    pub const INSERTS_MAX: u64 = 1000;

    /// Nodes of 512 bytes.
    pub const fn new(inserts: u64) -> FastFair {
        FastFair { inserts, slots: 28 }
    }

    fn tree(&self) -> Tree {
        Tree { slots: self.slots, flaw: Flaw::None }
    }
}

impl Program for FastFair {
    fn about(&self) -> About {
        About::new(
            "fast-fair",
            BugKind::Order,
            "no bug: a B+-tree that is readable between any two stores",
            "FAST'18; our own code",
        )
    }

    fn pool_bytes(&self) -> u64 {
        let nodes = 4 + 8 * self.inserts / self.slots;
        LINE_BYTES * FIRST_NODE + nodes * self.tree().node_bytes()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        self.tree().create(memory);
    }

    fn run<M: Memory>(&self, memory: &M, _: bool) {
        for number in 0..self.inserts {
            let key = nth_key(number);
            self.tree().insert(memory, key, value_of(key));
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        found_keys(&self.tree(), memory, self.inserts)
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        judge_keys(found, promised)
    }
}

/// The values of the first `inserts` keys, by search; the leaves must have them and no others.
pub(crate) fn found_keys<M: Memory>(
    tree: &Tree,
    memory: &M,
    inserts: u64,
) -> Result<Found, String> {
    let leaves = tree.leaves(memory)?;
    let value = |number| {
        let key = nth_key(number);
        let by_search = tree.search(memory, key).unwrap_or(0);
        let by_walk = leaves.iter().find(|(other, _)| *other == key).map_or(0, |(_, v)| *v);
        ensure(by_search == by_walk, "search and walk disagree")?;
        Ok(by_search)
    };
    let found: Found = (0..inserts).map(value).collect::<Result<_, String>>()?;
    let there = found.iter().filter(|value| **value != 0).count();
    ensure(there == leaves.len(), "a key that was never inserted")?;
    Ok(found)
}

/// The inserts up to some number are there, and none after.
pub(crate) fn judge_keys(found: &[u64], promised: &[u64]) -> Result<(), String> {
    let values: Vec<u64> = (0..found.len() as u64).map(|n| value_of(nth_key(n))).collect();
    inserted(found, promised, &values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_memory::Image;
    use std::collections::BTreeMap;

    #[test]
    fn the_tree_holds_what_a_map_holds() {
        for slots in [4, 8, 28] {
            let program = FastFair { inserts: 300, slots };
            let (tree, memory) = (program.tree(), Image::new(program.pool_bytes(), 0));
            let mut map = BTreeMap::new();
            tree.create(&memory);
            for number in 0..300 {
                let key = nth_key(number);
                tree.insert(&memory, key, value_of(key));
                map.insert(key, value_of(key));
                if number % 3 == 2 {
                    let old = nth_key(number / 2);
                    assert_eq!(tree.delete_one(&memory, old), map.remove(&old).is_some());
                }
                assert_eq!(tree.leaves(&memory), Ok(map.clone().into_iter().collect()));
            }
            for key in 0..1100 {
                assert_eq!(tree.search(&memory, key), map.get(&key).copied(), "{key}");
            }
        }
    }
}
