//! Co-allocation: objects that change together are placed on the same cache lines.
//!
//! A flush moves a line, so a transaction that changes three small objects on three lines flushes
//! three, each hardly dirty. PACT'20 ("Ribbon", flush coalescing) lets the program declare which
//! objects belong together and places them back to back; its example is the key and the value
//! objects of Redis. Here [`alloc_together`](Tx::alloc_together) allocates several objects at once,
//! and [`alloc_near`](Tx::alloc_near) one more beside an old one. Each is an object of its own,
//! with its own length and lifetime.
//!
//! They are placed in *shelves*: chunks for co-allocation, with a byte of state for each unit of 16
//! bytes, a *granule*. The state of an object's first granule is its type, that of the others the
//! number [`MORE`]. States change through the log only, in the transaction that links the objects
//! in, as those of blocks do, so a crash leaves all of an object or nothing. For the shelves that
//! it owns, a thread has a map of free granules in DRAM. New groups begin at free lines; the rest
//! of their last line is kept for objects near them. That, and a state for each granule, is the
//! cost in space.

use crate::alloc::block::{Block, Kind};
use crate::alloc::chunk::{self, Chunk};
use crate::alloc::map::{
    FreeMap, GRANULE_BYTES, GRANULES, SHELF_STATE_BYTES, TOGETHER_BYTES_MAX, granules, together,
};
use crate::alloc::shelf::{LINES_MAX, MORE, Placement, needs_lines};
use crate::flaws::HeapFlaw;
use crate::{AccessError, Session, Tx, TxError};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};

/// The number of its own shelves that a thread searches for free lines before it goes on.
const PROBES: usize = 64;
/// The number of chunks without an owner that it searches before it takes a fresh one.
const ADOPTIONS: usize = 8;

/// An object to allocate: its length, whether it must start at a line, its type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) bytes: u64,
    pub(crate) lines: bool,
    pub(crate) tag: u8,
}

impl Wanted {
    fn untyped(bytes: u64) -> Wanted {
        Wanted { bytes, lines: false, tag: chunk::UNTYPED }
    }

    /// Whether it can be placed in a shelf.
    fn may_share(&self) -> bool {
        !self.lines && self.tag != MORE
    }
}

/// The first granule of the block, in its shelf.
fn granule_of(start: Addr, at: Addr) -> Option<u64> {
    let into = (at.offset() - start.offset()).checked_sub(SHELF_STATE_BYTES)?;
    into.is_multiple_of(GRANULE_BYTES).then_some(into / GRANULE_BYTES)
}

/// The lines that so many granules take from the start of a line on.
fn lines_of(count: u64) -> u64 {
    (GRANULE_BYTES * count).div_ceil(LINE_BYTES)
}

