//! Recovery of a cycle that a crash interrupted: every object with a decided destination is moved
//! there (FFCCD, ISCA'22, Figures 7 and 9; see `relocate`).
//!
//! The time grows with the pages of the cycle, not with the heap. Pointers are left as they are:
//! they are fixed up when they are loaded, and by the next cycle, which begins where this one
//! ended.

use super::forwarding_table::{self, Entry, Move, Table};
use super::hardware::Hardware;
use super::options::Protocol;
use super::pages::{self, Page};
use super::relocate;
use crate::AccessError;
use crate::alloc::chunk::{self, Chunk, UNTYPED};
use crate::flaws::HeapFlaw;
use crate::heap::{Heap, checked_word};
use seawall_memory::{Addr, Memory, MemoryExt};
use std::collections::HashSet;

/// Refuses a table that is damaged in a way that no crash causes.
pub(crate) fn check<M: Memory>(memory: &M, heap: &Heap) -> Result<(), AccessError> {
    match find_table(memory, heap)? {
        Some((table, count, _)) => listed(memory, heap, table, count).map(drop),
        None => Ok(()),
    }
}

/// An interrupted cycle, whose objects are at their destinations again, in the caches.
pub(crate) struct Resumed {
    table: (Table, u64, Protocol),
    /// The number of live objects.
    count: u64,
    /// All objects, also those that were freed since: no thread is moving them any more.
    objects: Vec<Move>,
    /// States of destinations whose objects are no longer live.
    void: Vec<Addr>,
}

/// Completes the moves of the interrupted cycle, if any. The logs have been replayed; after a cycle
/// with hardware they must be replayed [once more](Resumed::copies_over).
pub(crate) fn resume<M: Memory>(memory: &M, heap: &Heap) -> Result<Option<Resumed>, AccessError> {
    let Some((table, count, protocol)) = find_table(memory, heap)? else { return Ok(None) };
    let entries = listed(memory, heap, table, count)?;
    let layout = &heap.layout;
    let (mut objects, mut dead, mut void) = (Vec::new(), Vec::new(), Vec::new());
    for (at, (chunk, page), entry) in &entries {
        if memory.load::<u64>(layout.first_entry(*chunk)) == 0 {
            memory.store(layout.first_entry(*chunk), *at);
        }
        let state = if entry.is_some() { Page::Moving } else { Page::Touched };
        let _ = pages::change(memory, layout, (*chunk, *page), (Page::Usual, state));
        let Some(entry) = entry else { continue };
        if memory.load::<u64>(layout.first_entry(entry.to.0)) == 0 {
            memory.store(layout.first_entry(entry.to.0), *at);
            pages::set_destination(memory, layout, entry.to.0, true);
        }
        for object in entry.moves(layout) {
            let [from, to] = entry.states(layout, &object);
            if memory.load::<u8>(from) == 0 {
                void.push(to);
                dead.push(object);
            } else if memory.load::<u8>(to) != 0 {
                objects.push(object);
            } else {
                dead.push(object);
            }
        }
    }
    let hardware = (protocol == Protocol::Ffccd).then(|| Hardware::of(layout, &table, count));
    for object in &objects {
        complete(memory, heap, object, (protocol, hardware.as_ref()));
    }
    // All objects have moved: hardware is not asked again.
    memory.store(layout.protocol(), Protocol::Espresso.number());
    memory.store(layout.phase, 2u64);
    let live = objects.len() as u64;
    objects.extend(dead);
    Ok(Some(Resumed { table: (table, count, protocol), count: live, objects, void }))
}

impl Resumed {
    /// Whether whole lines were copied over newer values from the logs: the reached bitmap does not
    /// cover what recovery stores.
    pub(crate) fn copies_over(&self) -> bool {
        self.table.2 == Protocol::Ffccd
    }

    /// Marks all objects as moved, when they are durable; returns their number. The logs are
    /// truncated after that.
    pub(crate) fn end<M: Memory>(self, memory: &M) -> u64 {
        let Resumed { table: (table, pages, protocol), count, objects, void } = self;
        for state in void {
            memory.store(state, 0u8);
            memory.flush(state, 1);
        }
        for object in &objects {
            object.set_state(memory, relocate::MOVED);
            memory.flush(Entry::state(object.entry, object.bit), 1);
        }
        memory.drain();
        if protocol == Protocol::Ffccd {
            table.set_head(memory, pages, Protocol::Espresso);
            memory.drain();
        }
        count
    }
}

/// A page of the table: the address of its entry, its chunk and number there, and the entry, if it
/// is in force.
type Listed = (Addr, (u64, u64), Option<Entry>);

