//! What a transaction has changed so far, in DRAM: its session keeps the room for the next one.

use super::index::Index;
use super::record::Builder;
use crate::alloc::block::Block;
use seawall_memory::Addr;

/// The buffers of a transaction; a session keeps them from one to the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffers {
    /// New values, and what the allocator changes.
    pub(crate) new: Builder,
    /// Where the words are in it.
    pub(crate) places: Index,
    /// Undo: words whose old values are logged, or that nobody else can see.
    pub(crate) saved: Index,
    pub(crate) taken: Vec<Block>,
    pub(crate) freed: Vec<Block>,
    /// What nested transactions wrote over in the record: place, value, mask of bytes.
    pub(super) over: Vec<(usize, u64, u8)>,
    /// Undo: what nested transactions wrote over in place.
    pub(super) was: Vec<(Addr, u64)>,
    pub(super) depth: u32,
    /// Something was written past the log and must be durable before the record.
    pub(crate) direct: bool,
}

impl Buffers {
    pub(crate) fn clear(&mut self) {
        self.new.clear();
        self.places.clear();
        self.saved.clear();
        self.taken.clear();
        self.freed.clear();
        self.over.clear();
        self.was.clear();
        self.depth = 0;
        self.direct = false;
    }
}
