//! What a dictionary of the cache holds under a key, and the values of WHISPER's program: words in
//! the entry itself.

use crate::Damage;
use crate::harness::ycsb::Op;
use crate::whisper::blocks::{Blocks, ReachedBlocks};
use crate::whisper::share::{self, KEY, Share};
use crate::whisper::undo::UndoTx;
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_runtime::Arena;
use std::fmt;

const REQUEST_BYTES: u64 = 96;
const RESPONSE_BYTES: u64 = 96;

/// An entry is a value, and the next entry of its chain.
const VALUE_WORDS: u64 = 12;
const NEXT: u64 = 8 * VALUE_WORDS;
const ENTRY_BYTES: u64 = NEXT + 8;

/// What a dictionary holds under a key: an entry, which contains the next one of its chain, and
/// what belongs to it.
pub trait Stored: Copy + fmt::Debug + Send + Sync + 'static {
    /// Name of the workload.
    const NAME: &'static str;
    /// One line for the list of workloads.
    const ABOUT: &'static str;
    /// Entries of a thread's log.
    const LOG_ENTRIES: u64 = 64;
    /// The offset of the next entry.
    const NEXT: u64;
    /// Where a thread searches for free blocks.
    type Cursors: Default + fmt::Debug;
    /// The blocks that a walk has reached.
    type Walk<'a>;

    /// Places what `room` keys of each thread need.
    fn place(arena: &mut Arena, share: Share, room: u64) -> Self;

    /// The greatest number of keys of a thread's dictionary: less than its number of keys, so that
    /// it evicts.
    fn room(share: Share) -> u64 {
        share.each() - share.each() / 3
    }

    /// Bytes of a request and of its response.
    fn message_bytes(op: Op) -> (u64, u64);

    /// The key of an entry.
    fn key<M: Memory>(memory: &M, entry: Addr) -> u64;

    /// Allocates an entry.
    fn take<M: Memory>(&self, tx: &mut UndoTx<'_, M>, cursors: &mut Self::Cursors) -> Addr;

    /// Fills a new entry, except for the next one.
    fn fill<M: Memory>(
        &self,
        tx: &mut UndoTx<'_, M>,
        cursors: &mut Self::Cursors,
        at: (Addr, u64, u64),
    );

    /// Overwrites the value of an entry, its key and the new tag.
    fn update<M: Memory>(
        &self,
        tx: &mut UndoTx<'_, M>,
        cursors: &mut Self::Cursors,
        at: (Addr, u64, u64),
    );

    /// Reads the value of an entry.
    fn read<M: Memory>(&self, memory: &M, entry: Addr);

    /// Frees an entry and what belongs to it.
    fn give<M: Memory>(&self, tx: &mut UndoTx<'_, M>, entry: Addr);

    /// Nothing is reached yet.
    fn walk(&self) -> Self::Walk<'_>;

    /// Reaches the entry of `thread` at the bits `at`, so that its key can be read.
    ///
    /// # Errors
    /// If there is none, or it was reached before.
    fn reach<M: Memory>(
        walk: &mut Self::Walk<'_>,
        memory: &M,
        thread: u64,
        at: (u64, &str),
    ) -> Result<Addr, Damage>;

    /// Checks the value of the entry of a key of `thread`, and returns its tag.
    ///
    /// # Errors
    /// If it is another key's, or torn.
    fn check<M: Memory>(
        &self,
        walk: &mut Self::Walk<'_>,
        memory: &M,
        at: (Addr, u64),
        thread: u64,
    ) -> Result<u64, Damage>;

    /// Checks that exactly the reached blocks are allocated.
    ///
    /// # Errors
    /// A block that is free and in use, or allocated and unreachable.
    fn check_blocks<M: Memory>(walk: &Self::Walk<'_>, memory: &M) -> Result<(), Damage>;
}

/// A value in the entry itself.
#[derive(Clone, Copy, Debug)]
pub struct InEntry {
    entries: Blocks,
}

impl Stored for InEntry {
    const NAME: &'static str = "redis";
    const ABOUT: &'static str = "get and set in caches that forget, with an undo log (redis, NVML)";
    const NEXT: u64 = NEXT;
    type Cursors = u64;
    type Walk<'a> = ReachedBlocks<'a>;

    fn place(arena: &mut Arena, share: Share, _: u64) -> InEntry {
        InEntry { entries: Blocks::place(arena, share.threads, share.each() + 1, ENTRY_BYTES) }
    }

    fn message_bytes(_: Op) -> (u64, u64) {
        (REQUEST_BYTES, RESPONSE_BYTES)
    }

    fn key<M: Memory>(memory: &M, entry: Addr) -> u64 {
        memory.load(entry.plus(KEY))
    }

    fn take<M: Memory>(&self, tx: &mut UndoTx<'_, M>, cursor: &mut u64) -> Addr {
        self.entries.take(tx, cursor).expect("an entry for each key")
    }

    fn fill<M: Memory>(
        &self,
        tx: &mut UndoTx<'_, M>,
        _: &mut u64,
        (entry, key, tag): (Addr, u64, u64),
    ) {
        share::fill(tx.memory(), entry, VALUE_WORDS, key, tag);
    }

    fn update<M: Memory>(
        &self,
        tx: &mut UndoTx<'_, M>,
        _: &mut u64,
        (entry, key, tag): (Addr, u64, u64),
    ) {
        tx.strand();
        tx.add(entry, VALUE_WORDS);
        share::fill(tx.memory(), entry, VALUE_WORDS, key, tag);
    }

    fn read<M: Memory>(&self, memory: &M, entry: Addr) {
        share::read(memory, entry, VALUE_WORDS);
    }

    fn give<M: Memory>(&self, tx: &mut UndoTx<'_, M>, entry: Addr) {
        self.entries.give(tx, entry);
    }

    fn walk(&self) -> ReachedBlocks<'_> {
        self.entries.reached()
    }

    fn reach<M: Memory>(
        walk: &mut ReachedBlocks<'_>,
        _: &M,
        thread: u64,
        (at, what): (u64, &str),
    ) -> Result<Addr, Damage> {
        walk.reach(thread, at, what)
    }

    fn check<M: Memory>(
        &self,
        _: &mut ReachedBlocks<'_>,
        memory: &M,
        (entry, key): (Addr, u64),
        _: u64,
    ) -> Result<u64, Damage> {
        share::check(memory, entry, VALUE_WORDS, key)
    }

    fn check_blocks<M: Memory>(walk: &ReachedBlocks<'_>, memory: &M) -> Result<(), Damage> {
        walk.check(memory)
    }
}
