//! A concurrent B+tree from u64 to u64, kept in order, on a heap.
//!
//! Every change is one redo transaction of the heap, or part of a caller's. One that needs no new
//! node writes three words, which with the log's framing are one line: one fence. A leaf that is
//! full is split first, and a node of which a quarter is used joins a neighbour; either is a
//! transaction of its own for each level, which writes three nodes at most, or part of the
//! caller's, whose log must have room for it.
//!
//! Threads work on the tree at once, each with its own [`Session`] and a clone of the handle.
//! Readers lock nothing: they read a node, then look whether it has changed ([`versions`]). Writers
//! lock the leaf, and for a split or a merge the nodes beside and above that change too, until
//! their transaction is over; so whatever a reader is shown is durable. A node's range of keys
//! shrinks, and a node is freed, only while it is locked; so a reader that followed a link, and
//! then finds that the node with the link has not changed, is where it should be, and a node that
//! was freed under it is never believed, whatever has become of its place since.
//!
//! | operation | fences | transactions |
//! |---|---|---|
//! | [`get`](Tree::get), [`range`](Tree::range), [`first`](Tree::first), ... | 0 | 0 |
//! | [`insert`](Tree::insert), [`update`](Tree::update), [`remove`](Tree::remove) | 1 | 1 |
//! | ... that splits or merges at `n` levels | 1 + n | 1 + n |
//! | `get_in`, `insert_in`, `update_in`, `remove_in` | 0 | the caller's |
//!
//! Of the operations in a transaction the rules of [`Map`](crate::Map) hold: what they lock stays
//! locked until the transaction is over, plain operations of the same thread would wait for it, and
//! [`Session::retry`] runs it again when it meets others.
//!
//! After a crash all is as after the last operation that returned, or as if the one that was under
//! way in each thread had returned too. Opening needs nothing beyond [`Heap::open`].
//!
//! [`Heap::open`]: seawall_runtime::Heap::open

mod check;
mod descend;
pub(crate) mod flaw;
mod merge;
mod node;
mod range;
mod split;
mod versions;

pub use check::Checked;

use crate::Damage;
use crate::reads::{Reads, Within};
use flaw::{BTreeFlaw, Planted};
use node::{Leaf, SLOTS_MAX, fingerprint};
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_runtime::{AccessError, Heap, Logging, Session, Tx, TxError};
use std::cell::Cell;
use versions::{Reader, Versions, Writer};

/// Word 1 of the anchor: what is anchored here, with the sizes of its nodes.
const KIND: u64 = u64::from_le_bytes(*b"\0\0\0\0btre");
const HEIGHT_SHIFT: u32 = 56;
const ANCHOR_BYTES: u64 = 16;

/// Why an operation on a tree failed; nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BTreeError {
    /// The heap is full, its log too small, or it is damaged.
    #[error(transparent)]
    Heap(#[from] TxError),
    /// Bytes that no crash leaves behind.
    #[error("the tree is damaged: {0}; restore the pool from a copy")]
    Damage(#[from] Damage),
}

impl From<AccessError> for BTreeError {
    fn from(error: AccessError) -> BTreeError {
        BTreeError::Heap(error.into())
    }
}

/// A leaf, and slot and value of a key.
type Found<const SLOTS: usize> = (Leaf<SLOTS>, Option<(usize, u64)>);

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
    /// The bounds of objects' addresses, as far as this handle knows them.
    objects: (u64, Cell<u64>),
    flaw: Planted,
}

impl<const SLOTS: usize, const KEYS: usize> Tree<SLOTS, KEYS> {
    /// Bytes of the anchor.
    pub const ANCHOR_BYTES: u64 = ANCHOR_BYTES;
    /// Version words for most uses: 32 KiB of DRAM. More stand in each other's way less often, and
    /// in the caches more.
    pub const VERSIONS: u64 = 1 << 12;
    const SIZES_FIT: () = assert!(SLOTS >= 2 && SLOTS <= SLOTS_MAX && KEYS >= 3 && KEYS <= 255);

    /// Bytes of DRAM that `versions` version words take. Some hundred for each thread are enough;
    /// trees may share them.
    pub const fn dram_bytes(versions: u64) -> u64 {
        8 * versions
    }

    fn handle(heap: &Heap, anchor: Addr, dram: Addr, versions: u64) -> Self {
        let () = Self::SIZES_FIT;
        assert!(versions.is_power_of_two(), "{versions} version words: not a power of two");
        assert!(!dram.is_pm() && dram.bits().is_multiple_of(8), "{dram} is no word of DRAM");
        let low = heap.root().bits();
        let versions = Versions::new(dram, versions);
        Tree { anchor, versions, objects: (low, Cell::new(low)), flaw: Planted::default() }
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
        session.transaction(|tx| Self::create_in(tx, anchor, dram, versions))
    }

