//! Fix-up: moving the objects that no thread accessed, and updating all pointers to moved objects.
//!
//! Pointers in live objects are changed by a compare-and-exchange (as published: by plain stores,
//! under the program's locks). Blocks that are freed in the
//! chunk being read are not handed out before the read is over, so that no block is another
//! object's by the time that a pointer in it is changed.

use super::cycle::{Defragmenter, Stage, Step};
use super::forwarding_table::{Entry, Move};
use super::options::DefragError;
use super::pages::Pages;
use super::relocate::{self, Found};
use crate::Session;
use crate::alloc::chunk::UNTYPED;
use crate::heap::Heap;
use crate::persist::pointers::Place;
use seawall_memory::{Addr, Memory, MemoryExt};

/// The minimum number of objects that a step moves.
const BATCH_OBJECTS: u32 = 16;

/// As published, what a step does under the locks of the program: only what must be, as all threads
/// wait for it. The step before has loaded all that it needs.
#[derive(Debug)]
pub(super) enum Change {
    /// Moves these, and goes on with that entry of the table.
    Objects(Vec<Move>, u64),
    /// Stores these, and goes on with that chunk.
    Pointers(Vec<Stale>, u64),
}

/// A pointer to the former place of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stale {
    at: Addr,
    old: Addr,
    new: Addr,
}

impl Defragmenter {
    /// Moves objects; as published, only loads what the next step moves.
    pub(super) fn move_some<M: Memory>(
        &mut self,
        session: &Session<'_, M>,
        first: u64,
    ) -> Result<Step, DefragError> {
        let (memory, heap) = (session.memory, &session.heap);
        let table = self.table.expect("placed");
        let is_published = heap.is_published(memory);
        let (mut next, mut met, mut found) = (first, 0, Vec::new());
        while next < self.pages && met < BATCH_OBJECTS {
            if let Some(entry) = Entry::load(memory, heap, table.entry(next))? {
                let objects: Vec<Move> = entry.moves(&heap.layout).collect();
                objects.iter().for_each(|object| object.look_ahead(memory, heap));
                if is_published {
                    found.extend(objects.iter().filter(|it| it.is_still(memory, heap)));
                } else {
                    found.extend(relocate::ensure_all(memory, heap, &objects));
                }
                met += entry.objects.count_ones();
            }
            next += 1;
        }
        if is_published && !found.is_empty() {
            return self.go(Stage::Change(Change::Objects(found, next)));
        }
        self.settle(session, &found, next)
    }

    /// Marks the objects as moved, and goes on behind them.
    fn settle<M: Memory>(
        &mut self,
        session: &Session<'_, M>,
        moved: &[Move],
        next: u64,
    ) -> Result<Step, DefragError> {
        let (memory, heap) = (session.memory, &session.heap);
        memory.order();
        moved.iter().for_each(|object| object.settle(memory, heap));
        self.counts.moved += moved.len() as u64;
        let is_done = next == self.pages;
        self.go(if is_done { Stage::FixUp(0) } else { Stage::Move(next) })
    }

    /// As published: does what the step before has found.
    pub(super) fn change<M: Memory>(
        &mut self,
        session: &Session<'_, M>,
        change: Change,
    ) -> Result<Step, DefragError> {
        let (memory, heap) = (session.memory, &session.heap);
        match change {
            Change::Objects(objects, next) => {
                let moved = relocate::ensure_all(memory, heap, &objects);
                self.settle(session, &moved, next)
            }
            Change::Pointers(pointers, next) => {
                for Stale { at, old, new } in pointers {
                    if memory.load::<Addr>(at) == old {
                        memory.store(at, new);
                        self.counts.healed += 1;
                    }
                    memory.flush(at, 8);
                }
                session.look_away();
                self.go(Stage::FixUp(next))
            }
        }
    }

