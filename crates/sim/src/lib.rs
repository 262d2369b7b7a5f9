//! A simulated multicore with persistent memory, whose persistency design is chosen by name.
//!
//! Each simulated hardware thread is a fiber that runs an ordinary program against
//! [`SimMemory`]; loads and stores move real values through caches, mesh and controllers, so that
//! the NVM image of any cycle is known. Everything happens in one exact order, by cycle and core,
//! and the same input gives the same bytes out.
//!
//! It is not a pipeline model (a core is a reorder buffer, a store buffer and a width), and it does
//! not know which program runs.
//!
//! ```
//! use seawall_memory::{Addr, Memory};
//! use seawall_sim::{Choice, Machine, Simulation};
//!
//! let machine = Machine::load("desktop")?;
//! let design = Choice::parse("lbpp")?;
//! let simulation = Simulation::new(&machine, &design, vec![0; 4096], vec![0; 64]);
//! let outcome = simulation.run(vec![Box::new(|memory| {
//!     memory.store(Addr::pm(64), 7u64);
//!     memory.order();
//!     memory.store(Addr::pm(128), 1u64);
//! })])?;
//! assert_eq!(outcome.counters.stores, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod cache;
mod calendar;
mod coherence;
mod combining;
mod config;
mod controller;
mod core;
mod counters;
mod designs;
mod hw;
mod link;
mod machine;
mod memory;
mod mesh;
mod private;
mod queue;
mod recording;
mod relocation;
mod simulation;
mod streamer;
mod values;
mod xpdimm;

pub use config::{
    CoreConfig, DeviceConfig, DimmConfig, L1Config, L2Config, LlcConfig, MACHINES, Machine,
    MachineError, MemoryConfig, MeshConfig, PrefetchConfig,
};
pub use counters::{Counters, Reason, Stalls};
pub use designs::{Choice, DESIGNS, DesignEntry, Model, ParameterDoc};
pub use machine::Outcome;
pub use memory::SimMemory;
pub use recording::Recording;
pub use simulation::{Access, Crash, Observer, Program, SimError, Simulation};
pub use xpdimm::{DimmTraffic, Taken, XpDimms};

/// A point in simulated time, in core cycles from the start.
pub type Cycle = u64;

/// Number of a core's epoch, from 1; 0 is none.
pub(crate) type Epoch = u32;

/// Number of a line in the machine's memory: persistent lines first, then volatile ones.
pub(crate) type LineId = u32;
