//! The concurrent FAST & FAIR tree: a lock for each node, and searches that take none.
//!
//! "Endurable Transient Inconsistency in Byte-Addressable Persistent B+-Tree" (Hwang, Kim, Won,
//! Nam, FAST'18); `crate::fast_fair` has the shifts and the layout. A search reads a node from left
//! to right while records shift to the right, and from right to left while they shift to the left:
//! the parity of the node's switch counter tells which. Where the key lies beyond, it goes on to
//! the sibling. As published, a removal leaves nodes underfull. Two things differ: a node keeps its
//! smallest possible key, as its first record may be removed, and locks are in DRAM.
//!
//! The bug, FF-10: a writer builds on a link that a split has stored and not yet made durable. It
//! inserts into the new node and returns; a crash takes the link back, and the insert with it.
//! PMRace (ASPLOS'22) reports it for the link in the parent (`concurrent_pmdk` btree.h:560, read at
//! 876, 878 and 886), whose loss the sibling pointer makes up for. Here it is the sibling pointer,
//! which the published `btree_delete` follows without a lock too, and here every writer. Fixed, a
//! writer that follows one makes it durable first.

use super::Index;
use crate::fast_fair::{Flaw, Tree, copy_half, key, leftmost, level, pointer, sibling};
use crate::kit::{Words, line, word};
use crate::program::{About, BugKind};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};

mod recovery;
#[cfg(test)]
mod tests;

/// Where the pointer to the root is.
const ROOT: Addr = line(1);
/// Where the next free byte of the pool is noted.
const NEXT: Addr = line(2);
const NODES: Addr = line(4);

/// The smallest key that a node may ever have.
fn lowest(node: Addr) -> Addr {
    word(node, 3)
}

/// Even while records shift to the right, odd while they shift to the left; only ever grows.
fn switches(node: Addr) -> Addr {
    word(node, 4)
}

/// Records of the node: exact for who has the lock, and right again after recovery.
fn count(node: Addr) -> Addr {
    word(node, 5)
}

/// The sibling, if the key belongs there or farther to the right.
fn beyond<M: Memory>(memory: &M, node: Addr, wanted: u64) -> Option<Addr> {
    let next = Addr::from_bits(memory.get(sibling(node)));
    (!next.is_null() && memory.get(lowest(next)) <= wanted).then_some(next)
}

/// What `look` finds in a node that neither changes direction nor is split meanwhile.
fn while_steady<M: Memory, R>(memory: &M, node: Addr, mut look: impl FnMut(bool) -> R) -> R {
    loop {
        let before = memory.get(switches(node));
        let found = look(before.is_multiple_of(2));
        if memory.get(switches(node)) == before {
            return found;
        }
    }
}

/// Makes the switch counter even for a shift to the right, odd for one to the left.
fn direct<M: Memory>(memory: &M, node: Addr, to_the_right: bool) {
    let before = memory.get(switches(node));
    if before.is_multiple_of(2) != to_the_right {
        memory.put(switches(node), before + 1);
    }
}

/// The concurrent tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FastFairThreads {
    /// Records in a node, with the one that ends it; a multiple of 4.
    slots: u64,
    /// Nodes that there is memory for.
    nodes: u64,
    entries_before: u64,
    operations: u64,
}

impl FastFairThreads {
    /// Nodes of the published size: 512 bytes.
    pub(crate) const fn new() -> FastFairThreads {
        FastFairThreads { slots: 28, nodes: 12, entries_before: 53, operations: 3 }
    }

    fn tree(&self) -> Tree {
        Tree { slots: self.slots, flaw: Flaw::None }
    }

    fn lock_of(&self, node: Addr) -> Addr {
        Addr::dram(8 * ((node.offset() - NODES.offset()) / self.tree().node_bytes()))
    }

    fn lock<M: Memory>(&self, memory: &M, node: Addr) {
        while memory.compare_exchange(self.lock_of(node), 0, 1).is_err() {
            memory.spin_while(self.lock_of(node), 1);
        }
    }

    fn unlock<M: Memory>(&self, memory: &M, node: Addr) {
        memory.put(self.lock_of(node), 0);
    }

