//! The decision of a cycle: the destinations of objects, durable before the first of them moves
//! (FFCCD, ISCA'22, section 4.3.1).

use super::cycle::{Defragmenter, Stage, Step, watch_over};
use super::forwarding_table::{Entry, Table};
use super::grace::Grace;
use super::hardware::Hardware;
use super::known::Known;
use super::options::{DefragError, Protocol};
use super::pages::{self, Page, Pages};
use super::plan::Surveyed;
use crate::alloc::chunk::{self, Chunk, UNTYPED};
use crate::alloc::size_class::{Class, STATE_BYTES};
use crate::heap::checked_word;
use crate::heap::layout::Layout;
use crate::tx::record::Builder;
use crate::tx::redo_log::Wait;
use crate::{Session, TxError};
use seawall_memory::relocation::Relocate;
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use std::ops::Range;

/// The objects that one log record decides or releases; at least those of one page.
pub(super) const BATCH_OBJECTS: u32 = 64;

/// The pages that are watched at a time, at least those of one chunk: the sooner they are decided,
/// the fewer of them are written to in between.
const BATCH_PAGES: usize = 16;

/// A decision in progress.
#[derive(Debug)]
pub(super) struct Decision {
    chosen: Vec<Surveyed>,
    next: usize,
    /// The number of pages that are watched, or were.
    watched: usize,
    /// The scopes that can write to the last of those unnoticed.
    pub(super) grace: Grace,
    /// The chunk that the objects of the last page go to, its class, and its next free block.
    to: Option<(Class, u64, u64)>,
}

impl Decision {
    pub(super) fn of(chosen: Vec<Surveyed>) -> Decision {
        Decision { chosen, next: 0, watched: 0, grace: Grace::default(), to: None }
    }

    /// Takes consecutive blocks for the objects of a page; blank where recovery checks words.
    fn destination<M: Memory>(
        &mut self,
        session: &mut Session<'_, M>,
        entry: &Entry,
        protocol: Protocol,
    ) -> Result<(u64, u64), TxError> {
        let (memory, layout, class) = (session.memory, session.heap.layout, entry.class);
        let count = u64::from(entry.objects.count_ones());
        let fits =
            |(its, _, next): &(Class, u64, u64)| *its == class && next + count <= class.blocks();
        let (chunk, first) = match self.to.filter(fits) {
            Some((_, chunk, next)) => (chunk, next),
            None => {
                let chunk = session.fresh(Chunk::Small(class), STATE_BYTES)?;
                memory.store(layout.first_entry(chunk), entry.at);
                pages::set_destination(memory, &layout, chunk, true);
                (chunk, 0)
            }
        };
        self.to = Some((class, chunk, first + count));
        let start = |block| pages::start_of(&layout, class, chunk, block);
        let all = start(first)..start(first + count);
        let lines = (first..=first + count).filter_map(|block| line_around(start(block)));
        for line in lines.filter(|_| protocol == Protocol::Ffccd) {
            let part = line.start.max(all.start)..line.end.min(all.end);
            let words = (part.end.bits() - part.start.bits()) / 8;
            memory.write_nt(part.start, &session.heap.blank().to_le_bytes().repeat(words as usize));
        }
        Ok((chunk, first))
    }
}

/// The line that two adjacent blocks share that meet at `at`, if they share one.
fn line_around(at: Addr) -> Option<Range<Addr>> {
    let into = at.bits() % LINE_BYTES;
    let start = Addr::from_bits(at.bits() - into);
    (into > 0).then(|| start..start.plus(LINE_BYTES))
}

