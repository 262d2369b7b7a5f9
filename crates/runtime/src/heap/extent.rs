//! Where the objects of a heap can be, for structures that follow addresses which they have read.
//!
//! A damaged pool has addresses that lead out of it, and a machine panics on those. A structure
//! asks before it reads: against the end of the chunks as its session knew it, without a load; only
//! for what is behind that end, the number of chunks is read again, as the heap may have grown.

use super::Heap;
use seawall_memory::{Addr, Memory};

/// The chunks of a heap: a few numbers, the same for all threads.
#[derive(Clone, Copy, Debug, Eq)]
pub struct HeapExtent {
    low: u64,
    /// An end that the chunks have reached.
    known: u64,
    /// The word with the number of chunks.
    chunks: Addr,
    chunks_max: u64,
}

/// Of the same heap: what was known of its end makes no difference.
impl PartialEq for HeapExtent {
    fn eq(&self, other: &HeapExtent) -> bool {
        (self.low, self.chunks, self.chunks_max) == (other.low, other.chunks, other.chunks_max)
    }
}

impl HeapExtent {
    pub(crate) fn new(heap: &Heap, known: u64) -> HeapExtent {
        let (layout, chunks_max) = (&heap.layout, heap.layout.numbers.chunks_max);
        HeapExtent { low: layout.data.bits(), known, chunks: layout.chunks, chunks_max }
    }

    /// Whether the chunks have these bytes. What they had once they always have.
    #[inline]
    pub fn holds<M: Memory>(&self, memory: &M, at: Addr, bytes: u64) -> bool {
        let end = at.bits().saturating_add(bytes);
        at.bits() >= self.low && (end <= self.known || self.reaches(memory, end))
    }

    #[cold]
    #[inline(never)]
    fn reaches<M: Memory>(&self, memory: &M, end: u64) -> bool {
        let chunks = super::checked_word::load(memory, self.chunks).unwrap_or(0);
        end <= self.low + chunks.min(self.chunks_max) * crate::CHUNK_BYTES
    }
}
