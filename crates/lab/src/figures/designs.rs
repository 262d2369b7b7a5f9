//! Figures that compare designs: bars of a paper, each the mean over workloads.

use super::programs::{self, ProgramValue, Wanted};
use super::varied::{self, Settings, Variable, Varied, VariedValue, Varying};
use super::{FigureOptions, Kind, MeanBars, Numbers, PublishedValue, retired};
use crate::LabError;
use crate::cell::{CellRibbon, Flushed, Point, check_point, check_ribbon, run_cell};
use crate::commands::compare::plan::{self, CompareOptions, Plan};
use crate::commands::kernels::point::Extent;
use crate::engine::jobs::Runner;
use measure::{Runs, Shared, is_same, share};
use seawall_report::{ReportError, ResultFile};
use seawall_workloads::CHECKPOINTED;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

mod measure;
mod text;

/// A quick look runs this part of the operations.
const QUICK_DIVISOR: u64 = 5;
/// What stands for the highest value among those that are far apart.
const HIGHEST: &str = "highest";

/// A figure of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DesignFigure {
    /// "designs", or nothing.
    #[serde(rename = "kind", default)]
    _kind: Option<String>,
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
    /// Threads; none: one per core.
    pub threads: Option<usize>,
    /// Measured operations of each thread; none: as many as `compare` runs.
    pub operations: Option<u64>,
    /// Other numbers of operations, of workloads whose operations take longer.
    #[serde(default)]
    pub operations_of: BTreeMap<String, u64>,
    /// Workloads to take the mean over; none: the five of MICRO'15, Table 2.
    #[serde(default)]
    pub workloads: Vec<String>,
    /// Kernels with checkpoints that are in the mean too, and their sizes: each runs once.
    #[serde(default)]
    pub kernels: BTreeMap<String, u64>,
    pub metric: Metric,
    /// The design that throughput is relative to.
    pub baseline: Option<String>,
    /// How far from the paper's a mean may be, in the unit of the metric.
    pub tolerance: f64,
    /// How far from the paper's a workload's value may be, where it is known.
    pub workload_tolerance: Option<f64>,
    /// How many of the workloads' values are known to be further apart, when the figure is run in
    /// full with seed 1: the figure does not hold with more, and is out of date with fewer.
    #[serde(default)]
    pub far: usize,
    /// The mean is geometric.
    #[serde(default)]
    pub geometric: bool,
    /// The file of what the papers' programs themselves take, if they were run.
    pub programs: Option<String>,
    /// Workloads that do not run in a series in which their programs have, as they are far from
    /// them.
    #[serde(default)]
    pub retired: Vec<String>,
    /// What is shown for whom.
    pub series: Vec<Series>,
    /// Other values of parameters that nobody published.
    #[serde(default)]
    pub varied: Vec<Varied>,
}

/// What a figure shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Throughput over that of the baseline.
    Throughput,
    /// Run time over that of the baseline.
    Time,
    /// Epochs flushed because of a conflict, in per cent.
    ConflictingEpochs,
}

/// A bar of a figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    pub name: String,
    pub design: String,
    /// Other designs for single workloads, which have other flushes; what they are compared with
    /// has, too.
    #[serde(default)]
    pub designs: BTreeMap<String, String>,
    /// The design that it is relative to; none: the figure's.
    pub baseline: Option<String>,
    /// Leaves the threads' flushes to flushers.
    pub ribbon: Option<CellRibbon>,
    /// The paper's mean; none if it has no such bar.
    pub paper: Option<f64>,
    /// The paper's highest value, of whatever workload; a single value as those below.
    pub paper_most: Option<f64>,
    /// The paper's value for single workloads, by the names of ours.
    #[serde(default)]
    pub workloads: BTreeMap<String, f64>,
}

