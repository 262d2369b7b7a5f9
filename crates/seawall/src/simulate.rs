//! A program on simulated persistency hardware.

use crate::started::started;
use crate::thread::Thread;
use crate::{Branded, Error, HeapError};
use seawall_memory::Image;
use seawall_runtime::{HeapOptions, typed};
use seawall_sim::{
    Choice, Counters, Machine, PersistDesign, Program, RunOutcome, SimError, SimMemory,
    Simulation as Simulator,
};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// What [`simulate`] runs on.
#[derive(Clone, Debug)]
pub struct Simulation {
    machine: String,
    design: Design,
    threads: usize,
    bytes: u64,
}

/// The hardware of a simulation; of a user's design it makes a new one for each run.
#[derive(Clone)]
enum Design {
    Named(String),
    Own(Arc<dyn Fn() -> Box<dyn PersistDesign> + Send + Sync>),
}

/// A run that needs its persistent and volatile bytes and its programs.
type Run<'a> = Box<dyn FnOnce(Vec<u8>, Vec<u8>, Vec<Program>) -> Result<RunOutcome, SimError> + 'a>;

impl Design {
    fn on<'a>(&'a self, machine: &'a Machine) -> Result<Run<'a>, SimError> {
        Ok(match self {
            Design::Named(name) => {
                let choice = Choice::parse(name)?;
                Box::new(move |pm, dram, programs| {
                    Simulator::new(machine, &choice, pm, dram).run(programs)
                })
            }
            Design::Own(design) => Box::new(|pm, dram, programs| {
                Simulator::of_design(machine, design(), pm, dram).run(programs)
            }),
        })
    }
}

impl std::fmt::Debug for Design {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Design::Named(name) => f.write_str(name),
            Design::Own(_) => f.write_str("a user's design"),
        }
    }
}

impl Simulation {
    /// The persistency design of this name, with parameters if any (`lbpp:epochs=4`), on the
    /// machine of MICRO'15, one thread. `seawall list designs` shows them.
    pub fn of(design: &str) -> Simulation {
        Simulation::on(Design::Named(design.to_owned()))
    }

    /// As [`of`](Simulation::of), with a user's design; each run begins with a clone of it.
    /// `examples/my_design.rs` has one.
    pub fn with(design: impl PersistDesign + Clone + Send + Sync + 'static) -> Simulation {
        Simulation::on(Design::Own(Arc::new(move || Box::new(design.clone()))))
    }

    fn on(design: Design) -> Simulation {
        Simulation { machine: "micro15".to_owned(), design, threads: 1, bytes: 1 << 20 }
    }

    /// On this machine: a name, as `seawall list machines` shows them, or the path of a file.
    #[must_use]
    pub fn machine(self, machine: &str) -> Simulation {
        Simulation { machine: machine.to_owned(), ..self }
    }

    /// Sets the number of threads, each on its own core. The default is 1.
    #[must_use]
    pub fn threads(self, threads: usize) -> Simulation {
        Simulation { threads, ..self }
    }

    /// Sets the bytes of objects that the pool has room for. The default is 1 MiB.
    #[must_use]
    pub fn bytes(self, bytes: u64) -> Simulation {
        Simulation { bytes, ..self }
    }
}

/// What a simulated run took.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Simulated {
    /// When the last thread had finished, in cycles.
    pub cycles: u64,
    /// What happened in the machine.
    pub counters: Counters,
}

/// Why a simulation came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulateError {
    /// The pool cannot be made, or a transaction failed.
    #[error(transparent)]
    Program(#[from] HeapError),
    /// More threads than cores, a deadlock, no memory.
    #[error(transparent)]
    Run(#[from] SimError),
    /// There is no such machine or design.
    #[error("{0}")]
    Unknown(String),
}

/// Runs `program` once for each thread, on a pool that `setup` has filled, and returns the time.
/// The same input takes the same cycles, every time.
///
/// ```
/// use seawall::{Persist, Simulation, simulate};
///
/// #[derive(Clone, Copy, Persist)]
/// struct Counter {
///     count: u64,
/// }
///
/// let cycles = |design: &str| {
///     simulate::<Counter>(
///         &Simulation::of(design),
///         |_| Ok(()),
///         |pool| {
///             (0..100).try_for_each(|_| {
///                 pool.transaction(|tx, root| tx.update(root.at(Counter::COUNT), |n| n + 1))
///             })
///         },
///     )
///     .map(|run| run.cycles)
/// };
/// assert!(cycles("volatile")? < cycles("clwb")?);
/// # Ok::<(), seawall::SimulateError>(())
/// ```
///
/// A function that is generic over the machine is given as a closure: `|pool| run(pool)`.
///
/// # Errors
/// When there is no such machine or design, a transaction fails, or the run does not end.
pub fn simulate<R: Branded + 'static>(
    how: &Simulation,
    setup: impl FnOnce(&mut Thread<'_, R, Image>) -> Result<(), Error>,
    program: impl Fn(&mut Thread<'_, R, SimMemory<'_>>) -> Result<(), Error> + Clone + 'static,
) -> Result<Simulated, SimulateError> {
    let unknown = |error: &dyn std::fmt::Display| SimulateError::Unknown(error.to_string());
    let machine = Machine::load(&how.machine).map_err(|error| unknown(&error))?;
    let run = how.design.on(&machine).map_err(|error| unknown(&error))?;
    let options = HeapOptions {
        bytes: how.bytes,
        bytes_max: how.bytes,
        threads: how.threads as u64,
        ..typed::options::<R>()
    };
    let (image, heap) = started(&options, setup)?;
    let failed = Rc::new(RefCell::new(None));
    let programs = (0..how.threads).map(|_| -> Program {
        let (program, failed) = (program.clone(), failed.clone());
        Box::new(move |memory: &SimMemory<'_>| {
            let run = || Ok::<_, HeapError>(program(&mut Thread::join(heap, memory)?)?);
            if let Err(error) = run() {
                *failed.borrow_mut() = Some(error);
            }
        })
    });
    let (pm, dram) = image.into_parts();
    let outcome = run(pm, dram, programs.collect())?;
    match failed.take() {
        Some(error) => Err(error.into()),
        None => Ok(Simulated { cycles: outcome.cycles, counters: outcome.counters }),
    }
}
