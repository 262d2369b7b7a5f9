//! A red-black tree: insertion and rebalancing as in Cormen et al., chapter 13, with node 0 as the
//! shared black leaf. A node: children, parent, key, colour, string.

use super::Nodes;
use seawall_memory::{Addr, Memory};

const CHILD: [u64; 2] = [0, 4];
const PARENT: u64 = 8;
const KEY: u64 = 12;
const RED: u64 = 16;
const VALUE: u64 = 20;

/// The tree.
#[derive(Debug)]
pub(crate) struct RbTree {
    root: u32,
    nodes: Nodes,
    pub(super) bytes: u64,
}

impl RbTree {
    pub(super) fn place(value_bytes: u64, records: u64, base: Addr) -> RbTree {
        let node_bytes = VALUE + value_bytes;
        let nodes = Nodes { base, node_bytes, used: 0 };
        RbTree { root: 0, nodes, bytes: Nodes::bytes(node_bytes, records) }
    }

    pub(super) fn put<M: Memory>(&mut self, memory: &M, key: u32, value: &[u8]) {
        let node = self.nodes.allocate();
        let (mut parent, mut here, mut side) = (0, self.root, 0);
        while here != 0 {
            parent = here;
            side = usize::from(key > self.nodes.get(memory, here, KEY));
            here = self.nodes.get(memory, here, CHILD[side]);
        }
        self.nodes.set(memory, node, PARENT, parent);
        self.nodes.set(memory, node, KEY, key);
        self.nodes.set(memory, node, RED, 1);
        memory.write(self.nodes.at(node, VALUE), value);
        if parent == 0 {
            self.root = node;
        } else {
            self.nodes.set(memory, parent, CHILD[side], node);
        }
        self.repair(memory, node);
    }

    fn repair<M: Memory>(&mut self, memory: &M, mut node: u32) {
        let nodes = self.nodes;
        let parent_of = |node| nodes.get(memory, node, PARENT);
        let is_red = |node| node != 0 && nodes.get(memory, node, RED) == 1;
        while is_red(parent_of(node)) {
            let mut parent = parent_of(node);
            let above = parent_of(parent);
            let side = usize::from(nodes.get(memory, above, CHILD[1]) == parent);
            let uncle = nodes.get(memory, above, CHILD[1 - side]);
            if is_red(uncle) {
                nodes.set(memory, parent, RED, 0);
                nodes.set(memory, uncle, RED, 0);
                nodes.set(memory, above, RED, 1);
                node = above;
                continue;
            }
            if nodes.get(memory, parent, CHILD[1 - side]) == node {
                self.rotate(memory, parent, side);
                (node, parent) = (parent, node);
            }
            nodes.set(memory, parent, RED, 0);
            nodes.set(memory, above, RED, 1);
            self.rotate(memory, above, 1 - side);
        }
        if is_red(self.root) {
            nodes.set(memory, self.root, RED, 0);
        }
    }

    /// Rotates `node` down to `side`; its child on the other side takes its place.
    fn rotate<M: Memory>(&mut self, memory: &M, node: u32, side: usize) {
        let nodes = self.nodes;
        let up = nodes.get(memory, node, CHILD[1 - side]);
        let inner = nodes.get(memory, up, CHILD[side]);
        nodes.set(memory, node, CHILD[1 - side], inner);
        if inner != 0 {
            nodes.set(memory, inner, PARENT, node);
        }
        let parent = nodes.get(memory, node, PARENT);
        nodes.set(memory, up, PARENT, parent);
        if parent == 0 {
            self.root = up;
        } else {
            let at = usize::from(nodes.get(memory, parent, CHILD[1]) == node);
            nodes.set(memory, parent, CHILD[at], up);
        }
        nodes.set(memory, up, CHILD[side], node);
        nodes.set(memory, node, PARENT, up);
    }

    #[cfg(test)]
    pub(super) fn find<M: Memory>(&self, memory: &M, key: u32) -> Option<Addr> {
        let mut here = self.root;
        while here != 0 {
            let found = self.nodes.get(memory, here, KEY);
            if found == key {
                return Some(self.nodes.at(here, VALUE));
            }
            here = self.nodes.get(memory, here, CHILD[usize::from(key > found)]);
        }
        None
    }

    /// The length of the longest path; asserts that no red node has a red child and that all paths
    /// have the same number of black nodes.
    #[cfg(test)]
    pub(crate) fn depth<M: Memory>(&self, memory: &M) -> u32 {
        fn walk<M: Memory>(nodes: &Nodes, memory: &M, node: u32, red: bool) -> (u32, u32) {
            if node == 0 {
                return (0, 0);
            }
            let is_red = nodes.get(memory, node, RED) == 1;
            assert!(!(red && is_red), "two red nodes in a row");
            let [left, right] =
                CHILD.map(|side| walk(nodes, memory, nodes.get(memory, node, side), is_red));
            assert_eq!(left.1, right.1, "black nodes");
            (1 + left.0.max(right.0), left.1 + u32::from(!is_red))
        }
        walk(&self.nodes, memory, self.root, false).0
    }
}