    pub(super) fn fix_up<M: Memory>(
        &mut self,
        session: &mut Session<'_, M>,
        chunk: u64,
    ) -> Result<Step, DefragError> {
        let (memory, heap) = (session.memory, session.heap);
        if chunk >= heap.chunks(memory)? {
            memory.drain();
            return self.go(Stage::Truncate(memory.load(heap.layout.generation)));
        }
        let mut stale = Vec::new();
        if chunk == 0 {
            self.known.look_up(&heap, memory)?;
            stale.extend(find_stale(memory, &heap, &[(heap.root(), self.known.root())]));
        }
        session.look_at(chunk);
        let found = self.find_in_chunk(session, chunk, &mut stale);
        let is_published = heap.is_published(memory);
        match found {
            Ok(next) if is_published && !stale.is_empty() => {
                return self.go(Stage::Change(Change::Pointers(stale, next)));
            }
            Ok(_) => self.counts.healed += exchange(memory, &stale),
            Err(_) => {}
        }
        session.look_away();
        self.go(Stage::FixUp(found.as_ref().map_or(chunk, |next| *next)))?;
        found.map(|_| Step::Worked)
    }

    /// Finds the stale pointers of a chunk's objects; returns the next chunk.
    fn find_in_chunk<M: Memory>(
        &mut self,
        session: &Session<'_, M>,
        chunk: u64,
        stale: &mut Vec<Stale>,
    ) -> Result<u64, DefragError> {
        let (memory, heap) = (session.memory, &session.heap);
        let (mut values, mut unknown) = (Vec::new(), None);
        let found =
            heap.walk_chunk(memory, chunk, &mut |block, tag| match self.known.pointers(tag) {
                Some([]) => {}
                Some(places) => values.push((block.at, places)),
                None if tag != UNTYPED => unknown = Some(tag),
                None => {}
            })?;
        if let Some(tag) = unknown {
            return self.known.learn(heap, memory, tag).map(|()| chunk);
        }
        stale.extend(find_stale(memory, heap, &values));
        Ok(chunk + found.length())
    }
}

/// Finds the stale pointers of values. Flushes lines that have a pointer to a destination,
/// whichever thread fixed it up.
fn find_stale<M: Memory>(memory: &M, heap: &Heap, values: &[(Addr, &[Place])]) -> Vec<Stale> {
    let layout = &heap.layout;
    let places = |(value, places): &(Addr, &[Place])| {
        let value = *value;
        places.iter().map(move |place| value.plus(place.offset)).collect::<Vec<_>>()
    };
    let pages = |to: Addr| Some(Pages::load(memory, layout, layout.chunk_of(to)?));
    let pointers = values.iter().flat_map(places).map(|at| (at, memory.load(at)));
    let concerns = |to: Addr| pages(to).is_some_and(|pages| !pages.are_usual());
    let pointers: Vec<(Addr, Addr)> = pointers.filter(|(_, to)| concerns(*to)).collect();
    let mut stale = Vec::new();
    for (at, old) in pointers {
        if let Found::Moving(object) = relocate::find(memory, heap, old) {
            stale.push(Stale { at, old, new: object.to.plus(old.bits() - object.from.bits()) });
        } else if pages(old).is_some_and(|pages| pages.is_destination()) {
            memory.flush(at, 8);
        }
    }
    stale
}

/// Fixes up pointers that no other thread has; returns how many. They were all found before the
/// first is changed: no load behind a locked operation begins before it.
fn exchange<M: Memory>(memory: &M, stale: &[Stale]) -> u64 {
    let exchanged = stale.iter().filter(|Stale { at, old, new }| {
        let is_own = memory.compare_exchange(*at, old.bits(), new.bits()).is_ok();
        memory.flush(*at, 8);
        is_own
    });
    exchanged.count() as u64
}

impl<M: Memory> Session<'_, M> {
    /// Keeps the chunk's use, and the freed blocks in it free, until this thread
    /// [looks away](Session::look_away).
    pub(super) fn look_at(&mut self, chunk: u64) {
        self.with_chunk_lock(|session| {
            session.memory.swap(session.heap.layout.looked_at(), chunk + 1);
        });
    }

    pub(super) fn look_away(&self) {
        self.memory.swap(self.heap.layout.looked_at(), 0);
    }
}
