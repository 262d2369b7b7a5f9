//! Moving one object, by each of the three protocols (FFCCD, ISCA'22, sections 3 and 4).
//!
//! The first thread that follows a pointer to an object of a page that is emptied moves the object;
//! other threads wait for that, and for nothing else. The object does not change while it moves: a
//! thread that wants to change it moves it first.
//!
//! | protocol | copy | fence | copied | fence | recovery |
//! |---|---|---|---|---|---|
//! | `espresso` | past the caches | yes | marked, flushed | yes | copies again what is not marked |
//! | `sfccd` | past the caches | yes | marked, flushed | | the same |
//! | `ffccd` | `relocate` | | | | copies the lines that were not reached |
//!
//! As published ([`Manner::Published`](super::Manner)), software copies through the caches, with
//! a flush of each line, and there are no locked operations: the lock of the program keeps other
//! threads from the object, and is held by whoever takes a step that moves objects. Then a mark
//! "copied" stays until the next fence of the cycle, and each thread that finds it flushes it.
//!
//! A byte in the table (the mark) is the state of an object's move. A thread claims the object by a
//! locked operation on the mark, which is a fence on x86; all later changes are plain stores, so no
//! move has a fence that its protocol does not have. The walk that moves the remaining objects
//! claims up to eight at once, of 1 KiB together, and except for Espresso has one fence for all.
//!
//! **The one fence of SFCCD.** The paper has it behind both the copy and the mark. Then neither the
//! recovery in the paper nor the one in its slides is right for objects of more than one line
//! (`crates/runtime/tests/defrag` has the counter-examples). The mark can persist while lines of
//! the copy are lost, as nothing orders them: the slides leave such a copy as it is. Or the mark
//! can persist after the program has stored to the copy: the paper overwrites such stores. Here the
//! fence stands between copy and mark, so the mark is never wrong; and no store to the copy is
//! durable before the mark. The thread that moved the object has flushed the mark, and has a fence
//! of its own before it stores to an object or fixes up a pointer. A thread that finds a mark not
//! known to be durable flushes it, too, before a locked operation. The walk leaves no such mark.
//!
//! **Blank words.** A line that two objects share counts as reached when one of the copies has
//! persisted, so `ffccd` checks words there. Before the cycle begins, such lines are filled with a
//! word that no program has (64 bits made from the pool's UUID). A word that is not blank after a
//! crash was copied, or is newer.

use super::forwarding_table::{ENTRY_BYTES, Entry, Move};
use super::options::Protocol;
use super::pages::{self, Page, Pages};
use super::purpose::Purpose;
use crate::alloc::chunk::{self, Chunk};
use crate::flaws::HeapFlaw;
use crate::heap::Heap;
use seawall_memory::relocation::Relocate;
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use std::slice;

/// Estimated instructions besides memory accesses: to check that a chunk has no page that is
/// emptied, and to find an object in the table.
const CHECK: u32 = 8;
const LOOK_UP: u32 = 40;
/// Maximum bytes of objects that are claimed at once: a thread that needs one waits for no more.
const GROUP_BYTES: u64 = 1 << 10;

/// No thread has begun to move the object.
const STILL: u8 = 0;
/// It is at its destination, and what the protocol requires is durable.
pub(super) const MOVED: u8 = 1;
/// A thread is moving it; has no meaning after a crash.
const CLAIMED: u8 = 2;
/// It is at its destination, but this mark may not be durable yet.
const COPIED: u8 = 3;

/// What a pointer leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The object is where the pointer says, and stays there.
    Here,
    /// The object can be moved soon, unless a thread writes to this page of this chunk.
    Watched(u64, u64),
    /// The object moves.
    Moving(Move),
}

/// Finds what is at `at`, which can be anywhere in an object.
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
    /// Whether the line at `line`, which its copy overlaps, is shared with no other copy.
    pub(super) fn has_alone(&self, line: Addr) -> bool {
        line >= self.to && line.plus(LINE_BYTES) <= self.to.plus(self.bytes)
    }

    fn state<M: Memory>(&self, memory: &M) -> u8 {
        memory.load(Entry::state(self.entry, self.bit))
    }

    pub(super) fn set_state<M: Memory>(&self, memory: &M, state: u8) {
        memory.store(Entry::state(self.entry, self.bit), state);
    }

    /// The word of the table that holds its mark, and the shift of the mark.
    fn word(&self) -> (Addr, u64) {
        let at = Entry::state(self.entry, self.bit);
        (Addr::from_bits(at.bits() & !7), 8 * (at.bits() % 8))
    }

    /// Moves the object, or waits for the thread that does. Returns whether this thread moved it.
    pub(crate) fn ensure<M: Memory>(&self, memory: &M, heap: &Heap) -> bool {
        if heap.is_published(memory) {
            return self.ensure_alone(memory, heap);
        }
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

    /// As published: the same where no other thread can access the object.
    fn ensure_alone<M: Memory>(&self, memory: &M, heap: &Heap) -> bool {
        let is_still = self.is_still(memory, heap);
        if is_still {
            copy(memory, heap, slice::from_ref(self));
            note_move(memory, heap);
        }
        is_still
    }

    /// As published: whether the object has not moved. Flushes the mark of one that has.
    pub(super) fn is_still<M: Memory>(&self, memory: &M, heap: &Heap) -> bool {
        let state = self.state(memory);
        if state == COPIED && !heap.flaw.is(HeapFlaw::TrustsCopied) {
            memory.flush(Entry::state(self.entry, self.bit), 1);
        }
        state == STILL
    }

    /// Marks the move as durable, after a fence of the thread that moved the object: other threads
    /// need not flush the mark.
    pub(crate) fn settle<M: Memory>(&self, memory: &M, heap: &Heap) {
        if heap.protocol(memory) == Protocol::Sfccd {
            self.set_state(memory, MOVED);
        }
    }

    /// Whether it was copied and marked so before the crash.
    pub(super) fn is_copied<M: Memory>(&self, memory: &M) -> bool {
        matches!(self.state(memory), MOVED | COPIED)
    }

    /// Prefetches what copying the object will need: copies wait for each other, loads do not.
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
            if heap.is_published(memory) {
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

/// As [`Move::ensure`] for each of the objects, with one locked operation and one fence for as many
/// as the protocol permits; returns those that this thread moved.
pub(super) fn ensure_all<M: Memory>(memory: &M, heap: &Heap, objects: &[Move]) -> Vec<Move> {
    if heap.is_published(memory) {
        let moved = objects.iter().filter(|object| object.ensure_alone(memory, heap));
        return moved.copied().collect();
    }
    let most = match heap.protocol(memory) {
        Protocol::Espresso => 1,
        Protocol::Sfccd | Protocol::Ffccd => GROUP_BYTES,
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

/// Claims those of the objects of one word that no thread has begun to move.
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
    let is_published = heap.is_published(memory);
    for object in objects {
        let mut bytes = vec![0; object.bytes as usize];
        memory.read(object.from, &mut bytes);
        if is_published {
            memory.write(object.to, &bytes);
            memory.flush(object.to, object.bytes);
        } else {
            memory.write_nt(object.to, &bytes);
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

/// As published: says that an object has moved, for the check whether any has.
fn note_move<M: Memory>(memory: &M, heap: &Heap) {
    let moves = heap.layout.moves();
    memory.store(moves, memory.load::<u64>(moves) + 1);
}

/// Whether a walk over all objects shows the block at `at`. Of an object that moves it shows the
/// source, unless the object was freed, and the destination once the page is released.
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
