//! `seawall sweep`: how the cost of persistency grows with the numbers of a design and a machine.
//!
//! An experiment file names what runs, designs and factors; the points run on all cores of the
//! host, each a line of a file as soon as it is done. The same command goes on where an interrupted
//! one stopped. What is printed at the end, and the file when all points are there, depend on the
//! experiment alone: neither the number of host threads nor an interruption shows in them.

use crate::LabError;
use crate::engine::jobs::{Piece, Runner};
use crate::engine::options::{SheetOptions, check_jobs, in_range};
use crate::subject::{Asked, Setting, Subject};
use clap::Args;
use file::{Column, Factors, SweepFile, with_tip};
use record::{Described, SweepRecord};
use seawall_report::{
    Experiment, Files, Finished, Form, HtmlPage, Progress, Report, ReportError, ResultFile,
    json_lines, one_plot,
};
use seawall_sim::{Choice, Machine};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use task::Head;

mod file;
mod open;
mod page;
mod plot;
mod record;
mod store;
mod table;
mod task;

pub(crate) use file::EXPERIMENTS;
pub use open::OpenSweep;
pub use task::SweepTask;

/// The most points that a sweep may have.
const POINTS_MAX: u64 = 100_000;

/// An experiment file names a machine, kernels, workloads or programs, designs, and factors with
/// their values. Every finished point is a line of the file of records; the same command goes on
/// from there after an interruption.
#[derive(Clone, Debug, Args)]
#[command(after_help = SWEEP_LANGUAGE)]
pub struct SweepOptions {
    /// bsp-sweep, bsp-sweep-quick, nvm-sweep-quick, or the path of a .toml file
    pub experiment: String,
    /// File of records, as JSON Lines, which keeps its finished points if stopped [default: the
    /// experiment's name with .jsonl, in this folder]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Host threads [default: one per core]
    #[arg(long, short, value_name = "N")]
    pub jobs: Option<usize>,
    /// Draw a chart for each factor to this SVG file [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Write a page for a browser to this file: charts, a table, and what is behind each row [if
    /// stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// The table as files.
    #[command(flatten)]
    pub sheet: SheetOptions,
    /// Run the points on the workers of the Dask cluster of this scheduler, tcp://HOST:PORT, by the
    /// Python package seawall; SEAWALL_PYTHON names its Python [default: python3]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "jobs")]
    pub dask: Option<String>,
}

