//! `seawall compare --program` and `seawall kernels --program`: programs of others, compiled with
//! `seawall cc`, under designs.
//!
//! A program is first run natively: what it returns there it must return everywhere. Then each
//! design runs it in a process of its own, and once more with crashes, each of which is held to the
//! user's check, or to the recording of the run where nothing is annotated (MICRO'15, section 7.2).

use crate::LabError;
use crate::commands::kernels::geometric_mean;
use crate::engine::jobs::Runner;
use crate::engine::spent::Spent;
use crate::engine::timeline::draw;
use plan::ProgramPoint;
use seawall_program::{Limit, Ran};
use seawall_report::{
    Experiment, Files, Finished, HtmlPage, Progress, Report, ReportError, ResultFile, json_lines,
    one_plot,
};
use seawall_sim::{Counters, RunTimeline};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

mod cell;
mod command;
mod doubts;
mod native;
mod options;
mod output;
mod page;
mod plan;
mod plot;
mod profile;
mod record;
pub(super) mod sites;
mod table;

pub(super) use command::{POOL, ProgramCommand, check_entry};
pub(super) use native::prepare;
pub(super) use options::{CHECK_ENTRY, needs_program};
pub use options::{FenceChoice, FromChoice, PmChoice, ProgramOptions};
pub use plan::ProgramExperiment;
pub(crate) use plan::ProgramPlan;
pub(crate) use plan::run_key;
pub use profile::{ProfileCalls, ProfileRecord};
pub use record::ProgramRecord;

/// What is known of a program beside its runs under designs.
#[derive(Clone, Debug)]
struct ProgramFacts {
    /// What it printed natively, if that is to be shown.
    printed: Option<String>,
    /// Parts of it that were not compiled with `seawall cc`.
    opaque: Vec<String>,
}

/// What became of a program under a design.
#[derive(Clone, Debug)]
pub(crate) struct ProgramCell {
    point: ProgramPoint,
    /// The run that is measured.
    pub(crate) ran: Ran,
    /// The run that was crashed, if its crashes are judged.
    pub(crate) crashed: Option<Ran>,
    /// What it returned, where that is not what it returns when all is well.
    pub(crate) wrong: Option<String>,
    /// Where what it printed differs from what it prints natively.
    differs: Option<output::Difference>,
    /// What it printed, if that is to be shown.
    printed: Option<String>,
    /// Stores to persistent memory that were not seen, with the places that found them.
    unseen: Vec<String>,
    /// Flushes of what another thread had stored and the flushing one had not read, where the
    /// design has no flushes.
    unread: Option<String>,
    /// Where its cycles went, if that was asked for.
    profile: Option<profile::Profile>,
}

/// The cells of a plan.
#[derive(Clone, Debug)]
pub struct Programs {
    plan: ProgramPlan,
    cells: Vec<ProgramCell>,
    /// Of each program.
    facts: Vec<ProgramFacts>,
    is_partial: bool,
}

impl ProgramCell {
    pub(crate) fn spent(&self) -> Spent {
        let core_cycles = self.ran.cycles * self.ran.cores as u64;
        Spent { core_cycles, stalls: self.ran.stalls }
    }

    fn over(&self, other: &ProgramCell) -> f64 {
        self.ran.cycles as f64 / other.ran.cycles as f64
    }

    fn conflicting_epochs(&self) -> Option<f64> {
        let Counters { epochs, epochs_conflicting, .. } = self.ran.counters;
        (epochs > 0).then(|| 100.0 * epochs_conflicting as f64 / epochs as f64)
    }

    fn broken(&self) -> usize {
        let crashed = self.crashed.as_ref().map_or(0, |ran| ran.broken.len());
        crashed + usize::from(self.wrong.is_some())
    }
}

impl Programs {
    /// The cell of the program with that number under a design.
    fn cell(&self, program: usize, label: &str) -> Option<&ProgramCell> {
        let is_it =
            |point: &ProgramPoint| point.program.number == program && point.label() == label;
        self.cells.iter().find(|cell| is_it(&cell.point))
    }

    /// The time of a cell over that of the baseline.
    fn relative(&self, cell: &ProgramCell) -> Option<f64> {
        let baseline = self.cell(cell.point.program.number, &self.plan.baseline)?;
        Some(cell.over(baseline))
    }