impl Defragmenter {
    /// Allocates a table for that many pages, and records it in the pool.
    pub(super) fn place_table<M: Memory>(
        &mut self,
        session: &mut Session<'_, M>,
        pages: u64,
    ) -> Result<Table, TxError> {
        let (layout, protocol) = (session.heap.layout, self.options.protocol);
        let length = Table::chunks_for(&layout, pages, protocol);
        let block = session.take_large(length)?;
        let table = Table::at(&layout, block.chunk);
        table.clear(session.memory, pages, protocol);
        let hardware = (protocol == Protocol::Ffccd).then(|| Hardware::of(&layout, &table, pages));
        hardware.iter().for_each(|hardware| hardware.clear(session.memory));
        session.memory.order();
        let mut builder = Builder::default();
        builder.clear();
        let (entry, word) = (layout.chunk_entry(block.chunk), layout.moved_table());
        builder.push_word(entry, Chunk::Large(length, UNTYPED).encode(entry));
        builder.push_word(word, checked_word::encode(word, block.chunk + 1));
        session.log.commit(session.memory, &mut builder, Wait::Durable)?;
        session.memory.set_relocation(hardware.map(|hardware| hardware.registers));
        self.hardware = hardware;
        Ok(table)
    }

    pub(super) fn decide<M: Memory>(
        &mut self,
        session: &mut Session<'_, M>,
        mut decision: Decision,
    ) -> Result<Step, DefragError> {
        let (memory, layout) = (session.memory, session.heap.layout);
        if decision.next == decision.watched {
            return match decision.next == decision.chosen.len() {
                true => self.decided(session),
                false => self.watch_more(session, decision),
            };
        }
        if !decision.grace.is_over(memory, &layout) {
            self.stage = Stage::Decide(decision);
            return Ok(Step::Waits);
        }
        let (mut last, mut objects, mut entries) = (decision.next, 0, Vec::new());
        while last < decision.watched && objects < BATCH_OBJECTS {
            match self.entry(session, &mut decision, last) {
                Ok(entry) => {
                    objects += entry.objects.count_ones().max(1);
                    entries.push(entry);
                }
                Err(error) => return self.decide_no_more(session, &decision, (last, error)),
            }
            last += 1;
        }
        self.hardware.iter_mut().for_each(|hardware| hardware.add_tail(memory));
        for entry in entries.iter().filter(|entry| entry.objects == 0) {
            let page = (entry.chunk, entry.page);
            let _ = pages::change(memory, &layout, page, (Page::Watched, Page::Touched));
        }
        entries.retain(|entry| entry.objects != 0);
        memory.order();
        put_in_force(session, &entries, true)?;
        let is_untouched = |entry: &Entry| {
            let page = (entry.chunk, entry.page);
            pages::change(memory, &layout, page, (Page::Watched, Page::Moving)).is_ok()
        };
        let touched: Vec<Entry> =
            entries.into_iter().filter(|entry| !is_untouched(entry)).collect();
        self.counts.touched += touched.len() as u64;
        put_in_force(session, &touched, false)?;
        decision.next = last;
        if last < decision.chosen.len() {
            return self.go(Stage::Decide(decision));
        }
        self.decided(session)
    }

    /// Begins to watch the pages of the next few chunks.
    fn watch_more<M: Memory>(
        &mut self,
        session: &mut Session<'_, M>,
        mut decision: Decision,
    ) -> Result<Step, DefragError> {
        let first = decision.watched;
        let rest = &decision.chosen[first..];
        let mut count = 0;
        for group in rest.chunk_by(|one, other| one.chunk == other.chunk) {
            if count >= BATCH_PAGES {
                break;
            }
            count += group.len();
        }
        let watched = match watch_over(session, &rest[..count]) {
            Ok(watched) => watched,
            Err(error) => {
                return self.decide_no_more(session, &decision, (first, error.into()));
            }
        };
        decision.watched += watched.len();
        decision.chosen.splice(first..first + count, watched);
        decision.grace = Grace::of_now(session.memory, &session.heap.layout);
        self.go(Stage::Decide(decision))
    }

    fn decided<M: Memory>(&mut self, session: &Session<'_, M>) -> Result<Step, DefragError> {
        if let Some(hardware) = &self.hardware {
            hardware.show(session.memory);
        }
        session.memory.swap(session.heap.layout.phase, 2);
        self.go(Stage::Named(Grace::of_now(session.memory, &session.heap.layout)))
    }

