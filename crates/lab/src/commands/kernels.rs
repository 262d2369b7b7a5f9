//! `seawall kernels`: parallel programs without a persistency call, under designs that need none.
//!
//! What `compare` is for structures, this is for kernels: each runs to its end under each design
//! (MICRO'15, section 7.2), its result is held to a plain computation, and what crashes leave is
//! held to the recording of the run. Time is shown over that of a design without persistency.

use crate::commands::kernels::cuts::{Cuts, crash_after};
use crate::commands::kernels::point::{Extent, KernelPoint, KernelRun, fit, run_recorded};
use crate::commands::program::ProgramOptions;
use crate::engine::jobs::{Piece, Runner};
use crate::engine::options::{
    CRASHES_MAX, SheetOptions, check_jobs, default_options, in_range, listed_name, named_machine,
    once, threads_of,
};
use crate::engine::parts::Shown;
use crate::engine::spent::Spent;
use crate::engine::timeline::{Recorded, TraceOptions, Traced, draw, summary};
use crate::{CRASHES, LabError, MACHINE};
use clap::Args;
use seawall_report::{
    Experiment, Files, Finished, Form, HtmlPage, Progress, Report, ReportError, ResultFile,
    json_lines, one_plot,
};
use seawall_sim::{Choice, Machine, RunTimeline};
use seawall_workloads::{
    CHECKPOINTED, KERNELS, Kernel, KernelEntry, KernelVisitor, UnknownKernel, with_kernel,
};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub(crate) mod cuts;
mod page;
mod plot;
pub(crate) mod point;
mod record;
mod table;

pub use record::KernelRecord;
pub(crate) use record::{counters_of, log_share, parameters_of};

/// The default baseline of kernels: no persistency.
pub const KERNEL_BASELINE: &str = "volatile";

/// The default designs.
pub(crate) const DESIGNS: [&str; 4] = ["bsp-lb", "bsp-lb-idt", "bsp-lb-pf", "bsp-lbpp"];

/// How much a kernel has to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelSize {
    /// As little as its tests.
    Small,
    /// What is done in a second or two of the host.
    #[default]
    Quick,
    /// Enough for a shared cache of tens of megabytes on 32 cores.
    Full,
    /// So many of the kernel's own units.
    Of(u64),
}

impl KernelSize {
    pub(crate) fn of(self, entry: &KernelEntry) -> u64 {
        match self {
            KernelSize::Small => entry.small,
            KernelSize::Quick => entry.quick,
            KernelSize::Full => entry.size,
            KernelSize::Of(size) => size,
        }
    }
}

impl FromStr for KernelSize {
    type Err = LabError;

    fn from_str(text: &str) -> Result<KernelSize, LabError> {
        Ok(match text {
            "small" => KernelSize::Small,
            "quick" => KernelSize::Quick,
            "full" => KernelSize::Full,
            number => KernelSize::Of(number.parse().map_err(|_| LabError::Option {
                option: "size",
                value: text.into(),
                valid: "small, quick, full or a number".into(),
            })?),
        })
    }
}

