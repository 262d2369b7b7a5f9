//! The redo log: one fence a transaction, and the data written back much later.
//!
//! A transaction is durable when its record is. Its words are then stored in place but not flushed;
//! lines that are written again and again reach the medium once, when the log is
//! [truncated](super::truncate). So a commit costs one fence, and the flushes of hundreds of
//! commits share another.
//!
//! Each thread has a log of two halves. Records belong to a **generation**, a number that all
//! threads share; its parity selects the half. When a thread's half is full, that thread moves the
//! heap to the next generation. For that, the generation before the current one must be truncated:
//! all lines that its records wrote are flushed (or were [before](super::ahead)), and then a
//! word in the pool says so. A crash
//! leaves at most two generations, so the time of recovery grows with what is in flight and not
//! with what the pool holds. A thread's first record of a generation states how many lines its
//! records of the previous one take, so that recovery knows where the older half must end. For
//! threads that write nothing in the newer generation, the thread that moved the heap on states it.
//!
//! Generations are shared for this reason: if thread B overwrote a word of thread A and truncated
//! its own log first, recovery would replay A's older value over B's. Records of all threads carry
//! **stamps**, drawn while the transaction holds its locks, and are replayed in their order.
//!
//! A thread announces that it writes for a generation (`busy`), draws its stamp, and checks that
//! the generation is still current. Drawing is a locked instruction, so either the thread that
//! moves the heap on sees this one busy, or this one sees the new generation. On hardware that
//! tracks stores in epochs, truncation first reads the line `done` of each thread, which that
//! thread wrote after its data, so the word `retired` cannot persist before the data.

use super::ahead::Ahead;
use super::checksum::Keys;
use super::lines::LineSet;
use super::reach::Reach;
use super::record::{BEFORE_WORDS, Builder, Entry};
use crate::alloc::block::Block;
use crate::flaws::{HeapFlaw, Planted};
use crate::heap::checked_word;
use crate::heap::layout::Layout;
use crate::{Heap, Route, RouteChoice, TxError};
use seawall_memory::{Addr, LINE_BYTES, Line, Memory, MemoryExt};
use std::ops::Range;

/// Low bits of an entry in a list of dirty lines: the number of lines.
pub(super) const COUNT_BITS: u32 = 16;
/// Listed lines that are cached; line 0 is the pool's header, which no log writes.
const KNOWN: usize = 64;
/// Commits of other threads between two of a thread from which on it does not prefetch the stamps.
const CROWD: u64 = 4;
/// Low bits of a thread's word `last`: lines of its log. Above them the generation.
pub(super) const USED_BITS: u32 = 25;

/// One thread's redo log.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub(super) layout: Layout,
    pub(super) places: Places,
    pub(super) flaw: Planted,
    /// The number of this thread's transactions so far.
    done: u64,
    /// The last stamp, and how many stamps other threads drew between it and the one before.
    stamp: u64,
    others: u64,
    /// The generation of its last record, and what its records of that generation take: bytes of
    /// log, and entries of the list of dirty lines.
    generation: u64,
    used: u64,
    listed: u64,
    reach: [Reach; 2],
    /// A direct-mapped cache of lines on that list: a program that changes the same lines again and
    /// again lists and flushes them once.
    known: [u64; KNOWN],
    is_early: bool,
    pub(super) ahead: Ahead,
    pub(super) flushed: LineSet,
    uuid: u128,
    /// Whether the heap notes who has joined.
    is_joined_noted: bool,
    /// Extensions that are in use, with their generations.
    extensions: Vec<(u64, Block)>,
    pub(crate) route: Route,
    pub(crate) counts: LogCounts,
}

/// The addresses of a thread's log and words; those of generations by parity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    is_alone: bool,
    room: u64,
    pub(super) thread: u64,
    done: Addr,
    busy: Addr,
    generation: Addr,
    stamps: Addr,
    last: Addr,
    log: [Addr; 2],
    keys: [Keys; 2],
    dirty_count: [Addr; 2],
    dirty: [Addr; 2],
}

