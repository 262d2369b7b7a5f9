//! The input of a run, its observer, and its outcome.

use crate::config::Machine;
use crate::core::profile::SiteTime;
use crate::detail::RunDetail;
use crate::engine::counters::{Counters, Stalls};
use crate::timeline::{RunTimeline, TimelineWindow};
use crate::{Cycle, SimMemory};
use std::cell::RefCell;
use std::fmt;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The program of one hardware thread.
pub type Program = Box<dyn FnOnce(&SimMemory)>;

/// Watches a run. All methods are called in time order.
pub trait Observer {
    /// `core` performed [`output`](seawall_memory::Memory::output) `number`, which took effect at
    /// `now`. Returns the cycle of a crash to examine, if any (not before `now`).
    fn output(&mut self, core: usize, number: u64, now: Cycle) -> Option<Cycle>;

    /// Receives what a crash at the end of cycle `now` leaves. The run continues.
    fn crash(&mut self, now: Cycle, crash: Crash);

    /// A page of the host has become the persistent bytes from `first_byte` on, with these
    /// contents: see [`Simulation::of_host`](crate::Simulation::of_host). Images of crashes have
    /// them from now on.
    fn mapped(&mut self, first_byte: u64, contents: &[u8]) {
        let _ = (first_byte, contents);
    }

    /// Whether the observer needs every access. Called once, at the start.
    fn watches_accesses(&self) -> bool {
        false
    }

    /// A store, or the store of a locked operation, took effect. Returns the cycle of a crash to
    /// examine, if any (not before `now`).
    fn stored(&mut self, access: CoreAccess, value: u64, now: Cycle) -> Option<Cycle> {
        let _ = (access, value, now);
        None
    }

    /// A load, or the load of a locked operation, read the machine's memory.
    fn loaded(&mut self, access: CoreAccess) {
        let _ = access;
    }
}

/// An access of a core to a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreAccess {
    /// The core.
    pub core: usize,
    /// The line's number, persistent lines first.
    pub line: u32,
    /// Which aligned word of the line, 0 to 7.
    pub word: u8,
    /// The bits of the word that were accessed.
    pub mask: u64,
    /// The number of stores of this core that precede it in program order.
    pub position: u64,
}

/// What a crash leaves after the design's own recovery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Crash {
    /// The program's persistent bytes.
    pub pm: Vec<u8>,
    /// Where the program of each core resumes, for a design that saves the state of its processors:
    /// the number of its stores that are in `pm`. Empty for other designs.
    pub stores: Vec<u64>,
}

/// An observer that ignores everything.
pub(crate) struct Nobody;

impl Observer for Nobody {
    fn output(&mut self, _: usize, _: u64, _: Cycle) -> Option<Cycle> {
        None
    }
    fn crash(&mut self, _: Cycle, _: Crash) {}
}

/// Why a simulation could not start or did not finish.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// No design has this name.
    #[error("no design '{name}'; known: {known}")]
    UnknownDesign {
        /// The name that was given.
        name: String,
        /// The known names.
        known: String,
    },
    /// A design has no such parameter.
    #[error("design {design}: no parameter '{key}'; {known}")]
    UnknownParameter {
        /// The design.
        design: String,
        /// The name that was given.
        key: String,
        /// The known names, or that there are none.
        known: String,
    },
    /// A parameter of a design is given in a wrong form, or has a wrong value.
    #[error("design {design}: {what}")]
    Parameter {
        /// The design.
        design: String,
        /// What is wrong, with the valid keys.
        what: String,
    },
    /// More programs than cores.
    #[error("{programs} threads do not fit the machine's {cores} cores; use at most {cores}")]
    TooManyPrograms {
        /// The number of programs.
        programs: usize,
        /// The number of cores.
        cores: usize,
    },
    /// More memory than the machine can number.
    #[error("{bytes} bytes of memory are too many: a machine has at most 256 GiB")]
    TooMuchMemory {
        /// The bytes requested.
        bytes: u64,
    },
    /// No event is left, but programs have not finished.
    #[error("deadlock at cycle {cycle}{}", on_lines(cores))]
    Deadlock {
        /// The cycle of the last event.
        cycle: Cycle,
        /// The cores whose programs have not finished.
        cores: Vec<UnfinishedCore>,
    },
    /// The limit of simulated time was reached.
    #[error(
        "the limit of {cycles} cycles was reached before the programs finished{}",
        on_lines(cores)
    )]
    TooLong {
        /// The limit.
        cycles: Cycle,
        /// The cores whose programs have not finished.
        cores: Vec<UnfinishedCore>,
    },
    /// The system has no memory for the stacks of the programs.
    #[error(
        "no memory for the stack of program {program} ({why}); take fewer threads, do less at once \
         (--jobs), or allow more memory (ulimit -v)"
    )]
    Stack {
        /// The number of the program.
        program: usize,
        /// The system's error.
        why: String,
    },
    /// A simulation in host addresses has mapped all its lines.
    #[error(
        "the program touches more than {bytes} bytes of {kind} memory; give the simulation more"
    )]
    HostSpaceFull {
        /// Which memory.
        kind: &'static str,
        /// Its capacity.
        bytes: u64,
    },
    /// The caller requested a stop.
    #[error("stopped on request")]
    Stopped,
}

