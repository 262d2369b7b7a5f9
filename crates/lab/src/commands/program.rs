//! `seawall compare --program` and `seawall kernels --program`: programs of others, compiled with
//! `seawall cc`, under designs.
//!
//! A program is first run natively: what it returns there it must return everywhere. Then each
//! design runs it in a process of its own, and once more with crashes, each of which is held to the
//! user's check, or to the recording of the run where nothing is annotated (MICRO'15, section 7.2).

use crate::LabError;
use crate::cell::{CellRibbon, RIBBON_LABEL, ribbon_flags};
use crate::commands::compare::plan::CompareOptions;
use crate::commands::compare::plan::designs;
use crate::commands::kernels::{KERNEL_BASELINE, KernelOptions};
use crate::engine::jobs::{Piece, Runner};
use crate::engine::options::{CRASHES_MAX, check_jobs, in_range};
use crate::engine::spent::Spent;
use crate::engine::timeline::{TraceOptions, Traced, draw};
use clap::{Args, ValueEnum};
use seawall_memory::Addr;
use seawall_program::{Fences, From, Limit, Persistent, Ran};
use seawall_report::{
    Experiment, Files, Finished, Form, HtmlPage, Progress, Report, ReportError, ResultFile,
    json_lines, one_plot,
};
use seawall_ribbon::{Ribbon, RibbonError};
use seawall_sim::{Choice, Counters, Machine, RunTimeline, TimelineWindow};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

mod alone;
mod cell;
mod command;
mod doubts;
mod native;
mod output;
mod page;
mod plot;
mod profile;
mod record;
pub(super) mod sites;
mod table;

pub(super) use alone::needs_program;
pub(super) use command::{POOL, ProgramCommand, check_entry};
pub(super) use native::prepare;
pub use profile::ProfileRecord;
pub use record::ProgramRecord;

/// Seconds that a run of a program may take by default.
const SECONDS: u64 = 3600;
/// The function that seawall.h declares as the check.
pub(super) const CHECK_ENTRY: &str = "seawall_check";
/// The baseline of programs that were compared by their structures' speed.
const COMPARE_BASELINE: &str = "lb";

/// Which memory of a program survives a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PmChoice {
    /// Files that it maps shared, and what it declares
    Files,
    /// Its heap too
    Heap,
    /// All of its memory
    All,
}

/// What the program's store fences ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FenceChoice {
    /// That earlier stores persist first
    Order,
    /// That earlier stores are durable
    Drain,
}

impl FenceChoice {
    /// What the program is run with.
    pub(super) fn fences(chosen: Option<FenceChoice>) -> Fences {
        match chosen {
            Some(FenceChoice::Drain) => Fences::Drain,
            Some(FenceChoice::Order) | None => Fences::Order,
        }
    }
}

/// When measuring begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FromChoice {
    /// With main, or where the program says so
    Start,
    /// With its first thread, or where the program says so
    Threads,
}

/// A program that was compiled with `seawall cc`.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Programs of others")]
pub struct ProgramOptions {
    /// Run this command, of a program that `seawall cc` compiled; {pool} stands for a file of its
    /// own for each run
    #[arg(long = "program", value_name = "COMMAND")]
    pub command: Option<String>,
    /// Hold what each crash leaves to this command, which ends with 0 if {pool} is sound
    #[arg(long, value_name = "COMMAND", requires = "command")]
    pub check: Option<String>,
    /// Hold it to this function of the program instead, int NAME(const char *pool)
    #[arg(long, value_name = "NAME", requires = "command", conflicts_with = "check",
          num_args = 0..=1, default_missing_value = CHECK_ENTRY)]
    pub check_entry: Option<String>,
    /// What of its memory is persistent [default: files; with `kernels`: all]
    #[arg(long, value_name = "WHAT", requires = "command")]
    pub pm: Option<PmChoice>,
    /// What its sfence asks for, on designs with two kinds of fence [default: order]
    #[arg(long, value_name = "KIND", requires = "command")]
    pub fence: Option<FenceChoice>,
    /// When measuring begins [default: start; with `kernels`: threads]
    #[arg(long, value_name = "WHEN", requires = "command")]
    pub from: Option<FromChoice>,
    /// What it reads from standard input [default: nothing]
    #[arg(long, value_name = "FILE", requires = "command")]
    pub input: Option<PathBuf>,
    /// What it returns when all is well [default: 0]
    #[arg(long, value_name = "N", requires = "command")]
    pub expect_exit: Option<u8>,
    /// Do not run it natively first
    #[arg(long, requires = "command")]
    pub no_native: bool,
    /// Show what it prints, natively and under each design
    #[arg(long, requires = "command")]
    pub show_output: bool,
    /// Show which lines of it the time goes to under each design, and why
    #[arg(long, requires = "command")]
    pub profile: bool,
    /// Write that to this file, for viewers of flame graphs: `design;function;line;reason cycles`
    #[arg(long, value_name = "FILE", requires = "command")]
    pub profile_folded: Option<PathBuf>,
    /// Stop a run of it after so many seconds [default: 3600]
    #[arg(long = "program-seconds", value_name = "N", requires = "command")]
    pub seconds: Option<u64>,
}