    /// As [`create`](Tree::create), as part of a transaction.
    ///
    /// # Errors
    /// As [`create`](Tree::create).
    ///
    /// # Panics
    /// As [`create`](Tree::create).
    pub fn create_in<M: Memory>(
        tx: &mut Tx<'_, '_, M>,
        anchor: Addr,
        dram: Addr,
        versions: u64,
    ) -> Result<Self, BTreeError> {
        let tree = Self::handle(&tx.heap(), anchor, dram, versions);
        let root = tx.alloc_lines(Leaf::<SLOTS>::BYTES)?;
        tree.store(tx, root, &Leaf::<SLOTS>::image(&[]), None)?;
        tree.store(tx, anchor, &[root.bits(), Self::kind()], None)?;
        Ok(tree)
    }

    /// The tree that [`create`](Tree::create) anchored at `anchor`. DRAM is zero after a restart;
    /// threads of one process that open a tree pass the same `dram` and `versions`.
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
        let is_data = session.is_data(anchor, Self::ANCHOR_BYTES);
        Self::check_anchor(anchor, is_data, |at| session.load(at))?;
        Ok(Self::handle(&session.heap(), anchor, dram, versions))
    }

    /// As [`open`](Tree::open), as a transaction sees it: also a tree that this has made.
    ///
    /// # Errors
    /// As [`open`](Tree::open).
    ///
    /// # Panics
    /// As [`create`](Tree::create).
    pub fn open_in<M: Memory>(
        tx: &Tx<'_, '_, M>,
        anchor: Addr,
        dram: Addr,
        versions: u64,
    ) -> Result<Self, BTreeError> {
        let is_data = tx.is_data(anchor, Self::ANCHOR_BYTES);
        Self::check_anchor(anchor, is_data, |at| tx.load(at))?;
        Ok(Self::handle(&tx.heap(), anchor, dram, versions))
    }

    const fn kind() -> u64 {
        KIND | (SLOTS as u64) << 16 | KEYS as u64
    }

    fn check_anchor(
        anchor: Addr,
        is_data: bool,
        load: impl Fn(Addr) -> u64,
    ) -> Result<(), BTreeError> {
        if !is_data || !anchor.bits().is_multiple_of(8) {
            return Err(AccessError::NoData { at: anchor, bytes: Self::ANCHOR_BYTES }.into());
        }
        Ok(Self::check_word(load(anchor.plus(8)))?)
    }

    fn check_kind<M: Memory>(&self, memory: &M) -> Result<(), Damage> {
        Self::check_word(memory.load(self.anchor.plus(8)))
    }

    fn check_word(there: u64) -> Result<(), Damage> {
        if there == Self::kind() {
            return Ok(());
        }
        let range = format!("{:#x}, a tree of {SLOTS} slots and {KEYS} keys", Self::kind());
        Err(Damage::Shape { what: "kind of tree", value: there, range })
    }

    /// The tree with a planted bug.
    #[cfg(feature = "flaws")]
    #[must_use]
    pub fn with_flaw(self, flaw: BTreeFlaw) -> Self {
        Tree { flaw: flaw.into(), ..self }
    }

    /// The value of `key`. What it returns is durable.
    ///
    /// # Errors
    /// When the tree is damaged.
    #[inline]
    pub fn get<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
    ) -> Result<Option<u64>, BTreeError> {
        let mut reader = Reader(session);
        loop {
            let (spot, ()) = self.descend(&mut reader, key, 0)?;
            let leaf = Leaf::<SLOTS>(spot.at);
            let slot = leaf.find(&reader, key);
            let value = slot.map(|slot| reader.word(leaf.slot(slot).plus(8)));
            if self.still(&reader, spot.at, spot.seen) {
                return Ok(value);
            }
        }
    }

    /// Makes `value` that of `key`; returns the value before, if there was one. Durable when it
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
        loop {
            if let Some(old) = session.retry(Logging::Redo, |tx| self.put(tx, key, value))? {
                return Ok(old);
            }
            self.apart(session, |tx, level| self.make_room(tx, key, level))?;
        }
    }

    /// Replaces the value of `key` by what `change` makes of it, with no other writer between;
    /// returns the value before. Nothing happens if the key is not there. Durable when it returns.
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
        session.retry(Logging::Redo, |tx| self.update_in(tx, key, &mut change))
    }

    /// Takes `key` out; returns its value, if it was there. Durable when it returns.
    ///
    /// # Errors
    /// When the tree is damaged, or the heap's log.
    pub fn remove<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
    ) -> Result<Option<u64>, BTreeError> {
        let (old, is_sparse) = session.retry(Logging::Redo, |tx| self.take(tx, key))?;
        if is_sparse {
            self.apart(session, |tx, level| self.merge(tx, key, level))?;
        }
        Ok(old)
    }

    /// As [`get`](Tree::get), in a transaction: sees what that has stored, and holds until it is
    /// over.
    ///
    /// # Errors
    /// As [`get`](Tree::get), and [`TxError::Busy`].
    pub fn get_in<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: u64,
    ) -> Result<Option<u64>, BTreeError> {
        let found = self.find_locked(tx, key)?.1;
        Ok(found.map(|(_, value)| value))
    }

    /// As [`insert`](Tree::insert), as part of a transaction, of which splits are part too.
    ///
    /// # Errors
    /// As [`insert`](Tree::insert), and [`TxError::Busy`].
    pub fn insert_in<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: u64,
        value: u64,
    ) -> Result<Option<u64>, BTreeError> {
        loop {
            if let Some(old) = self.put(tx, key, value)? {
                return Ok(old);
            }
            let mut next = Some(0);
            while let Some(level) = next {
                next = self.make_room(tx, key, level)?;
            }
        }
    }

    /// As [`update`](Tree::update), as part of a transaction.
    ///
    /// # Errors
    /// As [`update`](Tree::update), and [`TxError::Busy`].
    pub fn update_in<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: u64,
        change: impl FnOnce(u64) -> u64,
    ) -> Result<Option<u64>, BTreeError> {
        let (leaf, found) = self.find_locked(tx, key)?;
        let Some((slot, old)) = found else { return Ok(None) };
        tx.store(leaf.slot(slot).plus(8), change(old))?;
        Ok(Some(old))
    }

    /// As [`remove`](Tree::remove), as part of a transaction, of which merges are part too.
    ///
    /// # Errors
    /// As [`remove`](Tree::remove), and [`TxError::Busy`].
    pub fn remove_in<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: u64,
    ) -> Result<Option<u64>, BTreeError> {
        let (old, is_sparse) = self.take(tx, key)?;
        let mut next = is_sparse.then_some(0);
        while let Some(level) = next {
            next = self.merge(tx, key, level)?;
        }
        Ok(old)
    }

    /// Frees all nodes and clears the anchor. No other thread may use the tree.
    ///
    /// # Errors
    /// [`TxError::TooLarge`] when the transaction does not fit its log.
    pub fn free_in<M: Memory>(self, tx: &mut Tx<'_, '_, M>) -> Result<(), BTreeError> {
        let mut nodes = vec![descend::parse(tx.load(self.anchor))];
        while let Some((at, level)) = nodes.pop() {
            self.admit(&Writer(tx), at, level)?;
            if level > 0 {
                let (_, children) = node::Inner::<KEYS>(at).content(&Within(tx));
                nodes.extend(children.into_iter().map(|child| (child, level - 1)));
            }
            tx.free(at)?;
        }
        tx.write(self.anchor, &[0; ANCHOR_BYTES as usize])?;
        Ok(())
    }

    /// Runs steps, from level 0 on, each in a transaction of its own, while they say at which level
    /// to go on.
    fn apart<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        step: impl Fn(&mut Tx<'_, '_, M>, u64) -> Result<Option<u64>, BTreeError>,
    ) -> Result<(), BTreeError> {
        let mut next = Some(0);
        while let Some(level) = next {
            next = session.retry(Logging::Redo, |tx| step(tx, level))?;
        }
        Ok(())
    }

    /// The leaf that has `key` in its range, locked, and the key's slot and value.
    #[inline]
    fn find_locked<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: u64,
    ) -> Result<Found<SLOTS>, BTreeError> {
        loop {
            let (spot, ()) = self.descend(&mut Writer(tx), key, 0)?;
            if self.lock(tx, [(spot.at, spot.seen)]) {
                let (leaf, within) = (Leaf::<SLOTS>(spot.at), Within(tx));
                let slot = leaf.find(&within, key);
                let found = slot.map(|slot| (slot, within.word(leaf.slot(slot).plus(8))));
                return Ok((leaf, found));
            }
        }
    }

    /// Inserts; returns the value before. Nothing has happened if the leaf is full.
    #[inline]
    fn put<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: u64,
        value: u64,
    ) -> Result<Option<Option<u64>>, BTreeError> {
        let (leaf, found) = self.find_locked(tx, key)?;
        if let Some((slot, old)) = found {
            tx.store(leaf.slot(slot).plus(8), value)?;
            return Ok(Some(Some(old)));
        }
        let within = Within(tx);
        let Some(slot) = leaf.free(&within) else { return Ok(None) };
        let prints = leaf.with_print(&within, slot, fingerprint(key));
        tx.store(leaf.slot(slot), key)?;
        tx.store(leaf.slot(slot).plus(8), value)?;
        self.store(tx, leaf.prints(slot), &[prints], Some(BTreeFlaw::EarlySlot))?;
        Ok(Some(None))
    }

    /// Removes; returns the value before, and true if the leaf is sparse then.
    #[inline]
    fn take<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: u64,
    ) -> Result<(Option<u64>, bool), BTreeError> {
        let (leaf, found) = self.find_locked(tx, key)?;
        let Some((slot, old)) = found else { return Ok((None, false)) };
        let left = leaf.count(&Within(tx)) - 1;
        let prints = leaf.with_print(&Within(tx), slot, 0);
        tx.store(leaf.prints(slot), prints)?;
        Ok((Some(old), Self::is_sparse(0, left)))
    }
}
