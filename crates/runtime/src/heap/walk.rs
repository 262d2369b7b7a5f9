//! Walks over a whole heap: every live object, and statistics of space.

use super::Heap;
use crate::AccessError;
use crate::alloc::block::{Block, Kind, state_at};
use crate::alloc::chunk::{self, Chunk};
use crate::alloc::map::{GRANULE_BYTES, GRANULES, SHELF_STATE_BYTES};
use crate::alloc::shelf::MORE;
use crate::alloc::size_class::{CHUNK_BYTES, Class, STATE_BYTES};
use crate::defrag::{read_barrier, relocate};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt, lines_of};
use std::ops::Range;

/// A live object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Object {
    /// Its address.
    pub at: Addr,
    /// The bytes that it takes: the requested bytes, rounded up to its size class or to chunks.
    pub bytes: u64,
    /// The number of its type; `None` for objects that were allocated as bytes.
    pub type_number: Option<u8>,
}

impl Object {
    fn of(block: Block, tag: u8) -> Object {
        let type_number = (tag != chunk::UNTYPED).then_some(tag);
        Object { at: block.at, bytes: block.bytes(), type_number }
    }
}

/// Statistics of a heap's space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct HeapStats {
    /// Bytes of all chunks.
    pub bytes: u64,
    /// Bytes of chunks that hold objects or parts of objects.
    pub footprint: u64,
    /// Live objects.
    pub objects: u64,
    /// Bytes of their blocks.
    pub live: u64,
    /// Bytes of 4 KiB pages that hold a part of a live object.
    pub pages: u64,
    /// Objects whose blocks touch more cache lines than their length requires.
    pub straddling: u64,
}

impl HeapStats {
    /// Bytes of pages in use per live byte: at least 1, and 1 for an empty heap.
    pub fn fragmentation(&self) -> f64 {
        if self.live == 0 { 1.0 } else { self.pages as f64 / self.live as f64 }
    }
}

impl Heap {
    /// Calls `each` for every live object, by rising address. No transaction, and no step of a
    /// [`Defragmenter`](crate::defrag::Defragmenter), may be in progress.
    ///
    /// # Errors
    /// When the table of chunks, or a state, is damaged.
    pub fn objects<M: Memory>(
        &self,
        memory: &M,
        mut each: impl FnMut(Object),
    ) -> Result<(), AccessError> {
        self.walk(memory, |block, tag| each(Object::of(block, tag))).map(|_| ())
    }

    /// Where that is now to which a pointer leads: elsewhere, for one that a cycle has not fixed up
    /// yet. No transaction, and no step of a cycle, may be in progress.
    pub fn place_of<M: Memory>(&self, memory: &M, at: Addr) -> Addr {
        if self.layout.numbers.moves { read_barrier::place_of(memory, self, at) } else { at }
    }

    /// The first live object behind the one that starts at `at`, or the first of all: by rising
    /// address, so that a program can go from one to the next while others come and go.
    ///
    /// # Errors
    /// As [`objects`](Heap::objects).
    pub fn object_after<M: Memory>(
        &self,
        memory: &M,
        at: Option<Addr>,
    ) -> Result<Option<Object>, AccessError> {
        let count = self.chunks(memory)?;
        let mut chunk = at.map_or(0, |at| self.layout.chunk_of(at).unwrap_or(count));
        while let Some(used) = self.not_clean(memory, chunk..count) {
            let entry_at = self.layout.chunk_entry(used);
            let bits: u64 = memory.load(entry_at);
            let entry = Chunk::decode(entry_at, bits)?;
            chunk::check_end(used, entry, count)?;
            let next = match entry {
                Chunk::Small(class) => self.block_after(memory, at, used, class),
                _ => self.other_after(memory, at, used, entry),
            };
            if memory.load::<u64>(entry_at) != bits {
                chunk = used; // It has become something else: what was read can be anything.
                continue;
            }
            if let Some(next) = next? {
                return Ok(Some(next));
            }
            chunk = used + entry.length();
        }
        Ok(None)
    }

    /// The first object behind the one at `at` of a chunk of that entry, which has no blocks.
    fn other_after<M: Memory>(
        &self,
        memory: &M,
        at: Option<Addr>,
        chunk: u64,
        entry: Chunk,
    ) -> Result<Option<Object>, AccessError> {
        let mut next = None;
        self.walk_entry(memory, chunk, entry, &mut |block, tag| {
            if next.is_none() && at.is_none_or(|at| block.at > at) {
                next = Some(Object::of(block, tag));
            }
        })?;
        Ok(next)
    }

    /// The first of the chunks whose entry is not zero, which is that of a clean chunk: behind the
    /// last object, a heap can have thousands of them.
    fn not_clean<M: Memory>(&self, memory: &M, mut chunks: Range<u64>) -> Option<u64> {
        chunks.find(|chunk| memory.load::<u64>(self.layout.chunk_entry(*chunk)) != 0)
    }

    /// The first object of a chunk of blocks behind the one at `at`.
    fn block_after<M: Memory>(
        &self,
        memory: &M,
        at: Option<Addr>,
        chunk: u64,
        class: Class,
    ) -> Result<Option<Object>, AccessError> {
        let start = self.layout.chunk(chunk);
        let first = start.plus(STATE_BYTES);
        let mut number = match at {
            Some(at) if at >= first => class.block_of(at.offset() - first.offset()) + 1,
            _ => 0,
        };
        while number < class.blocks() {
            let word: u64 = memory.load(start.plus(number & !7));
            let rest = word >> (8 * (number % 8));
            if rest == 0 {
                number = (number & !7) + 8;
                continue;
            }
            number += u64::from(rest.trailing_zeros() / 8);
            let state = (word >> (8 * (number % 8))) as u8;
            let at = first.plus(number * class.bytes());
            if !chunk::is_state(state) {
                return Err(chunk::no_state(at, state));
            }
            if let Some(tag) = chunk::tag(state).filter(|_| number < class.blocks()) {
                let block = Block { at, chunk, kind: Kind::Small(class) };
                return Ok(Some(Object::of(block, tag)));
            }
            number += 1;
        }
        Ok(None)
    }

