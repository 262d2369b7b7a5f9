//! What a run tells about where another schedule may differ: its accesses, and the moments at which
//! a thread had ended or waited, so that any other could go next.

use seawall_memory::{Addr, LINE_BYTES};
use serde::{Deserialize, Serialize};

/// A word outside memory: fences and outputs count as writes to it, because a crash can show the
/// order in which several threads executed them.
pub(crate) const FENCES: Addr = Addr::pm(1 << 40);

/// The word that two threads conflict in: of persistent memory, the first of its line, as the
/// stores of a line persist in order, whatever words they are to.
pub(crate) fn shared_word(at: Addr) -> u64 {
    let bytes = if at.is_pm() { LINE_BYTES } else { 8 };
    at.bits() / bytes * bytes / 8
}

/// An access to memory.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Access {
    pub(crate) call: u64,
    pub(crate) thread: u16,
    /// The word; for persistent memory the first one of its line.
    pub(crate) word: u64,
    pub(crate) writes: bool,
    /// The other threads that could have run instead, as bits.
    pub(crate) others: u64,
    /// How far behind the newest store a load could have been, from and up to.
    pub(crate) behind: (u32, u32),
}

/// A non-temporal store that another thread met, and that could have stayed in its buffer longer; or
/// a write of several words that another thread met when it had only begun.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Met {
    /// The call of the store, or the first of the write, and the one that met it.
    pub(crate) store: u64,
    pub(crate) call: u64,
}

/// A moment at which the thread that ran had ended or waited.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Handover {
    /// The call that came next.
    pub(crate) call: u64,
    /// The threads that could run and did not, as bits.
    pub(crate) others: u64,
}
