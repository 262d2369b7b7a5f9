//! Who moves the objects of a workload together while it runs ("FFCCD: Fence-Free Crash-Consistent
//! Concurrent Defragmentation for Persistent Memory", ISCA'22).

use crate::{WORKLOADS, Workload};
use seawall_runtime::defrag::DefragOptions;

/// Who defragments, for workloads of typed objects that grow and shrink
/// ([`MOVES`](Workload::MOVES)).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Collect {
    /// Nobody; the heap is made without the room for it.
    #[default]
    Nobody,
    /// Thread 0, which takes a step after each of its operations: where a run is to be the same
    /// each time.
    Steps(DefragOptions),
    /// A thread of its own, whose number is behind those of the others
    /// ([`beside_collector`](Workload::beside_collector)).
    Thread(DefragOptions),
}

impl Collect {
    /// By steps of thread 0, if there is a way.
    pub fn by_steps(way: Option<DefragOptions>) -> Collect {
        way.map_or(Collect::Nobody, Collect::Steps)
    }

    /// By a thread of its own, if there is a way.
    pub fn by_thread(way: Option<DefragOptions>) -> Collect {
        way.map_or(Collect::Nobody, Collect::Thread)
    }

    /// When and how, if anybody does.
    pub fn way(self) -> Option<DefragOptions> {
        match self {
            Collect::Nobody => None,
            Collect::Steps(way) | Collect::Thread(way) => Some(way),
        }
    }

    /// Refuses to move the objects of `W`, if they do not move.
    ///
    /// # Errors
    /// The workload, and those whose objects do.
    pub fn check_for<W: Workload>(self) -> Result<(), Immobile> {
        match W::MOVES || self == Collect::Nobody {
            true => Ok(()),
            false => Err(Immobile { workload: W::NAME }),
        }
    }
}

/// The objects of a workload do not move.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the objects of {workload} do not move; those of {} do", movable())]
pub struct Immobile {
    workload: &'static str,
}

fn movable() -> String {
    let movable = WORKLOADS.iter().filter(|entry| entry.moves).map(|entry| entry.name);
    movable.collect::<Vec<_>>().join(", ")
}
