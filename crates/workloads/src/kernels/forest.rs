//! A table of search trees, each with its own lock: a key belongs to the tree of its remainder.
//!
//! The programs of STAMP keep such tables as one red-black tree under transactional memory, which
//! runs operations on different parts of it concurrently; a forest permits the same with locks. A
//! tree is a treap (Seidel and Aragon, 1996) whose priorities are a hash of the key: its shape is a
//! function of its keys, and is checked with them.

use super::sync::{lock, unlock};
use crate::{Damage, Words};
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_runtime::Arena;

/// Trees of a table.
pub(super) const TREES: u64 = 256;

/// Words of a root, one line: its lock, its tree, and a word for the program.
const ROOT: u64 = 8;
const TREE: u64 = 1;
const STAMP: u64 = 2;

/// Words of a node, and offsets.
const NODE: u64 = 4;
const KEY: u64 = 0;
const LEFT: u64 = 1;
const RIGHT: u64 = 2;
const VALUE: u64 = 3;

/// The trees of some tables, and their nodes. A node is a number that the caller chooses, and is in
/// at most one tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forest {
    roots: Words,
    nodes: Words,
}

fn priority(key: u64) -> u64 {
    let mixed = (key ^ key >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

impl Forest {
    pub(super) fn place(arena: &mut Arena, tables: u64, nodes: u64) -> Forest {
        let roots = Words::place(arena, tables * TREES * ROOT);
        Forest { roots, nodes: Words::place(arena, nodes * NODE) }
    }

    /// The tree of `key` in table `table`.
    pub(super) const fn tree_of(key: u64, table: u64) -> u64 {
        table * TREES + key % TREES
    }

    pub(super) fn lock<M: Memory>(&self, memory: &M, tree: u64) {
        lock(memory, self.roots.at(tree * ROOT));
    }

    pub(super) fn unlock<M: Memory>(&self, memory: &M, tree: u64) {
        unlock(memory, self.roots.at(tree * ROOT));
    }

    fn root(&self, tree: u64) -> Addr {
        self.roots.at(tree * ROOT + TREE)
    }

    /// A word beside the tree, which its lock protects too.
    pub(super) fn stamp_at(&self, tree: u64) -> Addr {
        self.roots.at(tree * ROOT + STAMP)
    }

    fn at(&self, node: u64, offset: u64) -> Addr {
        self.nodes.at(node * NODE + offset)
    }

    fn key<M: Memory>(&self, memory: &M, node: u64) -> u64 {
        memory.load(self.at(node, KEY))
    }

    /// The address of the value of `node`; its tree's lock protects it.
    pub(super) fn value_at(&self, node: u64) -> Addr {
        self.at(node, VALUE)
    }

    /// The word that holds the node of `key`, and the node; or the word where the search ended.
    fn search<M: Memory>(
        &self,
        memory: &M,
        tree: u64,
        key: u64,
        stop: impl Fn(u64) -> bool,
    ) -> (Addr, Option<u64>) {
        let mut place = self.root(tree);
        loop {
            let Some(node) = memory.load::<u64>(place).checked_sub(1) else {
                return (place, None);
            };
            let other = self.key(memory, node);
            memory.work(4);
            if other == key || stop(other) {
                return (place, Some(node));
            }
            place = self.at(node, if key < other { LEFT } else { RIGHT });
        }
    }

    /// The node of `key`, if the tree has it.
    pub(super) fn find<M: Memory>(&self, memory: &M, tree: u64, key: u64) -> Option<u64> {
        self.search(memory, tree, key, |_| false).1
    }

    /// Inserts `node`, with a key that the tree does not have.
    pub(super) fn insert<M: Memory>(
        &self,
        memory: &M,
        tree: u64,
        node: u64,
        (key, value): (u64, u64),
    ) {
        memory.store(self.at(node, KEY), key);
        memory.store(self.at(node, VALUE), value);
        let (place, below) =
            self.search(memory, tree, key, |other| priority(other) < priority(key));
        let (mut left, mut right) = (self.at(node, LEFT), self.at(node, RIGHT));
        let mut rest = below;
        while let Some(other) = rest {
            let next = if self.key(memory, other) < key {
                memory.store(left, other + 1);
                left = self.at(other, RIGHT);
                left
            } else {
                memory.store(right, other + 1);
                right = self.at(other, LEFT);
                right
            };
            memory.work(4);
            rest = memory.load::<u64>(next).checked_sub(1);
        }
        memory.store(left, 0u64);
        memory.store(right, 0u64);
        memory.store(place, node + 1);
    }

    /// Removes and returns the node of `key`, if the tree has it.
    pub(super) fn remove<M: Memory>(&self, memory: &M, tree: u64, key: u64) -> Option<u64> {
        let (mut place, found) = self.search(memory, tree, key, |_| false);
        let node = found?;
        let mut left = memory.load::<u64>(self.at(node, LEFT));
        let mut right = memory.load::<u64>(self.at(node, RIGHT));
        while left != 0 && right != 0 {
            let (left_key, right_key) = (self.key(memory, left - 1), self.key(memory, right - 1));
            memory.work(6);
            if priority(left_key) > priority(right_key) {
                memory.store(place, left);
                place = self.at(left - 1, RIGHT);
                left = memory.load(place);
            } else {
                memory.store(place, right);
                place = self.at(right - 1, LEFT);
                right = memory.load(place);
            }
        }
        memory.store(place, left | right);
        Some(node)
    }

    /// Keys and nodes of a tree in the order of keys. It never panics or loops, whatever memory
    /// contains.
    ///
    /// # Errors
    /// The violated invariant.
    pub(super) fn contents<M: Memory>(
        &self,
        memory: &M,
        tree: u64,
    ) -> Result<Vec<(u64, u64)>, Damage> {
        let damage = |what: String| Damage(format!("tree {tree}: {what}"));
        if self.roots.get(memory, tree * ROOT) != 0 {
            return Err(damage("its lock is held".into()));
        }
        let count = self.nodes.count() / NODE;
        let (mut found, mut path) = (Vec::new(), Vec::new());
        let mut next = memory.load::<u64>(self.root(tree));
        let mut steps = 0;
        while next != 0 || !path.is_empty() {
            while let Some(node) = next.checked_sub(1) {
                steps += 1;
                if node >= count || steps > count {
                    return Err(damage(format!("node {node} is not one, or in a circle")));
                }
                path.push(node);
                next = memory.load(self.at(node, LEFT));
            }
            let Some(node) = path.pop() else { break };
            let key = self.key(memory, node);
            let above = path.last().map(|above| priority(self.key(memory, *above)));
            let is_after = found.last().is_none_or(|(before, _)| *before < key);
            let is_below = above.is_none_or(|above| above > priority(key));
            if !is_after || !is_below || key % TREES != tree % TREES {
                return Err(damage(format!("key {key} of node {node} is not in its place")));
            }
            found.push((key, node));
            next = memory.load(self.at(node, RIGHT));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use seawall_memory::Image;
    use std::collections::BTreeSet;

    const KEYS: u64 = 40;

    proptest! {
        #[test]
        fn a_tree_holds_what_was_put_in_and_not_taken_out(
            steps in proptest::collection::vec((any::<bool>(), 0..KEYS), 0..200),
        ) {
            let mut arena = Arena::new();
            let forest = Forest::place(&mut arena, 1, KEYS);
            let image = Image::new(arena.pm_bytes(), 0);
            let mut expected = BTreeSet::new();
            for (is_insert, number) in steps {
                let key = number * TREES;
                prop_assert_eq!(forest.find(&image, 0, key).is_some(), expected.contains(&key));
                if is_insert && expected.insert(key) {
                    forest.insert(&image, 0, number, (key, 0));
                } else if !is_insert {
                    prop_assert_eq!(forest.remove(&image, 0, key).is_some(), expected.remove(&key));
                }
                let keys: Vec<u64> =
                    forest.contents(&image, 0).unwrap().iter().map(|(key, _)| *key).collect();
                prop_assert_eq!(keys, expected.iter().copied().collect::<Vec<_>>());
            }
        }

        #[test]
        fn a_changed_link_or_key_of_a_tree_is_found(
            keys in proptest::collection::btree_set(0..KEYS, 1..30), word in any::<usize>(),
            bit in 0..64u32,
        ) {
            let mut arena = Arena::new();
            let forest = Forest::place(&mut arena, 1, KEYS);
            let image = Image::new(arena.pm_bytes(), 0);
            for key in &keys {
                forest.insert(&image, 0, *key, (key * TREES, 0));
            }
            let before = forest.contents(&image, 0).unwrap();
            let (_, node) = before[word / 3 % before.len()];
            let at = forest.at(node, word as u64 % 3);
            image.store(at, image.load::<u64>(at) ^ 1 << bit);
            prop_assert_ne!(forest.contents(&image, 0).ok(), Some(before));
        }
    }
}