const SWEEP_LANGUAGE: &str = "\
An experiment:
  title = \"How the cost grows\"
  machine = \"micro15\"
  kernels = [\"ssca2\", \"radix:65536\"]    # seawall list kernels
  size = \"quick\"                        # of the others: small, quick, full or a number
  workloads = [\"hash\", \"queue\"]         # seawall list workloads
  operations = 1000                     # of each thread; also entries = N, at the start
  programs = [\"b=./bank -p{threads}\"]   # as --program: a command, with a name or without
  designs = [\"bsp-lb\", \"bsp-lbpp\"]      # seawall list designs
  factors = \"one\"                       # vary one at a time; or \"all\" combinations
  crashes = 2                           # of each point; the default is none

  [[factor]]
  name = \"stores of an epoch\"
  design = \"stores\"                     # a parameter: seawall show design bsp-lbpp
  values = [300, 10000]

  [[factor]]
  name = \"cores\"
  machine = \"core.count\"                # a key: seawall show machine micro15
  values = [1, 8, 64]

Of programs also: checks = [..], pm, fence and from, as the options of `seawall compare`.
Also: threads (one per core), baseline (volatile), seed (1), detail (false; true adds latencies, the
  fill of queues, and what each core did to the records); in a factor, designs = [..] that have the
  parameter. Keys that change together: machine = [\"llc.banks\", \"llc.kib_per_bank\"] with
  values = [[16, 2048], [32, 1024]]. Where the number of cores changes, the mesh follows.";

/// Why a sweep cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// No such experiment.
    #[error("no experiment '{name}'; known: {known}; or give the path of a .toml file")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The description cannot be read.
    #[error("cannot read experiment {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The description is wrong.
    #[error("experiment {name}: {what}")]
    Experiment {
        /// Name or path.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// The same point comes out differently.
    #[error(
        "{path} was written by another build of seawall: {point} takes {cycles} cycles now, not \
         {recorded}; give another file with --out, or move this one away"
    )]
    Changed {
        /// The file.
        path: String,
        /// The point that was run again.
        point: String,
        /// Its cycles now.
        cycles: u64,
        /// Its cycles in the file.
        recorded: u64,
    },
    /// A point was given out by another build.
    #[error(
        "this is build {here} of seawall, and the point was given out by build {there}: install \
         the same package on both sides"
    )]
    OtherBuild {
        /// What runs here.
        here: String,
        /// What runs where the point comes from.
        there: String,
    },
    /// A point, or what came of it, was changed on its way.
    #[error("no point of a sweep: {what}; start the sweep again")]
    Task {
        /// What is wrong with it.
        what: String,
    },
    /// What can be wrong with any experiment.
    #[error(transparent)]
    Lab(#[from] LabError),
}

/// A point: what to run, and what its time is relative to.
#[derive(Clone, Debug)]
struct SweepPoint {
    setting: Setting,
    asked: Asked,
    subject: Subject,
    described: Described,
    key: String,
    /// The key of the baseline on the same machine; none for a baseline.
    baseline: Option<String>,
}

impl Piece for SweepPoint {
    fn program(&self) -> &str {
        self.baseline.as_ref().map_or("baselines", |_| self.subject.name())
    }

    fn design(&self) -> String {
        self.subject.design().text.clone()
    }
}

/// One place of the sweep: settings of the factors under a design, and its points, one per column.
#[derive(Clone, Debug)]
struct Place {
    /// For each factor the number of its value; none where it stays as it is.
    settings: Vec<Option<usize>>,
    /// The design's number in the experiment.
    design: usize,
    /// Key and key of the baseline, for each column.
    points: Vec<(String, String)>,
}

/// A sweep that can be run.
#[derive(Clone, Debug)]
pub struct SweepPlan {
    experiment: SweepFile,
    head: Head,
    /// Every point once, in order; a baseline comes before what is relative to it.
    points: Vec<SweepPoint>,
    places: Vec<Place>,
    jobs: Option<usize>,
    out: PathBuf,
}

/// A sweep with the records of its points.
#[derive(Debug)]
pub struct Sweep {
    plan: SweepPlan,
    records: BTreeMap<String, SweepRecord>,
    /// Points that were found done in the file.
    pub found: usize,
}

impl SweepPlan {
    /// Reads the experiment called `name`, or in that `.toml` file. Records go to `out`; none: the
    /// experiment's name with the ending `.jsonl`, in the current folder.
    ///
    /// # Errors
    /// Whatever is unknown, out of range, named twice, or does not fit together.
    pub fn new(
        name: &str,
        out: Option<PathBuf>,
        jobs: Option<usize>,
    ) -> Result<SweepPlan, SweepError> {
        check_jobs(jobs)?;
        let out = out.unwrap_or_else(|| {
            let stem = Path::new(name).file_stem().unwrap_or(name.as_ref());
            [stem, ".jsonl".as_ref()].into_iter().collect::<OsString>().into()
        });
        let experiment = SweepFile::load(name)?;
        let plan = SweepPlan::of(experiment, out, jobs);
        plan.map_err(|error| SweepError::Experiment { name: name.into(), what: with_tip(&error) })
    }

    /// The experiment that `table` describes, as a file does; `name` appears in messages.
    ///
    /// # Errors
    /// As [`new`](SweepPlan::new).
    pub fn of_table(
        name: &str,
        table: toml::Table,
        out: PathBuf,
        jobs: Option<usize>,
    ) -> Result<SweepPlan, SweepError> {
        check_jobs(jobs)?;
        let plan = SweepPlan::of(SweepFile::of_table(name, table)?, out, jobs);
        plan.map_err(|error| SweepError::Experiment { name: name.into(), what: with_tip(&error) })
    }

    fn of(experiment: SweepFile, out: PathBuf, jobs: Option<usize>) -> Result<SweepPlan, LabError> {
        let head = Head {
            experiment: experiment.title.clone(),
            machine: experiment.machine_name.clone(),
            baseline: experiment.baseline.text.clone(),
        };
        let (points, places) = (Vec::new(), Vec::new());
        let mut plan = SweepPlan { experiment, head, points, places, jobs, out };
        let mut known = BTreeSet::new();
        for settings in settings(&plan.experiment)? {
            let machine = plan.experiment.machine_of(&settings)?;
            for design in 0..plan.experiment.designs.len() {
                plan.add(&settings, &machine, design, &mut known)?;
            }
        }
        Ok(plan)
    }

    /// Adds a place with those of its points that are new.
    fn add(
        &mut self,
        settings: &[Option<usize>],
        machine: &Machine,
        design: usize,
        known: &mut BTreeSet<String>,
    ) -> Result<(), LabError> {
        let experiment = &self.experiment;
        let base = &experiment.designs[design];
        let set = settings.iter().zip(&experiment.factors).find(|(value, _)| value.is_some());
        let is_one = experiment.mode == Factors::One;
        if is_one && set.is_some_and(|(_, factor)| !factor.applies(base)) {
            return Ok(());
        }
        let choice = experiment.design_of(base, settings)?;
        let mut points = Vec::new();
        for Column { asked, .. } in &experiment.columns {
            let make = |design: &Choice, baseline: Option<String>| {
                let setting = Setting {
                    machine: machine.clone(),
                    machine_name: experiment.machine_name_with(settings),
                    design: design.text.clone(),
                    threads: experiment.threads_on(machine),
                    seed: experiment.seed,
                    crashes: experiment.crashes,
                    detail: experiment.detail,
                };
                SweepPoint::new(setting, asked.clone(), baseline)
            };
            let baseline = make(&experiment.baseline, None)?;
            let point = make(&choice, Some(baseline.key.clone()))?;
            points.push((point.key.clone(), baseline.key.clone()));
            let new = [baseline, point].into_iter().filter(|point| known.insert(point.key.clone()));
            self.points.extend(new);
        }
        self.places.push(Place { settings: settings.to_vec(), design, points });
        Ok(())
    }

    /// What it is about, in a line.
    pub fn title(&self) -> &str {
        &self.experiment.title
    }

    /// How many points there are.
    pub fn points(&self) -> usize {
        self.points.len()
    }

    /// The file that records go to.
    pub fn out(&self) -> &Path {
        &self.out
    }
}

/// All settings of the factors: each value by itself, or all combinations.
fn settings(experiment: &SweepFile) -> Result<Vec<Vec<Option<usize>>>, LabError> {
    let factors = &experiment.factors;
    let mut all = Vec::new();
    match experiment.mode {
        Factors::One => {
            for (at, factor) in factors.iter().enumerate() {
                for value in 0..factor.count() {
                    let mut settings = vec![None; factors.len()];
                    settings[at] = Some(value);
                    all.push(settings);
                }
            }
        }
        Factors::All => {
            let counts = factors.iter().map(|factor| factor.count() as u64);
            let count = counts.fold(1u64, u64::saturating_mul);
            let points = experiment.designs.len() * experiment.columns.len();
            in_range(
                "points of all combinations",
                count.saturating_mul(points as u64),
                1,
                POINTS_MAX,
            )?;
            all.push(vec![None; factors.len()]);
            for (at, factor) in factors.iter().enumerate() {
                let with = |settings: &Vec<Option<usize>>, value| {
                    let mut settings = settings.clone();
                    settings[at] = Some(value);
                    settings
                };
                all = all
                    .iter()
                    .flat_map(|settings| (0..factor.count()).map(move |v| with(settings, v)))
                    .collect();
            }
        }
    }
    Ok(all)
}

impl Sweep {
    /// Points that the sweep has.
    pub fn points(&self) -> usize {
        self.plan.points.len()
    }

    /// The points that are done, in the order of the plan, with their records.
    fn in_order(&self) -> impl Iterator<Item = (&SweepPoint, &SweepRecord)> {
        self.plan.points.iter().filter_map(|point| Some((point, self.records.get(&point.key)?)))
    }

    /// True if the sweep was stopped before every point was done.
    pub fn is_partial(&self) -> bool {
        self.records.len() < self.plan.points.len()
    }

    /// True if no point is done.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Crashes that left no consistent cut, and results that are wrong.
    pub fn broken(&self) -> u64 {
        let records = self.records.values();
        records.map(|record| record.broken + u64::from(!record.right)).sum()
    }

    /// The geometric mean over the columns of the times over the baseline, if all are there.
    fn mean(&self, place: &Place) -> Option<f64> {
        crate::commands::kernels::geometric_mean(place.points.iter().map(|point| self.time(point)))
    }

    /// The time of a point over that of its baseline, if both are there.
    fn time(&self, (key, baseline): &(String, String)) -> Option<f64> {
        let took = |key: &String| self.records.get(key).map(|record| record.took() as f64);
        Some(took(key)? / took(baseline)?)
    }

    /// The places of a value of a factor under a design: one where one factor is varied at a time.
    fn places(&self, factor: usize, value: usize, design: usize) -> Vec<&Place> {
        let is_there =
            |place: &&Place| place.design == design && place.settings[factor] == Some(value);
        self.plan.places.iter().filter(is_there).collect()
    }
}

impl Experiment for SweepOptions {
    type Plan = SweepPlan;
    type Report = Sweep;
    type Error = SweepError;

    fn plan(&self) -> Result<SweepPlan, SweepError> {
        SweepPlan::new(&self.experiment, self.out.clone(), self.jobs)
    }

    fn files(&self, plan: &SweepPlan) -> Files {
        let files = Files::new()
            .reads("the experiment", &self.experiment)
            .makes("--out", Some(plan.out()))
            .results(Form::Plot, &self.plot)
            .results(Form::Html, &self.html);
        self.sheet.beside(files)
    }

    fn run(
        plan: SweepPlan,
        progress: &Progress,
        stop: &Arc<AtomicBool>,
    ) -> Result<Sweep, SweepError> {
        let open = OpenSweep::open(plan, stop)?;
        let (baselines, mut others): (Vec<_>, Vec<_>) =
            open.points_left().cloned().partition(|point| point.baseline.is_none());
        let run = |point: &SweepPoint| open.run(point, stop);
        let runner = Runner::new(open.plan().jobs, progress, stop);
        let mut is_partial = false;
        if !baselines.is_empty() {
            let done = runner.all(&baselines, run)?;
            is_partial = done.iter().any(Option::is_none);
        }
        if !is_partial && !others.is_empty() {
            // The longest first, as far as the baseline shows, so that none runs alone at the end.
            others.sort_by_cached_key(|point| {
                let baseline = point.baseline.as_deref().unwrap_or_default();
                std::cmp::Reverse(open.references(baseline))
            });
            runner.all(&others, run)?;
        }
        open.finish()
    }
}

impl Report for Sweep {
    fn text(&self) -> String {
        self.to_text()
    }

    fn notes(&self) -> Option<String> {
        Some(format!("{} of {} points were done already", self.found, self.points()))
    }

    fn found(&self) -> bool {
        self.broken() > 0
    }

    fn finished(&self) -> Finished {
        Finished::of(Sweep::is_partial(self), Sweep::is_empty(self))
    }

    fn json(&self) -> String {
        json_lines(self.in_order().map(|(_, record)| record))
    }

    fn page(&self) -> HtmlPage {
        self.to_page()
    }

    fn plots(&self) -> Result<Vec<ResultFile>, ReportError> {
        one_plot(self.to_svg())
    }
}
