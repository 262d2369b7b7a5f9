//! A simulated multicore with persistent memory, whose persistency design is chosen by name.
//!
//! Each simulated hardware thread is a fiber that runs an ordinary program against
//! [`SimMemory`]; loads and stores move real values through caches, mesh and controllers, so that
//! the NVM image of any cycle is known. Everything happens in one exact order, by cycle and core,
//! and the same input produces the same bytes.
//!
//! It is not a pipeline model (a core is a reorder buffer, a store buffer and a width), and it does
//! not know which program runs.
//!
//! ```
//! use seawall_memory::{Addr, Memory, MemoryExt};
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

mod caches;
mod config;
mod core;
mod custom;
mod design;
mod designs;
mod detail;
mod engine;
mod families;
mod hw;
mod machine;
mod memory;
mod noc;
mod recording;
mod relocation;
mod run;
mod seam;
mod simulation;
mod timeline;
mod toy;
pub mod validation;

pub use crate::core::profile::SiteTime;
pub use config::{
    CoreConfig, DeviceConfig, DimmConfig, L1Config, L2Config, LlcConfig, MACHINES, Machine,
    MachineError, MemoryConfig, MeshConfig, PrefetchConfig, read_description, toml_in_words,
};
pub use custom::{Permission, PersistDesign, WriteBacks};
pub use designs::{Choice, DESIGNS, DesignEntry, ParameterDoc};
pub use detail::{CoreDetail, Latencies, Occupancy, RunDetail};
pub use engine::counters::{Counters, Reason, Stalls};
pub use memory::optane::{DimmTraffic, WriteTimes, XpDimms};
pub use recording::Recording;
pub use run::{
    CoreAccess, Crash, HostSpace, Measured, Observer, Program, RunOutcome, SimError, UnfinishedCore,
};
pub use seam::SimMemory;
pub use simulation::Simulation;
pub use timeline::{
    EpochDependence, EpochEnd, EpochName, EpochSlice, EpochWait, QueueEntry, RunTimeline,
    StallSlice, TimelineWindow, WriteQueue,
};

/// A point in simulated time, in core cycles from the start.
pub type Cycle = u64;

/// The number of an epoch of a core, from 1; 0 stands for no epoch.
pub(crate) type Epoch = u32;

/// The number of a line in the machine's memory: persistent lines first, then volatile ones.
pub(crate) type LineId = u32;
