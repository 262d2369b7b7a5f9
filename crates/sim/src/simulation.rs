//! The interface to a run: set-up, observer, outcome and errors.

use crate::config::Machine;
use crate::custom::{self, PersistDesign};
use crate::designs::Choice;
use crate::machine::{RunOutcome, Setup};
use crate::{Cycle, SimMemory};
use std::cell::RefCell;
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
struct Nobody;

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
    /// A parameter of a design is unknown or has a wrong value.
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
    #[error("deadlock at cycle {cycle}: {who}")]
    Deadlock {
        /// The cycle of the last event.
        cycle: Cycle,
        /// Which cores wait, and for what.
        who: String,
    },
    /// The limit of simulated time was reached.
    #[error("the limit of {cycles} cycles was reached before the programs finished")]
    TooLong {
        /// The limit.
        cycles: Cycle,
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
    /// The caller requested a stop.
    #[error("stopped on request")]
    Stopped,
}

/// The design of a run.
enum Hardware<'a> {
    OfTable(&'a Choice),
    OfUser(Box<dyn PersistDesign>),
}

/// A run before it starts.
pub struct Simulation<'a> {
    machine: &'a Machine,
    design: Hardware<'a>,
    pm: Vec<u8>,
    dram: Vec<u8>,
    warm: bool,
    observer: Rc<RefCell<dyn Observer>>,
    stop: Arc<AtomicBool>,
    cycles_max: Cycle,
}

impl<'a> Simulation<'a> {
    /// A run on `machine` under `design` that starts with these bytes in persistent and volatile
    /// memory.
    pub fn new(machine: &'a Machine, design: &'a Choice, pm: Vec<u8>, dram: Vec<u8>) -> Self {
        Simulation::on(machine, Hardware::OfTable(design), pm, dram)
    }

    /// As [`new`](Simulation::new), under a design that is not in the table.
    pub fn of_design(
        machine: &'a Machine,
        design: Box<dyn PersistDesign>,
        pm: Vec<u8>,
        dram: Vec<u8>,
    ) -> Self {
        Simulation::on(machine, Hardware::OfUser(design), pm, dram)
    }

    fn on(machine: &'a Machine, design: Hardware<'a>, pm: Vec<u8>, dram: Vec<u8>) -> Self {
        Simulation {
            machine,
            design,
            pm,
            dram,
            warm: true,
            observer: Rc::new(RefCell::new(Nobody)),
            stop: Arc::default(),
            cycles_max: Cycle::MAX,
        }
    }

    /// Starts with empty caches. By default the shared cache starts with as much of memory as fits.
    #[must_use]
    pub fn cold(mut self) -> Self {
        self.warm = false;
        self
    }

    /// Adds an observer.
    #[must_use]
    pub fn watched_by(mut self, observer: Rc<RefCell<dyn Observer>>) -> Self {
        self.observer = observer;
        self
    }

    /// Ends with [`SimError::Stopped`] soon after `stop` becomes true.
    #[must_use]
    pub fn stopped_by(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = stop;
        self
    }

    /// Ends with [`SimError::TooLong`] after this much simulated time.
    #[must_use]
    pub fn at_most(mut self, cycles: Cycle) -> Self {
        self.cycles_max = cycles;
        self
    }

    /// Runs `programs`, one per core from core 0, until all have returned.
    ///
    /// # Errors
    /// More programs than cores, too much memory, a deadlock, the limit, or a request to stop.
    ///
    /// # Panics
    /// If a program panics, or uses an address outside its memory.
    pub fn run(self, programs: Vec<Program>) -> Result<RunOutcome, SimError> {
        let cores = self.machine.core.count;
        if programs.len() > cores {
            return Err(SimError::TooManyPrograms { programs: programs.len(), cores });
        }
        let bytes = (self.pm.len() + self.dram.len()) as u64;
        if bytes / 64 >= u64::from(u32::MAX) {
            return Err(SimError::TooMuchMemory { bytes });
        }
        let setup = Setup {
            machine: self.machine.clone(),
            pm: self.pm,
            dram: self.dram,
            warm: self.warm,
            programs,
            observer: self.observer,
            stop: self.stop,
            cycles_max: self.cycles_max,
        };
        match self.design {
            Hardware::OfTable(choice) => (choice.entry.run)(setup, &choice.parameters),
            Hardware::OfUser(design) => custom::run(setup, design),
        }
    }
}
