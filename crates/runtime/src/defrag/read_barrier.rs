//! The read barrier: maps pointers to where objects are, before every typed access (FFCCD, ISCA'22,
//! sections 2 and 4.5).
//!
//! An object that moves has two addresses, and a program compares pointers. So a scope (`grace`)
//! uses one of the two from its beginning to its end: the old address if it began before all pages
//! of the cycle were decided (`Old`), else the new one (`New`). Where the bytes are is resolved at
//! each access: a thread that accesses an object which has not moved moves it.
//!
//! | | `Old` | `New` |
//! |---|---|---|
//! | a pointer that is loaded | new becomes old | old becomes new, in the pool too |
//! | a pointer that is stored | becomes new, if the page is being emptied | the same |
//! | an access | goes to where the object is | uses the new address |
//! | a store to a page that can be emptied | keeps the page as it is | (there is none any more) |
//!
//! A scope that began when there was no cycle (`Plain`) does none of this: nothing moves before it
//! has ended.

use super::forwarding_table::Entry;
use super::options::Protocol;
use super::pages::{self, PAGE_BYTES, Page, Pages};
use super::purpose::Purpose;
use super::relocate::{Found, find};
use super::scope::{Phase, View};
use crate::alloc::size_class::Class;
use crate::{Heap, Session};
use seawall_memory::relocation::Relocate;
use seawall_memory::{Addr, Memory, MemoryExt};

/// Where what `at` leads to has been moved, or is about to be.
pub(crate) fn place_of<M: Memory>(memory: &M, heap: &Heap, at: Addr) -> Addr {
    match find(memory, heap, at) {
        Found::Moving(object) => object.to.plus(at.bits() - object.from.bits()),
        Found::Watched(..) | Found::Here => at,
    }
}

