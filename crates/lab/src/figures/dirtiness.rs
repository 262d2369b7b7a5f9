//! Figures of dirtiness: how much of each flushed line was changed, program by program.
//!
//! A program is a workload with its own operations or with those of a mix; it runs on this host's
//! memory with its stores and flushes counted (`seawall run W --mix M --dirtiness`), on one thread,
//! so that the counts are the same everywhere.

use super::{FigureOptions, Kind, MeanBars, Numbers, PublishedValue};
use crate::LabError;
use crate::commands::run::{
    DirtinessReport, NativeError, NativeOptions, NativeReport, check_native, run_native,
};
use crate::engine::jobs::{Piece, Runner};
use crate::engine::kept::kept_as_written;
use crate::engine::options::RequestOptions;
use seawall_report::{ReportError, ResultFile, plain_table, text_of};
use seawall_workloads::RequestMix;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt::Write;

/// A quick look runs this part of the operations.
const QUICK_DIVISOR: u64 = 5;

/// A figure of dirtiness.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirtinessFigure {
    /// Name on the command line.
    #[serde(skip)]
    pub name: String,
    #[serde(rename = "kind")]
    _kind: String,
    pub title: String,
    /// Where the paper says so.
    pub source: String,
    /// Operations of each program, at least 1.
    pub operations: u64,
    /// Entries at the start; none: the workload's own number.
    pub entries: Option<u64>,
    /// The paper's mean, in per cent.
    pub paper: f64,
    /// How far from it ours may be.
    pub tolerance: f64,
    pub programs: Vec<DirtinessProgram>,
}

/// A workload, and what it is asked for.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirtinessProgram {
    pub workload: String,
    /// Requests instead of the workload's own operations.
    #[serde(default, deserialize_with = "mix")]
    pub mix: Option<RequestMix>,
    /// Another number of operations.
    pub operations: Option<u64>,
    /// Another number of entries.
    pub entries: Option<u64>,
}

fn mix<'de, D: Deserializer<'de>>(text: D) -> Result<Option<RequestMix>, D::Error> {
    let text = String::deserialize(text)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

/// What was counted for a program, as `--json` writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirtinessRecord {
    pub figure: String,
    pub workload: String,
    /// The mix, if it is not the workload's own operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mix: Option<String>,
    pub operations: u64,
    /// Seed of the operations.
    pub seed: u64,
    /// True if it was a quick look with fewer operations.
    pub quick: bool,
    /// What was counted.
    #[serde(flatten)]
    pub counts: DirtinessReport,
}

kept_as_written!(DirtinessRecord);

/// A program of a figure, to be run.
#[derive(Debug)]
struct Job<'a> {
    figure: &'a DirtinessFigure,
    program: &'a DirtinessProgram,
    options: NativeOptions,
}

impl Piece for Job<'_> {
    fn program(&self) -> &str {
        &self.program.workload
    }

    fn design(&self) -> String {
        self.program.mix.map_or("its own operations".into(), |mix| mix.to_string())
    }
}

impl Kind for DirtinessFigure {
    type Record = DirtinessRecord;

    fn check(&self) -> Result<(), String> {
        if self.programs.is_empty() {
            return Err("it has no programs; give at least one".into());
        }
        let twice = |at: &usize| self.programs[..*at].contains(&self.programs[*at]);
        if let Some(at) = (0..self.programs.len()).find(twice) {
            return Err(format!("{} is there twice; once is enough", self.programs[at].workload));
        }
        let options = FigureOptions::default();
        self.jobs(&options).map(drop).map_err(|error| error.to_string())
    }

