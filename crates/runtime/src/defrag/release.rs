//! The end of a cycle: its pages are free, and whole free pages are returned to the system.
//!
//! Where hardware moved the objects, its bitmap says which lines of the copies have persisted
//! (FFCCD polls it until all have). The other lines are flushed, and so are lines that copies
//! share, whose bits are set by the first copy.

use super::cycle::{Defragmenter, Stage, Step};
use super::decide::{BATCH_OBJECTS, push_state};
use super::forwarding_table::{self, Entry, Move, Table};
use super::grace::Grace;
use super::options::{DefragError, Protocol};
use super::pages::{self, PAGE_BYTES, PAGES, Pages};
use super::plan::Survey;
use crate::alloc::chunk::{self, Chunk};
use crate::alloc::size_class::CHUNK_BYTES;
use crate::flaws::HeapFlaw;
use crate::heap::checked_word;
use crate::tx::record::Builder;
use crate::tx::redo_log::Wait;
use crate::{AccessError, Session, TxError};
use seawall_memory::relocation::Relocate;
use seawall_memory::{LINE_BYTES, Line, Memory, MemoryExt, lines_of};
use std::ops::Range;

/// The chunks that are marked vacant, or vacant ranges that are returned, in one step.
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
        // With the other protocols, the thread that moves an object waits until it is durable.
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
            self.emptied.extend(forwarding_table::page_of(checked_word::claimed(
                memory,
                table.entry(number),
            )));
        }
        self.emptied.sort_unstable();
        self.go(Stage::End(0))
    }

    /// The lines of a copy that hardware does not report as persisted. Lines that other copies
    /// share are among them, as it may report them because of those.
    fn unreached<'a, M: Memory>(
        &'a self,
        session: &'a Session<'_, M>,
        object: Move,
    ) -> impl Iterator<Item = Line> + 'a {
        let trusts_all = session.heap.flaw.is(HeapFlaw::ReleasesReached);
        lines_of(object.to, object.bytes).filter(move |line| {
            let is_own = trusts_all || object.has_alone(line.start());
            let hardware = self.hardware.as_ref().filter(|_| is_own);
            !hardware.is_some_and(|known| known.has_reached(session.memory, line.start()))
        })
    }

    /// Makes the pages usual again, except empty ones; chunks with nothing else become free for any
    /// use.
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
            session.vacate(group, &mut self.vacant)?;
            last += group.len();
        }
        if last < self.emptied.len() {
            return self.go(Stage::End(last as u64));
        }
        self.emptied.clear();
        let grace = Grace::of_now(session.memory, &session.heap.layout);
        self.go(Stage::GiveBack(grace, None))
    }

    /// Returns vacant pages to the system, when no thread can have an address there: neither a
    /// program with a pointer to an object that has been freed since, nor a commit that lists lines
    /// to flush at the next truncation. After a survey, pages are chosen next; otherwise the cycle
    /// ends.
    pub(super) fn give_back<M: Memory>(
        &mut self,
        session: &mut Session<'_, M>,
        mut grace: Grace,
        survey: Option<Survey>,
    ) -> Result<Step, DefragError> {
        if !grace.is_over(session.memory, &session.heap.layout) {
            self.stage = Stage::GiveBack(grace, survey);
            return Ok(Step::Waits);
        }
        let batch = self.vacant.len().min(BATCH_CHUNKS);
        for (chunk, pages) in self.vacant.drain(..batch) {
            self.counts.discarded += session.discard_vacant(chunk, pages);
        }
        match survey {
            _ if !self.vacant.is_empty() => self.go(Stage::GiveBack(grace, survey)),
            Some(survey) => self.choose(session, survey),
            None => self.close(session),
        }
    }

    /// Frees the table and ends the cycle.
    fn close<M: Memory>(&mut self, session: &mut Session<'_, M>) -> Result<Step, DefragError> {
        // Also those that an earlier defragmenter set, for whatever protocol.
        session.memory.set_relocation(None);
        self.hardware = None;
        if let Some(table) = self.table.take() {
            free_table(session, table)?;
            self.counts.cycles += 1;
        }
        session.memory.swap(session.heap.layout.phase, 0);
        Ok(Step::Done)
    }

    /// Releases the destination chunks to all threads that need blocks of their class, before
    /// anything is allocated in the emptied pages.
    fn leave_destinations<M: Memory>(&self, session: &Session<'_, M>, table: Table) {
        let (memory, layout) = (session.memory, &session.heap.layout);
        let entries = (0..self.pages).map(|number| table.entry(number));
        let mut chunks: Vec<u64> =
            entries.filter_map(|at| forwarding_table::destination_of(memory, at)).collect();
        chunks.sort_unstable();
        chunks.dedup();
        for chunk in chunks.into_iter().filter(|chunk| session.is_destination(*chunk)) {
            pages::set_destination(memory, layout, chunk, false);
            memory.swap(layout.owner(chunk), 0);
            memory.swap(layout.freed(chunk), 0);
            session.note_usual(chunk);
        }
    }

    /// Marks the free chunks at `chunk` as vacant; returns false if there may be more.
    pub(super) fn vacate_free<M: Memory>(
        &mut self,
        session: &mut Session<'_, M>,
        chunk: u64,
    ) -> Result<bool, DefragError> {
        let (memory, layout) = (session.memory, session.heap.layout);
        while !session.is_all_known() {
            session.with_chunk_lock(Session::discover)?;
        }
        let vacant = session.with_chunk_lock(|session| -> Result<_, AccessError> {
            let count = session.heap.chunks(memory)?;
            let Chunk::Run(length) = chunk::load_within(memory, &layout, chunk, count)? else {
                return Ok(Vec::new());
            };
            // Others are being filled by a transaction that has not committed.
            let is_held = |chunk: &u64| {
                session.is_free_chunk(*chunk) && !Pages::load(memory, &layout, *chunk).are_holes()
            };
            let held = (chunk..chunk + length).filter(is_held).take(BATCH_CHUNKS);
            let held: Vec<u64> = held.collect();
            held.iter().for_each(|chunk| session.vacate_chunk(*chunk));
            Ok(held)
        })?;
        self.vacant.extend(vacant.iter().map(|chunk| (*chunk, 0..PAGES)));
        Ok(vacant.len() < BATCH_CHUNKS)
    }
}

