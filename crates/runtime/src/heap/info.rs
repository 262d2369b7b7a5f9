//! The header of a heap, read before the heap is opened; its objects cannot be reached this way.

use super::{Heap, HeapError};
use seawall_memory::{Addr, Memory};

/// The header of a heap: what a program needs to know before it opens the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapInfo {
    pub(crate) heap: Heap,
}

impl Heap {
    /// Reads the header of a heap without recovering the heap.
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

    /// Of the `used` first bytes of the pool, how many from its start must have their space when
    /// it is opened. The heap asks for the others when it uses them
    /// ([`Space::bring_back`](seawall_memory::Space::bring_back)), if objects can move.
    pub fn bytes_backed(&self, used: u64) -> u64 {
        if self.moves() { self.heap.layout.data.offset().min(used) } else { used }
    }

    /// As [`Heap::stores_in_place`].
    pub fn stores_in_place(&self) -> bool {
        self.heap.stores_in_place()
    }

    /// As [`Heap::moves`].
    pub fn moves(&self) -> bool {
        self.heap.moves()
    }
}
