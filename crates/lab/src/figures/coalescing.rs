//! Figures of flush coalescing: what placing objects on each other's lines gains, run by run.

use super::{FigureOptions, Kind, MeanBars, Numbers, PublishedValue};
use crate::LabError;
use crate::engine::jobs::{Piece, Runner};
use crate::engine::kept::kept_as_written;
use crate::engine::options::once;
use seawall_report::{ReportError, ResultFile, plain_table, text_of};
use seawall_workloads::ribbon20::objects::Placing;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

mod measure;

pub use measure::{Coalescing, CoalescingOptions, CoalescingRow};

/// A quick look has this part of the keys.
const QUICK_DIVISOR: u64 = 5;

/// A figure of flush coalescing.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoalescingFigure {
    /// Name on the command line.
    #[serde(skip)]
    pub name: String,
    #[serde(rename = "kind")]
    _kind: String,
    pub title: String,
    /// Where the paper says so.
    pub source: String,
    pub machine: String,
    /// The paper's mean gain, in per cent.
    pub paper: f64,
    /// The paper's highest gain, in per cent.
    pub paper_max: f64,
    /// How far from the paper's mean ours may be.
    pub tolerance: f64,
    /// What runs.
    #[serde(rename = "run")]
    pub runs: Vec<CoalescingRun>,
}

/// A dictionary that is filled and changed, with its objects placed in every way.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CoalescingRun {
    /// What the figure calls it.
    pub name: String,
    /// Threads, each with a dictionary of its own.
    pub threads: usize,
    /// Keys of each thread.
    pub keys: u64,
    /// Data is flushed after each operation, not only when the log is full.
    #[serde(default)]
    pub retires_each: bool,
    /// Compared with the paper's numbers; the other runs are ours.
    #[serde(default)]
    pub held: bool,
}

/// One kind of operation with objects placed in one way, as `--json` writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoalescingRecord {
    pub figure: String,
    pub run: String,
    /// "insert", "replace" or "count".
    pub operation: String,
    /// "packed", "lines" or "together".
    pub placed: String,
    /// Operations per cycle over those of packed objects; the gain in per cent.
    pub gain: f64,
    /// Dirty lines of objects and their states that were flushed, an operation.
    pub lines: f64,
    /// Lines of log records, an operation.
    pub log_lines: f64,
    /// How much of a flushed dirty line of objects or states was dirty, in per cent.
    pub dirtiness: f64,
    /// Cycles from the first operation of any thread to the last one's end.
    pub cycles: u64,
    pub threads: usize,
    /// Keys of each thread.
    pub keys: u64,
    /// Data was flushed after each operation.
    pub retires_each: bool,
    pub machine: String,
    pub seed: u64,
    /// True if it was a quick look with fewer keys.
    pub quick: bool,
}

kept_as_written!(Vec<CoalescingRecord>);

/// A run of a figure, to be done.
#[derive(Debug)]
struct Job<'a> {
    figure: &'a CoalescingFigure,
    run: &'a CoalescingRun,
    options: CoalescingOptions,
}

impl Piece for Job<'_> {
    fn program(&self) -> &str {
        &self.figure.name
    }

    fn design(&self) -> String {
        self.run.name.clone()
    }
}

impl Kind for CoalescingFigure {
    type Record = CoalescingRecord;

    fn check(&self) -> Result<(), String> {
        if self.runs.is_empty() {
            return Err("it has no [[run]]; give at least one".into());
        }
        if !self.runs.iter().any(|run| run.held) {
            return Err("no [[run]] is held to the paper's numbers; set held = true".into());
        }
        let names: Vec<String> = self.runs.iter().map(|run| run.name.clone()).collect();
        once("run", &names).map_err(|error| error.to_string())
    }

