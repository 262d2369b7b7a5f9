//! What threads know of each other's free space, and give up for each other.
//!
//! Free chunks, and chunks without an owner that may have free blocks, are members of
//! [sets](super::chunk_set) in DRAM. So that there is nothing of a kind is known at once, whatever
//! the size of the pool. After an opening nothing is known: who finds no member of a set looks at
//! the entries of the next chunks that nobody has looked at, and notes them.
//!
//! Who frees a block that it does not list itself counts it in a word of the chunk. The first one
//! since somebody looked also puts the chunk into its set, if it has no owner. The owner looks at
//! the count when it gives the chunk up.
//!
//! A thread that finds no room gives up what it owns, but for chunks of which a transaction in
//! progress has taken blocks. What it frees afterwards is noted in the sets, for all threads.
//! Chunks that may be empty are members of one more set; they are looked at, once, when free chunks
//! are wanted and there are none.

use crate::alloc::block::{Blocks, Kind};
use crate::alloc::chunk::{self, Chunk};
use crate::alloc::chunk_set::ChunkSet;
use crate::alloc::shelf::LINES_MAX;
use crate::alloc::size_class::Class;
use crate::tx::buffers::Buffers;
use crate::{AccessError, Session};
use rustc_hash::FxHashSet;
use seawall_memory::{Addr, Memory, MemoryExt};

/// The entries of chunks that are looked at in one go.
const DISCOVERED: usize = 64;