/// Frees the chunks of the table.
fn free_table<M: Memory>(session: &mut Session<'_, M>, table: Table) -> Result<(), DefragError> {
    let (memory, layout) = (session.memory, session.heap.layout);
    let count = session.heap.chunks(memory)?;
    let length = chunk::load_within(memory, &layout, table.chunk, count)?.length();
    session.hold_run(table.chunk);
    let mut builder = Builder::default();
    builder.clear();
    let (entry, word) = (layout.chunk_entry(table.chunk), layout.moved_table());
    builder.push_word(entry, Chunk::Run(length).encode(entry));
    builder.push_freed(layout.chunk(table.chunk), length * CHUNK_BYTES);
    builder.push_word(word, 0);
    session.log.commit(memory, &mut builder, Wait::Durable)?;
    session.put_run(table.chunk, length);
    Ok(())
}

impl<M: Memory> Session<'_, M> {
    /// Marks as vacant the empty ones among pages in which nothing is allocated meanwhile, or the
    /// chunk if it is empty. Makes the others usual again.
    fn vacate(
        &mut self,
        group: &[(u64, u64)],
        vacant: &mut Vec<(u64, Range<u64>)>,
    ) -> Result<(), DefragError> {
        let (memory, layout, chunk) = (self.memory, self.heap.layout, group[0].0);
        let Ok(Chunk::Small(class)) = chunk::load(memory, &layout, chunk) else { return Ok(()) };
        let mut states = vec![0; class.blocks() as usize];
        memory.read(layout.chunk(chunk), &mut states);
        let pages = Pages::load(memory, &layout, chunk);
        let is_kept = |page| pages.page(page) != pages::Page::Usual;
        let is_quiet = |page| is_kept(page) || pages::blocks_of(class, page).is_empty();
        if states.iter().all(|state| *state == 0) && (0..PAGES).all(is_quiet) {
            self.wait_for_commits();
            self.release_chunk(chunk)?;
            vacant.push((chunk, 0..PAGES));
            return Ok(());
        }
        let is_free = |block: &u64| states[*block as usize] == 0;
        let holds_nothing = |page: &u64| {
            let start = page * PAGE_BYTES;
            let mut blocks = pages::overlapping(class, start..start + PAGE_BYTES);
            blocks.all(|block| is_free(&block) && is_kept(pages::page_of(class, block)))
        };
        let (empty, rest): (Vec<u64>, Vec<u64>) =
            group.iter().map(|(_, page)| *page).partition(|page| *page > 0 && holds_nothing(page));
        for run in empty.chunk_by(|one, other| one + 1 == *other) {
            let run = run[0]..run[run.len() - 1] + 1;
            pages::vacate(memory, &layout, (chunk, run.clone()));
            vacant.push((chunk, run));
        }
        for page in rest {
            pages::forget(memory, &layout, (chunk, page));
        }
        self.note_usual(chunk);
        Ok(())
    }

    /// Waits for the commits that are in progress: they can store to objects whose states they have
    /// zeroed already.
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

    /// Frees a chunk in which nothing is allocated for any use, and marks it as vacant.
    fn release_chunk(&mut self, chunk: u64) -> Result<(), TxError> {
        self.with_chunk_lock(|session| {
            session.write_entries(&[(chunk, Chunk::Run(1))], true)?;
            // In this order: a thread that finds an old block of it in a list checks the pages
            // first.
            session.memory.swap(session.heap.layout.owner(chunk), 0);
            session.vacate_chunk(chunk);
            session.put_run(chunk, 1);
            Ok(())
        })
    }

    /// Marks a free chunk as vacant. The chunk lock is held.
    fn vacate_chunk(&self, chunk: u64) {
        let layout = &self.heap.layout;
        pages::renew(self.memory, layout, chunk);
        pages::set_holes(self.memory, layout, (chunk, 0..PAGES), true);
    }

    /// Returns vacant pages of a chunk to the system, unless they are in use again; returns their
    /// number.
    fn discard_vacant(&mut self, chunk: u64, vacant: Range<u64>) -> u64 {
        let (memory, layout) = (self.memory, self.heap.layout);
        let at = layout.chunk(chunk).plus(vacant.start * PAGE_BYTES);
        let count = vacant.end - vacant.start;
        let discard = |is_vacant: bool| {
            if is_vacant {
                memory.discard(at, count * PAGE_BYTES);
            }
            if is_vacant { count } else { 0 }
        };
        if count == PAGES {
            return self.with_chunk_lock(|session| {
                let is_free = session.is_free_chunk(chunk);
                discard(is_free && Pages::load(memory, &layout, chunk).are_holes())
            });
        }
        let pages = Pages::load(memory, &layout, chunk);
        let is_vacant = |page| pages.is_hole(page) && pages.page(page) == pages::Page::Kept;
        let discarded = discard(vacant.clone().all(is_vacant));
        for page in vacant.filter(|_| discarded > 0) {
            pages::forget(memory, &layout, (chunk, page));
        }
        self.note_usual(chunk);
        discarded
    }
}