impl<M: Memory> Session<'_, M> {
    /// Sets the placement of objects that this session allocates from now on; existing objects stay
    /// where they are.
    pub fn set_placement(&mut self, placement: Placement) {
        self.placement = placement;
    }

    /// Takes `count` granules at free lines.
    fn take_run(&mut self, count: u64) -> Result<Block, TxError> {
        if let Some(block) = self.take_mine(count, PROBES) {
            return Ok(block);
        }
        if self.adopt_shelf(count, ADOPTIONS) {
            return self.take_current(count);
        }
        match self.fresh_shelf() {
            Ok(()) => self.take_current(count),
            Err(full @ TxError::Full { .. }) => match self.take_mine(count, usize::MAX) {
                Some(block) => Ok(block),
                None if self.adopt_shelf(count, usize::MAX) => self.take_current(count),
                None => Err(full),
            },
            Err(error) => Err(error),
        }
    }

    /// As [`take_run`](Session::take_run), from a shelf with enough free lines.
    fn take_current(&mut self, count: u64) -> Result<Block, TxError> {
        Ok(self.take_mine(count, 1).expect("a shelf with free lines"))
    }

    /// Searches up to `probes` shelves of this thread, from the one that last had room.
    fn take_mine(&mut self, count: u64, probes: usize) -> Option<Block> {
        let shelves = self.blocks.shelves.mine.len();
        if shelves == 0 {
            return None;
        }
        let lines = lines_of(count);
        for _ in 0..=probes.min(shelves) {
            let place = self.blocks.shelves.current;
            let shelf = &mut self.blocks.shelves.mine[place];
            if shelf.lacks > lines {
                if let Some(first) = shelf.free.free_lines(shelf.cursor, count) {
                    shelf.cursor = (first + count).next_multiple_of(4);
                    return Some(self.take_at(place, first, count));
                }
                if shelf.cursor == 0 {
                    shelf.lacks = lines;
                }
            }
            shelf.cursor = 0;
            let next = (place + 1) % shelves;
            self.blocks.shelves.current = next;
            self.look_at_freed(next);
        }
        None
    }

    fn take_at(&mut self, place: usize, first: u64, count: u64) -> Block {
        let shelf = &mut self.blocks.shelves.mine[place];
        shelf.free.set(first, count, false);
        let chunk = shelf.chunk;
        let into = SHELF_STATE_BYTES + GRANULE_BYTES * first;
        Block { at: self.heap.layout.chunk(chunk).plus(into), chunk, kind: Kind::Shelf(count) }
    }

    /// Reads what others have freed in a shelf of this thread.
    fn look_at_freed(&mut self, place: usize) {
        let freed = self.heap.layout.freed(self.blocks.shelves.mine[place].chunk);
        if self.memory.load::<u64>(freed) > 0 {
            self.memory.swap(freed, 0);
            self.scan_shelf(place, true);
        }
    }

    /// Rebuilds the map of a shelf from its states and, if it `is_own` already, from what is taken
    /// but not committed.
    fn scan_shelf(&mut self, place: usize, is_own: bool) {
        let shelf = &mut self.blocks.shelves.mine[place];
        let start = self.heap.layout.chunk(shelf.chunk);
        let mut states = [0; GRANULES as usize];
        self.memory.read(start, &mut states);
        shelf.free = FreeMap::full();
        shelf.lacks = u64::MAX;
        for (granule, state) in (0..).zip(states) {
            shelf.free.set(granule, 1, state == 0);
        }
        // Of shelves that it has given up, it has taken nothing since it began.
        for block in self.buffers.taken.iter().filter(|block| is_own && block.chunk == shelf.chunk)
        {
            if let Kind::Shelf(count) = block.kind {
                let first = granule_of(start, block.at).expect("a block starts at a granule");
                shelf.free.set(first, count, false);
            }
        }
    }

    /// Adopts shelves that may have enough free lines, until one has; searches up to `probes`.
    fn adopt_shelf(&mut self, count: u64, probes: usize) -> bool {
        let layout = self.heap.layout;
        let mut sets = (lines_of(count)..=LINES_MAX).map(|lines| layout.shelves(lines));
        if sets.all(|set| set.is_empty(self.memory)) {
            return false;
        }
        self.with_chunk_lock(|session| session.adopt_open_shelf(count, probes))
    }

    /// As [`adopt_shelf`](Session::adopt_shelf), with the chunk lock held.
    fn adopt_open_shelf(&mut self, count: u64, mut probes: usize) -> bool {
        for lines in lines_of(count)..=LINES_MAX {
            let set = self.heap.layout.shelves(lines);
            while let Some(chunk) = set.first(self.memory, 0).filter(|_| probes > 0) {
                probes -= 1;
                set.remove(self.memory, chunk);
                let is_shelf =
                    chunk::load(self.memory, &self.heap.layout, chunk) == Ok(Chunk::Shelf);
                let place = if is_shelf { self.own_shelf(chunk) } else { None };
                let has_room = |place: &usize| {
                    self.blocks.shelves.mine[*place].free.free_lines(0, count).is_some()
                };
                if let Some(place) = place.filter(has_room) {
                    self.blocks.shelves.current = place;
                    return true;
                }
            }
        }
        false
    }

    /// Adopts the shelf, if it has no owner. The chunk lock is held.
    fn own_shelf(&mut self, chunk: u64) -> Option<usize> {
        if !self.own(chunk) {
            return None;
        }
        self.forget_all_of(chunk);
        let place = self.blocks.shelves.push(chunk);
        self.scan_shelf(place, false);
        Some(place)
    }

    #[cold]
    fn fresh_shelf(&mut self) -> Result<(), TxError> {
        let chunk = self.fresh(Chunk::Shelf, SHELF_STATE_BYTES)?;
        let place = self.blocks.shelves.push(chunk);
        self.blocks.shelves.current = place;
        self.scan_shelf(place, false);
        Ok(())
    }

    /// Returns a block to a shelf that this thread owns; false if it has no map of the shelf.
    pub(crate) fn give_back_granules(&mut self, block: &Block, count: u64) -> bool {
        let start = self.heap.layout.chunk(block.chunk);
        let Some(&place) = self.blocks.shelves.places.get(&block.chunk) else { return false };
        let first = granule_of(start, block.at).expect("a block starts at a granule");
        let shelf = &mut self.blocks.shelves.mine[place];
        shelf.free.set(first, count, true);
        shelf.lacks = u64::MAX;
        true
    }

    /// The index, among the shelves of this thread, of the chunk of `near`.
    fn shelf_of(&mut self, near: &Block) -> Option<usize> {
        let place = self.blocks.shelves.places.get(&near.chunk).copied();
        let owner: u64 = self.memory.load(self.heap.layout.owner(near.chunk));
        if place.is_some() || owner != 0 {
            return place;
        }
        self.with_chunk_lock(|session| session.own_shelf(near.chunk))
    }

    /// Takes `count` granules near a block of a shelf, if there are free ones and this thread owns
    /// the shelf.
    fn take_near(&mut self, near: &Block, count: u64) -> Option<Block> {
        let Kind::Shelf(held) = near.kind else { return None };
        let place = self.shelf_of(near)?;
        let granule = granule_of(self.heap.layout.chunk(near.chunk), near.at)?;
        let find = |session: &Self| {
            session.blocks.shelves.mine[place].free.place_near(granule, held, count)
        };
        let first = find(self).or_else(|| {
            self.look_at_freed(place);
            find(self)
        })?;
        Some(self.take_at(place, first, count))
    }
}

