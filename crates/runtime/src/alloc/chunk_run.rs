//! Whole chunks: taking consecutive ones, growing the pool, and freeing empty ones for any use.

use crate::alloc::block::{Block, Kind};
use crate::alloc::chunk::{self, Chunk};
use crate::alloc::size_class::{CHUNK_BYTES, Class};
use crate::defrag::pages::{self, Pages};
use crate::flaws::HeapFlaw;
use crate::heap::layout::CHUNK_LOCK;
use crate::tx::record::Builder;
use crate::tx::redo_log::Wait;
use crate::{Session, TxError};
use rustc_hash::{FxHashMap, FxHashSet};
use seawall_memory::{Addr, Memory, MemoryExt};

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

impl<M: Memory> Session<'_, M> {
    /// Takes a chunk for `content`, which starts with that many bytes of states, all zero.
    pub(crate) fn fresh(&mut self, content: Chunk, states: u64) -> Result<u64, TxError> {
        let chunk = self.with_chunk_lock(|session| -> Result<u64, TxError> {
            let (chunk, entry) = session.find_run(1, Use::Objects)?;
            let layout = session.heap.layout;
            let is_shelf = content == Chunk::Shelf;
            session.use_again(chunk)?;
            if entry != Chunk::Clean || is_shelf && !session.has_zeros(chunk, states) {
                session.memory.write(layout.chunk(chunk), &vec![0; states as usize]);
                session.memory.flush(layout.chunk(chunk), states);
                session.memory.order();
            }
            let rest = Chunk::Run(entry.length() - 1);
            session.write_entries(&[(chunk, content), (chunk + 1, rest)], false)?;
            session.memory.store(layout.owner(chunk), session.thread + 1);
            Ok(chunk)
        })?;
        self.memory.will_write(self.heap.layout.chunk(chunk), CHUNK_BYTES);
        Ok(chunk)
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
        let mut bytes = vec![0; states as usize];
        self.memory.read(self.heap.layout.chunk(chunk), &mut bytes);
        bytes.iter().all(|byte| *byte == 0)
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
            self.own_run(chunk, length, self.thread + 1);
            self.blocks.kept = Some((chunk, length));
        } else {
            self.own_run(chunk, length, 0);
        }
    }

    /// Frees the run that this session keeps for all threads; false if it keeps none.
    pub(super) fn give_up_run(&mut self) -> bool {
        let kept = self.blocks.kept.take();
        if let Some((chunk, length)) = kept {
            self.own_run(chunk, length, 0);
        }
        kept.is_some()
    }

    /// Takes `length` consecutive chunks.
    pub(crate) fn take_chunks(&mut self, length: u64, purpose: Use) -> Result<Block, TxError> {
        let chunk = self.with_chunk_lock(|session| -> Result<u64, TxError> {
            let (chunk, found) = session.find_run(length, purpose)?;
            let rest = Chunk::Run(found.length() - length);
            let entries = [(chunk, Chunk::Run(length)), (chunk + length, rest)];
            (chunk..chunk + length).try_for_each(|chunk| session.use_again(chunk))?;
            session.write_entries(&entries, false)?;
            session.own_run(chunk, length, session.thread + 1);
            Ok(chunk)
        })?;
        Ok(self.run_block(chunk, length))
    }

    pub(crate) fn own_run(&self, chunk: u64, length: u64, owner: u64) {
        for chunk in chunk..chunk + length {
            self.memory.store(self.heap.layout.owner(chunk), owner);
        }
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

    /// Finds `length` consecutive free chunks, joins their runs, and returns the first chunk with
    /// its entry. Grows the pool if there are none. The chunk lock is held.
    fn find_run(&mut self, length: u64, purpose: Use) -> Result<(u64, Chunk), TxError> {
        let layout = self.heap.layout;
        let chunks = self.chunks();
        let cursor: u64 = self.memory.load(layout.cursor);
        let end = self.end_for(purpose);
        for (from, to) in [(cursor, end), (0, end)] {
            if let Some((chunk, found)) = self.search_run(from, to, length)? {
                return Ok(self.found_run(chunk, found, length));
            }
        }
        if self.give_up_run() {
            return self.find_run(length, purpose);
        }
        // Cycles return empty chunks; a search for them here would hold the lock for long.
        let has_grown = layout.numbers.moves && self.grow(length);
        if has_grown || self.release_empty()? || self.grow(length) {
            if let Some((chunk, found)) = self.search_run(0, self.end_for(purpose), length)? {
                return Ok(self.found_run(chunk, found, length));
            }
            if self.grow(length)
                && let Some((chunk, found)) = self.search_run(0, self.end_for(purpose), length)?
            {
                return Ok(self.found_run(chunk, found, length));
            }
        }
        if self.log.is_extended() {
            self.log.truncate_all(self.memory);
            self.release_extensions();
            return self.find_run(length, purpose);
        }
        Err(TxError::Full { chunks, wanted: length })
    }

    /// The end of the chunks that can be taken for that purpose. Where programs store in place,
    /// objects leave the last ones, so that a full pool has room for the log of a transaction that
    /// frees many.
    fn end_for(&self, purpose: Use) -> u64 {
        let chunks = self.chunks();
        match purpose {
            Use::Objects if self.heap.in_place => chunks - chunks / LOG_SHARE,
            Use::Objects | Use::Log => chunks,
        }
    }

    /// Starts the next search behind the chunks that were found, as entries within them are not
    /// valid.
    fn found_run(&self, chunk: u64, found: Chunk, length: u64) -> (u64, Chunk) {
        let next = (chunk + length) % self.chunks().max(1);
        self.memory.store(self.heap.layout.cursor, next);
        (chunk, found)
    }

    /// Frees chunks whose blocks are all free for any use, if this thread or none owns them;
    /// returns whether there were any. The chunk lock is held.
    fn release_empty(&mut self) -> Result<bool, TxError> {
        let layout = self.heap.layout;
        let mut released = self.release_empty_shelves()?;
        for number in 0..Class::COUNT {
            let class = Class::new(number as u64).expect("a class");
            let before = self.blocks.mine[number].0.len();
            while self.adopt_locked(class, usize::MAX) {}
            let adopted = self.blocks.mine[number].0[before..].iter().copied().collect();
            self.drop_lost(class);
            self.list_again(class);
            let mut free: FxHashMap<u64, u64> = FxHashMap::default();
            for at in &self.blocks.free[number] {
                *free.entry(layout.chunk_of(Addr::pm(*at)).expect("a block")).or_default() += 1;
            }
            let mine = self.blocks.mine[number].0.clone();
            let is_empty = |session: &Self, chunk| {
                free.get(&chunk) == Some(&class.blocks()) && session.is_idle(chunk)
            };
            for chunk in mine {
                if !is_empty(self, chunk) {
                    continue;
                }
                self.write_entries(&[(chunk, Chunk::Run(1))], true)?;
                let keeps = |at: &u64| layout.chunk_of(Addr::pm(*at)) != Some(chunk);
                self.blocks.free[number].retain(keeps);
                self.blocks.mine[number].0.retain(|mine| *mine != chunk);
                self.memory.store(layout.owner(chunk), 0u64);
                released = true;
            }
            self.disown_some(class, &adopted);
        }
        Ok(released)
    }

    /// Gives up those of some chunks that this thread owns: others are short of them.
    fn disown_some(&mut self, class: Class, chunks: &FxHashSet<u64>) {
        let layout = self.heap.layout;
        let (mine, _) = &mut self.blocks.mine[class.number()];
        let given: FxHashSet<u64> = mine.extract_if(.., |chunk| chunks.contains(chunk)).collect();
        if given.is_empty() {
            return;
        }
        let is_kept =
            |at: &u64| !layout.chunk_of(Addr::pm(*at)).is_some_and(|it| given.contains(&it));
        self.blocks.free[class.number()].retain(is_kept);
        given.into_iter().for_each(|chunk| self.give_up_chunk(class, chunk));
    }

    /// Lists the blocks that others have freed in chunks of this thread.
    fn list_again(&mut self, class: Class) {
        for chunk in self.blocks.mine[class.number()].0.clone() {
            if self.memory.swap(self.heap.layout.freed(chunk), 0) > 0 {
                self.forget(class, chunk, self.thread + 1);
                self.scan(class, chunk);
            }
        }
    }

    /// Searches the chunks of `from..to` for `length` consecutive free ones.
    fn search_run(
        &mut self,
        from: u64,
        to: u64,
        length: u64,
    ) -> Result<Option<(u64, Chunk)>, TxError> {
        let layout = self.heap.layout;
        let (mut chunk, mut first, mut joined) = (from, from, 0);
        let chunks = self.chunks();
        while chunk < to {
            let entry = chunk::load_within(self.memory, &layout, chunk, chunks)?;
            let is_free = entry.is_free() && self.memory.load::<u64>(layout.owner(chunk)) == 0;
            if is_free {
                if joined == 0 {
                    first = chunk;
                }
                joined += entry.length();
            } else {
                joined = 0;
            }
            chunk += entry.length();
            if joined >= length && first + length <= to {
                let is_one = first + joined == chunk && entry.length() == joined;
                return Ok(Some((first, if is_one { entry } else { Chunk::Run(joined) })));
            }
        }
        Ok(None)
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
