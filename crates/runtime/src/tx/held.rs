//! A transaction that is begun and ended by calls, for programs that cannot put it into a closure:
//! those of C, and those whose transactions outlive a function.

use super::redo_log::Wait;
use super::{Logging, Tx};
use crate::{Session, TxError};
use seawall_memory::{Addr, Memory};
use std::ops::{Deref, DerefMut};

/// A transaction in progress, by [`Session::start`]. It is rolled back when it is dropped.
pub struct HeldTx<'s, 'm, M: Memory> {
    tx: Tx<'s, 'm, M>,
    is_scope: bool,
    is_over: bool,
}

/// A transaction that has let go of its session, to be taken up by [`Session::take_up`].
#[must_use = "the session rolls it back when it begins another transaction"]
#[derive(Debug)]
pub struct Paused {
    session: u64,
    begun: u64,
    kind: Logging,
    is_scope: bool,
}

impl<'m, M: Memory> Session<'m, M> {
    /// Begins a transaction, which [`commit`](HeldTx::commit) ends. What it promises is what
    /// [`transaction_with`](Session::transaction_with) does.
    ///
    /// After one that failed with [`TxError::Busy`] and was rolled back, this waits for the lock
    /// that it lacked, and for those of rolled back ones just before it, as
    /// [`retry`](Session::retry) does: so two of them do not fail for each other for ever.
    ///
    /// ```
    /// # use seawall_memory::Image;
    /// # use seawall_runtime::{Heap, HeapError, HeapOptions, Logging};
    /// # let options = HeapOptions::default();
    /// # let memory = Image::new(options.pm_bytes(), options.dram_bytes());
    /// # let heap = Heap::create(&memory, "held", 42, &options)?;
    /// # let mut session = heap.join(&memory);
    /// let mut tx = session.start(Logging::Undo)?;
    /// tx.store(heap.root(), 7u64)?;
    /// let paused = tx.pause(); // the session is free to be moved
    /// session.take_up(paused).commit()?; // durable here
    /// # Ok::<(), HeapError>(())
    /// ```
    ///
    /// # Errors
    /// When an earlier transaction cannot be rolled back that was paused and not taken up.
    pub fn start(&mut self, kind: Logging) -> Result<HeldTx<'_, 'm, M>, TxError> {
        self.holds.note_start();
        let is_scope = self.enter()?;
        Ok(HeldTx { tx: Tx { session: self, kind }, is_scope, is_over: false })
    }

    /// Goes on with a transaction that was [paused](HeldTx::pause).
    ///
    /// # Panics
    /// When another session began it, or this one has begun another transaction since.
    pub fn take_up(&mut self, paused: Paused) -> HeldTx<'_, 'm, M> {
        let Paused { session, begun, kind, is_scope } = paused;
        assert_eq!(session, self.number, "what another session began is taken up there");
        assert!(self.is_begun && begun == self.begun, "a later transaction has rolled it back");
        HeldTx { tx: Tx { session: self, kind }, is_scope, is_over: false }
    }
}

impl<'m, M: Memory> HeldTx<'_, 'm, M> {
    /// Commits: a crash before the return keeps all that it did, or nothing; one after keeps all.
    ///
    /// # Errors
    /// As [`transaction`](Session::transaction); nothing has changed then.
    pub fn commit(mut self) -> Result<(), TxError> {
        match self.end(true)? {
            None => Ok(()),
            Some(error) => Err(error),
        }
    }

    /// Rolls back all that it did.
    ///
    /// # Errors
    /// When the medium has lost old values; the next transaction tries it again.
    pub fn abort(mut self) -> Result<(), TxError> {
        self.end(false).map(|_| ())
    }

    /// As [`abort`](HeldTx::abort), in pools whose programs store in place; these ranges (address,
    /// bytes) stay as they are: locks, whose words other threads change meanwhile.
    ///
    /// # Errors
    /// As there.
    pub fn abort_but(mut self, kept: &[(Addr, u64)]) -> Result<(), TxError> {
        for (at, bytes) in kept {
            self.tx.session.buffers.kept.add(*at, at.plus(*bytes));
        }
        self.end(false).map(|_| ())
    }

    /// Lets go of the session, until the transaction is [taken up](Session::take_up) again.
    pub fn pause(mut self) -> Paused {
        self.is_over = true;
        let session = &*self.tx.session;
        Paused {
            session: session.number,
            begun: session.begun,
            kind: self.tx.kind,
            is_scope: self.is_scope,
        }
    }

    fn end(&mut self, is_good: bool) -> Result<Option<TxError>, TxError> {
        self.is_over = true;
        self.tx.session.holds.note_end(is_good);
        self.tx.session.leave_with(is_good, Wait::Durable, self.is_scope)
    }
}

impl<'s, 'm, M: Memory> Deref for HeldTx<'s, 'm, M> {
    type Target = Tx<'s, 'm, M>;

    fn deref(&self) -> &Self::Target {
        &self.tx
    }
}

impl<M: Memory> DerefMut for HeldTx<'_, '_, M> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.tx
    }
}

impl<M: Memory> Drop for HeldTx<'_, '_, M> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        if std::thread::panicking() {
            self.tx.session.end_by_panic(self.is_scope);
        } else {
            // The next transaction tries it again.
            let _ = self.end(false);
        }
    }
}
