//! Figures of fragmentation: how much memory programs that grow and shrink take, with and without
//! defragmentation (FFCCD, ISCA'22, section 7.2 and equation 1).
//!
//! A program fills its structure, then removes four fifths, puts them back and removes four fifths
//! again. In these three phases its footprint is looked at many times: the pages that hold a
//! part of a live object. That does not depend on time, so the program runs on the simplest
//! machine, with its threads in turn, and the numbers are the same everywhere.

use super::{FigureOptions, Kind, MeanBars, Numbers, PublishedValue, checked_each};
use crate::LabError;
use crate::engine::jobs::{Piece, Runner};
use crate::engine::kept::kept_as_written;
use seawall_any::{AnyMemory, workload};
use seawall_memory::Image;
use seawall_report::{ReportError, ResultFile, plain_table, text_of};
use seawall_runtime::HeapStats;
use seawall_runtime::defrag::DefragOptions;
use seawall_workloads::{Collect, History, Setup, WORKLOADS, Worker};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A quick look has this part of the entries.
const QUICK_DIVISOR: u64 = 5;
/// Phases: remove, put back, remove.
const PHASES: u64 = 3;
/// Looks at the footprint in each phase.
const LOOKS: u64 = 20;

/// A figure of fragmentation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FragmentationFigure {
    /// Name on the command line.
    #[serde(skip)]
    pub name: String,
    #[serde(rename = "kind")]
    _kind: String,
    pub title: String,
    /// Where the paper says so.
    pub source: String,
    /// Entries of each program at the start.
    pub entries: u64,
    /// As many as the paper has, for `--full`.
    pub full_entries: u64,
    /// KiB of the pages that are counted.
    pub page_kib: u64,
    /// The same for `--full`.
    pub full_page_kib: u64,
    /// Ways to defragment, each a column.
    pub ways: Vec<Way>,
    /// How far from the paper's mean ours may be, in points.
    pub tolerance: f64,
    /// What the values depend on that is not public, if they do.
    pub not_public: Option<String>,
    pub programs: Vec<FragmentationProgram>,
}

/// A way to defragment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Way {
    /// What it is called.
    pub name: String,
    /// When and how.
    #[serde(deserialize_with = "options")]
    pub options: DefragOptions,
    /// As published: the steps between two checks, as a share of the entries at the start.
    pub check_share: Option<f64>,
    /// Whether the paper's mean is not held: another reading of what it says.
    #[serde(default)]
    pub is_reading: bool,
    /// The paper's mean reduction, in per cent.
    pub paper: Option<f64>,
}

/// A program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FragmentationProgram {
    /// What the paper calls it.
    pub name: String,
    pub workload: String,
    pub threads: usize,
    /// The paper's reduction by each way, in per cent; none where it has none.
    pub paper: Vec<Option<f64>>,
}

fn options<'de, D: Deserializer<'de>>(text: D) -> Result<DefragOptions, D::Error> {
    String::deserialize(text)?.parse().map_err(serde::de::Error::custom)
}

/// What was measured of a program, as `--json` writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FragmentationRecord {
    pub figure: String,
    /// The program, as the paper calls it.
    pub program: String,
    pub workload: String,
    pub threads: usize,
    /// Entries at the start.
    pub entries: u64,
    /// Seed of the operations.
    pub seed: u64,
    /// True if it was a quick look with fewer entries.
    pub quick: bool,
    /// KiB of the pages that were counted.
    pub page_kib: u64,
    /// Bytes of live objects, the mean over the run.
    pub live: f64,
    /// Bytes of pages without defragmentation, the mean over the run.
    pub plain: f64,
    /// Bytes of pages with each way, the mean over the run.
    pub footprints: Vec<f64>,
}

kept_as_written!(FragmentationRecord);

impl FragmentationRecord {
    /// By how much a way reduces what is too much, in per cent (equation 1).
    pub fn reduction(&self, way: usize) -> f64 {
        100.0 * (self.plain - self.footprints[way]) / (self.plain - self.live).max(1.0)
    }
}

#[derive(Debug)]
struct Job<'a> {
    figure: &'a FragmentationFigure,
    program: &'a FragmentationProgram,
    entries: u64,
    seed: u64,
}

impl Piece for Job<'_> {
    fn program(&self) -> &str {
        &self.program.name
    }

    fn design(&self) -> String {
        "footprints".into()
    }
}

impl Kind for FragmentationFigure {
    type Record = FragmentationRecord;

    fn check(&self) -> Result<(), String> {
        if self.programs.is_empty() || self.ways.is_empty() {
            return Err("it has no programs or no ways; give at least one of each".into());
        }
        for program in &self.programs {
            let FragmentationProgram { name, workload, paper, threads } = program;
            let entry = WORKLOADS.iter().find(|entry| entry.name == workload);
            if !entry.is_some_and(|entry| entry.moves) {
                return Err(format!("{name}: the objects of {workload} do not move"));
            }
            if self.page_kib.min(self.full_page_kib) == 0 {
                return Err("page_kib or full_page_kib is 0; each must be at least 1".into());
            }
            if paper.len() != self.ways.len() || !(1..=64).contains(threads) {
                return Err(format!("{name}: give a value for each way, and 1 to 64 threads"));
            }
        }
        Ok(())
    }

