//! From names and numbers to the points of a comparison: the stage in which everything that a user
//! can get wrong is found, before anything runs.

use crate::LabError;
use crate::cell::{CellRibbon, Point, check_point, check_ribbon};
use crate::commands::program::ProgramOptions;
use crate::engine::options::{
    CRASHES, CRASHES_MAX, MACHINE, RequestOptions, SheetOptions, check_jobs, default_options,
    flaws, in_range, listed, listed_name, named_machine, once, threads_of,
};
use crate::engine::timeline::{TraceOptions, Traced};
use clap::{ArgGroup, Args};
use seawall_ribbon::RibbonOptions;
use seawall_runtime::defrag::{DefragOptions, Protocol};
use seawall_sim::{Choice, DESIGNS, Machine};
use seawall_workloads::{CHECKPOINTED, Cost, Flaw, WORKLOADS};
use std::path::PathBuf;

/// The default number of measured operations of each thread.
pub const OPERATIONS: u64 = 1000;

/// The baseline, if it is among the designs and no other is named.
pub const BASELINE: &str = "lb";

pub(crate) const OPERATIONS_MAX: u64 = 1 << 32;

/// Share of the operations that run before those that are measured.
const WARMUP_DIVISOR: u64 = 8;

/// What to compare, as a user says it.
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("of_workloads").multiple(true).conflicts_with("command")
    .args(["entries", "search_percent", "mix"]))]
pub struct CompareOptions {
    /// Workloads, separated by commas [default: those of MICRO'15, or what the machine says]
    #[arg(long, short, value_delimiter = ',', value_parser = listed_name, value_name = "NAMES",
          conflicts_with = "command")]
    pub workloads: Vec<String>,
    /// Designs, separated by commas, each NAME or NAME:KEY=VALUE:.. [default: all]
    #[arg(long, short, value_delimiter = ',', value_parser = listed_name, value_name = "DESIGNS")]
    pub designs: Vec<String>,
    /// Machine, or the path of a .toml file, each with :KEY=VALUE for other numbers
    #[arg(long, short, default_value = MACHINE, value_name = "NAME")]
    pub machine: String,
    /// Begin with empty caches and measure from the first operation
    #[arg(long)]
    pub cold: bool,
    /// Threads [default: one per core of the machine that no flusher has]
    #[arg(long, value_name = "N", conflicts_with = "command")]
    pub threads: Option<usize>,
    /// Seed of the operations and of the crash points
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Crashes to inject into each cell
    #[arg(long, default_value_t = CRASHES, value_name = "N")]
    pub crashes: u64,
    /// Measured operations of each thread
    #[arg(long = "ops", default_value_t = OPERATIONS, value_name = "N",
          conflicts_with = "command")]
    pub operations: u64,
    /// What the operations are.
    #[command(flatten)]
    pub requests: RequestOptions,
    /// A Ribbon, with which each design that has programs flush lines is run again.
    #[command(flatten)]
    pub ribbon: Option<CellRibbon>,
    /// Run designs again with objects moved by espresso, sfccd, ffccd, or sfccd:TRIGGER:TARGET;
    /// espresso-published, sfccd-published and ffccd-published move them as published
    #[arg(long, value_delimiter = ',', value_parser = listed::<DefragOptions>,
          value_name = "PROTOCOLS", conflicts_with = "command")]
    pub defragment: Vec<DefragOptions>,
    /// What transactions of programs whose objects move cost: lean, or libpmemobj (as many fences,
    /// lines and instructions as those of that library)
    #[arg(long, default_value_t, value_name = "COST", conflicts_with = "command")]
    pub cost: Cost,
    /// Design that the others are relative to [default: lb, or the first one]
    #[arg(long, value_name = "DESIGN")]
    pub baseline: Option<String>,
    /// Host threads [default: one per core]
    #[arg(long, short, value_name = "N")]
    pub jobs: Option<usize>,
    /// Break the structures on purpose, to see it caught
    #[arg(long, value_name = "FLAW", value_parser = flaws(), default_value = "none",
          hide_default_value = true, conflicts_with = "command")]
    pub flaw: Flaw,
    /// Write a JSON record per cell to this file [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// The table as files.
    #[command(flatten)]
    pub sheet: SheetOptions,
    /// Draw the comparison to this SVG file [if stopped: to FILE.partial]
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
    /// A program of others instead of workloads.
    #[command(flatten)]
    pub program: ProgramOptions,
}

