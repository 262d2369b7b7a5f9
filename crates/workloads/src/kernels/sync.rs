//! Locks and barriers of the kernels: ordinary words of the pool, as in a machine whose whole
//! memory is NVM.
//!
//! Nothing here survives a crash by itself; a machine that restarts from a checkpoint restores
//! these words with all others, and the registers of the threads that wait on them.
//!
//! A lock of [`lock`] is one word anywhere in the program's data, as fine-grained locks are: test,
//! and test-and-set. If all threads use one lock, the kernels use the queue locks of the runtime
//! instead, placed in the pool. The barrier is the sense-reversing one of Mellor-Crummey and Scott
//! (1991, section 3.1), with its sense read on entry.

use crate::Input;
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::{Arena, Locks};
use std::ops::Range;

/// Waits until the word at `at` is 0 and makes it 1.
#[track_caller]
pub(super) fn lock<M: Memory>(memory: &M, at: Addr) {
    while memory.swap(at, 1) != 0 {
        memory.spin_while(at, 1);
    }
}

/// Releases the lock at `at`.
#[track_caller]
pub(super) fn unlock<M: Memory>(memory: &M, at: Addr) {
    memory.store(at, 0u64);
}

/// The threads of a run, with their common barrier and locks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Team {
    pub(crate) input: Input,
    arrived: Addr,
    sense: Addr,
    locks: Locks,
}

impl Team {
    /// Places the barrier and `locks` locks, of which a thread holds one at a time.
    pub(crate) fn place(input: &Input, arena: &mut Arena, locks: u64) -> Team {
        let (arrived, sense) = (arena.pm(LINE_BYTES), arena.pm(LINE_BYTES));
        let locks = Locks::place_in_pool(arena, locks, input.threads as u64, 1);
        Team { input: *input, arrived, sense, locks }
    }

    /// Resets the barrier after a crash, to the state without waiters.
    pub(crate) fn reset<M: Memory>(&self, memory: &M) {
        memory.store(self.arrived, 0u64);
        memory.store(self.sense, 0u64);
    }

    /// This thread's part of `count` items.
    pub(crate) fn share<M: Memory>(&self, memory: &M, count: u64) -> Range<u64> {
        self.input.share(memory.thread(), count)
    }

    /// The number of threads.
    pub(crate) const fn threads(&self) -> u64 {
        self.input.threads as u64
    }

    /// Waits until all threads have arrived.
    #[track_caller]
    pub(crate) fn meet<M: Memory>(&self, memory: &M) {
        let sense = memory.load::<u64>(self.sense);
        if memory.fetch_add(self.arrived, 1) + 1 == self.threads() {
            memory.store(self.arrived, 0u64);
            memory.store(self.sense, 1 - sense);
        } else {
            while memory.spin_while(self.sense, sense) == sense {}
        }
    }

    /// Calls `what` under lock `index`.
    #[track_caller]
    pub(crate) fn alone<M: Memory, T>(
        &self,
        memory: &M,
        index: u64,
        what: impl FnOnce() -> T,
    ) -> T {
        let guard = self.locks.acquire(memory, index, 0);
        let done = what();
        self.locks.release(memory, guard);
        done
    }
}
