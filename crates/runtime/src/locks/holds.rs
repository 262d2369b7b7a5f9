//! The locks that a session holds while it runs a transaction (`lock_set` takes them).

use seawall_memory::Addr;

/// The locks of a session.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    /// The words of held locks, with their versions before.
    pub(super) held: Vec<(Addr, u64)>,
    /// The locks to take before the next transaction.
    pub(super) first: Vec<Addr>,
    /// The lock for which the last transaction failed, if any.
    pub(super) lacked: Option<Addr>,
    /// The locks for which transactions failed that were begun by calls, one after the other.
    lacked_so_far: Vec<Addr>,
}

impl Holds {
    pub(super) fn before(&self, word: Addr) -> Option<u64> {
        self.held.iter().find(|(held, _)| *held == word).map(|(_, before)| *before)
    }

    pub(super) fn may_wait(&self, word: Addr) -> bool {
        self.held.iter().all(|(held, _)| *held < word)
    }

    /// A transaction that was begun by a call ends. If it lacked a lock, the next one is taken for
    /// its repetition.
    #[inline]
    pub(crate) fn note_end(&mut self, is_good: bool) {
        match self.lacked {
            Some(word) if !is_good => {
                self.lacked_so_far.push(word);
                self.lacked_so_far.sort_unstable();
                self.lacked_so_far.dedup();
            }
            _ => self.lacked_so_far.clear(),
        }
    }

    /// A transaction begins by a call.
    #[inline]
    pub(crate) fn note_start(&mut self) {
        if !self.lacked_so_far.is_empty() {
            self.first.clone_from(&self.lacked_so_far);
        }
    }
}
