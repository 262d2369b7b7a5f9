//! The handles that a thread of a run may have, as one type: what runs on them is compiled once for
//! all of them, and not once for each, workload by workload.
//!
//! To choose between them at each access takes the time of a branch, which is nothing in a
//! simulation, and little where a run counts dirty bytes or leaves its flushes to others. A native
//! run with nothing around its memory does without.

use crate::accounted::Accounted;
use crate::characterise::Watched;
use seawall_memory::{Memory, pass};
use seawall_runtime::DirtinessMemory;
use seawall_runtime::ribbon::RibbonMemory;
use seawall_sim::SimMemory;
use std::ops::Deref;

/// Of a simulated thread.
pub(crate) type Simulated<'m, 's> = Handle<'m, SimMemory<'s>, &'m SimMemory<'s>>;

/// A machine's own handle, or one around it.
pub(crate) enum Handle<'m, M: Memory, H: Deref<Target = M>> {
    Plain(&'m M),
    Ribbon(RibbonMemory<'m, H>),
    Watched(Watched<'m, M>),
    Dirtiness(DirtinessMemory<'m, M>),
    Accounted(Accounted<'m, M>),
}

impl<M: Memory, H: Deref<Target = M>> Memory for Handle<'_, M, H> {
    pass!((Plain Ribbon Watched Dirtiness Accounted): thread, load_bits, store_bits, compare_exchange, swap,
        fetch_add, flush, order, strand, join_strands, drain, work, now, purpose, grow, will_write,
        spin_while, output, load_line, read, write, write_nt, discard, bring_back, relocates,
        forwards, set_relocation, relocate, forward);
}