/// The outcome for one series, as `--json` writes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureRecord {
    pub figure: String,
    /// The series, by the paper's name.
    pub series: String,
    /// What of the series: "mean".
    pub point: &'static str,
    /// What the paper states, if it does.
    pub paper: Option<f64>,
    /// What we measure: the mean over the programs that were run, and the workloads in place of
    /// the others.
    pub measured: f64,
    /// The mean over the workloads alone, where there are programs and all workloads ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stand_ins: Option<f64>,
    /// How far apart they may be.
    pub tolerance: f64,
    /// Whether they are no further apart than that, or the paper states nothing; and every
    /// structure and result was right at the end.
    pub holds: bool,
    /// What we measure for each workload that ran: a retired one did not where its program has.
    pub workloads: Map<String, Value>,
    /// What the papers' programs have that the workloads stand for, and those without a workload.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, ProgramValue>,
    /// How the lines of each workload were flushed, where the series has a Ribbon.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub flushed: BTreeMap<String, Flushed>,
    /// Where the time of the threads went, by reason: the mean over the workloads that ran.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub stalls: Map<String, Value>,
    /// The same for each workload.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub stalls_of: BTreeMap<String, Map<String, Value>>,
    /// What the paper states for single workloads.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub paper_workloads: Map<String, Value>,
    /// What the paper states as the highest value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paper_most: Option<f64>,
    /// Workloads whose values are further apart than the figure allows; "highest" stands for the
    /// highest value.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub far: Vec<String>,
    /// What would be measured with other values of parameters that nobody published.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub varied: Vec<VariedValue>,
    pub design: String,
    pub machine: String,
    pub seed: u64,
    /// Measured operations of each thread.
    pub operations: u64,
    /// True if it was a quick look with fewer operations.
    pub quick: bool,
}

impl Kind for DesignFigure {
    type Record = FigureRecord;

    fn check(&self) -> Result<(), String> {
        if self.series.is_empty() {
            return Err("it has no [[series]]; give at least one".into());
        }
        let is_relative = self.metric != Metric::ConflictingEpochs;
        if is_relative != self.baseline.is_some() {
            let what = "metric = \"throughput\" or \"time\" needs a baseline, no other has one";
            return Err(what.into());
        }
        let range = 1..=plan::OPERATIONS_MAX;
        let mut others = self.operations_of.iter();
        let is_wrong =
            |(name, n): &(&String, &u64)| !self.workloads.contains(*name) || !range.contains(*n);
        if let Some((other, _)) = others.find(is_wrong) {
            return Err(format!(
                "operations_of has {other}; give one of the figure's workloads, and {} to {}",
                range.start(),
                range.end()
            ));
        }
        self.check_stated()
    }

    fn run(
        figures: &[&DesignFigure],
        options: &FigureOptions,
        runner: &Runner<'_>,
    ) -> Result<(Vec<FigureRecord>, bool), LabError> {
        let varied = if options.is_varied { varied::copies(figures) } else { Vec::new() };
        let figures: Vec<&DesignFigure> = figures.iter().copied().chain(&varied).collect();
        let plans: Result<Vec<Plan>, LabError> =
            figures.iter().map(|figure| figure.plan(options)).collect();
        let plans = plans?;
        let wanted: Vec<Wanted<'_>> = figures.iter().filter_map(|figure| figure.wanted()).collect();
        let (programs, is_whole) = programs::of(&wanted, options, runner)?;
        let all = figures.iter().zip(&plans).map(|(figure, plan)| {
            let programs = figure.programs.as_ref().and_then(|name| programs.get(name));
            Runs { figure, plan, programs, options, cells: &[] }
        });
        let all: Vec<Runs<'_>> = all.collect();
        let mut shared = share(&all);
        for machine in &mut shared {
            let Shared { machine, points, cells, .. } = machine;
            let run = |point: &Point| run_cell(machine, point, runner.stop);
            let done = runner.all_kept(&format!("{machine:?}"), points, run)?;
            *cells = done.into_iter().flatten().collect();
        }
        let wanted: usize = shared.iter().map(|machine| machine.points.len()).sum();
        let done: usize = shared.iter().map(|machine| machine.cells.len()).sum();
        let mut records = Vec::new();
        for runs in all {
            let is_same = |shared: &&Shared| shared.machine_name == runs.plan.machine_name;
            let cells = shared.iter().find(is_same).map_or(&[][..], |shared| &shared.cells);
            let runs = Runs { cells, ..runs };
            records.extend(runs.figure.series.iter().filter_map(|series| runs.record(series)));
        }
        Ok((varied::fold(records), is_whole && done == wanted))
    }

