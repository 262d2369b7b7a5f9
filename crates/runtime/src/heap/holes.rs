//! Bytes of a pool that its file has no space for when the heap is opened, and that a full disk
//! would refuse.
//!
//! A cycle of defragmentation returns free pages to the system, and a copy of a file may leave out
//! what is zero. What a heap with objects that move has free stays a hole, and the role of its page
//! ([`Pages`]) says so: whoever allocates there brings it back first, or is told that there is no
//! room. What is in use gets its space when the heap is opened. A crash leaves no such hole, so
//! that to open a pool after one takes nothing of the disk.
//!
//! Nothing is certain before recovery has run, and even a load can need space (in a file system in
//! memory). So recovery works by a memory that brings back what it touches.

use super::{Heap, HeapError};
use crate::AccessError;
use crate::alloc::chunk::{self, Chunk};
use crate::alloc::size_class::{CHUNK_BYTES, Class};
use crate::defrag::pages::{self, PAGE_BYTES, PAGES, Pages};
use seawall_memory::{Addr, Memory, MemoryExt, Width, layer};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// The memory of a recovery, with the pages of it that are holes.
pub(crate) struct Holed<'m, M> {
    memory: &'m M,
    /// By their numbers, from the start of the pool.
    holes: RefCell<BTreeSet<u64>>,
    /// Bytes that there was no room for.
    missing: Cell<u64>,
}

impl<'m, M: Memory> Holed<'m, M> {
    /// The memory of a heap, if it can have holes.
    pub(crate) fn of(memory: &'m M, heap: &Heap) -> Result<Holed<'m, M>, AccessError> {
        let mut holes = BTreeSet::new();
        let end = match heap.layout.numbers.moves {
            true => heap.layout.chunk(heap.chunks(memory)?).offset(),
            false => 0,
        };
        let mut at = heap.layout.data.offset();
        while let Some((hole, bytes)) = memory.hole(Addr::pm(at), end.saturating_sub(at)) {
            holes.extend(page_of(hole)..(hole.offset() + bytes).div_ceil(PAGE_BYTES));
            at = hole.offset() + bytes;
        }
        Ok(Holed { memory, holes: RefCell::new(holes), missing: Cell::new(0) })
    }

    /// Gives these bytes their space; false, which is noted, if there is no room.
    fn back(&self, at: Addr, bytes: u64) -> bool {
        if !at.is_pm() || bytes == 0 || self.holes.borrow().is_empty() {
            return true;
        }
        let pages = page_of(at)..=page_of(at.plus(bytes - 1));
        let found: Vec<u64> = self.holes.borrow().range(pages).copied().collect();
        found.chunk_by(|page, next| page + 1 == *next).all(|run| {
            let bytes = run.len() as u64 * PAGE_BYTES;
            let has_room = self.memory.bring_back(Addr::pm(run[0] * PAGE_BYTES), bytes);
            match has_room {
                true => self.holes.borrow_mut().retain(|page| !run.contains(page)),
                false => self.missing.set(self.missing.get() + bytes),
            }
            has_room
        })
    }

    /// Refuses to go on when there was no room for something that recovery touches.
    pub(crate) fn check_room(&self) -> Result<(), HeapError> {
        match self.missing.get() {
            0 => Ok(()),
            bytes => Err(HeapError::NoRoom { bytes }),
        }
    }

    /// Leaves the holes that are free to those who will allocate there, and fills the others.
    pub(crate) fn settle(self, heap: &Heap) -> Result<(), HeapError> {
        let (layout, count) = (&heap.layout, heap.chunks(self.memory)?);
        let mut chunk = 0;
        while chunk < count && !self.holes.borrow().is_empty() {
            let entry = chunk::load_within(self.memory, layout, chunk, count)?;
            let all = layout.chunk(chunk);
            match entry {
                Chunk::Clean | Chunk::Run(_) => {
                    (chunk..chunk + entry.length()).for_each(|chunk| self.leave(heap, chunk));
                }
                // In a cycle, pages have roles of other kinds.
                Chunk::Small(class) if Pages::load(self.memory, layout, chunk).are_usual() => {
                    self.fill_used(heap, chunk, class);
                    self.leave(heap, chunk);
                }
                _ => drop(self.back(all, entry.length() * CHUNK_BYTES)),
            }
            chunk += entry.length();
        }
        self.check_room()
    }

    /// Marks the holes of a chunk.
    fn leave(&self, heap: &Heap, chunk: u64) {
        let first = page_of(heap.layout.chunk(chunk));
        for page in self.holes.borrow().range(first..first + PAGES) {
            let page = page - first;
            pages::set_holes(self.memory, &heap.layout, (chunk, page..page + 1), true);
        }
    }

    /// Fills the holes of a chunk of blocks that have states or a part of an object.
    fn fill_used(&self, heap: &Heap, chunk: u64, class: Class) {
        let start = heap.layout.chunk(chunk);
        let first = page_of(start);
        let has_holes = self.holes.borrow().range(first..first + PAGES).next().is_some();
        if !has_holes || !self.back(start, class.blocks()) {
            return;
        }
        let mut states = vec![0; class.blocks() as usize];
        self.memory.read(start, &mut states);
        for page in 0..PAGES {
            let mut blocks = pages::overlapping(class, page * PAGE_BYTES..(page + 1) * PAGE_BYTES);
            if blocks.any(|block| states[block as usize] != 0) {
                self.back(start.plus(page * PAGE_BYTES), PAGE_BYTES);
            }
        }
    }
}

fn page_of(at: Addr) -> u64 {
    at.offset() / PAGE_BYTES
}

impl<M: Memory> layer::Layer for Holed<'_, M> {
    type Below = M;

    fn below(&self) -> &M {
        self.memory
    }

    #[track_caller]
    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        if self.back(at, width.bytes()) { self.memory.load_bits(at, width) } else { 0 }
    }

    #[track_caller]
    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        if self.back(at, width.bytes()) {
            self.memory.store_bits(at, width, value);
        }
    }

    #[track_caller]
    fn flush(&self, at: Addr, len: u64) {
        if self.back(at, len) {
            self.memory.flush(at, len);
        }
    }

    #[track_caller]
    fn read(&self, at: Addr, into: &mut [u8]) {
        if self.back(at, into.len() as u64) {
            self.memory.read(at, into);
        }
    }

    #[track_caller]
    fn load_line(&self, at: Addr) -> [u64; 8] {
        if self.back(at, 64) { self.memory.load_line(at) } else { [0; 8] }
    }

    #[track_caller]
    fn write(&self, at: Addr, from: &[u8]) {
        if self.back(at, from.len() as u64) {
            self.memory.write(at, from);
        }
    }

    #[track_caller]
    fn write_nt(&self, at: Addr, from: &[u8]) {
        if self.back(at, from.len() as u64) {
            self.memory.write_nt(at, from);
        }
    }
}
