//! The buffers of a transaction, in DRAM: what it has changed so far.

use super::index::Index;
use super::record::Builder;
use crate::alloc::block::Block;
use seawall_memory::Addr;

/// The buffers of a transaction; a session reuses them for its next one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffers {
    /// The record: new values, and the changes of the allocator.
    pub(crate) new: Builder,
    /// Where the words are in the record.
    pub(crate) places: Index,
    /// Undo: words whose old values are logged, or that no other thread can see.
    pub(crate) saved: Index,
    pub(crate) taken: Vec<Block>,
    pub(crate) freed: Vec<Block>,
    /// What nested transactions overwrote in the record: place, value, mask of bytes.
    pub(super) over: Vec<(usize, u64, u8)>,
    /// Undo: what nested transactions overwrote in place.
    pub(super) was: Vec<(Addr, u64)>,
    pub(super) depth: u32,
    /// Whether something was written past the log, which must be durable before the record.
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
