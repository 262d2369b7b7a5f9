//! Red-black trees whose nodes are entries (MICRO'15, Table 2, "RBTree").
//!
//! The algorithms are those of Cormen et al., chapter 13, with null pointers for the leaves and
//! both directions in one piece of code. Every pointer and colour of a reachable node is written
//! through the transaction, so a rebalancing is atomic; the fields of a new node that no other
//! thread can see are written directly.
//!
//! One lock serialises all threads of a tree, so a pool holds a [`Forest`]: key k is in tree k mod
//! trees.

use super::entry::{self, ENTRY_BYTES, ENTRY_WORDS};
use crate::shared::epoch_log::{Logs, Tx};
use crate::shared::inconsistency::{Reached, within};
use crate::shared::{Change, Full, Inconsistency};
use crate::shared::{LockVersions, Slots};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::{Arena, Locks};
use std::collections::BTreeMap;

mod balance;
mod check;

use balance::Edit;

const ROOT: u64 = 0;
const COUNT: u64 = 8;

const CHILDREN: [u64; 2] = [0, 8];
const PARENT: u64 = 16;
const COLOUR: u64 = 24;
const KEY: u64 = 32;
const TAG: u64 = 40;
const PAYLOAD: u64 = 6;

const BLACK: u64 = 0;
const RED: u64 = 1;

/// Each level of the highest tree costs a few records of two words.
const LOG_WORDS: u64 = 512;

/// The parameters of a [`Forest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForestShape {
    /// Threads that may use it, 1 to 1024.
    pub threads: u64,
    /// Trees, each with a lock; 1 to 2^20.
    pub trees: u64,
    /// The capacity in nodes, 1 to 2^32.
    pub capacity: u64,
}

impl ForestShape {
    /// Rejects parameters out of range.
    ///
    /// # Errors
    /// [`Inconsistency::Shape`], which names the parameter.
    pub fn check(self) -> Result<ForestShape, Inconsistency> {
        within("threads", self.threads, 1, 1024)?;
        within("trees", self.trees, 1, 1 << 20)?;
        within("capacity", self.capacity, 1, 1 << 32)?;
        Ok(self)
    }
}

/// Red-black trees from key to tagged node, partitioned by key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forest {
    shape: ForestShape,
    roots: Addr,
    locks: Locks,
    versions: LockVersions,
    logs: Logs,
    slots: Slots,
}

impl Forest {
    /// Places the trees; in a zeroed pool they are empty, after [`recover`](Forest::recover).
    pub fn place(shape: ForestShape, arena: &mut Arena) -> Forest {
        let slots = Slots::enough(shape.capacity, shape.threads);
        Forest {
            shape,
            roots: arena.pm(shape.trees * LINE_BYTES),
            locks: Locks::place(arena, shape.trees, shape.threads, 1),
            versions: LockVersions::place(arena, shape.trees),
            logs: Logs::place(arena, shape.threads, LOG_WORDS),
            slots: Slots::place(arena, slots, ENTRY_BYTES, shape.threads),
        }
    }

    /// Its parameters.
    pub const fn shape(&self) -> ForestShape {
        self.shape
    }

    fn root(&self, tree: u64) -> Addr {
        self.roots.plus(tree * LINE_BYTES)
    }

    /// The node of `key` below `root`, or else its would-be parent and the side there.
    fn find<M: Memory>(memory: &M, root: Addr, key: u64) -> Result<Addr, (Addr, usize)> {
        let (mut parent, mut side) = (Addr::NULL, 0);
        let mut at = memory.load::<Addr>(root.plus(ROOT));
        while !at.is_null() {
            let here = memory.load::<u64>(at.plus(KEY));
            if here == key {
                return Ok(at);
            }
            (parent, side) = (at, usize::from(key > here));
            at = memory.load(at.plus(CHILDREN[side]));
        }
        Err((parent, side))
    }

