//! Insert, update and delete: shifts within a node (FAST), splits and merges of nodes (FAIR).
//!
//! A thread takes locks from upper to lower levels and from left to right, and the lock of the root
//! pointer last, so there is no deadlock.

use super::{
    FastFairTree, Head, LEFTMOST, LEVEL, LOW, NO_CHILD, RECORD_BYTES, SIBLING, key, left_of,
    persist, pointer, settle, starts_line, word,
};
use crate::shared::epoch_log::OrderFlaw;
use crate::shared::{Change, Full};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::Held;

/// A locked node, and the place of a key in it.
struct Within {
    node: Addr,
    count: u64,
    /// The place of the key, or where it would be.
    place: u64,
    is_there: bool,
}

impl FastFairTree {
    fn within<M: Memory>(&self, memory: &M, node: Addr, wanted: u64) -> Within {
        let count = self.count(memory, node);
        let found = |index: &u64| memory.load::<u64>(key(node, *index)) >= wanted;
        let place = (0..count).find(found).unwrap_or(count);
        let is_there = place < count && memory.load::<u64>(key(node, place)) == wanted;
        Within { node, count, place, is_there }
    }

    /// Inserts a key; returns false and changes nothing if it exists.
    ///
    /// # Errors
    /// [`Full`] if there is no node left: only with more keys than the shape permits.
    #[track_caller]
    pub fn insert<M: Memory, F: FnMut(u64, u64)>(
        &self,
        memory: &M,
        new: u64,
        mut change: Change<F>,
    ) -> Result<bool, Full> {
        let (node, held) = self.hold(memory, 0, new).expect("a tree has leaves");
        let within = self.within(memory, node, new);
        if within.is_there {
            held.release(memory);
            return Ok(false);
        }
        let note = || (change.note)(new, change.tag);
        self.add(memory, (within, held), (new, change.tag), change.flaw, note)?;
        Ok(true)
    }

    /// Adds a record to a locked node and unlocks it. A full node first moves one half of its
    /// records to a new node, for which its parent then gets a record. `note` is called before any
    /// store.
    fn add<M: Memory>(
        &self,
        memory: &M,
        (within, held): (Within, Held),
        (new, to): (u64, u64),
        flaw: OrderFlaw,
        note: impl FnOnce(),
    ) -> Result<(), Full> {
        let Within { node, count, .. } = within;
        if count + 1 < self.shape.slots {
            note();
            self.shift_in(memory, &within, (new, to), flaw);
            held.release(memory);
            return Ok(());
        }
        let level = word(memory, node, LEVEL);
        let half = count / 2;
        let middle = memory.load::<u64>(key(node, half));
        let head = Head {
            leftmost: if level == 0 { NO_CHILD } else { memory.load(pointer(node, half)) },
            sibling: word(memory, node, SIBLING),
            level,
            low: middle,
        };
        let right = match self.fresh(memory, head) {
            Ok(right) => right,
            Err(full) => {
                held.release(memory);
                return Err(full);
            }
        };
        note();
        let right_held = self.lock(right).acquire(memory);
        let from = if level == 0 { half } else { half + 1 };
        self.split(memory, node, right, (half, from, count), flaw);
        let within = self.within(memory, if new < middle { node } else { right }, new);
        self.shift_in(memory, &within, (new, to), flaw);
        right_held.release(memory);
        held.release(memory);
        self.tell_parent(memory, level + 1, (middle, right), flaw)
    }

    /// Moves the records from `from` to the new node, links it, and ends the old one at `half`.
    fn split<M: Memory>(
        &self,
        memory: &M,
        node: Addr,
        right: Addr,
        (half, from, count): (u64, u64, u64),
        flaw: OrderFlaw,
    ) {
        for index in from..count {
            let to = index - from;
            memory.store(key(right, to), memory.load::<u64>(key(node, index)));
            memory.store(pointer(right, to), memory.load::<u64>(pointer(node, index)));
        }
        memory.store(pointer(right, count - from), 0u64);
        settle(memory, right, LINE_BYTES + RECORD_BYTES * (count - from + 1), flaw);
        self.disturb(memory, right);
        persist(memory, node.plus(SIBLING), right.bits());
        persist(memory, pointer(node, half), 0);
    }