/// How crashes of a program are judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// By a command.
    By(Vec<String>),
    /// By a function of the program.
    ByEntry(String),
    /// By the recording of the run.
    Cuts,
    /// Not at all.
    Not,
}

impl Judged {
    /// The check, as it was given.
    fn check(&self) -> Option<String> {
        match self {
            Judged::By(words) => Some(words.join(" ")),
            Judged::ByEntry(entry) => Some(format!("{entry}()")),
            Judged::Cuts | Judged::Not => None,
        }
    }
}

/// A program and the designs that it is run under.
#[derive(Clone, Debug)]
pub struct ProgramExperiment {
    options: ProgramOptions,
    /// `compare` or `kernels`, for the command that repeats a cell.
    face: &'static str,
    designs: Vec<String>,
    default_designs: &'static [&'static str],
    /// Each design with flushes is run again with this Ribbon.
    ribbon: Option<CellRibbon>,
    /// Designs that are run again with these.
    beside: Vec<(String, CellRibbon)>,
    baseline: Option<String>,
    default_baseline: &'static str,
    machine: String,
    crashes: u64,
    seed: u64,
    jobs: Option<usize>,
    json: Option<PathBuf>,
    plot: Option<PathBuf>,
    html: Option<PathBuf>,
    trace: TraceOptions,
    detail: bool,
    is_unannotated: bool,
}

impl CompareOptions {
    /// The experiment with a program of others, if there is one.
    pub fn of_program(&self) -> Option<ProgramExperiment> {
        self.program.command.as_ref()?;
        Some(ProgramExperiment {
            options: self.program.clone(),
            face: "compare",
            designs: self.designs.clone(),
            default_designs: &[],
            ribbon: self.ribbon.clone(),
            beside: Vec::new(),
            baseline: self.baseline.clone(),
            default_baseline: COMPARE_BASELINE,
            machine: self.machine_name(),
            crashes: self.crashes,
            seed: self.seed,
            jobs: self.jobs,
            json: self.json.clone(),
            plot: self.plot.clone(),
            html: self.html.clone(),
            trace: self.trace.clone(),
            detail: self.detail,
            is_unannotated: false,
        })
    }
}

impl KernelOptions {
    /// The experiment with a program of others, if there is one.
    pub fn of_program(&self) -> Option<ProgramExperiment> {
        self.program.command.as_ref()?;
        Some(ProgramExperiment {
            options: self.program.clone(),
            face: "kernels",
            designs: self.designs.clone(),
            default_designs: &super::kernels::DESIGNS,
            ribbon: None,
            beside: Vec::new(),
            baseline: Some(self.baseline.clone()),
            default_baseline: KERNEL_BASELINE,
            machine: self.machine_name(),
            crashes: self.crashes,
            seed: self.seed,
            jobs: self.jobs,
            json: self.json.clone(),
            plot: self.plot.clone(),
            html: self.html.clone(),
            trace: self.trace.clone(),
            detail: self.detail,
            is_unannotated: true,
        })
    }
}

/// A design to run the program under, and the Ribbon of its threads, if they have one.
#[derive(Clone, Debug)]
pub(crate) struct ProgramPoint {
    program: String,
    design: Choice,
    ribbon: Option<CellRibbon>,
}

impl ProgramPoint {
    /// The design with its parameters, as in `clwb`, or in `clwb+ribbon` where there is one.
    fn label(&self) -> String {
        let ribbon = if self.ribbon.is_some() { RIBBON_LABEL } else { "" };
        format!("{}{ribbon}", self.design.text)
    }

    /// The same with all that the Ribbon is, as in `clwb --ribbon=always --flushers 4`.
    fn key(&self) -> String {
        run_key(&self.design.text, self.ribbon.as_ref())
    }
}

/// A run of a program: its design, and the options that give its Ribbon.
pub(crate) fn run_key(design: &str, ribbon: Option<&CellRibbon>) -> String {
    let flags = ribbon.map(|ribbon| ribbon_flags(&ribbon.options())).unwrap_or_default();
    format!("{design}{flags}")
}

