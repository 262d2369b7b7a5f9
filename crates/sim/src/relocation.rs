//! Messages between relocation hardware and the machine around it (FFCCD, ISCA'22).

use crate::{Cycle, LineId};
use seawall_memory::{Addr, LINE_BYTES};

/// A write that reaches its controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arriving {
    /// Its number; later writes have higher ones.
    pub(crate) number: u64,
    /// What it writes.
    pub(crate) line: LineId,
    /// It takes bytes of a copy to memory.
    pub(crate) has_copy: bool,
}

/// How much later than usual a write is accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Late {
    /// The delay in cycles.
    pub(crate) by: Cycle,
    /// The earliest cycle.
    pub(crate) floor: Cycle,
}

/// The answer of a core's hardware about where an object went, and its latency in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// It knows.
    At(Addr, Cycle),
    /// It has to be read in the pool.
    Walk(Walk, Cycle),
}

/// What must be read of a page in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    /// The word with the place of the page's forwarding entry.
    pub(crate) place: Addr,
    /// The line of minor distances that is wanted, 0 to 3.
    pub(crate) quarter: u64,
    /// How often registers had been set by then.
    pub(crate) generation: u64,
}

impl Walk {
    /// Where the line of minor distances is in the forwarding entry at `entry`.
    pub(crate) fn minor(&self, entry: Addr) -> Addr {
        entry.plus(LINE_BYTES * (1 + self.quarter))
    }
}