impl Places {
    fn of(layout: &Layout, uuid: u128, thread: u64) -> Places {
        Places {
            is_alone: layout.numbers.threads == 1,
            room: layout.numbers.log_bytes,
            thread,
            done: layout.done(thread),
            busy: layout.busy(thread),
            generation: layout.generation,
            stamps: layout.stamps,
            last: layout.last(thread),
            log: [0, 1].map(|half| layout.log(thread, half)),
            keys: [0, 1].map(|half| Keys::of(uuid, layout.log(thread, half))),
            dirty_count: [0, 1].map(|half| layout.dirty_count(thread, half)),
            dirty: [0, 1].map(|half| layout.dirty(thread, half)),
        }
    }
}

/// What a thread's log has done since the thread joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LogCounts {
    /// Transactions that wrote something and committed.
    pub commits: u64,
    /// Log records, of both logs.
    pub records: u64,
    /// Lines of these records.
    pub lines: u64,
    /// How often this thread truncated a generation.
    pub retired: u64,
    /// Data lines that it flushed in doing so.
    pub flushed: u64,
}

/// When a commit returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// When the transaction is durable.
    Durable,
    /// When it is ordered before whatever comes next.
    Ordered,
}

impl Log {
    /// The threads that may have written records.
    pub(super) fn threads<M: Memory>(&self, memory: &M) -> Range<u64> {
        let threads = self.layout.numbers.threads;
        let is_noted = self.is_joined_noted;
        0..if is_noted { memory.load::<u64>(self.layout.joined).min(threads) } else { threads }
    }

    pub(crate) fn new<M: Memory>(memory: &M, heap: &Heap, thread: u64) -> Log {
        let Heap { layout, flaw, uuid, .. } = *heap;
        let done = memory.load(layout.done(thread));
        let places = Places::of(&layout, uuid, thread);
        // The state that an earlier session of this thread left.
        let last: u64 = memory.load(places.last);
        let generation = last >> USED_BITS;
        Log {
            layout,
            places,
            flaw,
            done,
            stamp: 0,
            others: 0,
            generation,
            used: (last & ((1 << USED_BITS) - 1)) * LINE_BYTES,
            listed: memory.load(places.dirty_count[(generation % 2) as usize]),
            reach: [0, 1].map(|half| Reach::new(heap, thread, half)),
            known: [0; KNOWN],
            is_early: heap.is_early,
            ahead: Ahead::new(generation, heap.is_early),
            flushed: LineSet::default(),
            uuid,
            is_joined_noted: heap.in_place,
            extensions: Vec::new(),
            route: Route::new(RouteChoice::Adaptive),
            counts: LogCounts::default(),
        }
    }

    /// To be called some hundred instructions before a commit: the line of the stamps, which the
    /// thread that committed last has in its CPU, is on its way meanwhile. Where many threads
    /// commit, one of them would take it back before, so that each commit moved it twice.
    #[inline]
    pub(crate) fn will_commit<M: Memory>(&self, memory: &M) {
        if (1..CROWD).contains(&self.others) {
            memory.will_write(self.places.stamps, 8);
        }
    }

    /// Commits the entries of `builder` atomically, as a record in the log: no crash after the
    /// return loses them (or, if only ordered, loses them and keeps something later).
    ///
    /// # Errors
    /// When they do not fit.
    pub(crate) fn commit<M: Memory>(
        &mut self,
        memory: &M,
        builder: &mut Builder,
        wait: Wait,
    ) -> Result<(), TxError> {
        if builder.is_empty() {
            return Ok(());
        }
        if !self.holds(builder, 0) {
            let (bytes, room) = (builder.bytes_with(BEFORE_WORDS), self.places.room);
            return Err(TxError::TooLarge { bytes, room });
        }
        let (generation, stamp) = self.begin(memory, builder);
        let is_step = self.begin_step(memory, builder.bytes(), wait);
        self.write(memory, builder, (generation, stamp), wait);
        if is_step {
            self.end_step(memory);
        }
        self.apply(memory, (generation % 2) as usize, builder);
        self.leave(memory);
        Ok(())
    }

    /// As [`commit`](Log::commit), with the entries in an extension of the log.
    pub(super) fn commit_elsewhere<M: Memory>(
        &mut self,
        memory: &M,
        builder: &mut Builder,
        block: Block,
    ) {
        let mut named = Builder::default();
        named.clear();
        named.push_elsewhere(block.at, builder.bytes());
        let (generation, stamp) = self.begin(memory, &mut named);
        let record = builder.finish(stamp, generation, 0, &Keys::of(self.uuid, block.at));
        memory.write_nt(block.at, record);
        if !self.flaw.is(HeapFlaw::LostExtension) {
            memory.order();
        }
        self.extensions.push((generation, block));
        self.write(memory, &mut named, (generation, stamp), Wait::Durable);
        for entry in builder.entries() {
            let dirty = store_in_place(memory, &self.layout, self.places.thread, entry);
            if let Some((line, lines)) = dirty {
                memory.flush(line.start(), lines * LINE_BYTES);
            }
        }
        memory.drain();
        self.apply(memory, (generation % 2) as usize, &named);
        self.leave(memory);
    }