    fn holds(&self, records: &[&FigureRecord]) -> bool {
        records.iter().all(|record| record.holds) && far(records) == self.far
    }

    fn published_values(&self, records: &[&FigureRecord]) -> Vec<PublishedValue> {
        let of = |record: &&FigureRecord| {
            let FigureRecord { series, holds, far, tolerance, measured, .. } = *record;
            let is_percent = self.metric == Metric::ConflictingEpochs;
            let as_it_is = |value: PublishedValue| match is_percent {
                true => value.percent(),
                false => value,
            };
            let mean = record.paper.map(|paper| {
                let numbers = Numbers { paper, ours: *measured, tolerance: *tolerance };
                PublishedValue::new(format!("{series}, mean"), numbers, *holds)
                    .with_stand_in(record.stand_ins)
                    .with_range(&record.varied)
            });
            let most = record.compared().map(|(_, value)| value).max_by(f64::total_cmp);
            let single = |(name, paper, ours): (&str, Option<f64>, Option<f64>)| {
                let tolerance = self.workload_tolerance.unwrap_or(self.tolerance);
                let numbers = Numbers { paper: paper?, ours: ours?, tolerance };
                let holds = !far.iter().any(|other| other == name);
                let stand_in = record.workloads.get(name).and_then(Value::as_f64);
                let value = PublishedValue::new(format!("{series}, {name}"), numbers, holds);
                let value = value.with_stand_in(stand_in);
                Some(if record.stalls_of.contains_key(name) {
                    value.of_workload(name)
                } else {
                    value
                })
            };
            let of = |(name, paper): (&String, &Value)| {
                single((name, paper.as_f64(), record.compared_of(name)))
            };
            let singles = record.paper_workloads.iter().filter_map(of);
            let highest = single((HIGHEST, record.paper_most, most));
            let all = mean.into_iter().chain(singles).chain(highest);
            all.map(as_it_is).collect::<Vec<_>>()
        };
        records.iter().flat_map(of).collect()
    }

    fn about_programs(&self) -> String {
        let file = self.programs.as_deref().map(programs::load);
        file.and_then(Result::ok).map_or_else(String::new, |programs| programs.to_markdown())
    }

    fn to_text(&self, records: &[&FigureRecord]) -> String {
        self.text(records)
    }

    fn plots(&self, records: &[&FigureRecord]) -> Result<Vec<ResultFile>, ReportError> {
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let of = |name: &str| {
            let values = records.iter().map(|record| record.compared_of(name));
            (name.to_owned(), values.collect())
        };
        let (title, reference) = match self.metric {
            Metric::Throughput => ("throughput over the baseline", Some(1.0)),
            Metric::Time => ("time over the baseline", Some(1.0)),
            Metric::ConflictingEpochs => ("epochs that conflict, %", None),
        };
        let bars = MeanBars {
            figure: &self.name,
            title,
            bars: records.iter().map(|record| &*record.series).collect(),
            programs: self.names(records).into_iter().map(of).collect(),
            published: records.iter().map(|record| record.paper).collect(),
            means: records.iter().map(|record| Some(record.measured)).collect(),
            reference,
        };
        bars.draw()
    }
}

