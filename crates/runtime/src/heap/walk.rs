//! Looking at a heap as a whole: every live object, how much space is used, whether all adds up.

use super::Heap;
use super::blocks::{Block, Kind, state_at};
use super::chunks::{self, Chunk};
use super::class::{CHUNK_BYTES, Class, STATE_BYTES};
use crate::HeapError;
use seawall_memory::{Addr, Memory};

/// A live object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Object {
    /// Where it starts.
    pub at: Addr,
    /// Bytes that it takes: what was asked for, rounded up to its size class or to chunks.
    pub bytes: u64,
    /// The number of its type; none for objects that were allocated as bytes.
    pub type_number: Option<u8>,
}

/// How much of a heap is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct HeapStats {
    /// Bytes of all chunks.
    pub bytes: u64,
    /// Bytes of the chunks that hold objects or parts of them.
    pub footprint: u64,
    /// Live objects.
    pub objects: u64,
    /// Bytes of their blocks.
    pub live: u64,
    /// Bytes of the 4 KiB pages that hold a part of a live object.
    pub pages: u64,
}

impl HeapStats {
    /// Bytes of pages in use for each live byte; 1 is the best. 1 for an empty heap.
    pub fn fragmentation(&self) -> f64 {
        if self.live == 0 { 1.0 } else { self.pages as f64 / self.live as f64 }
    }
}

impl Heap {
    /// Shows every live object to `each`, in the order of their addresses. No transaction may be in
    /// progress.
    ///
    /// # Errors
    /// When the table of chunks, or a state, is damaged.
    pub fn objects<M: Memory>(
        &self,
        memory: &M,
        mut each: impl FnMut(Object),
    ) -> Result<(), HeapError> {
        self.walk(memory, |block, tag| {
            let type_number = (tag != chunks::UNTYPED).then_some(tag);
            each(Object { at: block.at, bytes: block.bytes(), type_number });
        })
        .map(|_| ())
    }

    /// How much of the heap is used. No transaction may be in progress.
    ///
    /// # Errors
    /// As [`objects`](Heap::objects).
    pub fn stats<M: Memory>(&self, memory: &M) -> Result<HeapStats, HeapError> {
        const PAGE: u64 = 4096;
        let mut stats = HeapStats::default();
        let mut page_end = 0;
        stats.footprint = self.walk(memory, |block, _| {
            stats.objects += 1;
            stats.live += block.bytes();
            let first = (block.at.offset() / PAGE * PAGE).max(page_end);
            page_end = block.end().offset().next_multiple_of(PAGE);
            stats.pages += page_end - first;
        })?;
        stats.bytes = self.chunks(memory)? * CHUNK_BYTES;
        Ok(stats)
    }

    /// Walks all chunks; gives the bytes of those that hold something.
    fn walk<M: Memory>(
        &self,
        memory: &M,
        mut each: impl FnMut(Block, u8),
    ) -> Result<u64, HeapError> {
        let (count, mut chunk, mut used) = (self.chunks(memory)?, 0, 0);
        while chunk < count {
            let entry = chunks::load_within(memory, &self.layout, chunk, count)?;
            let at = self.layout.chunk(chunk);
            match entry {
                Chunk::Clean | Chunk::Run(_) => {}
                Chunk::Small(class) => {
                    used += CHUNK_BYTES;
                    self.walk_blocks(memory, chunk, class, &mut each)?;
                }
                Chunk::Large(length, tag) => {
                    used += length * CHUNK_BYTES;
                    each(Block { at, chunk, kind: Kind::Large(length) }, tag);
                }
            }
            chunk += entry.length();
        }
        Ok(used)
    }

    fn walk_blocks<M: Memory>(
        &self,
        memory: &M,
        chunk: u64,
        class: Class,
        each: &mut impl FnMut(Block, u8),
    ) -> Result<(), HeapError> {
        let start = self.layout.chunk(chunk);
        let mut states = vec![0; class.blocks() as usize];
        memory.read(start, &mut states);
        for (block, state) in (0..).zip(states) {
            let at = start.plus(STATE_BYTES + block * class.bytes());
            if !chunks::is_state(state) {
                return Err(chunks::no_state(at, state));
            }
            if let Some(tag) = chunks::tag(state) {
                debug_assert_eq!(state_at(start, class, at), start.plus(block));
                each(Block { at, chunk, kind: Kind::Small(class) }, tag);
            }
        }
        Ok(())
    }
}