    /// Measures how much of the heap is used. No transaction may be in progress.
    ///
    /// # Errors
    /// As [`objects`](Heap::objects).
    pub fn stats<M: Memory>(&self, memory: &M) -> Result<HeapStats, AccessError> {
        self.stats_on_pages(memory, 4096)
    }

    /// The same, with [`pages`](HeapStats::pages) of that many bytes.
    ///
    /// # Errors
    /// As [`objects`](Heap::objects).
    pub fn stats_on_pages<M: Memory>(
        &self,
        memory: &M,
        page: u64,
    ) -> Result<HeapStats, AccessError> {
        let mut stats = HeapStats::default();
        let mut page_end = 0;
        stats.footprint = self.walk(memory, |block, _| {
            stats.objects += 1;
            stats.live += block.bytes();
            let lines = lines_of(block.at, block.bytes()).count() as u64;
            stats.straddling += u64::from(lines > block.bytes().div_ceil(LINE_BYTES));
            let first = (block.at.offset() / page * page).max(page_end);
            page_end = block.end().offset().next_multiple_of(page);
            stats.pages += page_end - first;
        })?;
        stats.bytes = self.chunks(memory)? * CHUNK_BYTES;
        Ok(stats)
    }

    /// Walks all chunks; returns the bytes of those that hold something.
    fn walk<M: Memory>(
        &self,
        memory: &M,
        mut each: impl FnMut(Block, u8),
    ) -> Result<u64, AccessError> {
        let (count, mut chunk, mut used) = (self.chunks(memory)?, 0, 0);
        while chunk < count {
            let entry = self.walk_chunk(memory, chunk, &mut |block, tag| {
                if !self.layout.numbers.moves || relocate::is_shown(memory, self, block.at) {
                    each(block, tag);
                }
            })?;
            used += if entry.is_free() { 0 } else { entry.length() * CHUNK_BYTES };
            chunk += entry.length();
        }
        Ok(used)
    }

    /// Calls `each` for the objects of a chunk; returns the chunk's entry.
    pub(crate) fn walk_chunk<M: Memory>(
        &self,
        memory: &M,
        chunk: u64,
        each: &mut impl FnMut(Block, u8),
    ) -> Result<Chunk, AccessError> {
        let entry = chunk::load_within(memory, &self.layout, chunk, self.chunks(memory)?)?;
        self.walk_entry(memory, chunk, entry, each)?;
        Ok(entry)
    }

    /// Calls `each` for the objects of a chunk of that entry.
    fn walk_entry<M: Memory>(
        &self,
        memory: &M,
        chunk: u64,
        entry: Chunk,
        each: &mut impl FnMut(Block, u8),
    ) -> Result<(), AccessError> {
        let at = self.layout.chunk(chunk);
        match entry {
            Chunk::Clean | Chunk::Run(_) => {}
            Chunk::Small(class) => self.walk_blocks(memory, chunk, class, each)?,
            Chunk::Large(length, tag) => {
                each(Block { at, chunk, kind: Kind::Large(length) }, tag);
            }
            Chunk::Shelf => self.walk_shelf(memory, chunk, each)?,
        }
        Ok(())
    }

    fn walk_blocks<M: Memory>(
        &self,
        memory: &M,
        chunk: u64,
        class: Class,
        each: &mut impl FnMut(Block, u8),
    ) -> Result<(), AccessError> {
        let start = self.layout.chunk(chunk);
        let mut states = vec![0; class.blocks() as usize];
        memory.read(start, &mut states);
        for (block, state) in (0..).zip(states) {
            let at = start.plus(STATE_BYTES + block * class.bytes());
            if !chunk::is_state(state) {
                return Err(chunk::no_state(at, state));
            }
            if let Some(tag) = chunk::tag(state) {
                debug_assert_eq!(state_at(start, class, at), start.plus(block));
                each(Block { at, chunk, kind: Kind::Small(class) }, tag);
            }
        }
        Ok(())
    }

    fn walk_shelf<M: Memory>(
        &self,
        memory: &M,
        chunk: u64,
        each: &mut impl FnMut(Block, u8),
    ) -> Result<(), AccessError> {
        let start = self.layout.chunk(chunk);
        let mut states = [0; GRANULES as usize];
        memory.read(start, &mut states);
        let mut open: Option<(Block, u8)> = None;
        for (granule, state) in (0..).zip(states) {
            let at = start.plus(SHELF_STATE_BYTES + GRANULE_BYTES * granule);
            let tag = chunk::tag(state).filter(|_| chunk::is_state(state));
            if tag.is_none() && state != 0 {
                return Err(chunk::no_state(at, state));
            }
            match (&mut open, tag) {
                (Some((Block { kind: Kind::Shelf(count), .. }, _)), Some(MORE)) => *count += 1,
                (None, Some(MORE)) => return Err(chunk::no_state(at, state)),
                (_, tag) => {
                    let next = tag.map(|tag| (Block { at, chunk, kind: Kind::Shelf(1) }, tag));
                    if let Some((block, tag)) = std::mem::replace(&mut open, next) {
                        each(block, tag);
                    }
                }
            }
        }
        if let Some((block, tag)) = open {
            each(block, tag);
        }
        Ok(())
    }
}