impl DesignFigure {
    /// The values of single workloads.
    fn check_stated(&self) -> Result<(), String> {
        let stated = || self.series.iter().flat_map(|series| series.workloads.keys());
        let mut known: Vec<String> = self.workloads.clone();
        let programs = self.programs.as_deref().map(programs::load).transpose()?;
        let stand_ins: Vec<&str> = self.workloads.iter().map(String::as_str).collect();
        retired::check(&self.retired, programs.as_ref(), &stand_ins)?;
        if let Some(programs) = programs {
            let baseline = self.baseline.as_deref().unwrap_or_default();
            let used = self.workloads.iter().chain(stated()).map(String::as_str);
            let like = (&*self.machine, baseline, Extent::Parallel);
            programs.check(like, &used.collect::<Vec<_>>())?;
            known.extend(programs.held().map(str::to_owned));
        }
        if let Some(name) = stated().find(|name| !known.contains(name)) {
            let known = known.join("', '");
            return Err(format!(
                "a series has a value for '{name}', which is none of its workloads ('{known}'); \
                 correct the name, or add it to workloads"
            ));
        }
        let most = self.series.iter().filter(|series| series.paper_most.is_some());
        let (far, count) = (self.far, stated().count() + most.count());
        if far > 0 && self.workload_tolerance.is_none() {
            return Err(format!("far = {far} needs a workload_tolerance to be far from"));
        }
        let others = self.series.iter().flat_map(|series| series.designs.keys());
        if let Some(name) = others.into_iter().find(|name| !self.workloads.contains(name)) {
            return Err(format!("a series has a design for '{name}', which is not in workloads"));
        }
        if far > count {
            return Err(format!("far = {far}, but its series state {count} values of workloads"));
        }
        Ok(())
    }

