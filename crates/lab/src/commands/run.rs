//! A workload on the memory of this machine: run it and count, or recover what a run left.
//!
//! The count is wall-clock time of real instructions on this machine, which is not the time that a
//! design would take: that is the simulator's business. What the file survives is said in every
//! report, because on most machines it is less than persistent memory would survive.

mod report;
mod threads;
mod times;

pub use report::{
    CollectorReport, DirtinessReport, NativeReport, Place, RecoveryReport, RibbonReport, RunReport,
};
pub use seawall_ribbon::{EarlySource, Mode as RibbonMode};
pub use times::LatencyReport;

use crate::cell::mode_parser;
use crate::engine::options::{RequestOptions, default_options, named};
use clap::Args;
use clap::builder::TypedValueParser;
use seawall_any::{AnyMemory, AnyWorkload, workload as any_workload};
use seawall_memory::{Image, MemoryExt};
use seawall_native::{Counters, Domain, DomainError, Needs, Pool, PoolError, PoolOptions, Witness};
use seawall_report::{Experiment, Files, Form, Progress, Report, json_lines};
use seawall_ribbon::Dirtiness;
use seawall_ribbon::{RibbonPoolError, THREADS_MAX as FLUSHERS_MAX};
use seawall_runtime::Heap;
use seawall_runtime::defrag::{self, DefragError, DefragOptions, Protocol};
use seawall_workloads::{
    BadSetup, Collect, Cost, Damage, Flaw, Immobile, Layout, Setup, UnfitMix, UnknownWorkload,
};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;
use threads::{Done, Host, run_beside, run_threads, seconds_of};

/// The most threads that a run may have.
pub const THREADS_MAX: usize = 1024;

/// The longest run, in seconds: a week.
pub const SECONDS_MAX: f64 = 7.0 * 24.0 * 3600.0;

/// The most entries that a structure may start with.
pub const ENTRIES_MAX: u64 = 1 << 32;

/// DRAM that recovery may use beyond the size of the pool.
const DRAM_BYTES_MORE: u64 = 1 << 26;

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Limit {
    /// After this many seconds of operations, more than 0 and at most [`SECONDS_MAX`].
    Seconds(f64),
    /// After this many operations of each thread, at least 1.
    Operations(u64),
}

/// What to run, and where.
#[derive(Clone, Debug, Args)]
pub struct NativeOptions {
    /// Threads
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub threads: usize,
    /// Seconds to run
    #[arg(long, default_value_t = 2.0, value_name = "N", conflicts_with = "ops")]
    pub seconds: f64,
    /// Operations of each thread, instead of a time
    #[arg(long, value_name = "N")]
    pub ops: Option<u64>,
    /// Seed of the operations
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// What the operations are.
    #[command(flatten)]
    pub requests: RequestOptions,
    /// Pool file to create; it stays after the run [default: a temporary one]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// File to create for the count of finished operations of each thread
    #[arg(long, value_name = "FILE")]
    pub witness: Option<PathBuf>,
    /// What a drain must survive: line, page or none [default: what fits the file]
    #[arg(long, value_parser = domain, value_name = "DOMAIN")]
    pub domain: Option<Domain>,
    /// Leave flushes to other threads, where that pays, always, or never (and count)
    #[arg(long, value_parser = mode_parser(), value_name = "MODE", num_args = 0..=1,
          require_equals = true, default_missing_value = "auto")]
    pub ribbon: Option<RibbonMode>,
    /// Clean lines before their flush is asked for, where that pays, told of stores by the first of
    /// the others (auto), sampled addresses, marked pages, or handles, which then skip the flush
    #[arg(long, value_parser = early_source(), value_name = "SOURCE", requires = "ribbon",
          num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    pub early: Option<EarlySource>,
    /// Threads that flush [default: a processor fewer than there are, 1 to 24]
    #[arg(long, requires = "ribbon", value_name = "N")]
    pub flushers: Option<u64>,
    /// Count how much of each flushed line was dirty (which takes time)
    #[arg(long, conflicts_with_all = ["ribbon", "defragment"])]
    pub dirtiness: bool,
    /// Move objects together meanwhile, in a thread more: espresso, sfccd, or sfccd:TRIGGER:TARGET
    #[arg(long, value_name = "PROTOCOL")]
    pub defragment: Option<DefragOptions>,
    /// Measure how long each operation takes
    #[arg(long)]
    pub latency: bool,
    /// Recover and check this pool file instead of running
    #[arg(long, value_name = "FILE",
          conflicts_with_all = ["file", "witness", "ops", "seconds", "mix", "ribbon", "dirtiness",
                                "defragment", "latency"])]
    pub recover: Option<PathBuf>,
    /// A planted bug, for tests.
    #[arg(skip)]
    pub flaw: Flaw,
}

