//! A concurrent B+tree from u64 to u64, kept in order, on a heap.
//!
//! Every change is one redo transaction of the heap. One that needs no new node writes three words,
//! which with the log's framing are one line: one fence. A leaf that is full is split first, in a
//! transaction of its own, which writes three nodes at most whatever the height; a leaf whose last
//! entry goes is freed, as are inner nodes whose last child goes. Leaves that are merely sparse are
//! not merged: Johnson and Shasha ("B-trees with inserts and deletes: why free-at-empty is better
//! than merge-at-half", JCSS 1993) found that to cost little space wherever inserts are not rarer
//! than removals.
//!
//! Threads work on the tree at once, each with its own [`Session`] and a clone of the handle.
//! Readers lock nothing: they read a node, then look whether it has changed ([`versions`]). Writers
//! lock the leaf, and for a split or a freeing the nodes above that change too, from before the
//! transaction until its commit returns; so whatever a reader is shown is durable. A node's range
//! of keys shrinks, and a node is freed, only while it is locked; so a reader that followed a link,
//! and then finds that the node with the link has not changed, is where it should be, and a node
//! that was freed under it is never believed, whatever has become of its place since.
//!
//! | operation | fences | transactions |
//! |---|---|---|
//! | [`get`](Tree::get), [`range`](Tree::range), [`first`](Tree::first), ... | 0 | 0 |
//! | [`insert`](Tree::insert), [`update`](Tree::update), [`remove`](Tree::remove) | 1 | 1 |
//! | ... an insert that splits `n` nodes | 1 + n | 1 + n |
//! | ... a removal that leaves a root of one child | 2 or more | 1 for each level that goes |
//!
//! After a crash all is as after the last operation that returned, or as if the one that was under
//! way in each thread had returned too. Opening needs nothing beyond [`Heap::open`].
//!
//! [`Heap::open`]: seawall_runtime::Heap::open

mod check;
mod descend;
mod node;
mod range;
mod split;
mod unlink;
mod versions;

pub use check::Checked;

use crate::Damage;
use descend::Spot;
use node::{Leaf, SLOTS_MAX, fingerprint};
use seawall_memory::{Addr, Memory};
use seawall_runtime::{HeapError, Session};
use std::cell::Cell;
use versions::Versions;

/// Word 1 of the anchor: what is anchored here, with the sizes of its nodes.
const KIND: u64 = u64::from_le_bytes(*b"\0\0\0\0btre");
const HEIGHT_SHIFT: u32 = 56;

/// A deliberate mistake, to prove that the checkers find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BTreeFlaw {
    /// None: the tree as it should be.
    #[default]
    None,
    /// Readers do not look whether a node has changed meanwhile.
    NoValidation,
    /// Writers do not lock.
    NoLock,
    /// A writer unlocks before its transaction commits.
    EarlyUnlock,
    /// A split links the new node in one transaction, and empties the old one in the next.
    LinkFirst,
    /// An insert says that the slot is used in one transaction, and fills it in the next.
    SlotApart,
    /// An empty leaf is freed in one transaction, and unlinked in the next.
    FreeFirst,
}

/// Why an operation on a tree failed; nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BTreeError {
    /// The heap is full, its log too small, or it is damaged.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// Bytes that no crash leaves behind.
    #[error("the tree is damaged: {0}; restore the pool from a copy")]
    Damage(#[from] Damage),
}

/// A tree whose leaves take 896 bytes and whose inner nodes take 1024.
pub type BTree = Tree<52, 63>;

/// A tree with leaves of `SLOTS` entries (2 to 56) and inner nodes of `KEYS` keys (3 to 255).
///
/// A handle of addresses, the same for all threads; clone one for each.
#[derive(Clone, Debug)]
pub struct Tree<const SLOTS: usize, const KEYS: usize> {
    /// The address of the root with the tree's height on top; behind it, what kind of tree it is.
    anchor: Addr,
    versions: Versions,
    /// Where objects can be at all, as far as this handle has found out.
    objects: (u64, Cell<u64>),
    flaw: BTreeFlaw,
}

impl<const SLOTS: usize, const KEYS: usize> Tree<SLOTS, KEYS> {
    /// Bytes of the anchor.
    pub const ANCHOR_BYTES: u64 = 16;
    /// Version words for most uses: 32 KiB of DRAM. More stand in each other's way less often, and
    /// in the caches more.
    pub const VERSIONS: u64 = 1 << 12;
    const SIZES_FIT: () = assert!(SLOTS >= 2 && SLOTS <= SLOTS_MAX && KEYS >= 3 && KEYS <= 255);

