//! The allocator of one thread, for blocks of the size classes.
//!
//! Only the pool records what is allocated: a byte of state for each block (0 if free, else the
//! type of its object), and an entry for each chunk. Both change only through the log, in the
//! transaction that links the object in or unlinks it, so no crash leaks a block or allocates it
//! twice. The order in which free blocks are handed out is volatile: each thread has lists of them
//! in its own DRAM, filled from the states of chunks that it owns.
//!
//! A chunk has at most one owner, which alone allocates from it, so two threads never take the same
//! free block. Other threads free into it and count that in DRAM; the owner scans the chunk again
//! when its list is empty. A thread takes chunks without an owner (after a restart: all), then free
//! ones, under a lock. Splitting a run of free chunks is a small transaction of its own.

use crate::alloc::block::{Block, Kind};
use crate::alloc::chunk::{self, Chunk};
use crate::alloc::size_class::{Class, STATE_BYTES};
use crate::{Session, TxError};
use rustc_hash::FxHashSet;
use seawall_memory::{Addr, Memory, MemoryExt};

/// The number of its own chunks that a thread checks for blocks that others freed before it goes
/// on.
const PROBES: usize = 64;
/// The number of chunks without an owner that a thread checks before it takes a fresh one. Each
/// costs a read of its states, from cold memory after an opening. So full chunks delay no
/// allocation by much, and a pool with free blocks grows by at most a ninth before they are found.
const ADOPTIONS: usize = 8;

