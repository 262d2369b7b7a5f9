//! What a structure reads through: memory, where all that others see is durable, or a transaction,
//! which sees its own stores as well.

use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_runtime::{HeapExtent, Tx};

pub(crate) trait Reads {
    /// The aligned word at `at`.
    fn word(&self, at: Addr) -> u64;

    /// The words of the line that starts at `at`.
    fn line(&self, at: Addr) -> [u64; 8];

    /// Whether these bytes are in the extent, so that they can be read.
    fn has(&self, extent: &HeapExtent, at: Addr, bytes: u64) -> bool;
}

impl<M: Memory> Reads for M {
    #[inline]
    #[track_caller]
    fn word(&self, at: Addr) -> u64 {
        self.load(at)
    }

    #[inline]
    #[track_caller]
    fn line(&self, at: Addr) -> [u64; 8] {
        self.load_line(at)
    }

    #[inline]
    fn has(&self, extent: &HeapExtent, at: Addr, bytes: u64) -> bool {
        extent.holds(self, at, bytes)
    }
}

/// Memory as a transaction sees it.
pub(crate) struct Within<'a, 's, 'm, M: Memory>(pub(crate) &'a Tx<'s, 'm, M>);

impl<M: Memory> Reads for Within<'_, '_, '_, M> {
    #[inline]
    #[track_caller]
    fn word(&self, at: Addr) -> u64 {
        self.0.load(at)
    }

    #[inline]
    #[track_caller]
    fn line(&self, at: Addr) -> [u64; 8] {
        self.0.load_line(at)
    }

    #[inline]
    fn has(&self, extent: &HeapExtent, at: Addr, bytes: u64) -> bool {
        extent.holds(self.0.memory(), at, bytes)
    }
}
