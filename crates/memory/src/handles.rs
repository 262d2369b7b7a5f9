//! The interface of a mapped pool to the layers above it, as [`Memory`] is that of one handle.
//!
//! A program that runs on the handles it is passed needs none of this. A runtime with threads of
//! its own does: its flushers need handles, and words in DRAM that the program has not laid out.

use crate::{Addr, Memory};
use std::{fmt, io};

/// A source of handles, one for each thread, on the same memory: a mapped pool.
pub trait Handles: Send + Sync {
    /// The handle of one thread.
    type Handle<'a>: Memory
    where
        Self: 'a;

    /// Returns the handle of hardware thread `thread`. Take one in each thread.
    fn handle(&self, thread: usize) -> Self::Handle<'_>;

    /// The reason, in a few words, if this memory never flushes a line: for example, because its
    /// caches persist.
    fn flushes_nothing(&self) -> Option<String>;

    /// Makes the DRAM beside the pool longer by `bytes` of zeros and returns their address, which
    /// is aligned to a line. The old content stays. Pages that are never accessed cost nothing.
    ///
    /// # Errors
    /// When the system has no room for them; then nothing has changed.
    fn add_dram(&mut self, bytes: u64) -> io::Result<Addr>;

    /// Starts watching the stores to persistent memory of all threads of this process.
    ///
    /// # Errors
    /// The reason, as text, when this machine does not have that source.
    fn recent_stores(&self, source: StoreSource) -> Result<Box<dyn RecentStores + '_>, String> {
        Err(format!("this memory has no {source}"))
    }
}

/// A mechanism that shows which bytes of a mapped pool were stored to, without code at the stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum StoreSource {
    /// The processor's counters record the address of every N-th store (Intel PEBS, AMD IBS).
    Samples,
    /// The system write-protects pages and records those that were stored to.
    Pages,
    /// The system marks the pages of the whole process that were stored to.
    SoftDirty,
}

impl StoreSource {
    /// All sources, the most precise first.
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

/// Recent stores to persistent memory. A hint: bytes that it shows need not have changed, and it
/// can miss stores.
pub trait RecentStores {
    /// Calls `found` for the stores since the last call, or since the watch began, with the first
    /// byte and the number of bytes: at least one, all inside the pool, of one line or of whole
    /// pages.
    ///
    /// # Errors
    /// When the system has stopped reporting stores.
    fn find(&mut self, found: &mut dyn FnMut(Addr, u64)) -> io::Result<()>;

    /// Announces that [`find`](RecentStores::find) will not be called for a while, so that watching
    /// can pause and cost the program nothing. Stores made meanwhile need not be found.
    fn rest(&mut self) {}
}

/// A way to execute the flushes of a pool's threads: the value of a pool's option `flush`.
pub trait FlushBy<P> {
    /// The pool with that option.
    type Pool;
    /// The error when the option cannot be used.
    type Error;

    /// Takes over the flushes of `pool`.
    ///
    /// # Errors
    /// When an option is out of its range, or the system has no room. Then the pool is closed.
    fn flush_for(self, pool: P) -> Result<Self::Pool, Self::Error>;
}
