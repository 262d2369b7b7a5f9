//! The log of new values: one fence a transaction, and the data written back much later.
//!
//! A transaction is durable when its record is. Its words are then stored in place but not flushed;
//! lines that are written again and again reach the medium once, when the log is *retired*. So a
//! commit costs one fence, and the flushes of hundreds of commits share another.
//!
//! Each thread has a log of two halves. Records belong to a **generation**, a number that all
//! threads share: its parity names the half. When somebody's half is full the heap moves to the
//! next generation, for which the generation before must be retired: all lines that its
//! records wrote are flushed, by whoever needs the room, and then a word in the pool says so. A
//! crash leaves two generations at most, so recovery takes time for what is in flight and not for
//! what the pool holds.
//!
//! Why generations and not each log by itself: if thread B overwrote a word of thread A and retired
//! its log first, a crash would replay A's older value over it. Records of all threads carry
//! **stamps**, drawn while the transaction holds its locks, and are replayed in their order.
//!
//! A thread says that it writes for a generation (`busy`), draws its stamp, and looks whether the
//! generation is still current; the drawing is a locked instruction, so whoever moves on either
//! sees it busy or is seen. On hardware that tracks stores in epochs, whoever retires first reads
//! the line `done` of each thread, which that thread wrote after its data: the word `retired` then
//! cannot persist before the data.

use super::record::{self, Builder, Entry};
use crate::heap::checked;
use crate::heap::layout::{Layout, RETIRE_LOCK};
use crate::{HeapError, HeapFlaw};
use rustc_hash::FxHashSet;
use seawall_memory::{Addr, LINE_BYTES, Line, Memory, lines_of};

/// Lines in one entry of a list of dirty lines.
const COUNT_BITS: u32 = 16;

/// One thread's end of the log.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    layout: Layout,
    thread: u64,
    flaw: HeapFlaw,
    bytes: Vec<u8>,
    /// Transactions of this thread so far.
    done: u64,
    pub(crate) counts: LogCounts,
}

