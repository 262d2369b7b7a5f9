//! Allocation and freeing of objects in a transaction, atomic with its other changes.

use crate::alloc::block::{Block, Kind, state_at};
use crate::alloc::chunk::{self, Chunk};
use crate::alloc::shelf::{Placement, needs_lines};
use crate::alloc::size_class::{CHUNK_BYTES, Class, STATE_BYTES};
use crate::flaws::HeapFlaw;
use crate::tx::direct::DIRECT_BYTES;
use crate::{Logging, Tx, TxError};
use seawall_memory::{Addr, Memory};

impl<M: Memory> Tx<'_, '_, M> {
    /// Allocates `bytes` bytes (at least 1) without a type, with undefined content. If the
    /// transaction does not commit, nothing was allocated.
    ///
    /// # Errors
    /// [`TxError::Full`] when there is no room and the pool cannot grow.
    pub fn alloc(&mut self, bytes: u64) -> Result<Addr, TxError> {
        self.alloc_tagged(bytes, false, chunk::UNTYPED)
    }

    /// As [`alloc`](Tx::alloc), in whole cache lines, which no other object shares.
    ///
    /// # Errors
    /// As [`alloc`](Tx::alloc).
    pub fn alloc_lines(&mut self, bytes: u64) -> Result<Addr, TxError> {
        self.alloc_tagged(bytes, true, chunk::UNTYPED)
    }

    /// As [`alloc`](Tx::alloc), in pools whose programs store in place, for an object of which the
    /// commit flushes only what [`flush_at_commit`](Tx::flush_at_commit) names.
    ///
    /// # Errors
    /// As [`alloc`](Tx::alloc).
    pub fn alloc_bare(&mut self, bytes: u64) -> Result<Addr, TxError> {
        let at = self.alloc(bytes)?;
        self.session.buffers.bare.push(at);
        Ok(at)
    }

    /// Lets the commit flush these bytes of an object that this transaction allocates or publishes,
    /// in pools whose programs store in place. The program stores them past the transaction.
    pub fn flush_at_commit(&mut self, at: Addr, bytes: u64) {
        self.session.buffers.saved.add(at, at.plus(bytes));
    }

    /// As [`alloc`](Tx::alloc), for the type of that number.
    pub(crate) fn alloc_tagged(
        &mut self,
        bytes: u64,
        lines: bool,
        tag: u8,
    ) -> Result<Addr, TxError> {
        let lines = lines || self.session.placement == Placement::Lines && needs_lines(bytes);
        let block = match Class::of(bytes.max(1), lines) {
            Some(class) => self.session.take_small(class, lines)?,
            None => self.session.take_large(bytes.div_ceil(CHUNK_BYTES))?,
        };
        Ok(self.note(block, tag))
    }

    /// Records an object of that type in the block that was taken.
    pub(crate) fn note(&mut self, block: Block, tag: u8) -> Addr {
        let buffers = &mut *self.session.buffers;
        buffers.taken.push(block);
        if self.kind == Logging::Undo || self.session.heap.in_place {
            buffers.fresh.add(block.at, block.end());
        }
        let start = self.session.heap.layout.chunk(block.chunk);
        match block.kind {
            Kind::Small(class) => self.put_state(state_at(start, class, block.at), tag),
            Kind::Large(length) => self.put_entry(block.chunk, Chunk::Large(length, tag)),
            Kind::Shelf(count) => self.put_granules(&block, count, tag),
        }
        block.at
    }

    /// Frees the object at `at` when the transaction commits. No pointer may lead to it then.
    ///
    /// # Errors
    /// [`TxError::NoObject`] when no object starts there, or it was freed before.
    pub fn free(&mut self, at: Addr) -> Result<(), TxError> {
        let (block, _) = self.object(at)?;
        self.free_block(block);
        Ok(())
    }

    /// As [`free`](Tx::free), for an object that was found already.
    pub(crate) fn free_block(&mut self, block: Block) {
        let start = self.session.heap.layout.chunk(block.chunk);
        match block.kind {
            Kind::Small(class) => self.put_state(state_at(start, class, block.at), 0),
            Kind::Large(length) => {
                self.session.hold_run(block.chunk);
                self.put_entry(block.chunk, Chunk::Run(length));
            }
            Kind::Shelf(count) => self.put_granules(&block, count, 0),
        }
        if block.bytes() >= DIRECT_BYTES && !self.session.heap.flaw.is(HeapFlaw::NoFreed) {
            self.own_notes().record.push_freed(block.at, block.bytes());
        }
        self.session.buffers.freed.push(block);
    }

    /// Finds the object that starts at `at`, as this transaction sees it, and its type.
    pub(crate) fn object(&self, at: Addr) -> Result<(Block, u8), TxError> {
        let layout = &self.session.heap.layout;
        let none = TxError::NoObject { at };
        let chunk = layout.chunk_of(at).filter(|chunk| self.session.has_chunk(*chunk));
        let Some(chunk) = chunk else { return Err(none) };
        let entry_at = layout.chunk_entry(chunk);
        let start = layout.chunk(chunk);
        let entry = self.session.decode(entry_at, self.load_own(entry_at))?;
        if !self.session.has_chunk(chunk + entry.length() - 1) {
            chunk::check_end(chunk, entry, self.session.chunks())?;
        }
        match entry {
            Chunk::Small(class) => {
                let into = at.offset() - start.offset();
                let Some(into) = into.checked_sub(STATE_BYTES) else { return Err(none) };
                let block = class.block_of(into);
                if block * class.bytes() != into || block >= class.blocks() {
                    return Err(none);
                }
                let state = start.plus(block);
                let word = self.load_own(Addr::from_bits(state.bits() & !7));
                let state = (word >> (8 * (state.bits() % 8))) as u8;
                if !chunk::is_state(state) {
                    return Err(chunk::no_state(at, state).into());
                }
                match chunk::tag(state) {
                    Some(tag) => Ok((Block { at, chunk, kind: Kind::Small(class) }, tag)),
                    None => Err(none),
                }
            }
            Chunk::Large(length, tag) if at == start => {
                Ok((Block { at, chunk, kind: Kind::Large(length) }, tag))
            }
            Chunk::Shelf => self.object_of_shelf(at, chunk),
            _ => Err(none),
        }
    }

    fn put_state(&mut self, at: Addr, tag: u8) {
        let (word, byte) = (Addr::from_bits(at.bits() & !7), at.bits() % 8);
        let state = chunk::state(tag);
        self.put_own(word, 1 << byte, u64::from(state) << (8 * byte));
    }

    fn put_entry(&mut self, chunk: u64, entry: Chunk) {
        let at = self.session.heap.layout.chunk_entry(chunk);
        self.put_own(at, 0xff, entry.encode(at));
    }
}
