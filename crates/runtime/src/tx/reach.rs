//! The extent of a log, so that opening a heap reads what is in flight and not whole logs.
//!
//! A log is divided into zones of 64 KiB. Before a record that ends beyond the first zone is
//! written, a word in the thread's line names the record's generation and the zone that it ends in.
//! So there is no record of a generation behind the zone that the word names, or behind the first
//! zone if the word names another generation. The word costs a fence of its own, once in hundreds
//! of records.

use crate::flaws::{HeapFlaw, Planted};
use crate::heap::checked_word;
use crate::{AccessError, Heap};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};

/// Bytes of a zone.
pub(crate) const ZONE_BYTES: u64 = 64 << 10;
/// Low bits of the word: the zone. Above them, the low bits of the generation.
const ZONE_BITS: u32 = 14;
const GENERATION_MASK: u64 = (1 << (checked_word::VALUE_BITS - ZONE_BITS)) - 1;

/// The writer's copy of the word of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    at: Addr,
    flaw: Planted,
    generation: u64,
    /// The last byte at which a record of that generation can end.
    end: u64,
}

impl Reach {
    /// The extent of log `log` of a thread: 0 and 1 are the halves of the redo log, 2 the undo log.
    pub(crate) fn new(heap: &Heap, thread: u64, log: u64) -> Reach {
        let at = heap.layout.reach(thread, log);
        Reach { at, flaw: heap.flaw, generation: 0, end: 0 }
    }

    /// To be called before a record of `generation` is written that ends at byte `end` of the log.
    #[inline]
    pub(crate) fn cover<M: Memory>(&mut self, memory: &M, generation: u64, end: u64) {
        if generation != self.generation {
            (self.generation, self.end) = (generation, ZONE_BYTES);
        }
        if end > self.end {
            self.name(memory, end);
        }
    }

    #[cold]
    #[inline(never)]
    fn name<M: Memory>(&mut self, memory: &M, end: u64) {
        self.end = end.next_multiple_of(ZONE_BYTES);
        if !self.flaw.is(HeapFlaw::NoReach) {
            let zone = (self.end / ZONE_BYTES) - 1;
            let value = (self.generation & GENERATION_MASK) << ZONE_BITS | zone;
            memory.store(self.at, checked_word::encode(self.at, value));
            memory.flush(self.at, 8);
            memory.order();
        }
    }
}

/// Returns the number of lines of the log that can hold records of `generation`.
///
/// # Errors
/// When the checksum of the word is wrong.
pub(crate) fn lines<M: Memory>(
    memory: &M,
    heap: &Heap,
    (thread, log): (u64, u64),
    generation: u64,
) -> Result<u64, AccessError> {
    let value = checked_word::load(memory, heap.layout.reach(thread, log)).map_err(|_| {
        AccessError::damaged(format!("how far thread {thread} has logged does not add up"))
    })?;
    let is_current = value >> ZONE_BITS == generation & GENERATION_MASK;
    let zone = if is_current { value & ((1 << ZONE_BITS) - 1) } else { 0 };
    Ok(((zone + 1) * ZONE_BYTES).min(heap.layout.numbers.log_bytes) / LINE_BYTES)
}
