//! Moving one object, by each of the three protocols (FFCCD, ISCA'22, sections 3 and 4).
//!
//! Whoever first follows a pointer to an object of a page that is emptied moves it; others wait for
//! that, and for nothing else. While it is moved the object does not change: who would change it
//! moves it first.
//!
//! | protocol | copy | fence | moved | fence | recovery |
//! |---|---|---|---|---|---|
//! | `espresso` | written, flushed | yes | set, flushed | yes | copies again what is not moved |
//! | `sfccd` | written, flushed | | set, flushed | yes | copies the words that are still blank |
//! | `ffccd` | `relocate` | | set | | copies the lines that were not reached |
//!
//! **Blank words.** Neither of the two published recoveries of SFCCD is right where an object has
//! more than one line (`crates/runtime/tests/defrag` has the counter-examples): with `moved` set a
//! crash may have lost lines of the copy, as nothing orders them, or kept what the program stored
//! after the fence; the slides leave the first as it is, the paper copies over the second. So the
//! destinations are filled with a word that no program has before the cycle begins (`blank`, 64
//! bits made from the pool's uuid). A word that is not blank after a crash was copied, or is newer.

use super::Protocol;
use super::pages::{self, Page, Pages};
use super::table::{ENTRY_BYTES, Entry, Move};
use crate::heap::Heap;
use crate::heap::chunks::{self, Chunk};
use seawall_memory::{Addr, Memory, Purpose};

/// Instructions that are no accesses: to see that a chunk has no page that is emptied, and to find
/// an object in the table; estimates.
const CHECK: u32 = 8;
const LOOK_UP: u32 = 40;

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

    pub(super) fn word(&self, words: Addr) -> (Addr, u64) {
        (words.plus(u64::from(self.bit / 64) * 8), 1 << (self.bit % 64))
    }

    /// True if the object is at its destination, and whatever the protocol wants is durable.
    #[inline]
    pub(crate) fn is_done<M: Memory>(&self, memory: &M) -> bool {
        let (claimed, bit) = self.word(Entry::claimed(self.entry));
        // In this order: whoever moves it claims it before it is moved, and gives it back after.
        self.is_moved(memory) && memory.load::<u64>(claimed) & bit == 0
    }

    /// Moves the object, or waits for who does. True if this thread did.
    pub(crate) fn ensure<M: Memory>(&self, memory: &M, protocol: Protocol) -> bool {
        let (claimed, bit) = self.word(Entry::claimed(self.entry));
        loop {
            if self.is_done(memory) {
                return false;
            }
            let now: u64 = memory.load(claimed);
            if now & bit != 0 {
                memory.spin_while(claimed, now);
            } else if memory.compare_exchange(claimed, now, now | bit).is_ok() {
                break;
            }
        }
        let does = !self.is_moved(memory);
        if does {
            self.copy(memory, protocol);
        }
        change(memory, claimed, |word| word & !bit);
        does
    }

    pub(super) fn is_moved<M: Memory>(&self, memory: &M) -> bool {
        memory.load::<u8>(Entry::moved(self.entry, self.bit)) != 0
    }

    fn copy<M: Memory>(&self, memory: &M, protocol: Protocol) {
        let before = memory.purpose(Purpose::Copy);
        self.copy_by(memory, protocol);
        memory.purpose(before);
    }

    fn copy_by<M: Memory>(&self, memory: &M, protocol: Protocol) {
        let moved = Entry::moved(self.entry, self.bit);
        if protocol == Protocol::Ffccd {
            memory.relocate(self.to, self.from, self.bytes);
            return memory.store(moved, 1u8);
        }
        let mut bytes = vec![0; self.bytes as usize];
        memory.read(self.from, &mut bytes);
        memory.write(self.to, &bytes);
        memory.flush(self.to, self.bytes);
        if protocol == Protocol::Espresso {
            memory.drain();
        }
        memory.store(moved, 1u8);
        memory.flush(moved, 1);
        memory.drain();
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