    fn run(
        figures: &[&DirtinessFigure],
        options: &FigureOptions,
        runner: &Runner<'_>,
    ) -> Result<(Vec<DirtinessRecord>, bool), LabError> {
        let jobs: Result<Vec<_>, _> = figures.iter().map(|figure| figure.jobs(options)).collect();
        let jobs: Vec<Job<'_>> = jobs?.into_iter().flatten().collect();
        let count = |job: &Job<'_>| {
            let Job { figure, program, options: run } = job;
            let NativeReport::Run(report) = run_native(&program.workload, run)? else {
                unreachable!("it is told to run")
            };
            Ok(DirtinessRecord {
                figure: figure.name.clone(),
                workload: program.workload.clone(),
                mix: program.mix.map(|mix| mix.to_string()),
                operations: report.operations[0],
                seed: run.seed,
                quick: options.is_quick,
                counts: report.dirtiness.expect("it is told to count"),
            })
        };
        let records = runner.all_kept("", &jobs, count)?;
        let is_whole = records.iter().all(Option::is_some);
        Ok((records.into_iter().flatten().collect(), is_whole))
    }

    fn holds(&self, records: &[&DirtinessRecord]) -> bool {
        let apart = (DirtinessFigure::mean(records) - self.paper).abs();
        records.len() == self.programs.len() && apart <= self.tolerance
    }

    fn published_values(&self, records: &[&DirtinessRecord]) -> Vec<PublishedValue> {
        match records.is_empty() {
            true => Vec::new(),
            false => {
                let ours = DirtinessFigure::mean(records);
                let numbers = Numbers { paper: self.paper, ours, tolerance: self.tolerance };
                vec![PublishedValue::new("mean", numbers, self.holds(records)).percent()]
            }
        }
    }

    fn to_text(&self, records: &[&DirtinessRecord]) -> String {
        let DirtinessFigure { name, title, source, paper, tolerance, .. } = self;
        let mut text = format!("{name}: {title}\n  paper: {source}\n");
        let Some(first) = records.first() else {
            return text + "  nothing was measured\n\n";
        };
        let quick = if first.quick { " (quick)" } else { "" };
        let _ = writeln!(text, "  ours:  seed {}{quick}\n", first.seed);
        let head = [
            "program",
            "operations",
            "dirty %",
            "lines/op",
            "<= 8 B %",
            "clean/op",
            "past caches/op",
        ];
        let mut table = plain_table(&head, 1..head.len());
        for DirtinessRecord { workload, mix, operations, counts, .. } in records {
            let each = |count: u64| format!("{:.2}", count as f64 / *operations as f64);
            let share = |percent: f64| match counts.lines {
                0 => "-".to_owned(),
                _ => format!("{percent:.1}"),
            };
            let small = 100.0 * counts.eighths[0] as f64 / counts.lines.max(1) as f64;
            table.add_row(vec![
                mix.as_ref().map_or(workload.clone(), |mix| format!("{workload}, {mix}")),
                operations.to_string(),
                share(counts.percent),
                each(counts.lines),
                share(small),
                each(counts.clean),
                each(counts.direct_lines),
            ]);
        }
        text += &text_of(&table);
        let held = if self.holds(records) { "it holds" } else { "it does NOT hold" };
        let _ = writeln!(
            text,
            "\n  mean of those that flush: {:.1} %; the paper's is {paper:.1} %; {held} (within \
             {tolerance:.1})\n",
            DirtinessFigure::mean(records)
        );
        text
    }

    fn plots(&self, records: &[&DirtinessRecord]) -> Result<Vec<ResultFile>, ReportError> {
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let program = |record: &&DirtinessRecord| {
            let name = record.mix.as_ref().map(|mix| format!("{}, {mix}", record.workload));
            let percent = Some(record.counts.percent).filter(|_| record.counts.lines > 0);
            (name.unwrap_or_else(|| record.workload.clone()), vec![percent])
        };
        let bars = MeanBars {
            figure: &self.name,
            title: "of flushed lines dirty, %",
            bars: vec!["dirty"],
            programs: records.iter().map(program).collect(),
            published: vec![Some(self.paper)],
            means: vec![Some(DirtinessFigure::mean(records))],
            reference: None,
        };
        bars.draw()
    }
}

impl DirtinessFigure {
    fn jobs(&self, options: &FigureOptions) -> Result<Vec<Job<'_>>, NativeError> {
        let divisor = if options.is_quick { QUICK_DIVISOR } else { 1 };
        let mut jobs = Vec::new();
        for program in &self.programs {
            let options = NativeOptions {
                ops: Some(program.operations.unwrap_or(self.operations).div_ceil(divisor)),
                seed: options.seed,
                requests: RequestOptions {
                    mix: program.mix,
                    entries: program.entries.or(self.entries),
                    ..RequestOptions::default()
                },
                dirtiness: true,
                ..NativeOptions::default()
            };
            check_native(&program.workload, &options)?;
            jobs.push(Job { figure: self, program, options });
        }
        Ok(jobs)
    }

    /// Our mean over the programs that flush, in per cent.
    fn mean(records: &[&DirtinessRecord]) -> f64 {
        let flushing = records.iter().filter(|record| record.counts.lines > 0);
        let (count, sum) = flushing
            .fold((0, 0.0), |(count, sum), record| (count + 1, sum + record.counts.percent));
        sum / f64::from(count.max(1))
    }
}
