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
//! when its list is empty. A thread takes chunks without an owner that may have free blocks (which
//! these are, `free_space` knows), then free chunks, under a lock, then blocks of a larger class.
//! Splitting a run of free chunks is a small transaction of its own.

use crate::alloc::block::{Block, Kind};
use crate::alloc::chunk::{self, Chunk};
use crate::alloc::shelf::LINES_MAX;
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
    /// Takes a block of `class`, or of a larger one where there is nothing else; it starts at a
    /// line if `lines`. Its state is free until a transaction commits that allocates it.
    pub(crate) fn take_small(&mut self, class: Class, lines: bool) -> Result<Block, TxError> {
        let mut class = class;
        let at = loop {
            let Some(at) = self.blocks.free[class.number()].pop().map(Addr::pm) else {
                class = self.refill(class, lines)?;
                continue;
            };
            if self.may_take(class, at) {
                break at;
            }
        };
        let chunk = self.heap.layout.chunk_of(at).expect("a block lies in a chunk");
        Ok(Block { at, chunk, kind: Kind::Small(class) })
    }

    /// Lists blocks of the class, or of a larger one; returns which.
    #[cold]
    #[inline(never)]
    fn refill(&mut self, class: Class, lines: bool) -> Result<Class, TxError> {
        let adoptions = if self.is_packing { usize::MAX } else { ADOPTIONS };
        if self.look_again(class, PROBES) || self.adopt(class, adoptions)? {
            return Ok(class);
        }
        if self.is_packing {
            return Err(TxError::Full { chunks: self.chunks(), wanted: 1 });
        }
        let full = match self.fresh_chunk(class) {
            Err(full @ TxError::Full { .. }) => full,
            other => return other.map(|()| class),
        };
        for class in class.and_larger(lines) {
            let has_some = !self.blocks.free[class.number()].is_empty();
            if has_some || self.look_again(class, usize::MAX) || self.adopt_known(class, usize::MAX)
            {
                return Ok(class);
            }
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
                if self.scan(class, chunk, &self.taken_in(chunk)) {
                    return true;
                }
            }
        }
        false
    }

    /// Adopts chunks that may have free blocks of the class, until one has; checks up to `probes`
    /// chunks, and those that some more entries are of.
    fn adopt(&mut self, class: Class, probes: usize) -> Result<bool, TxError> {
        if self.adopt_known(class, probes) {
            return Ok(true);
        }
        while !self.is_all_known() {
            self.with_chunk_lock(Session::discover)?;
            if self.adopt_known(class, probes) {
                return Ok(true);
            }
            if probes < usize::MAX {
                break;
            }
        }
        Ok(false)
    }

    fn adopt_known(&mut self, class: Class, probes: usize) -> bool {
        !self.heap.layout.open(class).is_empty(self.memory)
            && self.with_chunk_lock(|session| session.adopt_open(class, probes))
    }

    /// As [`adopt`](Session::adopt), without another entry. The chunk lock is held: chunks get
    /// owners under it.
    fn adopt_open(&mut self, class: Class, probes: usize) -> bool {
        let open = self.heap.layout.open(class);
        for _ in 0..probes {
            let Some(chunk) = open.first(self.memory, 0) else { return false };
            open.remove(self.memory, chunk);
            if self.adopt_chunk(class, chunk) {
                return true;
            }
        }
        false
    }

    /// Adopts a chunk if it is of the class and has no owner; returns whether it has a free block
    /// then.
    fn adopt_chunk(&mut self, class: Class, chunk: u64) -> bool {
        let layout = self.heap.layout;
        let is_of_class = chunk::load(self.memory, &layout, chunk) == Ok(Chunk::Small(class));
        if !is_of_class || self.is_destination(chunk) || !self.own(chunk) {
            return false;
        }
        self.forget_all_of(chunk);
        self.blocks.mine[class.number()].0.push(chunk);
        self.scan(class, chunk, &FxHashSet::default())
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

    /// The blocks of the chunk that the transaction in progress has taken.
    pub(super) fn taken_in(&self, chunk: u64) -> FxHashSet<Addr> {
        let mine = self.buffers.taken.iter().filter(|block| block.chunk == chunk);
        mine.map(|block| block.at).collect()
    }

    /// Adds the free blocks of a chunk to the list, which must have none of them, but for those
    /// that are taken.
    fn scan(&mut self, class: Class, chunk: u64, taken: &FxHashSet<Addr>) -> bool {
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
        for (block, state) in states.iter().enumerate().rev() {
            if *state != 0 {
                continue;
            }
            let at = Addr::pm(first + block as u64 * class.bytes());
            let is_reserved = is_reserved.as_ref().is_some_and(|is| is(at));
            if !is_reserved && !taken.contains(&at) && !self.is_kept(class, at) {
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
        self.scan(class, chunk, &FxHashSet::default());
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
                Kind::Small(class) => {
                    self.note_freed(block.chunk, self.heap.layout.open(class));
                }
                Kind::Shelf(count) if self.give_back_granules(block, count) => {}
                Kind::Shelf(_) => {
                    self.note_freed(block.chunk, self.heap.layout.shelves(LINES_MAX));
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
}
