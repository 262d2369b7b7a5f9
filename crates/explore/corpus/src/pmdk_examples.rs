//! Bugs of the maps and arrays among PMDK's examples.
//!
//! Sources: PMTest (ASPLOS'19), XFDetector (ASPLOS'20), Agamotto (OSDI'20), Jaaru (ASPLOS'21),
//! Witcher (SOSP'21) and PMDK's own history; numbers of our list of known bugs (EX-1 ..). The
//! transactions are those of `tx.rs`; a word that is not added to them is the bug.

use crate::kit::{Words, ensure, inserted, line, some_state, word};
use crate::program::{About, BugKind, Found, Program};
use crate::tx::{redo, redo_apply, undo_add, undo_commit, undo_rollback, undo_set};
use seawall_memory::{Addr, Memory, MemoryExt};

/// EX-1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BtreeSplit;

/// A node: the number of items in one line, the items in the next.
const LEFT: Addr = line(2);
const RIGHT: Addr = line(4);
/// Where the parent holds the node on the right.
const RIGHT_SLOT: Addr = line(1);

fn items(node: Addr) -> Addr {
    node.plus(64)
}

impl Program for BtreeSplit {
    fn about(&self) -> About {
        About::new(
            "ex-1",
            BugKind::Log,
            "a split cuts the left node, which is not in the transaction: items are lost",
            "PMDK btree_map.c create_split_node, 94d3f1c37 -> 25f5e4f67 (PMTest, Witcher 40)",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        memory.put(LEFT, 4);
        (0..4).for_each(|index| memory.put(word(items(LEFT), index), 10 + index));
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        for index in 0..2 {
            memory.put(word(items(RIGHT), index), memory.get(word(items(LEFT), 2 + index)));
        }
        memory.put(RIGHT, 2);
        memory.flush(RIGHT, 128);
        memory.order();
        if fixed {
            undo_add(memory, LEFT);
            undo_add(memory, word(items(LEFT), 2));
            undo_add(memory, word(items(LEFT), 3));
        }
        memory.put(word(items(LEFT), 2), 0);
        memory.put(word(items(LEFT), 3), 0);
        memory.put(LEFT, 2);
        memory.flush(LEFT, 128);
        undo_set(memory, RIGHT_SLOT, RIGHT.bits());
        undo_commit(memory);
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        undo_rollback(memory);
        let mut found = Vec::new();
        for node in [LEFT, Addr::from_bits(memory.get(RIGHT_SLOT))] {
            if !node.is_null() {
                let count = memory.get(node);
                found.extend((0..count).map(|index| memory.get(word(items(node), index))));
            }
        }
        Ok(found)
    }

    fn judge(&self, found: &[u64], _: &[u64]) -> Result<(), String> {
        ensure(found == [10, 11, 12, 13], "the tree has other items than before")
    }
}

/// EX-2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RbtreeRotate;

/// A node: key, left, right; a line each.
const fn node(number: u64) -> Addr {
    line(4 + number)
}

fn in_order<M: Memory>(memory: &M, at: u64, depth: u64, keys: &mut Found) -> Result<(), String> {
    ensure(depth < 8, "the tree has a circle")?;
    if at != 0 {
        let at = Addr::from_bits(at);
        in_order(memory, memory.get(word(at, 1)), depth + 1, keys)?;
        keys.push(memory.get(at));
        in_order(memory, memory.get(word(at, 2)), depth + 1, keys)?;
    }
    Ok(())
}

impl Program for RbtreeRotate {
    fn about(&self) -> About {
        About::new(
            "ex-2",
            BugKind::Log,
            "a rotation adds the wrong object, then writes through the parent's pointer",
            "PMDK rbtree_map.c rotate, c711d227f -> 04ec84e23 (PMTest, Witcher 41-43)",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        let tree = [(50, 1, 0), (10, 2, 3), (5, 0, 0), (20, 4, 0), (15, 0, 0)];
        let link = |child: u64| if child == 0 { 0 } else { node(child).bits() };
        for (number, (key, left, right)) in (0..).zip(tree) {
            memory.put(node(number), key);
            memory.put(word(node(number), 1), link(left));
            memory.put(word(node(number), 2), link(right));
        }
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let (parent, low, high) = (node(0), node(1), node(3));
        undo_set(memory, word(low, 2), memory.get(word(high, 1)));
        undo_set(memory, word(high, 1), low.bits());
        undo_add(memory, if fixed { word(parent, 1) } else { low });
        memory.put_flush(word(parent, 1), high.bits());
        undo_commit(memory);
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        undo_rollback(memory);
        let mut keys = Vec::new();
        in_order(memory, node(0).bits(), 0, &mut keys)?;
        Ok(keys)
    }

    fn judge(&self, found: &[u64], _: &[u64]) -> Result<(), String> {
        ensure(found == [5, 10, 15, 20, 50], "the tree has other keys than before")
    }
}

/// EX-4.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RtreeExtraNode;

/// A node of the radix tree: its part of the key, its length, its child, its value.
const EXTRA: Addr = line(3);
const LEAF: Addr = line(4);

impl Program for RtreeExtraNode {
    fn about(&self) -> About {
        About::new(
            "ex-4",
            BugKind::Log,
            "a node takes over the key of the removed one above it; the new key is not logged",
            "PMDK rtree_map.c remove_extra_node and two others, c9b698af8 -> 2cfc70b39",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        memory.put(line(1), EXTRA.bits());
        [1, 10, LEAF.bits(), 0].iter().zip(0..).for_each(|(&v, i)| memory.put(word(EXTRA, i), v));
        [2, 10, 0, 77].iter().zip(0..).for_each(|(&v, i)| memory.put(word(LEAF, i), v));
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        if fixed {
            undo_add(memory, LEAF);
            undo_add(memory, word(LEAF, 1));
        }
        memory.put(LEAF, 12);
        memory.put(word(LEAF, 1), 100);
        memory.flush(LEAF, 16);
        undo_set(memory, line(1), LEAF.bits());
        undo_commit(memory);
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        undo_rollback(memory);
        let (mut key, mut at) = (0, memory.follow(line(1))?);
        loop {
            key = key * memory.get(word(at, 1)) + memory.get(at);
            match memory.get(word(at, 2)) {
                0 => return Ok(vec![key, memory.get(word(at, 3))]),
                child => at = Addr::from_bits(child),
            }
        }
    }

    fn judge(&self, found: &[u64], _: &[u64]) -> Result<(), String> {
        ensure(found == [12, 77], "the key of the value has changed")
    }
}

/// EX-5.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RtreeSnapshot;

impl Program for RtreeSnapshot {
    fn about(&self) -> About {
        About::new(
            "ex-5",
            BugKind::Log,
            "one snapshot is to cover the key's size and the key, which lies elsewhere",
            "PMDK rtree_map.c insert_value, 2cfc70b39 -> 78c53e1e7",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        memory.put(line(1), 1);
        memory.put(line(3), 11);
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        undo_add(memory, line(1));
        for index in 0..2 {
            let from = if fixed { line(3) } else { word(line(1), 1) };
            undo_add(memory, word(from, index));
        }
        memory.put(line(1), 2);
        memory.put(line(3), 21);
        memory.put(word(line(3), 1), 22);
        memory.flush(line(3), 16);
        undo_commit(memory);
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        undo_rollback(memory);
        let size = memory.get(line(1));
        Ok((0..size).map(|index| memory.get(word(line(3), index))).collect())
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[vec![11], vec![21, 22]])
    }
}

/// EX-7.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HandleNotLogged;

impl Program for HandleNotLogged {
    fn about(&self) -> About {
        About::new(
            "ex-7",
            BugKind::Log,
            "the root's handle is written outside the transaction that allocates the map",
            "PMDK hashmap_tx create, 4ad2e35a8 -> 2d73212e4",
        )
        .epochs_too()
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let (handle, used, map) = (line(1), line(2), line(4));
        undo_set(memory, used, 1);
        if fixed {
            undo_add(memory, handle);
        }
        memory.put_flush(handle, map.bits());
        undo_set(memory, map, 16); // its number of buckets
        undo_commit(memory);
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        undo_rollback(memory);
        let handle = memory.get(line(1));
        if handle == 0 {
            return Ok(vec![0]);
        }
        ensure(memory.get(line(2)) == 1, "the root points to a map that is not allocated")?;
        Ok(vec![memory.get(Addr::from_bits(handle))])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, promised, &[16])
    }
}

/// EX-8.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SizeOfHandle;

impl Program for SizeOfHandle {
    fn about(&self) -> About {
        About::new(
            "ex-8",
            BugKind::Flush,
            "a new map is persisted with the size of its handle, 16 bytes",
            "PMDK hashmap_rp create, 972d5a119 -> 9075946e0",
        )
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let map = line(4);
        (0..12).for_each(|index| memory.put(word(map, index), 100 + index));
        memory.persist(map, if fixed { 96 } else { 16 });
        memory.put_persist(line(1), map.bits());
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let map = memory.get(line(1));
        if map == 0 {
            return Ok(Vec::new());
        }
        Ok((0..12).map(|index| memory.get(word(Addr::from_bits(map), index))).collect())
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[Vec::new(), (100..112).collect()])
    }
}

/// EX-10.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirtyCount;

const COUNT: Addr = line(1);
const DIRTY: Addr = line(2);

fn entry_at(number: u64) -> Addr {
    line(10 + number)
}

impl Program for DirtyCount {
    fn about(&self) -> About {
        About::new(
            "ex-10",
            BugKind::Recovery,
            "after a crash the count is read although it is marked dirty",
            "PMDK hashmap_atomic insert :263 (XFDetector, Agamotto)",
        )
        .epochs_too()
    }

