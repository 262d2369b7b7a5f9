//! Locks and barriers of the kernels: ordinary words of the pool, as in a machine whose whole
//! memory is NVM.
//!
//! Nothing here survives a crash by itself; a machine that restarts from a checkpoint restores
//! these words with all others, and the registers of the threads that wait on them.
//!
//! A lock of [`lock`] is one word wherever the program has room for it, often between data, as
//! fine-grained locks are: test, and test-and-set. Where all threads meet at one lock, the kernels
//! take the queue locks of the runtime instead, placed in the pool. The barrier is the
//! sense-reversing one of Mellor-Crummey and Scott (1991, section 3.1), its sense read on entry.

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

/// Gives the lock at `at` back.
#[track_caller]
pub(super) fn unlock<M: Memory>(memory: &M, at: Addr) {
    memory.store(at, 0u64);
}

/// The threads of a run, with the barrier at which they meet and the locks that all of them take.
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

    /// Makes the barrier as it is when nobody waits at it, after a crash.
    pub(crate) fn reset<M: Memory>(&self, memory: &M) {
        memory.store(self.arrived, 0u64);
        memory.store(self.sense, 0u64);
    }

    /// Part of `count` things that this thread does.
    pub(crate) fn share<M: Memory>(&self, memory: &M, count: u64) -> Range<u64> {
        self.input.share(memory.thread(), count)
    }

    /// How many threads there are.
    pub(crate) const fn threads(&self) -> u64 {
        self.input.threads as u64
    }

    /// Waits until all threads have come.
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

    /// Does `what` under lock `index`.
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
