//! Whole chunks: taking consecutive ones, growing the pool, and freeing empty ones for any use.

use crate::alloc::block::{Block, Kind};
use crate::alloc::chunk::{self, Chunk};
use crate::alloc::chunk_set::ChunkSet;
use crate::alloc::map::GRANULES;
use crate::alloc::shelf::LINES_MAX;
use crate::alloc::size_class::CHUNK_BYTES;
use crate::defrag::pages::{self, Pages};
use crate::flaws::HeapFlaw;
use crate::heap::layout::CHUNK_LOCK;
use crate::tx::record::Builder;
use crate::tx::redo_log::Wait;
use crate::{Session, TxError};
use seawall_memory::{LINE_BYTES, Memory, MemoryExt};

/// What chunks are taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Objects,
    /// To extend a log.
    Log,
}

/// One chunk of so many is left for logs.
const LOG_SHARE: u64 = 64;

/// The most chunks of a run that a session keeps.
const KEPT_MAX: u64 = 4;

/// The most chunks that are freed with one record.
const BATCH: usize = 16;

/// In place of the most consecutive free chunks, plus 1: that it is not known, or is being found
/// out.
const UNKNOWN: u64 = 0;
const SEARCHED: u64 = u64::MAX;

impl<M: Memory> Session<'_, M> {
    /// Takes a chunk for `content`, which starts with that many bytes of states, all zero.
    pub(crate) fn fresh(&mut self, content: Chunk, states: u64) -> Result<u64, TxError> {
        let chunk = self.with_chunk_lock(|session| -> Result<u64, TxError> {
            let chunk = session.find_run(1, Use::Objects)?;
            let layout = session.heap.layout;
            let is_shelf = content == Chunk::Shelf;
            let was = chunk::load(session.memory, &layout, chunk)?;
            session.use_again(chunk)?;
            if was != Chunk::Clean || is_shelf && !session.has_zeros(chunk, states) {
                session.memory.write(layout.chunk(chunk), &vec![0; states as usize]);
                session.memory.flush(layout.chunk(chunk), states);
                session.memory.order();
            }
            session.split_run(chunk, content)?;
            session.memory.store(layout.freed(chunk), 0u64);
            Ok(chunk)
        })?;
        self.memory.will_write(self.heap.layout.chunk(chunk), CHUNK_BYTES);
        Ok(chunk)
    }

    /// Takes the free chunks of `entry` from `chunk` on, where an entry is, out of the run that
    /// they begin, for this thread. The chunk lock is held.
    fn split_run(&mut self, chunk: u64, entry: Chunk) -> Result<(), TxError> {
        let (layout, chunks) = (self.heap.layout, self.chunks());
        let (mut end, wanted) = (chunk, chunk + entry.length());
        while end < wanted {
            end += chunk::load_within(self.memory, &layout, end, chunks)?.length();
        }
        self.write_entries(&[(chunk, entry), (wanted, Chunk::Run(end - wanted))], false)?;
        layout.free_chunks().remove_run(self.memory, chunk, entry.length());
        self.hold_run(chunk);
        Ok(())
    }

    /// Prepares a free chunk for use.
    fn use_again(&mut self, chunk: u64) -> Result<(), TxError> {
        let layout = self.heap.layout;
        if !layout.numbers.moves {
            return Ok(());
        }
        self.forget_all_of(chunk);
        let has_holes = !Pages::load(self.memory, &layout, chunk).are_usual();
        if has_holes && !self.memory.bring_back(layout.chunk(chunk), CHUNK_BYTES) {
            return Err(TxError::Full { chunks: self.chunks(), wanted: 1 });
        }
        pages::renew(self.memory, &layout, chunk);
        Ok(())
    }

    /// Whether that many bytes at the start of the chunk are zero.
    fn has_zeros(&self, chunk: u64, states: u64) -> bool {
        let start = self.heap.layout.chunk(chunk);
        (0..states).step_by(LINE_BYTES as usize).all(|from| {
            let mut bytes = [0; LINE_BYTES as usize];
            let bytes = &mut bytes[..LINE_BYTES.min(states - from) as usize];
            self.memory.read(start.plus(from), bytes);
            bytes.iter().all(|byte| *byte == 0)
        })
    }

    /// Takes `length` consecutive chunks for an object.
    pub(crate) fn take_large(&mut self, length: u64) -> Result<Block, TxError> {
        if let Some((chunk, _)) = self.blocks.kept.take_if(|kept| kept.1 == length) {
            return Ok(self.run_block(chunk, length));
        }
        self.take_chunks(length, Use::Objects)
    }

    fn run_block(&self, chunk: u64, length: u64) -> Block {
        Block { at: self.heap.layout.chunk(chunk), chunk, kind: Kind::Large(length) }
    }

    /// Sets whether this session keeps the run of chunks that it freed last, of at most 256 KiB,
    /// for its next object of that length, which it then takes without the lock that all threads
    /// share. Others get the run when this session [leaves](Session::leave) or
    /// [gives up its space](Session::give_up_space), so it must do either in the end. Without
    /// effect where a defragmenter moves objects.
    pub fn keep_freed_run(&mut self, keeps: bool) {
        self.keeps_run = keeps && !self.heap.layout.numbers.moves;
        if !keeps {
            self.give_up_run();
        }
    }

    /// Frees a run, whose entry says so already, for all threads or for this one.
    pub(super) fn give_back_run(&mut self, chunk: u64, length: u64) {
        if self.keeps_run && !self.is_packing && length <= KEPT_MAX {
            self.give_up_run();
            self.blocks.kept = Some((chunk, length));
        } else {
            self.put_run(chunk, length);
        }
    }

    /// Frees the run that this session keeps for all threads; false if it keeps none.
    pub(super) fn give_up_run(&mut self) -> bool {
        let kept = self.blocks.kept.take();
        if let Some((chunk, length)) = kept {
            self.put_run(chunk, length);
        }
        kept.is_some()
    }

    /// Takes `length` consecutive chunks.
    pub(crate) fn take_chunks(&mut self, length: u64, purpose: Use) -> Result<Block, TxError> {
        let chunk = self.with_chunk_lock(|session| -> Result<u64, TxError> {
            let chunk = session.find_run(length, purpose)?;
            (chunk..chunk + length).try_for_each(|chunk| session.use_again(chunk))?;
            session.split_run(chunk, Chunk::Run(length))?;
            Ok(chunk)
        })?;
        Ok(self.run_block(chunk, length))
    }

    pub(crate) fn with_chunk_lock<T>(&mut self, action: impl FnOnce(&mut Self) -> T) -> T {
        self.sit();
        let guard = self.heap.layout.locks.acquire(self.memory, CHUNK_LOCK, 1);
        let outcome = action(self);
        self.heap.layout.locks.release(self.memory, guard);
        outcome
    }

    /// Writes chunk entries, except those of length 0, as one transaction; marks the former content
    /// of the chunks as void, if `is_void`.
    pub(crate) fn write_entries(
        &mut self,
        entries: &[(u64, Chunk)],
        is_void: bool,
    ) -> Result<(), TxError> {
        let mut builder = Builder::default();
        builder.clear();
        for (chunk, entry) in entries.iter().filter(|(_, entry)| entry.length() > 0) {
            let at = self.heap.layout.chunk_entry(*chunk);
            builder.push_word(at, entry.encode(at));
            if is_void {
                let start = self.heap.layout.chunk(*chunk);
                builder.push_freed(start, entry.length() * CHUNK_BYTES);
            }
        }
        self.log.commit(self.memory, &mut builder, Wait::Durable)
    }

    /// Finds `length` consecutive free chunks, and returns the first. Grows the pool if there are
    /// none. The chunk lock is held.
    fn find_run(&mut self, length: u64, purpose: Use) -> Result<u64, TxError> {
        loop {
            if let Some(chunk) = self.search_run(length, purpose) {
                return Ok(chunk);
            }
            // Cycles return empty chunks; a search for them here would hold the lock for long.
            let grows_first = self.heap.layout.numbers.moves;
            let has_more = self.discover()?
                || self.give_up_run()
                || grows_first && self.grow(length)
                || self.release_loose()?
                || self.disown_for_room() && self.release_loose()?
                || self.grow(length)
                || self.return_extensions()
                || self.disown_left() && self.release_loose()?;
            if !has_more {
                return Err(TxError::Full { chunks: self.chunks(), wanted: length });
            }
        }
    }

    /// Truncates the logs, if any of their extensions is this session's, and returns it.
    fn return_extensions(&mut self) -> bool {
        let is_extended = self.log.is_extended();
        if is_extended {
            self.log.truncate_all(self.memory);
            self.release_extensions();
        }
        is_extended
    }

    /// Whether a chunk is known to be free, of which any thread can make blocks of any size.
    pub fn has_free_chunk(&self) -> bool {
        self.search_run(1, Use::Objects).is_some()
    }

    /// Searches the free chunks that are known. The chunk lock is held, if the outcome is to count.
    fn search_run(&self, length: u64, purpose: Use) -> Option<u64> {
        let (memory, layout) = (self.memory, &self.heap.layout);
        let (free, end) = (layout.free_chunks(), self.end_for(purpose));
        if length == 1 {
            return free.first(memory, 0).filter(|chunk| *chunk < end);
        }
        let longest: u64 = memory.load(layout.longest);
        if longest != UNKNOWN && length >= longest {
            return None;
        }
        // A run that comes meanwhile makes the outcome void.
        memory.swap(layout.longest, SEARCHED);
        let found = free.find_run(memory, length, end);
        let now = match found {
            Ok(_) => longest,
            Err(most) if most < length => most + 1,
            Err(_) => UNKNOWN,
        };
        let _ = memory.compare_exchange(layout.longest, SEARCHED, now);
        found.ok()
    }

    /// The end of the chunks that can be taken for that purpose. Objects leave the last ones, so
    /// that a full pool has room for the log of a transaction that frees many.
    fn end_for(&self, purpose: Use) -> u64 {
        let chunks = self.chunks();
        match purpose {
            Use::Objects => chunks - chunks / LOG_SHARE,
            Use::Log => chunks,
        }
    }

    /// Frees chunks without an owner of which nothing is in use for any use; returns whether there
    /// were any. Each is looked at once, until something in it is freed. The chunk lock is held.
    fn release_loose(&mut self) -> Result<bool, TxError> {
        let (memory, layout) = (self.memory, self.heap.layout);
        let mut released = false;
        loop {
            let mut empty = Vec::new();
            while let Some(chunk) = layout.loose().first(memory, 0).filter(|_| empty.len() < BATCH)
            {
                layout.loose().remove(memory, chunk);
                if memory.load::<u64>(layout.owner(chunk)) == 0 {
                    memory.swap(layout.freed(chunk), 0);
                    empty.extend(self.set_of_empty(chunk).map(|set| (chunk, set)));
                }
            }
            if empty.is_empty() {
                return Ok(released);
            }
            let entries: Vec<_> = empty.iter().map(|(chunk, _)| (*chunk, Chunk::Run(1))).collect();
            self.write_entries(&entries, true)?;
            for (chunk, set) in empty {
                set.remove(memory, chunk);
                self.put_run(chunk, 1);
            }
            released = true;
        }
    }

    /// The set that a chunk of blocks or a shelf without an owner may be in, if nothing in it is in
    /// use.
    fn set_of_empty(&self, chunk: u64) -> Option<ChunkSet> {
        let (memory, layout) = (self.memory, &self.heap.layout);
        let (set, states) = match chunk::load(memory, layout, chunk) {
            Ok(Chunk::Small(class)) => (layout.open(class), class.blocks()),
            Ok(Chunk::Shelf) => (layout.shelves(LINES_MAX), GRANULES),
            _ => return None,
        };
        // Both before and behind: a reservation ends when the state of what it has become is
        // stored.
        let is_empty = self.is_idle(chunk)
            && self.has_zeros(chunk, states)
            && !self.shared.as_ref().is_some_and(|shared| shared.has_in(chunk))
            && self.has_zeros(chunk, states);
        is_empty.then_some(set)
    }

    /// Grows the pool by an eighth, or at least by `length` chunks.
    fn grow(&mut self, length: u64) -> bool {
        let layout = self.heap.layout;
        let chunks = self.chunks();
        let most = layout.numbers.chunks_max;
        for more in [(chunks / 8).max(length), length] {
            let wanted = (chunks + more).min(most);
            let is_enough = wanted >= chunks + length;
            if is_enough && self.heap.flaw.is(HeapFlaw::EarlyGrowth) {
                self.count_chunks(wanted);
            }
            if is_enough && self.memory.grow(layout.pm_bytes(wanted)) {
                self.count_chunks(wanted);
                return true;
            }
        }
        false
    }

    fn count_chunks(&self, chunks: u64) {
        let at = self.heap.layout.chunks;
        self.memory.store(at, crate::heap::checked_word::encode(at, chunks));
        self.memory.persist(at, 8);
    }
}
