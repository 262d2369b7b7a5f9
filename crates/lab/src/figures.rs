//! The figures of the papers: their numbers beside ours.
//!
//! A figure is data (`experiments/*.toml`): series, what the paper states, and how far off we may
//! be. One runner makes them all; points that several figures share are run once.

use crate::LabError;
use crate::cell::{Cell, Point};
use crate::compare::run_points;
use crate::plan::{self, CompareOptions, Plan};
use crate::progress::Progress;
use seawall_sim::Machine;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

mod text;

/// The figures that come with seawall: name and text.
const FIGURES: &[(&str, &str)] = &[
    ("s2-fig11", include_str!("../../../experiments/s2-fig11.toml")),
    ("s2-fig12", include_str!("../../../experiments/s2-fig12.toml")),
    ("s2-flush", include_str!("../../../experiments/s2-flush.toml")),
];

/// A quick look runs this part of the operations.
const QUICK_DIVISOR: u64 = 5;

/// A figure of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Name on the command line.
    #[serde(skip)]
    pub name: String,
    /// What it shows.
    pub title: String,
    /// Where the paper says so.
    pub source: String,
    /// The machine.
    pub machine: String,
    /// Threads; none: one per core.
    pub threads: Option<usize>,
    /// Measured operations of each thread; none: as many as `compare` runs.
    pub operations: Option<u64>,
    /// Workloads to take the mean over; none: the five of MICRO'15, Table 2.
    #[serde(default)]
    pub workloads: Vec<String>,
    /// What is shown.
    pub metric: Metric,
    /// The design that throughput is relative to.
    pub baseline: Option<String>,
    /// How far from the paper's a mean may be, in the unit of the metric.
    pub tolerance: f64,
    /// What is shown for whom.
    pub series: Vec<Series>,
}

/// What a figure shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Throughput over that of the baseline.
    Throughput,
    /// Epochs flushed because of a conflict, in per cent.
    ConflictingEpochs,
}

/// A bar of a figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// The paper's name.
    pub name: String,
    /// Our design.
    pub design: String,
    /// The paper's mean.
    pub paper: f64,
}

/// The outcome for one series, as `--json` writes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureRecord {
    /// The figure.
    pub figure: String,
    /// The series, by the paper's name.
    pub series: String,
    /// What of the series: "mean".
    pub point: &'static str,
    /// What the paper states.
    pub paper: f64,
    /// What we measure: the arithmetic mean over the workloads.
    pub measured: f64,
    /// How far apart they may be.
    pub tolerance: f64,
    /// Whether they are no further apart than that.
    pub holds: bool,
    /// What we measure for each workload.
    pub workloads: Map<String, Value>,
    /// Our design.
    pub design: String,
    /// The machine.
    pub machine: String,
    /// The seed.
    pub seed: u64,
    /// Measured operations of each thread.
    pub operations: u64,
    /// True if it was a quick look with fewer operations.
    pub quick: bool,
}

/// How to run figures.
#[derive(Clone, Debug)]
pub struct FigureOptions {
    /// Run fewer operations.
    pub is_quick: bool,
    /// Seed of everything random.
    pub seed: u64,
    /// Host threads; none: one per core of the host.
    pub jobs: Option<usize>,
}

impl Default for FigureOptions {
    fn default() -> FigureOptions {
        FigureOptions { is_quick: false, seed: 1, jobs: None }
    }
}

/// Figures with what was measured for them.
#[derive(Clone, Debug)]
pub struct Figures {
    figures: Vec<Figure>,
    records: Vec<FigureRecord>,
    is_partial: bool,
}

impl Figure {
    /// The figures that come with seawall.
    pub fn known() -> Vec<Figure> {
        let figures = FIGURES.iter().map(|(name, text)| Figure::parse(name, text));
        figures.map(|figure| figure.expect("checked by a test")).collect()
    }

    /// The figure of that name, or the one in that `.toml` file.
    ///
    /// # Errors
    /// An unknown name, an unreadable file, a description that is wrong.
    pub fn load(name: &str) -> Result<Figure, LabError> {
        if let Some((_, text)) = FIGURES.iter().find(|(known, _)| *known == name) {
            return Figure::parse(name, text);
        }
        let path = Path::new(name);
        if path.extension().is_none_or(|end| end != "toml") {
            let known: Vec<&str> = FIGURES.iter().map(|(known, _)| *known).collect();
            return Err(LabError::UnknownFigure { name: name.into(), known: known.join(", ") });
        }
        let text = std::fs::read_to_string(path).map_err(LabError::file(path))?;
        Figure::parse(name, &text)
    }

    fn parse(name: &str, text: &str) -> Result<Figure, LabError> {
        let wrong = |what: String| LabError::Figure { name: name.into(), what };
        let mut figure: Figure = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        figure.name = name.to_owned();
        if figure.series.is_empty() {
            return Err(wrong("it has no [[series]]; give at least one".into()));
        }
        if (figure.metric == Metric::Throughput) != figure.baseline.is_some() {
            let what = "metric = \"throughput\" needs a baseline, and no other metric has one";
            return Err(wrong(what.into()));
        }
        Ok(figure)
    }