    /// Bytes of DRAM that `versions` version words take. Some hundred for each thread are enough;
    /// trees may share them.
    pub const fn dram_bytes(versions: u64) -> u64 {
        8 * versions
    }

    fn handle<M: Memory>(
        session: &Session<'_, M>,
        anchor: Addr,
        dram: Addr,
        versions: u64,
    ) -> Self {
        let () = Self::SIZES_FIT;
        assert!(versions.is_power_of_two(), "{versions} version words: not a power of two");
        assert!(!dram.is_pm() && dram.bits().is_multiple_of(8), "{dram} is no word of DRAM");
        let low = session.heap().root().bits();
        let versions = Versions::new(dram, versions);
        Tree { anchor, versions, objects: (low, Cell::new(low)), flaw: BTreeFlaw::None }
    }

    /// Makes an empty tree, anchored in the 16 bytes at `anchor` (of the root, or of an object
    /// of yours), with `versions` version words in zeroed DRAM at `dram`. One fence; a crash leaves
    /// the anchor as it was, or the tree.
    ///
    /// # Errors
    /// When there is no room, or `anchor` is no data of the heap.
    ///
    /// # Panics
    /// When `dram` is no word of DRAM, or `versions` is no power of two.
    pub fn create<M: Memory>(
        session: &mut Session<'_, M>,
        anchor: Addr,
        dram: Addr,
        versions: u64,
    ) -> Result<Self, BTreeError> {
        let tree = Self::handle(session, anchor, dram, versions);
        session.redo(|tx| {
            let root = tx.alloc_lines(Leaf::<SLOTS>::BYTES)?;
            split::store_words(tx, root, &Leaf::<SLOTS>::image(&[]))?;
            tx.store(anchor, root.bits())?;
            tx.store(anchor.plus(8), Self::kind())
        })?;
        Ok(tree)
    }

    /// The tree that [`create`](Tree::create) anchored at `anchor`. DRAM is zero after a restart;
    /// threads of one process that open a tree give the same `dram` and `versions`.
    ///
    /// # Errors
    /// When no tree with nodes of these sizes is anchored there.
    ///
    /// # Panics
    /// As [`create`](Tree::create).
    pub fn open<M: Memory>(
        session: &mut Session<'_, M>,
        anchor: Addr,
        dram: Addr,
        versions: u64,
    ) -> Result<Self, BTreeError> {
        let tree = Self::handle(session, anchor, dram, versions);
        session.redo(|tx| tx.add(&[(anchor, Self::ANCHOR_BYTES)]))?;
        tree.check_kind(session.memory())?;
        Ok(tree)
    }

    const fn kind() -> u64 {
        KIND | (SLOTS as u64) << 16 | KEYS as u64
    }

    fn check_kind<M: Memory>(&self, memory: &M) -> Result<(), Damage> {
        let there: u64 = memory.load(self.anchor.plus(8));
        if there == Self::kind() {
            return Ok(());
        }
        let range = format!("{:#x}, a tree of {SLOTS} slots and {KEYS} keys", Self::kind());
        Err(Damage::Shape { what: "kind of tree", value: there, range })
    }

    /// The tree with a deliberate mistake.
    #[must_use]
    pub fn with_flaw(self, flaw: BTreeFlaw) -> Self {
        Tree { flaw, ..self }
    }