impl SimError {
    /// Whether the programs would not have come to their end.
    pub fn is_stuck(&self) -> bool {
        matches!(self, SimError::Deadlock { .. } | SimError::TooLong { .. })
    }
}

/// A core whose program has not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedCore {
    /// The core.
    pub core: usize,
    /// What it does, as in `waits for a drain behind an order (fence)`.
    pub does: String,
    /// The call of the program at which it does that; none for compiled code.
    pub at: Option<&'static Location<'static>>,
}

impl fmt::Display for UnfinishedCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnfinishedCore { core, does, at } = self;
        write!(f, "core {core} {does}")?;
        at.map_or(Ok(()), |at| write!(f, ", at {}:{}", at.file(), at.line()))
    }
}

fn on_lines(cores: &[UnfinishedCore]) -> String {
    cores.iter().map(|core| format!("\n  {core}")).collect()
}

/// The memory of a simulation in [host addresses](crate::Simulation::of_host): how much of each
/// kind can be mapped. What is not mapped costs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSpace {
    /// Persistent bytes.
    pub pm_bytes: u64,
    /// Volatile bytes.
    pub dram_bytes: u64,
}

/// What memory has at the start.
pub(crate) enum Contents {
    /// These bytes.
    Bytes { pm: Vec<u8>, dram: Vec<u8> },
    /// Nothing: pages of the host are mapped later.
    Host(HostSpace),
}

impl Contents {
    /// The persistent bytes, if they do not grow.
    pub(crate) fn pm_bytes(&self) -> Option<usize> {
        match self {
            Contents::Bytes { pm, .. } => Some(pm.len()),
            Contents::Host(_) => None,
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Contents::Bytes { pm, dram } => (pm.len() + dram.len()) as u64,
            Contents::Host(space) => space.pm_bytes.saturating_add(space.dram_bytes),
        }
    }
}

/// A run, as the simulation passes it to the design's machine.
pub(crate) struct Setup {
    pub(crate) machine: Machine,
    pub(crate) contents: Contents,
    pub(crate) warm: bool,
    pub(crate) has_profile: bool,
    pub(crate) has_detail: bool,
    pub(crate) timeline: Option<(TimelineWindow, u64)>,
    pub(crate) programs: Vec<Program>,
    pub(crate) observer: Rc<RefCell<dyn Observer>>,
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) cycles_max: Cycle,
    pub(crate) stack_bytes: usize,
}

/// What a machine has done so far, or within a part of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// The cycles that have passed.
    pub cycles: Cycle,
    /// The stalled cycles of each program's core by reason. A core that has run ahead of the one
    /// that asks counts with what it has done by then.
    pub stalls: Vec<Stalls>,
    /// The counters.
    pub counters: Counters,
    /// For each program, its sites by number, if there is a profile.
    pub(crate) sites: Vec<Vec<SiteTime>>,
}

/// The result of a run.
///
/// If a program has marked [a region](SimMemory::roi_begin), all but `pm` is of that region; the
/// cycles of `timeline` are counted from the start of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOutcome {
    /// When the last program finished, in cycles.
    pub cycles: Cycle,
    /// When each program finished.
    pub finished: Vec<Cycle>,
    /// Each program's stalled cycles by reason, idle time at the end included: `cycles` minus their
    /// sum is the time in which the core issued instructions.
    pub stalls: Vec<Stalls>,
    /// The counters of the run.
    pub counters: Counters,
    /// Of each program, its [sites](SimMemory::set_site) by number, with cycles that add up to
    /// `cycles`; 0 is what was at no site, idle time included. Empty without a
    /// [profile](crate::Simulation::with_profile).
    pub sites: Vec<Vec<SiteTime>>,
    /// What happened when, if the simulation was
    /// [asked](crate::Simulation::with_timeline) for that.
    pub timeline: Option<RunTimeline>,
    /// Latencies, queues and cores, if the simulation was [asked](crate::Simulation::with_detail)
    /// for that.
    pub detail: Option<RunDetail>,
    /// The persistent bytes at rest: with every dirty line written back.
    pub pm: Vec<u8>,
}