/// What to run, as a user says it.
#[derive(Clone, Debug, Args)]
pub struct KernelOptions {
    /// Kernels, each NAME or NAME:SIZE [default: all ten]
    #[arg(value_delimiter = ',', value_parser = listed_name, value_name = "NAMES")]
    pub kernels: Vec<String>,
    /// Designs, separated by commas, each NAME or NAME:KEY=VALUE:.. [default: the four of bulk
    /// mode]
    #[arg(long, short, value_delimiter = ',', value_parser = listed_name, value_name = "DESIGNS")]
    pub designs: Vec<String>,
    /// Machine, or the path of a .toml file, each with :KEY=VALUE for other numbers
    #[arg(long, short, default_value = MACHINE, value_name = "NAME")]
    pub machine: String,
    /// Begin with empty caches
    #[arg(long)]
    pub cold: bool,
    /// Threads [default: one per core of the machine]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// small, quick, full, or a number of each kernel's own units (`seawall list kernels`)
    #[arg(long, default_value = "quick", value_name = "SIZE")]
    pub size: KernelSize,
    /// What of the programs runs: bare (heap accesses), parallel (with the instructions and the
    /// stack of the program whose pattern it is), whole (also what one thread does first)
    #[arg(long, default_value = "parallel", value_name = "PART")]
    pub extent: Extent,
    /// Seed of the inputs and of the crash points
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Crashes of each kernel under each design that promises it something
    #[arg(long, default_value_t = CRASHES, value_name = "N")]
    pub crashes: u64,
    /// Design that time is relative to, which is run too
    #[arg(long, default_value = KERNEL_BASELINE, value_name = "DESIGN")]
    pub baseline: String,
    /// Host threads [default: one per core]
    #[arg(long, short, value_name = "N")]
    pub jobs: Option<usize>,
    /// Print what each kernel does under the baseline, too: memory, references, misses
    #[arg(long)]
    pub traffic: bool,
    /// Write a JSON record per kernel and design to this file [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// The table as files.
    #[command(flatten)]
    pub sheet: SheetOptions,
    /// Draw times and where they went to this SVG file [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Write a page for a browser to this file: charts, a table, and what is behind each row [if
    /// stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Add latencies, the fill of queues, and what each core did to the JSON records
    #[arg(long)]
    pub detail: bool,
    /// A timeline of the cell.
    #[command(flatten)]
    pub trace: TraceOptions,
    /// A program of others instead of kernels.
    #[command(flatten)]
    pub program: ProgramOptions,
}

default_options!(KernelOptions);

impl KernelOptions {
    /// The machine with `--cold`.
    pub(crate) fn machine_name(&self) -> String {
        named_machine(&self.machine, self.cold)
    }
}

/// Points that can be run, and what to compare them with.
#[derive(Clone, Debug)]
pub struct KernelPlan {
    machine_name: String,
    machine: Machine,
    baseline: String,
    /// Kernel by kernel, each under every design, the baseline first.
    points: Vec<KernelPoint>,
    designs: usize,
    crashes: u64,
    has_traffic: bool,
    jobs: Option<usize>,
    /// The point whose timeline is recorded.
    traced: Option<Traced>,
    /// Whether latencies, queues and cores are recorded.
    detail: bool,
}

/// What became of a kernel under a design.
#[derive(Clone, Debug)]
pub struct KernelCell {
    pub point: KernelPoint,
    pub run: KernelRun,
    /// What crashes left; none under a design that promises nothing to such programs, or that
    /// does not say where they go on.
    pub cuts: Option<Cuts>,
}

/// The cells of a plan.
#[derive(Clone, Debug)]
pub struct Kernels {
    plan: KernelPlan,
    /// What was run, in the order of the plan.
    pub cells: Vec<KernelCell>,
    /// True if the run was stopped before every cell was done.
    pub is_partial: bool,
}

impl KernelPoint {
    /// The kernel under the design, in words.
    fn cell_name(&self) -> String {
        format!("{} under {}", self.kernel, self.design.text)
    }
}

impl Piece for KernelPoint {
    fn program(&self) -> &str {
        &self.kernel
    }

    fn design(&self) -> String {
        self.design.text.clone()
    }
}

/// The entry of the kernel called `name`.
pub(crate) fn entry(name: &str) -> Result<&'static KernelEntry, LabError> {
    let found = KERNELS.iter().chain(CHECKPOINTED).find(|entry| entry.name == name);
    found.ok_or_else(|| UnknownKernel { name: name.into() }.into())
}

/// Refuses numbers that the kernel of `point` cannot run with.
pub(crate) fn check_point(point: &KernelPoint) -> Result<(), LabError> {
    with_kernel(&point.kernel, Fit { point })?
}

struct Fit<'a> {
    point: &'a KernelPoint,
}

impl KernelVisitor for Fit<'_> {
    type Output = Result<(), LabError>;

    fn visit<K: Kernel>(self) -> Self::Output {
        fit::<K>(self.point).map(drop)
    }
}

impl KernelPlan {
    fn kernels(&self) -> impl Iterator<Item = &str> {
        self.points.iter().step_by(self.designs).map(|point| &*point.kernel)
    }

