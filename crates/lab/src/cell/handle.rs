//! The handles that a thread of a run may have, as one type: what runs on them is compiled once for
//! all of them, and not once for each, workload by workload.
//!
//! To choose between them at each access takes the time of a branch, which is nothing in a
//! simulation, and little where a run counts dirty bytes or leaves its flushes to others. A native
//! run with nothing around its memory does without.

use crate::cell::accounted::Accounted;
use crate::cell::characterise::Watched;
use seawall_memory::Memory;
use seawall_memory::layer::{self, Either};
use seawall_ribbon::DirtinessMemory;
use seawall_ribbon::RibbonMemory;
use seawall_sim::SimMemory;
use std::ops::Deref;

/// Of a simulated thread.
pub(crate) type Simulated<'m, 's> = Handle<'m, SimMemory<'s>, &'m SimMemory<'s>>;

/// A machine's own handle, or one around it.
pub(crate) struct Handle<'m, M: Memory, H: Deref<Target = M>>(Kinds<'m, M, H>);

type Kinds<'m, M, H> = Either<Either<&'m M, RibbonMemory<'m, H>>, Observed<'m, M>>;
type Observed<'m, M> = Either<DirtinessMemory<'m, M>, Either<Watched<'m, M>, Accounted<'m, M>>>;

impl<'m, M: Memory, H: Deref<Target = M>> Handle<'m, M, H> {
    pub(crate) fn plain(memory: &'m M) -> Self {
        Handle(Either::Left(Either::Left(memory)))
    }

    pub(crate) fn ribbon(memory: RibbonMemory<'m, H>) -> Self {
        Handle(Either::Left(Either::Right(memory)))
    }

    pub(crate) fn dirtiness(memory: DirtinessMemory<'m, M>) -> Self {
        Handle(Either::Right(Either::Left(memory)))
    }

    pub(crate) fn watched(memory: Watched<'m, M>) -> Self {
        Handle(Either::Right(Either::Right(Either::Left(memory))))
    }

    pub(crate) fn accounted(memory: Accounted<'m, M>) -> Self {
        Handle(Either::Right(Either::Right(Either::Right(memory))))
    }

    /// The machine's own handle.
    pub(crate) fn machine(&self) -> &M {
        use layer::Layer;
        match &self.0 {
            Either::Left(Either::Left(memory)) => memory,
            Either::Left(Either::Right(ribbon)) => ribbon.inner(),
            Either::Right(Either::Left(counted)) => counted.below(),
            Either::Right(Either::Right(Either::Left(watched))) => watched.below(),
            Either::Right(Either::Right(Either::Right(accounted))) => accounted.below(),
        }
    }
}

impl<'m, M: Memory, H: Deref<Target = M>> layer::Layer for Handle<'m, M, H> {
    type Below = Kinds<'m, M, H>;

    fn below(&self) -> &Kinds<'m, M, H> {
        &self.0
    }
}
