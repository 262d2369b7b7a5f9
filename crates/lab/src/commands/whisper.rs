//! `seawall whisper`: how the applications use persistent memory, beside what was published of the
//! programs that they stand for.
//!
//! Each runs once, on the machine and under the design of `experiments/whisper.toml`; its epochs
//! are counted after a warm-up ([`Watched`]), and every quantity is held to a factor of the
//! published one.

use crate::LabError;
use crate::cell::{Point, fit};
use crate::engine::jobs::Runner;
use crate::engine::options::{check_jobs, default_options, in_range, listed_name, once};
use clap::Args;
use seawall_any::{AnyMemory, AnyStructure, Watch, Watched, workload};
use seawall_memory::{Image, Memory, MemoryExt};
use seawall_report::{Experiment, Files, Finished, Form, Progress, Report, json_lines};
use seawall_sim::{Choice, Machine, Program, Simulation};
use seawall_workloads::{Cost, Flaw, History, Setup, WORKLOADS, Worker};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

mod table;

const TEXT: &str = include_str!("../../experiments/whisper.toml");

/// The default number of measured operations of each thread.
pub const WHISPER_OPERATIONS: u64 = 500;

/// How many quantities there are.
const QUANTITIES: usize = 6;
const OPERATIONS_MAX: u64 = 1 << 24;
/// Share of the operations that run before those that are counted.
const WARMUP_DIVISOR: u64 = 8;

/// What was published.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Published {
    title: String,
    source: String,
    machine: String,
    design: String,
    window_us: f64,
    factor: f64,
    quantities: Quantities<Quantity>,
    programs: Vec<ProgramEntry>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgramEntry {
    workload: String,
    published: Quantities<Option<f64>>,
}

/// How a quantity is shown and compared.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Quantity {
    name: String,
    least: f64,
    /// Digits behind the point; none: as many as make three that matter.
    digits: Option<usize>,
    unless: Option<String>,
}

/// One thing of each quantity.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Quantities<T> {
    /// Epochs in a second of all threads, in millions.
    pub rate: T,
    /// The median number of epochs of a transaction.
    pub epochs: T,
    /// Epochs that write a line which one of the same thread wrote shortly before, in per cent.
    pub own: T,
    /// Epochs that write a line which another thread wrote shortly before, in per cent.
    pub cross: T,
    /// Epochs that write one line, in per cent.
    pub single: T,
    /// Loads and stores to persistent memory, in per cent of all.
    pub pm: T,
}

impl<T> Quantities<T> {
    fn each(&self) -> [&T; QUANTITIES] {
        let Quantities { rate, epochs, own, cross, single, pm } = self;
        [rate, epochs, own, cross, single, pm]
    }

    fn of([rate, epochs, own, cross, single, pm]: [T; QUANTITIES]) -> Quantities<T> {
        Quantities { rate, epochs, own, cross, single, pm }
    }
}

impl Published {
    fn known() -> Published {
        toml::from_str(TEXT).expect("checked by a test")
    }

    /// The names of the programs that are published, and that there are.
    fn applications(&self) -> Vec<String> {
        let is_there = |name: &str| WORKLOADS.iter().any(|entry| entry.name == name);
        let names = self.programs.iter().map(|program| &program.workload);
        names.filter(|name| is_there(name)).cloned().collect()
    }

    /// How many times one value is the other.
    fn ratio(&self, quantity: usize, measured: f64, published: f64) -> f64 {
        let least = self.quantities.each()[quantity].least.max(f64::MIN_POSITIVE);
        let (measured, published) = (measured.max(least), published.max(least));
        measured.max(published) / measured.min(published)
    }

    fn compare(
        &self,
        measured: &Quantities<Option<f64>>,
        published: &Quantities<Option<f64>>,
    ) -> Quantities<Option<f64>> {
        Quantities::of(std::array::from_fn(|at| {
            Some(self.ratio(at, (*measured.each()[at])?, (*published.each()[at])?))
        }))
    }

    fn is_held(&self, quantity: usize) -> bool {
        self.quantities.each()[quantity].unless.is_none()
    }
}