    /// A node of zeros. A crash may lose it, but does not give it out twice once it is written to.
    fn allocate<M: Memory>(&self, memory: &M) -> Addr {
        let node = memory.fetch_add(NEXT, self.tree().node_bytes());
        memory.persist(NEXT, 8);
        Addr::from_bits(node)
    }

    /// The node of level `to` that should hold `wanted`, found without a lock: by the time a caller
    /// looks, a split may have moved the key on to a sibling. With `helps`, each sibling pointer on
    /// the way is durable on return; a child that a parent has lost is its neighbour's sibling.
    fn descend<M: Memory>(&self, memory: &M, wanted: u64, to: u64, helps: bool) -> Addr {
        let mut node = Addr::from_bits(memory.get(ROOT));
        while memory.get(level(node)) < to {
            // The root has been split, and who did it is about to grow the tree.
            node = Addr::from_bits(memory.spin_while(ROOT, node.bits()));
        }
        loop {
            if let Some(next) = beyond(memory, node, wanted) {
                if helps {
                    memory.persist(sibling(node), 8);
                }
                node = next;
            } else if memory.get(level(node)) == to {
                return node;
            } else {
                node = self.child(memory, node, wanted);
            }
        }
    }

    /// The child of an inner node where the key is, or one to the left of that.
    ///
    /// Inner nodes only shift to the right, which overwrites the pointer of a record before its
    /// key. A pointer that is the same before and after its key is read goes with that key, or is
    /// that of its left neighbour.
    fn child<M: Memory>(&self, memory: &M, node: Addr, wanted: u64) -> Addr {
        while_steady(memory, node, |_| {
            let mut child = memory.get(leftmost(node));
            let mut index = 0;
            while index < self.slots {
                let here = memory.get(pointer(node, index));
                let smallest = memory.get(key(node, index));
                if here == 0 {
                    break;
                }
                if memory.get(pointer(node, index)) != here {
                    continue;
                }
                if here != child && smallest > wanted {
                    break;
                }
                child = here;
                index += 1;
            }
            Addr::from_bits(child)
        })
    }

    /// The value of record `index`, if that is a record and has the key.
    fn value_at<M: Memory>(&self, memory: &M, node: Addr, index: u64, wanted: u64) -> Option<u64> {
        if memory.get(key(node, index)) != wanted {
            return None;
        }
        let value = memory.get(pointer(node, index));
        let before = if index == 0 { leftmost(node) } else { pointer(node, index - 1) };
        let is_record = value != 0 && value != memory.get(before);
        (is_record && memory.get(key(node, index)) == wanted).then_some(value)
    }

    fn find_in_leaf<M: Memory>(&self, memory: &M, leaf: Addr, wanted: u64) -> Option<u64> {
        while_steady(memory, leaf, |forwards| {
            let value = |index| self.value_at(memory, leaf, index, wanted);
            if forwards {
                let is_end = |&index: &u64| index > 0 && memory.get(pointer(leaf, index)) == 0;
                (0..self.slots).take_while(|index| !is_end(index)).find_map(value)
            } else {
                (0..memory.get(count(leaf))).rev().find_map(value)
            }
        })
    }

    /// Locks the node of this level that holds the key.
    fn lock_home<M: Memory>(&self, memory: &M, wanted: u64, to: u64, fixed: bool) -> Addr {
        let mut node = self.descend(memory, wanted, to, fixed);
        loop {
            self.lock(memory, node);
            match beyond(memory, node, wanted) {
                None => return node,
                // Durable: the split that stored the link gave back the lock.
                Some(next) => {
                    self.unlock(memory, node);
                    node = next;
                }
            }
        }
    }

    fn insert_at<M: Memory>(&self, memory: &M, new: u64, value: u64, at_level: u64, fixed: bool) {
        loop {
            let node = self.lock_home(memory, new, at_level, fixed);
            let records = memory.get(count(node));
            if records + 1 < self.slots {
                direct(memory, node, true);
                self.tree().shift_in(memory, node, records, new, value);
                memory.put(count(node), records + 1);
                return self.unlock(memory, node);
            }
            self.split(memory, node, records, fixed);
        }
    }