    /// Whether a record of these entries, and of `more` words, fits the log.
    #[inline]
    pub(super) fn holds(&self, builder: &Builder, more: usize) -> bool {
        builder.bytes_with(more + BEFORE_WORDS) <= self.places.room
    }

    /// Whether an extension is in use.
    pub(crate) fn is_extended(&self) -> bool {
        !self.extensions.is_empty()
    }

    /// Takes the extensions of generations up to `retired`.
    pub(super) fn take_extensions(&mut self, retired: u64) -> Vec<Block> {
        let free = self.extensions.extract_if(.., |(generation, _)| *generation <= retired);
        free.map(|(_, block)| block).collect()
    }

    /// Joins the current generation with a record of these entries, which it may add to.
    fn begin<M: Memory>(&mut self, memory: &M, builder: &mut Builder) -> (u64, u64) {
        let (size, most) = (builder.bytes(), builder.bytes_with(BEFORE_WORDS));
        let (generation, stamp) = self.enter(memory, size, most);
        if generation != self.generation {
            let follows = generation == self.generation + 1;
            builder.push_before(if follows { self.used / LINE_BYTES } else { 0 });
            (self.generation, self.used, self.listed) = (generation, 0, 0);
            self.ahead = Ahead::new(generation, self.is_early);
            self.flushed.clear();
            if !self.flaw.is(HeapFlaw::OldList) {
                self.known = [0; KNOWN];
            }
        }
        (generation, stamp)
    }

    /// Writes the record, and waits as long as is wanted.
    #[inline]
    fn write<M: Memory>(
        &mut self,
        memory: &M,
        builder: &mut Builder,
        (generation, stamp): (u64, u64),
        wait: Wait,
    ) {
        let half = (generation % 2) as usize;
        let (at, line) = (self.places.log[half].plus(self.used), self.used / LINE_BYTES);
        let record = builder.finish(stamp, generation, line, &self.places.keys[half]);
        let size = record.len() as u64;
        self.reach[half].cover(memory, generation, self.used + size);
        if self.flaw.is(HeapFlaw::NoLogFlush) {
            memory.write(at, record);
        } else {
            self.route.write(memory, at, record);
        }
        match wait {
            _ if self.flaw.is(HeapFlaw::NoFence) => {}
            Wait::Durable => memory.drain(),
            Wait::Ordered => memory.order(),
        }
        self.route.fenced(memory);
        self.used += size;
        let lines = self.used / LINE_BYTES;
        memory.store(self.places.last, generation << USED_BITS | lines);
        self.counts.commits += 1;
        self.count_record(size);
    }

    /// Counts a record of either log.
    pub(crate) fn count_record(&mut self, bytes: u64) {
        self.counts.records += 1;
        self.counts.lines += bytes / LINE_BYTES;
    }

    /// Joins the current generation once it has room for a record of `size` bytes, or of `most` if
    /// the record is the thread's first; returns the generation and a stamp.
    #[inline]
    fn enter<M: Memory>(&mut self, memory: &M, size: u64, most: u64) -> (u64, u64) {
        loop {
            let generation = memory.load::<u64>(self.places.generation);
            let stamp = if self.places.is_alone {
                self.done + 1
            } else {
                memory.store(self.places.busy, generation);
                memory.fetch_add(self.places.stamps, 1)
            };
            if !self.places.is_alone && memory.load::<u64>(self.places.generation) != generation {
                continue;
            }
            let end = if generation == self.generation { self.used + size } else { most };
            if end <= self.places.room {
                self.others = stamp.wrapping_sub(self.stamp).wrapping_sub(1);
                self.stamp = stamp;
                return (generation, stamp);
            }
            self.leave(memory);
            self.advance(memory, generation, true);
        }
    }

