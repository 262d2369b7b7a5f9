//! Experiments: the only place where the workloads and the three machines meet.
//!
//! A [`Plan`] is made from names, [`Comparison`] runs it, and its tables, records and plots are
//! what `seawall compare` shows. [`Figures`] holds a paper's numbers beside ours, [`mod@bench`]
//! times the simulator itself, [`run`] runs a workload on this computer, [`explore`] tries every
//! image that a crash may leave, [`litmus`] runs small programs over models and designs, and
//! [`pool`] says what is in a pool file. [`Whisper`] counts how applications use
//! persistent memory.
//!
//! It is not a command line: it prints nothing but progress, and every result is a value.

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "the command line is the only user; many names say all")]
// They panic when standard error is closed.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

// Loaded, so that its code is found; see Cargo.toml.
#[cfg(test)]
extern crate seawall_lab as _;

mod cell;
mod commands;
mod engine;
mod error;
mod figures;
mod subject;

pub use cell::crash::Broken;
pub use cell::{Cell, CellRibbon, EarlyStores, Flushed, Moving, Point, run_cell};
pub use commands::compare::Comparison;
pub use commands::compare::plan::{BASELINE, CompareOptions, OPERATIONS, Plan};
pub use commands::compare::record::Record;
pub use commands::kernels::cuts::{Cuts, crash_kernel};
pub use commands::kernels::point::{Extent, KernelPoint, KernelRun, run_kernel};
pub use commands::kernels::{
    KERNEL_BASELINE, KernelCell, KernelOptions, KernelPlan, KernelRecord, KernelSize, Kernels,
};
pub use commands::list::{Listing, show_design, show_machine};
pub use commands::program::{
    FenceChoice, FromChoice, PmChoice, ProfileCalls, ProfileRecord, ProgramExperiment,
    ProgramOptions, ProgramRecord, Programs,
};
pub use commands::similar::tip;
pub use commands::sweep::{OpenSweep, Sweep, SweepError, SweepOptions, SweepPlan, SweepTask};
pub use commands::whisper::{
    Quantities, WHISPER_OPERATIONS, Whisper, WhisperOptions, WhisperPlan, WhisperRecord,
};
pub use commands::{bench, explore, litmus, pool, run, validate};
pub use engine::detail::{CoreRecord, DetailRecord, LatencyRecord, QueueRecord};
pub use engine::kept::build;
pub use engine::options::{CRASHES, MACHINE, RequestOptions};
pub use engine::timeline::{TraceOptions, TraceWindow};
pub use engine::typed::in_words;
pub use error::LabError;
pub use figures::{
    Coalescing, CoalescingFigure, CoalescingOptions, CoalescingRecord, CoalescingRow,
    CoalescingRun, Column, Conflicts, DesignFigure, DirtinessFigure, DirtinessProgram,
    DirtinessRecord, Figure, FigureOptions, FigurePlan, FigureRecord, Figures, FragmentationFigure,
    FragmentationProgram, FragmentationRecord, KernelFigure, KernelFigureRecord, KernelSeries,
    LOSS_MAX, LoggingFigure, LoggingRecord, Metric, MovingFigure, MovingProgram, MovingRecord,
    MovingSeries, Numbers, ProgramValue, PublishedValue, Quantity, Reproduced, RunRecord, Series,
    Stated, Varied, VariedValue, Way,
};
pub use seawall_runtime::defrag::{DefragOptions, Protocol};

pub use seawall_explore::Model;
pub use seawall_native::{
    Doctor, Domain, DomainError, EndWithoutMemory, ignore_size_limit, on_stop,
};
pub use seawall_report::{Experiment, Progress, Report};
pub use seawall_sim::{Choice, Machine};
pub use seawall_workloads::{Flaw, RequestMix, UnknownFlaw, UnknownMix};