/// What to run, as a user says it.
#[derive(Clone, Debug, Args)]
pub struct WhisperOptions {
    /// Applications [default: all]
    #[arg(value_delimiter = ',', value_parser = listed_name, value_name = "APPS")]
    pub applications: Vec<String>,
    /// Machine, or the path of a .toml file [default: hops17]
    #[arg(long, short, value_name = "NAME")]
    pub machine: Option<String>,
    /// Threads [default: one per core of the machine]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Counted operations of each thread
    #[arg(long = "ops", default_value_t = WHISPER_OPERATIONS, value_name = "N")]
    pub operations: u64,
    /// Seed of the operations
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Host threads [default: one per core]
    #[arg(long, short, value_name = "N")]
    pub jobs: Option<usize>,
    /// Exit with 1 if a value is more than three times the published one, or less than a third
    #[arg(long)]
    pub strict: bool,
    /// Write a JSON record per application to this file [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

default_options!(WhisperOptions);

/// Applications that can be run.
#[derive(Clone, Debug)]
pub struct WhisperPlan {
    published: Published,
    machine_name: String,
    machine: Machine,
    points: Vec<Point>,
    jobs: Option<usize>,
    is_strict: bool,
}

/// How an application uses persistent memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WhisperRecord {
    pub application: String,
    /// The machine, as it was asked for.
    pub machine: String,
    /// The design that it ran under.
    pub design: String,
    pub threads: usize,
    /// Counted operations of each thread.
    pub operations: u64,
    pub seed: u64,
    pub measured: Quantities<f64>,
    /// What was published; null where nothing was.
    pub published: Quantities<Option<f64>>,
    /// How many times one is the other, at least 1.
    pub ratio: Quantities<Option<f64>>,
    /// Lines that an epoch writes, in the mean.
    pub lines_per_epoch: f64,
    /// Epochs that were counted.
    pub epochs: u64,
    /// Operations with at least one of them.
    pub transactions: usize,
}

/// The applications of a plan, counted.
#[derive(Clone, Debug)]
pub struct Whisper {
    plan: WhisperPlan,
    /// What was counted, in the order of the plan.
    pub records: Vec<WhisperRecord>,
    /// True if the run was stopped before all applications were done.
    pub is_partial: bool,
}

impl WhisperPlan {
    fn record(&self, point: &Point, counted: &Counted) -> WhisperRecord {
        let mut programs = self.published.programs.iter();
        let program = programs.find(|program| program.workload == point.workload);
        let published =
            program.map_or(Quantities::of([None; QUANTITIES]), |program| program.published);
        let measured = Quantities::of(counted.values.each().map(|value| Some(*value)));
        WhisperRecord {
            application: point.workload.clone(),
            machine: self.machine_name.clone(),
            design: point.design.text.clone(),
            threads: point.threads,
            operations: point.operations,
            seed: point.seed,
            measured: counted.values,
            published,
            ratio: self.published.compare(&measured, &published),
            lines_per_epoch: counted.lines_per_epoch,
            epochs: counted.epochs,
            transactions: counted.transactions,
        }
    }
}

/// The names of all applications.
pub(crate) fn applications() -> Vec<String> {
    Published::known().applications()
}

/// The names of `asked`, or of all applications.
fn chosen(published: &Published, asked: &[String]) -> Result<Vec<String>, LabError> {
    let known = published.applications();
    if let Some(unknown) = asked.iter().find(|name| !known.contains(name)) {
        let (name, known) = (unknown.clone(), known.join(", "));
        return Err(LabError::UnknownApplication { name, known });
    }
    Ok(if asked.is_empty() { known } else { asked.to_vec() })
}

impl Whisper {
    /// Values that are further from the published ones than the factor, those of the means
    /// included.
    pub fn far_off(&self) -> usize {
        let means = self.means().map(|means| means.ratio);
        let ratios = self.records.iter().map(|record| record.ratio).chain(means);
        ratios.map(|ratio| self.far(&ratio)).sum()
    }

    fn far(&self, ratio: &Quantities<Option<f64>>) -> usize {
        let published = &self.plan.published;
        let is_far = |(at, ratio): &(usize, &Option<f64>)| {
            published.is_held(*at) && ratio.is_some_and(|ratio| ratio > published.factor)
        };
        ratio.each().into_iter().enumerate().filter(is_far).count()
    }
}

