//! The accesses of a run, for the search for places to preempt.

use seawall_memory::Addr;

/// A word outside memory: fences and outputs count as writes to it, because a crash can show the
/// order in which several threads executed them.
pub(crate) const FENCES: Addr = Addr::pm(1 << 40);

/// An access to memory.
#[derive(Clone, Copy)]
pub(crate) struct Access {
    pub(crate) call: u64,
    pub(crate) thread: u16,
    pub(crate) word: u64,
    pub(crate) writes: bool,
}