default_options!(NativeOptions);

impl NativeOptions {
    pub(crate) fn limit(&self) -> Limit {
        self.ops.map_or(Limit::Seconds(self.seconds), Limit::Operations)
    }
}

fn domain(name: &str) -> Result<Domain, DomainError> {
    Domain::parse(name, "--domain")
}

fn early_source() -> impl TypedValueParser<Value = EarlySource> {
    named("source", EarlySource::ALL, EarlySource::name)
}

/// Why a native run or a recovery came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NativeError {
    /// No such workload.
    #[error(transparent)]
    Workload(#[from] UnknownWorkload),
    /// The workload cannot run the mix.
    #[error(transparent)]
    Mix(#[from] UnfitMix),
    /// A number that the workload cannot run with.
    #[error(transparent)]
    Setup(#[from] BadSetup),
    /// An option is out of range.
    #[error("{option} is {value}; it must be {valid}")]
    Option {
        /// The option.
        option: &'static str,
        /// What it is.
        value: String,
        /// What it may be.
        valid: String,
    },
    /// The workload's objects do not move.
    #[error(transparent)]
    Immobile(#[from] Immobile),
    /// They do not move here, or not any more.
    #[error(transparent)]
    Defragment(#[from] DefragError),
    /// The Ribbon cannot be had.
    #[error(transparent)]
    Ribbon(#[from] RibbonPoolError),
    /// Flushes are to be left to others where there are none.
    #[error(
        "no line is flushed here, so none can be left to flushers ({why}); run without a Ribbon, \
         or with one in mode auto, which is off then, or with --domain line and without \
         SEAWALL_FLUSH"
    )]
    NothingToFlush {
        /// Why no line is flushed.
        why: String,
    },
    /// The pool cannot be had.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The system has no more threads.
    #[error(
        "the system started {started} of {wanted} threads: {source}; ask for fewer, or raise the \
         limits on processes and memory"
    )]
    Threads {
        /// How many it started.
        started: usize,
        /// How many there should be.
        wanted: usize,
        /// What the system said.
        source: io::Error,
    },
    /// An operation had no room, most likely as the disk has none for pages that were given back.
    #[error(
        "{workload} could not go on: {why}. Free some space on the disk of the pool; a pool that \
         was named with --file holds what was done, for --recover"
    )]
    NoRoom {
        /// The workload.
        workload: &'static str,
        /// What the heap said.
        why: String,
    },
    /// The witness file cannot be created.
    #[error("{path}: cannot create the witness file: {source}")]
    Witness {
        /// The file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// The pool cannot be recovered; its file is not changed by more than recovery.
    #[error("{path}: cannot be recovered as workload {workload}: {damage}")]
    NotRecovered {
        /// The file.
        path: String,
        /// The workload that was to open it.
        workload: &'static str,
        /// What is wrong.
        damage: Damage,
    },
    /// An invariant does not hold: a bug of the structure, or of the machine.
    #[error("{workload} {when}: an invariant does not hold: {damage}")]
    Broken {
        /// The workload.
        workload: &'static str,
        /// "after the run" or "after recovery".
        when: &'static str,
        /// The invariant.
        damage: Damage,
    },
}

