//! Choosing the pages to empty: a survey of the states of all blocks, and the emptiest chunks in
//! it. A chunk that is emptied completely returns the page with its states, too.

use super::known::Known;
use super::pages::{PAGE_BYTES, PAGES, Pages};
use crate::AccessError;
use crate::alloc::block::Kind;
use crate::alloc::chunk::{Chunk, UNTYPED};
use crate::alloc::size_class::Class;
use crate::heap::Heap;
use seawall_memory::Memory;

/// The fill, in sixteenths, above which a page is not worth emptying.
const FULL: u64 = 14;
/// The divisor of the pages in use that gives the number of empty pages which are worth returning
/// by themselves.
const EMPTY_PARTS: u64 = 8;

/// A page that can have a part in a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Surveyed {
    pub(crate) class: Class,
    pub(crate) chunk: u64,
    pub(crate) page: u64,
    /// Objects that start in it. If there are none, no object reaches into it.
    pub(crate) objects: u64,
    /// Whether the last of them ends in the next page.
    reaches: bool,
    /// Whether it can be emptied.
    is_candidate: bool,
    /// The fill of the used pages of its chunk, in parts of 64.
    density: u64,
}

impl Surveyed {
    fn bytes(&self) -> u64 {
        self.objects * self.class.bytes()
    }
}

/// A survey of the heap, as far as it has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Survey {
    /// Bytes of the blocks of live objects.
    pub(crate) live: u64,
    /// A type of objects whose pointers are not known.
    pub(crate) unknown: Option<u8>,
    /// Pages that hold a part of a live object, or states.
    used: u64,
    /// Empty pages of small blocks that are no holes.
    empty: u64,
    /// The pages that can be emptied and their neighbours, by address.
    pages: Vec<Surveyed>,
}

impl Survey {
    /// Surveys a chunk; returns the next one.
    pub(crate) fn look<M: Memory>(
        &mut self,
        memory: &M,
        heap: &Heap,
        chunk: u64,
        known: &Known,
    ) -> Result<u64, AccessError> {
        let start = heap.layout.chunk(chunk);
        let mut used = 0u16;
        let mut objects = [(0u64, false, true); PAGES as usize];
        let (mut live, mut unknown) = (0, None);
        let entry = heap.walk_chunk(memory, chunk, &mut |block, tag| {
            live += block.bytes();
            if tag != UNTYPED && known.pointers(tag).is_none() {
                unknown = Some(tag);
            }
            let first = (block.at.offset() - start.offset()) / PAGE_BYTES;
            let last = (block.end().offset() - 1 - start.offset()) / PAGE_BYTES;
            if let Kind::Small(_) = block.kind {
                (first..=last).for_each(|page| used |= 1 << page);
                let (count, reaches, is_typed) = &mut objects[first as usize];
                *count += 1;
                *reaches = last > first;
                *is_typed &= tag != UNTYPED;
            }
        })?;
        self.live += live;
        self.unknown = self.unknown.or(unknown);
        match entry {
            Chunk::Small(class) => {
                used |= u16::from(used > 0);
                self.used += u64::from(used.count_ones());
                let pages = Pages::load(memory, &heap.layout, chunk);
                self.add_pages((class, chunk), (used, live), pages, &objects);
            }
            Chunk::Clean | Chunk::Run(_) => {}
            Chunk::Large(length, _) => self.used += length * PAGES,
            Chunk::Shelf => self.used += PAGES,
        }
        Ok(chunk + entry.length())
    }

    fn add_pages(
        &mut self,
        (class, chunk): (Class, u64),
        (used, live): (u16, u64),
        pages: Pages,
        objects: &[(u64, bool, bool)],
    ) {
        let density = 64 * live / (u64::from(used.count_ones()) * PAGE_BYTES).max(1);
        let is_small = class.bytes() <= PAGE_BYTES / 2;
        for (page, &(objects, reaches, is_typed)) in (0..).zip(objects) {
            let is_used = used >> page & 1 == 1;
            if objects == 0 && (is_used && page > 0 || !is_small) {
                continue;
            }
            let is_full = objects * class.bytes() * 16 > PAGE_BYTES * FULL;
            let is_candidate = objects > 0 && is_small && is_typed && !is_full;
            self.empty += u64::from(objects == 0 && page > 0 && !pages.is_hole(page));
            self.pages.push(Surveyed {
                class,
                chunk,
                page,
                objects,
                reaches,
                is_candidate,
                density,
            });
        }
    }