    fn run<M: Memory>(&self, memory: &M, _: bool) {
        for number in 0..3 {
            memory.put_persist(DIRTY, 1);
            memory.put_persist(entry_at(number), 10 + number);
            memory.put_persist(COUNT, memory.get(COUNT) + 1);
            memory.put_persist(DIRTY, 0);
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, fixed: bool) -> Result<Found, String> {
        let found: Found = (0..3).map(|number| memory.get(entry_at(number))).collect();
        let real = found.iter().filter(|value| **value != 0).count() as u64;
        if fixed && memory.get(DIRTY) == 1 {
            memory.put_persist(COUNT, real);
            memory.put_persist(DIRTY, 0);
        }
        ensure(memory.get(COUNT) == real, "the count differs from the number of entries")?;
        Ok(found)
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, promised, &[10, 11, 12])
    }
}

/// EX-11.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RebuildFinish;

impl Program for RebuildFinish {
    fn about(&self) -> About {
        About::new(
            "ex-11",
            BugKind::Atomicity,
            "the old buckets are freed before the map points to the new ones",
            "PMDK hashmap_atomic rebuild_finish :207 (Witcher 46)",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        memory.put(line(1), line(4).bits());
        memory.put(line(2), 0b11); // both arrays are allocated: array n is line 4 + n
        memory.put(line(4), 7);
        memory.put(line(5), 7);
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let (buckets, used) = (line(1), line(2));
        if fixed {
            redo(memory, &[(buckets, line(5).bits()), (used, 0b10)]);
        } else {
            memory.put_persist(used, 0b10);
            memory.put_persist(buckets, line(5).bits());
        }
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        redo_apply(memory);
        let at = memory.get(line(1));
        let number = (at - line(4).bits()) / 64;
        ensure(memory.get(line(2)) & 1 << number != 0, "the buckets in use are freed memory")?;
        Ok(vec![memory.get(Addr::from_bits(at)), number])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[7, 0], [7, 1]])
    }
}

