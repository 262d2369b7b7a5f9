//! The role of each page in a cycle, in DRAM: a word for each chunk, four bits for each of its
//! pages of 4 KiB. Two bits are its part in moving, one is set while it is kept free, one while the
//! system has its bytes. A block belongs to the page that it starts in.

use crate::alloc::size_class::{CHUNK_BYTES, Class, STATE_BYTES};
use crate::heap::layout::Layout;
use seawall_memory::{Addr, Memory, MemoryExt};
use std::ops::Range;

/// Bytes of a page: the unit of emptying, and of footprints.
pub(crate) const PAGE_BYTES: u64 = 4 << 10;
/// Pages of a chunk.
pub(crate) const PAGES: u64 = CHUNK_BYTES / PAGE_BYTES;
const BITS: u64 = 4;
const MOVING: u64 = 3;
const KEPT: u64 = 4;
const HOLE: u64 = 8;
/// The word of a destination: a chunk that objects are moved to.
const DESTINATION: u64 = u64::MAX;

/// The role of a page in the cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Page {
    /// It has none.
    Usual = 0,
    /// To be emptied if no thread writes to it soon; nothing is allocated in it.
    Watched = 1,
    /// A thread wrote to it, so it stays as it is; nothing is allocated in it.
    Touched = 2,
    /// Its objects are at their destinations, or will be when they are next used.
    Moving = 3,
    /// It has no objects; nothing is allocated in it.
    Kept = 4,
}

impl Page {
    fn of(bits: u64) -> Page {
        match bits & (KEPT | MOVING) {
            0 => Page::Usual,
            1 => Page::Watched,
            2 => Page::Touched,
            3 => Page::Moving,
            _ => Page::Kept,
        }
    }
}

/// The pages of a chunk, as of when they were loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pages(u64);

impl Pages {
    #[inline]
    pub(crate) fn load<M: Memory>(memory: &M, layout: &Layout, chunk: u64) -> Pages {
        Pages(memory.load(layout.pages(chunk)))
    }

    /// Whether no page of the chunk has a role or a hole, nor the chunk itself a role.
    #[inline]
    pub(crate) fn are_usual(self) -> bool {
        self.0 == 0
    }

    /// Whether the chunk is a destination.
    #[inline]
    pub(crate) fn is_destination(self) -> bool {
        self.0 == DESTINATION
    }

    pub(crate) fn page(self, page: u64) -> Page {
        if self.is_destination() { Page::Usual } else { Page::of(self.0 >> (BITS * page)) }
    }

    /// The number of pages before this one that have an entry in the forwarding table.
    pub(crate) fn listed_before(self, page: u64) -> u64 {
        (0..page).filter(|page| !matches!(self.page(*page), Page::Usual | Page::Kept)).count()
            as u64
    }

    /// Whether neither a page of the chunk nor the chunk has a role; pages can be holes.
    pub(crate) fn are_idle(self) -> bool {
        (0..PAGES).all(|page| self.page(page) == Page::Usual) && !self.is_destination()
    }

    /// Whether the system has the bytes of the page.
    pub(crate) fn is_hole(self, page: u64) -> bool {
        !self.is_destination() && self.0 >> (BITS * page) & HOLE != 0
    }

    /// Whether the system has the bytes of all pages.
    pub(crate) fn are_holes(self) -> bool {
        (0..PAGES).all(|page| self.is_hole(page))
    }
}

/// Marks pages as holes, whose bytes the system has, or as in use again.
pub(crate) fn set_holes<M: Memory>(
    memory: &M,
    layout: &Layout,
    (chunk, pages): (u64, Range<u64>),
    are_holes: bool,
) {
    let mask = pages.fold(0, |mask, page| mask | HOLE << (BITS * page));
    update(memory, layout.pages(chunk), |word| if are_holes { word | mask } else { word & !mask });
}

/// Marks empty pages to be kept free until the system has them.
pub(crate) fn vacate<M: Memory>(memory: &M, layout: &Layout, (chunk, pages): (u64, Range<u64>)) {
    let all = |bits: u64| pages.clone().fold(0, |mask, page| mask | bits << (BITS * page));
    let (moving, vacant) = (all(MOVING), all(KEPT | HOLE));
    update(memory, layout.pages(chunk), |word| word & !moving | vacant);
}

