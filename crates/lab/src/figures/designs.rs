//! Figures that compare designs: bars of a paper, each the mean over workloads.

use super::varied::{self, Settings, Variable, Varied, VariedValue, Varying};
use super::{FigureOptions, Kind, MeanBars, Numbers, PublishedValue};
use crate::LabError;
use crate::cell::{Cell, CellRibbon, Flushed, Point, check_point, check_ribbon, run_cell};
use crate::commands::compare::plan::{self, CompareOptions, Plan};
use crate::engine::jobs::Runner;
use seawall_report::{ReportError, ResultFile};
use seawall_ribbon::RibbonOptions;
use seawall_sim::Machine;
use seawall_workloads::CHECKPOINTED;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

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
    /// What we measure: the mean over the workloads.
    pub measured: f64,
    /// How far apart they may be.
    pub tolerance: f64,
    /// Whether they are no further apart than that, or the paper states nothing; and every
    /// structure and result was right at the end.
    pub holds: bool,
    /// What we measure for each workload.
    pub workloads: Map<String, Value>,
    /// How the lines of each workload were flushed, where the series has a Ribbon.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub flushed: BTreeMap<String, Flushed>,
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
        let mut shared = share(&plans);
        for machine in &mut shared {
            let Shared { machine, points, cells, .. } = machine;
            let run = |point: &Point| run_cell(machine, point, runner.stop);
            let done = runner.all_kept(&format!("{machine:?}"), points, run)?;
            *cells = done.into_iter().flatten().collect();
        }
        let wanted: usize = shared.iter().map(|machine| machine.points.len()).sum();
        let done: usize = shared.iter().map(|machine| machine.cells.len()).sum();
        let mut records = Vec::new();
        for (figure, plan) in figures.iter().zip(&plans) {
            let machine = shared.iter().find(|shared| shared.machine_name == plan.machine_name);
            let cells = machine.map_or(&[][..], |shared| &shared.cells);
            let series = figure.series.iter();
            records.extend(series.filter_map(|s| record(figure, s, plan, cells, options)));
        }
        Ok((varied::fold(records), done == wanted))
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
                    .with_range(&record.varied)
            });
            let most = record.workloads.values().filter_map(Value::as_f64).max_by(f64::total_cmp);
            let single = |(name, paper, ours): (&str, Option<f64>, Option<f64>)| {
                let tolerance = self.workload_tolerance.unwrap_or(self.tolerance);
                let numbers = Numbers { paper: paper?, ours: ours?, tolerance };
                let holds = !far.iter().any(|other| other == name);
                Some(PublishedValue::new(format!("{series}, {name}"), numbers, holds))
            };
            let of = |(name, paper): (&String, &Value)| {
                single((name, paper.as_f64(), record.workloads.get(name)?.as_f64()))
            };
            let singles = record.paper_workloads.iter().filter_map(of);
            let highest = single((HIGHEST, record.paper_most, most));
            let all = mean.into_iter().chain(singles).chain(highest);
            all.map(as_it_is).collect::<Vec<_>>()
        };
        records.iter().flat_map(of).collect()
    }

    fn to_text(&self, records: &[&FigureRecord]) -> String {
        self.text(records)
    }

    fn plots(&self, records: &[&FigureRecord]) -> Result<Vec<ResultFile>, ReportError> {
        let Some(first) = records.first() else { return Ok(Vec::new()) };
        let of = |workload: &String| {
            let value = |record: &&FigureRecord| record.workloads.get(workload)?.as_f64();
            (workload.clone(), records.iter().map(value).collect())
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
            programs: first.workloads.keys().map(of).collect(),
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
        if let Some(name) = stated().find(|name| !self.workloads.contains(name)) {
            let known = self.workloads.join("', '");
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
        self.measured
    }

    fn varied(&mut self) -> &mut Vec<VariedValue> {
        &mut self.varied
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

/// A plan's point with the machine that it runs on.
struct Shared {
    machine_name: String,
    machine: Machine,
    points: Vec<Point>,
    cells: Vec<Cell>,
}

/// How many values of single workloads are further apart than allowed.
fn far(records: &[&FigureRecord]) -> usize {
    records.iter().map(|record| record.far.len()).sum()
}

fn is_same(left: &Point, right: &Point) -> bool {
    let key = |point: &Point| (point.workload.clone(), point.design.text.clone(), point.threads);
    let rest = |point: &Point| (point.operations, point.ribbon.clone());
    // A cell has them filled in.
    let entries = left.entries.zip(right.entries).is_none_or(|(left, right)| left == right);
    key(left) == key(right) && rest(left) == rest(right) && entries
}

/// The points of all plans, each once, machine by machine.
fn share(plans: &[Plan]) -> Vec<Shared> {
    let mut shared: Vec<Shared> = Vec::new();
    for plan in plans {
        let known = shared.iter().position(|machine| machine.machine_name == plan.machine_name);
        let place = known.unwrap_or_else(|| {
            let (machine_name, machine) = (plan.machine_name.clone(), plan.machine.clone());
            shared.push(Shared { machine_name, machine, points: Vec::new(), cells: Vec::new() });
            shared.len() - 1
        });
        for point in &plan.points {
            if !shared[place].points.iter().any(|other| is_same(other, point)) {
                shared[place].points.push(point.clone());
            }
        }
    }
    shared
}

fn record(
    figure: &DesignFigure,
    series: &Series,
    plan: &Plan,
    cells: &[Cell],
    options: &FigureOptions,
) -> Option<FigureRecord> {
    let ribbon = series.ribbon.as_ref().map(CellRibbon::options);
    let cell = |workload: &str, design: &str, ribbon: &Option<RibbonOptions>| {
        let wanted = |point: &&Point| {
            point.workload == workload && point.design.text == design && point.ribbon == *ribbon
        };
        let wanted = plan.points.iter().find(wanted)?;
        cells.iter().find(|cell| is_same(&cell.point, wanted))
    };
    let (mut workloads, mut flushed) = (Map::new(), BTreeMap::new());
    let (mut values, mut far, mut is_right) = (Vec::new(), Vec::new(), true);
    for workload in plan.workloads() {
        let ours = cell(workload, series.design_of(workload), &ribbon)?;
        let faster = match &figure.baseline {
            Some(baseline) => {
                let baseline = series.baseline_of(workload, baseline);
                ours.throughput / cell(workload, baseline, &None)?.throughput
            }
            None => 0.0,
        };
        let measured = match figure.metric {
            Metric::Throughput => faster,
            Metric::Time => 1.0 / faster,
            Metric::ConflictingEpochs => ours.conflicting_epochs().unwrap_or(0.0),
        };
        is_right &= ours.broken.is_empty();
        workloads.insert(workload.to_owned(), json!(measured));
        flushed.extend(Flushed::of(ours).map(|flushed| (workload.to_owned(), flushed)));
        values.push(measured);
        let apart = series.workloads.get(workload).map(|paper| (measured - paper).abs());
        if apart.zip(figure.workload_tolerance).is_some_and(|(apart, most)| apart > most) {
            far.push(workload.to_owned());
        }
    }
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let apart = series.paper_most.map(|paper| (most - paper).abs());
    if apart.zip(figure.workload_tolerance).is_some_and(|(apart, least)| apart > least) {
        far.push(HIGHEST.to_owned());
    }
    let measured = mean(&values, figure.geometric);
    let is_near = series.paper.is_none_or(|paper| (measured - paper).abs() <= figure.tolerance);
    Some(FigureRecord {
        figure: figure.name.clone(),
        series: series.name.clone(),
        point: "mean",
        paper: series.paper,
        measured,
        tolerance: figure.tolerance,
        holds: is_near && is_right,
        workloads,
        flushed,
        paper_workloads: series.workloads.iter().map(|(k, v)| (k.clone(), json!(v))).collect(),
        paper_most: series.paper_most,
        far,
        varied: Vec::new(),
        design: series.design.clone(),
        machine: plan.machine_name.clone(),
        seed: options.seed,
        operations: part(figure.operations.unwrap_or(plan::OPERATIONS), options.is_quick),
        quick: options.is_quick,
    })
}

fn mean(values: &[f64], geometric: bool) -> f64 {
    let count = values.len() as f64;
    match geometric {
        true => (values.iter().map(|value| value.ln()).sum::<f64>() / count).exp(),
        false => values.iter().sum::<f64>() / count,
    }
}

#[cfg(test)]
mod tests;
