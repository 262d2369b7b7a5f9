//! How the threads of a program share its defragmentation, as published (FFCCD, ISCA'22, section
//! 5): each `pmalloc` and `pfree` checks how far the cycle is, so each operation ends with a
//! step, unless another thread is in one. In our form only thread 0 takes steps.
//!
//! As published, "a reachability run" moves what no thread has accessed, and only the lock of a
//! structure keeps two threads from one object. So each thread runs over the parts that are its
//! own, through the read barrier and under their locks. What is left, of threads that have ended,
//! the next steps move under all locks.

use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::Arena;
use seawall_runtime::defrag::{DefragCounts, Defragmenter};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Lines in DRAM: 1 while a thread is in a step; the number of runs that were asked for; those of
/// threads that have begun, and have ended.
const TURN: u64 = 0;
const ASKED: u64 = LINE_BYTES;
const BEGUN: u64 = 2 * LINE_BYTES;
const ENDED: u64 = 3 * LINE_BYTES;
const BYTES: u64 = 4 * LINE_BYTES;

/// When no thread has begun in so many checks for each thread, the others have ended.
const CHECKS: u64 = 4;

/// The defragmenter of a run, which the threads of the run share.
pub(super) struct Turns {
    at: Addr,
    /// No thread has it while it accesses memory: threads can share an OS thread.
    shared: Mutex<Shared>,
}

#[derive(Default)]
struct Shared {
    defragmenter: Option<Defragmenter>,
    counts: DefragCounts,
    /// The threads that had begun before the present run.
    before: u64,
    /// The threads that had begun at the last check, and the checks since that changed.
    seen: (u64, u64),
}

impl Turns {
    pub(super) fn place(arena: &mut Arena) -> Addr {
        arena.dram(BYTES)
    }

    pub(super) fn at(at: Addr) -> Arc<Turns> {
        Arc::new(Turns { at, shared: Mutex::default() })
    }

    pub(super) fn again(&self) -> Arc<Turns> {
        Turns::at(self.at)
    }

    pub(super) fn counts(&self) -> DefragCounts {
        self.shared().counts
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn load<M: Memory>(&self, memory: &M, line: u64) -> u64 {
        memory.load(self.at.plus(line))
    }

    /// The defragmenter, unless another thread has it, or threads run over their parts; the first
    /// is a new one.
    pub(super) fn take<M: Memory>(
        &self,
        memory: &M,
        threads: u64,
        new: impl FnOnce() -> Defragmenter,
    ) -> Option<Defragmenter> {
        let turn = self.at.plus(TURN);
        let is_free = |memory: &M| {
            self.load(memory, TURN) == 0 && memory.compare_exchange(turn, 0, 1).is_ok()
        };
        if threads > 1 && !is_free(memory) {
            return None;
        }
        let defragmenter = self.shared().defragmenter.take().unwrap_or_else(new);
        if threads > 1 && defragmenter.waits_for_runs() && !self.have_ended(memory, threads) {
            self.give_back(memory, threads, defragmenter);
            return None;
        }
        Some(defragmenter)
    }

    pub(super) fn give_back<M: Memory>(
        &self,
        memory: &M,
        threads: u64,
        defragmenter: Defragmenter,
    ) {
        {
            let mut shared = self.shared();
            shared.counts = defragmenter.counts();
            shared.defragmenter = Some(defragmenter);
        }
        if threads > 1 {
            // The fence of the next thread does not wait for what this one has flushed.
            memory.drain();
            memory.swap(self.at.plus(TURN), 0);
        }
    }

    /// Asks all threads to run over their parts; the caller has the defragmenter.
    pub(super) fn ask<M: Memory>(&self, memory: &M) {
        let begun = self.load(memory, BEGUN);
        {
            let mut shared = self.shared();
            (shared.before, shared.seen) = (begun, (begun, 0));
        }
        memory.fetch_add(self.at.plus(ASKED), 1);
    }

    /// Does `run` if a run was asked for since this thread did the last.
    pub(super) fn run_if_asked<M: Memory>(&self, memory: &M, last: &mut u64, run: impl FnOnce()) {
        let asked = self.load(memory, ASKED);
        if std::mem::replace(last, asked) != asked {
            memory.fetch_add(self.at.plus(BEGUN), 1);
            run();
            memory.fetch_add(self.at.plus(ENDED), 1);
        }
    }

    fn have_ended<M: Memory>(&self, memory: &M, threads: u64) -> bool {
        let (ended, begun) = (self.load(memory, ENDED), self.load(memory, BEGUN));
        let mut shared = self.shared();
        let checks = if shared.seen.0 == begun { shared.seen.1 + 1 } else { 0 };
        shared.seen = (begun, checks);
        let are_all = begun - shared.before >= threads || checks > CHECKS * threads;
        ended == begun && are_all
    }
}