    /// The programs beside its workloads.
    fn wanted(&self) -> Option<Wanted<'_>> {
        let baseline = self.baseline.as_deref().unwrap_or_default();
        let runs = move |name: &str| {
            let series = self.series.iter();
            let both = series.flat_map(|series| {
                [
                    (series.baseline_of(name, baseline), None),
                    (series.design_of(name), series.ribbon.as_ref()),
                ]
            });
            both.collect()
        };
        Some(Wanted { figure: &self.name, file: self.programs.as_deref()?, runs: Box::new(runs) })
    }

    /// The workloads, and behind them the programs for which none stands.
    fn columns<'a>(&'a self, plan: &'a Plan) -> Vec<&'a str> {
        let workloads = plan.workloads();
        let stated = self.series.iter().flat_map(|series| series.workloads.keys());
        let mut columns = workloads.clone();
        for name in stated.map(String::as_str) {
            if !columns.contains(&name) {
                columns.push(name);
            }
        }
        columns
    }

    /// What has a value in these records: the workloads in the order of the file, and others.
    fn names<'a>(&'a self, records: &[&'a FigureRecord]) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        let all = || records.iter().flat_map(|record| record.compared().map(|(name, _)| name));
        let own = self.workloads.iter().map(String::as_str);
        for name in own.filter(|name| all().any(|other| other == *name)).chain(all()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn plan(&self, options: &FigureOptions) -> Result<Plan, LabError> {
        let mut designs: Vec<String> = Vec::new();
        let series = self.series.iter().flat_map(|series| {
            series.baseline.iter().chain([&series.design]).chain(series.designs.values())
        });
        for design in self.baseline.iter().chain(series) {
            if !designs.contains(design) {
                designs.push(design.clone());
            }
        }
        let is_quick = options.is_quick;
        let machine = varied::machine_with(&self.machine, &self.settings)?;
        let options = CompareOptions {
            workloads: self.workloads.clone(),
            designs,
            machine: self.machine_name(),
            threads: self.threads,
            seed: options.seed,
            crashes: 0,
            operations: part(self.operations.unwrap_or(plan::OPERATIONS), is_quick),
            jobs: options.jobs,
            ..CompareOptions::default()
        };
        let mut plan = Plan::on(machine, &options)?;
        for (workload, operations) in &self.operations_of {
            plan.set_operations(workload, part(*operations, is_quick));
        }
        self.add_kernels(&mut plan, is_quick)?;
        for series in &self.series {
            if let Some(ribbon) = &series.ribbon {
                add_ribbon(&mut plan, ribbon, series)?;
            }
        }
        Ok(plan)
    }

    /// Adds to `plan` the points of the kernels, each under the designs of the first workload.
    fn add_kernels(&self, plan: &mut Plan, is_quick: bool) -> Result<(), LabError> {
        let first = plan.points.first().map(|point| point.workload.clone());
        let under = |point: &&Point| Some(&point.workload) == first.as_ref();
        let like: Vec<Point> = plan.points.iter().filter(under).cloned().collect();
        for (kernel, size) in &self.kernels {
            let entry = CHECKPOINTED.iter().find(|entry| entry.name == kernel);
            let entry = entry.ok_or_else(|| {
                let known: Vec<&str> = CHECKPOINTED.iter().map(|entry| entry.name).collect();
                let what = format!("no kernel with checkpoints '{kernel}': {}", known.join(", "));
                LabError::Figure { name: self.name.clone(), what }
            })?;
            let entries = Some(if is_quick { entry.small } else { *size });
            let points = like.iter().map(|point| Point {
                workload: kernel.clone(),
                entries,
                operations: 1,
                ..point.clone()
            });
            let points: Vec<Point> = points.collect();
            points.iter().take(1).try_for_each(check_point)?;
            plan.points.extend(points);
        }
        Ok(())
    }

    /// The machine and what is set on it.
    fn machine_name(&self) -> String {
        varied::machine_name(&self.machine, &self.settings)
    }
}

impl Varying for DesignFigure {
    fn variations(&self) -> &[Varied] {
        &self.varied
    }

    fn parts(&mut self) -> (&mut String, &mut Settings) {
        (&mut self.name, &mut self.settings)
    }
}

impl Variable for FigureRecord {
    fn place(&self) -> (&str, &str, &str) {
        (&self.figure, &self.series, self.point)
    }

    fn measured(&self) -> f64 {
        self.stand_ins.unwrap_or(self.measured)
    }

    fn varied(&mut self) -> &mut Vec<VariedValue> {
        &mut self.varied
    }
}

impl FigureRecord {
    /// What is compared with the paper's values: the programs' where they were run, else the
    /// workloads'.
    fn compared(&self) -> impl Iterator<Item = (&str, f64)> {
        let program = |name: &str| self.programs.get(name).map(|program| program.value);
        let ours = self.workloads.iter().filter_map(move |(name, measured)| {
            Some((name.as_str(), program(name).or(measured.as_f64())?))
        });
        let alone = self.programs.iter().filter(|(name, _)| !self.workloads.contains_key(*name));
        ours.chain(alone.map(|(name, program)| (name.as_str(), program.value)))
    }

    /// The same of one program.
    fn compared_of(&self, name: &str) -> Option<f64> {
        self.compared().find(|(other, _)| *other == name).map(|(_, value)| value)
    }
}

impl Series {
    /// The design that runs for a workload.
    fn design_of(&self, workload: &str) -> &str {
        self.designs.get(workload).unwrap_or(&self.design)
    }

    /// What it is compared with.
    fn baseline_of<'a>(&'a self, workload: &str, of_figure: &'a str) -> &'a str {
        let own = self.designs.get(workload).or(self.baseline.as_ref());
        own.map_or(of_figure, String::as_str)
    }
}

/// Adds to `plan`, for each workload, a point like that of the series, with a Ribbon.
fn add_ribbon(plan: &mut Plan, ribbon: &CellRibbon, series: &Series) -> Result<(), LabError> {
    let is_like = |point: &&Point| {
        point.ribbon.is_none() && point.design.text == series.design_of(&point.workload)
    };
    let plain: Vec<Point> = plan.points.iter().filter(is_like).cloned().collect();
    for point in plain {
        let point = Point { ribbon: Some(ribbon.options()), ..point };
        check_ribbon(&plan.machine, &point)?;
        if !plan.points.iter().any(|other| is_same(other, &point)) {
            plan.points.push(point);
        }
    }
    Ok(())
}

/// The operations of a figure, or of a quick look.
fn part(operations: u64, is_quick: bool) -> u64 {
    if is_quick { (operations / QUICK_DIVISOR).max(1) } else { operations }
}

/// How many values of single workloads are further apart than allowed.
fn far(records: &[&FigureRecord]) -> usize {
    records.iter().map(|record| record.far.len()).sum()
}

#[cfg(test)]
mod tests;