impl<M: Memory> Tx<'_, '_, M> {
    /// Allocates several untyped objects of those numbers of bytes (at least 1), with undefined
    /// content. They are placed back to back from the start of a line, so that they take as few
    /// lines as they can in that order, and none touches more lines than its length requires. Each
    /// is freed by itself. If the transaction does not commit, nothing was allocated; after a crash
    /// there are all of them or none.
    ///
    /// The placement is best effort: objects of more than [`TOGETHER_BYTES_MAX`] in all are
    /// allocated one by one as under [`Placement::Lines`], and so are all objects in a heap that
    /// was made without [`HeapOptions::together`](crate::HeapOptions::together).
    ///
    /// # Errors
    /// As [`alloc`](Tx::alloc); then none was allocated.
    pub fn alloc_together<const N: usize>(
        &mut self,
        bytes: [u64; N],
    ) -> Result<[Addr; N], TxError> {
        self.alloc_wanted_together(bytes.map(Wanted::untyped))
    }

    /// As [`alloc_together`](Tx::alloc_together), for typed objects. If one must start at a line,
    /// they are allocated one by one.
    pub(crate) fn alloc_wanted_together<const N: usize>(
        &mut self,
        wanted: [Wanted; N],
    ) -> Result<[Addr; N], TxError> {
        let is_shared = self.session.heap.together && wanted.iter().all(Wanted::may_share);
        let plan = together(wanted.map(|object| object.bytes));
        let plan = plan.filter(|(_, all)| is_shared && *all > 0);
        let Some((firsts, all)) = plan else {
            return self.nested(|tx| {
                let mut places = [Addr::NULL; N];
                for (place, object) in places.iter_mut().zip(wanted) {
                    *place = tx.alloc_unsplit(object)?;
                }
                Ok(places)
            });
        };
        let run = self.session.take_run(all)?;
        let mut end = 0;
        let places = std::array::from_fn(|number| {
            let Wanted { bytes, tag, .. } = wanted[number];
            let (first, count) = (firsts[number], granules(bytes));
            // The gap between two of them is free.
            self.give_gap(&run, end, first - end);
            end = first + count;
            let at = run.at.plus(GRANULE_BYTES * first);
            self.note(Block { at, kind: Kind::Shelf(count), ..run }, tag)
        });
        Ok(places)
    }

