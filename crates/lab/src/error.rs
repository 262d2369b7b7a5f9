//! Why an experiment cannot be run or shown; every message names the thing and the remedy.

use crate::commands::run::NativeError;
use seawall_cc::CcError;
use seawall_program::ProgramError;
use seawall_report::ReportError;
use seawall_ribbon::RibbonError;
use seawall_runtime::defrag::DefragError;
use seawall_sim::{MachineError, SimError};
use seawall_workloads::{
    BadSetup, Damage, Immobile, UnfitFlaw, UnfitMix, UnknownKernel, UnknownWorkload,
};
use std::io;

/// Why an experiment came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// No such workload.
    #[error(transparent)]
    Workload(#[from] UnknownWorkload),
    /// No such kernel.
    #[error(transparent)]
    Kernel(#[from] UnknownKernel),
    /// No such design, a wrong parameter, too many threads, or a simulation that failed.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// A cell that does not come to its end.
    #[error("{cell}: {error}{repeat}")]
    Stuck {
        /// The program and the design.
        cell: String,
        /// What its cores wait for.
        error: Box<SimError>,
        /// The command that runs it again, on a line of its own, where one cell is a command.
        repeat: String,
    },
    /// The machine cannot be used.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// Memory of this machine cannot be had.
    #[error(transparent)]
    Pool(#[from] seawall_native::PoolError),
    /// A number that the workloads cannot run with.
    #[error(transparent)]
    Setup(#[from] BadSetup),
    /// A planted bug that the workload does not have.
    #[error(transparent)]
    Flaw(#[from] UnfitFlaw),
    /// Requests that the workload cannot answer.
    #[error(transparent)]
    Mix(#[from] UnfitMix),
    /// An option of a Ribbon is out of range.
    #[error(transparent)]
    Ribbon(#[from] RibbonError),
    /// A Ribbon under a design for which programs flush nothing.
    #[error(
        "programs for {design} flush no lines, so a Ribbon has nothing to do; take clwb, or leave \
         the Ribbon out"
    )]
    NothingToFlush {
        /// The design with its parameters.
        design: String,
    },
    /// A way to defragment that needs hardware, and designs that have none of it.
    #[error("{way} needs hardware that relocates: name a design that has it, ffccd")]
    NoRelocation {
        /// The way.
        way: String,
    },
    /// Ratios to defragment by.
    #[error(transparent)]
    Defragment(#[from] DefragError),
    /// A workload whose objects do not move.
    #[error(transparent)]
    Immobile(#[from] Immobile),
    /// There are not enough cores for threads and flushers.
    #[error(
        "{threads} threads and {flushers} flushers are more than the {cores} cores of the machine; \
         take fewer, or set its core.count"
    )]
    Flushers {
        /// Application threads.
        threads: u64,
        /// Flushers of the Ribbon.
        flushers: u64,
        /// The machine's cores.
        cores: u64,
    },
    /// A run on this host's memory, of a figure.
    #[error(transparent)]
    Native(Box<NativeError>),
    /// An option is out of range.
    #[error("{option} is {value}; it must be {valid}")]
    Option {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        valid: String,
    },
    /// An option of programs of others, without one.
    #[error("{option} is for programs of others; name one with --program, or leave it out")]
    NeedsProgram {
        /// The option.
        option: &'static str,
    },
    /// Several cells, of which one is to be recorded.
    #[error(
        "--trace records one cell, and {cells} are named ({first}); name one workload, kernel or \
         program, and one design"
    )]
    ManyTraced {
        /// How many.
        cells: usize,
        /// The first of them.
        first: String,
    },
    /// A design, workload or figure that is asked for twice.
    #[error("{what} {name} is named twice; name it once")]
    Twice {
        /// "design", "workload" or "figure".
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// The baseline is not among the designs.
    #[error("the baseline {name} is not among the designs {designs}; add it or choose one of them")]
    Baseline {
        /// The baseline.
        name: String,
        /// The designs.
        designs: String,
    },
    /// No such figure.
    #[error(
        "no figure '{name}'; known: {known}; or give what the names of several begin with, as \
         micro15, or the path of a .toml file"
    )]
    UnknownFigure {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// No such application.
    #[error("no application '{name}'; known: {known}")]
    UnknownApplication {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A factor of a sweep makes no design or no machine.
    #[error("factor '{name}': {what}")]
    Factor {
        /// The factor.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// No program of a figure is in the folder.
    #[error(
        "--programs {folder} has none of the programs of these figures: {what}; leave the option \
         out, or see validation/programs for the figures that have programs and their names"
    )]
    NoPrograms {
        /// The folder.
        folder: String,
        /// What is missing.
        what: String,
    },
    /// The description of a figure is wrong.
    #[error("figure {name}: {what}")]
    Figure {
        /// Name or path.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// A structure that is wrong before any crash: a bug, not a finding.
    #[error("{workload} is damaged before the run: {damage}; please report this")]
    Damage {
        /// The workload.
        workload: &'static str,
        /// What is wrong.
        damage: Damage,
    },
    /// Results that cannot be shown or written.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// A program of others could not be run to its end.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A program of others has nothing in it that seawall can run.
    #[error(transparent)]
    Compiled(#[from] CcError),
    /// Code without instrumentation writes persistent memory.
    #[error(
        "{program}: {words} words of persistent memory changed without a store that was seen, so \
         that its crashes would show too little; compile all that writes there with `seawall \
         cc`{places}"
    )]
    Unseen {
        /// The command.
        program: String,
        /// How many.
        words: u64,
        /// Some of them, a line each.
        places: String,
    },
    /// No folder for the files of a run.
    #[error("no folder for temporary files: {error}; set TMPDIR to one that can be written")]
    Folder {
        /// What went wrong.
        error: io::Error,
    },
    /// A folder or a device where results are to be kept.
    #[error("{path} is no ordinary file, so nothing can go on from it; give another with {option}")]
    NotAFile {
        /// The file.
        path: String,
        /// The option that names it.
        option: &'static str,
    },
    /// Another run keeps its results in the file.
    #[error("another seawall is writing {path}; wait for it, or give another file with {option}")]
    InUse {
        /// The file.
        path: String,
        /// The option that names it.
        option: &'static str,
    },
    /// The file has results of something else.
    #[error("{path}, line {line}: {what}; give another file with {option}, or move this one away")]
    OtherFile {
        /// The file.
        path: String,
        /// The first line that does not belong.
        line: usize,
        /// What it is.
        what: String,
        /// The option that names it.
        option: &'static str,
    },
    /// Instructions that cannot be counted.
    #[error("--instructions counts with Valgrind: {what}; install it, or leave the option out")]
    Valgrind {
        /// What went wrong.
        what: String,
    },
    /// The thread pool cannot be made.
    #[error(
        "{jobs} worker threads cannot be started: {why}; give fewer with --jobs, where there is \
         that option, or allow more memory and threads (ulimit -v, ulimit -u)"
    )]
    Jobs {
        /// Threads asked for.
        jobs: usize,
        /// What went wrong.
        why: String,
    },
}

impl From<NativeError> for LabError {
    fn from(error: NativeError) -> LabError {
        LabError::Native(Box::new(error))
    }
}

impl LabError {
    pub(crate) fn file(path: &std::path::Path) -> impl FnOnce(io::Error) -> LabError {
        let error = ReportError::file(path);
        move |source| error(source).into()
    }
}
