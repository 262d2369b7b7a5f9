//! The end of a cycle: its pages are free, and what is free of whole pages goes back to the system.
//!
//! Where hardware moved the objects, it is asked which lines of the copies have persisted (FFCCD
//! polls its bitmap until all have); the others are flushed, and those that copies share, as their
//! bits are set by the first of them.

use super::cycle::{Defragmenter, Stage, Step};
use super::decide::{BATCH_OBJECTS, push_state};
use super::pages::{self, PAGE_BYTES, PAGES, Pages};
use super::table::{self, Entry, Move, Table};
use super::{DefragError, Protocol};
use crate::heap::checked;
use crate::heap::chunks::{self, Chunk};
use crate::heap::class::CHUNK_BYTES;
use crate::tx::log::Wait;
use crate::tx::record::Builder;
use crate::{HeapFlaw, Session};
use seawall_memory::{LINE_BYTES, Line, Memory, lines_of};

/// Chunks that are given back to the system in one step.
const BATCH_CHUNKS: usize = 4;

impl Defragmenter {
    pub(super) fn release<M: Memory>(
        &mut self,
        session: &mut Session<'_, M>,
        next: u64,
    ) -> Result<Step, DefragError> {
        let (memory, heap) = (session.memory, session.heap);
        let (table, layout) = (self.table.expect("placed"), heap.layout);
        let mut builder = Builder::default();
        builder.clear();
        let mut entries = Vec::new();
        let (mut last, mut objects) = (next, 0);
        // With the others, who moves an object waits until it is durable.
        let is_lazy = heap.protocol(memory) == Protocol::Ffccd;
        let mut flushed = None;
        while last < self.pages && objects < BATCH_OBJECTS {
            let entry = Entry::load(memory, &heap, table.entry(last))?;
            last += 1;
            let Some(entry) = entry else { continue };
            objects += entry.objects.count_ones();
            for object in entry.moves(&layout) {
                if is_lazy {
                    let lines = self.unreached(session, object);
                    lines.filter(|line| flushed.replace(*line) != Some(*line)).for_each(|line| {
                        memory.flush(line.start(), LINE_BYTES);
                    });
                }
                push_state(&mut builder, entry.states(&layout, &object)[0], 0);
            }
            builder.push_word(entry.at, entry.head(false));
            entries.push(entry);
        }
        memory.drain();
        if !entries.is_empty() {
            session.log.commit(memory, &mut builder, Wait::Durable)?;
        }
        self.counts.emptied += entries.len() as u64;
        if last < self.pages {
            return self.go(Stage::Release(last));
        }
        for number in 0..self.pages {
            self.emptied.extend(table::page_of(checked::claimed(memory, table.entry(number))));
        }
        self.emptied.sort_unstable();
        self.go(Stage::End(0))
    }

    /// The lines of a copy of which hardware does not say that they have persisted; of those that
    /// other copies have a part of it may say so because of them.
    fn unreached<'a, M: Memory>(
        &'a self,
        session: &'a Session<'_, M>,
        object: Move,
    ) -> impl Iterator<Item = Line> + 'a {
        let trusts_all = session.heap.flaw == HeapFlaw::ReleasesReached;
        lines_of(object.to, object.bytes).filter(move |line| {
            let is_own = trusts_all || object.has_alone(line.start());
            let hardware = self.hardware.as_ref().filter(|_| is_own);
            !hardware.is_some_and(|known| known.has_reached(session.memory, line.start()))
        })
    }

    /// The pages are usual again, chunks of nothing else are for anything, and the table is given
    /// back.
    pub(super) fn end<M: Memory>(
        &mut self,
        session: &mut Session<'_, M>,
        next: u64,
    ) -> Result<Step, DefragError> {
        let first = next as usize;
        if let Some(table) = self.table.filter(|_| first == 0) {
            self.leave_destinations(session, table);
        }
        let rest = &self.emptied[first..];
        let mut last = first;
        for group in rest.chunk_by(|one, other| one.0 == other.0).take(BATCH_CHUNKS) {
            self.counts.discarded += session.give_back_pages(group)?;
            last += group.len();
        }
        if last < self.emptied.len() {
            return self.go(Stage::End(last as u64));
        }
        self.emptied.clear();
        // Whoever set them, and by whatever protocol a cycle that was taken over went on.
        session.memory.set_relocation(None);
        self.hardware = None;
        if let Some(table) = self.table.take() {
            free_table(session, table)?;
            self.counts.cycles += 1;
        }
        session.memory.swap(session.heap.layout.phase, 0);
        Ok(Step::Done)
    }

    /// Chunks that objects were moved to are for whoever needs blocks of their class. This comes
    /// before anything is allocated in the pages that they left.
    fn leave_destinations<M: Memory>(&self, session: &Session<'_, M>, table: Table) {
        let (memory, layout) = (session.memory, &session.heap.layout);
        let entries = (0..self.pages).map(|number| table.entry(number));
        let mut chunks: Vec<u64> =
            entries.filter_map(|at| table::destination_of(memory, at)).collect();
        chunks.sort_unstable();
        chunks.dedup();
        for chunk in chunks.into_iter().filter(|chunk| session.is_destination(*chunk)) {
            pages::set_destination(memory, layout, chunk, false);
            memory.store(layout.owner(chunk), 0u64);
        }
        memory.fetch_add(layout.orphans(), 1);
    }

    /// Gives back to the system what is free at `chunk`, a part of it; false if there may be more.
    pub(super) fn discard_free<M: Memory>(
        &mut self,
        session: &mut Session<'_, M>,
        chunk: u64,
    ) -> Result<bool, DefragError> {
        let (memory, layout) = (session.memory, session.heap.layout);
        let discarded = session.with_chunk_lock(|session| {
            let count = session.heap.chunks(memory)?;
            let Chunk::Run(length) = chunks::load_within(memory, &layout, chunk, count)? else {
                return Ok(0);
            };
            // A run that is owned is being filled by a transaction that has not committed.
            let is_held = |chunk: &u64| {
                memory.load::<u64>(layout.owner(*chunk)) == 0
                    && !Pages::load(memory, &layout, *chunk).are_holes()
            };
            let held = (chunk..chunk + length).filter(is_held).take(BATCH_CHUNKS);
            Ok(held.map(|chunk| session.discard_chunk(chunk)).count())
        })?;
        self.counts.discarded += discarded as u64 * PAGES;
        Ok(discarded < BATCH_CHUNKS)
    }
}

