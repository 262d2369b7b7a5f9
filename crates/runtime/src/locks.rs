//! Locks: queue locks in DRAM, locks with versions (stripes), and the set that a transaction holds.

pub(crate) mod holds;
mod lock_set;
pub(crate) mod queue;
pub(crate) mod stripes;
