//! How fast programs of others are, once `seawall cc` has compiled them: on simulated hardware,
//! natively, and in recoveries of an exploration.
//!
//! The programs are small C sources that are part of this one. They are compiled when the command
//! runs, since code of another compiler would have another speed; so it needs gcc.

use crate::LabError;
use crate::MACHINE;
use crate::engine::options::{default_options, in_range};
use clap::Args;
use kernel::{KERNELS, Kernel};
use record::{CcRecord, NativeRecord, RecoveryRecord, SimulatedRecord, Spread};
use seawall_program::{Limit, ProgramError};
use seawall_report::{Experiment, Files, Finished, Form, Progress, Report, json_lines};
use seawall_sim::{Choice, Machine, SimError};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use workshop::Workshop;

mod kernel;
pub(super) mod record;
mod recovery;
mod workshop;

/// Threads that the kernels can run.
const THREADS_MAX: usize = 64;
/// The most operations of the program whose recoveries are timed.
const OPERATIONS_MAX: u64 = 10_000;
/// Pairs of native runs for each run of a simulation, as their ratio is close to 1: an even number,
/// so that each is as often first as the other.
const PAIRS: usize = 4;

/// What to time.
#[derive(Clone, Debug, Args)]
pub struct CcBenchOptions {
    /// Machine, or the path of a .toml file, each with :KEY=VALUE for other numbers
    #[arg(long, short, default_value = MACHINE, value_name = "NAME")]
    pub machine: String,
    /// Design
    #[arg(long, short, default_value = "lb", value_name = "DESIGN")]
    pub design: String,
    /// Numbers of threads of the kernels
    #[arg(long, value_delimiter = ',', default_value = "1,32", value_name = "NUMBERS")]
    pub threads: Vec<usize>,
    /// Runs of each point, of which the median counts
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub runs: usize,
    /// References of a simulated run, about
    #[arg(long, default_value_t = 2_000_000, value_name = "N")]
    pub references: u64,
    /// Operations of the program whose recoveries are timed
    #[arg(long, default_value_t = 100, value_name = "N")]
    pub operations: u64,
    /// Write a JSON record per point to this file [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

default_options!(CcBenchOptions);

/// The speed of compiled programs on this host.
#[derive(Clone, Debug)]
pub struct CcBench {
    records: Vec<CcRecord>,
    /// True if it was stopped before all was timed.
    pub is_partial: bool,
}

impl CcBench {
    /// The speeds, in the order in which they were measured.
    pub fn records(&self) -> &[CcRecord] {
        &self.records
    }
}

/// What is timed, one after the other.
#[derive(Clone, Copy, Debug)]
enum Point {
    Simulated(&'static Kernel, usize),
    Native(&'static Kernel),
    Recovery,
}

impl Point {
    /// All of them, in the order of the table.
    fn all(options: &CcBenchOptions) -> Vec<Point> {
        let simulated =
            |kernel| options.threads.iter().map(move |threads| Point::Simulated(kernel, *threads));
        let native = KERNELS.iter().map(Point::Native);
        KERNELS.iter().flat_map(simulated).chain(native).chain([Point::Recovery]).collect()
    }

    fn program(self) -> &'static str {
        match self {
            Point::Simulated(kernel, _) | Point::Native(kernel) => kernel.name,
            Point::Recovery => recovery::NAME,
        }
    }

    fn way(self, options: &CcBenchOptions) -> String {
        match self {
            Point::Simulated(_, threads) => format!("{} on {threads}", options.design),
            Point::Native(_) => "natively".into(),
            Point::Recovery => "explored".into(),
        }
    }

    fn time(
        self,
        workshop: &Workshop,
        options: &CcBenchOptions,
        limit: &Limit,
    ) -> Result<CcRecord, LabError> {
        match self {
            Point::Simulated(kernel, threads) => {
                simulated(workshop, kernel, threads, options, limit).map(CcRecord::Simulated)
            }
            Point::Native(kernel) => native(workshop, kernel, options, limit).map(CcRecord::Native),
            Point::Recovery => recoveries(workshop, options, limit).map(CcRecord::Recovery),
        }
    }
}

fn simulated(
    workshop: &Workshop,
    kernel: &Kernel,
    threads: usize,
    options: &CcBenchOptions,
    limit: &Limit,
) -> Result<SimulatedRecord, LabError> {
    let built = workshop.build(kernel.name, kernel.source)?;
    let mut speeds = Vec::new();
    let mut references = 0;
    for _ in 0..options.runs {
        let ran = kernel.simulate(workshop, &built, threads, options, limit)?;
        references = ran.counters.references;
        speeds.push(references as f64 / (ran.host_nanoseconds as f64 / 1e9).max(1e-9));
    }
    Ok(SimulatedRecord {
        program: kernel.name,
        design: options.design.clone(),
        machine: options.machine.clone(),
        threads,
        references,
        references_per_second: Spread::of(speeds),
        runs: options.runs,
    })
}

fn native(
    workshop: &Workshop,
    kernel: &Kernel,
    options: &CcBenchOptions,
    limit: &Limit,
) -> Result<NativeRecord, LabError> {
    let built = workshop.build(kernel.name, kernel.source)?;
    let plain = workshop.build_plainly(kernel.name)?;
    let pairs = PAIRS * options.runs;
    let times =
        kernel.paired(workshop, &[&built.program, &plain], pairs, options.references, limit)?;
    let milliseconds = |which: usize| {
        Spread::of(times.iter().map(|pair| pair[which].as_secs_f64() * 1e3).collect()).median
    };
    let ratio =
        |pair: &[std::time::Duration; 2]| pair[0].as_secs_f64() / pair[1].as_secs_f64().max(1e-9);
    Ok(NativeRecord {
        program: kernel.name,
        milliseconds: milliseconds(0),
        milliseconds_of_gcc: milliseconds(1),
        ratio: Spread::of(times.iter().map(ratio).collect()),
        pairs,
    })
}

fn recoveries(
    workshop: &Workshop,
    options: &CcBenchOptions,
    limit: &Limit,
) -> Result<RecoveryRecord, LabError> {
    let (recoveries, seconds) = recovery::time(workshop, options, limit)?;
    let speeds = seconds.iter().map(|seconds| recoveries as f64 / seconds.max(1e-9)).collect();
    Ok(RecoveryRecord {
        program: recovery::NAME,
        accesses: recovery::WORDS,
        recoveries,
        recoveries_per_second: Spread::of(speeds),
        runs: options.runs,
    })
}

impl Experiment for CcBenchOptions {
    type Plan = CcBenchOptions;
    type Report = CcBench;
    type Error = LabError;

