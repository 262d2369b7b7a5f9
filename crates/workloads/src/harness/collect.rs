//! Which thread defragments the heap of a workload while it runs ("FFCCD: Fence-Free
//! Crash-Consistent Concurrent Defragmentation for Persistent Memory", ISCA'22).

use crate::{WORKLOADS, Workload};
use seawall_runtime::defrag::DefragOptions;

/// Which thread defragments, for workloads of typed objects that grow and shrink
/// ([`MOVES`](Workload::MOVES)).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Collect {
    /// No thread; the heap has no room for the tables of defragmentation.
    #[default]
    Nobody,
    /// The threads themselves, each with a step after each of its operations unless another one is
    /// in a step; where objects do not move as published, thread 0 alone. For runs that must be
    /// reproducible.
    Steps(DefragOptions),
    /// A separate thread, numbered behind the others
    /// ([`beside_collector`](Workload::beside_collector)).
    Thread(DefragOptions),
}

impl Collect {
    /// Defragmentation by steps of the threads, if there are options.
    pub fn by_steps(way: Option<DefragOptions>) -> Collect {
        way.map_or(Collect::Nobody, Collect::Steps)
    }

    /// Defragmentation by a separate thread, if there are options.
    pub fn by_thread(way: Option<DefragOptions>) -> Collect {
        way.map_or(Collect::Nobody, Collect::Thread)
    }

    /// The options, unless no thread defragments.
    pub fn way(self) -> Option<DefragOptions> {
        match self {
            Collect::Nobody => None,
            Collect::Steps(way) | Collect::Thread(way) => Some(way),
        }
    }

    /// Rejects defragmentation if the objects of `W` cannot move.
    ///
    /// # Errors
    /// The workload, and those whose objects can move.
    pub fn check_for<W: Workload>(self) -> Result<(), Immobile> {
        if self == Collect::Nobody { Ok(()) } else { Immobile::check::<W>() }
    }
}

/// The objects of a workload cannot move.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the objects of {workload} do not move; those of {} do", movable())]
pub struct Immobile {
    workload: &'static str,
}

impl Immobile {
    pub(crate) fn check<W: Workload>() -> Result<(), Immobile> {
        if W::MOVES { Ok(()) } else { Err(Immobile { workload: W::NAME }) }
    }
}

fn movable() -> String {
    let movable = WORKLOADS.iter().filter(|entry| entry.moves).map(|entry| entry.name);
    movable.collect::<Vec<_>>().join(", ")
}
