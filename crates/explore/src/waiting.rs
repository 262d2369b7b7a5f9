//! Which threads wait, and for what: of a run, and of a recovery by several threads.
//!
//! A thread that reads the same values at the same call sites over and over waits for another
//! thread, whatever its loop looks like: after [`REPEATS`] rounds it is passed over until memory
//! has changed. So a lock that spins on a failing locked operation needs no `spin_while` to end.

use crate::site::Site;
use seawall_memory::Addr;
use std::cell::{Cell, RefCell};

#[derive(Clone, Copy)]
pub(crate) enum Wait {
    /// For the word to change from this value.
    Word(Addr, u64),
    /// For memory to change, having changed this many times.
    Change(u64),
}

/// Rounds after which a loop that only reads the same counts as waiting.
const REPEATS: usize = 8;

/// Loops of at most so many reads are recognized.
const ROUND_MAX: usize = 4;

/// A read: where, what, and by which call.
pub(crate) type Read = (Addr, u64, Site);

/// The latest reads of a thread, oldest first.
#[derive(Default)]
struct Repeats(Vec<Read>);

impl Repeats {
    /// True if the reads before this one, with it, are the same round again and again.
    fn ends_with(&mut self, read: Read) -> bool {
        let most = REPEATS * ROUND_MAX;
        if self.0.len() == most {
            self.0.remove(0);
        }
        self.0.push(read);
        (1..=ROUND_MAX).any(|round| {
            let Some(start) = self.0.len().checked_sub(round * REPEATS) else { return false };
            let last = &self.0[start..];
            last.iter().zip(&last[round..]).all(|(a, b)| a == b)
        })
    }
}

/// The threads that wait or have ended.
pub(crate) struct Waiting {
    waits: Vec<Cell<Option<Wait>>>,
    ended: Vec<Cell<bool>>,
    /// What each thread read lately without writing anything.
    repeats: RefCell<Vec<Repeats>>,
    /// Stores so far.
    changes: Cell<u64>,
}

impl Waiting {
    pub(crate) fn new(threads: usize) -> Waiting {
        Waiting {
            waits: vec![Cell::new(None); threads],
            ended: vec![Cell::new(false); threads],
            repeats: RefCell::new((0..threads).map(|_| Repeats::default()).collect()),
            changes: Cell::new(0),
        }
    }

    pub(crate) fn threads(&self) -> usize {
        self.waits.len()
    }

    pub(crate) fn end(&self, thread: usize) {
        self.ended[thread].set(true);
    }

    pub(crate) fn has_ended(&self, thread: usize) -> bool {
        self.ended[thread].get()
    }

    /// Lets other threads run, by `pause`, until this happens.
    pub(crate) fn wait_for(&self, thread: usize, wait: Wait, pause: impl Fn()) {
        self.waits[thread].set(Some(wait));
        pause();
        self.waits[thread].set(None);
    }

    /// The thread waits from the start of the run on.
    pub(crate) fn begin_with(&self, thread: usize, wait: Wait) {
        self.waits[thread].set(Some(wait));
    }

    /// The thread does not wait.
    pub(crate) fn wake(&self, thread: usize) {
        self.waits[thread].set(None);
    }

    /// Takes note of a read that changed nothing, and waits if the thread repeats itself.
    #[inline]
    pub(crate) fn note_repeat(&self, thread: usize, read: Read, pause: impl Fn()) {
        if self.threads() == 1 {
            return;
        }
        if self.repeats.borrow_mut()[thread].ends_with(read) {
            self.repeats.borrow_mut()[thread].0.clear();
            self.wait_for(thread, Wait::Change(self.changes.get()), pause);
        }
    }

    /// Takes note that the thread has changed memory, or told something.
    pub(crate) fn note_progress(&self, thread: usize) {
        self.changes.set(self.changes.get() + 1);
        if self.threads() > 1 {
            self.repeats.borrow_mut()[thread].0.clear();
        }
    }

    pub(crate) fn is_ready(&self, thread: usize, word: impl Fn(Addr) -> u64) -> bool {
        !self.has_ended(thread)
            && match self.waits[thread].get() {
                None => true,
                Some(Wait::Word(at, value)) => word(at) != value,
                Some(Wait::Change(since)) => self.changes.get() != since,
            }
    }

    /// The threads that can run; if there are none, those that wait for any change, of which one
    /// may still give up waiting.
    pub(crate) fn ready(&self, word: impl Fn(Addr) -> u64) -> Vec<usize> {
        let threads = 0..self.threads();
        let ready: Vec<usize> = threads.clone().filter(|&t| self.is_ready(t, &word)).collect();
        if !ready.is_empty() {
            return ready;
        }
        threads.filter(|&thread| self.repeats_itself(thread)).collect()
    }

    fn repeats_itself(&self, thread: usize) -> bool {
        !self.has_ended(thread) && matches!(self.waits[thread].get(), Some(Wait::Change(_)))
    }

    /// What the threads that have not ended wait for, in words.
    pub(crate) fn stuck(&self) -> Option<String> {
        let waits = |thread: usize| match self.waits[thread].get()? {
            Wait::Word(at, value) => {
                Some(format!("thread {thread} waits for {at} to change from {value:#x}"))
            }
            Wait::Change(_) => None,
        };
        let stuck = (0..self.threads()).filter(|&thread| !self.has_ended(thread));
        let stuck: Vec<String> = stuck.filter_map(waits).collect();
        (!stuck.is_empty()).then(|| stuck.join(", "))
    }
}
