//! Figures of unannotated programs: time under a design over time without persistency.
//!
//! MICRO'15, Figures 13 and 14: hardware cuts parallel programs into epochs. A series is a design,
//! and its value the mean over the programs of cycles over cycles of the baseline. The papers'
//! bars of the single programs are lost, but for what their texts say.

use super::programs::{self, MeasuredPrograms, ProgramValue, Wanted};
use super::varied::{self, Settings, Variable, Varied, VariedValue, Varying};
use super::{FigureOptions, Kind, Numbers, PublishedValue, retired, stem};
use crate::LabError;
use crate::commands::compare::plan::designs;
use crate::commands::kernels::point::{Extent, KernelPoint, KernelRun, run_kernel};
use crate::commands::kernels::{check_point, entry};
use crate::engine::jobs::Runner;
use crate::engine::options::{once, threads_of};
use crate::engine::spent::Spent;
use measure::View;
use seawall_report::{ReportError, ResultFile};
use seawall_sim::{Choice, Machine};
use seawall_workloads::{KERNELS, KernelEntry};
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;

mod measure;
mod plot;
mod text;

/// A figure of kernels, as its file describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelFigure {
    /// Always "kernels": the kind of figure.
    #[serde(rename = "kind")]
    _kind: String,
    /// Name on the command line.
    #[serde(skip)]
    pub name: String,
    pub title: String,
    /// Where the paper says so.
    pub source: String,
    pub machine: String,
    /// What is set otherwise on it, as in `"core.count" = 32`.
    #[serde(default)]
    pub settings: Settings,
    /// The design whose time is 1.
    pub baseline: String,
    /// Kernels; none: all of the table.
    #[serde(default)]
    pub kernels: Vec<String>,
    /// What of the programs the paper measures; by default whole programs.
    #[serde(default = "whole")]
    pub extent: Extent,
    /// Those of them that the paper names, which get a mean of their own.
    #[serde(default)]
    pub named: Vec<String>,
    /// How far from the paper's a value may be.
    pub tolerance: f64,
    /// What is shown for whom.
    pub series: Vec<KernelSeries>,
    /// What the paper says of the conflicts of a series.
    pub conflicts: Option<Conflicts>,
    /// What else a reader has to know.
    pub note: String,
    /// Other values of parameters that nobody published.
    #[serde(default)]
    pub varied: Vec<Varied>,
    /// The file of what the programs themselves take, if they were run.
    pub programs: Option<String>,
    /// Kernels that do not run in a series in which their programs have, as they are far from them.
    #[serde(default)]
    pub retired: Vec<String>,
}

/// A series of a figure of kernels.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelSeries {
    pub name: String,
    pub design: String,
    /// Threads; none: one per core.
    pub threads: Option<usize>,
    /// The mean that was published.
    pub paper: f64,
    /// The paper that published it, if it is not the figure's.
    pub by: Option<String>,
    /// How far from it ours may be, if not as far as the figure says.
    pub tolerance: Option<f64>,
    /// What was published of single kernels.
    #[serde(default)]
    pub stated: BTreeMap<String, f64>,
}

/// What a paper says of conflicts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conflicts {
    pub series: String,
    /// Conflicts between threads, in per cent of these and those of a thread with itself.
    pub inter_percent: f64,
    /// How far from it ours may be.
    pub tolerance: f64,
}

/// A value of a figure of kernels, as `--json` writes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelFigureRecord {
    pub figure: String,
    /// The series, by the paper's name.
    pub series: String,
    /// A kernel, or what was made of all: means, and the conflicts between threads in per cent.
    pub point: String,
    /// What was published of it.
    pub paper: Option<f64>,
    pub measured: f64,
    /// The kernel, or one of them, is retired and did not run: `measured` is with its program.
    #[serde(skip_serializing_if = "is_false")]
    pub retired: bool,
    /// What the programs took that the kernel stands for; of a mean, that with the programs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramValue>,
    /// How far apart the paper's value and that of a program that is compared, or else ours, may
    /// be.
    pub tolerance: f64,
    /// Whether they are no further apart than that; none if nothing was published.
    pub holds: Option<bool>,
    /// What would be measured with other values of parameters that nobody published.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub varied: Vec<VariedValue>,
    /// Of a kernel: what was counted.
    pub run: Option<RunRecord>,
    /// Of a kernel: where the time of its threads went, by reason.
    #[serde(rename = "stalls", skip_serializing_if = "Option::is_none", serialize_with = "shares")]
    pub(crate) spent: Option<Spent>,
    pub design: String,
    pub machine: String,
    pub threads: usize,
    pub seed: u64,
    /// True if it was a quick look with smaller inputs.
    pub quick: bool,
}