/// What a thread's log has done since the thread joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct LogCounts {
    /// Transactions that wrote something and committed.
    pub commits: u64,
    /// Log records, of new and of old values.
    pub records: u64,
    /// Lines of these records.
    pub lines: u64,
    /// Times that a generation was retired by this thread.
    pub retired: u64,
    /// Data lines that it flushed doing so.
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
    pub(crate) fn new<M: Memory>(memory: &M, layout: Layout, thread: u64, flaw: HeapFlaw) -> Log {
        let done = memory.load(layout.done(thread));
        Log { layout, thread, flaw, bytes: Vec::new(), done, counts: LogCounts::default() }
    }

    /// Makes the entries of `builder` happen, all or none: no crash after the return loses them
    /// (or, if only ordered, loses them and keeps something later).
    pub(crate) fn commit<M: Memory>(
        &mut self,
        memory: &M,
        builder: &mut Builder,
        wait: Wait,
    ) -> Result<(), HeapError> {
        let size = builder.bytes();
        let room = self.layout.numbers.log_bytes;
        if size > room {
            return Err(HeapError::TooLarge { bytes: size, room });
        }
        let (generation, stamp, used) = self.enter(memory, size);
        let number = record::number(generation, used / LINE_BYTES);
        builder.finish(stamp, number, &mut self.bytes);
        memory.write_nt(self.layout.log(self.thread, generation).plus(used), &self.bytes);
        match wait {
            _ if self.flaw == HeapFlaw::NoFence => {}
            Wait::Durable => memory.drain(),
            Wait::Ordered => memory.order(),
        }
        memory.store(self.layout.used(self.thread, generation), used + size);
        self.apply(memory, generation, builder);
        self.leave(memory);
        self.counts.commits += 1;
        self.counts.records += 1;
        self.counts.lines += size / LINE_BYTES;
        Ok(())
    }

    /// Counts a record that went elsewhere.
    pub(crate) fn count_record(&mut self, bytes: u64) {
        self.counts.records += 1;
        self.counts.lines += bytes / LINE_BYTES;
    }

    /// Joins the current generation with room for `size` bytes; gives it, a stamp, and the place.
    fn enter<M: Memory>(&mut self, memory: &M, size: u64) -> (u64, u64, u64) {
        let layout = self.layout;
        let alone = layout.numbers.threads == 1;
        loop {
            let generation = memory.load::<u64>(layout.generation);
            let stamp = if alone {
                self.done + 1
            } else {
                memory.store(layout.busy(self.thread), generation);
                memory.fetch_add(layout.stamps, 1)
            };
            if !alone && memory.load::<u64>(layout.generation) != generation {
                continue;
            }
            let used = memory.load::<u64>(layout.used(self.thread, generation));
            if used + size <= layout.numbers.log_bytes {
                return (generation, stamp, used);
            }
            self.leave(memory);
            self.advance(memory, generation);
        }
    }

    fn leave<M: Memory>(&self, memory: &M) {
        if self.layout.numbers.threads > 1 {
            memory.store(self.layout.busy(self.thread), 0u64);
        }
    }

    /// Stores the entries in place and lists the lines that are dirty now.
    fn apply<M: Memory>(&mut self, memory: &M, generation: u64, builder: &Builder) {
        let layout = self.layout;
        let count_at = layout.dirty_count(self.thread, generation);
        let first: u64 = memory.load(count_at);
        let mut count = first;
        let list = layout.dirty(self.thread, generation);
        for entry in builder.entries() {
            if let Some((line, lines)) = store_in_place(memory, layout, self.thread, entry) {
                memory.store(list.plus(8 * count), line.0 << COUNT_BITS | lines);
                count += 1;
            }
        }
        memory.store(count_at, count);
        self.done += 1;
        memory.store(layout.done(self.thread), self.done);
    }

    /// Moves on from `generation`, if nobody has yet, once the one before it is retired.
    #[cold]
    #[inline(never)]
    fn advance<M: Memory>(&mut self, memory: &M, generation: u64) {
        let layout = self.layout;
        let guard = layout.locks.acquire(memory, RETIRE_LOCK, 0);
        if memory.load::<u64>(layout.generation) == generation {
            if memory.load::<u64>(layout.retired_now) + 1 < generation {
                self.retire(memory, generation - 1);
            }
            memory.store(layout.generation, generation + 1);
        }
        layout.locks.release(memory, guard);
    }

    /// Makes durable in place all that the records of `generation` wrote.
    fn retire<M: Memory>(&mut self, memory: &M, generation: u64) {
        let layout = self.layout;
        let mut flushed = FxHashSet::default();
        for thread in 0..layout.numbers.threads {
            let busy = layout.busy(thread);
            while memory.load::<u64>(busy) == generation {
                memory.spin_while(busy, generation);
            }
            let count: u64 = memory.load(layout.dirty_count(thread, generation));
            if count == 0 {
                continue;
            }
            if self.flaw != HeapFlaw::NoFlush {
                self.flush_listed(memory, thread, generation, count, &mut flushed);
            }
            memory.load::<u64>(layout.done(thread));
            memory.flush(layout.done(thread), LINE_BYTES);
            memory.store(layout.dirty_count(thread, generation), 0u64);
            memory.store(layout.used(thread, generation), 0u64);
        }
        memory.drain();
        memory.store(layout.retired, checked::encode(layout.retired, generation));
        memory.persist(layout.retired, 8);
        memory.store(layout.retired_now, generation);
        self.counts.retired += 1;
        self.counts.flushed += flushed.len() as u64;
    }

    fn flush_listed<M: Memory>(
        &self,
        memory: &M,
        thread: u64,
        generation: u64,
        count: u64,
        flushed: &mut FxHashSet<u64>,
    ) {
        let list = self.layout.dirty(thread, generation);
        for place in 0..count {
            let listed: u64 = memory.load(list.plus(8 * place));
            let first = listed >> COUNT_BITS;
            for line in first..first + (listed & ((1 << COUNT_BITS) - 1)) {
                if flushed.insert(line) {
                    memory.flush(Line(line).start(), LINE_BYTES);
                }
            }
        }
    }

    /// Retires all that was logged so far by all threads, if none of them writes meanwhile.
    pub(crate) fn retire_all<M: Memory>(&mut self, memory: &M) {
        for _ in 0..2 {
            let generation = memory.load(self.layout.generation);
            self.advance(memory, generation);
        }
    }
}

/// Stores one entry of a record of `thread`; gives the lines that it made dirty.
pub(crate) fn store_in_place<M: Memory>(
    memory: &M,
    layout: Layout,
    thread: u64,
    entry: Entry<'_>,
) -> Option<(Line, u64)> {
    match entry {
        Entry::Words(at, values) => {
            for (word, value) in values.iter().enumerate() {
                memory.store(at.plus(8 * word as u64), *value);
            }
            let lines = lines_of(at, 8 * values.len() as u64).count() as u64;
            Some((at.line(), lines))
        }
        Entry::Bytes(at, mask, value) => {
            store_bytes(memory, at, mask, value);
            Some((at.line(), 1))
        }
        Entry::End(number) => {
            memory.store(layout.done(thread).plus(8), number);
            None
        }
        Entry::Freed(..) => None,
    }
}

/// Stores the bytes of `mask` in the widest aligned pieces, so that neighbours stay untouched.
fn store_bytes<M: Memory>(memory: &M, at: Addr, mask: u8, value: u64) {
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