/// The values of one application.
struct Counted {
    values: Quantities<f64>,
    lines_per_epoch: f64,
    epochs: u64,
    transactions: usize,
}

struct Count<'a> {
    machine: &'a Machine,
    point: &'a Point,
    window: u64,
    stop: &'a Arc<AtomicBool>,
}

/// The program of a thread, which notes in `span` from when to when it was counted.
fn program(
    (workload, setup, point): (&Arc<dyn AnyStructure>, &Setup, &Point),
    thread: usize,
    watch: &Rc<RefCell<Watch>>,
    cycles: &Arc<AtomicU64>,
) -> Program {
    let (workload, watch, cycles) = (workload.clone(), watch.clone(), cycles.clone());
    let mut worker = Worker::new(setup, thread, Arc::new(History::off()));
    let Point { warmup, operations, .. } = *point;
    Box::new(move |memory| {
        let watched = Watched::new(memory, watch.clone());
        let memory = AnyMemory::watched(Watched::new(memory, watch));
        let mut joined = workload.join(&memory);
        let mut start = memory.now();
        while worker.number < warmup + operations {
            if worker.number == warmup {
                watched.begin();
                start = memory.now();
            }
            joined.step(&mut worker);
            worker.number += 1;
            memory.output(worker.number);
            watched.done();
        }
        cycles.fetch_add(memory.now() - start, Ordering::Relaxed);
    })
}

impl Count<'_> {
    fn run(self) -> Result<Counted, LabError> {
        let Count { machine, point, window, stop } = self;
        let kind = workload(&point.workload)?;
        let (setup, layout) = fit(kind, point)?;
        let start = Image::new(layout.pm_bytes, layout.dram_bytes);
        let workload = kind.create(&AnyMemory::image(&start), &setup);
        let (pm, dram) = start.into_parts();
        let watch = Watch::new(layout.pm_bytes, point.threads, window);
        let watch = Rc::new(RefCell::new(watch));
        let cycles = Arc::new(AtomicU64::new(0));
        let what = (&workload, &setup, point);
        let programs = (0..point.threads).map(|thread| program(what, thread, &watch, &cycles));
        let programs = programs.collect();
        let simulation = Simulation::new(machine, &point.design, pm, dram);
        simulation.stopped_by(stop.clone()).run(programs)?;
        let watch = watch.borrow();
        let counts = watch.counts();
        let mut transactions = counts.transactions.clone();
        transactions.sort_unstable();
        let percent = |part: u64, of: u64| 100.0 * part as f64 / of.max(1) as f64;
        let mean_cycles = cycles.load(Ordering::Relaxed) as f64 / point.threads as f64;
        Ok(Counted {
            values: Quantities {
                rate: counts.epochs as f64 / mean_cycles.max(1.0) * machine.ghz * 1000.0,
                epochs: transactions.get(transactions.len() / 2).map_or(0.0, |count| *count as f64),
                own: percent(counts.own, counts.epochs),
                cross: percent(counts.cross, counts.epochs),
                single: percent(counts.single, counts.epochs),
                pm: percent(counts.pm, counts.accesses),
            },
            lines_per_epoch: counts.lines as f64 / counts.epochs.max(1) as f64,
            epochs: counts.epochs,
            transactions: transactions.len(),
        })
    }
}

impl Experiment for WhisperOptions {
    type Plan = WhisperPlan;
    type Report = Whisper;
    type Error = LabError;