/// Runs `workload` on this machine, or recovers a pool of it; the invariants are checked after.
///
/// An existing file is never run on or overwritten. When `recover` is set, a file that is no pool
/// of this workload is left as it is. A process that dies in the middle leaves a pool that can be
/// recovered, once population is over.
///
/// # Errors
/// When an option or a file is wrong, or an invariant does not hold.
///
/// # Panics
/// When the system fails to write pages (domain `page`), as nothing can be promised after it.
pub fn run_native(workload: &str, options: &NativeOptions) -> Result<NativeReport, NativeError> {
    watch_native(workload, options, &Progress::hidden())
}

/// As [`run_native`], showing what a Ribbon does while the run lasts.
///
/// # Errors
/// As there.
///
/// # Panics
/// As there.
pub fn watch_native(
    workload: &str,
    options: &NativeOptions,
    progress: &Progress,
) -> Result<NativeReport, NativeError> {
    check_options(options)?;
    match &options.recover {
        Some(path) => recover(any_workload(workload)?, path, options.domain),
        None => run(any_workload(workload)?, options, progress),
    }
}

/// Refuses options with which `workload` cannot run.
///
/// # Errors
/// As [`run_native`], before anything is made.
pub(crate) fn check_native(workload: &str, options: &NativeOptions) -> Result<(), NativeError> {
    check_options(options)?;
    check_for(any_workload(workload)?, options)
}

/// Refuses what the workload cannot do.
fn check_for(workload: &dyn AnyWorkload, options: &NativeOptions) -> Result<(), NativeError> {
    workload.check_collect(Collect::by_thread(options.defragment))?;
    Ok(workload.check_mix(options.requests.mix)?)
}

fn check_options(options: &NativeOptions) -> Result<(), NativeError> {
    let wrong =
        |option, value: String, valid: String| Err(NativeError::Option { option, value, valid });
    if !(1..=THREADS_MAX).contains(&options.threads) {
        let value = options.threads.to_string();
        return wrong("the number of threads", value, format!("1 to {THREADS_MAX}"));
    }
    check_collector(options)?;
    if let Limit::Seconds(seconds) = options.limit()
        && !(seconds > 0.0 && seconds <= SECONDS_MAX)
    {
        let valid = format!("more than 0 and at most {SECONDS_MAX}");
        return wrong("the number of seconds", seconds.to_string(), valid);
    }
    if options.limit() == Limit::Operations(0) {
        return wrong("the number of operations", "0".into(), "at least 1".into());
    }
    if let Some(percent) = options.requests.search_percent.filter(|percent| *percent > 100) {
        return wrong("the per cent of searches", percent.to_string(), "0 to 100".into());
    }
    if let Some(flushers) = options.flushers {
        let value = flushers.to_string();
        if !(1..=FLUSHERS_MAX).contains(&flushers) {
            return wrong("the number of flushers", value, format!("1 to {FLUSHERS_MAX}"));
        }
        if options.ribbon.is_none() {
            let valid = "left out, or given together with a Ribbon, whose flushers they are";
            return wrong("the number of flushers", value, valid.into());
        }
    }
    if options.early.is_some() && options.ribbon.is_none() {
        let valid = "left out, or given together with a Ribbon".into();
        return wrong("cleaning early", "given".into(), valid);
    }
    if options.dirtiness && options.ribbon.is_some() {
        let valid = "left out: it is the program's, whoever flushes".into();
        return wrong("the Ribbon of a run with dirtiness", "given".into(), valid);
    }
    if options.recover.is_some() && options.ribbon.is_some() {
        let valid = "left out: recovery flushes for itself".into();
        return wrong("the Ribbon of a recovery", "given".into(), valid);
    }
    if let Some(entries) = options.requests.entries.filter(|n| !(1..=ENTRIES_MAX).contains(n)) {
        let valid = format!("1 to {ENTRIES_MAX}");
        return wrong("the number of entries", entries.to_string(), valid);
    }
    Ok(())
}