/// EX-13.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClearNode;

impl Program for ClearNode {
    fn about(&self) -> About {
        About::new(
            "ex-13",
            BugKind::Recovery,
            "the destroy that follows a crash takes a child slot without looking for null",
            "PMDK btree_map_clear_node, b96309686 -> fa6d6d79d, issue 5024 (Jaaru)",
        )
        .epochs_too()
    }

    fn run<M: Memory>(&self, memory: &M, _: bool) {
        for number in 0..2 {
            memory.put_persist(line(1), number + 1);
            memory.put_persist(line(6 + number), 10 + number);
            memory.put_persist(line(2 + number), line(6 + number).bits());
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, fixed: bool) -> Result<Found, String> {
        let mut found = vec![0; 2];
        for number in 0..memory.get(line(1)) {
            let slot = line(2 + number);
            if fixed && memory.get(slot) == 0 {
                continue;
            }
            found[number as usize] = memory.get(memory.follow(slot)?);
        }
        Ok(found)
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, promised, &[10, 11])
    }
}

/// EX-14.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrayBeforeInfo;

impl Program for ArrayBeforeInfo {
    fn about(&self) -> About {
        About::new(
            "ex-14",
            BugKind::Atomicity,
            "an array is linked before its type and size are set",
            "PMDK array.c alloc_int, issue 4927, removed in da3f68416",
        )
        .epochs_too()
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let (array, info) = (line(1), line(2));
        memory.put_persist(line(4), 7);
        if !fixed {
            memory.put_persist(array, line(4).bits());
        }
        memory.put(info, 1); // ints
        memory.put(word(info, 1), 8);
        memory.persist(info, 16);
        if fixed {
            memory.put_persist(array, line(4).bits());
        }
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let array = memory.get(line(1));
        if array == 0 {
            return Ok(vec![0, 0]);
        }
        ensure(memory.get(line(2)) == 1, "an array of no type")?;
        Ok(vec![memory.get(word(line(2), 1)), memory.get(Addr::from_bits(array))])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[0, 0], [8, 7]])
    }
}