impl Piece for ProgramPoint {
    fn program(&self) -> &str {
        &self.program
    }

    fn design(&self) -> String {
        self.label()
    }
}

/// A program that can be run.
#[derive(Clone, Debug)]
pub struct ProgramPlan {
    face: &'static str,
    command: ProgramCommand,
    judged: Judged,
    persistent: Persistent,
    fences: Fences,
    from: From,
    input: Option<PathBuf>,
    /// What it returns when all is well.
    exit_code: i32,
    no_native: bool,
    show_output: bool,
    has_profile: bool,
    seconds: u64,
    machine_name: String,
    baseline: String,
    /// The Ribbon that some of the points have, if all have the same.
    ribbon: Option<CellRibbon>,
    points: Vec<ProgramPoint>,
    crashes: u64,
    seed: u64,
    jobs: Option<usize>,
    /// The point whose timeline is recorded.
    traced: Option<Traced>,
    /// Whether latencies, queues and cores are recorded.
    detail: bool,
}

impl ProgramPlan {
    /// What is recorded of a point, if something is.
    fn window(&self, point: &ProgramPoint) -> Option<TimelineWindow> {
        let at = self.points.iter().position(|one| one.key() == point.key())?;
        Traced::at(self.traced, at)
    }
}

/// What became of a program under a design.
#[derive(Clone, Debug)]
pub(crate) struct ProgramCell {
    point: ProgramPoint,
    /// The run that is measured.
    ran: Ran,
    /// The run that was crashed, if its crashes are judged.
    crashed: Option<Ran>,
    /// What it returned, where that is not what it returns when all is well.
    wrong: Option<String>,
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
    /// What it printed natively, if that is to be shown.
    printed: Option<String>,
    /// Parts of the program that were not compiled with `seawall cc`.
    opaque: Vec<String>,
    is_partial: bool,
}

impl ProgramCell {
    fn spent(&self) -> Spent {
        let core_cycles = self.ran.cycles * self.ran.cores as u64;
        Spent { core_cycles, stalls: self.ran.stalls }
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
    fn cell(&self, label: &str) -> Option<&ProgramCell> {
        self.cells.iter().find(|cell| cell.point.label() == label)
    }

    fn relative(&self, cell: &ProgramCell) -> Option<f64> {
        let baseline = self.cell(&self.plan.baseline)?;
        Some(cell.ran.cycles as f64 / baseline.ran.cycles as f64)
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
            let program = self.plan.command.name();
            Some((format!("{program} under {}", cell.point.label()), timeline))
        })
    }
}

impl ProgramExperiment {
    /// Runs these designs again with these Ribbons.
    pub(crate) fn with_ribbons(self, beside: Vec<(String, CellRibbon)>) -> ProgramExperiment {
        ProgramExperiment { beside, ..self }
    }

    /// The baseline, and all points.
    fn points(&self, program: &str) -> Result<(String, Vec<ProgramPoint>), LabError> {
        let default: Vec<String> = self.default_designs.iter().map(|name| (*name).into()).collect();
        let named = if self.designs.is_empty() { &default } else { &self.designs };
        let choices = designs(named)?;
        let point =
            |design: Choice, ribbon| ProgramPoint { program: program.into(), design, ribbon };
        if self.ribbon.is_some() && !choices.iter().any(Choice::needs_flushes) {
            let names: Vec<&str> = choices.iter().map(|design| &*design.text).collect();
            return Err(LabError::NothingToFlush { design: names.join(", ") });
        }
        let mut points = Vec::new();
        for design in choices {
            let ribbon = self.ribbon.clone().filter(|_| design.needs_flushes());
            points.push(point(design.clone(), None));
            points.extend(ribbon.map(|ribbon| point(design, Some(ribbon))));
        }
        let has = |name: &str| points.iter().any(|point| point.label() == name);
        let baseline = match &self.baseline {
            Some(name) => name.clone(),
            None if has(self.default_baseline) => self.default_baseline.into(),
            None => points[0].label(),
        };
        if !has(&baseline) {
            points.insert(0, point(Choice::parse(&baseline)?, None));
        }
        for (design, ribbon) in &self.beside {
            points.push(point(Choice::parse(design)?, Some(ribbon.clone())));
        }
        Ok((baseline, points))
    }

