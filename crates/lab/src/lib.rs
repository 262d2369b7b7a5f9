//! Experiments: the only place where the workloads and the three machines meet.
//!
//! A [`Plan`] is made from names, [`Comparison`] runs it, and its tables, records and plots are
//! what `seawall compare` shows. [`Figures`] holds a paper's numbers beside ours, [`mod@bench`]
//! times the simulator itself, [`native`] runs a workload on this computer, [`explore`] tries every
//! image that a crash may leave, [`litmus`] runs small programs over models and designs, and
//! [`pool`] says what is in a pool file. [`Whisper`] counts how applications use
//! persistent memory.
//!
//! It is not a command line: it prints nothing but progress, and every result is a value.

#![forbid(unsafe_code)]
// They panic where nobody reads.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod accounted;
pub mod bench;
mod cell;
mod characterise;
mod chart;
mod coalescing;
mod compare;
mod crash;
mod cuts;
mod describe;
mod error;
pub mod explore;
mod figures;
mod handle;
mod jobs;
mod kernel;
mod kernels;
pub mod litmus;
pub mod native;
mod output;
mod plan;
mod plot;
pub mod pool;
mod progress;
mod record;
mod spent;
mod sweep;
mod table;
pub mod validate;
mod whisper;

pub use cell::{Cell, CellRibbon, EarlyStores, FlushMode, Flushed, Moving, Point, run_cell};
pub use coalescing::{Coalescing, CoalescingOptions, CoalescingRow};
pub use compare::Comparison;
pub use crash::Broken;
pub use cuts::{Cuts, crash_kernel};
pub use describe::{Listing, show_design, show_machine};
pub use error::LabError;
pub use figures::{
    CoalescingFigure, CoalescingRecord, CoalescingRun, Column, Conflicts, DesignFigure,
    DirtinessFigure, DirtinessProgram, DirtinessRecord, Figure, FigureOptions, FigureRecord,
    Figures, FragmentationFigure, FragmentationProgram, FragmentationRecord, KernelFigure,
    KernelFigureRecord, KernelSeries, LOSS_MAX, LoggingFigure, LoggingRecord, Metric, MovingFigure,
    MovingProgram, MovingRecord, MovingSeries, Quantity, RunRecord, Series, Stated, Way,
};
pub use kernel::{Extent, KernelPoint, KernelRun, run_kernel};
pub use kernels::{
    KERNEL_BASELINE, KernelCell, KernelOptions, KernelPlan, KernelRecord, KernelSize, Kernels,
};
pub use output::{Files, Finished, Output, drop_parts, tell, write_file};
pub use plan::{BASELINE, CRASHES, CompareOptions, FLUSHERS, MACHINE, OPERATIONS, Plan};
pub use progress::Progress;
pub use record::Record;
pub use seawall_runtime::defrag::{DefragOptions, Protocol};
pub use sweep::{Sweep, SweepError, SweepPlan};
pub use whisper::{
    Quantities, WHISPER_OPERATIONS, Whisper, WhisperOptions, WhisperPlan, WhisperRecord,
};

pub use seawall_explore::Model;
pub use seawall_native::{
    Doctor, Domain, DomainError, EndWithoutMemory, ignore_size_limit, on_stop,
};
pub use seawall_workloads::{Flaw, RequestMix, UnknownFlaw, UnknownMix};
