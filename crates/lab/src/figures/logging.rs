//! The logging figures of MEMSYS'17: a log through the caches, past them, or as measured.
//!
//! Every point is run twice over: in the simulator on the paper's machine, where cycles, partial
//! lines and cache misses are known, and on this host, where only time is. The paper published few
//! numbers; those are in the figure's file, and none of ours was chosen from them. What is held to
//! a bound is our own claim: the adaptive log is never more than [`LOSS_MAX`] above the better of
//! the two fixed ones that it chooses from.

use super::{FigureOptions, Kind, PublishedValue};
use crate::LabError;
use crate::engine::jobs::{Runner, host_threads, in_parallel};
use measure::{Host, Place, Simulated};
use seawall_report::{Chart, ReportError, ResultFile};
use seawall_runtime::RouteChoice;
use seawall_sim::{Choice, Machine, SimError};
use seawall_workloads::memsys17::{Input, Log, Structure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

mod chart;
mod measure;
mod text;

/// How far above the better fixed log the adaptive one may be.
pub const LOSS_MAX: f64 = 0.05;
/// Rounds on the host, and of long runs.
const ROUNDS: usize = 11;
const ROUNDS_LONG: usize = 5;
const ROUNDS_QUICK: usize = 3;
/// Records of a point in a quick look.
const RECORDS_QUICK: u64 = 1 << 15;
const RECORDS_LONG: u64 = 1 << 20;
const FIXED: [Log; 2] = [Log::Lines(RouteChoice::Cached), Log::Lines(RouteChoice::Uncached)];
const ADAPTIVE: Log = Log::Lines(RouteChoice::Adaptive);

/// A logging figure, as its file describes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoggingFigure {
    /// Always "logging": the kind of figure.
    #[serde(rename = "kind")]
    _kind: String,
    /// Name on the command line.
    #[serde(skip)]
    pub name: String,
    pub title: String,
    /// Where the paper says so.
    pub source: String,
    pub machine: String,
    pub design: String,
    /// Bytes of all strings together.
    pub total_bytes: u64,
    /// The most records of a point, unless the full size is asked for; none: no limit.
    pub records_max: Option<u64>,
    /// Instructions that the simulated program spends on a string, and on each byte of it.
    pub work: (u32, u32),
    pub structures: Vec<String>,
    /// Bytes of a string.
    pub value_bytes: Vec<u64>,
    pub tables: Vec<Column>,
    /// What the paper says.
    #[serde(default)]
    pub paper: Vec<Stated>,
    /// What else a reader has to know.
    pub note: String,
}

/// What a table shows of every point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Column {
    /// Simulated cycles a record.
    Cycles,
    /// Nanoseconds a record on this host.
    Nanoseconds,
    /// Simulated misses of the last-level cache, of those it was asked for.
    Misses,
    /// Simulated lines that left a write-combining buffer partly filled, a record.
    Partial,
}

/// A number of the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stated {
    pub what: String,
    /// The number, or the least and the most.
    pub paper: Vec<f64>,
    /// How it is known: "stated", "derived" or "axis".
    pub basis: String,
    /// What of ours stands beside it.
    pub ours: Quantity,
    /// Bytes of a string, where it is about one size.
    #[serde(default)]
    pub value_bytes: u64,
    /// Bytes of a string of the run that it is divided by.
    pub over_bytes: Option<u64>,
    /// How many cycles an iteration takes at least where the bound applies.
    #[serde(default)]
    pub loop_cycles: f64,
    /// How far from the number, or beyond the bound, ours may be; none: it is not held.
    pub tolerance: Option<f64>,
    /// Why it is not held.
    pub not_held: Option<String>,
}

impl Stated {
    /// The least and the most that ours may be.
    fn bounds(&self) -> (f64, f64) {
        let tolerance = self.tolerance.unwrap_or(0.0);
        let least = self.paper.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.paper.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (least - tolerance, most + tolerance)
    }
}

/// What of ours stands beside a number of the paper; of the array and the uncacheable log, if not
/// said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Cycles of the whole run.
    Cycles,
    /// Cycles of an iteration.
    CyclesPerRecord,
    /// The whole run over that with strings of `over_bytes`.
    Ratio,
    /// The run over that with the paper's cacheable log.
    Speedup,
    /// How much the speedup rises at most from one size of strings to the next; the number is the
    /// most that it may.
    SpeedupRise,
    /// The highest speedup where an iteration takes `loop_cycles`; the number is the most that it
    /// may be.
    SpeedupMost,
    /// The least difference between the cacheable log's rate of misses and the uncacheable one's,
    /// of all structures and sizes, in points; the number is the least that it may be.
    MissGap,
}