    /// Ends the decision for lack of room: the pages decided so far are emptied, the rest stay as
    /// they are. `written` entries have been written.
    fn decide_no_more<M: Memory>(
        &mut self,
        session: &Session<'_, M>,
        decision: &Decision,
        (written, error): (usize, TxError),
    ) -> Result<Step, DefragError> {
        let layout = &session.heap.layout;
        let memory = session.memory;
        let rest = decision.chosen[decision.next..].iter();
        for page in rest.filter(|page| is_listed(memory, layout, page)) {
            pages::forget(memory, layout, (page.chunk, page.page));
            session.note_usual(page.chunk);
        }
        self.pages = written as u64;
        self.hardware.iter_mut().for_each(|hardware| hardware.add_tail(memory));
        self.decided(session)?;
        Err(error.into())
    }

    /// Writes the entry of a page, not in force: with no objects if the page must stay.
    fn entry<M: Memory>(
        &mut self,
        session: &mut Session<'_, M>,
        decision: &mut Decision,
        number: usize,
    ) -> Result<Entry, TxError> {
        let (memory, layout) = (session.memory, session.heap.layout);
        let Surveyed { class, chunk, page, objects, .. } = decision.chosen[number];
        let at = self.table.expect("placed").entry(number as u64);
        if number == 0 || decision.chosen[number - 1].chunk != chunk {
            memory.store(layout.first_entry(chunk), at);
        }
        let mut entry = Entry { at, chunk, page, class, objects: 0, to: (0, 0) };
        let state = Pages::load(memory, &layout, chunk).page(page);
        self.counts.touched += u64::from(state == Page::Touched);
        let is_watched = state == Page::Watched;
        let live = entry.live_in_page(memory, &layout).filter(|_| is_watched).unwrap_or(0);
        // A page that was filled up before it was watched is no longer worth emptying.
        let is_sparse = (1..=objects).contains(&live.count_ones().into());
        if is_sparse && has_known_types(&self.known, memory, &layout, &entry, live) {
            entry.objects = live;
            entry.to = decision.destination(session, &entry, self.options.protocol)?;
        }
        if let Some(hardware) = &mut self.hardware {
            hardware.add(memory, &layout, (number as u64, &entry));
        }
        entry.write(memory);
        Ok(entry)
    }
}

/// Whether the page is or was watched.
fn is_listed<M: Memory>(memory: &M, layout: &Layout, page: &Surveyed) -> bool {
    Pages::load(memory, layout, page.chunk).page(page.page) != Page::Usual
}

/// Whether all objects of the page have types whose pointers are known.
fn has_known_types<M: Memory>(
    known: &Known,
    memory: &M,
    layout: &Layout,
    entry: &Entry,
    live: u128,
) -> bool {
    let first = pages::blocks_of(entry.class, entry.page).start;
    (0..128).filter(|bit| live >> bit & 1 == 1).all(|bit| {
        let state = memory.load::<u8>(layout.chunk(entry.chunk).plus(first + bit));
        chunk::tag(state).is_some_and(|tag| known.pointers(tag).is_some())
    })
}

/// Puts the entries in force with one log record, and marks the destinations of their objects as
/// live; or takes that back.
fn put_in_force<M: Memory>(
    session: &mut Session<'_, M>,
    entries: &[Entry],
    is_in_force: bool,
) -> Result<(), TxError> {
    if entries.is_empty() {
        return Ok(());
    }
    let (memory, layout) = (session.memory, session.heap.layout);
    let mut builder = Builder::default();
    builder.clear();
    for entry in entries {
        builder.push_word(entry.at, entry.head(is_in_force));
        for object in entry.moves(&layout) {
            let [from, to] = entry.states(&layout, &object);
            push_state(&mut builder, to, if is_in_force { memory.load(from) } else { 0 });
        }
    }
    session.log.commit(memory, &mut builder, Wait::Durable)
}

pub(super) fn push_state(builder: &mut Builder, at: Addr, state: u8) {
    let (word, byte) = (Addr::from_bits(at.bits() & !7), at.bits() % 8);
    builder.push_bytes(word, 1 << byte, u64::from(state) << (8 * byte));
}
