//! The prefix tree: transactions as paths of ranks from the root, counted node by node, and all
//! nodes of a rank in one list.

use super::super::sync::{lock, unlock};
use super::database::ITEMS;
use crate::Words;
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_runtime::Arena;

/// Words of a node, one line, and offsets. Links are numbers of nodes; node 0 is the root.
const NODE: u64 = 8;
const RANK: u64 = 0;
const COUNT: u64 = 1;
const PARENT: u64 = 2;
const CHILD: u64 = 3;
const SIBLING: u64 = 4;
/// The next node of the same rank.
const SAME: u64 = 5;
const LOCK: u64 = 6;

/// Nodes that a thread allocates at once.
const CHUNK: u64 = 16;

#[derive(Clone, Copy, Debug)]
pub(super) struct Prefixes {
    /// The number of allocated nodes, beyond the root.
    taken: Words,
    /// The children of the root by rank, and the first node of each rank.
    tops: Words,
    heads: Words,
    nodes: Words,
}

/// The allocated nodes that a thread has not used yet.
#[derive(Default)]
pub(super) struct Own {
    next: u64,
    end: u64,
}

impl Prefixes {
    pub(super) fn place(arena: &mut Arena, occurrences: u64, threads: u64) -> Prefixes {
        Prefixes {
            taken: Words::place(arena, 1),
            tops: Words::place(arena, ITEMS),
            heads: Words::place(arena, ITEMS),
            nodes: Words::place(arena, (1 + occurrences + CHUNK * (threads + 1)) * NODE),
        }
    }

    fn at(&self, node: u64, offset: u64) -> Addr {
        self.nodes.at(node * NODE + offset)
    }

    fn get<M: Memory>(&self, memory: &M, node: u64, offset: u64) -> u64 {
        self.nodes.get(memory, node * NODE + offset)
    }

    /// The child of rank `rank` in the list that starts with `child`.
    fn look<M: Memory>(&self, memory: &M, mut child: u64, rank: u64) -> Option<u64> {
        while child != 0 {
            memory.work(4);
            if self.get(memory, child, RANK) == rank {
                return Some(child);
            }
            child = self.get(memory, child, SIBLING);
        }
        None
    }

    /// The child of `parent` with `rank`; creates it if there is none.
    fn child<M: Memory>(&self, memory: &M, parent: u64, rank: u64, own: &mut Own) -> u64 {
        let first = if parent == 0 { self.tops.at(rank) } else { self.at(parent, CHILD) };
        let seen = memory.load::<u64>(first);
        if let Some(child) = self.look(memory, seen, rank) {
            return child;
        }
        let lock_at = if parent == 0 { self.at(0, LOCK) } else { self.at(parent, LOCK) };
        lock(memory, lock_at);
        let now = memory.load::<u64>(first);
        let child = match self.look(memory, now, rank) {
            Some(child) => child,
            None => {
                let child = self.new_node(memory, own);
                for (offset, value) in [(RANK, rank), (PARENT, parent), (SIBLING, now)] {
                    self.nodes.put(memory, child * NODE + offset, value);
                }
                self.link(memory, child, rank);
                memory.store(first, child);
                child
            }
        };
        unlock(memory, lock_at);
        child
    }

    fn new_node<M: Memory>(&self, memory: &M, own: &mut Own) -> u64 {
        if own.next == own.end {
            own.next = 1 + self.taken.claim(memory, 0, CHUNK);
            own.end = own.next + CHUNK;
        }
        own.next += 1;
        own.next - 1
    }

    /// Puts `node` at the head of the list of its rank.
    fn link<M: Memory>(&self, memory: &M, node: u64, rank: u64) {
        let mut head = self.heads.get(memory, rank);
        loop {
            self.nodes.put(memory, node * NODE + SAME, head);
            match memory.compare_exchange(self.heads.at(rank), head, node) {
                Ok(_) => return,
                Err(other) => head = other,
            }
        }
    }

    /// Adds a transaction, its ranks in order.
    pub(super) fn insert<M: Memory>(&self, memory: &M, ranks: &[u64], own: &mut Own) {
        let mut node = 0;
        for rank in ranks {
            node = self.child(memory, node, *rank, own);
            memory.fetch_add(self.at(node, COUNT), 1);
        }
    }

    /// For every node of `rank`, calls `each` with its count and the ranks on the path to the root.
    pub(super) fn paths_of<M: Memory>(
        &self,
        memory: &M,
        rank: u64,
        mut each: impl FnMut(u64, &[u64]),
    ) {
        let mut node = self.heads.get(memory, rank);
        let mut path = Vec::new();
        while node != 0 {
            path.clear();
            let mut above = self.get(memory, node, PARENT);
            while above != 0 {
                path.push(self.get(memory, above, RANK));
                above = self.get(memory, above, PARENT);
                memory.work(3);
            }
            each(self.get(memory, node, COUNT), &path);
            node = self.get(memory, node, SAME);
        }
    }
}
