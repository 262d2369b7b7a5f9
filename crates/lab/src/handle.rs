//! The handles that a thread of a run may have, as one type: what runs on them is compiled once for
//! all of them, and not once for each, workload by workload.
//!
//! To choose between them at each access takes the time of a branch, which is nothing in a
//! simulation, and little where a run counts dirty bytes or leaves its flushes to others. A native
//! run with nothing around its memory does without.

use crate::accounted::Accounted;
use crate::characterise::Watched;
use seawall_memory::{Memory, pass};
use seawall_ribbon::DirtinessMemory;
use seawall_ribbon::RibbonMemory;
use seawall_sim::SimMemory;
use std::ops::Deref;

/// Of a simulated thread.
pub(crate) type Simulated<'m, 's> = Handle<'m, SimMemory<'s>, &'m SimMemory<'s>>;

/// A machine's own handle, or one around it.
#[expect(clippy::large_enum_variant, reason = "a thread has one")]
pub(crate) enum Handle<'m, M: Memory, H: Deref<Target = M>> {
    Plain(&'m M),
    Ribbon(RibbonMemory<'m, H>),
    Watched(Watched<'m, M>),
    Dirtiness(DirtinessMemory<'m, M>),
    Accounted(Accounted<'m, M>),
}

impl<M: Memory, H: Deref<Target = M>> Memory for Handle<'_, M, H> {
    pass!((Plain Ribbon Watched Dirtiness Accounted): thread, seats, load_bits, store_bits, swap);
    pass!((Plain Ribbon Watched Dirtiness Accounted): compare_exchange, fetch_add, flush, order);
    pass!((Plain Ribbon Watched Dirtiness Accounted): strand, join_strands, drain, work, now);
    pass!((Plain Ribbon Watched Dirtiness Accounted): sleep_while, wake);
    pass!((Plain Ribbon Watched Dirtiness Accounted): purpose, grow, will_write, spin_while);
    pass!((Plain Ribbon Watched Dirtiness Accounted): output, load_line, read, write, write_nt);
    pass!((Plain Ribbon Watched Dirtiness Accounted): discard, bring_back, relocates, forwards);
    pass!((Plain Ribbon Watched Dirtiness Accounted): set_relocation, relocate, forward);
}