    /// Adds a record of a new node to its parent; makes a new root if there is none.
    pub(super) fn tell_parent<M: Memory>(
        &self,
        memory: &M,
        level: u64,
        (low, child): (u64, Addr),
        flaw: OrderFlaw,
    ) -> Result<(), Full> {
        loop {
            if let Some((node, held)) = self.hold(memory, level, low) {
                let within = self.within(memory, node, low);
                return self.add(memory, (within, held), (low, child.bits()), flaw, || {});
            }
            let lock = self.root_lock().acquire(memory);
            let root = memory.load::<Addr>(self.root);
            let is_lower = word(memory, root, LEVEL) < level;
            let made = if is_lower { self.new_root(memory, root, (low, child)) } else { Ok(()) };
            lock.release(memory);
            if is_lower {
                return made;
            }
        }
    }

    fn new_root<M: Memory>(
        &self,
        memory: &M,
        left: Addr,
        (low, child): (u64, Addr),
    ) -> Result<(), Full> {
        let level = word(memory, left, LEVEL) + 1;
        let root = self.fresh(memory, Head { leftmost: left.bits(), sibling: 0, level, low: 0 })?;
        memory.store(key(root, 0), low);
        memory.store(pointer(root, 0), child.bits());
        memory.store(pointer(root, 1), 0u64);
        memory.flush(root, LINE_BYTES + 2 * RECORD_BYTES);
        memory.order();
        self.disturb(memory, root);
        persist(memory, self.root, root.bits());
        Ok(())
    }

    /// FAST: shifts the larger records to the right, from the last, and puts one in the gap.
    fn shift_in<M: Memory>(
        &self,
        memory: &M,
        within: &Within,
        (new, to): (u64, u64),
        flaw: OrderFlaw,
    ) {
        let &Within { node, count, place, .. } = within;
        self.shifts(memory, node, 0);
        memory.store(pointer(node, count + 1), 0u64);
        if starts_line(count + 1) {
            settle(memory, key(node, count + 1), RECORD_BYTES, flaw);
        }
        for index in (place + 1..=count).rev() {
            memory.store(pointer(node, index), memory.load::<u64>(pointer(node, index - 1)));
            memory.store(key(node, index), memory.load::<u64>(key(node, index - 1)));
            if starts_line(index) {
                settle(memory, key(node, index), RECORD_BYTES, flaw);
            }
        }
        if place < count {
            memory.store(pointer(node, place), memory.load::<u64>(left_of(node, place)));
        }
        memory.store(key(node, place), new);
        memory.store(pointer(node, place), to);
        memory.flush(key(node, place), RECORD_BYTES);
        memory.order();
    }

    /// FAST: removes a record by shifting those behind it to the left.
    pub(super) fn shift_out<M: Memory>(&self, memory: &M, node: Addr, place: u64, flaw: OrderFlaw) {
        let count = self.count(memory, node);
        self.shifts(memory, node, 1);
        memory.store(pointer(node, place), memory.load::<u64>(left_of(node, place)));
        for index in place..count {
            if index + 1 < count {
                memory.store(key(node, index), memory.load::<u64>(key(node, index + 1)));
            }
            let next = if index + 1 < count { memory.load(pointer(node, index + 1)) } else { 0u64 };
            memory.store(pointer(node, index), next);
            if starts_line(index + 1) && index + 1 < count {
                settle(memory, key(node, index), RECORD_BYTES, flaw);
            }
        }
        memory.flush(key(node, count - 1), RECORD_BYTES);
        memory.order();
    }

    /// Sets the tag of a key; returns false and changes nothing if it does not exist.
    #[track_caller]
    pub fn update<M: Memory, F: FnMut(u64, u64)>(
        &self,
        memory: &M,
        wanted: u64,
        mut change: Change<F>,
    ) -> bool {
        let (node, held) = self.hold(memory, 0, wanted).expect("a tree has leaves");
        let Within { place, is_there, .. } = self.within(memory, node, wanted);
        if is_there {
            (change.note)(wanted, change.tag);
            persist(memory, pointer(node, place), change.tag);
        }
        held.release(memory);
        is_there
    }