impl<M: Memory> Session<'_, M> {
    /// Whether the sets know of all chunks.
    pub(crate) fn is_all_known(&self) -> bool {
        self.memory.load::<u64>(self.heap.layout.known) >= self.chunks()
    }

    /// Notes what the next chunks hold; false if all are known. The chunk lock is held.
    pub(crate) fn discover(&mut self) -> Result<bool, AccessError> {
        let (memory, layout, chunks) = (self.memory, self.heap.layout, self.chunks());
        let mut chunk: u64 = memory.load(layout.known);
        if chunk >= chunks {
            return Ok(false);
        }
        for _ in 0..DISCOVERED {
            if chunk >= chunks {
                break;
            }
            let entry = chunk::load_within(memory, &layout, chunk, chunks)?;
            match entry {
                Chunk::Clean | Chunk::Run(_) => {
                    if memory.load::<u64>(layout.owner(chunk)) == 0 {
                        self.put_run(chunk, entry.length());
                    }
                }
                Chunk::Small(class) => self.open(chunk, layout.open(class)),
                Chunk::Shelf => self.open(chunk, layout.shelves(LINES_MAX)),
                Chunk::Large(..) => {}
            }
            chunk += entry.length();
        }
        memory.store(layout.known, chunk);
        Ok(true)
    }

    /// Makes a run this thread's that is about to be free, or that it has taken, which its entry
    /// does not say: so nobody notes that it can be taken.
    pub(crate) fn hold_run(&self, chunk: u64) {
        self.memory.store(self.heap.layout.owner(chunk), self.thread + 1);
    }

    /// Notes that a run can be taken, which this thread [held](Session::hold_run) and which its
    /// entry says to be free.
    pub(crate) fn put_run(&self, chunk: u64, length: u64) {
        let layout = &self.heap.layout;
        layout.free_chunks().insert_run(self.memory, chunk, length);
        // Not before, and not if another thread has taken it since.
        let _ = self.memory.compare_exchange(layout.owner(chunk), self.thread + 1, 0);
        if self.memory.load::<u64>(layout.longest) != 0 {
            self.memory.swap(layout.longest, 0);
        }
    }

    /// Whether the chunk can be taken. The chunk lock is held.
    pub(crate) fn is_free_chunk(&self, chunk: u64) -> bool {
        self.heap.layout.free_chunks().contains(self.memory, chunk)
    }

    fn open(&self, chunk: u64, set: ChunkSet) {
        set.insert(self.memory, chunk);
        self.heap.layout.loose().insert(self.memory, chunk);
    }

    /// Notes that something is free in the chunk which no thread lists; `set` is that of chunks
    /// which may have as much.
    pub(crate) fn note_freed(&self, chunk: u64, set: ChunkSet) {
        let layout = &self.heap.layout;
        let is_first = self.memory.fetch_add(layout.freed(chunk), 1) == 0;
        if is_first && self.memory.load::<u64>(layout.owner(chunk)) == 0 {
            self.open(chunk, set);
        }
    }

    /// As [`note_freed`](Session::note_freed), for blocks of a chunk that a cycle has let go of.
    pub(crate) fn note_usual(&self, chunk: u64) {
        let layout = &self.heap.layout;
        if let Ok(Chunk::Small(class)) = chunk::load(self.memory, layout, chunk) {
            self.note_freed(chunk, layout.open(class));
        }
    }

    /// Makes the chunk this thread's, if it has no owner; what was freed in it is to be found now.
    pub(super) fn own(&self, chunk: u64) -> bool {
        let layout = &self.heap.layout;
        let is_own = self.memory.compare_exchange(layout.owner(chunk), 0, self.thread + 1).is_ok();
        if is_own {
            self.memory.swap(layout.freed(chunk), 0);
        }
        is_own
    }

    /// Gives the chunk up, unless another thread owns it by now: a cycle can have freed it. Others
    /// find it if it `has_some` free space, or if others have freed some; returns whether.
    fn give_up_chunk(&self, chunk: u64, has_some: bool, set: ChunkSet) -> bool {
        let (memory, layout) = (self.memory, &self.heap.layout);
        if memory.compare_exchange(layout.owner(chunk), self.thread + 1, 0).is_err() {
            return false;
        }
        let has_some = has_some || memory.load::<u64>(layout.freed(chunk)) > 0;
        if has_some {
            self.open(chunk, set);
        }
        has_some
    }

    /// As [`disown`](Session::disown), for want of room.
    pub(super) fn disown_for_room(&mut self) -> bool {
        let has_some = self.disown();
        self.blocks.has_given |= has_some;
        has_some
    }

    /// Gives up all chunks of this thread, so that others can adopt them; while a transaction is in
    /// progress, only those of which it has taken nothing, or nothing that others know of. Returns
    /// whether there is something free in them.
    pub(crate) fn disown(&mut self) -> bool {
        let has_run = self.give_up_run();
        self.note_taken();
        let held = self.held();
        let has_blocks = self.disown_small(&held);
        self.disown_shelves(&held) || has_blocks || has_run
    }

    /// The chunks of which the transaction in progress has taken what no other thread knows of.
    fn held(&self) -> FxHashSet<u64> {
        let Buffers { taken, noted, .. } = &*self.buffers;
        let has_shelves = !self.blocks.shelves.mine.is_empty();
        let (all_known, new) = taken.split_at(*noted);
        let known = if has_shelves { all_known } else { &[] };
        let on_shelves = known.iter().filter(|block| matches!(block.kind, Kind::Shelf(_)));
        let taken = new.iter().chain(on_shelves).map(|block| block.chunk);
        taken.chain(self.blocks.claimed.iter().copied()).collect()
    }

    /// Makes the chunk this thread's, so that no other one takes blocks of it, if `is_so` then and
    /// nothing in it is reserved; its blocks are [forgotten](Session::forget_claimed) afterwards.
    pub(crate) fn claim(&self, chunk: u64, class: Class, is_so: impl Fn(&Self) -> bool) -> bool {
        let owner: u64 = self.memory.load(self.heap.layout.owner(chunk));
        let was_own = owner == self.thread + 1;
        if !was_own && !self.own(chunk) {
            return false;
        }
        // In this order: a reservation ends when the state of what it has become is stored.
        let is_reserved = self.shared.as_ref().is_some_and(|shared| shared.has_in(chunk));
        let is_claimed = !is_reserved && is_so(self);
        if !is_claimed && !was_own {
            self.unclaim(chunk, class);
        }
        is_claimed
    }

    /// Gives up a chunk that was claimed.
    pub(crate) fn unclaim(&self, chunk: u64, class: Class) {
        self.give_up_chunk(chunk, true, self.heap.layout.open(class));
    }

    /// Removes the blocks of claimed chunks from the list.
    pub(crate) fn forget_claimed(&mut self, class: Class) {
        let layout = self.heap.layout;
        let Blocks { free, mine, claimed, .. } = &mut *self.blocks;
        let is_claimed = |at: &u64| layout.chunk_of(Addr::pm(*at)).map(|it| claimed.contains(&it));
        free[class.number()].retain(|at| is_claimed(at) != Some(true));
        mine[class.number()].0.retain(|chunk| !claimed.contains(chunk));
    }

    fn disown_small(&mut self, held: &FxHashSet<u64>) -> bool {
        let layout = self.heap.layout;
        let mut has_some = false;
        for class in Class::all() {
            let number = class.number();
            if self.blocks.mine[number].0.is_empty() && self.blocks.free[number].is_empty() {
                continue;
            }
            let chunk_of = |at: &u64| layout.chunk_of(Addr::pm(*at)).expect("a block");
            let mut listed: Vec<u64> = self.blocks.free[number].iter().map(chunk_of).collect();
            listed.dedup();
            let listed: FxHashSet<u64> = listed.into_iter().collect();
            self.blocks.free[number].retain(|at| held.contains(&chunk_of(at)));
            let (mine, _) = &mut self.blocks.mine[number];
            let mut given: Vec<u64> = mine.extract_if(.., |chunk| !held.contains(chunk)).collect();
            // An earlier session of this thread number owned these.
            given.extend(listed.iter().filter(|chunk| !held.contains(chunk)));
            for chunk in given {
                let set = layout.open(class);
                has_some |= self.give_up_chunk(chunk, listed.contains(&chunk), set);
            }
        }
        has_some
    }

    fn disown_shelves(&mut self, held: &FxHashSet<u64>) -> bool {
        let mut has_some = false;
        for shelf in self.blocks.shelves.take_but(held) {
            let freed = self.heap.layout.freed(shelf.chunk);
            let is_stale = self.memory.load::<u64>(freed) > 0;
            let lines = if is_stale { LINES_MAX } else { shelf.free.longest(LINES_MAX) };
            let set = self.heap.layout.shelves(lines.max(1));
            has_some |= self.give_up_chunk(shelf.chunk, lines > 0, set);
        }
        has_some
    }

    /// Gives up what an earlier session of this thread number owned and did not give up. Looks for
    /// that once, when this session owns nothing but what it holds.
    pub(super) fn disown_left(&mut self) -> bool {
        if std::mem::replace(&mut self.blocks.is_sole, true) {
            return false;
        }
        let layout = self.heap.layout;
        let held = self.held();
        let mut has_some = false;
        for chunk in (0..self.chunks()).filter(|chunk| !held.contains(chunk)) {
            if self.memory.load::<u64>(layout.owner(chunk)) != self.thread + 1 {
                continue;
            }
            match chunk::load(self.memory, &layout, chunk) {
                _ if self.is_destination(chunk) => {}
                Ok(Chunk::Small(class)) => {
                    has_some |= self.give_up_chunk(chunk, true, layout.open(class));
                }
                Ok(Chunk::Shelf) => {
                    has_some |= self.give_up_chunk(chunk, true, layout.shelves(LINES_MAX));
                }
                _ => {}
            }
        }
        has_some
    }
}