/// One point of a logging figure, as `--json` writes it.
#[derive(Clone, Debug, Serialize)]
pub struct LoggingRecord {
    pub figure: String,
    pub structure: &'static str,
    /// How the log was written.
    pub log: &'static str,
    /// Whether a record is durable once it is fenced; the paper's cacheable log is not.
    pub log_is_durable: bool,
    /// Bytes of a string.
    pub value_bytes: u64,
    pub records: u64,
    /// Records of the paper; more than `records` if the run was cut.
    pub records_of_paper: u64,
    /// The simulated machine and design.
    pub machine: String,
    /// The design on it.
    pub design: String,
    /// Simulated cycles of the run.
    pub cycles: u64,
    /// Lines that the last-level cache was asked for and had.
    pub llc_hits: u64,
    /// Lines that it had not.
    pub llc_misses: u64,
    /// Lines that it fetched from memory before it was asked for them.
    pub prefetched_lines: u64,
    /// Lines that left the write-combining buffer.
    pub combined_lines: u64,
    /// Of those, partly filled ones.
    pub partial_lines: u64,
    /// Lines written to memory.
    pub line_writes: u64,
    /// Median nanoseconds a record on this host.
    pub host_nanoseconds: f64,
    /// Median ratio, on this host, to the paper's cacheable log.
    pub host_over_unflushed: f64,
    /// Records that a route took through the caches, simulated; 0 for logs without one.
    pub cached_records: u64,
    /// Records that it took past them.
    pub uncached_records: u64,
    /// For the adaptive log: simulated time over that of the better fixed one.
    pub over_better: Option<f64>,
    /// For the adaptive log: the same on this host.
    pub host_over_better: Option<f64>,
    /// The lower quartile of its rounds.
    pub host_over_better_low: Option<f64>,
    /// Seed of the strings.
    pub seed: u64,
    #[serde(skip)]
    simulated: Simulated,
    #[serde(skip)]
    host: Host,
}

type Key = (Place, Log, u64, (u32, u32));
/// The same with the names of machine and design.
type Shared = (String, String, Key);

/// Everything measured for a set of figures; points that figures share are run once.
#[derive(Debug, Default)]
struct Measured {
    simulated: BTreeMap<Shared, Simulated>,
    hosts: BTreeMap<(Place, u64), Host>,
    is_partial: bool,
}

impl Kind for LoggingFigure {
    type Record = LoggingRecord;

    fn check(&self) -> Result<(), String> {
        let names = self.structures.iter();
        let structures: Result<Vec<Structure>, _> = names.map(|name| name.parse()).collect();
        let structures = structures.map_err(|error| error.to_string())?;
        if structures.is_empty() || self.value_bytes.is_empty() || self.tables.is_empty() {
            return Err("structures, value_bytes and tables must each have an entry".into());
        }
        let fits = |bytes: u64| (4..=4096).contains(&bytes) && bytes.is_multiple_of(4);
        if let Some(bytes) = self.value_bytes.iter().find(|bytes| !fits(**bytes)) {
            return Err(format!("value_bytes has {bytes}; give multiples of 4 from 4 to 4096"));
        }
        if !(4096..=1 << 28).contains(&self.total_bytes) {
            let bytes = self.total_bytes;
            return Err(format!("total_bytes = {bytes} is out of range; give 4096 to 268435456"));
        }
        for Stated { what, paper, ours, value_bytes, tolerance, not_held, .. } in &self.paper {
            if !(1..=2).contains(&paper.len()) {
                return Err(format!("'{what}': paper takes one number or two"));
            }
            if ours.is_of_one_size() && !self.value_bytes.contains(value_bytes) {
                return Err(format!("'{what}': no strings of {value_bytes} bytes are run"));
            }
            if tolerance.is_some() == not_held.is_some() {
                return Err(format!("'{what}' needs a tolerance, or not_held, why it has none"));
            }
        }
        Ok(())
    }

    fn run(
        figures: &[&LoggingFigure],
        options: &FigureOptions,
        runner: &Runner<'_>,
    ) -> Result<(Vec<LoggingRecord>, bool), LabError> {
        let measured = Measured::run(figures, options, runner)?;
        let points = figures.iter().map(|figure| Points { figure, measured: &measured, options });
        Ok((points.flat_map(|points| points.records()).collect(), !measured.is_partial))
    }

