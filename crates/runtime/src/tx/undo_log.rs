//! The undo log: it lets a transaction change data in place before it commits.
//!
//! Before bytes are changed for the first time, a record of their old values goes to the thread's
//! undo log, with a fence of its own; then they can be stored and can persist at any time. Commit
//! writes the new values as one redo record, which also marks the end of the undo transaction: so a
//! commit flushes no data and costs one more fence. Abort reads the old values back, restores them
//! and writes such a record with them as the new ones. (In pools whose programs store in place,
//! [both](super::in_place) flush the data instead.)
//!
//! Where data may be flushed early ([`Heap::flushing_early`]), a commit flushes the new values of a
//! long range instead of logging them: for one more fence they are not written to the log. Its
//! record has an entry *freed* for them, so that older values of these bytes are void. Before the
//! record is durable, a crash restores the old values.
//!
//! The records of an undo transaction carry its number, which grows from one transaction to the
//! next. Recovery rolls back the one undo transaction whose number is greater than that of the last
//! that ended.

use super::checksum::Keys;
use super::reach::Reach;
use super::record::Builder;
use crate::alloc::block::Block;
use crate::flaws::{HeapFlaw, Planted};
use crate::heap::checked_word;
use crate::{Heap, Route, RouteChoice};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};

/// One thread's undo log.
#[derive(Clone, Debug)]
pub(crate) struct Undo {
    uuid: u128,
    flaw: Planted,
    /// The number of the current transaction, or of the last one.
    number: u64,
    /// The log itself, and its extensions while a transaction is open: the last one is written.
    parts: Vec<Part>,
    blocks: Vec<Block>,
    reach: Reach,
    builder: Builder,
    pub(crate) route: Route,
}

/// A part of the log.
#[derive(Clone, Debug)]
struct Part {
    at: Addr,
    keys: Keys,
    room: u64,
    used: u64,
}

impl Part {
    fn new(uuid: u128, at: Addr, bytes: u64) -> Part {
        // One line is for the record that says where the log goes on.
        Part { at, keys: Keys::of(uuid, at), room: bytes - LINE_BYTES, used: 0 }
    }

    fn lines(&self) -> u64 {
        self.used / LINE_BYTES
    }
}

impl Undo {
    pub(crate) fn new<M: Memory>(memory: &M, heap: &Heap, thread: u64) -> Undo {
        let Heap { layout, flaw, uuid, .. } = *heap;
        Undo {
            uuid,
            flaw,
            number: checked_word::claimed(memory, layout.ended(thread)),
            parts: vec![Part::new(uuid, layout.undo(thread), layout.numbers.log_bytes)],
            blocks: Vec::new(),
            reach: Reach::new(heap, thread, 2),
            builder: Builder::default(),
            route: Route::new(RouteChoice::Adaptive),
        }
    }

    /// Whether old values of the current transaction are in the log.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.parts[0].used > 0
    }

    /// Whether no old values are in the log or noted, nor space was taken for them.
    #[inline]
    pub(crate) fn is_clean(&self) -> bool {
        !self.is_open() && self.builder.is_empty() && self.blocks.is_empty()
    }

    /// The number of the current transaction.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The parts of the log that the current transaction has written.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Addr, u64)> {
        self.parts.iter().map(|part| (part.at, part.lines()))
    }

    /// Notes the values of the bytes from `from` to `to`, to be logged with the next
    /// [`save`](Undo::save).
    #[inline]
    pub(crate) fn note<M: Memory>(&mut self, memory: &M, mut from: Addr, mut to: Addr) {
        if self.builder.is_empty() {
            self.builder.clear();
        }
        if self.flaw.is(HeapFlaw::WholeWords) {
            from = Addr::from_bits(from.bits() & !7);
            to = Addr::from_bits(to.bits().next_multiple_of(8));
        }
        self.builder.push_from(memory, from, to);
    }

    /// Bytes of the record of what is noted.
    #[inline]
    pub(crate) fn noted(&self) -> u64 {
        self.builder.bytes()
    }

    /// Forgets what is noted.
    pub(crate) fn discard(&mut self) {
        self.builder.clear();
    }

    fn last(&self) -> &Part {
        self.parts.last().expect("the log itself")
    }

    /// Whether the record of what is noted fits the part that is written.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        let Part { used, room, .. } = self.last();
        used + self.noted() <= *room
    }

    /// Bytes of the extensions.
    pub(crate) fn extended(&self) -> u64 {
        self.blocks.iter().map(Block::bytes).sum()
    }

    /// Lets the log go on in `block`.
    pub(crate) fn extend<M: Memory>(&mut self, memory: &M, block: Block) {
        let mut builder = Builder::default();
        builder.clear();
        builder.push_elsewhere(block.at, block.bytes());
        if !self.flaw.is(HeapFlaw::LostExtension) {
            self.write(memory, &mut builder);
        }
        self.parts.push(Part::new(self.uuid, block.at, block.bytes()));
        self.blocks.push(block);
    }

    /// Makes the noted values durable, for which there is room; returns the bytes of the record, 0
    /// if nothing was noted.
    pub(crate) fn save<M: Memory>(&mut self, memory: &M) -> u64 {
        if self.builder.is_empty() {
            return 0;
        }
        let mut builder = std::mem::take(&mut self.builder);
        let bytes = self.write(memory, &mut builder);
        if !self.flaw.is(HeapFlaw::LateUndo) {
            memory.order();
        }
        self.route.fenced(memory);
        builder.clear();
        self.builder = builder;
        bytes
    }

    /// Writes a record behind the others of the current transaction; returns its bytes.
    fn write<M: Memory>(&mut self, memory: &M, builder: &mut Builder) -> u64 {
        if !self.is_open() {
            self.number += 1;
        }
        let bytes = builder.bytes();
        if self.blocks.is_empty() {
            self.reach.cover(memory, self.number, self.last().used + bytes);
        }
        let part = self.parts.last_mut().expect("the log itself");
        let record = builder.finish(0, self.number, part.lines(), &part.keys);
        self.route.write(memory, part.at.plus(part.used), record);
        part.used += bytes;
        bytes
    }

    /// To be called when the end of the current transaction is durable; returns the extensions.
    #[inline]
    pub(crate) fn close(&mut self) -> Vec<Block> {
        self.parts.truncate(1);
        self.parts[0].used = 0;
        if !self.builder.is_empty() {
            self.builder.clear();
        }
        std::mem::take(&mut self.blocks)
    }
}
