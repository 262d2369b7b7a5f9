//! Runs the points of a plan on all cores of the host and sets them in relation.
//!
//! Cells are independent and come back in the order of the plan, so neither the number of host
//! threads nor their order reaches a result.

use crate::LabError;
use crate::cell::{Cell, Point, run_recorded};
use crate::commands::compare::plan::{CompareOptions, Plan};
use crate::engine::jobs::Runner;
use crate::engine::parts::Shown;
use crate::engine::timeline::{Recorded, Traced, draw};
use seawall_report::{
    Experiment, Files, Finished, Form, HtmlPage, Progress, Report, ReportError, ResultFile,
    json_lines, one_plot,
};
use seawall_sim::{Machine, RunTimeline};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

mod page;
pub(crate) mod plan;
mod plot;
pub(crate) mod record;
mod table;

/// The cells of a plan.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// What was asked for.
    pub plan: Plan,
    /// What was run, in the order of the plan.
    pub cells: Vec<Cell>,
    /// What is told of cells that do not come to their end.
    pub stuck: Vec<String>,
    /// True if not every cell was done.
    pub is_partial: bool,
}

impl Comparison {
    /// Runs `plan`; stops soon after `stop` becomes true, with the cells that are done by then.
    ///
    /// # Errors
    /// The first cell, in the order of the plan, that could not be run. One that does not come to
    /// its end is among the results, unless there are no others.
    pub fn run(
        plan: Plan,
        progress: &Progress,
        stop: &Arc<AtomicBool>,
    ) -> Result<Comparison, LabError> {
        let runner = Runner::new(plan.jobs, progress, stop);
        let points: Vec<(usize, &Point)> = plan.points.iter().enumerate().collect();
        let none = Comparison {
            plan: plan.clone(),
            cells: Vec::new(),
            stuck: Vec::new(),
            is_partial: false,
        };
        let shown = Shown::new(none, progress);
        let cells_done = runner.all(&points, |(at, point)| {
            let window = Traced::at(plan.traced, *at);
            let recording = Recorded { window, detail: plan.detail };
            let mut cell = match run_recorded(&plan.machine, point, recording, stop) {
                Err(LabError::Sim(error)) if error.is_stuck() => {
                    let repeat = format!("\n  repeat: {}", point.command(&plan.machine_name));
                    let (cell, error) = (point.cell_name(), Box::new(error));
                    return Ok(Err(LabError::Stuck { cell, error, repeat }));
                }
                other => other?,
            };
            let timeline = cell.timeline.take();
            shown.add(&cell);
            Ok(Ok(Cell { timeline, ..cell }))
        })?;
        let (mut cells, mut stuck) = (Vec::new(), Vec::new());
        for cell in cells_done.into_iter().flatten() {
            match cell {
                Ok(cell) => cells.push(cell),
                Err(error) => stuck.push(error),
            }
        }
        if cells.is_empty() && !stuck.is_empty() {
            return Err(stuck.swap_remove(0));
        }
        let stuck = stuck.iter().map(LabError::to_string).collect();
        let is_partial = cells.len() < plan.points.len();
        Ok(Comparison { plan, cells, stuck, is_partial })
    }

    /// The cell of a workload under a design, named as the plan names it, if it was run.
    pub fn cell(&self, workload: &str, design: &str) -> Option<&Cell> {
        let mut cells = self.cells.iter();
        cells.find(|cell| cell.point.workload == workload && cell.point.label() == design)
    }

    /// Throughput of `cell` over that of the baseline with the same workload, if that was run.
    pub fn relative(&self, cell: &Cell) -> Option<f64> {
        let baseline = self.cell(&cell.point.workload, &self.plan.baseline)?;
        Some(cell.throughput / baseline.throughput)
    }

    /// The geometric mean of a design's relative throughputs, if it was run with every workload.
    pub fn mean_relative(&self, design: &str) -> Option<f64> {
        let workloads = self.plan.workloads();
        let relative = |workload: &&str| self.relative(self.cell(workload, design)?);
        let all: Option<Vec<f64>> = workloads.iter().map(relative).collect();
        let all = all.filter(|all| !all.is_empty())?;
        Some((all.iter().map(|ratio| ratio.ln()).sum::<f64>() / all.len() as f64).exp())
    }

    /// The cell whose timeline was recorded.
    pub(crate) fn traced(&self) -> Option<(&Cell, &RunTimeline)> {
        self.cells.iter().find_map(|cell| Some((cell, cell.timeline.as_ref()?)))
    }

    /// Crashes that broke a structure, and structures that were wrong at the end of a run.
    pub fn broken(&self) -> usize {
        self.cells.iter().map(|cell| cell.broken.len()).sum()
    }
}

impl Experiment for CompareOptions {
    type Plan = Plan;
    type Report = Comparison;
    type Error = LabError;

    fn plan(&self) -> Result<Plan, LabError> {
        self.program.check_alone()?;
        Plan::new(self)
    }

    fn files(&self, _: &Plan) -> Files {
        let files = Files::new()
            .reads("--machine", Machine::base(&self.machine))
            .results(Form::Json, &self.json)
            .results(Form::Plot, &self.plot)
            .results(Form::Html, &self.html)
            .results(Form::Trace, &self.trace.trace);
        self.sheet.beside(files)
    }

    fn run(
        plan: Plan,
        progress: &Progress,
        stop: &Arc<AtomicBool>,
    ) -> Result<Comparison, LabError> {
        Comparison::run(plan, progress, stop)
    }
}

impl Report for Comparison {
    fn text(&self) -> String {
        self.to_text()
    }

    fn found(&self) -> bool {
        self.broken() > 0
    }

    fn finished(&self) -> Finished {
        Finished::of(self.is_partial, self.cells.is_empty())
    }

    fn json(&self) -> String {
        json_lines(self.records())
    }

    fn page(&self) -> HtmlPage {
        self.to_page()
    }

    fn plots(&self) -> Result<Vec<ResultFile>, ReportError> {
        one_plot(self.to_svg())
    }

    fn trace(&self) -> Vec<u8> {
        let drawn = |(cell, timeline): (&Cell, &RunTimeline)| {
            let title = format!("{} on {}", cell.point.cell_name(), self.plan.machine_name);
            draw(&title, timeline)
        };
        self.traced().map(drawn).unwrap_or_default()
    }
}