    /// The value of `key`. What it gives is durable.
    ///
    /// # Errors
    /// When the tree is damaged.
    #[inline]
    pub fn get<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
    ) -> Result<Option<u64>, BTreeError> {
        let memory = session.memory();
        loop {
            let (spot, ()) = self.descend(session, key, 0)?;
            let leaf = Leaf::<SLOTS>(spot.at);
            let slot = leaf.find(memory, key);
            let value = slot.map(|slot| memory.load(leaf.slot(slot).plus(8)));
            if self.still(memory, spot.at, spot.seen) {
                return Ok(value);
            }
        }
    }

    /// Makes `value` that of `key`; gives the value before, if there was one. Durable when it
    /// returns.
    ///
    /// # Errors
    /// When the heap is full or the tree is damaged.
    pub fn insert<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
        value: u64,
    ) -> Result<Option<u64>, BTreeError> {
        let memory = session.memory();
        loop {
            let (spot, ()) = self.descend(session, key, 0)?;
            let leaf = Leaf::<SLOTS>(spot.at);
            if let Some(slot) = leaf.find(memory, key) {
                let old = memory.load(leaf.slot(slot).plus(8));
                if self.store_value(session, &spot, slot, value)? {
                    return Ok(Some(old));
                }
            } else if let Some(slot) = leaf.free(memory) {
                if self.fill_slot(session, &spot, slot, (key, value))? {
                    return Ok(None);
                }
            } else {
                self.make_room(session, key)?;
            }
        }
    }

    /// Replaces the value of `key` by what `change` makes of it, with no other writer between;
    /// gives the value before. Nothing happens if the key is not there. Durable when it returns.
    /// `change` may be called more than once.
    ///
    /// # Errors
    /// When the tree is damaged, or the heap's log.
    pub fn update<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
        mut change: impl FnMut(u64) -> u64,
    ) -> Result<Option<u64>, BTreeError> {
        let memory = session.memory();
        loop {
            let (spot, ()) = self.descend(session, key, 0)?;
            let leaf = Leaf::<SLOTS>(spot.at);
            let slot = leaf.find(memory, key);
            let old = slot.map(|slot| memory.load(leaf.slot(slot).plus(8)));
            let (Some(slot), Some(old)) = (slot, old) else {
                if self.still(memory, spot.at, spot.seen) {
                    return Ok(None);
                }
                continue;
            };
            if self.still(memory, spot.at, spot.seen)
                && self.store_value(session, &spot, slot, change(old))?
            {
                return Ok(Some(old));
            }
        }
    }

    /// Takes `key` out; gives its value, if it was there. Durable when it returns.
    ///
    /// # Errors
    /// When the tree is damaged, or the heap's log.
    pub fn remove<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
    ) -> Result<Option<u64>, BTreeError> {
        let memory = session.memory();
        loop {
            let (spot, ()) = self.descend(session, key, 0)?;
            let leaf = Leaf::<SLOTS>(spot.at);
            let Some(slot) = leaf.find(memory, key) else {
                if self.still(memory, spot.at, spot.seen) {
                    return Ok(None);
                }
                continue;
            };
            let old = memory.load(leaf.slot(slot).plus(8));
            if leaf.count(memory) == 1 && spot.parent != self.anchor {
                if self.unlink(session, key)? {
                    return Ok(Some(old));
                }
            } else if self.empty_slot(session, &spot, slot)? {
                return Ok(Some(old));
            }
        }
    }

    /// Stores a value in a slot, if the leaf is as it was seen.
    fn store_value<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        spot: &Spot,
        slot: usize,
        value: u64,
    ) -> Result<bool, BTreeError> {
        let at = Leaf::<SLOTS>(spot.at).slot(slot).plus(8);
        self.locked(session, spot, |session| session.redo(|tx| tx.store(at, value)))
    }

    /// Puts an entry into a free slot, if the leaf is as it was seen.
    fn fill_slot<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        spot: &Spot,
        slot: usize,
        (key, value): (u64, u64),
    ) -> Result<bool, BTreeError> {
        let leaf = Leaf::<SLOTS>(spot.at);
        self.locked(session, spot, |session| {
            let prints = leaf.with_print(session.memory(), slot, fingerprint(key));
            if self.flaw == BTreeFlaw::SlotApart {
                session.redo(|tx| tx.store(leaf.prints(slot), prints))?;
            }
            session.redo(|tx| {
                tx.store(leaf.slot(slot), key)?;
                tx.store(leaf.slot(slot).plus(8), value)?;
                tx.store(leaf.prints(slot), prints)
            })
        })
    }

    /// Frees a slot, if the leaf is as it was seen.
    fn empty_slot<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        spot: &Spot,
        slot: usize,
    ) -> Result<bool, BTreeError> {
        let leaf = Leaf::<SLOTS>(spot.at);
        self.locked(session, spot, |session| {
            let prints = leaf.with_print(session.memory(), slot, 0);
            session.redo(|tx| tx.store(leaf.prints(slot), prints))
        })
    }

    /// Runs `action` with the node locked, if it is as it was seen; false if it is not.
    #[inline]
    fn locked<'m, M: Memory>(
        &self,
        session: &mut Session<'m, M>,
        spot: &Spot,
        action: impl FnOnce(&mut Session<'m, M>) -> Result<(), HeapError>,
    ) -> Result<bool, BTreeError> {
        let memory = session.memory();
        if self.flaw == BTreeFlaw::NoLock {
            return Ok(action(session).map(|()| true)?);
        }
        if !self.versions.lock(memory, spot.at, spot.seen) {
            return Ok(false);
        }
        if self.flaw == BTreeFlaw::EarlyUnlock {
            self.versions.unlock(memory, spot.at, spot.seen);
            return Ok(action(session).map(|()| true)?);
        }
        let outcome = action(session);
        self.versions.unlock(memory, spot.at, spot.seen);
        Ok(outcome.map(|()| true)?)
    }
}
