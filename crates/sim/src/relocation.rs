//! Messages between relocation hardware and the machine around it (FFCCD, ISCA'22).

use crate::Cycle;
use seawall_memory::{Addr, LINE_BYTES};

/// The answer of a core's lookup hardware for one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// The object's address, and the latency in cycles.
    At(Addr, Cycle),
    /// The lookup missed: the pool must be read, after this latency in cycles.
    Walk(Walk, Cycle),
}

/// What must be read of a page's entry in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    /// The word that holds the address of the page's forwarding entry.
    pub(crate) place: Addr,
    /// Which line of minor distances is needed, 0 to 3.
    pub(crate) quarter: u64,
    /// How often the registers had been set by then.
    pub(crate) generation: u64,
}

impl Walk {
    /// The address of the line of minor distances in the forwarding entry at `entry`.
    pub(crate) fn minor(&self, entry: Addr) -> Addr {
        entry.plus(LINE_BYTES * (1 + self.quarter))
    }
}