    fn designs(&self) -> impl Iterator<Item = &Choice> {
        self.points.iter().take(self.designs).map(|point| &point.design)
    }

    fn run(
        &self,
        (at, point): (usize, &KernelPoint),
        stop: &Arc<AtomicBool>,
    ) -> Result<KernelCell, LabError> {
        let recording = Recorded { window: Traced::at(self.traced, at), detail: self.detail };
        let run = run_recorded(&self.machine, point, recording, stop)?;
        let cuts = crash(&self.machine, point, &run, self.crashes, stop)?;
        Ok(KernelCell { point: point.clone(), run, cuts })
    }
}

/// Kernels with their sizes, of texts such as `ssca2` and `lu:64`; none: all of them.
pub(crate) fn sizes(
    texts: &[String],
    size: KernelSize,
) -> Result<Vec<(&'static KernelEntry, u64)>, LabError> {
    if texts.is_empty() {
        return Ok(KERNELS.iter().map(|entry| (entry, size.of(entry))).collect());
    }
    let mut names = Vec::new();
    let mut sizes = Vec::new();
    for text in texts {
        let (name, size) = match text.split_once(':') {
            Some((name, size)) => (name, size.parse()?),
            None => (&**text, size),
        };
        let entry = entry(name)?;
        names.push(name.to_owned());
        sizes.push((entry, size.of(entry)));
    }
    once("kernel", &names)?;
    Ok(sizes)
}

/// Crashes `point`, which ran as `run`, if its design can be judged; a larger input than that of a
/// quick look is crashed at that size, as every crash keeps and replays the whole run.
pub(crate) fn crash(
    machine: &Machine,
    point: &KernelPoint,
    run: &KernelRun,
    crashes: u64,
    stop: &Arc<AtomicBool>,
) -> Result<Option<Cuts>, LabError> {
    if crashes == 0 || !point.design.promises_cuts() {
        return Ok(None);
    }
    let quick = entry(&point.kernel)?.quick;
    if run.input.size <= quick {
        return crash_after(machine, point, run.counters.written(), crashes, stop).map(Some);
    }
    let point = KernelPoint { size: Some(quick), ..point.clone() };
    crate::crash_kernel(machine, &point, crashes, stop).map(Some)
}

impl KernelCell {
    pub(crate) fn spent(&self) -> Spent {
        let core_cycles = self.run.cycles * self.point.threads as u64;
        Spent { core_cycles, stalls: self.run.stalls }
    }

    /// Crashes that broke it, and a result that is wrong.
    pub fn broken(&self) -> usize {
        let cuts = self.cuts.as_ref().map_or(0, |cuts| cuts.broken.len());
        cuts + usize::from(self.run.result.is_err())
    }
}

impl Kernels {
    /// The cell of a kernel under a design, if it was run.
    pub fn cell(&self, kernel: &str, design: &str) -> Option<&KernelCell> {
        let is_it =
            |cell: &&KernelCell| cell.point.kernel == kernel && cell.point.design.text == design;
        self.cells.iter().find(is_it)
    }

    /// The time of `cell` over that of the baseline with the same kernel, if that was run.
    pub fn relative(&self, cell: &KernelCell) -> Option<f64> {
        let baseline = self.cell(&cell.point.kernel, &self.plan.baseline)?;
        Some(cell.run.cycles as f64 / baseline.run.cycles as f64)
    }

    /// The geometric mean of a design's relative times, if it was run with every kernel.
    pub fn mean_relative(&self, design: &str) -> Option<f64> {
        let relative = |kernel: &str| self.relative(self.cell(kernel, design)?);
        geometric_mean(self.plan.kernels().map(relative))
    }

    /// The cell whose timeline was recorded.
    fn traced(&self) -> Option<(&KernelCell, &RunTimeline)> {
        self.cells.iter().find_map(|cell| Some((cell, cell.run.timeline.as_ref()?)))
    }

    /// Crashes that broke a kernel, and results that are wrong.
    pub fn broken(&self) -> usize {
        self.cells.iter().map(KernelCell::broken).sum()
    }
}