/// Clears the roles of a chunk that is free, or about to be used as a whole.
pub(crate) fn renew<M: Memory>(memory: &M, layout: &Layout, chunk: u64) {
    memory.store(layout.pages(chunk), 0u64);
}

/// Makes the chunk a destination, or a usual chunk again.
pub(crate) fn set_destination<M: Memory>(memory: &M, layout: &Layout, chunk: u64, is_one: bool) {
    memory.store(layout.pages(chunk), if is_one { DESTINATION } else { 0 });
}

/// Changes the role of the page from `from` to `to`; if it has another role, returns that.
pub(crate) fn change<M: Memory>(
    memory: &M,
    layout: &Layout,
    (chunk, page): (u64, u64),
    (from, to): (Page, Page),
) -> Result<(), Page> {
    let at = layout.pages(chunk);
    let mut word: u64 = memory.load(at);
    loop {
        let now = Pages(word).page(page);
        if now != from {
            return Err(now);
        }
        let shift = BITS * page;
        let next = word & !((KEPT | MOVING) << shift) | (to as u64) << shift;
        match memory.compare_exchange(at, word, next) {
            Ok(_) => return Ok(()),
            Err(other) => word = other,
        }
    }
}

/// Makes the page usual again.
pub(crate) fn forget<M: Memory>(memory: &M, layout: &Layout, (chunk, page): (u64, u64)) {
    let mask = (KEPT | MOVING) << (BITS * page);
    update(memory, layout.pages(chunk), |word| word & !mask);
}

/// The page of its chunk that a block starts in.
pub(crate) fn page_of(class: Class, block: u64) -> u64 {
    (STATE_BYTES + block * class.bytes()) / PAGE_BYTES
}

/// The blocks of a chunk that start in a page.
pub(crate) fn blocks_of(class: Class, page: u64) -> Range<u64> {
    let first = |page: u64| {
        let into = (page * PAGE_BYTES).saturating_sub(STATE_BYTES);
        into.div_ceil(class.bytes()).min(class.blocks())
    };
    first(page)..first(page + 1)
}

/// The pages that the block at `at` overlaps.
pub(crate) fn pages_of(layout: &Layout, class: Class, chunk: u64, at: Addr) -> Range<u64> {
    let into = at.offset() - layout.chunk(chunk).offset();
    into / PAGE_BYTES..(into + class.bytes() - 1) / PAGE_BYTES + 1
}

/// The blocks of a chunk that overlap these of its bytes.
pub(crate) fn overlapping(class: Class, bytes: Range<u64>) -> Range<u64> {
    let block = |at: u64| at.saturating_sub(STATE_BYTES) / class.bytes();
    let end = bytes.end.saturating_sub(STATE_BYTES).div_ceil(class.bytes());
    block(bytes.start)..end.min(class.blocks())
}

/// The block of its chunk that `at` is in; `None` before the first block and behind the last one.
pub(crate) fn block_at(layout: &Layout, class: Class, chunk: u64, at: Addr) -> Option<u64> {
    let into = at.offset() - layout.chunk(chunk).offset();
    let block = class.block_of(into.checked_sub(STATE_BYTES)?);
    (block < class.blocks()).then_some(block)
}

/// The address of a block.
pub(crate) fn start_of(layout: &Layout, class: Class, chunk: u64, block: u64) -> Addr {
    layout.chunk(chunk).plus(STATE_BYTES + block * class.bytes())
}

/// Updates a word that several threads update.
fn update<M: Memory>(memory: &M, at: Addr, to: impl Fn(u64) -> u64) {
    let mut word: u64 = memory.load(at);
    while let Err(now) = memory.compare_exchange(at, word, to(word)) {
        word = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_starts_in_one_page_of_at_most_128() {
        for class in (0..Class::COUNT as u64).filter_map(Class::new) {
            let mut next = 0;
            for page in 0..PAGES {
                let blocks = blocks_of(class, page);
                assert_eq!(blocks.start, next, "{class:?}");
                assert!(blocks.end - blocks.start <= 128, "{class:?}");
                assert!(blocks.clone().all(|block| page_of(class, block) == page));
                next = blocks.end;
            }
            assert_eq!(next, class.blocks(), "{class:?}");
        }
    }
}
