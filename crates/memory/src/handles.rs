//! Where threads get their handles from: what the layers above need of a mapped pool, as
//! [`Memory`](crate::Memory) is what they need of a handle.
//!
//! A program that runs on the handles it is given needs none of this. A runtime with threads of its
//! own does: flushers take handles, and words in DRAM that the program has not laid out.

use crate::{Addr, Memory};
use std::{fmt, io};

/// Gives each thread its handle on one and the same memory: a mapped pool.
pub trait Handles: Send + Sync {
    /// What a thread holds.
    type Handle<'a>: Memory
    where
        Self: 'a;

    /// The handle of hardware thread `thread`; take one in each thread.
    fn handle(&self, thread: usize) -> Self::Handle<'_>;

    /// Why no line is ever flushed here, in a few words, if that is so: the caches persist, say.
    fn flushes_nothing(&self) -> Option<String>;

    /// Makes the DRAM beside the pool longer by `bytes`, which are zero, and gives where they
    /// begin, at a line; what it holds stays. Pages that nobody touches cost nothing.
    ///
    /// # Errors
    /// When the system has no room for them: nothing has changed then.
    fn add_dram(&mut self, bytes: u64) -> io::Result<Addr>;

    /// Begins to watch for stores to persistent memory, of all threads of this process.
    ///
    /// # Errors
    /// Why this machine does not tell by that source, for people to read.
    fn recent_stores(&self, source: StoreSource) -> Result<Box<dyn RecentStores + '_>, String> {
        Err(format!("this memory has no {source}"))
    }
}

/// What may tell which bytes of a mapped pool were stored to, without asking those who store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum StoreSource {
    /// The processor's counters note the address of every so manieth store (Intel PEBS, AMD IBS).
    Samples,
    /// The system write-protects pages, and notes those that were stored to.
    Pages,
    /// The system marks pages that were stored to, of the whole process.
    SoftDirty,
}

impl StoreSource {
    /// All of them, the most precise first.
    pub const ALL: [StoreSource; 3] =
        [StoreSource::Samples, StoreSource::Pages, StoreSource::SoftDirty];

    /// The name used on the command line and in every output.
    pub const fn name(self) -> &'static str {
        match self {
            StoreSource::Samples => "samples",
            StoreSource::Pages => "pages",
            StoreSource::SoftDirty => "soft-dirty",
        }
    }
}

impl fmt::Display for StoreSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Persistent bytes that were stored to of late. A hint: what it shows need not have changed, and
/// a store that it does not show may have been made.
pub trait RecentStores {
    /// Shows where the stores since the last call were, or since the watch began: first byte and
    /// number of bytes, at least one and all of them there, of one line or of whole pages.
    ///
    /// # Errors
    /// When the system does not tell any more.
    fn find(&mut self, found: &mut dyn FnMut(Addr, u64)) -> io::Result<()>;

    /// Says that [`find`](RecentStores::find) will not be called for a while: what watching costs
    /// the program may end until then. What is stored meanwhile need not be found.
    fn rest(&mut self) {}
}

/// Who executes the flushes of a pool's threads: what a pool's option `flush` takes.
pub trait FlushBy<P> {
    /// The pool with that option.
    type Pool;
    /// Why it cannot be had.
    type Error;

    /// Takes the flushes of `pool` over.
    ///
    /// # Errors
    /// When an option is out of its range, or the system has no room; the pool is closed then.
    fn flush_for(self, pool: P) -> Result<Self::Pool, Self::Error>;
}