    /// Bytes of pages per live byte.
    pub(crate) fn fragmentation(&self) -> f64 {
        if self.live == 0 { 1.0 } else { (self.used * PAGE_BYTES) as f64 / self.live as f64 }
    }

    /// Whether a cycle is due: objects are too sparse, or many empty pages have not been returned
    /// to the system.
    pub(crate) fn is_due(&self, trigger: f64) -> bool {
        self.fragmentation() > trigger || self.empty > self.used / EMPTY_PARTS + 1
    }

    /// Returns the pages of the emptiest chunks, if the trigger is reached: as many as bring the
    /// heap to `target` when their objects are packed, or until no more is gained; and all empty
    /// pages. By class and address.
    pub(crate) fn choose(&self, trigger: f64, target: f64) -> Vec<Surveyed> {
        let mut order: Vec<usize> = match self.fragmentation() > trigger {
            true => (0..self.pages.len()).filter(|at| self.pages[*at].is_candidate).collect(),
            false => Vec::new(),
        };
        order.sort_by_key(|at| (self.pages[*at].density, std::cmp::Reverse(*at)));
        let wanted = (target * self.live as f64 / PAGE_BYTES as f64) as u64;
        let mut is_chosen: Vec<bool> = self.pages.iter().map(|page| page.objects == 0).collect();
        let mut moved = [0u64; Class::COUNT];
        let (mut count, mut emptied, mut best) = (0, 0, 0);
        for (place, at) in (1..).zip(&order) {
            let page = &self.pages[*at];
            is_chosen[*at] = true;
            emptied += self.freed_by(*at, &is_chosen);
            moved[page.class.number()] += page.bytes();
            let taken: u64 = moved.iter().map(|bytes| bytes.div_ceil(PAGE_BYTES)).sum();
            let gain = u64::saturating_sub(emptied, taken);
            if gain > best {
                (count, best) = (place, gain);
            }
            if self.used.saturating_sub(gain) <= wanted {
                break;
            }
        }
        let chosen = order[..count].iter().map(|at| self.pages[*at]);
        let empty = self.pages.iter().filter(|page| page.objects == 0).copied();
        let mut chosen: Vec<Surveyed> = chosen.chain(empty).collect();
        chosen.sort_by_key(|page| (page.class, page.chunk, page.page));
        chosen
    }

    /// The pages that are free once this one is emptied: itself, unless an object reaches into it
    /// or it has the states; the next one, if that has nothing else; and the one with the states,
    /// if nothing is left in the chunk.
    fn freed_by(&self, at: usize, is_chosen: &[bool]) -> u64 {
        let page = &self.pages[at];
        let of_chunk = |at: &usize| self.pages.get(*at).is_some_and(|it| it.chunk == page.chunk);
        let neighbour = |at: Option<usize>, number: u64| {
            let at = at.filter(of_chunk)?;
            (self.pages[at].page == number).then(|| (self.pages[at].reaches, is_chosen[at]))
        };
        let before = neighbour(at.checked_sub(1), page.page.wrapping_sub(1));
        let is_reached = before.is_some_and(|(reaches, chosen)| reaches && !chosen);
        let next = neighbour(Some(at + 1), page.page + 1);
        let next_is_empty = page.reaches && next.is_none_or(|(_, chosen)| chosen);
        let mut chunk = (0..at).rev().take_while(of_chunk).chain((at..).take_while(of_chunk));
        let is_last = chunk.all(|at| is_chosen[at]);
        u64::from(!is_reached && page.page > 0) + u64::from(next_is_empty) + u64::from(is_last)
    }
}
