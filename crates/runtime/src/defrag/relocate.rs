//! Moving one object, by each of the three protocols (FFCCD, ISCA'22, sections 3 and 4).
//!
//! Whoever first follows a pointer to an object of a page that is emptied moves it; others wait for
//! that, and for nothing else. While it is moved the object does not change: who would change it
//! moves it first.
//!
//! | protocol | copy | fence | copied | fence | recovery |
//! |---|---|---|---|---|---|
//! | `espresso` | past the caches | yes | said, flushed | yes | copies again what is not copied |
//! | `sfccd` | past the caches | yes | said, flushed | | the same |
//! | `ffccd` | `relocate` | | | | copies the lines that were not reached |
//!
//! Software may copy through the caches instead, with a flush of each line, as published
//! ([`Copies::Cached`]).
//!
//! An object's byte in the table says how far it is. Who claims it changes it by a locked
//! operation, which is a fence on x86; all that follow are plain stores, so that no move has a
//! fence that its protocol does not have. The walk that moves what nobody has met claims up to
//! eight objects at once, of together a KiB, and but for Espresso has one fence for all of them.
//!
//! **The one fence of SFCCD.** The paper has it behind both the copy and the byte. Then neither of
//! the two recoveries that it and its slides state is right where an object has more than one line
//! (`crates/runtime/tests/defrag` has the counter-examples): the byte may have persisted where
//! lines of the copy were lost, as nothing orders them, or where the program has stored to the copy
//! since; the slides leave the first as it is, the paper copies over the second. Here it stands
//! between copy and byte, so that the byte is never wrong; and nothing that was stored to the copy
//! is durable before it: who moved the object has flushed the byte, and has a fence of its own
//! before it stores to an object or brings a pointer up to date; whoever meets a byte that is not
//! known to be durable flushes it, too, in front of a locked operation; and the walk leaves none
//! behind.
//!
//! **Blank words.** A line of which two objects have a part is reached when one of them was, so
//! `ffccd` looks at words there: such lines are filled with a word that no program has before the
//! cycle begins (64 bits made from the pool's uuid). One that is not blank after a crash was
//! copied, or is newer.

use super::forwarding_table::{ENTRY_BYTES, Entry, Move};
use super::options::{Copies, Protocol};
use super::pages::{self, Page, Pages};
use super::purpose::Purpose;
use crate::alloc::chunk::{self, Chunk};
use crate::flaws::HeapFlaw;
use crate::heap::Heap;
use seawall_memory::relocation::Relocate;
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use std::slice;

/// Instructions that are no accesses: to see that a chunk has no page that is emptied, and to find
/// an object in the table; estimates.
const CHECK: u32 = 8;
const LOOK_UP: u32 = 40;
/// Bytes of objects that are claimed at once: who needs one of them waits for no more.
const GROUP_BYTES: u64 = 1 << 10;

/// Nobody has begun to move the object.
const STILL: u8 = 0;
/// It is at its destination, and whatever the protocol wants is durable.
pub(super) const MOVED: u8 = 1;
/// Somebody is moving it; means nothing after a crash.
const CLAIMED: u8 = 2;
/// It is at its destination, and that is not known to be durable yet.
const COPIED: u8 = 3;

/// What following a pointer meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The object is where the pointer says, and stays there.
    Here,
    /// It may be moved soon, unless somebody writes to this page of this chunk.
    Watched(u64, u64),
    /// It moves.
    Moving(Move),
}

/// What there is at `at`, which may be anywhere in an object.
#[inline]
pub(crate) fn find<M: Memory>(memory: &M, heap: &Heap, at: Addr) -> Found {
    memory.work(CHECK);
    let Some(chunk) = heap.layout.chunk_of(at) else { return Found::Here };
    let pages = Pages::load(memory, &heap.layout, chunk);
    if pages.are_usual() || pages.is_destination() {
        return Found::Here;
    }
    find_in(memory, heap, (chunk, pages), at)
}