default_options!(CompareOptions);

impl CompareOptions {
    /// The machine with `--cold`.
    pub(crate) fn machine_name(&self) -> String {
        named_machine(&self.machine, self.cold)
    }
}

/// Points that can be run, and what to compare them with.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The machine as it was named.
    pub machine_name: String,
    pub machine: Machine,
    /// The baseline, one of the designs.
    pub baseline: String,
    /// Workload by workload, each under every design.
    pub points: Vec<Point>,
    /// The Ribbon that some of the points have.
    pub ribbon: Option<CellRibbon>,
    /// Host threads; none: one per core of the host.
    pub jobs: Option<usize>,
    /// The point whose timeline is recorded.
    pub(crate) traced: Option<Traced>,
    /// Whether latencies, queues and cores are recorded.
    pub(crate) detail: bool,
}

impl Plan {
    /// Reads `options`.
    ///
    /// # Errors
    /// Whatever is unknown, out of range, named twice, or does not fit together.
    pub fn new(options: &CompareOptions) -> Result<Plan, LabError> {
        Plan::on(Machine::load(&options.machine_name())?, options)
    }

    /// The same on a machine that is there, and that `options` name for messages and records.
    pub(crate) fn on(machine: Machine, options: &CompareOptions) -> Result<Plan, LabError> {
        let cores = machine.core.count;
        let flushers = options.ribbon.as_ref().map_or(0, |ribbon| ribbon.flushers as usize);
        let threads = options.threads.unwrap_or(cores.saturating_sub(flushers).max(1));
        let threads = threads_of("--threads", Some(threads), &machine)?;
        in_range("--crashes", options.crashes, 0, CRASHES_MAX)?;
        in_range("--ops", options.operations, 1, OPERATIONS_MAX)?;
        if let Some(percent) = options.requests.search_percent {
            in_range("--search", percent.into(), 0, 100)?;
        }
        check_jobs(options.jobs)?;
        let columns = columns(options)?;
        let warmup = warmup_of(options.operations, &machine);
        let mut points = Vec::new();
        for workload in workloads(options, machine.all_workloads)? {
            for Column { design, ribbon, defragment } in &columns {
                points.push(Point {
                    workload: workload.clone(),
                    design: design.clone(),
                    threads,
                    seed: options.seed,
                    operations: options.operations,
                    warmup,
                    entries: options.requests.entries,
                    search_percent: options.requests.search_percent,
                    mix: options.requests.mix,
                    ribbon: ribbon.clone(),
                    defragment: *defragment,
                    cost: options.cost,
                    crashes: options.crashes,
                    flaw: options.flaw,
                    checked: true,
                });
            }
        }
        points.iter().try_for_each(check_point)?;
        points.iter().take(columns.len()).try_for_each(|point| check_ribbon(&machine, point))?;
        let (machine_name, ribbon) = (options.machine_name(), options.ribbon.clone());
        let mut plan = Plan {
            machine_name,
            machine,
            baseline: String::new(),
            points,
            ribbon,
            jobs: options.jobs,
            traced: None,
            detail: options.detail,
        };
        plan.baseline = baseline(options.baseline.as_deref(), &plan.designs())?;
        plan.traced = plan.traced(&options.trace)?;
        Ok(plan)
    }

    /// The point to record: the only one or, of a design that runs again with a Ribbon or with
    /// objects that move, that one.
    fn traced(&self, options: &TraceOptions) -> Result<Option<Traced>, LabError> {
        let is_beside = |point: &Point| point.ribbon.is_some() || point.defragment.is_some();
        let has_beside = self.points.iter().any(is_beside);
        let named = self.points.iter().enumerate();
        let named = named.filter(|(_, point)| is_beside(point) || !has_beside);
        let named: Vec<_> = named.map(|(at, point)| (at, point.cell_name())).collect();
        let operations = self.points.first().map(|point| {
            let is_kernel = CHECKPOINTED.iter().any(|kernel| kernel.name == point.workload);
            let all = (point.warmup + point.operations) * point.threads as u64;
            if is_kernel { None } else { Some(all) }
        });
        Traced::of(options, &named, operations.flatten())
    }