    fn run(
        figures: &[&FragmentationFigure],
        options: &FigureOptions,
        runner: &Runner<'_>,
    ) -> Result<(Vec<FragmentationRecord>, bool), LabError> {
        let jobs: Vec<Job<'_>> = figures.iter().flat_map(|figure| figure.jobs(options)).collect();
        let measure = |job: &Job<'_>| {
            let Job { figure, program, entries, seed } = job;
            let run = |defragment: Option<DefragOptions>| {
                let FragmentationProgram { workload, threads, .. } = program;
                let footprint = Footprint {
                    threads: *threads,
                    entries: *entries,
                    seed: *seed,
                    defragment,
                    page: figure.pages(options) << 10,
                    stop: runner.stop,
                };
                footprint.measure(workload)
            };
            let (live, plain) = run(None)?;
            let footprints: Result<Vec<f64>, LabError> = figure
                .ways
                .iter()
                .map(|way| Ok(run(Some(checked_each(way.options, way.check_share, *entries)))?.1))
                .collect();
            Ok(FragmentationRecord {
                figure: figure.name.clone(),
                program: program.name.clone(),
                workload: program.workload.clone(),
                threads: program.threads,
                entries: *entries,
                seed: *seed,
                quick: options.is_quick,
                page_kib: figure.pages(options),
                live,
                plain,
                footprints: footprints?,
            })
        };
        let records = runner.all_kept("", &jobs, measure)?;
        let is_whole = records.iter().all(Option::is_some) && !runner.stop.load(Ordering::Relaxed);
        Ok((records.into_iter().flatten().collect(), is_whole))
    }

    fn holds(&self, records: &[&FragmentationRecord]) -> bool {
        let holds = |way: usize| {
            let Way { paper, is_reading, .. } = self.ways[way];
            is_reading
                || paper
                    .is_none_or(|paper| (self.mean(records, way) - paper).abs() <= self.tolerance)
        };
        records.len() == self.programs.len() && (0..self.ways.len()).all(holds)
    }

    fn published_values(&self, records: &[&FragmentationRecord]) -> Vec<PublishedValue> {
        if records.is_empty() {
            return Vec::new();
        }
        let of = |(place, way): (usize, &Way)| {
            let paper = way.paper.filter(|_| !way.is_reading)?;
            let ours = self.mean(records, place);
            let numbers = Numbers { paper, ours, tolerance: self.tolerance };
            let holds = (ours - paper).abs() <= self.tolerance;
            let value = PublishedValue::new(way.name.clone(), numbers, holds).percent();
            Some(match &self.not_public {
                Some(why) if !holds => value.not_public(why),
                _ => value,
            })
        };
        self.ways.iter().enumerate().filter_map(of).collect()
    }

    fn to_text(&self, records: &[&FragmentationRecord]) -> String {
        let FragmentationFigure { name, title, source, tolerance, .. } = self;
        let mut text = format!("{name}: {title}\n  paper: {source}\n");
        let Some(first) = records.first() else {
            return text + "  nothing was measured\n\n";
        };
        let FragmentationRecord { entries, seed, quick, page_kib, .. } = first;
        let quick = if *quick { " (quick)" } else { "" };
        let _ = writeln!(
            text,
            "  ours:  {entries} entries, three phases, pages of {page_kib} KiB, seed \
             {seed}{quick};\n         MiB are means over the phases\n"
        );
        let mut head = vec!["program".to_owned(), "live MiB".into(), "without".into()];
        for Way { name, .. } in &self.ways {
            head.extend([name.clone(), "less % (paper)".into()]);
        }
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        let mut table = plain_table(&head, 1..head.len());
        let mib = |bytes: f64| format!("{:.2}", bytes / f64::from(1 << 20));
        for record in records {
            let program = self.programs.iter().find(|program| program.name == record.program);
            let paper = |way: usize| program.and_then(|program| program.paper[way]);
            let mut row = vec![record.program.clone(), mib(record.live), mib(record.plain)];
            for way in 0..self.ways.len() {
                let stated = paper(way).map_or(String::new(), |value| format!(" ({value:.1})"));
                let less = format!("{:.1}{stated}", record.reduction(way));
                row.extend([mib(record.footprints[way]), less]);
            }
            table.add_row(row);
        }
        text += &text_of(&table);
        text.push('\n');
        for (way, Way { name, paper, options, is_reading, .. }) in self.ways.iter().enumerate() {
            let mean = self.mean(records, way);
            let stated = paper.map_or(String::new(), |paper| {
                let held = match (mean - paper).abs() <= *tolerance {
                    _ if *is_reading => "it is not held".to_owned(),
                    true => format!("it holds (within {tolerance:.0})"),
                    false => format!("it does NOT hold (within {tolerance:.0})"),
                };
                format!("; the paper's is {paper:.1} %; {held}")
            });
            let DefragOptions { trigger, target, .. } = options;
            let _ = writeln!(
                text,
                "  {name} (from {trigger} to {target}): fragmentation {mean:.1} % less{stated}"
            );
        }
        text.push('\n');
        text
    }

    fn plots(&self, records: &[&FragmentationRecord]) -> Result<Vec<ResultFile>, ReportError> {
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let ways = 0..self.ways.len();
        let program = |record: &&FragmentationRecord| {
            let reductions = ways.clone().map(|way| Some(record.reduction(way)));
            (record.program.clone(), reductions.collect())
        };
        let bars = MeanBars {
            figure: &self.name,
            title: "fragmentation less, %",
            bars: self.ways.iter().map(|way| &*way.name).collect(),
            programs: records.iter().map(program).collect(),
            published: self.ways.iter().map(|way| way.paper).collect(),
            means: ways.clone().map(|way| Some(self.mean(records, way))).collect(),
            reference: None,
        };
        bars.draw()
    }
}

