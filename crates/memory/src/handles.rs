//! Where threads get their handles from: what the layers above need of a mapped pool, as
//! [`Memory`](crate::Memory) is what they need of a handle.
//!
//! A program that runs on the handles it is given needs none of this. A runtime with threads of its
//! own does: flushers take handles, and words in DRAM that the program has not laid out.

use crate::{Addr, Memory};
use std::io;

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
