//! Space that is taken outside of a transaction, filled by the program, and made an object by a
//! later transaction, perhaps of another thread.
//!
//! A reservation is volatile: a crash frees it. Sessions that share a [`SharedSpace`] know
//! of each other's, so that none hands out reserved space when it looks through a chunk.

use crate::alloc::block::{Block, Kind};
use crate::alloc::chunk;
use crate::alloc::size_class::{CHUNK_BYTES, Class};
use crate::tx::buffers::Buffers;
use crate::{Session, Tx, TxError};
use rustc_hash::{FxHashMap, FxHashSet};
use seawall_memory::{Addr, Memory};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the sessions of an open heap share: their reservations.
#[derive(Clone, Debug, Default)]
pub struct SharedSpace(Arc<[Part; PARTS]>);

/// The reservations in one chunk of so many are in a part of their own, as each thread reserves in
/// chunks of its own: threads rarely meet at a lock.
const PARTS: usize = 16;

type Places = FxHashMap<Addr, Reserved>;

/// Shares no pair of cache lines with another part.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Part(Mutex<Places>);

#[derive(Clone, Copy, Debug)]
struct Reserved {
    block: Block,
    /// Whether a transaction that has not ended publishes it.
    is_published: bool,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedSpace {
    /// The reservations in a chunk, with those in some others.
    fn near(&self, chunk: u64) -> MutexGuard<'_, Places> {
        lock(&self.0[chunk as usize % PARTS].0)
    }

    /// Those of the blocks of a chunk that no scan may list.
    pub(super) fn starts_in(&self, chunk: u64) -> impl Fn(Addr) -> bool + '_ {
        let near = self.near(chunk);
        move |at| near.contains_key(&at)
    }

    /// Whether something in the chunk is reserved.
    pub(super) fn has_in(&self, chunk: u64) -> bool {
        self.near(chunk).values().any(|reserved| reserved.block.chunk == chunk)
    }
}

impl<M: Memory> Session<'_, M> {
    /// Sets what this session shares with the others of its heap.
    pub fn share(&mut self, space: &SharedSpace) {
        self.shared = Some(space.clone());
    }

    /// Reserves `bytes` bytes with undefined content. A crash frees them, unless a transaction that
    /// [publishes](Tx::publish) them has committed.
    ///
    /// # Errors
    /// [`TxError::Full`] when there is no room and the pool cannot grow.
    ///
    /// # Panics
    /// When the session [shares](Session::share) nothing.
    pub fn reserve(&mut self, bytes: u64) -> Result<Addr, TxError> {
        let block = match Class::of(bytes.max(1), false) {
            Some(class) => self.take_small(class, false)?,
            None => self.take_large(bytes.div_ceil(CHUNK_BYTES))?,
        };
        let reserved = Reserved { block, is_published: false };
        self.shared().near(block.chunk).insert(block.at, reserved);
        Ok(block.at)
    }

    /// Frees what was reserved at `at`.
    ///
    /// # Errors
    /// [`TxError::NoObject`] when nothing is reserved there, or a transaction publishes it.
    ///
    /// # Panics
    /// As [`reserve`](Session::reserve).
    pub fn cancel(&mut self, at: Addr) -> Result<(), TxError> {
        let block = {
            let mut near = self.reserved_near(at)?;
            let found = near.get(&at).filter(|reserved| !reserved.is_published);
            let block = found.map(|reserved| reserved.block).ok_or(TxError::NoObject { at })?;
            near.remove(&at);
            block
        };
        self.give_back(&[block]);
        Ok(())
    }

    /// The reservations among which one at `at` is.
    fn reserved_near(&self, at: Addr) -> Result<MutexGuard<'_, Places>, TxError> {
        let shared = self.shared();
        let chunk = self.heap.layout.chunk_of(at).ok_or(TxError::NoObject { at })?;
        Ok(shared.near(chunk))
    }

    fn shared(&self) -> &SharedSpace {
        self.shared.as_ref().expect("the session shares its space")
    }

    /// Forgets the reservations that the transaction which ends has published: they are objects, or
    /// about to be given back.
    #[inline]
    pub(crate) fn end_publications(&mut self) {
        if !self.buffers.published.is_empty() {
            self.end_all_publications();
        }
    }

    #[cold]
    fn end_all_publications(&mut self) {
        let mut published = std::mem::take(&mut self.buffers.published);
        self.end_each(published.drain(..));
        self.buffers.published = published;
    }

    fn end_each(&self, published: impl Iterator<Item = Addr>) {
        for at in published {
            if let Ok(mut near) = self.reserved_near(at) {
                near.remove(&at);
            }
        }
    }

    /// Sets whether this session takes blocks of the chunks that there are only, from the front of
    /// the pool on, and opens none for them.
    pub fn set_packing(&mut self, is_packing: bool) {
        self.is_packing = is_packing;
    }

    /// Returns the free space that this session has to all threads; the session goes on. While a
    /// transaction is in progress, or was left and is still to be rolled back, what it has taken is
    /// free for all who look at its chunks: a session that [shares](Session::share) its space notes
    /// there what is taken, unless a defragmenter moves objects; another one keeps these chunks.
    /// Returns whether there was something free, also in what it has returned by itself since the
    /// last call, for want of room.
    pub fn give_up_space(&mut self) -> bool {
        self.sit();
        let has_more = self.disown();
        std::mem::take(&mut self.blocks.has_given) || has_more
    }

    /// Reserves the blocks that the transaction in progress has taken, until it ends, if others can
    /// know of that.
    pub(super) fn note_taken(&mut self) {
        let Some(space) = self.shared.clone().filter(|_| !self.heap.layout.numbers.moves) else {
            return;
        };
        let Buffers { taken, noted, published, .. } = &mut *self.buffers;
        let new = taken[*noted..].iter().filter(|block| matches!(block.kind, Kind::Small(_)));
        for block in new {
            let reserved = Reserved { block: *block, is_published: true };
            if space.near(block.chunk).insert(block.at, reserved).is_none() {
                published.push(block.at);
            }
        }
        *noted = taken.len();
    }

    /// Takes the notes back of blocks that a transaction has taken and gives back before its end.
    pub(crate) fn note_no_more(&mut self, given: &[Block]) {
        let Buffers { taken, noted, published, .. } = &mut *self.buffers;
        if *noted <= taken.len() {
            return;
        }
        *noted = taken.len();
        let given: FxHashSet<Addr> = given.iter().map(|block| block.at).collect();
        let ended: Vec<Addr> = published.extract_if(.., |at| given.contains(at)).collect();
        self.end_each(ended.into_iter());
    }
}

impl<M: Memory> Tx<'_, '_, M> {
    /// Makes an object of what was [reserved](Session::reserve) at `at`, by any session that shares
    /// the reservations, when the transaction commits. If it does not, the space is free. The
    /// commit flushes none of the object, in pools whose programs store in place; in others, its
    /// content must be durable before.
    ///
    /// # Errors
    /// [`TxError::NoObject`] when nothing is reserved there.
    ///
    /// # Panics
    /// As [`reserve`](Session::reserve).
    pub fn publish(&mut self, at: Addr) -> Result<(), TxError> {
        let block = {
            let mut near = self.session.reserved_near(at)?;
            let found = near.get_mut(&at).filter(|reserved| !reserved.is_published);
            let reserved = found.ok_or(TxError::NoObject { at })?;
            reserved.is_published = true;
            reserved.block
        };
        self.session.buffers.published.push(at);
        self.session.buffers.bare.push(at);
        self.note(block, chunk::UNTYPED);
        Ok(())
    }
}