    /// The tag of the node of `key`, which it reads; `None` if there is none.
    #[track_caller]
    pub fn search<M: Memory>(&self, memory: &M, key: u64) -> Option<u64> {
        let tree = key % self.shape.trees;
        let guard = self.locks.acquire(memory, tree, 0);
        let _ = self.versions.read(memory, tree);
        let found = Forest::find(memory, self.root(tree), key).ok().map(|at| {
            entry::read(memory, at);
            memory.load(at.plus(TAG))
        });
        self.locks.release(memory, guard);
        found
    }

    /// Inserts a node for `key`; returns false and changes nothing if one exists.
    ///
    /// # Errors
    /// [`Full`] if there is no room.
    #[track_caller]
    pub fn insert<M: Memory, F: FnMut(u64, u64)>(
        &self,
        memory: &M,
        key: u64,
        mut change: Change<F>,
    ) -> Result<bool, Full> {
        let tree = key % self.shape.trees;
        let guard = self.locks.acquire(memory, tree, 0);
        let version = self.versions.read(memory, tree);
        let root = self.root(tree);
        let outcome = match Forest::find(memory, root, key) {
            Ok(_) => Ok(false),
            Err((parent, side)) => self.slots.take(memory).ok_or(Full).map(|at| {
                (change.note)(key, change.tag);
                self.fill(memory, at, parent, key, change.tag);
                let mut tx = Tx::begin(memory, &self.logs, change.flaw);
                tx.fresh(at, ENTRY_WORDS);
                tx.store(root.plus(COUNT), tx.load(root.plus(COUNT)) + 1);
                Edit { tx: &mut tx, root }.link(at, parent, side);
                tx.commit(&[version]);
                true
            }),
        };
        self.locks.release(memory, guard);
        outcome
    }

    #[track_caller]
    fn fill<M: Memory>(&self, memory: &M, at: Addr, parent: Addr, key: u64, tag: u64) {
        memory.store(at.plus(CHILDREN[0]), Addr::NULL);
        memory.store(at.plus(CHILDREN[1]), Addr::NULL);
        memory.store(at.plus(PARENT), parent);
        memory.store(at.plus(COLOUR), RED);
        memory.store(at.plus(KEY), key);
        memory.store(at.plus(TAG), tag);
        entry::fill(memory, at, PAYLOAD, key, tag);
    }

    /// Deletes the node of `key`; returns false and changes nothing if none exists.
    #[track_caller]
    pub fn delete<M: Memory, F: FnMut(u64, u64)>(
        &self,
        memory: &M,
        key: u64,
        mut change: Change<F>,
    ) -> bool {
        let tree = key % self.shape.trees;
        let guard = self.locks.acquire(memory, tree, 0);
        let version = self.versions.read(memory, tree);
        let root = self.root(tree);
        let found = Forest::find(memory, root, key).ok();
        if let Some(at) = found {
            (change.note)(key, 0);
            let mut tx = Tx::begin(memory, &self.logs, change.flaw);
            tx.store(root.plus(COUNT), tx.load(root.plus(COUNT)) - 1);
            Edit { tx: &mut tx, root }.unlink(at);
            tx.commit(&[version]);
        }
        self.locks.release(memory, guard);
        if let Some(at) = found {
            self.slots.give(memory, at);
        }
        found.is_some()
    }

    /// Finishes what a crash interrupted and rebuilds the free lists, in a pool of `pm_bytes`.
    ///
    /// # Errors
    /// If the pool is damaged beyond what a crash can do.
    pub fn recover<M: Memory>(&self, memory: &M, pm_bytes: u64) -> Result<(), Inconsistency> {
        self.logs.recover(memory, pm_bytes)?;
        let mut reached = Reached::none(&self.slots);
        self.walk(memory, &mut reached, |_, _| Ok(()))?;
        self.slots.rebuild(memory, &reached.live);
        Ok(())
    }