fn find_in<M: Memory>(memory: &M, heap: &Heap, (chunk, pages): (u64, Pages), at: Addr) -> Found {
    memory.work(LOOK_UP);
    let layout = &heap.layout;
    let Ok(Chunk::Small(class)) = chunk::load(memory, layout, chunk) else { return Found::Here };
    let Some(block) = pages::block_at(layout, class, chunk, at) else { return Found::Here };
    let page = pages::page_of(class, block);
    match pages.page(page) {
        Page::Usual | Page::Touched | Page::Kept => Found::Here,
        Page::Watched => Found::Watched(chunk, page),
        Page::Moving => {
            let first: Addr = memory.load(layout.first_entry(chunk));
            let entry = first.plus(ENTRY_BYTES * pages.listed_before(page));
            let entry = Entry::known(memory, entry, (chunk, page, class));
            let bit = (block - pages::blocks_of(class, page).start) as u32;
            entry.object(layout, bit).map_or(Found::Here, Found::Moving)
        }
    }
}

impl Move {
    /// True if no other copy has a part of the line at `line`, which its own has one of.
    pub(super) fn has_alone(&self, line: Addr) -> bool {
        line >= self.to && line.plus(LINE_BYTES) <= self.to.plus(self.bytes)
    }

    fn state<M: Memory>(&self, memory: &M) -> u8 {
        memory.load(Entry::state(self.entry, self.bit))
    }

    pub(super) fn set_state<M: Memory>(&self, memory: &M, state: u8) {
        memory.store(Entry::state(self.entry, self.bit), state);
    }

    /// The word of the table that its byte is in, and where in that.
    fn word(&self) -> (Addr, u64) {
        let at = Entry::state(self.entry, self.bit);
        (Addr::from_bits(at.bits() & !7), 8 * (at.bits() % 8))
    }

    /// Moves the object, or waits for who does. True if this thread did.
    pub(crate) fn ensure<M: Memory>(&self, memory: &M, heap: &Heap) -> bool {
        let (word, shift) = self.word();
        loop {
            if self.state(memory) == MOVED {
                return false;
            }
            let now: u64 = memory.load(word);
            match (now >> shift) as u8 {
                MOVED => return false,
                STILL => {
                    let own = claim(memory, slice::from_ref(self));
                    copy(memory, heap, &own);
                    if !own.is_empty() {
                        return true;
                    }
                }
                COPIED if heap.flaw.is(HeapFlaw::TrustsCopied) => return false,
                COPIED if heap.protocol(memory) == Protocol::Sfccd => {
                    memory.flush(word, 8);
                    let moved = now ^ u64::from(COPIED ^ MOVED) << shift;
                    if memory.compare_exchange(word, now, moved).is_ok() {
                        return false;
                    }
                }
                _ => drop(memory.spin_while(word, now)),
            }
        }
    }

    /// Behind an order by the thread that moved it: nobody has to see to it any more that this is
    /// durable.
    pub(crate) fn settle<M: Memory>(&self, memory: &M, heap: &Heap) {
        if heap.protocol(memory) == Protocol::Sfccd {
            self.set_state(memory, MOVED);
        }
    }

    /// True if it was copied, and that was said before the crash.
    pub(super) fn is_copied<M: Memory>(&self, memory: &M) -> bool {
        matches!(self.state(memory), MOVED | COPIED)
    }

    /// Loads what copying it soon needs: copies wait for each other, loads do not.
    pub(super) fn look_ahead<M: Memory>(&self, memory: &M, heap: &Heap) {
        Purpose::Copy.charge(memory, || self.load_ahead(memory, heap));
    }

    fn load_ahead<M: Memory>(&self, memory: &M, heap: &Heap) {
        if self.state(memory) == STILL {
            let lines = (0..self.bytes).step_by(LINE_BYTES as usize);
            for line in lines.clone() {
                memory.load::<u64>(self.from.plus(line));
            }
            let last = self.to.plus(self.bytes - 8);
            if heap.copies(memory) == Copies::Cached {
                for line in lines {
                    memory.load::<u64>(self.to.plus(line));
                }
                memory.load::<u64>(last);
            } else if heap.protocol(memory) == Protocol::Ffccd {
                memory.load::<u64>(self.to);
                memory.load::<u64>(last);
            }
        }
    }
}