/// Refuses a collector that this machine has not the hardware for, or no thread number.
fn check_collector(options: &NativeOptions) -> Result<(), NativeError> {
    let Some(way) = options.defragment else { return Ok(()) };
    way.check()?;
    if way.protocol == Protocol::Ffccd {
        return Err(DefragError::Hardware.into());
    }
    if way.form == defrag::Manner::Published {
        return Err(DefragError::Unlocked { way, protocol: way.protocol }.into());
    }
    let wrong = |option, value: &dyn ToString, valid: &str| {
        Err(NativeError::Option { option, value: value.to_string(), valid: valid.into() })
    };
    if options.threads == THREADS_MAX {
        let valid = format!("at most {} beside the one that defragments", THREADS_MAX - 1);
        return wrong("the number of threads", &options.threads, &valid);
    }
    if options.dirtiness {
        let valid = "left out: lines that the collector flushes are not the program's";
        return wrong("a way to defragment in a run with dirtiness", &way, valid);
    }
    if options.recover.is_some() {
        let valid = "left out: recovery ends the moves that had begun, and begins none";
        return wrong("a way to defragment in a recovery", &way, valid);
    }
    Ok(())
}

/// Creates a pool, and runs the workload in it.
fn run(
    kind: &dyn AnyWorkload,
    options: &NativeOptions,
    progress: &Progress,
) -> Result<NativeReport, NativeError> {
    check_for(kind, options)?;
    let setup = setup_of(kind, options);
    kind.check_setup(&setup)?;
    let layout = kind.layout(&setup);
    let pool_options = PoolOptions {
        domain: options.domain,
        dram_bytes: layout.dram_bytes,
        ..PoolOptions::default()
    };
    Host::check(&pool_options, options)?;
    let pool = match &options.file {
        Some(path) => Pool::create(path, layout.pm_bytes, &pool_options)?,
        None => Pool::temporary(layout.pm_bytes, &pool_options)?,
    };
    let workload = kind.create(&AnyMemory::native(&pool.memory(0)), &setup);
    let host = Host::new(pool, options)?;
    let contents = |when| {
        let found = workload.contents(&AnyMemory::native(&host.pool().memory(0)));
        found.map_err(|damage| NativeError::Broken { workload: kind.name(), when, damage })
    };
    let entries_before = contents("after population")?.len() as u64;
    let witness = options.witness.as_ref().map(|path| {
        let error = |source| NativeError::Witness { path: path.display().to_string(), source };
        Witness::create(path, options.threads).map_err(error)
    });
    let witness = witness.transpose()?;
    let limit = options.limit();
    let dirtiness = options.dirtiness.then(|| Dirtiness::new(layout.pm_bytes));
    let counted = (kind.name(), &*workload, dirtiness.as_ref());
    let run = || {
        let (witness, measures) = (witness.as_ref(), options.latency);
        run_threads(&host, counted, &setup, (witness, measures), limit, progress)
    };
    let (done, collected) = run_beside(&host, &*workload, &setup, run);
    let (done, collected): (Vec<Done>, _) = (done?, collected?);
    let collector = options.defragment.map(|way| CollectorReport::of(way, &collected));
    let seconds = seconds_of(&done);
    let ribbon = host.ribbon().map(|pool| RibbonReport::of(pool, seconds));
    let by_flushers = ribbon.as_ref().map_or([0, 0], |ribbon| ribbon.flushed_for_threads());
    let sum =
        |count: fn(&Counters) -> u64| done.iter().map(|done| count(&done.counters)).sum::<u64>();
    let entries_after = contents("after the run")?.len() as u64;
    let stats = workload.heap().map(|heap| heap.stats(&host.pool().memory(0))).transpose();
    let operations: Vec<u64> = done.iter().map(|thread| thread.operations).collect();
    let report = RunReport {
        workload: kind.name(),
        mix: options.requests.mix.map(|mix| mix.to_string()),
        threads: options.threads,
        seed: options.seed,
        entries_before,
        entries_after,
        operations_per_second: operations.iter().sum::<u64>() as f64 / seconds,
        operations,
        seconds,
        flushed_lines: sum(|counters| counters.flushed_lines) + by_flushers[0],
        fences: sum(|counters| counters.fences) + by_flushers[1],
        ribbon,
        collector,
        pages_a_byte: stats.map_err(DefragError::from)?.map(|stats| stats.fragmentation()),
        latency: LatencyReport::of(done.iter().map(|done| &done.times)),
        dirtiness: dirtiness.map(|dirtiness| DirtinessReport::of(&dirtiness.counts())),
        place: Place::of(host.pool(), options.file.as_ref()),
    };
    Ok(NativeReport::Run(Box::new(report)))
}