    /// The time of a cell over that of the first of several programs under the same design.
    fn over_first(&self, cell: &ProgramCell) -> Option<f64> {
        let first = self.cell(0, &cell.point.label()).filter(|_| self.plan.is_of_several());
        Some(cell.over(first?))
    }

    /// The geometric mean over the programs of a design's times, if all are there.
    fn mean_relative(&self, label: &str) -> Option<f64> {
        let programs = 0..self.plan.programs.len();
        geometric_mean(programs.map(|program| self.relative(self.cell(program, label)?)))
    }

    fn of_program(&self, program: usize) -> impl Iterator<Item = &ProgramCell> {
        self.cells.iter().filter(move |cell| cell.point.program.number == program)
    }

    /// Each [run](run_key) with its cycles, and its conflicts between threads and within one.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (String, u64, [u64; 2])> {
        self.cells.iter().map(|ProgramCell { point, ran, .. }| {
            let Counters { conflicts_inter, conflicts_intra, .. } = ran.counters;
            (point.key(), ran.cycles, [conflicts_inter, conflicts_intra])
        })
    }

    /// True if it was stopped before all cells were done.
    pub(crate) fn is_partial(&self) -> bool {
        self.is_partial
    }

    fn broken(&self) -> usize {
        self.cells.iter().map(ProgramCell::broken).sum()
    }

    /// The name of the cell whose timeline was recorded, and the timeline.
    fn traced(&self) -> Option<(String, &RunTimeline)> {
        self.cells.iter().find_map(|cell| {
            let timeline = cell.ran.timeline.as_ref()?;
            let ProgramPoint { program, .. } = &cell.point;
            Some((format!("{} under {}", program.name, cell.point.label()), timeline))
        })
    }
}

impl ProgramPlan {
    /// Runs its first point, and again with `crashes` where they can be judged.
    pub(crate) fn run_first(
        &self,
        crashes: u64,
        stop: &Arc<AtomicBool>,
    ) -> Result<ProgramCell, LabError> {
        let plan = ProgramPlan { crashes, ..self.clone() };
        let limit = &Limit::new(stop);
        let bench = cell::Bench::new(&plan, &plan.programs[0], limit)?;
        bench.run(&plan, plan.point(), limit)
    }
}

impl Experiment for ProgramExperiment {
    type Plan = ProgramPlan;
    type Report = Programs;
    type Error = LabError;

    fn plan(&self) -> Result<ProgramPlan, LabError> {
        self.to_plan()
    }

    fn files(&self, _: &ProgramPlan) -> Files {
        self.all_files()
    }

    fn run(
        plan: ProgramPlan,
        progress: &Progress,
        stop: &Arc<AtomicBool>,
    ) -> Result<Programs, LabError> {
        let limit = &Limit::new(stop);
        let programs = plan.programs.iter();
        let benches = programs.map(|program| cell::Bench::new(&plan, program, limit));
        let benches: Vec<cell::Bench> = benches.collect::<Result<_, _>>()?;
        let run = |point: &ProgramPoint| benches[point.program.number].run(&plan, point, limit);
        let cells = Runner::new(plan.jobs, progress, stop).all(&plan.points, run)?;
        let is_partial = cells.iter().any(Option::is_none);
        let facts = benches.into_iter().map(|bench| bench.into_facts(&plan));
        let facts = facts.collect::<Result<_, _>>()?;
        Ok(Programs { plan, cells: cells.into_iter().flatten().collect(), facts, is_partial })
    }
}

impl Report for Programs {
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

    fn trace(&self) -> Vec<u8> {
        let drawn = |(cell, timeline): (String, &RunTimeline)| {
            draw(&format!("{cell} on {}", self.plan.machine_name), timeline)
        };
        self.traced().map(drawn).unwrap_or_default()
    }

    fn folded(&self) -> String {
        Programs::folded(self)
    }

    fn page(&self) -> HtmlPage {
        self.to_page()
    }

    fn plots(&self) -> Result<Vec<ResultFile>, ReportError> {
        one_plot(self.to_svg())
    }
}