    /// FAIR: moves the upper half of a locked node to a new sibling, gives back the lock, and tells
    /// the parent.
    fn split<M: Memory>(&self, memory: &M, node: Addr, records: u64, fixed: bool) {
        let right = self.allocate(memory);
        let (middle, moved) = copy_half(memory, node, records, right);
        memory.put(lowest(right), middle);
        memory.put(count(right), moved);
        memory.persist(right, self.tree().node_bytes());

        memory.put_persist(sibling(node), right.bits());

        let before = memory.get(switches(node));
        memory.put(switches(node), before + 1 + u64::from(before.is_multiple_of(2)));
        memory.put_persist(pointer(node, records / 2), 0);
        memory.put(count(node), records / 2);

        if memory.get(ROOT) == node.bits() {
            self.grow(memory, node, middle, right);
            self.unlock(memory, node);
        } else {
            let parents = memory.get(level(node)) + 1;
            self.unlock(memory, node);
            self.insert_at(memory, middle, right.bits(), parents, fixed);
        }
    }

    /// Puts a root above the old one, which the caller has locked, and its first sibling.
    fn grow<M: Memory>(&self, memory: &M, left: Addr, middle: u64, right: Addr) {
        let root = self.allocate(memory);
        memory.put(leftmost(root), left.bits());
        memory.put(level(root), memory.get(level(left)) + 1);
        memory.put(count(root), 1);
        memory.put(key(root, 0), middle);
        memory.put(pointer(root, 0), right.bits());
        memory.persist(root, 2 * LINE_BYTES);
        memory.put_persist(ROOT, root.bits());
    }
}

impl Index for FastFairThreads {
    fn about(&self) -> About {
        About::new(
            "fast-fair-threads",
            BugKind::Threads,
            "a writer follows a sibling pointer that is not durable, and inserts there",
            "FAST&FAIR concurrent_pmdk btree.h:560 -> 876, 878, 886 (PMRace, ASPLOS'22)",
        )
        .threads(2)
    }

    fn pool_bytes(&self) -> u64 {
        NODES.offset() + self.nodes * self.tree().node_bytes()
    }

    fn dram_bytes(&self) -> u64 {
        8 * self.nodes
    }

    fn entries_before(&self) -> u64 {
        self.entries_before
    }

    fn operations(&self) -> u64 {
        self.operations
    }

    fn create<M: Memory>(&self, memory: &M) {
        memory.put_persist(NEXT, NODES.plus(self.tree().node_bytes()).bits());
        memory.put_persist(ROOT, NODES.bits());
    }

    fn insert<M: Memory>(&self, memory: &M, key: u64, value: u64, fixed: bool) {
        self.insert_at(memory, key, value, 0, fixed);
    }

    fn remove<M: Memory>(&self, memory: &M, key: u64, fixed: bool) -> bool {
        let leaf = self.lock_home(memory, key, 0, fixed);
        let records = memory.get(count(leaf));
        let place = (0..records).find(|&index| self.value_at(memory, leaf, index, key).is_some());
        if let Some(place) = place {
            direct(memory, leaf, false);
            self.tree().shift_out(memory, leaf, place, records);
            memory.put(count(leaf), records - 1);
        }
        self.unlock(memory, leaf);
        place.is_some()
    }

    fn get<M: Memory>(&self, memory: &M, key: u64, _: bool) -> Option<u64> {
        let mut leaf = self.descend(memory, key, 0, false);
        loop {
            let value = self.find_in_leaf(memory, leaf, key);
            match beyond(memory, leaf, key) {
                Some(next) if value.is_none() => leaf = next,
                _ => return value,
            }
        }
    }

    fn recover<M: Memory>(&self, memory: &M) -> Result<(), String> {
        self.repair_all(memory)?;
        self.tell_parents(memory)
    }

    fn entries<M: Memory>(&self, memory: &M) -> Result<Vec<(u64, u64)>, String> {
        self.check_levels(memory)?;
        self.walk_leaves(memory)
    }
}
