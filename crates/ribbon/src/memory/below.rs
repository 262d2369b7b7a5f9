//! Stores that the machine below makes by operations that the seam does not have, as those of
//! compiled code: the Ribbon is told of each, before and after.

use super::RibbonMemory;
use seawall_memory::{Addr, Memory};
use std::ops::Deref;

/// A store that the machine below is about to make.
#[derive(Debug)]
#[must_use = "the Ribbon must learn that the store has been made"]
pub struct StoreBelow {
    at: Addr,
    len: u64,
    is_own: Option<bool>,
}

impl<H: Deref<Target: Memory>> RibbonMemory<'_, H> {
    /// Before a store to these bytes.
    pub fn before_store_below(&self, at: Addr, len: u64) -> StoreBelow {
        StoreBelow { at, len, is_own: self.before_store(at, len) }
    }

    /// Before a locked operation on these bytes, which waits for the thread's flushes as a fence
    /// does. [`after_store_below`](Self::after_store_below) follows, whether it stores or not.
    pub fn before_locked_below(&self, at: Addr, len: u64) -> StoreBelow {
        self.settle();
        self.before_store_below(at, len)
    }

    /// The store has been made.
    pub fn after_store_below(&self, StoreBelow { at, len, is_own }: StoreBelow) {
        self.after_store(at, len, is_own);
    }

    /// Before something else that orders flushes as a locked operation does: returns when all that
    /// the thread has asked for are flushed.
    pub fn before_locked(&self) {
        self.settle();
    }

    /// Shows what the thread has counted so far to [`Ribbon::counts`](crate::Ribbon::counts), which
    /// else sees it at some of the fences only.
    pub fn show_counts(&self) {
        self.publish_counts();
    }
}