    fn plan(&self) -> Result<CcBenchOptions, LabError> {
        in_range("--runs", self.runs as u64, 1, 1000)?;
        in_range("--references", self.references, 1000, 1 << 32)?;
        in_range("--operations", self.operations, 1, OPERATIONS_MAX)?;
        Choice::parse(&self.design)?;
        let most = Machine::load(&self.machine)?.core.count.min(THREADS_MAX);
        for threads in &self.threads {
            in_range("--threads", *threads as u64, 1, most as u64)?;
        }
        Ok(self.clone())
    }

    fn files(&self, _: &CcBenchOptions) -> Files {
        Files::new()
            .reads("--machine", Machine::base(&self.machine))
            .results(Form::Json, &self.json)
    }

    fn run(
        options: CcBenchOptions,
        progress: &Progress,
        stop: &Arc<AtomicBool>,
    ) -> Result<CcBench, LabError> {
        let (workshop, limit) = (Workshop::new()?, Limit::new(stop));
        let points = Point::all(&options);
        progress.start(points.iter().map(|point| point.program()));
        let mut records = Vec::new();
        let mut is_partial = false;
        for point in points {
            match point.time(&workshop, &options, &limit) {
                Err(LabError::Program(ProgramError::Stopped))
                | Err(LabError::Sim(SimError::Stopped)) => {
                    is_partial = true;
                    break;
                }
                record => records.push(record?),
            }
            progress.cell_done(point.program(), &point.way(&options));
        }
        progress.end();
        Ok(CcBench { records, is_partial })
    }
}

impl Report for CcBench {
    fn text(&self) -> String {
        let mut text = record::text(&self.records);
        if self.is_partial {
            text += "PARTIAL: stopped before everything was timed\n";
        }
        text
    }

    fn finished(&self) -> Finished {
        Finished::of(self.is_partial, self.records.is_empty())
    }

    fn json(&self) -> String {
        json_lines(&self.records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernels_cannot_run_with_is_refused_before_anything_is_compiled() {
        let refused = |options: CcBenchOptions| options.plan().unwrap_err().to_string();
        let usual = CcBenchOptions::default;
        let error = refused(CcBenchOptions { machine: "desktop".into(), ..usual() });
        assert!(error.contains("--threads is 32; it must be 1 to 4"), "{error}");
        let error = refused(CcBenchOptions { references: 1, ..usual() });
        assert!(error.contains("--references"), "{error}");
        let error = refused(CcBenchOptions { design: "none-such".into(), ..usual() });
        assert!(error.contains("none-such"), "{error}");
        assert!(usual().plan().is_ok());
    }
}