    fn give_gap(&mut self, run: &Block, first: u64, count: u64) {
        let at = run.at.plus(GRANULE_BYTES * first);
        self.session.give_back_granules(&Block { at, ..*run }, count);
    }

    /// Allocates `bytes` bytes (at least 1) without a type on the lines of the object at `near`, or
    /// right behind it. It is an object of its own, freed by itself. There can be room near objects
    /// that were allocated in this way or [together](Tx::alloc_together), by this thread, by one
    /// that is no longer at work, or by one that found no room since. Elsewhere, or when there is
    /// no room, this is [`alloc`](Tx::alloc) under [`Placement::Lines`].
    ///
    /// # Errors
    /// As [`alloc`](Tx::alloc), and [`TxError::NoObject`] when no object starts at `near`.
    pub fn alloc_near(&mut self, near: Addr, bytes: u64) -> Result<Addr, TxError> {
        self.alloc_wanted_near(near, Wanted::untyped(bytes))
    }

    /// As [`alloc_near`](Tx::alloc_near), for a typed object.
    pub(crate) fn alloc_wanted_near(
        &mut self,
        near: Addr,
        wanted: Wanted,
    ) -> Result<Addr, TxError> {
        let (near, _) = self.object(near)?;
        if wanted.bytes <= TOGETHER_BYTES_MAX
            && wanted.may_share()
            && let Some(block) = self.session.take_near(&near, granules(wanted.bytes))
        {
            return Ok(self.note(block, wanted.tag));
        }
        self.alloc_unsplit(wanted)
    }

    /// Allocates a block of its own that touches no more lines than its length requires.
    fn alloc_unsplit(&mut self, Wanted { bytes, lines, tag }: Wanted) -> Result<Addr, TxError> {
        self.alloc_tagged(bytes, lines || needs_lines(bytes), tag)
    }

    /// Finds the object of a shelf that starts at `at`, and its type.
    pub(crate) fn object_of_shelf(&self, at: Addr, chunk: u64) -> Result<(Block, u8), TxError> {
        let start = self.session.heap.layout.chunk(chunk);
        let none = TxError::NoObject { at };
        let Some(first) = granule_of(start, at) else { return Err(none) };
        let tag = match self.tag_of(start, first)? {
            None | Some(MORE) => return Err(none),
            Some(tag) => tag,
        };
        let mut end = first + 1;
        while end < GRANULES && self.tag_of(start, end)? == Some(MORE) {
            end += 1;
        }
        Ok((Block { at, chunk, kind: Kind::Shelf(end - first) }, tag))
    }

    fn tag_of(&self, start: Addr, granule: u64) -> Result<Option<u8>, AccessError> {
        let at = start.plus(granule);
        let word = self.load_own(Addr::from_bits(at.bits() & !7));
        let state = (word >> (8 * (at.bits() % 8))) as u8;
        if !chunk::is_state(state) {
            let object = start.plus(SHELF_STATE_BYTES + GRANULE_BYTES * granule);
            return Err(chunk::no_state(object, state));
        }
        Ok(chunk::tag(state))
    }

    /// Sets the states of `count` granules to an object of type `tag`, or to none (0).
    pub(crate) fn put_granules(&mut self, block: &Block, count: u64, tag: u8) {
        let start = self.session.heap.layout.chunk(block.chunk);
        let first = granule_of(start, block.at).expect("a block starts at a granule");
        let rest = if tag == 0 { 0 } else { chunk::state(MORE) };
        let end = first + count;
        let mut granule = first;
        while granule < end {
            let word = granule / 8 * 8;
            let stop = end.min(word + 8);
            let (mut mask, mut value) = (0, 0);
            for here in granule..stop {
                let state = if here == first { chunk::state(tag) } else { rest };
                mask |= 1 << (here - word);
                value |= u64::from(state) << (8 * (here - word));
            }
            if self.session.heap.flaw.is(HeapFlaw::UnloggedStates) && granule > first {
                (granule..stop).for_each(|at| self.session.memory.store(start.plus(at), rest));
            } else {
                self.put_own(start.plus(word), mask, value);
            }
            granule = stop;
        }
    }
}