/// EX-16.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArrayShrink;

impl Program for ArrayShrink {
    fn about(&self) -> About {
        About::new(
            "ex-16",
            BugKind::Atomicity,
            "a shrunk array is linked before its size is cut: reads go out of bounds",
            "PMDK array.c realloc, issue 5217 bug 2, removed in da3f68416",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        memory.put(line(1), line(4).bits());
        memory.put(line(2), 4);
        (0..4).for_each(|index| memory.put(word(line(4), index), 10 + index));
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        (0..2).for_each(|index| memory.put(word(line(6), index), 10 + index));
        memory.flush(line(6), 16);
        memory.order();
        if fixed {
            redo(memory, &[(line(1), line(6).bits()), (line(2), 2)]);
        } else {
            memory.put_persist(line(1), line(6).bits());
            memory.put_persist(line(2), 2);
        }
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        redo_apply(memory);
        let array = memory.follow(line(1))?;
        Ok((0..memory.get(line(2))).map(|index| memory.get(word(array, index))).collect())
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[vec![10, 11, 12, 13], vec![10, 11]])
    }
}

/// EX-17.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlexibleTail;

impl Program for FlexibleTail {
    fn about(&self) -> About {
        About::new(
            "ex-17",
            BugKind::Flush,
            "a constructor persists sizeof(node), which leaves out the value at its end",
            "PMDK libpmemobj btree.c, 9a1451847 -> 2f9a8468a",
        )
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        for number in 0..2 {
            let node = line(4 + 2 * number);
            memory.put(node, memory.get(line(1)));
            memory.put(word(node, 1), number);
            (2..10).for_each(|index| memory.put(word(node, index), 50 + number));
            memory.persist(node, if fixed { 80 } else { 16 });
            memory.put_persist(line(1), node.bits());
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let (mut found, mut at) = (vec![0; 2], memory.get(line(1)));
        while at != 0 {
            let node = Addr::from_bits(at);
            let number = memory.get(word(node, 1));
            let whole = (2..10).all(|index| memory.get(word(node, index)) == 50 + number);
            ensure(whole, "the value of a linked node is not there")?;
            found[number as usize] = 50 + number;
            at = memory.get(node);
        }
        Ok(found)
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, promised, &[50, 51])
    }
}
