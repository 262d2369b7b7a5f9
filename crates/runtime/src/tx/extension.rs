//! Extensions of a log, for transactions that it does not hold: chunks of the pool.
//!
//! The chunks of an extension are free in the pool, and only in DRAM is it known that they are
//! taken. So a crash leaks none, and nothing in the pool has to say that they are free again.
//! Recovery reads them before anything is allocated.
//!
//! An entry *elsewhere* leads to an extension. In the log of old values it is in the last record of
//! a part, and the extension is the log's next part. In a log of new values it stands for all
//! entries of its record; these are in the extension, in a record of their own.
//!
//! A part of the log of old values needs no fence of its own: what it holds is durable with the
//! first record in it, and until then nothing has changed that it would restore. A record of new
//! values is durable before the one that names it. Its data is flushed in place at once, since the
//! lists of lines to be flushed are as long as a log; the extension is used again when the logs of
//! its generation have been truncated.

use super::record::{BYTES_MAX, Builder};
use super::redo_log::Wait;
use crate::alloc::block::Block;
use crate::alloc::chunk_run::Use;
use crate::alloc::size_class::CHUNK_BYTES;
use crate::{Session, TxError};
use seawall_memory::{LINE_BYTES, Memory, MemoryExt};

/// Bytes of old values that are logged in one record, at most (and one range beyond).
pub(super) const RECORD_BYTES: u64 = 1 << 20;

impl<M: Memory> Session<'_, M> {
    /// Undo: makes the old values durable that were noted.
    #[inline]
    pub(crate) fn save_noted(&mut self) -> Result<(), TxError> {
        if !self.undo.has_room() {
            self.extend_undo()?;
        }
        let bytes = self.undo.save(self.memory);
        if bytes > 0 {
            self.log.count_record(bytes);
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn extend_undo(&mut self) -> Result<(), TxError> {
        let least = self.undo.noted() + LINE_BYTES;
        let wanted = least.max(2 * self.undo.extended());
        match self.extension(wanted).or_else(|_| self.extension(least)) {
            Ok(block) => {
                self.undo.extend(self.memory, block);
                Ok(())
            }
            Err(full) => {
                self.undo.discard();
                Err(full)
            }
        }
    }

    fn extension(&mut self, bytes: u64) -> Result<Block, TxError> {
        self.release_extensions();
        self.take_chunks(bytes.div_ceil(CHUNK_BYTES), Use::Log)
    }

    /// Commits a record; one that the log does not hold is made shorter, or else committed in an
    /// extension.
    #[inline]
    pub(crate) fn log_record(&mut self, record: &mut Builder, wait: Wait) -> Result<(), TxError> {
        if self.log.holds(record, 0) {
            self.log.commit(self.memory, record, wait)
        } else {
            self.log_long(record, wait)
        }
    }

    #[cold]
    #[inline(never)]
    fn log_long(&mut self, record: &mut Builder, wait: Wait) -> Result<(), TxError> {
        self.drop_freed(record);
        if self.log.holds(record, 0) {
            return self.log.commit(self.memory, record, wait);
        }
        let emptied = self.drop_states(record);
        let outcome = if self.log.holds(record, 0) {
            self.log.commit(self.memory, record, wait)
        } else {
            self.log_elsewhere(record)
        };
        self.settle(&emptied, outcome.is_ok());
        outcome
    }

    fn log_elsewhere(&mut self, record: &mut Builder) -> Result<(), TxError> {
        let (bytes, room) = (record.bytes(), BYTES_MAX);
        if bytes > room {
            return Err(TxError::TooLarge { bytes, room });
        }
        let block = self.extension(bytes)?;
        self.log.commit_elsewhere(self.memory, record, block);
        Ok(())
    }

    /// Returns the extensions that no recovery reads any more.
    pub(crate) fn release_extensions(&mut self) {
        let retired = self.memory.load(self.heap.layout.retired_now);
        let free = self.log.take_extensions(retired);
        self.give_back_extensions(&free);
    }

    pub(crate) fn give_back_extensions(&self, blocks: &[Block]) {
        for block in blocks {
            self.put_run(block.chunk, block.bytes() / CHUNK_BYTES);
        }
    }
}