/// The geometric mean, if all are there.
pub(crate) fn geometric_mean(ratios: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let all: Vec<f64> = ratios.collect::<Option<_>>()?;
    let sum: f64 = all.iter().map(|ratio| ratio.ln()).sum();
    (!all.is_empty()).then(|| (sum / all.len() as f64).exp())
}

impl Experiment for KernelOptions {
    type Plan = KernelPlan;
    type Report = Kernels;
    type Error = LabError;

    fn plan(&self) -> Result<KernelPlan, LabError> {
        self.program.check_alone()?;
        let machine_name = self.machine_name();
        let machine = Machine::load(&machine_name)?;
        let threads = threads_of("--threads", self.threads, &machine)?;
        in_range("--crashes", self.crashes, 0, CRASHES_MAX)?;
        check_jobs(self.jobs)?;
        once("design", &self.designs)?;
        let baseline = self.baseline.clone();
        let mut designs = vec![Choice::parse(&baseline)?];
        let asked: Vec<&str> = match self.designs.as_slice() {
            [] => DESIGNS.to_vec(),
            named => named.iter().map(String::as_str).collect(),
        };
        for design in asked.into_iter().filter(|design| *design != baseline) {
            designs.push(Choice::parse(design)?);
        }
        let mut points = Vec::new();
        for (kernel, size) in sizes(&self.kernels, self.size)? {
            for design in &designs {
                points.push(KernelPoint {
                    kernel: kernel.name.into(),
                    design: design.clone(),
                    threads,
                    size: Some(size),
                    seed: self.seed,
                    extent: self.extent,
                });
            }
        }
        points.iter().step_by(designs.len()).try_for_each(check_point)?;
        // The baseline runs too, whether it is named or not.
        let is_named = |point: &KernelPoint| {
            point.design.text != baseline || self.designs.contains(&baseline) || designs.len() == 1
        };
        let named = points.iter().enumerate().filter(|(_, point)| is_named(point));
        let named: Vec<_> = named.map(|(at, point)| (at, point.cell_name())).collect();
        let traced = Traced::of(&self.trace, &named, None)?;
        Ok(KernelPlan {
            machine_name,
            machine,
            baseline,
            points,
            designs: designs.len(),
            crashes: self.crashes,
            has_traffic: self.traffic,
            jobs: self.jobs,
            traced,
            detail: self.detail,
        })
    }

    fn files(&self, _: &KernelPlan) -> Files {
        let files = Files::new()
            .reads("--machine", Machine::base(&self.machine))
            .results(Form::Json, &self.json)
            .results(Form::Plot, &self.plot)
            .results(Form::Html, &self.html)
            .results(Form::Trace, &self.trace.trace);
        self.sheet.beside(files)
    }

    fn run(
        plan: KernelPlan,
        progress: &Progress,
        stop: &Arc<AtomicBool>,
    ) -> Result<Kernels, LabError> {
        let points: Vec<(usize, &KernelPoint)> = plan.points.iter().enumerate().collect();
        let none = Kernels { plan: plan.clone(), cells: Vec::new(), is_partial: false };
        let shown = Shown::new(none, progress);
        let cells = Runner::new(plan.jobs, progress, stop).all(&points, |point| {
            let mut cell = plan.run(*point, stop)?;
            let timeline = cell.run.timeline.take();
            shown.add(&cell);
            cell.run.timeline = timeline;
            Ok(cell)
        })?;
        let is_partial = cells.iter().any(Option::is_none);
        Ok(Kernels { plan, cells: cells.into_iter().flatten().collect(), is_partial })
    }
}

impl Report for Kernels {
    fn text(&self) -> String {
        let traffic = self.plan.has_traffic.then(|| self.traffic_text());
        let traced =
            self.traced().map(|(cell, timeline)| summary(&cell.point.cell_name(), timeline));
        self.to_text() + &traffic.unwrap_or_default() + &traced.unwrap_or_default()
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
        let drawn = |(cell, timeline): (&KernelCell, &RunTimeline)| {
            let title = format!("{} on {}", cell.point.cell_name(), self.plan.machine_name);
            draw(&title, timeline)
        };
        self.traced().map(drawn).unwrap_or_default()
    }
}