    fn plan(&self, options: &FigureOptions) -> Result<Plan, LabError> {
        let mut designs: Vec<String> = Vec::new();
        let series = self.series.iter().map(|series| &series.design);
        for design in self.baseline.iter().chain(series) {
            if !designs.contains(design) {
                designs.push(design.clone());
            }
        }
        let operations = self.operations.unwrap_or(plan::OPERATIONS);
        let divisor = if options.is_quick { QUICK_DIVISOR } else { 1 };
        Plan::new(&CompareOptions {
            workloads: self.workloads.clone(),
            designs,
            machine: self.machine.clone(),
            threads: self.threads,
            seed: options.seed,
            crashes: 0,
            operations: (operations / divisor).max(1),
            jobs: options.jobs,
            ..CompareOptions::default()
        })
    }
}

/// A plan's point with the machine that it runs on.
struct Shared {
    machine_name: String,
    machine: Machine,
    points: Vec<Point>,
    cells: Vec<Cell>,
}

fn is_same(left: &Point, right: &Point) -> bool {
    let key = |point: &Point| (point.workload.clone(), point.design.text.clone(), point.threads);
    key(left) == key(right) && left.operations == right.operations
}

impl Figures {
    /// Runs `figures`; stops soon after `stop` becomes true, with what is complete by then.
    ///
    /// # Errors
    /// A figure that is named twice or cannot be run.
    pub fn run(
        figures: Vec<Figure>,
        options: &FigureOptions,
        progress: &Progress,
        stop: &Arc<AtomicBool>,
    ) -> Result<Figures, LabError> {
        let names: Vec<String> = figures.iter().map(|figure| figure.name.clone()).collect();
        plan::once("figure", &names)?;
        let plans: Result<Vec<Plan>, LabError> =
            figures.iter().map(|figure| figure.plan(options)).collect();
        let plans = plans?;
        let mut shared = share(&plans);
        for machine in &mut shared {
            let Shared { machine, points, cells, .. } = machine;
            *cells = run_points(machine, points, options.jobs, progress, stop)?;
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
        Ok(Figures { figures, records, is_partial: done < wanted })
    }

    /// A record for each series, in the order of the figures.
    pub fn records(&self) -> &[FigureRecord] {
        &self.records
    }

    /// True if every series was measured and is within its tolerance.
    pub fn hold(&self) -> bool {
        !self.is_partial && self.records.iter().all(|record| record.holds)
    }

    /// True if the run was stopped before everything was measured.
    pub fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Writes the records to `path`, a line each.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_json(&self, path: &Path) -> Result<(), LabError> {
        crate::record::write_lines(path, &self.records)
    }
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
    figure: &Figure,
    series: &Series,
    plan: &Plan,
    cells: &[Cell],
    options: &FigureOptions,
) -> Option<FigureRecord> {
    let cell = |workload: &str, design: &str| {
        let wanted = |point: &&Point| point.workload == workload && point.design.text == design;
        let wanted = plan.points.iter().find(wanted)?;
        cells.iter().find(|cell| is_same(&cell.point, wanted))
    };
    let mut workloads = Map::new();
    let mut sum = 0.0;
    for workload in plan.workloads() {
        let ours = cell(workload, &series.design)?;
        let measured = match &figure.baseline {
            Some(baseline) => ours.throughput / cell(workload, baseline)?.throughput,
            None => ours.conflicting_epochs().unwrap_or(0.0),
        };
        workloads.insert(workload.to_owned(), json!(measured));
        sum += measured;
    }
    let measured = sum / workloads.len() as f64;
    Some(FigureRecord {
        figure: figure.name.clone(),
        series: series.name.clone(),
        point: "mean",
        paper: series.paper,
        measured,
        tolerance: figure.tolerance,
        holds: (measured - series.paper).abs() <= figure.tolerance,
        workloads,
        design: series.design.clone(),
        machine: figure.machine.clone(),
        seed: options.seed,
        operations: plan.points[0].operations,
        quick: options.is_quick,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_that_comes_with_seawall_can_be_planned() {
        for (name, text) in FIGURES {
            let figure = Figure::parse(name, text).unwrap();
            figure.plan(&FigureOptions::default()).unwrap();
        }
    }

    #[test]
    fn figures_share_the_points_that_they_have_in_common() {
        let figures: Vec<Figure> =
            ["s2-fig11", "s2-fig12"].iter().map(|name| Figure::load(name).unwrap()).collect();
        let plans: Vec<Plan> =
            figures.iter().map(|figure| figure.plan(&FigureOptions::default()).unwrap()).collect();
        let shared = share(&plans);
        assert_eq!(shared.len(), 1);
        assert_eq!(shared[0].points.len(), 5 * 4, "LB, IDT, PF and LB++ with five workloads");
    }

    #[test]
    fn what_is_wrong_with_a_figure_is_said() {
        assert!(Figure::load("s2-fig1").unwrap_err().to_string().contains("s2-fig11, s2-fig12"));
        let broken = |from: &str, to: &str| {
            let text = FIGURES[0].1.replace(from, to);
            assert_ne!(text, FIGURES[0].1, "the test changes something");
            Figure::parse("test", &text).unwrap_err().to_string()
        };
        assert!(broken("tolerance", "tolerances").contains("tolerances"));
        assert!(broken("baseline = \"lb\"", "").contains("baseline"));
    }
}