impl<M: Memory> Session<'_, M> {
    /// Takes a block of `class`; its state is free until a transaction commits that allocates it.
    pub(crate) fn take_small(&mut self, class: Class) -> Result<Block, TxError> {
        let number = class.number();
        let at = loop {
            let Some(at) = self.blocks.free[number].pop().map(Addr::pm) else {
                self.refill(class)?;
                continue;
            };
            if self.may_take(class, at) {
                break at;
            }
        };
        let chunk = self.heap.layout.chunk_of(at).expect("a block lies in a chunk");
        Ok(Block { at, chunk, kind: Kind::Small(class) })
    }

    #[cold]
    #[inline(never)]
    fn refill(&mut self, class: Class) -> Result<(), TxError> {
        let adoptions = if self.is_packing { usize::MAX } else { ADOPTIONS };
        if self.look_again(class, PROBES) || self.adopt(class, adoptions) {
            return Ok(());
        }
        if self.is_packing {
            return Err(TxError::Full { chunks: self.chunks(), wanted: 1 });
        }
        let full = match self.fresh_chunk(class) {
            Err(full @ TxError::Full { .. }) => full,
            other => return other,
        };
        // Chunks that were passed over may have lost their owners since.
        self.blocks.adopted[class.number()] = 0;
        if self.look_again(class, usize::MAX) || self.adopt(class, usize::MAX) {
            return Ok(());
        }
        Err(full)
    }

    /// Checks up to `probes` chunks of this thread for blocks that others freed.
    fn look_again(&mut self, class: Class, probes: usize) -> bool {
        self.drop_lost(class);
        let probes = probes.min(self.blocks.mine[class.number()].0.len());
        for _ in 0..probes {
            let (mine, next) = &mut self.blocks.mine[class.number()];
            *next = (*next + 1) % mine.len();
            let chunk = mine[*next];
            let freed = self.heap.layout.freed(chunk);
            if self.memory.load::<u64>(freed) > 0 {
                self.memory.swap(freed, 0);
                if self.scan(class, chunk) {
                    return true;
                }
            }
        }
        false
    }

    /// Adopts chunks of the class that have no owner, until one has a free block; checks up to
    /// `probes` chunks.
    fn adopt(&mut self, class: Class, probes: usize) -> bool {
        let layout = &self.heap.layout;
        if layout.numbers.moves {
            let orphans = self.memory.load(layout.orphans());
            if std::mem::replace(&mut self.blocks.orphans, orphans) != orphans {
                self.blocks.adopted.fill(0);
            }
        }
        self.with_chunk_lock(|session| session.adopt_locked(class, probes))
    }

    /// As [`adopt`](Session::adopt), with the chunk lock held, which guards the owners of chunks.
    pub(super) fn adopt_locked(&mut self, class: Class, probes: usize) -> bool {
        let space = self.shared.clone().filter(|_| !self.is_packing);
        for probe in 0..probes {
            let given_up = space.as_ref().and_then(|space| space.take_given_up(class));
            let chunk = match given_up {
                Some(chunk) if chunk < self.chunks() => chunk,
                Some(_) => continue,
                None => return self.search_orphan(class, probes - probe),
            };
            if self.adopt_chunk(class, chunk).0 {
                return true;
            }
        }
        false
    }

    /// Adopts the next chunk of the class that has no owner and has a free block; checks up to
    /// `probes` chunks.
    fn search_orphan(&mut self, class: Class, probes: usize) -> bool {
        let chunks = self.chunks();
        for _ in 0..probes {
            let chunk = self.blocks.adopted[class.number()];
            if chunk >= chunks {
                return false;
            }
            let (has_free, length) = self.adopt_chunk(class, chunk);
            self.blocks.adopted[class.number()] = chunk + length;
            if has_free {
                return true;
            }
        }
        false
    }

    /// Adopts a chunk if it is of the class and has no owner; returns whether it has a free block
    /// then, and the number of chunks up to the next entry.
    fn adopt_chunk(&mut self, class: Class, chunk: u64) -> (bool, u64) {
        let layout = self.heap.layout;
        let at = layout.chunk_entry(chunk);
        let bits: u64 = self.memory.load(at);
        if chunk::is_passed(bits, class) {
            return (false, 1);
        }
        let entry = Chunk::decode(at, bits);
        let length = entry.as_ref().map_or(1, |entry| entry.length());
        let owner = layout.owner(chunk);
        let is_for_all = !self.is_destination(chunk);
        if entry != Ok(Chunk::Small(class)) || !is_for_all || !self.may_own(owner, chunk, class) {
            return (false, length);
        }
        self.forget(class, chunk, self.memory.load(owner));
        self.forget_all_of(chunk);
        self.memory.store(owner, self.thread + 1);
        self.blocks.mine[class.number()].0.push(chunk);
        (self.scan(class, chunk), length)
    }

    /// Removes from the list the blocks that this session freed while an earlier session of its
    /// thread owned the chunk.
    pub(super) fn forget(&mut self, class: Class, chunk: u64, owner: u64) {
        if owner == self.thread + 1 {
            let layout = self.heap.layout;
            let is_other = |at: &u64| layout.chunk_of(Addr::pm(*at)) != Some(chunk);
            self.blocks.free[class.number()].retain(is_other);
        }
    }

    /// Discards what this thread knew of a chunk that it owned before and is about to own again.
    pub(super) fn forget_all_of(&mut self, chunk: u64) {
        let layout = self.heap.layout;
        if layout.numbers.moves {
            for (free, (mine, _)) in self.blocks.free.iter_mut().zip(&mut self.blocks.mine) {
                free.retain(|at| layout.chunk_of(Addr::pm(*at)) != Some(chunk));
                mine.retain(|it| *it != chunk);
            }
        }
    }

    /// Removes chunks that a cycle has freed.
    pub(super) fn drop_lost(&mut self, class: Class) {
        let (memory, layout, thread) = (self.memory, self.heap.layout, self.thread);
        if layout.numbers.moves {
            let is_mine = |chunk: &u64| memory.load::<u64>(layout.owner(*chunk)) == thread + 1;
            self.blocks.mine[class.number()].0.retain(is_mine);
        }
    }

    /// Whether the chunk has no owner, or an earlier session of this thread owned it.
    fn may_own(&self, owner: Addr, chunk: u64, class: Class) -> bool {
        match self.memory.load::<u64>(owner) {
            0 => true,
            thread if thread == self.thread + 1 => {
                !self.blocks.mine[class.number()].0.contains(&chunk)
            }
            _ => false,
        }
    }

    /// Adds the free blocks of a chunk to the list, which must have none of them.
    pub(super) fn scan(&mut self, class: Class, chunk: u64) -> bool {
        if self.is_looked_at(chunk) {
            self.memory.fetch_add(self.heap.layout.freed(chunk), 1);
            return false;
        }
        let start = self.heap.layout.chunk(chunk);
        // Before the states: a reservation ends when the state of what it has become is stored.
        let reserved = self.shared.clone();
        let is_reserved = reserved.as_ref().map(|reserved| reserved.starts_in(chunk));
        let mut states = vec![0; class.blocks() as usize];
        self.memory.read(start, &mut states);
        let first = start.offset() + STATE_BYTES;
        let before = self.blocks.free[class.number()].len();
        let mine = self.buffers.taken.iter().filter(|block| block.chunk == chunk);
        let taken: FxHashSet<Addr> = mine.map(|block| block.at).collect();
        for (block, state) in states.iter().enumerate().rev() {
            let at = Addr::pm(first + block as u64 * class.bytes());
            let is_free = *state == 0 && !is_reserved.as_ref().is_some_and(|is| is(at));
            if is_free && !taken.contains(&at) && !self.is_kept(class, at) {
                self.blocks.free[class.number()].push(at.offset());
            }
        }
        if self.is_looked_at(chunk) {
            // The survey may have read these blocks before they were freed; do not hand them out
            // yet.
            self.blocks.free[class.number()].truncate(before);
            self.memory.fetch_add(self.heap.layout.freed(chunk), 1);
        }
        self.blocks.free[class.number()].len() > before
    }

    fn fresh_chunk(&mut self, class: Class) -> Result<(), TxError> {
        let chunk = self.fresh(Chunk::Small(class), STATE_BYTES)?;
        self.blocks.mine[class.number()].0.push(chunk);
        self.scan(class, chunk);
        Ok(())
    }

    /// Returns space to the free lists, first of this thread: it was taken and not linked, or a
    /// transaction that freed it has committed.
    pub(crate) fn give_back(&mut self, blocks: &[Block]) {
        let is_in_cycle = self.is_in_cycle();
        for block in blocks {
            let owner = self.heap.layout.owner(block.chunk);
            let is_mine = || self.memory.load::<u64>(owner) == self.thread + 1;
            self.count_freed(block.bytes());
            match block.kind {
                Kind::Large(length) => self.give_back_run(block.chunk, length),
                Kind::Small(class) if !is_in_cycle && is_mine() => {
                    self.blocks.free[class.number()].push(block.at.offset());
                }
                Kind::Shelf(count) if self.give_back_granules(block, count) => {}
                Kind::Small(_) | Kind::Shelf(_) => {
                    self.memory.fetch_add(self.heap.layout.freed(block.chunk), 1);
                }
            }
        }
    }

    /// Counts freed bytes, by which cycles decide when to survey.
    fn count_freed(&self, bytes: u64) {
        if self.heap.layout.numbers.moves {
            let at = self.heap.layout.freed_bytes(self.thread);
            let freed: u64 = self.memory.load(at);
            self.memory.store(at, freed + bytes);
        }
    }

    /// Gives up all chunks of this thread: others can adopt them.
    pub(crate) fn disown(&mut self) {
        self.give_up_run();
        self.disown_small();
        for chunk in std::mem::take(&mut self.blocks.shelves).chunks() {
            self.is_given_up(chunk);
        }
        if self.heap.layout.numbers.moves {
            self.memory.fetch_add(self.heap.layout.orphans(), 1);
        }
    }

    /// Gives up the chunks that have blocks of the classes.
    pub(super) fn disown_small(&mut self) {
        for number in 0..Class::COUNT {
            self.blocks.free[number].clear();
            if self.shared.is_none() {
                self.blocks.adopted[number] = 0;
            }
            let class = Class::new(number as u64).expect("a class");
            let (chunks, _) = std::mem::take(&mut self.blocks.mine[number]);
            chunks.into_iter().for_each(|chunk| self.give_up_chunk(class, chunk));
        }
    }

    /// Gives up a chunk of this thread that it has forgotten.
    pub(super) fn give_up_chunk(&self, class: Class, chunk: u64) {
        if self.is_given_up(chunk)
            && let Some(space) = &self.shared
        {
            space.give_up(class, chunk);
        }
    }

    /// Gives the chunk up, unless another thread owns it by now: a cycle can have freed it.
    fn is_given_up(&self, chunk: u64) -> bool {
        let owner = self.heap.layout.owner(chunk);
        self.memory.compare_exchange(owner, self.thread + 1, 0).is_ok()
    }
}