    fn run(
        figures: &[&CoalescingFigure],
        options: &FigureOptions,
        runner: &Runner<'_>,
    ) -> Result<(Vec<CoalescingRecord>, bool), LabError> {
        let jobs: Vec<Job<'_>> = figures.iter().flat_map(|figure| figure.jobs(options)).collect();
        let measure = |job: &Job<'_>| {
            let coalescing = Coalescing::run(&job.options, runner.stop)?;
            let rows = coalescing.rows.iter();
            let records = rows.map(|row| record(job, row, coalescing.gain(row), options.is_quick));
            Ok(records.collect::<Vec<_>>())
        };
        let done = runner.all_kept("", &jobs, measure)?;
        let is_whole = done.iter().all(Option::is_some);
        Ok((done.into_iter().flatten().flatten().collect(), is_whole))
    }

    fn holds(&self, records: &[&CoalescingRecord]) -> bool {
        let is_whole = self.runs.iter().all(|run| records.iter().any(|it| it.run == run.name));
        is_whole && self.beside(records).iter().all(|(_, _, is_near)| *is_near)
    }

    fn published_values(&self, records: &[&CoalescingRecord]) -> Vec<PublishedValue> {
        match records.is_empty() {
            true => Vec::new(),
            false => {
                let both = ["mean", "highest"].into_iter().zip(self.beside(records));
                let value = |(name, (paper, ours, holds))| {
                    let numbers = Numbers { paper, ours, tolerance: self.tolerance };
                    PublishedValue::new(name, numbers, holds).percent()
                };
                both.map(value).collect()
            }
        }
    }

    fn to_text(&self, records: &[&CoalescingRecord]) -> String {
        let CoalescingFigure { name, title, source, machine, paper, paper_max, .. } = self;
        let mut text = format!("{name}: {title}\n  paper: {source}\n");
        let Some(first) = records.first() else {
            return text + "  nothing was measured\n\n";
        };
        let quick = if first.quick { " (quick)" } else { "" };
        let _ = writeln!(text, "  ours:  {machine}, seed {}{quick}\n", first.seed);
        let head = ["run", "operation", "placed", "gain %", "lines/op", "log l./op", "dirty %"];
        let mut table = plain_table(&head, 3..head.len());
        let (mut run, mut operation) = ("", "");
        for record in records {
            let shown = |is_new: bool, name: &str| if is_new { name.into() } else { String::new() };
            let is_new = record.run != run;
            let gain = format!("{:+.1}", record.gain);
            table.add_row(vec![
                shown(is_new, &self.label(&record.run)),
                shown(is_new || record.operation != operation, &record.operation),
                record.placed.clone(),
                shown(record.placed != Placing::Packed.to_string(), &gain),
                format!("{:.2}", record.lines),
                format!("{:.2}", record.log_lines),
                format!("{:.1}", record.dirtiness),
            ]);
            (run, operation) = (&record.run, &record.operation);
        }
        text += &text_of(&table);
        let [(_, mean, near), (_, most, most_near)] = self.beside(records);
        let said = |is_near: bool| if is_near { "holds" } else { "does NOT hold" };
        let held = usize::from(near) + usize::from(most_near);
        let _ = writeln!(
            text,
            "\n  gain of together in the runs marked *, which flush at each commit as the paper's \
             programs do:\n  mean {mean:+.1} %, the paper's {paper:.1} %: {}\n  at most {most:+.1} \
             %, the paper's {paper_max:.1} %: {}\n  {held} of 2 hold (within {:.1}); the other \
             runs are ours\n",
            said(near),
            said(most_near),
            self.tolerance
        );
        text
    }

    /// Each placing with the mean of its operations; packed objects are 1.
    fn plots(&self, records: &[&CoalescingRecord]) -> Result<Vec<ResultFile>, ReportError> {
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let placings = Placing::ALL.iter().filter(|placing| **placing != Placing::Packed);
        let placings: Vec<String> = placings.map(Placing::to_string).collect();
        let mean = |run: Option<&CoalescingRun>, placed: &String| {
            let is_it = |record: &&&CoalescingRecord| {
                let is_run = match run {
                    Some(run) => record.run == run.name,
                    None => self.is_held(&record.run),
                };
                record.placed == *placed && is_run
            };
            let gains: Vec<f64> = records.iter().filter(is_it).map(|record| record.gain).collect();
            let mean = gains.iter().sum::<f64>() / gains.len().max(1) as f64;
            (!gains.is_empty()).then_some(1.0 + mean / 100.0)
        };
        let of = |run: Option<&CoalescingRun>| placings.iter().map(|p| mean(run, p)).collect();
        let together = Placing::Together.to_string();
        let published = |placed: &String| (*placed == together).then_some(1.0 + self.paper / 100.0);
        let bars = MeanBars {
            figure: &self.name,
            title: "operations a cycle over packed",
            bars: placings.iter().map(String::as_str).collect(),
            programs: self.runs.iter().map(|run| (run.name.clone(), of(Some(run)))).collect(),
            published: placings.iter().map(published).collect(),
            means: of(None),
            reference: Some(1.0),
        };
        bars.draw()
    }
}

impl CoalescingFigure {
    fn jobs(&self, options: &FigureOptions) -> Vec<Job<'_>> {
        let divisor = if options.is_quick { QUICK_DIVISOR } else { 1 };
        let mut jobs = Vec::new();
        for run in &self.runs {
            let CoalescingRun { threads, keys, retires_each, .. } = *run;
            let options = CoalescingOptions {
                machine: self.machine.clone(),
                keys: keys.div_ceil(divisor),
                threads,
                seed: options.seed,
                retires_each,
            };
            jobs.push(Job { figure: self, run, options });
        }
        jobs
    }

    /// The paper's mean and highest gain, each beside ours, and whether they are near.
    fn beside(&self, records: &[&CoalescingRecord]) -> [(f64, f64, bool); 2] {
        let (mean, most) = self.gains(records);
        [(self.paper, mean), (self.paper_max, most)]
            .map(|(paper, ours)| (paper, ours, (ours - paper).abs() <= self.tolerance))
    }

    /// What the table calls a run.
    fn label(&self, run: &str) -> String {
        if self.is_held(run) { format!("{run} *") } else { run.to_owned() }
    }

    fn is_held(&self, run: &str) -> bool {
        self.runs.iter().any(|it| it.held && it.name == run)
    }

    /// The mean gain of objects that lie together, and the highest, of the runs that are held.
    fn gains(&self, records: &[&CoalescingRecord]) -> (f64, f64) {
        let together = Placing::Together.to_string();
        let gains =
            records.iter().filter(|record| record.placed == together && self.is_held(&record.run));
        let gains: Vec<f64> = gains.map(|record| record.gain).collect();
        let most = gains.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (gains.iter().sum::<f64>() / gains.len().max(1) as f64, most)
    }
}

fn record(job: &Job<'_>, row: &CoalescingRow, gain: f64, quick: bool) -> CoalescingRecord {
    let CoalescingOptions { machine, keys, threads, seed, retires_each } = job.options.clone();
    let operations = (keys * threads as u64) as f64;
    CoalescingRecord {
        figure: job.figure.name.clone(),
        run: job.run.name.clone(),
        operation: row.operation().to_owned(),
        placed: row.placing.to_string(),
        gain,
        lines: row.counts.lines as f64 / operations,
        log_lines: row.log_lines as f64 / operations,
        dirtiness: 100.0 * row.counts.dirtiness(),
        cycles: row.cycles,
        threads,
        keys,
        retires_each,
        machine,
        seed,
        quick,
    }
}