impl FragmentationFigure {
    /// Without other readings of the paper.
    pub(super) fn keep_what_is_held(&mut self) {
        let is_held: Vec<bool> = self.ways.iter().map(|way| !way.is_reading).collect();
        for program in &mut self.programs {
            let papers = program.paper.iter().zip(&is_held);
            program.paper = papers.filter(|(_, held)| **held).map(|(paper, _)| *paper).collect();
        }
        self.ways.retain(|way| !way.is_reading);
    }

    fn jobs(&self, options: &FigureOptions) -> impl Iterator<Item = Job<'_>> {
        let entries = match (options.is_quick, options.is_full) {
            (true, _) => self.entries.div_ceil(QUICK_DIVISOR),
            (_, true) => self.full_entries,
            _ => self.entries,
        };
        let seed = options.seed;
        self.programs.iter().map(move |program| Job { figure: self, program, entries, seed })
    }

    /// KiB of the pages that are counted.
    fn pages(&self, options: &FigureOptions) -> u64 {
        if options.is_full { self.full_page_kib } else { self.page_kib }
    }

    /// Our mean reduction by a way over the programs for which the paper has one.
    fn mean(&self, records: &[&FragmentationRecord], way: usize) -> f64 {
        let has_paper = |record: &&&FragmentationRecord| {
            let program = self.programs.iter().find(|program| program.name == record.program);
            program.is_some_and(|program| program.paper[way].is_some())
        };
        let all: Vec<f64> =
            records.iter().filter(has_paper).map(|record| record.reduction(way)).collect();
        all.iter().sum::<f64>() / all.len().max(1) as f64
    }
}

/// Runs a program; returns the means of its live bytes and of the bytes of its pages.
struct Footprint<'a> {
    threads: usize,
    entries: u64,
    seed: u64,
    defragment: Option<DefragOptions>,
    /// Bytes of the pages that are counted.
    page: u64,
    stop: &'a AtomicBool,
}

impl Footprint<'_> {
    fn measure(self, name: &str) -> Result<(f64, f64), LabError> {
        let kind = workload(name)?;
        let Footprint { threads, entries, seed, defragment, page, stop } = self;
        let collect = Collect::by_steps(defragment);
        let setup = Setup { entries, seed, collect, ..kind.setup(threads) };
        setup.check()?;
        let layout = kind.layout(&setup);
        let image = Image::new(layout.pm_bytes, layout.dram_bytes);
        let workload = kind.create(&AnyMemory::image(&image), &setup);
        let heap = workload.heap().expect("objects that move live in a heap");
        let memories: Vec<AnyMemory<'_, '_>> =
            (0..threads).map(|thread| AnyMemory::image_in_turns(&image, thread)).collect();
        let mut joined: Vec<_> = memories.iter().map(|memory| workload.join(memory)).collect();
        let history = Arc::new(History::off());
        let worker = |thread| Worker::new(&setup, thread, history.clone());
        let mut workers: Vec<Worker> = (0..threads).map(worker).collect();
        let steps = kind.steps(&setup, 0, PHASES).expect("it has phases");
        let (mut live, mut pages, mut looks) = (0.0, 0.0, 0.0);
        for number in 0..steps {
            for thread in 0..threads {
                if number < kind.steps(&setup, thread, PHASES).unwrap_or(0) {
                    joined[thread].step(&mut workers[thread]);
                    workers[thread].number += 1;
                }
            }
            if (number + 1) * PHASES * LOOKS / steps != number * PHASES * LOOKS / steps {
                let damaged = |error: seawall_runtime::AccessError| LabError::Damage {
                    workload: kind.name(),
                    damage: error.into(),
                };
                let HeapStats { live: now, pages: used, .. } =
                    heap.stats_on_pages(&memories[0], page).map_err(damaged)?;
                (live, pages, looks) = (live + now as f64, pages + used as f64, looks + 1.0);
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
        Ok((live / looks, pages / looks))
    }
}
