//! What recovery puts right, and a walk over the whole tree that checks it.
//!
//! A crash leaves a record twice where it cut a shift short, the moved half in both nodes where it
//! came before the cut of a split, and a node that only its sibling knows where it came before the
//! insert into the parent. Recovery takes the copies out, and does what is left of the split.

use super::{FastFairThreads, ROOT, count, lowest, switches};
use crate::fast_fair::{key, leftmost, level, pointer, sibling};
use crate::kit::{Words, ensure};
use seawall_memory::{Addr, Memory};

impl FastFairThreads {
    /// The nodes of a level, from left to right.
    fn chain<M: Memory>(&self, memory: &M, of: u64) -> Result<Vec<Addr>, String> {
        let mut node = memory.follow(ROOT)?;
        while memory.get(level(node)) > of {
            let child = memory.follow(leftmost(node))?;
            ensure(memory.get(level(child)) < memory.get(level(node)), "a child is not below")?;
            node = child;
        }
        let mut nodes = vec![node];
        loop {
            let next = Addr::from_bits(memory.get(sibling(node)));
            if next.is_null() {
                return Ok(nodes);
            }
            ensure(memory.get(level(next)) == of, "a sibling is of another level")?;
            let ascends = memory.get(lowest(node)) < memory.get(lowest(next));
            ensure(ascends, "siblings are not in order")?;
            nodes.push(next);
            node = next;
        }
    }

    /// The first key beyond a node.
    fn bound<M: Memory>(&self, memory: &M, node: Addr) -> u64 {
        match memory.get(sibling(node)) {
            0 => u64::MAX,
            next => memory.get(lowest(Addr::from_bits(next))),
        }
    }

    /// Makes each node one that no operation was at work in.
    pub(super) fn repair_all<M: Memory>(&self, memory: &M) -> Result<(), String> {
        let top = memory.get(level(memory.follow(ROOT)?));
        for of in (0..=top).rev() {
            for node in self.chain(memory, of)? {
                self.repair(memory, node);
            }
        }
        Ok(())
    }

    fn repair<M: Memory>(&self, memory: &M, node: Addr) {
        let mut records = self.tree().count(memory, node);
        let (mut index, mut left) = (0, memory.get(leftmost(node)));
        while index < records {
            let here = memory.get(pointer(node, index));
            if here == left {
                self.tree().shift_out(memory, node, index, records);
                records -= 1;
            } else {
                (index, left) = (index + 1, here);
            }
        }
        let bound = self.bound(memory, node);
        if let Some(moved) = (0..records).find(|&index| memory.get(key(node, index)) >= bound) {
            memory.put_persist(pointer(node, moved), 0);
            records = moved;
        }
        memory.put(switches(node), 0);
        memory.put(count(node), records);
    }

    /// Adds nodes to their parents that only their siblings know.
    pub(super) fn tell_parents<M: Memory>(&self, memory: &M) -> Result<(), String> {
        let root = memory.follow(ROOT)?;
        let second = Addr::from_bits(memory.get(sibling(root)));
        if !second.is_null() {
            self.grow(memory, root, memory.get(lowest(second)), second);
        }
        let mut of = 0;
        while of < memory.get(level(memory.follow(ROOT)?)) {
            let known = self.children(memory, of + 1)?;
            for node in self.chain(memory, of)? {
                if !known.iter().any(|(_, child)| *child == node) {
                    self.insert_at(memory, memory.get(lowest(node)), node.bits(), of + 1, true);
                }
            }
            of += 1;
        }
        Ok(())
    }

    /// The children that the inner nodes of a level know, with their smallest keys.
    fn children<M: Memory>(&self, memory: &M, of: u64) -> Result<Vec<(u64, Addr)>, String> {
        let mut children = Vec::new();
        for node in self.chain(memory, of)? {
            children.push((memory.get(lowest(node)), memory.follow(leftmost(node))?));
            let records = self.tree().records(memory, node);
            children.extend(records.iter().map(|(key, child)| (*key, Addr::from_bits(*child))));
        }
        Ok(children)
    }

    /// The nodes of each level must be what the level above knows, and their records in order and
    /// within their bounds.
    pub(super) fn check_levels<M: Memory>(&self, memory: &M) -> Result<(), String> {
        let root = memory.follow(ROOT)?;
        ensure(memory.get(sibling(root)) == 0, "the root has a sibling")?;
        let top = memory.get(level(root));
        for of in 0..=top {
            let nodes = self.chain(memory, of)?;
            for &node in &nodes {
                let records = self.tree().records(memory, node);
                let is_sorted = records.is_sorted_by(|(first, _), (second, _)| first < second);
                ensure(is_sorted, "the records of a node are not in order")?;
                let bounds = memory.get(lowest(node))..self.bound(memory, node);
                let is_within = records.iter().all(|(key, _)| bounds.contains(key));
                ensure(is_within, "a record is out of the bounds of its node")?;
                ensure(records.len() as u64 == memory.get(count(node)), "a count is wrong")?;
            }
            if of < top {
                let known = self.children(memory, of + 1)?;
                let there = nodes.iter().map(|&node| (memory.get(lowest(node)), node));
                ensure(there.eq(known), "a level is not what its parents know")?;
            }
        }
        Ok(())
    }

    /// The records of all leaves.
    pub(super) fn walk_leaves<M: Memory>(&self, memory: &M) -> Result<Vec<(u64, u64)>, String> {
        let leaves = self.chain(memory, 0)?;
        Ok(leaves.iter().flat_map(|leaf| self.tree().records(memory, *leaf)).collect())
    }
}