    fn plan(&self) -> Result<WhisperPlan, LabError> {
        let published = Published::known();
        let machine_name = self.machine.clone().unwrap_or_else(|| published.machine.clone());
        let machine = Machine::load(&machine_name)?;
        let threads = crate::engine::options::threads_of("--threads", self.threads, &machine)?;
        in_range("--ops", self.operations, 1, OPERATIONS_MAX)?;
        check_jobs(self.jobs)?;
        once("application", &self.applications)?;
        let design = Choice::parse(&published.design)?;
        let mut points = Vec::new();
        for workload in chosen(&published, &self.applications)? {
            points.push(Point {
                workload,
                design: design.clone(),
                threads,
                seed: self.seed,
                operations: self.operations,
                warmup: self.operations.div_ceil(WARMUP_DIVISOR),
                entries: None,
                search_percent: None,
                ribbon: None,
                defragment: None,
                cost: Cost::Lean,
                mix: None,
                crashes: 0,
                flaw: Flaw::None,
                checked: false,
            });
        }
        let (jobs, is_strict) = (self.jobs, self.strict);
        Ok(WhisperPlan { published, machine_name, machine, points, jobs, is_strict })
    }

    fn files(&self, _: &WhisperPlan) -> Files {
        self.machine
            .iter()
            .fold(Files::new(), |files, it| files.reads("--machine", Machine::base(it)))
            .results(Form::Json, &self.json)
    }

    fn run(
        plan: WhisperPlan,
        progress: &Progress,
        stop: &Arc<AtomicBool>,
    ) -> Result<Whisper, LabError> {
        let window = plan.published.window_us * plan.machine.ghz * 1000.0;
        let run = |point: &Point| {
            let count = Count { machine: &plan.machine, point, window: window as u64, stop };
            let counted = count.run()?;
            Ok(plan.record(point, &counted))
        };
        let records = Runner::new(plan.jobs, progress, stop).all(&plan.points, run)?;
        let is_partial = records.iter().any(Option::is_none);
        Ok(Whisper { records: records.into_iter().flatten().collect(), plan, is_partial })
    }
}

impl Report for Whisper {
    fn text(&self) -> String {
        self.to_text()
    }

    fn found(&self) -> bool {
        self.plan.is_strict && self.far_off() > 0
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

    fn run(options: &WhisperOptions) -> Whisper {
        let plan = options.plan().unwrap();
        WhisperOptions::run(plan, &Progress::hidden(), &Arc::default()).unwrap()
    }

    fn small() -> WhisperOptions {
        let applications = vec!["ctree".to_owned()];
        WhisperOptions { applications, operations: 40, ..WhisperOptions::default() }
    }

    #[test]
    fn an_application_is_counted_the_same_again_whatever_the_number_of_jobs() {
        let first = run(&small());
        assert_eq!(first.records, run(&WhisperOptions { jobs: Some(1), ..small() }).records);
        let record = &first.records[0];
        assert_eq!(record.published.epochs, Some(11.0));
        assert!(record.transactions > 0 && record.epochs > 10 * record.transactions as u64 / 2);
        assert_ne!(first.records, run(&WhisperOptions { seed: 2, ..small() }).records);
    }

    #[test]
    fn a_value_is_far_off_beyond_the_factor_and_zero_is_next_to_nothing() {
        let published = Published::known();
        let ratio = |at, measured, value| published.ratio(at, measured, value);
        assert!((ratio(1, 30.0, 10.0) - 3.0).abs() < 1e-9);
        assert!((ratio(1, 10.0, 30.0) - 3.0).abs() < 1e-9);
        assert!((ratio(3, 0.0, 0.001) - 1.0).abs() < 1e-9, "both are next to nothing");
        assert!((ratio(3, 0.0, 0.01) - 10.0).abs() < 1e-9, "one of them is not");
        assert!(ratio(3, 1.0, 0.0) > published.factor);
        let mut whisper = run(&small());
        assert_eq!(whisper.far_off(), 0, "{}", whisper.to_text());
        let mut wrong = whisper.records[0].clone();
        wrong.ratio.pm = Some(3.01);
        wrong.ratio.rate = Some(99.0);
        whisper.records.push(wrong);
        assert_eq!(whisper.far_off(), 1, "the rate is not held to the factor");
        assert!(whisper.to_text().contains("3.0 !"), "{}", whisper.to_text());
    }

    #[test]
    fn an_unknown_application_is_answered_with_the_known_ones() {
        let options = WhisperOptions { applications: vec!["hash".into()], ..small() };
        let message = options.plan().unwrap_err().to_string();
        assert!(message.contains("hash") && message.contains("ctree"), "{message}");
    }
}
