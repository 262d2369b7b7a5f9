//! A thread that works in a pool, on whatever machine.

use crate::lock::PoolLock;
use crate::{Branded, Error, HeapError, Logging, Ptr, ReadError, Tx, View};
use seawall_collections::fields::DRAM_BYTES;
use seawall_memory::{Addr, Memory, ThreadSlots};
use seawall_runtime::{Heap, typed};

/// Bytes of volatile memory that a pool needs behind those of its heap.
pub(crate) const BEHIND_BYTES: u64 = DRAM_BYTES + crate::lock::LOCK_BYTES;

/// A thread's handle on a pool whose root is an `R`, on the machine of `M`.
///
/// Functions that take one by `&mut Thread<'_, Root, M>` with `M: Memory` run on mapped files,
/// under the explorer and on simulated machines alike.
pub struct Thread<'m, R, M: Memory> {
    /// None in the child of a fork, where each call is an error.
    thread: Option<typed::Thread<'m, R, M>>,
    memory: &'m M,
    /// None where there is only one thread.
    lock: Option<PoolLock>,
}

fn lock_of(heap: &Heap) -> Option<PoolLock> {
    let word = Addr::dram(heap.dram_bytes() + DRAM_BYTES);
    (heap.threads() > 1).then_some(PoolLock::at(word))
}

impl<R, M: Memory> std::fmt::Debug for Thread<'_, R, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Thread").finish_non_exhaustive()
    }
}

impl<'m, R: Branded, M: Memory> Thread<'m, R, M> {
    pub(crate) fn join(heap: Heap, memory: &'m M) -> Result<Self, HeapError> {
        let lock = lock_of(&heap);
        Ok(Thread { thread: Some(typed::Thread::join(heap, memory)?), memory, lock })
    }

    /// In the pool of another process, from which this one was forked.
    pub(crate) fn inherited(memory: &'m M) -> Self {
        Thread { thread: None, memory, lock: None }
    }

    pub(crate) fn resume(heap: Heap, memory: &'m M, before: typed::Suspended<R>) -> Self {
        let thread = typed::Thread::resume(heap, memory, before);
        Thread { thread: Some(thread), memory, lock: lock_of(&heap) }
    }

    pub(crate) fn suspend(self) -> Option<typed::Suspended<R>> {
        self.thread?.suspend()
    }

    /// The handle below, unless the pool is another process's: found out before anything is waited
    /// for.
    fn of_this_process(&mut self) -> Result<&mut typed::Thread<'m, R, M>, ReadError> {
        let is_inherited = self.memory.slots().is_some_and(ThreadSlots::are_inherited);
        self.thread.as_mut().filter(|_| !is_inherited).ok_or(ReadError::Inherited)
    }

    /// Runs `body` as a transaction that logs new values: with one fence it is durable when this
    /// returns `Ok`. When `body` fails or panics, nothing has happened.
    ///
    /// Transactions of other threads, and reads, wait for it. `body` may run more than once, if
    /// it needs what a thread holds that works below this interface.
    ///
    /// # Errors
    /// What `body` returns; [`Error::Full`] when the pool has no room; [`ReadError::Inherited`] in
    /// a process that was forked from the one that opened the pool, in `body`, too.
    pub fn transaction<T, E: From<Error>>(
        &mut self,
        body: impl for<'p> FnMut(&mut Tx<'p, '_, 'm, M>, Ptr<'p, R::In<'p>>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transaction_with(Logging::Redo, body)
    }

    /// As [`transaction`](Thread::transaction), with a choice: `Logging::Undo` logs old values and
    /// stores in place, at a fence for each first store.
    ///
    /// # Errors
    /// As [`transaction`](Thread::transaction).
    pub fn transaction_with<T, E: From<Error>>(
        &mut self,
        logging: Logging,
        mut body: impl for<'p> FnMut(&mut Tx<'p, '_, 'm, M>, Ptr<'p, R::In<'p>>) -> Result<T, E>,
    ) -> Result<T, E> {
        let (lock, memory) = (self.lock, self.memory);
        let thread = self.of_this_process().map_err(Error::from)?;
        let _held = lock.map(|lock| lock.write(memory));
        thread.enter(|session, root| session.retry(logging, |tx| body(tx, root)))
    }

    /// Runs `body`, which reads what is committed. Others may read at the same time.
    ///
    /// # Errors
    /// What `body` returns; [`ReadError::Inherited`] in a process that was forked from the one that
    /// opened the pool.
    pub fn read<T, E: From<ReadError>>(
        &mut self,
        body: impl for<'p> FnOnce(&mut View<'p, '_, 'm, M>, Ptr<'p, R::In<'p>>) -> Result<T, E>,
    ) -> Result<T, E> {
        let (lock, memory) = (self.lock, self.memory);
        let thread = self.of_this_process()?;
        let _held = lock.map(|lock| lock.read(memory));
        thread.enter(|session, root| body(&mut View::of(session), root))
    }

    /// Reports to the outside world that operation `number` of this thread is done: a crash after
    /// it must not lose what was committed before. Machines that crash programs take note of it;
    /// elsewhere it does nothing.
    #[track_caller]
    pub fn output(&self, number: u64) {
        self.memory.output(number);
    }

    /// Returns this thread's free space to the other threads.
    pub fn leave(self) {
        self.thread.into_iter().for_each(typed::Thread::leave);
    }

    /// Truncates the logs: all that is committed is in its place.
    #[cfg(any(feature = "explore", feature = "simulate"))]
    pub(crate) fn settle(&mut self) {
        self.thread.iter_mut().for_each(|thread| thread.untyped().retire());
    }
}
