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

impl Defragmenter {
    pub(super) fn move_some<M: Memory>(
        &mut self,
        session: &Session<'_, M>,
        mut next: u64,
    ) -> Result<Step, DefragError> {
        let (memory, heap) = (session.memory, &session.heap);
        let table = self.table.expect("placed");
        let (mut met, mut moved) = (0, Vec::new());
        while next < self.pages && met < BATCH_OBJECTS {
            if let Some(entry) = Entry::load(memory, heap, table.entry(next))? {
                let objects: Vec<Move> = entry.moves(&heap.layout).collect();
                objects.iter().for_each(|object| object.look_ahead(memory, heap));
                moved.extend(relocate::ensure_all(memory, heap, &objects));
                met += entry.objects.count_ones();
            }
            next += 1;
        }
        memory.order();
        moved.iter().for_each(|object| object.settle(memory, heap));
        self.counts.moved += moved.len() as u64;
        let is_done = next == self.pages;
        self.go(if is_done { Stage::FixUp(0) } else { Stage::Move(next) })
    }

    pub(super) fn fix_up<M: Memory>(
        &mut self,
        session: &mut Session<'_, M>,
        chunk: u64,
    ) -> Result<Step, DefragError> {
        let (memory, heap) = (session.memory, session.heap);
        if chunk == 0 {
            self.known.look_up(&heap, memory)?;
            self.counts.healed += fix_up_values(memory, &heap, &[(heap.root(), self.known.root())]);
        }
        if chunk < heap.chunks(memory)? {
            session.look_at(chunk);
            let fixed = self.fix_up_chunk(session, chunk);
            session.look_away();
            if fixed.is_err() {
                self.go(Stage::FixUp(chunk))?;
            }
            return self.go(Stage::FixUp(fixed?));
        }
        memory.drain();
        self.go(Stage::Truncate(memory.load(heap.layout.generation)))
    }

    /// Fixes up the pointers of a chunk's objects; returns the next chunk.
    fn fix_up_chunk<M: Memory>(
        &mut self,
        session: &Session<'_, M>,
        chunk: u64,
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
        self.counts.healed += fix_up_values(memory, heap, &values);
        Ok(chunk + found.length())
    }
}

/// Fixes up the pointers of values; returns how many were out of date. Flushes lines that have a
/// pointer to a destination, whichever thread fixed it up. Loads all before it changes the first:
/// no load behind a locked operation begins before it.
fn fix_up_values<M: Memory>(memory: &M, heap: &Heap, values: &[(Addr, &[Place])]) -> u64 {
    let layout = &heap.layout;
    let places = |(value, places): &(Addr, &[Place])| {
        let value = *value;
        places.iter().map(move |place| value.plus(place.offset)).collect::<Vec<_>>()
    };
    let concerns = |to: Addr| {
        let chunk = layout.chunk_of(to);
        chunk.is_some_and(|chunk| !Pages::load(memory, layout, chunk).are_usual())
    };
    let pointers = values.iter().flat_map(places).map(|at| (at, memory.load(at)));
    let pointers: Vec<(Addr, Addr)> = pointers.filter(|(_, to)| concerns(*to)).collect();
    let (mut fixed, is_published) = (0, heap.is_published(memory));
    for (at, to) in pointers {
        if let Found::Moving(object) = relocate::find(memory, heap, to) {
            let new = object.to.plus(to.bits() - object.from.bits());
            fixed += u64::from(if is_published {
                memory.store(at, new);
                true
            } else {
                memory.compare_exchange(at, to.bits(), new.bits()).is_ok()
            });
            memory.flush(at, 8);
        } else if layout
            .chunk_of(to)
            .is_some_and(|to| Pages::load(memory, layout, to).is_destination())
        {
            memory.flush(at, 8);
        }
    }
    fixed
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
