//! Bugs of the radix tree (P-ART) and the B-tree of deltas (P-BwTree) of RECIPE.
//!
//! "RECIPE: Converting Concurrent DRAM Indexes to Persistent-Memory Indexes" (Lee, Mohan, Kashyap,
//! Kim, Chidambaram, SOSP'19); found by Witcher (SOSP'21), Jaaru (ASPLOS'21) and the authors (RA-
//! and RB- of our list). A node here has its count in one line and its children in others.

use crate::kit::{Words, ensure, inserted, line, some_state, word};
use crate::program::{About, BugKind, Found, Program};
use seawall_memory::{Addr, Memory, MemoryExt};

/// The number of children of a node; child `index` is a value, its key `index + 1`.
const COUNT: Addr = line(4);

const fn child(index: u64) -> Addr {
    word(line(5), index)
}

/// RA-1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactCount;

impl Program for CompactCount {
    fn about(&self) -> About {
        About::new(
            "ra-1",
            BugKind::Atomicity,
            "a child is durable before the count: get finds a key that a range scan misses",
            "RECIPE P-ART N16.cpp:15, 5b4cf3e -> 950ae0e, 4b0c276 (Witcher 26)",
        )
        .epochs_too()
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        for number in 0..3 {
            if fixed {
                memory.put_persist(COUNT, number + 1);
                memory.put_persist(child(number), 10 + number);
            } else {
                memory.put_persist(child(number), 10 + number);
                memory.put_persist(COUNT, number + 1);
            }
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let get: Found = (0..3).map(|index| memory.get(child(index))).collect();
        let scan: Found = (0..memory.get(COUNT)).map(|index| memory.get(child(index))).collect();
        let by_get = get.iter().filter(|value| **value != 0).count();
        let by_scan = scan.iter().filter(|value| **value != 0).count();
        ensure(by_get == by_scan, "a range scan misses a key that get finds")?;
        Ok(get)
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, promised, &[10, 11, 12])
    }
}

/// RA-2. Count and children in one line, whose stores persist in order: which goes first decides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OverwriteLive;

impl Program for OverwriteLive {
    fn about(&self) -> About {
        About::new(
            "ra-2",
            BugKind::Atomicity,
            "child and counter share a line, not a store: a later insert overwrites a live child",
            "RECIPE P-ART N4.cpp:17, 5b4cf3e -> 4b0c276 (Witcher 27)",
        )
        .epochs_too()
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let node = line(4); // count, then children, in one line
        for number in 0..2 {
            if fixed {
                memory.put(node, number + 1);
            }
            memory.put(word(node, 1 + number), 10 + number);
            if !fixed {
                memory.put(node, number + 1);
            }
            memory.persist(node, 64);
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let node = line(4);
        let before = [memory.get(word(node, 1)), memory.get(word(node, 2))];
        let place = word(node, 1 + memory.get(node)); // of the first insert after the crash
        ensure(memory.get(place) == 0, "an insert overwrites a child that a get has returned")?;
        Ok(before.into())
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, promised, &[10, 11])
    }
}

/// RA-4.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeObject;

impl Program for TreeObject {
    fn about(&self) -> About {
        About::new(
            "ra-4",
            BugKind::Flush,
            "the constructor flushes the root node and not the tree object that points to it",
            "RECIPE P-ART Tree constructor, 3d33f85 -> f70d7d4 (Jaaru)",
        )
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let (tree, root) = (line(2), line(4));
        memory.put_persist(root, 1);
        memory.put(tree, root.bits());
        if fixed {
            memory.flush(tree, 8);
        }
        memory.order();
        memory.put_persist(line(1), tree.bits());
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        match memory.get(line(1)) {
            0 => Ok(vec![0]),
            tree => Ok(vec![memory.get(memory.follow(Addr::from_bits(tree))?)]),
        }
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, promised, &[1])
    }
}

/// RA-5.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeletionList;

impl Program for DeletionList {
    fn about(&self) -> About {
        About::new(
            "ra-5",
            BugKind::Flush,
            "the head of the list of retired nodes is not flushed: they are never freed",
            "RECIPE P-ART Epoche.h:77 (Jaaru P-ART-1)",
        )
    }

    fn setup<M: Memory>(&self, memory: &M) {
        memory.put(line(1), line(10).bits());
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let (root, retired) = (line(1), line(2));
        for number in 0..2 {
            let old = Addr::from_bits(memory.get(root));
            memory.put_persist(old, memory.get(retired));
            memory.put(retired, old.bits());
            if fixed {
                memory.flush(retired, 8);
            }
            memory.order();
            memory.put_persist(root, line(11 + number).bits());
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let current = memory.get(line(1));
        let mut reachable = vec![current];
        let mut at = memory.get(line(2));
        while at != 0 && reachable.len() < 8 {
            reachable.push(at);
            at = memory.get(Addr::from_bits(at));
        }
        let version = current / 64 - 10;
        let all = (0..version).all(|number| reachable.contains(&line(10 + number).bits()));
        ensure(all, "a retired node is on no list")?;
        Ok(vec![version])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[0], [1], [2]])
    }
}

/// RB-1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocatorTail;

const TAIL: Addr = line(2);
const CHAIN: Addr = line(1);
const CHUNK: Addr = line(10);

/// Takes a line from the end of the chunk.
fn take<M: Memory>(memory: &M, flushed: bool) -> Addr {
    let tail = memory.fetch_add(TAIL, 1u64.wrapping_neg()) - 1;
    if flushed {
        memory.flush(TAIL, 8);
    }
    memory.order();
    CHUNK.plus(64 * tail)
}

