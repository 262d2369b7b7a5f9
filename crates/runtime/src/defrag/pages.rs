//! What each page of the heap is to a cycle, in DRAM: a word for each chunk, four bits for each of
//! its pages of 4 KiB: two for its part in moving, one if it is kept free, one if its bytes have
//! been given back to the system since it was last used. A block belongs to the page that it starts
//! in.

use crate::alloc::size_class::{CHUNK_BYTES, Class, STATE_BYTES};
use crate::heap::layout::Layout;
use seawall_memory::{Addr, Memory, MemoryExt};
use std::ops::Range;

/// Bytes of a page: the unit that is emptied, and in which a footprint is counted.
pub(crate) const PAGE_BYTES: u64 = 4 << 10;
/// Pages of a chunk.
pub(crate) const PAGES: u64 = CHUNK_BYTES / PAGE_BYTES;
const BITS: u64 = 4;
const MOVING: u64 = 3;
const KEPT: u64 = 4;
const HOLE: u64 = 8;
/// The word of a chunk that objects are moved to.
const DESTINATION: u64 = u64::MAX;

/// What a page is to the cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Page {
    /// Nothing.
    Usual = 0,
    /// To be emptied if nobody writes to it soon; nothing is allocated in it.
    Watched = 1,
    /// Somebody wrote to it, so it stays as it is; nothing is allocated in it.
    Touched = 2,
    /// Its objects live at their destinations, or do when they are next used.
    Moving = 3,
    /// It has none; nothing is allocated in it.
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

/// The pages of a chunk, as they were when they were loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pages(u64);

impl Pages {
    #[inline]
    pub(crate) fn load<M: Memory>(memory: &M, layout: &Layout, chunk: u64) -> Pages {
        Pages(memory.load(layout.pages(chunk)))
    }

    /// True if no page of the chunk has a part in the cycle, nor the chunk itself.
    #[inline]
    pub(crate) fn are_usual(self) -> bool {
        self.0 == 0
    }

    /// True if objects are moved to the chunk.
    #[inline]
    pub(crate) fn is_destination(self) -> bool {
        self.0 == DESTINATION
    }

    pub(crate) fn page(self, page: u64) -> Page {
        if self.is_destination() { Page::Usual } else { Page::of(self.0 >> (BITS * page)) }
    }

    /// How many pages before this one are in the table of the cycle.
    pub(crate) fn listed_before(self, page: u64) -> u64 {
        (0..page).filter(|page| !matches!(self.page(*page), Page::Usual | Page::Kept)).count()
            as u64
    }

    /// True if no page of the chunk has a part in the cycle.
    pub(crate) fn are_idle(self) -> bool {
        (0..PAGES).all(|page| self.page(page) == Page::Usual) && !self.is_destination()
    }

    /// True if the bytes of the page are the system's.
    pub(crate) fn is_hole(self, page: u64) -> bool {
        !self.is_destination() && self.0 >> (BITS * page) & HOLE != 0
    }

    /// True if the bytes of all pages are.
    pub(crate) fn are_holes(self) -> bool {
        (0..PAGES).all(|page| self.is_hole(page))
    }
}

/// The bytes of so many pages are the system's now, or (no more) in use again.
pub(crate) fn set_holes<M: Memory>(
    memory: &M,
    layout: &Layout,
    (chunk, pages): (u64, Range<u64>),
    are_holes: bool,
) {
    let mask = pages.fold(0, |mask, page| mask | HOLE << (BITS * page));
    update(memory, layout.pages(chunk), |word| if are_holes { word | mask } else { word & !mask });
}

/// Nothing is in these pages: they are kept free until the system has them.
pub(crate) fn vacate<M: Memory>(memory: &M, layout: &Layout, (chunk, pages): (u64, Range<u64>)) {
    let all = |bits: u64| pages.clone().fold(0, |mask, page| mask | bits << (BITS * page));
    let (moving, vacant) = (all(MOVING), all(KEPT | HOLE));
    update(memory, layout.pages(chunk), |word| word & !moving | vacant);
}

/// The chunk is a free one, or is about to be used as a whole.
pub(crate) fn renew<M: Memory>(memory: &M, layout: &Layout, chunk: u64) {
    memory.store(layout.pages(chunk), 0u64);
}

/// Makes the chunk one that objects are moved to, or (no more) a usual one.
pub(crate) fn set_destination<M: Memory>(memory: &M, layout: &Layout, chunk: u64, is_one: bool) {
    memory.store(layout.pages(chunk), if is_one { DESTINATION } else { 0 });
}

/// Makes the page `to`, if it is `from` now; else gives what it is.
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

/// Makes the page usual again, whatever it is.
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

/// The pages that the block at `at` has a part in.
pub(crate) fn pages_of(layout: &Layout, class: Class, chunk: u64, at: Addr) -> Range<u64> {
    let into = at.offset() - layout.chunk(chunk).offset();
    into / PAGE_BYTES..(into + class.bytes() - 1) / PAGE_BYTES + 1
}

/// The blocks of a chunk that have a part in these of its bytes.
pub(crate) fn overlapping(class: Class, bytes: Range<u64>) -> Range<u64> {
    let block = |at: u64| at.saturating_sub(STATE_BYTES) / class.bytes();
    let end = bytes.end.saturating_sub(STATE_BYTES).div_ceil(class.bytes());
    block(bytes.start)..end.min(class.blocks())
}

/// The block of its chunk that `at` is in; none in front of the blocks, or behind the last one.
pub(crate) fn block_at(layout: &Layout, class: Class, chunk: u64, at: Addr) -> Option<u64> {
    let into = at.offset() - layout.chunk(chunk).offset();
    let block = class.block_of(into.checked_sub(STATE_BYTES)?);
    (block < class.blocks()).then_some(block)
}

/// Where a block starts.
pub(crate) fn start_of(layout: &Layout, class: Class, chunk: u64, block: u64) -> Addr {
    layout.chunk(chunk).plus(STATE_BYTES + block * class.bytes())
}

/// Changes a word that several threads change.
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
