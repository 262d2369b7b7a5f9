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
}

impl Holds {
    pub(super) fn before(&self, word: Addr) -> Option<u64> {
        self.held.iter().find(|(held, _)| *held == word).map(|(_, before)| *before)
    }

    pub(super) fn may_wait(&self, word: Addr) -> bool {
        self.held.iter().all(|(held, _)| *held < word)
    }
}