    #[inline]
    fn leave<M: Memory>(&self, memory: &M) {
        if !self.places.is_alone {
            memory.store(self.places.busy, 0u64);
        }
    }

    /// Stores the entries in place that are not there yet, and lists the lines of all.
    #[inline]
    fn apply<M: Memory>(&mut self, memory: &M, half: usize, builder: &Builder) {
        let list = self.places.dirty[half];
        let (to_store, stored) = builder.to_store_and_stored();
        for entry in to_store {
            let dirty = store_in_place(memory, &self.layout, self.places.thread, entry);
            self.list(memory, list, dirty);
        }
        for entry in stored {
            self.list(memory, list, lines_of(entry));
        }
        memory.store(self.places.dirty_count[half], self.listed);
        self.done += 1;
        memory.store(self.places.done, self.done);
    }

    /// Adds lines to the list of dirty lines, unless it is known to have them.
    #[inline]
    fn list<M: Memory>(&mut self, memory: &M, list: Addr, dirty: Option<(Line, u64)>) {
        let Some((line, lines)) = dirty else { return };
        let known = &mut self.known[line.0 as usize % KNOWN];
        if lines == 1 && std::mem::replace(known, line.0) == line.0 {
            return;
        }
        memory.store(list.plus(8 * self.listed), line.0 << COUNT_BITS | lines);
        self.listed += 1;
    }
}

/// The lines of the words that an entry stores.
#[inline]
fn lines_of(entry: Entry<'_>) -> Option<(Line, u64)> {
    match entry {
        Entry::Words(at, values) => {
            let last = at.plus(8 * (values.len() as u64).max(1) - 1);
            Some((at.line(), last.line().0 - at.line().0 + 1))
        }
        Entry::Bytes(at, ..) => Some((at.line(), 1)),
        _ => None,
    }
}

/// Stores one entry of a record of `thread`; returns the lines that it dirtied.
#[inline(always)]
pub(crate) fn store_in_place<M: Memory>(
    memory: &M,
    layout: &Layout,
    thread: u64,
    entry: Entry<'_>,
) -> Option<(Line, u64)> {
    match entry {
        Entry::Words(at, [value]) => {
            memory.store(at, u64::from_le_bytes(*value));
            Some((at.line(), 1))
        }
        Entry::Words(at, values) => {
            memory.write(at, values.as_flattened());
            lines_of(entry)
        }
        Entry::Bytes(at, mask, value) => {
            store_bytes(memory, at, mask, value);
            lines_of(entry)
        }
        Entry::End(number) => {
            let ended = layout.ended(thread);
            memory.store(ended, checked_word::encode(ended, number));
            Some((ended.line(), 1))
        }
        Entry::Freed(..) | Entry::Before(_) | Entry::Elsewhere(..) => None,
    }
}

/// Stores the bytes of `mask` in the widest aligned pieces; their neighbours stay untouched.
#[inline]
fn store_bytes<M: Memory>(memory: &M, at: Addr, mask: u8, value: u64) {
    if mask.is_power_of_two() {
        let byte = mask.trailing_zeros();
        memory.store(at.plus(byte.into()), (value >> (8 * byte)) as u8);
    } else {
        store_pieces(memory, at, mask, value);
    }
}

#[inline(never)]
fn store_pieces<M: Memory>(memory: &M, at: Addr, mask: u8, value: u64) {
    let mut byte = 0;
    while byte < 8 {
        if mask >> byte & 1 == 0 {
            byte += 1;
        } else if byte % 4 == 0 && mask >> byte & 0xf == 0xf {
            memory.store(at.plus(byte), (value >> (8 * byte)) as u32);
            byte += 4;
        } else if byte % 2 == 0 && mask >> byte & 3 == 3 {
            memory.store(at.plus(byte), (value >> (8 * byte)) as u16);
            byte += 2;
        } else {
            memory.store(at.plus(byte), (value >> (8 * byte)) as u8);
            byte += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use seawall_memory::Image;

    proptest! {
        #[test]
        fn only_the_bytes_of_the_mask_are_stored(mask: u8, old: u64, new: u64) {
            let image = Image::new(64, 0);
            image.store(Addr::pm(8), old);
            store_bytes(&image, Addr::pm(8), mask, new);
            let bits = super::super::record::spread(mask);
            prop_assert_eq!(image.load::<u64>(Addr::pm(8)), old & !bits | new & bits);
        }
    }
}