/// Reads all pages of the table, and checks that all of them are sound.
fn listed<M: Memory>(
    memory: &M,
    heap: &Heap,
    table: Table,
    count: u64,
) -> Result<Vec<Listed>, AccessError> {
    let (layout, chunks) = (&heap.layout, heap.chunks(memory)?);
    let (mut entries, mut sources, mut taken) = (Vec::new(), HashSet::new(), HashSet::new());
    for number in 0..count {
        let at = table.entry(number);
        let head = checked_word::load(memory, at).map_err(|_| damaged("an entry"))?;
        let Some(page) = forwarding_table::page_of(head) else { continue };
        let entry = Entry::load(memory, heap, at)?;
        let before = entries.last().map(|(_, before, _): &Listed| *before);
        let is_next = match before {
            Some(before) if before.0 == page.0 => before.1 < page.1,
            _ => !(0..pages::PAGES).any(|other| sources.contains(&(page.0, other))),
        };
        if page.0 >= chunks || !is_next {
            return Err(damaged("a page"));
        }
        sources.insert(page);
        for object in entry.iter().flat_map(|entry| entry.moves(layout)) {
            let states = entry.expect("it has objects").states(layout, &object);
            let [from, to]: [u8; 2] = states.map(|at| memory.load(at));
            if from != to && from != 0 && to != 0 || !taken.insert(object.to) {
                return Err(damaged("an object"));
            }
        }
        entries.push((at, page, entry));
    }
    let is_source = |chunk| (0..pages::PAGES).any(|page| sources.contains(&(chunk, page)));
    let mut to = entries.iter().filter_map(|(_, _, entry)| entry.map(|entry| entry.to.0));
    if to.any(is_source) {
        return Err(damaged("a destination"));
    }
    Ok(entries)
}

fn damaged(what: &str) -> AccessError {
    AccessError::damaged(format!("{what} of the table of moved objects does not add up"))
}

fn find_table<M: Memory>(
    memory: &M,
    heap: &Heap,
) -> Result<Option<(Table, u64, Protocol)>, AccessError> {
    let layout = &heap.layout;
    if !layout.numbers.moves {
        return Ok(None);
    }
    let word =
        checked_word::load(memory, layout.moved_table()).map_err(|_| damaged("the place"))?;
    let Some(chunk) = word.checked_sub(1) else { return Ok(None) };
    let chunks = heap.chunks(memory)?;
    if chunk >= chunks {
        return Err(damaged("the place"));
    }
    let Chunk::Large(length, UNTYPED) = chunk::load_within(memory, layout, chunk, chunks)? else {
        return Err(damaged("the place"));
    };
    let table = Table::at(layout, chunk);
    let (pages, protocol) = table.head(memory).ok_or_else(|| damaged("the head"))?;
    if Table::chunks_for(layout, pages, protocol) > length {
        return Err(damaged("the head"));
    }
    Ok(Some((table, pages, protocol)))
}

/// Copies to the destination what the crash has lost of the copy, and nothing else.
fn complete<M: Memory>(
    memory: &M,
    heap: &Heap,
    object: &Move,
    (protocol, hardware): (Protocol, Option<&Hardware>),
) {
    let copy = |at: u64| {
        let word: u64 = memory.load(object.from.plus(at));
        memory.store(object.to.plus(at), word);
    };
    let is_blank = |at: &u64| memory.load::<u64>(object.to.plus(*at)) == heap.blank();
    let words = || (0..object.bytes).step_by(8);
    let is_copied = object.is_copied(memory);
    match protocol {
        // The paper's rule: copies again what was moved and differs, and all that was not moved.
        _ if heap.flaw.is(HeapFlaw::CopiesMoved) => words().for_each(copy),
        // The slides' rule, which is right where the copy is durable before its mark.
        Protocol::Espresso | Protocol::Sfccd if is_copied => {}
        Protocol::Espresso | Protocol::Sfccd => words().for_each(copy),
        Protocol::Ffccd if is_copied && heap.flaw.is(HeapFlaw::BelievesMoved) => {}
        Protocol::Ffccd => {
            let hardware = hardware.expect("of a table for hardware");
            let is_lost = |at: &u64| {
                let line = object.to.plus(*at).line().start();
                let is_own = object.has_alone(line);
                match is_own || heap.flaw.is(HeapFlaw::BelievesReached) {
                    true => !hardware.has_reached(memory, line),
                    false => is_blank(at),
                }
            };
            words().filter(is_lost).for_each(copy);
        }
    }
    memory.flush(object.to, object.bytes);
}

impl Heap {
    /// The word that destinations are filled with, which no program has by chance.
    pub(crate) fn blank(&self) -> u64 {
        let halves = self.uuid as u64 ^ (self.uuid >> 64) as u64;
        (halves ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xd6e8_feb8_6659_fd93) | 1
    }
}
