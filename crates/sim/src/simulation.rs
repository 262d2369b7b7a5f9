//! A run before it starts: the machine, the design, the programs and the observer.

use crate::Cycle;
use crate::config::Machine;
use crate::custom::{self, PersistDesign};
use crate::designs::Choice;
use crate::run::{Contents, HostSpace, Nobody, Observer, Program, RunOutcome, Setup, SimError};
use crate::timeline::TimelineWindow;
use seawall_fiber::STACK_BYTES;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The design of a run.
enum Hardware<'a> {
    OfTable(&'a Choice),
    OfUser(Box<dyn PersistDesign>),
}

/// A run before it starts.
pub struct Simulation<'a> {
    machine: &'a Machine,
    design: Hardware<'a>,
    contents: Contents,
    warm: bool,
    has_profile: bool,
    has_detail: bool,
    timeline: Option<(TimelineWindow, u64)>,
    observer: Rc<RefCell<dyn Observer>>,
    stop: Arc<AtomicBool>,
    cycles_max: Cycle,
    stack_bytes: usize,
}

impl<'a> Simulation<'a> {
    /// A run on `machine` under `design` that starts with these bytes in persistent and volatile
    /// memory.
    pub fn new(machine: &'a Machine, design: &'a Choice, pm: Vec<u8>, dram: Vec<u8>) -> Self {
        Simulation::on(machine, Hardware::OfTable(design), Contents::Bytes { pm, dram })
    }

    /// A run whose programs are compiled code of this process: addresses are those of the host,
    /// below 2^47. No address has memory at first; [`SimMemory::map`](crate::SimMemory::map) gives
    /// a page the next free lines of the memory of its kind, and is all that decides whether its
    /// bytes persist ([`Addr::is_pm`](seawall_memory::Addr::is_pm) means nothing here). Outcomes
    /// depend on the order of mapping and not on where the host has put the pages, except that a
    /// core takes a value for an address if it lies between the lowest page and the highest.
    ///
    /// Foreign code cannot be unwound: when the run ends, programs that have not returned are
    /// forgotten, with all that their stacks hold. Designs that relocate offer no relocation.
    pub fn of_host(machine: &'a Machine, design: &'a Choice, space: HostSpace) -> Self {
        Simulation::on(machine, Hardware::OfTable(design), Contents::Host(space))
    }

    /// As [`new`](Simulation::new), under a design that is not in the table.
    pub fn of_design(
        machine: &'a Machine,
        design: Box<dyn PersistDesign>,
        pm: Vec<u8>,
        dram: Vec<u8>,
    ) -> Self {
        Simulation::on(machine, Hardware::OfUser(design), Contents::Bytes { pm, dram })
    }

    fn on(machine: &'a Machine, design: Hardware<'a>, contents: Contents) -> Self {
        Simulation {
            machine,
            design,
            contents,
            warm: !machine.cold,
            has_profile: false,
            has_detail: false,
            timeline: None,
            observer: Rc::new(RefCell::new(Nobody)),
            stop: Arc::default(),
            cycles_max: Cycle::MAX,
            stack_bytes: STACK_BYTES,
        }
    }

    /// Starts with empty caches, as all runs of a machine with [`cold`](Machine::cold) do. By
    /// default the shared cache starts with as much of memory as fits.
    #[must_use]
    pub fn cold(mut self) -> Self {
        self.warm = false;
        self
    }

    /// Tells apart the [sites](crate::SimMemory::set_site) of the programs. Changes nothing else.
    #[must_use]
    pub fn with_profile(mut self) -> Self {
        self.has_profile = true;
        self
    }

    /// Records the [timeline](RunOutcome::timeline) of a part of the run, which ends early when it
    /// takes that many bytes. Changes nothing else.
    #[must_use]
    pub fn with_timeline(mut self, window: TimelineWindow, bytes_max: u64) -> Self {
        self.timeline = Some((window, bytes_max));
        self
    }

    /// Keeps the [detail](RunOutcome::detail) of the run. Changes nothing else.
    #[must_use]
    pub fn with_detail(mut self) -> Self {
        self.has_detail = true;
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

    /// Gives each program a stack of this size; what it does not touch costs nothing.
    #[must_use]
    pub fn with_stacks(mut self, bytes: usize) -> Self {
        self.stack_bytes = bytes;
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
        let bytes = self.contents.bytes();
        if bytes / 64 >= u64::from(u32::MAX) {
            return Err(SimError::TooMuchMemory { bytes });
        }
        let setup = Setup {
            machine: self.machine.clone(),
            contents: self.contents,
            warm: self.warm,
            has_profile: self.has_profile,
            has_detail: self.has_detail,
            timeline: self.timeline,
            programs,
            observer: self.observer,
            stop: self.stop,
            cycles_max: self.cycles_max,
            stack_bytes: self.stack_bytes,
        };
        match self.design {
            Hardware::OfTable(choice) => (choice.entry.run)(setup, &choice.parameters),
            Hardware::OfUser(design) => custom::run(setup, design),
        }
    }
}
