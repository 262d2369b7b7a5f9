//! What the cores of a run do that does not come to its end: for what each waits, and at which call
//! of its program, so that an error can say so.

use super::System;
use crate::core::{Kind, Waits};
use crate::design::Design;
use crate::engine::counters::Reason;
use crate::run::{SimError, UnfinishedCore};

impl<D: Design> System<D> {
    /// Nothing is left to happen.
    pub(super) fn deadlock(&self) -> SimError {
        SimError::Deadlock { cycle: self.hw.queue.now(), cores: self.unfinished() }
    }

    /// The limit of simulated time is reached.
    pub(super) fn too_long(&self) -> SimError {
        SimError::TooLong { cycles: self.cycles_max, cores: self.unfinished() }
    }

    fn unfinished(&self) -> Vec<UnfinishedCore> {
        let cores = (0..self.programs).filter(|core| self.hw.cores[*core].waits != Waits::Done);
        let is_compiled = self.pages.is_some();
        let at = |core: usize| self.places[core].get().filter(|_| !is_compiled);
        cores.map(|core| UnfinishedCore { core, does: self.does(core), at: at(core) }).collect()
    }

    fn does(&self, core: usize) -> String {
        let waits = match self.hw.cores[core].waits {
            Waits::Nothing | Waits::Done => return "runs".into(),
            Waits::Parked(Reason::Idle) => return "is parked until another core unparks it".into(),
            Waits::Parked(_) => return "sleeps until another core wakes it".into(),
            Waits::Change(line) => {
                let kind = if self.hw.is_pm(line) { "persistent" } else { "volatile" };
                return format!("waits until another core writes {kind} line {line}");
            }
            Waits::Access(reason) => return format!("waits at an access ({})", reason.name()),
            Waits::Room => "room in its store buffer",
            Waits::Empty => "an empty store buffer",
            Waits::Drain => "a drain",
        };
        let buffer = &self.hw.cores[core].buffer;
        let behind =
            buffer.entries.front().zip(buffer.reason).map(|(head, reason)| {
                format!(" behind {} ({})", in_words(head.kind), reason.name())
            });
        format!("waits for {waits}{}", behind.unwrap_or_default())
    }
}

/// An entry of a store buffer.
fn in_words(kind: Kind) -> &'static str {
    match kind {
        Kind::Store | Kind::Part | Kind::Copy => "a store",
        Kind::NonTemporal | Kind::PartNonTemporal => "a non-temporal store",
        Kind::Flush => "a flush",
        Kind::Order => "an order",
        Kind::Strand => "a new strand",
        Kind::Join => "a join of strands",
        Kind::Drain => "a drain",
        Kind::Output => "an output",
    }
}
