//! A B+tree: nodes of 128 bytes, strings in a separate area in the order of insertion.
//!
//! A leaf has up to 15 keys and the numbers of their strings; an inner node has up to 14 keys and
//! 15 children. A full node is split on the way down, so that no split propagates upwards.

use super::Nodes;
use seawall_memory::{Addr, Memory};

const NODE_BYTES: u64 = 128;
const COUNT: u64 = 0;
const IS_INNER: u64 = 4;
const KEYS: u64 = 8;
const LEAF_KEYS: u32 = 15;
const INNER_KEYS: u32 = 14;
/// Numbers of strings in a leaf, of children in an inner node.
const LEAF_SLOTS: u64 = KEYS + 4 * LEAF_KEYS as u64;
const CHILDREN: u64 = KEYS + 4 * INNER_KEYS as u64;

/// The tree.
#[derive(Debug)]
pub(crate) struct BPlus {
    root: u32,
    nodes: Nodes,
    strings: Nodes,
    pub(super) bytes: u64,
}

fn key_at(place: u32) -> u64 {
    KEYS + 4 * u64::from(place)
}

impl BPlus {
    pub(super) fn place(value_bytes: u64, records: u64, base: Addr) -> BPlus {
        let strings = Nodes { base, node_bytes: value_bytes, used: 0 };
        let first = Nodes::bytes(value_bytes, records).next_multiple_of(NODE_BYTES);
        // A split leaves at least seven keys in each half, and one inner node per seven nodes
        // below.
        let most = records / 3 + 64;
        let nodes = Nodes { base: base.plus(first), node_bytes: NODE_BYTES, used: 0 };
        BPlus { root: 0, nodes, strings, bytes: first + Nodes::bytes(NODE_BYTES, most) }
    }

    pub(super) fn put<M: Memory>(&mut self, memory: &M, key: u32, value: &[u8]) {
        let string = self.strings.allocate();
        memory.write(self.strings.at(string, 0), value);
        if self.root == 0 {
            self.root = self.nodes.allocate();
        }
        let mut here = self.root;
        if self.is_full(memory, here) {
            let root = self.nodes.allocate();
            self.nodes.set(memory, root, IS_INNER, 1);
            self.nodes.set(memory, root, CHILDREN, here);
            self.split(memory, root, 0, here);
            (self.root, here) = (root, root);
        }
        while self.is_inner(memory, here) {
            let mut place = self.place_of(memory, here, key);
            let mut child = self.nodes.get(memory, here, CHILDREN + 4 * u64::from(place));
            if self.is_full(memory, child) {
                self.split(memory, here, place, child);
                place += u32::from(key >= self.nodes.get(memory, here, key_at(place)));
                child = self.nodes.get(memory, here, CHILDREN + 4 * u64::from(place));
            }
            here = child;
        }
        let place = self.place_of(memory, here, key);
        let count = self.nodes.get(memory, here, COUNT);
        self.shift(memory, here, KEYS, place, count);
        self.shift(memory, here, LEAF_SLOTS, place, count);
        self.nodes.set(memory, here, key_at(place), key);
        self.nodes.set(memory, here, LEAF_SLOTS + 4 * u64::from(place), string);
        self.nodes.set(memory, here, COUNT, count + 1);
    }

    fn is_inner<M: Memory>(&self, memory: &M, node: u32) -> bool {
        self.nodes.get(memory, node, IS_INNER) == 1
    }

    fn is_full<M: Memory>(&self, memory: &M, node: u32) -> bool {
        let most = if self.is_inner(memory, node) { INNER_KEYS } else { LEAF_KEYS };
        self.nodes.get(memory, node, COUNT) == most
    }

    /// The number of keys of the node that are not greater than `key`.
    fn place_of<M: Memory>(&self, memory: &M, node: u32, key: u32) -> u32 {
        let (mut low, mut high) = (0, self.nodes.get(memory, node, COUNT));
        while low < high {
            let middle = (low + high) / 2;
            if self.nodes.get(memory, node, key_at(middle)) <= key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Makes room at `place` of the `count` numbers at `field`.
    fn shift<M: Memory>(&self, memory: &M, node: u32, field: u64, place: u32, count: u32) {
        for number in (place..count).rev() {
            let at = field + 4 * u64::from(number);
            let value = self.nodes.get(memory, node, at);
            self.nodes.set(memory, node, at + 4, value);
        }
    }

    /// Copies the `count` numbers at `from` of `node` to `to` of `other`.
    fn copy<M: Memory>(&self, memory: &M, (node, from): (u32, u64), to: (u32, u64), count: u32) {
        for number in (0..u64::from(count)).map(|number| 4 * number) {
            let value = self.nodes.get(memory, node, from + number);
            self.nodes.set(memory, to.0, to.1 + number, value);
        }
    }

    /// Splits the full `child`, which is at `place` of `above`, which is not full.
    fn split<M: Memory>(&mut self, memory: &M, above: u32, place: u32, child: u32) {
        let other = self.nodes.allocate();
        let is_inner = self.is_inner(memory, child);
        let (half, slots) = if is_inner { (7, CHILDREN) } else { (8, LEAF_SLOTS) };
        let count = self.nodes.get(memory, child, COUNT);
        let between = self.nodes.get(memory, child, key_at(half));
        // An inner node moves the middle key to its parent; a leaf keeps it in its right half.
        let first = half + u32::from(is_inner);
        let kept = count - first;
        let (key, slot) = (key_at(first), slots + 4 * u64::from(first));
        self.copy(memory, (child, key), (other, KEYS), kept);
        self.copy(memory, (child, slot), (other, slots), kept + u32::from(is_inner));
        self.nodes.set(memory, other, IS_INNER, is_inner.into());
        self.nodes.set(memory, other, COUNT, kept);
        self.nodes.set(memory, child, COUNT, half);
        let keys = self.nodes.get(memory, above, COUNT);
        self.shift(memory, above, KEYS, place, keys);
        self.shift(memory, above, CHILDREN, place + 1, keys + 1);
        self.nodes.set(memory, above, key_at(place), between);
        self.nodes.set(memory, above, CHILDREN + 4 * u64::from(place + 1), other);
        self.nodes.set(memory, above, COUNT, keys + 1);
    }

    #[cfg(test)]
    pub(super) fn find<M: Memory>(&self, memory: &M, key: u32) -> Option<Addr> {
        let mut here = self.root;
        while here != 0 && self.is_inner(memory, here) {
            let place = self.place_of(memory, here, key);
            here = self.nodes.get(memory, here, CHILDREN + 4 * u64::from(place));
        }
        let place = self.place_of(memory, here, key).checked_sub(1)?;
        let string = self.nodes.get(memory, here, LEAF_SLOTS + 4 * u64::from(place));
        let found = self.nodes.get(memory, here, key_at(place)) == key;
        found.then(|| self.strings.at(string, 0))
    }
}