fn setup_of(workload: &dyn AnyWorkload, options: &NativeOptions) -> Setup {
    let usual = workload.setup(options.threads);
    Setup {
        threads: options.threads,
        seed: options.seed,
        entries: options.requests.entries.unwrap_or(usual.entries),
        search_percent: options.requests.search_percent.unwrap_or(usual.search_percent),
        mix: options.requests.mix,
        collect: Collect::by_thread(options.defragment),
        cost: Cost::Lean,
        flaw: options.flaw,
    }
}

/// Opens the pool that a run has left.
fn recover(
    kind: &dyn AnyWorkload,
    path: &PathBuf,
    domain: Option<Domain>,
) -> Result<NativeReport, NativeError> {
    let name = kind.name();
    // How much DRAM the structure wants is known only once it is open; pages that nobody
    // touches cost nothing.
    let mut dram_bytes = DRAM_BYTES_MORE;
    let pool = Pool::open_as(path, domain, |head, bytes| {
        let head = Image::from_pm(head.to_vec(), 0);
        seawall_runtime::pool::open(&head, name, bytes).map_err(|error| error.to_string())?;
        let used = Heap::bytes_used(&head, bytes).map_err(|error| error.to_string())?;
        dram_bytes = used.saturating_add(DRAM_BYTES_MORE);
        let heap = Heap::read(&head, name, bytes);
        let backed = heap.map_or(used, |info| info.bytes_backed(used));
        Ok(Needs { used, backed, dram_bytes, bytes_max: 0 })
    })?;
    let memory = pool.memory(0);
    let memory = AnyMemory::native(&memory);
    let layout = Layout { pm_bytes: pool.bytes(), dram_bytes };
    let started = Instant::now();
    let opened = kind.open(&memory, layout, Flaw::None);
    let workload = opened.map_err(|damage| NativeError::NotRecovered {
        path: path.display().to_string(),
        workload: name,
        damage,
    })?;
    memory.drain();
    let seconds = started.elapsed().as_secs_f64();
    let contents = workload.contents(&memory).map_err(|damage| NativeError::Broken {
        workload: name,
        when: "after recovery",
        damage,
    })?;
    Ok(NativeReport::Recovery(RecoveryReport {
        workload: name,
        entries: contents.len() as u64,
        seconds,
        place: Place::of(&pool, Some(path)),
        contents,
    }))
}

/// A workload, and how to run it.
#[derive(Clone, Debug, Args)]
pub struct RunCommand {
    /// Workload
    pub workload: String,
    /// How.
    #[command(flatten)]
    pub options: NativeOptions,
    /// Write what was done to this file, as one JSON record [if stopped: none]
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl Experiment for RunCommand {
    type Plan = RunCommand;
    type Report = NativeReport;
    type Error = NativeError;

    fn plan(&self) -> Result<RunCommand, NativeError> {
        Ok(self.clone())
    }

    fn files(&self, _: &RunCommand) -> Files {
        let NativeOptions { recover, file, witness, .. } = &self.options;
        let files =
            recover.iter().fold(Files::without_partial(), |files, it| files.reads("--recover", it));
        files
            .makes("--file", file.as_deref())
            .makes("--witness", witness.as_deref())
            .results(Form::Json, &self.json)
    }

    fn run(
        plan: RunCommand,
        progress: &Progress,
        _: &Arc<AtomicBool>,
    ) -> Result<NativeReport, NativeError> {
        watch_native(&plan.workload, &plan.options, progress)
    }
}

impl Report for NativeReport {
    fn text(&self) -> String {
        self.to_string()
    }

    fn json(&self) -> String {
        json_lines([self])
    }
}

#[cfg(test)]
mod tests;