    /// Sets how many operations each thread runs of `workload`.
    pub(crate) fn set_operations(&mut self, workload: &str, operations: u64) {
        for point in self.points.iter_mut().filter(|point| point.workload == workload) {
            (point.operations, point.warmup) = (operations, warmup_of(operations, &self.machine));
        }
    }

    /// The workloads, in order, each once.
    pub fn workloads(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for name in self.points.iter().map(|point| &*point.workload) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// The designs, in order, each once, and each with a Ribbon where it has one.
    pub fn designs(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in self.points.iter().map(Point::label) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// Operations before those that are measured.
fn warmup_of(operations: u64, machine: &Machine) -> u64 {
    if machine.cold { 0 } else { operations / WARMUP_DIVISOR }
}

/// The designs that `texts` name; if there are none, those that run by default.
pub(crate) fn designs(texts: &[String]) -> Result<Vec<Choice>, LabError> {
    once("design", texts)?;
    if texts.is_empty() {
        let default = DESIGNS.iter().filter(|entry| entry.by_default());
        let all = default.map(|entry| Choice::parse(entry.name));
        return Ok(all.collect::<Result<_, _>>()?);
    }
    Ok(texts.iter().map(|text| Choice::parse(text)).collect::<Result<_, _>>()?)
}

/// A design, and what is beside the program.
struct Column {
    design: Choice,
    ribbon: Option<RibbonOptions>,
    defragment: Option<DefragOptions>,
}

/// Each design, and again with a Ribbon where programs flush lines, and with each way to defragment
/// that it has the hardware for.
fn columns(options: &CompareOptions) -> Result<Vec<Column>, LabError> {
    let designs = designs(&options.designs)?;
    let ribbon = options.ribbon.as_ref();
    if ribbon.is_some() && !designs.iter().any(Choice::needs_flushes) {
        let names: Vec<&str> = designs.iter().map(|design| &*design.text).collect();
        return Err(LabError::NothingToFlush { design: names.join(", ") });
    }
    let defragment = &options.defragment;
    once("way to defragment", &defragment.iter().map(|way| way.to_string()).collect::<Vec<_>>())?;
    defragment.iter().try_for_each(DefragOptions::check)?;
    if let Some(way) = defragment.iter().find(|way| !designs.iter().any(|its| can(its, way))) {
        return Err(LabError::NoRelocation { way: way.to_string() });
    }
    let all = |design: Choice| {
        let ribbon = ribbon.filter(|_| design.needs_flushes()).map(CellRibbon::options);
        let beside = |ribbon: Option<RibbonOptions>, defragment| Column {
            design: design.clone(),
            ribbon,
            defragment,
        };
        let ways = defragment.iter().filter(|way| can(&design, way));
        let mut columns = vec![beside(None, None)];
        columns.extend(ribbon.map(|ribbon| beside(Some(ribbon), None)));
        columns.extend(ways.map(|way| beside(None, Some(*way))));
        columns
    };
    Ok(designs.into_iter().flat_map(all).collect())
}

/// True if the design has the hardware for it.
fn can(design: &Choice, way: &DefragOptions) -> bool {
    way.protocol != Protocol::Ffccd || design.relocates()
}

/// The workloads that are named; if there are none, those whose objects move where they are to, all
/// of machines that ask for all, or the usual ones.
fn workloads(options: &CompareOptions, all: bool) -> Result<Vec<String>, LabError> {
    let (names, moves) = (&options.workloads, !options.defragment.is_empty());
    once("workload", names)?;
    if !names.is_empty() {
        return Ok(names.clone());
    }
    let default = WORKLOADS.iter().filter(|entry| match moves {
        true => entry.moves,
        false => entry.default || all && entry.in_all,
    });
    Ok(default.map(|entry| entry.name.to_owned()).collect())
}

fn baseline(asked: Option<&str>, designs: &[String]) -> Result<String, LabError> {
    let has = |name: &str| designs.iter().any(|design| design == name);
    match asked {
        Some(name) if has(name) => Ok(name.to_owned()),
        Some(name) => {
            Err(LabError::Baseline { name: name.to_owned(), designs: designs.join(", ") })
        }
        None if has(BASELINE) => Ok(BASELINE.to_owned()),
        None => Ok(designs[0].clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_ribbon::{EarlyStores, Mode};

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    fn error(change: impl FnOnce(&mut CompareOptions)) -> String {
        let mut options = CompareOptions::default();
        change(&mut options);
        Plan::new(&options).expect_err("a bad option").to_string()
    }

    #[test]
    fn by_default_the_five_workloads_meet_every_design_on_every_core() {
        let plan = Plan::new(&CompareOptions::default()).unwrap();
        assert_eq!(plan.workloads(), ["hash", "queue", "rbtree", "sdg", "sps"]);
        let designs = DESIGNS.iter().filter(|entry| entry.by_default()).count();
        assert_eq!(plan.designs().len(), designs);
        assert_eq!(plan.points.len(), 5 * designs);
        assert!(plan.points.iter().all(|point| point.threads == 32));
        assert_eq!(plan.baseline, "lb");
    }

    #[test]
    fn the_first_design_is_the_baseline_where_lb_is_missing() {
        let designs = strings(&["epoch", "clwb:adr=true"]);
        let plan = Plan::new(&CompareOptions { designs, ..CompareOptions::default() }).unwrap();
        assert_eq!(plan.baseline, "epoch");
        let message = error(|options| {
            options.designs = strings(&["epoch"]);
            options.baseline = Some("lb".into());
        });
        assert!(message.contains("lb") && message.contains("epoch"), "{message}");
    }

    #[test]
    fn with_a_ribbon_designs_for_which_programs_flush_are_there_twice() {
        let ribbon =
            |flushers| Some(CellRibbon { flushers, mode: Mode::Auto, early: EarlyStores::None });
        let options = CompareOptions {
            designs: strings(&["lb", "clwb"]),
            ribbon: ribbon(6),
            baseline: Some("clwb+ribbon".into()),
            ..CompareOptions::default()
        };
        let plan = Plan::new(&options).unwrap();
        assert_eq!(plan.designs(), ["lb", "clwb", "clwb+ribbon"]);
        assert!(plan.points.iter().all(|point| point.threads == 32 - 6));
        let message = error(|o| (o.designs, o.ribbon) = (strings(&["lb", "hops"]), ribbon(1)));
        assert!(message.contains("lb, hops flush no lines"), "{message}");
        assert!(error(|o| (o.threads, o.ribbon) = (Some(30), ribbon(4))).contains("core.count"));
        assert!(error(|o| o.ribbon = ribbon(u64::MAX)).contains("1 threads and"));
    }

    #[test]
    fn what_is_wrong_is_named_with_what_would_be_right() {
        assert!(error(|o| o.workloads = strings(&["hsah"])).contains("hash, queue"));
        assert!(error(|o| o.designs = strings(&["lb9"])).contains("lb-idt"));
        assert!(error(|o| o.designs = strings(&["lb", "lb"])).contains("named twice"));
        assert!(error(|o| o.machine = "micro14".into()).contains("micro15, desktop"));
        assert!(error(|o| o.threads = Some(33)).contains("at most 32"));
        assert!(error(|o| o.threads = Some(0)).contains("at least 1"));
        assert!(error(|o| o.operations = 0).contains("--ops"));
        assert!(error(|o| o.jobs = Some(0)).contains("--jobs"));
        assert!(error(|o| o.requests.search_percent = Some(101)).contains("--search"));
        assert!(error(|o| o.requests.entries = Some(0)).contains("entries is 0"));
        assert!(error(|o| o.requests.entries = Some(200_000_000)).contains("fewer: hash"));
        let heavy = error(|o| o.cost = Cost::Libpmemobj);
        assert!(heavy.contains("hash do not move") && heavy.contains("c-ll, c-avl"), "{heavy}");
    }
}
