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
//! An object's byte in the table says how far it is. Who claims it changes it by a locked
//! operation, which is a fence on x86; all that follow are plain stores, so that no move has a
//! fence that its protocol does not have.
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

use super::Protocol;
use super::pages::{self, Page, Pages};
use super::table::{ENTRY_BYTES, Entry, Move};
use crate::HeapFlaw;
use crate::heap::Heap;
use crate::heap::chunks::{self, Chunk};
use seawall_memory::{Addr, LINE_BYTES, Memory, Purpose};

/// Instructions that are no accesses: to see that a chunk has no page that is emptied, and to find
/// an object in the table; estimates.
const CHECK: u32 = 8;
const LOOK_UP: u32 = 40;

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
    let Ok(Chunk::Small(class)) = chunks::load(memory, layout, chunk) else { return Found::Here };
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
    /// True if `at` is in its destination.
    pub(crate) fn has_put(&self, at: Addr) -> bool {
        at >= self.to && at < self.to.plus(self.bytes)
    }

    fn state<M: Memory>(&self, memory: &M) -> u8 {
        memory.load(Entry::state(self.entry, self.bit))
    }

    pub(super) fn set_state<M: Memory>(&self, memory: &M, state: u8) {
        memory.store(Entry::state(self.entry, self.bit), state);
    }

    /// Moves the object, or waits for who does. True if this thread did.
    pub(crate) fn ensure<M: Memory>(&self, memory: &M, heap: &Heap) -> bool {
        let protocol = heap.protocol(memory);
        let at = Entry::state(self.entry, self.bit);
        let (word, shift) = (Addr::from_bits(at.bits() & !7), 8 * (at.bits() % 8));
        loop {
            if self.state(memory) == MOVED {
                return false;
            }
            let now: u64 = memory.load(word);
            match (now >> shift) as u8 {
                MOVED => return false,
                STILL => {
                    let claimed = now | u64::from(CLAIMED) << shift;
                    if memory.compare_exchange(word, now, claimed).is_ok() {
                        self.copy(memory, heap);
                        return true;
                    }
                }
                COPIED if heap.flaw == HeapFlaw::TrustsCopied => return false,
                COPIED if protocol == Protocol::Sfccd => {
                    memory.flush(at, 1);
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
    pub(super) fn look_ahead<M: Memory>(&self, memory: &M, protocol: Protocol) {
        let before = memory.purpose(Purpose::Copy);
        if self.state(memory) == STILL {
            for line in (0..self.bytes).step_by(LINE_BYTES as usize) {
                memory.load::<u64>(self.from.plus(line));
            }
            if protocol == Protocol::Ffccd {
                memory.load::<u64>(self.to);
                memory.load::<u64>(self.to.plus(self.bytes - 8));
            }
        }
        memory.purpose(before);
    }

    fn copy<M: Memory>(&self, memory: &M, heap: &Heap) {
        let before = memory.purpose(Purpose::Copy);
        self.copy_by(memory, heap);
        memory.purpose(before);
    }

    fn copy_by<M: Memory>(&self, memory: &M, heap: &Heap) {
        let protocol = heap.protocol(memory);
        if protocol == Protocol::Ffccd {
            memory.relocate(self.to, self.from, self.bytes);
            return self.set_state(memory, MOVED);
        }
        let mut bytes = vec![0; self.bytes as usize];
        memory.read(self.from, &mut bytes);
        memory.write_nt(self.to, &bytes);
        let says_first = matches!(heap.flaw, HeapFlaw::CopiesMoved | HeapFlaw::BelievesMoved);
        if !says_first {
            memory.drain();
        }
        self.set_state(memory, COPIED);
        memory.flush(Entry::state(self.entry, self.bit), 1);
        if says_first || protocol == Protocol::Espresso {
            memory.drain();
            self.set_state(memory, MOVED);
        }
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

/// Changes a word that several threads change.
pub(crate) fn change<M: Memory>(memory: &M, at: Addr, to: impl Fn(u64) -> u64) {
    let mut word: u64 = memory.load(at);
    while let Err(now) = memory.compare_exchange(at, word, to(word)) {
        word = now;
    }
}