    /// The point to record: that of the only design, besides a baseline that was not named; of
    /// designs that run again with a Ribbon, those runs.
    fn traced(&self, points: &[ProgramPoint], baseline: &str) -> Result<Option<Traced>, LabError> {
        let has_ribbon = points.iter().any(|point| point.ribbon.is_some());
        let is_named = |point: &ProgramPoint| {
            let text = &point.design.text;
            let is_named = text != baseline || self.designs.contains(text) || points.len() == 1;
            is_named && (point.ribbon.is_some() || !has_ribbon)
        };
        let named = points.iter().enumerate().filter(|(_, point)| is_named(point));
        let name = |point: &ProgramPoint| format!("{} under {}", point.program, point.label());
        let named: Vec<_> = named.map(|(at, point)| (at, name(point))).collect();
        // How many operations a program reports is not known before it runs.
        Traced::of(&self.trace, &named, Some(u64::MAX))
    }

    /// Refuses Ribbons that cannot be, or whose flushers leave the program no core.
    fn check_ribbons(&self, machine: &Machine) -> Result<(), LabError> {
        let cores = machine.core.count as u64;
        for ribbon in self.ribbon.iter().chain(self.beside.iter().map(|(_, ribbon)| ribbon)) {
            let flushers = ribbon.flushers;
            if flushers >= cores {
                return Err(LabError::Flushers { threads: 1, flushers, cores });
            }
            Ribbon::placed(&ribbon.options(), |_| Ok::<_, RibbonError>(Addr::NULL))?;
        }
        Ok(())
    }
}

impl Experiment for ProgramExperiment {
    type Plan = ProgramPlan;
    type Report = Programs;
    type Error = LabError;

    fn plan(&self) -> Result<ProgramPlan, LabError> {
        let options = &self.options;
        let text = options.command.as_deref().unwrap_or_default();
        let command = ProgramCommand::parse("--program", text)?;
        self.check_ribbons(&Machine::load(&self.machine)?)?;
        in_range("--crashes", self.crashes, 0, CRASHES_MAX)?;
        let seconds = options.seconds.unwrap_or(SECONDS);
        in_range("--program-seconds", seconds, 1, u64::MAX)?;
        check_jobs(self.jobs)?;
        let (baseline, points) = self.points(command.name())?;
        let persistent = match (options.pm, self.is_unannotated) {
            (Some(PmChoice::Files), _) | (None, false) => Persistent::Files,
            (Some(PmChoice::Heap), _) => Persistent::Heap,
            (Some(PmChoice::All), _) | (None, true) => Persistent::All,
        };
        let judged = match (&options.check, &options.check_entry) {
            (Some(check), _) => Judged::By(command::words("--check", check)?),
            (None, Some(entry)) => Judged::ByEntry(entry.clone()),
            (None, None) if self.is_unannotated || persistent == Persistent::All => Judged::Cuts,
            (None, None) => Judged::Not,
        };
        let from = match (options.from, self.is_unannotated) {
            (Some(FromChoice::Start), _) | (None, false) => From::Start,
            (Some(FromChoice::Threads), _) | (None, true) => From::Threads,
        };
        let fences = FenceChoice::fences(options.fence);
        let traced = self.traced(&points, &baseline)?;
        Ok(ProgramPlan {
            face: self.face,
            command,
            judged,
            persistent,
            fences,
            from,
            input: options.input.clone(),
            exit_code: options.expect_exit.unwrap_or(0).into(),
            no_native: options.no_native,
            show_output: options.show_output,
            has_profile: options.profile || options.profile_folded.is_some(),
            seconds,
            machine_name: self.machine.clone(),
            baseline,
            ribbon: self.ribbon.clone(),
            points,
            crashes: self.crashes,
            seed: self.seed,
            jobs: self.jobs,
            traced,
            detail: self.detail,
        })
    }

    fn files(&self, _: &ProgramPlan) -> Files {
        Files::new()
            .reads("--machine", Machine::base(&self.machine))
            .results(Form::Json, &self.json)
            .results(Form::Plot, &self.plot)
            .results(Form::Html, &self.html)
            .results(Form::Folded, &self.options.profile_folded)
            .results(Form::Trace, &self.trace.trace)
    }

    fn run(
        plan: ProgramPlan,
        progress: &Progress,
        stop: &Arc<AtomicBool>,
    ) -> Result<Programs, LabError> {
        let bench = cell::Bench::new(&plan)?;
        let limit = &Limit::new(stop);
        let native = native::run(&plan, &bench, limit)?;
        let run = |point: &ProgramPoint| bench.run(&plan, point, &native, limit);
        let cells = Runner::new(plan.jobs, progress, stop).all(&plan.points, run)?;
        let is_partial = cells.iter().any(Option::is_none);
        let printed = native.printed(&plan)?;
        let (cells, opaque) = (cells.into_iter().flatten().collect(), bench.opaque);
        Ok(Programs { plan, cells, printed, opaque, is_partial })
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