impl<M: Memory> Session<'_, M> {
    /// Whether a block of this thread's list can be handed out: it is neither in a page that will
    /// be emptied nor in a chunk that was given back since it was listed.
    #[inline]
    pub(crate) fn may_take(&self, class: Class, at: Addr) -> bool {
        !self.heap.layout.numbers.moves || self.may_take_now(class, at)
    }

    fn may_take_now(&self, class: Class, at: Addr) -> bool {
        let layout = &self.heap.layout;
        let chunk = layout.chunk_of(at).expect("a block lies in a chunk");
        let pages = Pages::load(self.memory, layout, chunk);
        // In this order: a chunk loses its owner before its pages become those of a free chunk.
        if self.memory.load::<u64>(layout.owner(chunk)) != self.thread + 1 {
            return false;
        }
        if pages.are_usual() {
            return true;
        }
        let mut touched = pages::pages_of(layout, class, chunk, at);
        let is_usual = |page| pages.page(page) == Page::Usual;
        if pages.is_destination() || !touched.clone().all(is_usual) {
            return false;
        }
        touched.all(|page| !pages.is_hole(page) || self.bring_back(chunk, page))
    }

    /// Takes a page back from the system; false if there is no room for it.
    fn bring_back(&self, chunk: u64, page: u64) -> bool {
        let layout = &self.heap.layout;
        let at = layout.chunk(chunk).plus(page * PAGE_BYTES);
        let is_there = self.memory.bring_back(at, PAGE_BYTES);
        if is_there {
            pages::set_holes(self.memory, layout, (chunk, page..page + 1), false);
        }
        is_there
    }

    /// Whether the block overlaps a page in which nothing is allocated at present.
    pub(crate) fn is_kept(&self, class: Class, at: Addr) -> bool {
        let layout = &self.heap.layout;
        if !layout.numbers.moves {
            return false;
        }
        let chunk = layout.chunk_of(at).expect("a block lies in a chunk");
        let pages = Pages::load(self.memory, layout, chunk);
        let mut touched = pages::pages_of(layout, class, chunk, at);
        !pages.are_usual() && touched.any(|page| pages.page(page) != Page::Usual)
    }

    /// Whether a cycle is reading the objects of the chunk.
    pub(crate) fn is_looked_at(&self, chunk: u64) -> bool {
        let layout = &self.heap.layout;
        layout.numbers.moves && self.memory.load::<u64>(layout.looked_at()) == chunk + 1
    }

    /// Whether the chunk has no part in a cycle.
    pub(crate) fn is_idle(&self, chunk: u64) -> bool {
        let layout = &self.heap.layout;
        !layout.numbers.moves
            || !self.is_looked_at(chunk) && Pages::load(self.memory, layout, chunk).are_idle()
    }

    /// Whether there is a cycle, so that freed blocks are found again by a scan only.
    pub(crate) fn is_in_cycle(&self) -> bool {
        self.heap.layout.numbers.moves && self.heap.phase(self.memory) != Phase::Rest
    }

    /// Whether the chunk is a destination of moved objects.
    pub(crate) fn is_destination(&self, chunk: u64) -> bool {
        let layout = &self.heap.layout;
        layout.numbers.moves && Pages::load(self.memory, layout, chunk).is_destination()
    }

    /// Returns the address to read what a pointer leads to. A new address is where the bytes are.
    #[inline]
    pub(crate) fn place_to_read(&self, at: Addr) -> Addr {
        match self.scope.view {
            View::Old => self.place(at, false),
            _ if self.scope.checks => self.checked(at),
            View::New | View::Plain => at,
        }
    }

    /// As published: checks where the object at `at` is, as each access does. The check when a
    /// pointer is loaded stands for that of the first access through it.
    #[cold]
    fn checked(&self, at: Addr) -> Addr {
        let known = self.scope.checked.take();
        if known.is_none_or(|known| at < known || at >= known.plus(PAGE_BYTES / 2)) {
            Purpose::LookUp.charge(self.memory, || {
                let _ = self.stays(at) || find(self.memory, &self.heap, at) == Found::Here;
            });
        }
        at
    }

    /// As [`place_to_read`](Session::place_to_read), for an object that a walk has found, by either
    /// address.
    #[inline]
    pub(crate) fn place_of_found(&self, at: Addr) -> Addr {
        if self.scope.view == View::Plain { at } else { self.place(at, false) }
    }

    /// Returns the address to write what a pointer leads to. Keeps the page as it is, if it is not
    /// being emptied yet.
    #[inline]
    pub(crate) fn place_to_write(&self, at: Addr) -> Addr {
        match self.scope.view {
            View::Old => self.place(at, true),
            _ if self.scope.checks => self.checked(at),
            View::New | View::Plain => at,
        }
    }

    #[cold]
    fn place(&self, at: Addr, writes: bool) -> Addr {
        Purpose::LookUp.charge(self.memory, || self.look_up(at, writes))
    }

    fn look_up(&self, at: Addr, writes: bool) -> Addr {
        loop {
            match find(self.memory, &self.heap, at) {
                Found::Moving(object) => {
                    let is_own = object.ensure(self.memory, &self.heap);
                    self.scope.moved.set(is_own.then_some(object));
                    return object.to.plus(at.bits() - object.from.bits());
                }
                Found::Watched(chunk, page) if writes => {
                    let (page, layout) = ((chunk, page), &self.heap.layout);
                    let touched = (Page::Watched, Page::Touched);
                    if pages::change(self.memory, layout, page, touched) != Err(Page::Moving) {
                        return at;
                    }
                }
                Found::Watched(..) | Found::Here => return at,
            }
        }
    }

    /// Maps a pointer that was loaded from `field` to this scope's address. Fixes up the pointer in
    /// the pool, if `fixes_up`.
    #[inline]
    pub(crate) fn loaded(&self, field: Addr, bits: u64, fixes_up: impl FnOnce() -> bool) -> u64 {
        match self.scope.view {
            View::Plain => bits,
            View::Old => self.old_address(Addr::from_bits(bits)).bits(),
            View::New => self.new_address(field, bits, fixes_up),
        }
    }

    #[cold]
    fn new_address(&self, field: Addr, bits: u64, fixes_up: impl FnOnce() -> bool) -> u64 {
        let at = Addr::from_bits(bits);
        let place = if self.stays(at) { at } else { self.place(at, false) };
        if self.scope.checks {
            self.scope.checked.set(Some(place));
        }
        if place == at || !fixes_up() {
            return place.bits();
        }
        if self.heap.is_published(self.memory) {
            self.memory.store(field, place);
        } else if self.memory.compare_exchange(field, bits, place.bits()).is_ok() {
            let moved = self.scope.moved.take();
            moved.iter().for_each(|object| object.settle(self.memory, &self.heap));
        }
        place.bits()
    }

    /// Whether hardware says that what is at `at` is not moved in this cycle.
    fn stays(&self, at: Addr) -> bool {
        let (memory, heap) = (self.memory, &self.heap);
        if !memory.forwards() || heap.protocol(memory) != Protocol::Ffccd {
            return false;
        }
        Purpose::LookUp.charge(memory, || memory.forward(at) == at)
    }

    /// Maps a pointer that this scope stores to the address that the pool gets.
    #[inline]
    pub(crate) fn stored(&self, bits: u64) -> u64 {
        match self.scope.view {
            View::Plain | View::New => bits,
            View::Old => self.place(Addr::from_bits(bits), false).bits(),
        }
    }

    /// The address of `at` before the cycle.
    #[cold]
    fn old_address(&self, at: Addr) -> Addr {
        Purpose::LookUp.charge(self.memory, || self.look_up_old_address(at))
    }

    fn look_up_old_address(&self, at: Addr) -> Addr {
        let layout = &self.heap.layout;
        let Some(chunk) = layout.chunk_of(at) else { return at };
        if !Pages::load(self.memory, layout, chunk).is_destination() {
            return at;
        }
        let came = Entry::of_destination(self.memory, &self.heap, chunk, at);
        came.map_or(at, |(_, object)| object.from.plus(at.bits() - object.to.bits()))
    }
}
