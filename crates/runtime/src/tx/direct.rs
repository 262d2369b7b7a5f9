//! Writing large fresh objects past the log: once, in place.
//!
//! Logging a value writes its bytes twice, which is cheaper than a fence up to some KiB. A larger
//! new object is written in place, past the caches, and made durable by a fence before the record
//! that makes it reachable. Log records of earlier uses of the place must not be replayed over it,
//! so freeing a block of that size logs that its bytes are void.
//!
//! In pools whose programs store in place, smaller ones are written in place, too, through the
//! caches.

use super::{Logging, Tx};
use crate::TxError;
use seawall_memory::{Addr, Memory};

/// Minimum bytes of a fresh object that is written past the log.
pub const DIRECT_BYTES: u64 = 4096;

impl<M: Memory> Tx<'_, '_, M> {
    /// As [`write`](Tx::write), for the contents of an object that this transaction allocated:
    /// 4 KiB and more are not logged but written in place, and cost one more fence at commit.
    ///
    /// # Errors
    /// As [`store`](Tx::store).
    #[track_caller]
    pub fn fill(&mut self, at: Addr, from: &[u8]) -> Result<(), TxError> {
        let end = at.plus(from.len() as u64);
        let is_fresh = || {
            // Those that a transaction around this one has allocated must be as they were if this
            // one fails.
            let buffers = &*self.session.buffers;
            let mut taken = buffers.taken[buffers.outer..].iter();
            taken.any(|block| block.holds(at) && block.end() >= end)
        };
        let is_large = from.len() as u64 >= DIRECT_BYTES;
        let goes_past = is_large || self.session.heap.in_place;
        if !goes_past || !is_fresh() || self.was_stored(at, end) {
            return self.write(at, from);
        }
        if is_large {
            self.session.memory.write_nt(at, from);
            self.session.buffers.direct = true;
        } else {
            // The commit flushes all of a fresh object.
            self.session.memory.write(at, from);
        }
        Ok(())
    }

    /// Whether words of the range are in the record already, which would be stored over it.
    fn was_stored(&self, start: Addr, end: Addr) -> bool {
        let buffers = &*self.session.buffers;
        if self.kind == Logging::Undo {
            return !self.session.heap.in_place && buffers.saved.overlaps(start, end);
        }
        let mut words = buffers.words.places.words();
        words.any(|word| word.plus(8) > start && word < end)
    }
}
