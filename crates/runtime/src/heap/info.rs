//! What is known of a heap before it is opened: its header, and no way to work on what it holds.

use super::{Heap, HeapError};
use seawall_memory::{Addr, Memory};

/// What the header of a heap says: for what has to be known before it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapInfo {
    pub(crate) heap: Heap,
}

impl Heap {
    /// What the header of a heap says, without recovering it.
    ///
    /// # Errors
    /// As [`open`](Heap::open).
    pub fn read<M: Memory>(memory: &M, name: &str, bytes: u64) -> Result<HeapInfo, HeapError> {
        Ok(HeapInfo { heap: Heap::described(memory, name, bytes)? })
    }
}

impl HeapInfo {
    /// As [`Heap::root`].
    pub const fn root(&self) -> Addr {
        self.heap.root()
    }

    /// As [`Heap::root_bytes`].
    pub const fn root_bytes(&self) -> u64 {
        self.heap.root_bytes()
    }

    /// As [`Heap::root_shape`].
    pub const fn root_shape(&self) -> u64 {
        self.heap.root_shape()
    }

    /// As [`Heap::reached_shape`].
    pub const fn reached_shape(&self) -> u64 {
        self.heap.reached_shape()
    }

    /// As [`Heap::uuid`].
    pub const fn uuid(&self) -> u128 {
        self.heap.uuid()
    }

    /// As [`Heap::threads`].
    pub const fn threads(&self) -> u64 {
        self.heap.threads()
    }

    /// As [`Heap::log_bytes`].
    pub const fn log_bytes(&self) -> u64 {
        self.heap.log_bytes()
    }

    /// As [`Heap::dram_bytes`].
    pub const fn dram_bytes(&self) -> u64 {
        self.heap.dram_bytes()
    }

    /// As [`Heap::pm_bytes_max`].
    pub fn pm_bytes_max(&self) -> u64 {
        self.heap.pm_bytes_max()
    }

    /// As [`Heap::moves`].
    pub fn moves(&self) -> bool {
        self.heap.moves()
    }
}
