//! The structures that store the strings: an array, a hash table, a red-black tree and a B+tree, in
//! the form of the paper's C programs, with nodes in one area and pointers of 4 bytes: offsets in
//! the pool, so that a simulated core recognises which load depends on which.
//!
//! They only grow, hold no key twice, and are not crash-consistent.

use super::{SPREAD, UnknownName};
use seawall_memory::{Addr, Memory, MemoryExt};
use std::fmt;
use std::str::FromStr;

mod bplus;
mod rbtree;

use bplus::BPlus;
use rbtree::RbTree;

/// A structure of the paper (slides 5 and 19).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Structure {
    /// Slide 6: the string with number i goes to place i.
    Array,
    /// Chains, one string in a chain on average.
    Hash,
    /// A red-black tree.
    RbTree,
    /// A B+tree with up to 15 keys in a leaf of two lines.
    BPlus,
}

impl Structure {
    /// All structures.
    pub const ALL: [Structure; 4] =
        [Structure::Array, Structure::Hash, Structure::RbTree, Structure::BPlus];

    /// The name in files and output.
    pub const fn name(self) -> &'static str {
        match self {
            Structure::Array => "array",
            Structure::Hash => "hash",
            Structure::RbTree => "rbtree",
            Structure::BPlus => "bplus",
        }
    }

    /// The key of string `number`.
    pub(super) fn key(self, number: u32) -> u32 {
        if self == Structure::Array { number } else { number.wrapping_mul(SPREAD) }
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Structure {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Structure, UnknownName> {
        let known = Structure::ALL.map(Structure::name);
        let found = Structure::ALL.into_iter().find(|structure| structure.name() == name);
        found.ok_or_else(|| UnknownName::of("structure", name, &known))
    }
}

/// Nodes of one size, allocated in order, and named by their offset in the pool; 0 is null.
#[derive(Clone, Copy, Debug)]
struct Nodes {
    base: Addr,
    node_bytes: u64,
    used: u32,
}

impl Nodes {
    fn at(&self, node: u32, field: u64) -> Addr {
        Addr::pm(u64::from(node) + field)
    }

    fn get<M: Memory>(&self, memory: &M, node: u32, field: u64) -> u32 {
        memory.load(self.at(node, field))
    }

    fn set<M: Memory>(&self, memory: &M, node: u32, field: u64, value: u32) {
        memory.store(self.at(node, field), value);
    }

    fn allocate(&mut self) -> u32 {
        self.used += 1;
        (self.base.offset() + u64::from(self.used) * self.node_bytes) as u32
    }

    /// Bytes of `count` nodes and of an empty place.
    fn bytes(node_bytes: u64, count: u64) -> u64 {
        node_bytes * (count + 1)
    }
}

/// A structure at its address; this value holds its root and its size.
#[derive(Debug)]
pub(super) enum Table {
    Array { base: Addr, value_bytes: u64, records: u64 },
    Hash(Hash),
    RbTree(RbTree),
    BPlus(BPlus),
}

impl Table {
    /// An empty structure at `base`, where memory is zero.
    pub(super) fn place(structure: Structure, value_bytes: u64, records: u64, base: Addr) -> Table {
        match structure {
            Structure::Array => Table::Array { base, value_bytes, records },
            Structure::Hash => Table::Hash(Hash::place(value_bytes, records, base)),
            Structure::RbTree => Table::RbTree(RbTree::place(value_bytes, records, base)),
            Structure::BPlus => Table::BPlus(BPlus::place(value_bytes, records, base)),
        }
    }

    /// The greatest number of bytes that it uses.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Table::Array { value_bytes, records, .. } => value_bytes * records,
            Table::Hash(hash) => hash.bytes,
            Table::RbTree(tree) => tree.bytes,
            Table::BPlus(tree) => tree.bytes,
        }
    }

    /// Stores the string of a new key.
    pub(super) fn put<M: Memory>(&mut self, memory: &M, key: u32, value: &[u8]) {
        match self {
            Table::Array { base, value_bytes, .. } => {
                memory.write(base.plus(u64::from(key) * *value_bytes), value);
            }
            Table::Hash(hash) => hash.put(memory, key, value),
            Table::RbTree(tree) => tree.put(memory, key, value),
            Table::BPlus(tree) => tree.put(memory, key, value),
        }
    }

    /// The address of the string of `key`.
    #[cfg(test)]
    pub(super) fn find<M: Memory>(&self, memory: &M, key: u32) -> Option<Addr> {
        match self {
            Table::Array { base, value_bytes, .. } => Some(base.plus(u64::from(key) * value_bytes)),
            Table::Hash(hash) => hash.find(memory, key),
            Table::RbTree(tree) => tree.find(memory, key),
            Table::BPlus(tree) => tree.find(memory, key),
        }
    }
}

const NEXT: u64 = 0;
const KEY: u64 = 4;
const VALUE: u64 = 8;

/// Heads of chains, then the nodes: next, key, string.
#[derive(Debug)]
pub(super) struct Hash {
    heads: Addr,
    shift: u32,
    nodes: Nodes,
    bytes: u64,
}

impl Hash {
    fn place(value_bytes: u64, records: u64, base: Addr) -> Hash {
        let heads = records.next_power_of_two().max(2);
        let node_bytes = VALUE + value_bytes;
        let nodes = Nodes { base: base.plus(4 * heads), node_bytes, used: 0 };
        let bytes = 4 * heads + Nodes::bytes(node_bytes, records);
        Hash { heads: base, shift: 32 - heads.trailing_zeros(), nodes, bytes }
    }

    fn head(&self, key: u32) -> Addr {
        let hash = (key ^ key >> 15).wrapping_mul(0x2c1b_3c6d) >> self.shift;
        self.heads.plus(4 * u64::from(hash))
    }

    fn put<M: Memory>(&mut self, memory: &M, key: u32, value: &[u8]) {
        let (head, node) = (self.head(key), self.nodes.allocate());
        let first: u32 = memory.load(head);
        self.nodes.set(memory, node, NEXT, first);
        self.nodes.set(memory, node, KEY, key);
        memory.write(self.nodes.at(node, VALUE), value);
        memory.store(head, node);
    }

    #[cfg(test)]
    fn find<M: Memory>(&self, memory: &M, key: u32) -> Option<Addr> {
        let mut node: u32 = memory.load(self.head(key));
        while node != 0 && self.nodes.get(memory, node, KEY) != key {
            node = self.nodes.get(memory, node, NEXT);
        }
        (node != 0).then(|| self.nodes.at(node, VALUE))
    }
}