    fn holds(&self, records: &[&LoggingRecord]) -> bool {
        let view = View { figure: self, records };
        let (held, all) = view.held();
        held == all
            && self.places().into_iter().all(|place| {
                let both = [view.over_better(place), view.host_over_better_low(place)];
                both.iter().all(|ratio| ratio.is_some_and(|ratio| ratio <= 1.0 + LOSS_MAX))
            })
    }

    fn published_values(&self, records: &[&LoggingRecord]) -> Vec<PublishedValue> {
        match records.is_empty() {
            true => Vec::new(),
            false => View { figure: self, records }.published_values(),
        }
    }

    fn to_text(&self, records: &[&LoggingRecord]) -> String {
        View { figure: self, records }.text()
    }

    fn plots(&self, records: &[&LoggingRecord]) -> Result<Vec<ResultFile>, ReportError> {
        let charts = View { figure: self, records }.charts();
        charts.iter().filter(|chart| !chart.is_empty()).map(Chart::svg).collect()
    }
}

impl LoggingFigure {
    fn structures(&self) -> Vec<Structure> {
        self.structures.iter().filter_map(|name| name.parse().ok()).collect()
    }

    fn places(&self) -> Vec<Place> {
        let structures = self.structures().into_iter();
        structures.flat_map(|one| self.value_bytes.iter().map(move |b| (one, *b))).collect()
    }

    fn records(&self, value_bytes: u64, options: &FigureOptions) -> u64 {
        let most = match (options.is_quick, options.is_full) {
            (true, _) => RECORDS_QUICK,
            (_, true) => u64::MAX,
            _ => self.records_max.unwrap_or(u64::MAX),
        };
        (self.total_bytes / value_bytes).clamp(1, most)
    }

    fn input(&self, (structure, value_bytes): Place, log: Log, options: &FigureOptions) -> Input {
        let records = self.records(value_bytes, options);
        Input { structure, log, value_bytes, records, work: self.work, seed: options.seed }
    }

    fn key(&self, input: &Input) -> Shared {
        let place = (input.structure, input.value_bytes);
        (self.machine.clone(), self.design.clone(), (place, input.log, input.records, input.work))
    }
}

impl Measured {
    /// Runs what `figures` need; stops soon after `stop` becomes true.
    fn run(
        figures: &[&LoggingFigure],
        options: &FigureOptions,
        runner: &Runner<'_>,
    ) -> Result<Measured, LabError> {
        let mut measured = Measured::default();
        measured.simulate(figures, options, runner)?;
        for figure in figures {
            for place in figure.places() {
                let records = figure.records(place.1, options);
                if measured.hosts.contains_key(&(place, records)) || measured.is_partial {
                    continue;
                }
                if runner.stop.load(Ordering::Relaxed) {
                    measured.is_partial = true;
                    continue;
                }
                let inputs = Log::ALL.map(|log| figure.input(place, log, options));
                let rounds = match records {
                    _ if options.is_quick => ROUNDS_QUICK,
                    RECORDS_LONG.. => ROUNDS_LONG,
                    _ => ROUNDS,
                };
                measured.hosts.insert((place, records), Host::run(&inputs, rounds)?);
            }
        }
        Ok(measured)
    }

    fn simulate(
        &mut self,
        figures: &[&LoggingFigure],
        options: &FigureOptions,
        runner: &Runner<'_>,
    ) -> Result<(), LabError> {
        let Runner { progress, stop, .. } = *runner;
        let mut wanted: BTreeMap<_, (Machine, Choice, Input)> = BTreeMap::new();
        for figure in figures {
            let machine = Machine::load(&figure.machine)?;
            let design = Choice::parse(&figure.design)?;
            for place in figure.places() {
                for log in Log::ALL {
                    let input = figure.input(place, log, options);
                    let run = (machine.clone(), design.clone(), input);
                    wanted.insert(figure.key(&input), run);
                }
            }
        }
        let pool = host_threads(options.jobs)?;
        progress.start(wanted.values().map(|(_, _, input)| input.structure.name()));
        let run = |(key, (machine, design, input)): &(Shared, (Machine, Choice, Input))| {
            let simulated = Simulated::run(machine, design, input, stop);
            progress.cell_done(input.structure.name(), input.log.name());
            match simulated {
                Err(LabError::Sim(SimError::Stopped)) => Ok(None),
                other => other.map(|simulated| Some((key.clone(), simulated))),
            }
        };
        let wanted: Vec<_> = wanted.into_iter().collect();
        let done = in_parallel(&pool, &wanted, run);
        progress.end();
        let done = done.into_iter().collect::<Result<Vec<_>, LabError>>()?;
        self.is_partial |= done.iter().any(Option::is_none);
        self.simulated.extend(done.into_iter().flatten());
        Ok(())
    }
}