impl Program for AllocatorTail {
    fn about(&self) -> About {
        About::new(
            "rb-1",
            BugKind::Flush,
            "the allocator's tail is not flushed: after a crash space in use is given again",
            "RECIPE P-BwTree bwtree.h:2012, 5b4cf3e (Witcher 28, Jaaru)",
        )
    }

    fn setup<M: Memory>(&self, memory: &M) {
        memory.put(TAIL, 8);
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        for number in 0..3 {
            let delta = take(memory, fixed);
            memory.put(delta, memory.get(CHAIN));
            memory.put(word(delta, 1), 10 + number);
            memory.persist(delta, 16);
            memory.put_persist(CHAIN, delta.bits());
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let new = take(memory, true); // of the first insert after the crash
        memory.put_persist(word(new, 1), 99);
        let (mut found, mut at) = (Vec::new(), memory.get(CHAIN));
        while at != 0 {
            found.insert(0, memory.get(word(Addr::from_bits(at), 1)));
            at = memory.get(Addr::from_bits(at));
        }
        Ok(found)
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[vec![], vec![10], vec![10, 11], vec![10, 11, 12]])
    }
}

/// RB-2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AllocationMeta;

impl Program for AllocationMeta {
    fn about(&self) -> About {
        About::new(
            "rb-2",
            BugKind::Flush,
            "the header of a new chunk is not flushed: allocation after a crash reads garbage",
            "RECIPE P-BwTree bwtree.h:2369, 5b4cf3e (Witcher 29)",
        )
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        for number in 0..2 {
            let chunk = line(10 + number);
            memory.put(chunk, 4); // units left
            memory.put(word(chunk, 1), memory.get(line(1)));
            if fixed {
                memory.flush(chunk, 16);
            }
            memory.order();
            memory.put_persist(line(1), chunk.bits());
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let (mut chunks, mut at) = (0, memory.get(line(1)));
        while at != 0 {
            ensure(memory.get(Addr::from_bits(at)) == 4, "a linked chunk has no size")?;
            chunks += 1;
            at = memory.get(word(Addr::from_bits(at), 1));
        }
        Ok(vec![chunks])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[0], [1], [2]])
    }
}

/// RB-4.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HelpSplit;

impl Program for HelpSplit {
    fn about(&self) -> About {
        About::new(
            "rb-4",
            BugKind::Threads,
            "a helper finishes a split whose mapping-table entry is not durable yet",
            "RECIPE P-BwTree, helping on split and merge deltas, 91aa34b -> e85fdd1",
        )
        .threads(2)
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let (mapping, parent, delta) = (line(1), line(2), line(10));
        if memory.thread() == 0 {
            memory.put_persist(delta, 5);
            let _ = memory.compare_exchange(mapping, 0, delta.bits());
            memory.persist(mapping, 8);
        } else {
            let seen = memory.get(mapping);
            if fixed {
                memory.persist(mapping, 8);
            }
            if seen != 0 {
                memory.put_persist(parent, delta.bits());
            }
        }
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let (mapping, parent) = (memory.get(line(1)), memory.get(line(2)));
        ensure(parent == 0 || mapping != 0, "the parent knows a split that its child does not")?;
        Ok(vec![u64::from(mapping != 0)])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, promised, &[1])
    }
}

/// RB-5.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoveDelta;

impl Program for RemoveDelta {
    fn about(&self) -> About {
        About::new(
            "rb-5",
            BugKind::Flush,
            "a merge flushes neither the remove delta nor the mapping entry",
            "RECIPE P-BwTree InnerRemove, 45100ef -> 4525e9a",
        )
    }

    fn setup<M: Memory>(&self, memory: &M) {
        memory.put(line(1), line(8).bits()); // left page
        memory.put(line(2), line(9).bits()); // right page
        memory.put(line(8), 10);
        memory.put(line(9), 20);
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let (delta, mapping) = (line(10), line(1));
        memory.put(delta, 10);
        memory.put(word(delta, 1), 20);
        if fixed {
            memory.flush(delta, 16);
        }
        memory.order();
        memory.put(mapping, delta.bits());
        if fixed {
            memory.flush(mapping, 8);
        }
        memory.order();
        memory.put_persist(line(2), 0); // the right page is gone
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let left = memory.follow(line(1))?;
        let mut found = vec![memory.get(left), memory.get(word(left, 1))];
        let right = memory.get(line(2));
        if right != 0 && found[1] == 0 {
            found[1] = memory.get(Addr::from_bits(right));
        }
        Ok(found)
    }

    fn judge(&self, found: &[u64], _: &[u64]) -> Result<(), String> {
        ensure(found == [10, 20], "a merge lost keys")
    }
}

/// RB-7.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlushAfterLoad;

impl Program for FlushAfterLoad {
    fn about(&self) -> About {
        About::new(
            "rb-7",
            BugKind::Threads,
            "a writer builds on a value that it loaded and that is not durable",
            "RECIPE P-BwTree, flush after load, a9c1a98 -> dd8ca0f",
        )
        .threads(2)
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let counter = line(1);
        let mine = line(4 + memory.thread() as u64);
        for number in 0..2 {
            loop {
                let before = memory.get(counter);
                if fixed {
                    memory.persist(counter, 8);
                }
                memory.put_persist(mine, before);
                if memory.compare_exchange(counter, before, before + 1).is_ok() {
                    break;
                }
            }
            memory.persist(counter, 8);
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let counter = memory.get(line(1));
        let noted = memory.get(line(4)).max(memory.get(line(5)));
        ensure(noted <= counter, "a thread noted a count that the counter has not reached")?;
        Ok(vec![counter])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        let done: u64 = promised.iter().sum();
        ensure(found[0] >= done, "the counter went back behind the completed operations")
    }
}