    /// Checks every invariant (order, colours, black heights, parents, counts, whole nodes) and
    /// returns the tag of each key. No operation may be in flight.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn contents<M: Memory>(&self, memory: &M) -> Result<BTreeMap<u64, u64>, Inconsistency> {
        let mut contents = BTreeMap::new();
        self.walk(memory, &mut Reached::none(&self.slots), |at, key| {
            let tag = memory.load(at.plus(TAG));
            entry::check(memory, at, PAYLOAD, key, tag)?;
            contents.insert(key, tag);
            Ok(())
        })?;
        Ok(contents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use seawall_memory::Image;

    fn place(trees: u64) -> (Image, Forest, u64) {
        let mut arena = Arena::new();
        let shape = ForestShape { threads: 1, trees, capacity: 64 };
        let forest = Forest::place(shape.check().expect("a good shape"), &mut arena);
        let image = Image::new(arena.pm_bytes(), arena.dram_bytes());
        forest.recover(&image, arena.pm_bytes()).expect("an empty pool");
        (image, forest, arena.pm_bytes())
    }

    proptest! {
        #[test]
        fn it_does_what_a_map_does_and_stays_red_black(
            steps in proptest::collection::vec((0u8..5, 0u64..64), 0..250), trees in 1u64..4,
        ) {
            let (image, forest, bytes) = place(trees);
            let mut model = BTreeMap::new();
            for (number, (action, key)) in steps.into_iter().enumerate() {
                let tag = number as u64 + 1;
                let old = model.get(&key).copied();
                match action {
                    0 => prop_assert_eq!(forest.search(&image, key), old),
                    1 | 2 => {
                        let inserted = forest.insert(&image, key, Change::of(tag));
                        prop_assert_eq!(inserted, Ok(old.is_none()));
                        model.entry(key).or_insert(tag);
                    }
                    _ => {
                        prop_assert_eq!(forest.delete(&image, key, Change::of(tag)), old.is_some());
                        model.remove(&key);
                    }
                }
                prop_assert_eq!(&forest.contents(&image), &Ok(model.clone()));
            }
            prop_assert_eq!(forest.recover(&image, bytes), Ok(()));
            prop_assert_eq!(forest.contents(&image), Ok(model));
        }

        #[test]
        fn wild_bytes_are_damage_and_never_a_panic_or_a_loop(
            wild in proptest::collection::vec((any::<u16>(), any::<u64>()), 1..40), small: bool,
        ) {
            let (image, forest, bytes) = place(2);
            for key in 0..20 {
                prop_assert_eq!(forest.insert(&image, key, Change::of(key + 1)), Ok(true));
            }
            for (word, value) in wild {
                let value = if small { value % bytes / 64 * 64 } else { value };
                image.store(Addr::pm(u64::from(word) * 8 % (bytes - 8)), value);
            }
            let _ = forest.contents(&image);
            let _ = forest.recover(&image, bytes);
        }
    }

    #[test]
    fn broken_colours_order_and_parents_are_named() {
        let (image, forest, _) = place(1);
        for key in [10, 5, 15, 20] {
            forest.insert(&image, key, Change::of(key)).expect("room");
        }
        let root = image.load::<Addr>(forest.root(0));
        let low = image.load::<Addr>(root.plus(CHILDREN[0]));
        let broken = |at: Addr, value: u64| {
            let old = image.load::<u64>(at);
            image.store(at, value);
            let message = forest.contents(&image).unwrap_err().to_string();
            image.store(at, old);
            message
        };
        assert!(broken(low.plus(COLOUR), RED).contains("black"));
        assert!(broken(low.plus(COLOUR), 7).contains("colour"));
        assert!(broken(low.plus(PARENT), 0).contains("parent"));
        assert!(broken(low.plus(KEY), 11).contains("order"));
        assert!(broken(forest.root(0).plus(COUNT), 3).contains("count"));
        assert_eq!(forest.contents(&image).expect("whole again").len(), 4);
    }
}