/// The chunks of the table are free.
fn free_table<M: Memory>(session: &mut Session<'_, M>, table: Table) -> Result<(), DefragError> {
    let (memory, layout) = (session.memory, session.heap.layout);
    let count = session.heap.chunks(memory)?;
    let length = chunks::load_within(memory, &layout, table.chunk, count)?.length();
    let mut builder = Builder::default();
    builder.clear();
    let (entry, word) = (layout.chunk_entry(table.chunk), layout.moved_table());
    builder.push_word(entry, Chunk::Run(length).encode(entry));
    builder.push_freed(layout.chunk(table.chunk), length * CHUNK_BYTES);
    builder.push_word(word, 0);
    session.log.commit(memory, &mut builder, Wait::Durable)?;
    for chunk in table.chunk..table.chunk + length {
        memory.store(layout.owner(chunk), 0u64);
    }
    Ok(())
}

impl<M: Memory> Session<'_, M> {
    /// Pages of a chunk in which nothing is allocated meanwhile: gives those that hold nothing to
    /// the system, and the chunk to everybody, if it holds nothing. Gives how many pages the system
    /// got.
    fn give_back_pages(&mut self, group: &[(u64, u64)]) -> Result<u64, DefragError> {
        let (memory, layout, chunk) = (self.memory, self.heap.layout, group[0].0);
        let Ok(Chunk::Small(class)) = chunks::load(memory, &layout, chunk) else { return Ok(0) };
        let mut states = vec![0; class.blocks() as usize];
        memory.read(layout.chunk(chunk), &mut states);
        let pages = Pages::load(memory, &layout, chunk);
        let is_kept = |page| pages.page(page) != pages::Page::Usual;
        let is_quiet = |page| is_kept(page) || pages::blocks_of(class, page).is_empty();
        if states.iter().all(|state| *state == 0) && (0..PAGES).all(is_quiet) {
            self.wait_for_commits();
            self.release_chunk(chunk)?;
            return Ok(PAGES);
        }
        let is_free = |block: &u64| states[*block as usize] == 0;
        let holds_nothing = |page: u64| {
            let start = page * PAGE_BYTES;
            let mut blocks = pages::overlapping(class, start..start + PAGE_BYTES);
            blocks.all(|block| is_free(&block) && is_kept(pages::page_of(class, block)))
        };
        let mut discarded = 0;
        let empty: Vec<u64> = group.iter().map(|(_, page)| *page).collect();
        let empty: Vec<u64> =
            empty.into_iter().filter(|page| *page > 0 && holds_nothing(*page)).collect();
        for run in empty.chunk_by(|one, other| one + 1 == *other) {
            let bytes = run.len() as u64 * PAGE_BYTES;
            memory.discard(layout.chunk(chunk).plus(run[0] * PAGE_BYTES), bytes);
            pages::set_holes(memory, &layout, (chunk, run[0]..run[run.len() - 1] + 1), true);
            discarded += run.len() as u64;
        }
        for page in group {
            pages::forget(memory, &layout, *page);
        }
        memory.fetch_add(layout.freed(chunk), 1);
        Ok(discarded)
    }

    /// Returns when no commit is under way of those that were: what they store may lie in objects
    /// whose states they have zeroed already.
    fn wait_for_commits(&self) {
        for thread in (0..self.heap.layout.numbers.threads).filter(|thread| *thread != self.thread)
        {
            let busy = self.heap.layout.busy(thread);
            let now: u64 = self.memory.load(busy);
            if now != 0 {
                self.memory.spin_while(busy, now);
            }
        }
    }

    /// The chunk, in which nothing is allocated, is for anything, and its memory the system's.
    fn release_chunk(&mut self, chunk: u64) -> Result<(), DefragError> {
        self.with_chunk_lock(|session| {
            session.write_entries(&[(chunk, Chunk::Run(1))], true)?;
            // In this order: who finds an old block of it in a list looks at the pages first.
            session.memory.swap(session.heap.layout.owner(chunk), 0);
            session.discard_chunk(chunk);
            Ok(())
        })?;
        Ok(())
    }

    /// Gives a free chunk to the system. The chunk lock is held.
    fn discard_chunk(&self, chunk: u64) {
        let layout = &self.heap.layout;
        self.memory.discard(layout.chunk(chunk), CHUNK_BYTES);
        pages::renew(self.memory, layout, chunk);
        pages::set_holes(self.memory, layout, (chunk, 0..PAGES), true);
    }
}
