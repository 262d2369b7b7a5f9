//! Moving what nobody met, and bringing all pointers up to date.
//!
//! Pointers are changed by a locked operation that expects the old value, in objects that live. So
//! that no block is another object's by the time that it is changed, nothing that is freed in the
//! chunk that is looked at is handed out again before the look is over.

use super::DefragError;
use super::cycle::{Defragmenter, Stage, Step};
use super::moves::{self, Found};
use super::pages::Pages;
use super::table::Entry;
use crate::heap::Heap;
use crate::heap::chunks::UNTYPED;
use crate::persist::pointers::Place;
use crate::{HeapError, Session};
use seawall_memory::{Addr, Memory};

/// Objects that a step moves, at least.
const BATCH_OBJECTS: u64 = 16;

impl Defragmenter {
    pub(super) fn move_some<M: Memory>(
        &mut self,
        session: &Session<'_, M>,
        mut next: u64,
    ) -> Result<Step, DefragError> {
        let (memory, heap) = (session.memory, &session.heap);
        let (table, protocol) = (self.table.expect("placed"), heap.protocol(memory));
        let mut moved = 0;
        while next < self.pages && moved < BATCH_OBJECTS {
            if let Some(entry) = Entry::load(memory, heap, table.entry(next))? {
                for object in entry.moves(&heap.layout) {
                    self.counts.moved += u64::from(object.ensure(memory, protocol));
                    moved += 1;
                }
            }
            next += 1;
        }
        let is_done = next == self.pages;
        self.go(if is_done { Stage::Heal(0) } else { Stage::Move(next) })
    }

    pub(super) fn heal<M: Memory>(
        &mut self,
        session: &mut Session<'_, M>,
        chunk: u64,
    ) -> Result<Step, DefragError> {
        let (memory, heap) = (session.memory, session.heap);
        if chunk == 0 {
            self.known.look_up(&heap, memory)?;
            self.counts.healed += heal_value(memory, &heap, heap.root(), self.known.root());
        }
        if chunk < heap.chunks(memory)? {
            session.look_at(chunk)?;
            let healed = self.heal_chunk(session, chunk);
            session.look_away();
            if healed.is_err() {
                self.go(Stage::Heal(chunk))?;
            }
            return self.go(Stage::Heal(healed?));
        }
        memory.drain();
        self.go(Stage::Retire(memory.load(heap.layout.generation)))
    }

    /// Gives the next chunk.
    fn heal_chunk<M: Memory>(
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
        let heals = |(value, places): (Addr, &[Place])| heal_value(memory, heap, value, places);
        self.counts.healed += values.into_iter().map(heals).sum::<u64>();
        Ok(chunk + found.length())
    }
}

/// Brings the pointers of a value up to date; gives how many were not. Lines that have a pointer to
/// a destination are flushed, whoever brought it up to date.
fn heal_value<M: Memory>(memory: &M, heap: &Heap, value: Addr, places: &[Place]) -> u64 {
    let mut healed = 0;
    for place in places {
        let at = value.plus(place.offset);
        let to: Addr = memory.load(at);
        match moves::find(memory, heap, to) {
            Found::Moving(object) => {
                let new = object.to.plus(to.bits() - object.from.bits());
                healed += u64::from(memory.compare_exchange(at, to.bits(), new.bits()).is_ok());
                memory.flush(at, 8);
            }
            _ => {
                let chunk = heap.layout.chunk_of(to);
                let is_new = |chunk| Pages::load(memory, &heap.layout, chunk).is_destination();
                if chunk.is_some_and(is_new) {
                    memory.flush(at, 8);
                }
            }
        }
    }
    healed
}

impl<M: Memory> Session<'_, M> {
    /// The chunk stays what it is, and what is freed in it stays free, until this thread
    /// [looks away](Session::look_away).
    pub(super) fn look_at(&mut self, chunk: u64) -> Result<(), HeapError> {
        self.with_chunk_lock(|session| {
            session.memory.swap(session.heap.layout.looked_at(), chunk + 1);
            Ok(())
        })
    }

    pub(super) fn look_away(&self) {
        self.memory.swap(self.heap.layout.looked_at(), 0);
    }
}