    /// Deletes a key; returns false and changes nothing if it does not exist.
    #[track_caller]
    pub fn delete<M: Memory, F: FnMut(u64, u64)>(
        &self,
        memory: &M,
        old: u64,
        mut change: Change<F>,
    ) -> bool {
        let (node, held) = self.hold(memory, 0, old).expect("a tree has leaves");
        let Within { count, place, is_there, .. } = self.within(memory, node, old);
        if is_there {
            (change.note)(old, 0);
            self.shift_out(memory, node, place, change.flaw);
        }
        let low = word(memory, node, LOW);
        held.release(memory);
        if is_there && count <= self.few() {
            self.join(memory, 0, low, node, change.flaw);
        }
        is_there
    }

    /// A node with fewer records can be merged with its neighbour.
    fn few(&self) -> u64 {
        self.shape.slots / 4
    }

    /// FAIR in reverse: merges a node with the one to its left, if they have the same parent and
    /// few records; then continues with the parent.
    fn join<M: Memory>(&self, memory: &M, level: u64, low: u64, node: Addr, flaw: OrderFlaw) {
        let Some((parent, parent_held)) = self.hold(memory, level + 1, low) else { return };
        let place = (0..self.count(memory, parent))
            .find(|index| memory.load::<u64>(pointer(parent, *index)) == node.bits());
        let joined = place.is_some_and(|place| {
            let left = Addr::from_bits(memory.load(left_of(parent, place)));
            let left_held = self.lock(left).acquire(memory);
            let node_held = self.lock(node).acquire(memory);
            let is_fit = self.may_join(memory, left, node);
            if is_fit {
                self.shift_out(memory, parent, place, flaw);
                self.append(memory, left, node, flaw);
            }
            node_held.release(memory);
            left_held.release(memory);
            is_fit
        });
        let (rest, parent_low) = (self.count(memory, parent), word(memory, parent, LOW));
        let is_gone = joined && rest == 0 && self.lower_root(memory, parent);
        parent_held.release(memory);
        if joined {
            self.nodes.give(memory, node);
        }
        if is_gone {
            self.nodes.give(memory, parent);
        } else if joined && rest <= self.few() {
            self.join(memory, level + 1, parent_low, parent, flaw);
        }
    }

    fn may_join<M: Memory>(&self, memory: &M, left: Addr, node: Addr) -> bool {
        let both = self.count(memory, left) + self.count(memory, node) + 1;
        word(memory, left, SIBLING) == node.bits() && both <= self.shape.slots / 2
    }

    /// Appends the records of `node` to those of its left neighbour, where they are invalid as long
    /// as they belong to the sibling; then makes them valid by unlinking `node` from the chain.
    fn append<M: Memory>(&self, memory: &M, left: Addr, node: Addr, flaw: OrderFlaw) {
        let mut records = Vec::new();
        if word(memory, node, LEVEL) > 0 {
            records.push((word(memory, node, LOW), word(memory, node, LEFTMOST)));
        }
        let more = (0..self.count(memory, node))
            .map(|index| (memory.load(key(node, index)), memory.load(pointer(node, index))));
        records.extend(more);
        let (first, many) = (self.count(memory, left), records.len() as u64);
        if many > 0 {
            memory.store(pointer(left, first + many), 0u64);
            for (index, (new, to)) in (first..).zip(&records) {
                memory.store(key(left, index), *new);
                if index > first {
                    memory.store(pointer(left, index), *to);
                }
            }
            settle(memory, key(left, first), RECORD_BYTES * (many + 1), flaw);
            persist(memory, pointer(left, first), records[0].1);
        }
        self.disturb(memory, left);
        persist(memory, left.plus(SIBLING), word(memory, node, SIBLING));
        self.kill(memory, node);
    }

    /// Makes the only child of a locked node the root, if the node is the root.
    fn lower_root<M: Memory>(&self, memory: &M, node: Addr) -> bool {
        let lock = self.root_lock().acquire(memory);
        let is_root = memory.load::<Addr>(self.root) == node && word(memory, node, SIBLING) == 0;
        if is_root {
            persist(memory, self.root, word(memory, node, LEFTMOST));
            self.kill(memory, node);
        }
        lock.release(memory);
        is_root
    }
}