/// The points of a figure, of which records are made.
struct Points<'a> {
    figure: &'a LoggingFigure,
    measured: &'a Measured,
    options: &'a FigureOptions,
}

impl Points<'_> {
    fn simulated(&self, place: Place, log: Log) -> Option<&Simulated> {
        let input = self.figure.input(place, log, self.options);
        self.measured.simulated.get(&self.figure.key(&input))
    }

    /// Simulated time of the adaptive log over that of the better fixed one.
    fn over_better(&self, place: Place) -> Option<f64> {
        let cycles = |log: Log| Some(self.simulated(place, log)?.cycles_per_record());
        let fixed = FIXED.iter().filter_map(|log| cycles(*log));
        Some(cycles(ADAPTIVE)? / fixed.min_by(f64::total_cmp)?)
    }

    fn records(&self) -> Vec<LoggingRecord> {
        let places = self.figure.places().into_iter();
        let points = places.flat_map(|place| Log::ALL.map(|log| (place, log)));
        points.filter_map(|(place, log)| self.record(place, log)).collect()
    }

    fn record(&self, place: Place, log: Log) -> Option<LoggingRecord> {
        let simulated = self.simulated(place, log)?;
        let records = self.figure.records(place.1, self.options);
        let host = self.measured.hosts.get(&(place, records))?;
        let counters = &simulated.counters;
        let of_adaptive = |ratio: Option<f64>| ratio.filter(|_| log == ADAPTIVE);
        let better = host.best(&FIXED)?;
        Some(LoggingRecord {
            figure: self.figure.name.clone(),
            structure: place.0.name(),
            log: log.name(),
            log_is_durable: log.is_durable(),
            value_bytes: place.1,
            records: simulated.records,
            records_of_paper: self.figure.total_bytes / place.1,
            machine: self.figure.machine.clone(),
            design: self.figure.design.clone(),
            cycles: simulated.cycles,
            llc_hits: counters.l1_misses - counters.llc_misses,
            llc_misses: counters.llc_misses,
            prefetched_lines: counters.prefetched_lines,
            combined_lines: counters.combined_lines,
            partial_lines: counters.partial_lines,
            line_writes: counters.line_writes,
            host_nanoseconds: host.nanoseconds(log)?,
            host_over_unflushed: host.ratio(log, Log::CachedUnflushed)?,
            cached_records: simulated.route.cached_records,
            uncached_records: simulated.route.uncached_records,
            over_better: of_adaptive(self.over_better(place)),
            host_over_better: of_adaptive(host.ratio(ADAPTIVE, better)),
            host_over_better_low: of_adaptive(host.low_ratio(ADAPTIVE, better)),
            seed: self.options.seed,
            simulated: simulated.clone(),
            host: host.clone(),
        })
    }
}

/// A figure with its records.
struct View<'a> {
    figure: &'a LoggingFigure,
    records: &'a [&'a LoggingRecord],
}

impl View<'_> {
    fn record(&self, (structure, bytes): Place, log: Log) -> Option<&LoggingRecord> {
        let mut records = self.records.iter().filter(|record| record.log == log.name());
        let is_there = |record: &&&LoggingRecord| {
            (record.structure, record.value_bytes) == (structure.name(), bytes)
        };
        records.find(is_there).copied()
    }

    fn simulated(&self, place: Place, log: Log) -> Option<&Simulated> {
        Some(&self.record(place, log)?.simulated)
    }

    fn host(&self, place: Place) -> Option<&Host> {
        Some(&self.record(place, ADAPTIVE)?.host)
    }

    fn cycles(&self, place: Place, log: Log) -> Option<f64> {
        Some(self.simulated(place, log)?.cycles_per_record())
    }

    fn over_better(&self, place: Place) -> Option<f64> {
        self.record(place, ADAPTIVE)?.over_better
    }

    fn host_over_better(&self, place: Place) -> Option<f64> {
        self.record(place, ADAPTIVE)?.host_over_better
    }

    /// The least that the same may be: the lower quartile of the rounds.
    fn host_over_better_low(&self, place: Place) -> Option<f64> {
        self.record(place, ADAPTIVE)?.host_over_better_low
    }
}