/// What was counted of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunRecord {
    /// How much there was to do.
    pub size: u64,
    pub cycles: u64,
    /// Cycles before the parallel part.
    pub start: u64,
    /// Cycles of the parallel part over those of the baseline's.
    pub parallel: f64,
    /// Whether the result is that of the plain computation.
    pub is_right: bool,
    /// Stores of the program.
    pub stores: u64,
    /// Epochs that became durable.
    pub epochs: u64,
    /// Accesses that hit another thread's epoch, and a thread's own older one.
    pub conflicts: [u64; 2],
    /// Lines written to memory, and old lines among them that went to the log.
    pub lines: [u64; 2],
    /// Time in which the channels of the memory move lines, in per cent of the run.
    pub channels_busy: f64,
}

fn shares<S: Serializer>(spent: &Option<Spent>, to: S) -> Result<S::Ok, S::Error> {
    spent.map(Spent::to_json).serialize(to)
}

fn is_false(value: &bool) -> bool {
    !value
}

fn whole() -> Extent {
    Extent::Whole
}

type Key = (String, String, usize, &'static str);
type Runs = BTreeMap<Key, KernelRun>;

fn key(point: &KernelPoint) -> Key {
    (point.kernel.clone(), point.design.text.clone(), point.threads, point.extent.name())
}

/// Adds a point that is not there yet.
fn add(points: &mut Vec<KernelPoint>, point: KernelPoint) {
    if !points.iter().any(|other| key(other) == key(&point)) {
        points.push(point);
    }
}

impl Kind for KernelFigure {
    type Record = KernelFigureRecord;

    fn check(&self) -> Result<(), String> {
        if self.series.is_empty() {
            return Err("it has no [[series]]; give at least one".into());
        }
        let names: Vec<&str> = self.entries()?.iter().map(|entry| entry.name).collect();
        let stated = self.series.iter().flat_map(|series| series.stated.keys());
        if let Some(name) = self.named.iter().chain(stated).find(|name| !names.contains(&&***name))
        {
            return Err(format!("'{name}' is none of its kernels: {}", names.join(", ")));
        }
        let series: Vec<String> = self.series.iter().map(|series| series.name.clone()).collect();
        let text = |error: LabError| error.to_string();
        once("kernel", &self.kernels).map_err(text)?;
        once("series", &series).map_err(text)?;
        let is_series = |name: &String| self.series.iter().any(|series| series.name == *name);
        let programs = self.programs.as_deref().map(programs::load).transpose()?;
        if let Some(programs) = &programs {
            let like = (&*self.machine, &*self.baseline, self.extent);
            programs.check(like, &names)?;
        }
        retired::check(&self.retired, programs.as_ref(), &names)?;
        match &self.conflicts {
            Some(conflicts) if !is_series(&conflicts.series) => {
                Err(format!("conflicts.series = '{}' is none of its series", conflicts.series))
            }
            _ => Ok(()),
        }
    }

    fn run(
        figures: &[&KernelFigure],
        options: &FigureOptions,
        runner: &Runner<'_>,
    ) -> Result<(Vec<KernelFigureRecord>, bool), LabError> {
        let varied = if options.is_varied { varied::copies(figures) } else { Vec::new() };
        let figures: Vec<&KernelFigure> = figures.iter().copied().chain(&varied).collect();
        let wanted: Vec<Wanted<'_>> = figures.iter().filter_map(|figure| figure.wanted()).collect();
        let (programs, mut is_whole) = programs::of(&wanted, options, runner)?;
        let mut records = Vec::new();
        let mut machines: Vec<String> =
            figures.iter().map(|figure| figure.machine_name()).collect();
        machines.sort_unstable();
        machines.dedup();
        let mut prepared = Vec::new();
        for name in machines {
            let like = |figure: &&&KernelFigure| figure.machine_name() == name;
            let Some(first) = figures.iter().find(like) else { continue };
            let machine = varied::machine_with(&first.machine, &first.settings)?;
            let mut points: Vec<KernelPoint> = Vec::new();
            for figure in figures.iter().filter(like) {
                for point in figure.points(&machine, figure.measured(&programs), options)? {
                    add(&mut points, point);
                }
            }
            prepared.push((name, machine, points));
        }
        let mut done: BTreeMap<String, (Machine, Runs)> = BTreeMap::new();
        for (name, machine, points) in prepared {
            let run = |point: &KernelPoint| run_kernel(&machine, point, runner.stop);
            let runs = runner.all_kept(&format!("{machine:?}"), &points, run)?;
            is_whole &= runs.iter().all(Option::is_some);
            let runs: Runs = points
                .iter()
                .zip(runs)
                .filter_map(|(point, run)| Some((key(point), run?)))
                .collect();
            done.insert(name, (machine, runs));
        }
        for figure in figures {
            if let Some((machine, runs)) = done.get(&figure.machine_name()) {
                let programs = figure.measured(&programs);
                let view = View { figure, machine, runs, options, programs };
                records.extend(view.records());
            }
        }
        Ok((varied::fold(records), is_whole))
    }

    fn holds(&self, records: &[&KernelFigureRecord]) -> bool {
        records.iter().all(|record| {
            record.holds != Some(false) && record.run.as_ref().is_none_or(|run| run.is_right)
        })
    }

    fn published_values(&self, records: &[&KernelFigureRecord]) -> Vec<PublishedValue> {
        let of = |record: &&KernelFigureRecord| {
            let value = format!("{}, {}", record.series, record.point);
            let (paper, ours) = (record.paper?, record.compared());
            let numbers = Numbers { paper, ours, tolerance: record.tolerance };
            let value = PublishedValue::new(value, numbers, record.holds?)
                .with_stand_in(Some(record.measured))
                .with_range(&record.varied);
            Some(if record.point == text::CONFLICTS { value.percent() } else { value })
        };
        records.iter().filter_map(of).collect()
    }

    fn about_programs(&self) -> String {
        let file = self.programs.as_deref().map(programs::load);
        file.and_then(Result::ok).map_or_else(String::new, |programs| programs.to_markdown())
    }

    fn to_text(&self, records: &[&KernelFigureRecord]) -> String {
        self.text(records)
    }

    fn plots(&self, records: &[&KernelFigureRecord]) -> Result<Vec<ResultFile>, ReportError> {
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let svg = self.bars(records).map_err(ReportError::plot)?;
        Ok(vec![ResultFile { file: format!("{}.svg", stem(&self.name)), text: svg }])
    }
}

impl Varying for KernelFigure {
    fn variations(&self) -> &[Varied] {
        &self.varied
    }

    fn parts(&mut self) -> (&mut String, &mut Settings) {
        (&mut self.name, &mut self.settings)
    }
}

impl Variable for KernelFigureRecord {
    fn place(&self) -> (&str, &str, &str) {
        (&self.figure, &self.series, &self.point)
    }

    fn measured(&self) -> f64 {
        self.measured
    }

    fn varied(&mut self) -> &mut Vec<VariedValue> {
        &mut self.varied
    }
}

impl KernelFigure {
    /// The machine and what is set on it.
    fn machine_name(&self) -> String {
        varied::machine_name(&self.machine, &self.settings)
    }

    /// The programs beside its kernels.
    fn wanted(&self) -> Option<Wanted<'_>> {
        let designs = self.series.iter().map(|series| &*series.design);
        let designs = std::iter::once(&*self.baseline).chain(designs).collect();
        Some(Wanted::under(&self.name, self.programs.as_deref()?, designs))
    }

    /// Its kernels.
    fn entries(&self) -> Result<Vec<&'static KernelEntry>, String> {
        if self.kernels.is_empty() {
            return Ok(KERNELS.iter().collect());
        }
        let find = |name: &String| entry(name).map_err(|error| error.to_string());
        self.kernels.iter().map(find).collect()
    }

    /// The programs beside its kernels, of those of all figures.
    fn measured<'a>(
        &self,
        programs: &'a BTreeMap<String, MeasuredPrograms>,
    ) -> Option<&'a MeasuredPrograms> {
        programs.get(self.programs.as_ref()?)
    }

    /// What the program took that is there in the place of a retired kernel.
    fn in_place_of(
        &self,
        kernel: &str,
        series: &KernelSeries,
        programs: Option<&MeasuredPrograms>,
        options: &FigureOptions,
    ) -> Option<f64> {
        if !retired::is_left_out(&self.retired, kernel, options) {
            return None;
        }
        let values = programs?.values(kernel, &series.design);
        values.iter().find(|program| program.held).map(|program| program.value)
    }

    fn point(
        &self,
        kernel: &KernelEntry,
        design: &Choice,
        threads: usize,
        options: &FigureOptions,
    ) -> KernelPoint {
        KernelPoint {
            kernel: kernel.name.into(),
            design: design.clone(),
            threads,
            size: Some(if options.is_quick { kernel.quick } else { kernel.size }),
            seed: options.seed,
            extent: self.extent,
        }
    }

    /// The points of the figure on `machine` for which nothing is there in place, each once; all
    /// of them can be run.
    fn points(
        &self,
        machine: &Machine,
        programs: Option<&MeasuredPrograms>,
        options: &FigureOptions,
    ) -> Result<Vec<KernelPoint>, LabError> {
        let wrong = |what: String| LabError::Figure { name: self.name.clone(), what };
        let baseline = designs(std::slice::from_ref(&self.baseline))?.remove(0);
        let mut points: Vec<KernelPoint> = Vec::new();
        for entry in self.entries().map_err(wrong)? {
            for series in &self.series {
                let threads = threads_of("threads", series.threads, machine)
                    .map_err(|error| wrong(format!("series {}: {error}", series.name)))?;
                let design = designs(std::slice::from_ref(&series.design))?.remove(0);
                if self.in_place_of(entry.name, series, programs, options).is_some() {
                    continue;
                }
                for design in [&baseline, &design] {
                    let point = self.point(entry, design, threads, options);
                    check_point(&point)?;
                    add(&mut points, point);
                }
            }
        }
        Ok(points)
    }
}

impl KernelFigureRecord {
    /// What is compared with the paper's value: that of the program, where there is one.
    pub(crate) fn compared(&self) -> f64 {
        self.programs.iter().find(|program| program.held).map_or(self.measured, |of| of.value)
    }
}

#[cfg(test)]
mod tests;