/// Moves the objects, or waits for who does, as [`Move::ensure`] each of them, with one locked
/// operation and one fence for as many as may be; gives those that this thread moved.
pub(super) fn ensure_all<M: Memory>(memory: &M, heap: &Heap, objects: &[Move]) -> Vec<Move> {
    let most = match (heap.protocol(memory), heap.copies(memory)) {
        (Protocol::Espresso, _) | (_, Copies::Cached) => 1,
        (Protocol::Sfccd | Protocol::Ffccd, _) => GROUP_BYTES,
    };
    let mut moved = Vec::new();
    for group in objects.chunk_by(|one, other| one.word().0 == other.word().0) {
        for group in group.chunks((most / group[0].bytes).max(1) as usize) {
            let own = claim(memory, group);
            copy(memory, heap, &own);
            let others = group.iter().filter(|object| !own.contains(object));
            moved.extend(others.filter(|object| object.ensure(memory, heap)));
            moved.extend(&own);
        }
    }
    moved
}

/// Claims those of the objects of one word that nobody has begun to move.
fn claim<M: Memory>(memory: &M, objects: &[Move]) -> Vec<Move> {
    let word = objects[0].word().0;
    let mut now: u64 = memory.load(word);
    loop {
        let is_still = |object: &&Move| (now >> object.word().1) as u8 == STILL;
        let own: Vec<Move> = objects.iter().filter(is_still).copied().collect();
        let mark = |object: &Move| u64::from(CLAIMED) << object.word().1;
        let claimed = own.iter().map(mark).fold(now, |word, mark| word | mark);
        if own.is_empty() {
            return own;
        }
        match memory.compare_exchange(word, now, claimed) {
            Ok(_) => return own,
            Err(other) => now = other,
        }
    }
}

/// Copies objects of one word, which this thread has claimed.
fn copy<M: Memory>(memory: &M, heap: &Heap, objects: &[Move]) {
    Purpose::Copy.charge(memory, || match heap.protocol(memory) {
        Protocol::Ffccd => objects.iter().for_each(|object| {
            memory.relocate(object.to, object.from, object.bytes);
            object.set_state(memory, MOVED);
        }),
        protocol if !objects.is_empty() => copy_by(memory, heap, objects, protocol),
        _ => {}
    });
}

fn copy_by<M: Memory>(memory: &M, heap: &Heap, objects: &[Move], protocol: Protocol) {
    let copies = heap.copies(memory);
    for object in objects {
        let mut bytes = vec![0; object.bytes as usize];
        memory.read(object.from, &mut bytes);
        match copies {
            Copies::PastCaches => memory.write_nt(object.to, &bytes),
            Copies::Cached => {
                memory.write(object.to, &bytes);
                memory.flush(object.to, object.bytes);
            }
        }
    }
    let flaws = [HeapFlaw::CopiesMoved, HeapFlaw::BelievesMoved];
    let says_first = flaws.into_iter().any(|flaw| heap.flaw.is(flaw));
    if !says_first {
        memory.drain();
    }
    objects.iter().for_each(|object| object.set_state(memory, COPIED));
    memory.flush(objects[0].word().0, 8);
    if says_first || protocol == Protocol::Espresso {
        memory.drain();
        objects.iter().for_each(|object| object.set_state(memory, MOVED));
    }
}

/// True if the object of the block at `at` is to be shown to whoever walks over all: one that moves
/// is, where it comes from, unless it was freed; and where it went, once its page is released.
pub(crate) fn is_shown<M: Memory>(memory: &M, heap: &Heap, at: Addr) -> bool {
    let layout = &heap.layout;
    let chunk = layout.chunk_of(at).expect("a block lies in a chunk");
    if Pages::load(memory, layout, chunk).is_destination() {
        let came = Entry::of_destination(memory, heap, chunk, at);
        let is_released = |(entry, object): (Entry, Move)| {
            memory.load::<u8>(entry.states(layout, &object)[0]) == 0
        };
        return came.is_none_or(is_released);
    }
    match find(memory, heap, at) {
        Found::Moving(object) => memory.load::<u8>(object.state) != 0,
        _ => true,
    }
}
