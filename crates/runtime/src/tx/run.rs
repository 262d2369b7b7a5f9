//! Running a transaction: a session begins it, and commits it or rolls it back.

use super::buffers::{Buffers, Notes};
use super::record::END_WORDS;
use super::redo_log::Wait;
use super::{Logging, Tx, recovery};
use crate::flaws::HeapFlaw;
use crate::{Session, TxError};
use seawall_memory::{Addr, Memory, MemoryExt};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Bytes of a changed range from which on a commit rather flushes it than logs its new values.
const FLUSHED_BYTES: u64 = 2 << 10;

/// A transaction that is visible and ordered, but may not be durable yet.
#[must_use = "nothing is promised until it is waited for"]
#[derive(Debug)]
pub struct Pending {
    session: u64,
}

/// Ends a transaction whose body panics.
struct Unwinding<'s, 'm, M: Memory> {
    session: &'s mut Session<'m, M>,
    is_scope: bool,
}

impl<M: Memory> Drop for Unwinding<'_, '_, M> {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        self.session.end_by_panic(self.is_scope);
    }
}

impl<'m, M: Memory> Session<'m, M> {
    /// Runs `body` as a redo transaction, and commits if it returns `Ok`. A crash before the return
    /// keeps all stores, allocations and frees, or none; a crash after the return keeps all. One
    /// fence.
    ///
    /// # Errors
    /// What `body` returns; [`TxError::Full`] when it wrote more than its log holds and the pool
    /// has no room for more log; [`TxError::TooLarge`] when it wrote more than 1 GiB. Nothing has
    /// changed then.
    pub fn transaction<T, E: From<TxError>>(
        &mut self,
        body: impl FnOnce(&mut Tx<'_, 'm, M>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(Logging::Redo, Wait::Durable, body)
    }

    /// As [`transaction`](Session::transaction), with a choice of logging: [`Logging::Undo`] logs
    /// old values and stores in place. It costs a fence for each first store, or set of
    /// [added](Tx::add) ranges, and one at the end.
    ///
    /// # Errors
    /// As [`transaction`](Session::transaction).
    pub fn transaction_with<T, E: From<TxError>>(
        &mut self,
        logging: Logging,
        body: impl FnOnce(&mut Tx<'_, 'm, M>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(logging, Wait::Durable, body)
    }

    /// As [`transaction_with`](Session::transaction_with), but does not wait for the fence, which
    /// overlaps with what the thread does next. The transaction is visible to all threads and
    /// ordered before anything later; it is durable for certain when [`wait`](Session::wait)
    /// returns.
    ///
    /// # Errors
    /// As [`transaction`](Session::transaction).
    pub fn begin<T, E: From<TxError>>(
        &mut self,
        kind: Logging,
        body: impl FnOnce(&mut Tx<'_, 'm, M>) -> Result<T, E>,
    ) -> Result<(T, Pending), E> {
        self.run(kind, Wait::Ordered, body).map(|value| (value, Pending { session: self.number }))
    }

    /// Waits until the transaction, and all that this session committed before it, is durable.
    ///
    /// # Panics
    /// When another session began the transaction.
    pub fn wait(&self, pending: Pending) {
        assert_eq!(pending.session, self.number, "what another session began is waited for there");
        self.memory.drain();
    }

    #[inline]
    fn run<T, E: From<TxError>>(
        &mut self,
        kind: Logging,
        wait: Wait,
        body: impl FnOnce(&mut Tx<'_, 'm, M>) -> Result<T, E>,
    ) -> Result<T, E> {
        let is_scope = self.enter()?;
        // The outcome is not copied: a copy behind the fence, of halves that were stored behind it,
        // would wait for the fence, and so would all that follows.
        let unwinding = Unwinding { session: self, is_scope };
        let mut outcome = body(&mut Tx { session: &mut *unwinding.session, kind });
        std::mem::forget(unwinding);
        match self.leave_with(outcome.is_ok(), wait, is_scope) {
            Ok(None) => {}
            Ok(Some(error)) => outcome = Err(error.into()),
            Err(error) => return Err(error.into()),
        }
        outcome
    }

    /// Begins a transaction; returns whether a scope began with it.
    #[inline(never)]
    pub(super) fn enter(&mut self) -> Result<bool, TxError> {
        self.check_process()?;
        self.sit();
        self.begun += 1;
        if std::mem::replace(&mut self.is_begun, true) {
            self.abort()?;
            self.hold_no_more();
        }
        self.hold_first();
        let is_scope = self.heap.layout.numbers.moves && !self.scope.is_open;
        if is_scope {
            self.begin_scope();
        }
        self.set_busy(true);
        Ok(is_scope)
    }

    /// Rolls back a transaction whose body has panicked, before another thread sees anything of it.
    /// A thread that ends with its machine changes nothing.
    pub(super) fn end_by_panic(&mut self, is_scope: bool) {
        if self.seat.is_some() {
            // A second panic, of a memory that fails, must not end the process. The next
            // transaction tries the rollback again.
            let end = AssertUnwindSafe(|| self.leave_with(false, Wait::Durable, is_scope));
            let _ = catch_unwind(end);
        }
    }

    /// Ends a transaction: commits if its body has succeeded; else, and if the commit fails, rolls
    /// back. Returns why it could not commit, or as an error why it could not be rolled back. In
    /// the child of a fork neither is done: the transaction is the parent's.
    #[inline(never)]
    pub(super) fn leave_with(
        &mut self,
        is_good: bool,
        wait: Wait,
        is_scope: bool,
    ) -> Result<Option<TxError>, TxError> {
        self.check_process()?;
        self.set_busy(false);
        let error = if is_good { self.commit(wait).err() } else { None };
        if !is_good || error.is_some() {
            self.abort()?;
        }
        if is_scope {
            self.end_scope();
        }
        self.hold_no_more();
        self.is_begun = false;
        Ok(error)
    }

    fn commit(&mut self, wait: Wait) -> Result<(), TxError> {
        if self.buffers.is_clean() && self.undo.is_clean() {
            return Ok(());
        }
        if self.heap.in_place {
            self.commit_in_place(wait)?;
        } else {
            self.commit_by_log(wait)?;
        }
        self.close_undo();
        self.end_publications();
        if !self.buffers.freed.is_empty() {
            let freed = std::mem::take(&mut self.buffers.freed);
            self.give_back(&freed);
            self.buffers.freed = freed;
        }
        self.buffers.clear();
        Ok(())
    }

    /// Logs the new values, and stores those of a redo transaction in place.
    fn commit_by_log(&mut self, wait: Wait) -> Result<(), TxError> {
        let is_undo = !self.buffers.saved.is_empty() || self.undo.is_open();
        if is_undo {
            // Not before: the fence behind the old values lets another thread take the line back.
            self.log.will_commit(self.memory);
        }
        if is_undo && self.log_saved() {
            self.make_durable();
        } else if self.buffers.direct && !self.buffers.words.record.is_empty() {
            self.memory.order();
        }
        let mut words = std::mem::take(&mut self.buffers.words.record);
        let outcome = self.log_record(&mut words, wait);
        self.buffers.words.record = words;
        outcome
    }

    #[inline]
    fn close_undo(&mut self) {
        if self.undo.is_clean() {
            return;
        }
        let extensions = self.undo.close();
        self.give_back_extensions(&extensions);
    }

    /// Undo: adds the current values of the changed bytes to the record. Of long ranges, where
    /// these are to be flushed early, only that older values are void; returns whether there are
    /// such, which must be durable before the record.
    #[inline(never)]
    fn log_saved(&mut self) -> bool {
        let is_early = self.heap.is_early && !self.heap.layout.numbers.moves;
        let Buffers { words: Notes { record, .. }, saved, changed, .. } = &mut *self.buffers;
        changed.clear();
        if self.undo.is_open() {
            record.push_end(self.undo.number());
        }
        record.mark_stored();
        for (from, to) in saved.iter() {
            let first = Addr::from_bits(from.bits().next_multiple_of(8));
            let last = Addr::from_bits(to.bits() & !7);
            if !is_early || last.bits() < first.bits() + FLUSHED_BYTES {
                record.push_from(self.memory, from, to);
                continue;
            }
            record.push_from(self.memory, from, first);
            if !self.heap.flaw.is(HeapFlaw::StaleRange) {
                record.push_freed(first, last.bits() - first.bits());
            }
            record.push_from(self.memory, last, to);
            changed.add_lines(first, last);
        }
        !changed.is_empty()
    }

    /// Rolls back the transaction.
    fn abort(&mut self) -> Result<(), TxError> {
        if self.undo.is_open() {
            let parts = self.undo.parts().collect();
            self.put_back(self.undo.number(), parts)?;
        }
        self.close_undo();
        self.end_publications();
        let taken = std::mem::take(&mut self.buffers.taken);
        self.give_back(&taken);
        self.buffers.clear();
        Ok(())
    }

    /// Restores the old values of this thread's transaction `number`, which are in these parts of
    /// its log (address, lines), and ends the transaction.
    pub(crate) fn put_back(&mut self, number: u64, parts: Vec<(Addr, u64)>) -> Result<(), TxError> {
        let mut old = recovery::old_values(self.memory, &self.heap, number, &parts)?;
        if self.heap.in_place || !self.log.holds(&old, END_WORDS) {
            // Takes no room in the pool. Records of these bytes that count have the same values.
            return self.put_back_in_place(&old, number);
        }
        old.push_end(number);
        self.log.commit(self.memory, &mut old, Wait::Durable)
    }

    /// Allocates `bytes` bytes, fills them with `content` (the rest is undefined), and stores the
    /// address in the word at `link`, atomically and with one fence.
    ///
    /// # Errors
    /// As [`transaction`](Session::transaction).
    pub fn alloc_into(&mut self, link: Addr, bytes: u64, content: &[u8]) -> Result<Addr, TxError> {
        self.transaction(|tx| {
            let at = tx.alloc(bytes.max(content.len() as u64))?;
            if !content.is_empty() {
                tx.fill(at, content)?;
            }
            tx.store(link, at)?;
            Ok(at)
        })
    }

    /// Frees the object whose address is in the word at `link`, and stores zero there, atomically
    /// and with one fence. Does nothing if the word is zero.
    ///
    /// # Errors
    /// As [`transaction`](Session::transaction), and [`TxError::NoObject`].
    pub fn free_from(&mut self, link: Addr) -> Result<(), TxError> {
        self.transaction(|tx| {
            let at: Addr = tx.load(link);
            if at.is_null() {
                return Ok(());
            }
            tx.free(at)?;
            tx.store(link, Addr::NULL)
        })
    }
}
