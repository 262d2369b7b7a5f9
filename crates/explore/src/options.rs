//! How far a search goes.

use seawall_memory::Model;
use std::ops::Range;

/// How far to search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// The persistency model.
    pub model: Model,
    /// Crash states at most.
    pub budget: u64,
    /// Crash after every store too, not only before fences and outputs.
    pub thorough: bool,
    /// Crashes during recovery that follow the first crash: 0, 1, 2, ...
    pub depth: usize,
    /// Crash states of one point up to which all of them are tried.
    pub point_limit: u64,
    /// Random crash states tried at each larger point.
    pub samples: u64,
    /// Lines of one image, at most, whose words were written by non-temporal stores and persisted
    /// out of order; those of other lines persist in order. Each such line has up to 256 states.
    pub torn_lines: usize,
    /// Interruptions of one recovery by several threads at most
    /// ([`CrashImage::together`](crate::CrashImage::together)).
    pub recovery_interruptions: usize,
    /// Memory accesses that one run of recovery and check may make.
    pub steps: u64,
    /// Seed of the random states.
    pub seed: u64,
    /// The events of the run at which to look for failure points.
    pub events: Range<usize>,
}

impl Search {
    /// Whether what one search found out about crashes of recovery holds for the other.
    pub(crate) fn is_as_deep(&self, other: &Search) -> bool {
        let of = |search: &Search| {
            let Search { thorough, depth, torn_lines, recovery_interruptions, steps, .. } = *search;
            (thorough, depth, torn_lines, recovery_interruptions, steps)
        };
        of(self) == of(other)
    }

    /// The usual search under `model`.
    pub fn new(model: Model) -> Search {
        Search {
            model,
            budget: 100_000,
            thorough: false,
            depth: 2,
            point_limit: 5_000,
            samples: 200,
            torn_lines: 0,
            recovery_interruptions: 2,
            steps: 10_000_000,
            seed: 1,
            events: 0..usize::MAX,
        }
    }
}
