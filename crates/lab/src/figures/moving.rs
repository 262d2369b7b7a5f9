//! Figures of the time that moving objects takes: programs that grow and shrink, on a simulated
//! machine, without defragmentation and with its protocols (FFCCD, ISCA'22, Figures 14 and 15).
//!
//! Thread 0 takes a step of a cycle after each of its operations, and all threads move what they
//! meet. The time of a run is that of its last thread. What threads say that their time is spent on
//! ([`Moving`]) yields the costs of copies and look-ups. Each mean time of a series is held, and
//! each single one.

use super::{FigureOptions, Kind, MeanBars, Numbers, PublishedValue, checked_each};
use crate::LabError;
use crate::cell::{Cell, Moving, Point, run_cell};
use crate::engine::jobs::Runner;
use seawall_any::workload as any_workload;
use seawall_report::{ReportError, ResultFile, plain_table, text_of};
use seawall_runtime::defrag::DefragOptions;
use seawall_sim::{Choice, Machine};
use seawall_workloads::{Cost, Flaw, Setup, WORKLOADS};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt::Write;

/// A quick look has this part of the entries.
const QUICK_DIVISOR: u64 = 5;
/// Phases: remove four fifths, put them back, remove four fifths.
const PHASES: u64 = 3;

/// A figure of the time that moving objects takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MovingFigure {
    /// Name on the command line.
    #[serde(skip)]
    pub name: String,
    #[serde(rename = "kind")]
    _kind: String,
    pub title: String,
    /// Where the paper says so.
    pub source: String,
    pub machine: String,
    /// The design without defragmentation.
    pub baseline: String,
    /// What transactions cost.
    #[serde(default, deserialize_with = "cost")]
    pub cost: Cost,
    /// Entries of each program at the start.
    pub entries: u64,
    /// As many as the paper has, for `--full`.
    pub full_entries: u64,
    /// How far from the paper's mean times ours may be, in points.
    pub tolerance: f64,
    /// Protocols, each with its hardware, the slowest first; behind them those that are no paper's.
    pub series: Vec<MovingSeries>,
    pub programs: Vec<MovingProgram>,
}

/// A protocol on its hardware.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MovingSeries {
    /// What it is called.
    pub name: String,
    pub design: String,
    /// When and how objects move.
    #[serde(deserialize_with = "options")]
    pub options: DefragOptions,
    /// The paper's mean time, with that without defragmentation as 1.
    pub paper: Option<f64>,
    /// As published: the steps between two checks, as a share of the entries at the start.
    pub check_share: Option<f64>,
    /// Its design without defragmentation, if that is another than the figure's.
    pub baseline: Option<String>,
    /// True for one that the paper does not have, or another reading of what it says: it has no
    /// place in the order, and is not held.
    #[serde(default)]
    pub is_ours: bool,
    /// The paper's costs of copies, in per cent less than those of the first series.
    pub copies_less: Option<f64>,
    /// The same of look-ups.
    pub look_ups_less: Option<f64>,
}

/// A program.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MovingProgram {
    /// What the paper calls it.
    pub name: String,
    pub workload: String,
    pub threads: usize,
    /// The paper's times of each of its series; empty where it has none.
    #[serde(default)]
    pub paper: Vec<f64>,
}

fn cost<'de, D: Deserializer<'de>>(text: D) -> Result<Cost, D::Error> {
    String::deserialize(text)?.parse().map_err(serde::de::Error::custom)
}

fn options<'de, D: Deserializer<'de>>(text: D) -> Result<DefragOptions, D::Error> {
    String::deserialize(text)?.parse().map_err(serde::de::Error::custom)
}

/// What was measured of a program under a series, as `--json` writes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MovingRecord {
    pub figure: String,
    /// The program, as the paper calls it.
    pub program: String,
    pub workload: String,
    pub series: String,
    pub threads: usize,
    /// Entries at the start.
    pub entries: u64,
    /// Seed of the operations.
    pub seed: u64,
    /// True if it was a quick look with fewer entries.
    pub quick: bool,
    /// Cycles of the run.
    pub cycles: u64,
    /// The same, with those without defragmentation as 1.
    pub time: f64,
    /// What moving took of it.
    #[serde(flatten)]
    pub moving: Moving,
    /// Bytes of pages for each live byte at the end.
    pub pages_a_byte: Option<f64>,
    /// The command that runs it again.
    pub command: String,
}

/// The record of a program with a series, if it was measured.
fn find<'a>(records: &[&'a MovingRecord], program: &str, series: &str) -> Option<&'a MovingRecord> {
    let mut all = records.iter().copied();
    all.find(|record| record.program == program && record.series == series)
}

impl Kind for MovingFigure {
    type Record = MovingRecord;

    fn check(&self) -> Result<(), String> {
        if self.programs.is_empty() || self.published().next().is_none() {
            return Err("it has no programs or no series; give at least one of each".into());
        }
        for MovingProgram { name, workload, paper, .. } in &self.programs {
            let entry = WORKLOADS.iter().find(|entry| entry.name == workload);
            if !entry.is_some_and(|entry| entry.moves) {
                return Err(format!("{name}: the objects of {workload} do not move"));
            }
            if !paper.is_empty() && paper.len() != self.published().count() {
                let wanted = "give a time of the paper for each of its series, or none";
                return Err(format!("{name}: {wanted}"));
            }
        }
        let machine = Machine::load(&self.machine).map_err(|error| error.to_string())?;
        let points = self.points(&FigureOptions::default()).map_err(|error| error.to_string())?;
        match points.iter().find(|point| point.threads > machine.core.count) {
            Some(point) => Err(format!("{}: more threads than cores", point.workload)),
            None => Ok(()),
        }
    }

    fn run(
        figures: &[&MovingFigure],
        options: &FigureOptions,
        runner: &Runner<'_>,
    ) -> Result<(Vec<MovingRecord>, bool), LabError> {
        let (mut records, mut is_whole) = (Vec::new(), true);
        for figure in figures {
            let machine = Machine::load(&figure.machine)?;
            let points = figure.points(options)?;
            let run = |point: &Point| run_cell(&machine, point, runner.stop);
            let cells = runner.all_kept(&format!("{machine:?}"), &points, run)?;
            is_whole &= cells.iter().all(Option::is_some);
            records.extend(figure.records(&cells, options));
        }
        Ok((records, is_whole))
    }

    fn holds(&self, records: &[&MovingRecord]) -> bool {
        records.len() == self.programs.len() * self.series.len()
            && self.published().all(|series| self.is_near(records, series))
            && self.far_bars(records).is_empty()
            && self.out_of_order(records).is_empty()
    }

    fn published_values(&self, records: &[&MovingRecord]) -> Vec<PublishedValue> {
        if records.is_empty() {
            return Vec::new();
        }
        let far = self.far_bars(records);
        // The tolerance is in per cent of the time without moving.
        let tolerance = self.tolerance / 100.0;
        let mean = |series: &MovingSeries| {
            let ours = Self::mean(records, &series.name, |record| record.time);
            let numbers = Numbers { paper: series.paper?, ours, tolerance };
            let holds = self.is_near(records, series);
            Some(PublishedValue::new(format!("{}, mean", series.name), numbers, holds))
        };
        let single = |(program, series, paper): (&MovingProgram, &str, f64)| {
            let value = format!("{series} of {}", program.name);
            let ours = find(records, &program.name, series)?.time;
            let holds = !far.contains(&value);
            Some(PublishedValue::new(value, Numbers { paper, ours, tolerance }, holds))
        };
        let singles = self.programs.iter().flat_map(|program| {
            let stated = self.published().zip(&program.paper);
            stated.map(move |(series, paper)| (program, &*series.name, *paper))
        });
        self.published().filter_map(mean).chain(singles.filter_map(single)).collect()
    }

    fn to_text(&self, records: &[&MovingRecord]) -> String {
        let MovingFigure { name, title, source, machine, tolerance, .. } = self;
        let mut text = format!("{name}: {title}\n  paper: {source}\n");
        let Some(MovingRecord { entries, seed, quick, .. }) = records.first() else {
            return text + "  nothing was measured\n\n";
        };
        let quick = if *quick { " (quick)" } else { "" };
        let _ = writeln!(
            text,
            "  ours:  {machine}, {entries} entries, three phases, seed {seed}{quick}; times are \
             relative to no\n         defragmentation, the paper's in brackets\n"
        );
        text += &self.times(records);
        text.push('\n');
        text += &self.means(records);
        text.push('\n');
        text += &self.rests(records);
        let far: Vec<&str> = self
            .published()
            .filter(|series| !self.is_near(records, series))
            .map(|series| &*series.name)
            .collect();
        let out = self.out_of_order(records);
        let means = match far[..] {
            [] => "all mean times hold".to_owned(),
            _ => format!("mean times of {} do NOT hold", far.join(", ")),
        };
        let order = match out[..] {
            [] => "each protocol is faster than the one before it in every program".to_owned(),
            _ => format!("the order of protocols is another in {}", out.join(", ")),
        };
        let bars = self.told_bars(records);
        let _ = writeln!(text, "\n  {means} (within {tolerance:.0} points);\n{bars}  {order}\n");
        text
    }

    fn plots(&self, records: &[&MovingRecord]) -> Result<Vec<ResultFile>, ReportError> {
        if records.is_empty() {
            return Ok(Vec::new());
        }
        let program = |program: &MovingProgram| {
            let time = |series: &MovingSeries| {
                let mut of = records.iter().filter(|record| record.program == program.name);
                Some(of.find(|record| record.series == series.name)?.time)
            };
            (program.name.clone(), self.published().map(time).collect())
        };
        let mean = |series: &MovingSeries| Self::mean(records, &series.name, |record| record.time);
        let bars = MeanBars {
            figure: &self.name,
            title: "time over no defragmentation",
            bars: self.published().map(|series| &*series.name).collect(),
            programs: self.programs.iter().map(program).collect(),
            published: self.published().map(|series| series.paper).collect(),
            means: self.published().map(|series| Some(mean(series))).collect(),
            reference: Some(1.0),
        };
        bars.draw()
    }
}

impl MovingFigure {
    /// For each program a point for each design without defragmentation, and one for each series.
    fn points(&self, options: &FigureOptions) -> Result<Vec<Point>, LabError> {
        let entries = match (options.is_quick, options.is_full) {
            (true, _) => self.entries.div_ceil(QUICK_DIVISOR),
            (_, true) => self.full_entries,
            _ => self.entries,
        };
        let mut points = Vec::new();
        for MovingProgram { workload, threads, .. } in &self.programs {
            let kind = any_workload(workload)?;
            let setup = Setup { entries, ..kind.setup(*threads) };
            let operations = kind.steps(&setup, threads - 1, PHASES).unwrap_or(0);
            let point = Point {
                workload: workload.clone(),
                design: Choice::parse(&self.baseline)?,
                threads: *threads,
                seed: options.seed,
                operations,
                warmup: 0,
                entries: Some(entries),
                search_percent: None,
                mix: None,
                ribbon: None,
                defragment: None,
                cost: self.cost,
                crashes: 0,
                flaw: Flaw::None,
                checked: false,
            };
            for baseline in self.baselines() {
                points.push(Point { design: Choice::parse(baseline)?, ..point.clone() });
            }
            for MovingSeries { design, options, check_share, .. } in &self.series {
                let defragment = Some(checked_each(*options, *check_share, entries));
                let design = Choice::parse(design)?;
                points.push(Point { design, defragment, ..point.clone() });
            }
        }
        Ok(points)
    }

    fn records(&self, cells: &[Option<Cell>], options: &FigureOptions) -> Vec<MovingRecord> {
        let mut records = Vec::new();
        let baselines = self.baselines();
        let groups = cells.chunks(baselines.len() + self.series.len());
        for (program, cells) in self.programs.iter().zip(groups) {
            let (without, with) = cells.split_at(baselines.len());
            for (series, cell) in self.series.iter().zip(with) {
                let its = series.baseline.as_deref().unwrap_or(&self.baseline);
                let place = baselines.iter().position(|name| *name == its).unwrap_or(0);
                let (Some(baseline), Some(cell)) = (&without[place], cell) else { continue };
                records.push(MovingRecord {
                    figure: self.name.clone(),
                    program: program.name.clone(),
                    workload: program.workload.clone(),
                    series: series.name.clone(),
                    threads: program.threads,
                    entries: cell.point.entries.unwrap_or(0),
                    seed: options.seed,
                    quick: options.is_quick,
                    cycles: cell.cycles,
                    time: cell.cycles as f64 / baseline.cycles as f64,
                    moving: cell.moving.expect("it defragments"),
                    pages_a_byte: cell.pages_a_byte,
                    command: cell.command(&self.machine),
                });
            }
        }
        records
    }

    /// The mean of something over the programs under a series.
    fn mean(records: &[&MovingRecord], series: &str, of: impl Fn(&MovingRecord) -> f64) -> f64 {
        let all: Vec<f64> =
            records.iter().filter(|record| record.series == series).map(|r| of(r)).collect();
        all.iter().sum::<f64>() / all.len().max(1) as f64
    }

    /// How much less than the first series a series spends on something, in per cent.
    fn less(
        &self,
        records: &[&MovingRecord],
        series: &str,
        of: impl Fn(&MovingRecord) -> f64,
    ) -> f64 {
        let first = Self::mean(records, &self.series[0].name, &of);
        100.0 * (1.0 - Self::mean(records, series, &of) / first.max(f64::MIN_POSITIVE))
    }

    fn is_near(&self, records: &[&MovingRecord], series: &MovingSeries) -> bool {
        let mean = Self::mean(records, &series.name, |record| record.time);
        series.paper.is_none_or(|paper| 100.0 * (mean - paper).abs() <= self.tolerance)
    }

    /// How many of the paper's single times hold, in a line; nothing if none are published.
    fn told_bars(&self, records: &[&MovingRecord]) -> String {
        let far = self.far_bars(records);
        let bars = self.programs.iter().map(|program| program.paper.len()).sum::<usize>();
        match far[..] {
            [] if bars == 0 => String::new(),
            [] => format!("  all {bars} single times hold;\n"),
            _ => {
                let held = bars - far.len();
                format!("  {held} of {bars} single times hold, not {};\n", far.join(",\n  "))
            }
        }
    }

    /// Single times of the paper that ours are not near.
    fn far_bars(&self, records: &[&MovingRecord]) -> Vec<String> {
        let mut far = Vec::new();
        for program in &self.programs {
            for (series, paper) in self.published().zip(&program.paper) {
                let ours = find(records, &program.name, &series.name);
                if !ours.is_some_and(|ours| 100.0 * (ours.time - paper).abs() <= self.tolerance) {
                    far.push(format!("{} of {}", series.name, program.name));
                }
            }
        }
        far
    }

    /// The designs without defragmentation, the figure's first.
    fn baselines(&self) -> Vec<&str> {
        let mut all = vec![&*self.baseline];
        for other in self.series.iter().filter_map(|series| series.baseline.as_deref()) {
            if !all.contains(&other) {
                all.push(other);
            }
        }
        all
    }

    /// Without what the paper does not have, and other readings.
    pub(super) fn keep_what_is_held(&mut self) {
        self.series.retain(|series| !series.is_ours);
    }

    fn published(&self) -> impl Iterator<Item = &MovingSeries> {
        self.series.iter().filter(|series| !series.is_ours)
    }

    /// Programs for which a series of the paper takes longer than the one before it.
    fn out_of_order(&self, records: &[&MovingRecord]) -> Vec<String> {
        let time = |program: &str, series: &str| {
            find(records, program, series).map_or(0.0, |record| record.time)
        };
        let is_out = |program: &&MovingProgram| {
            let times: Vec<f64> =
                self.published().map(|series| time(&program.name, &series.name)).collect();
            times.windows(2).any(|pair| pair[0] < pair[1])
        };
        self.programs.iter().filter(is_out).map(|program| program.name.clone()).collect()
    }

    /// The time of each program under each series, the paper's in brackets: a row for each program,
    /// or for each series if those are more.
    fn times(&self, records: &[&MovingRecord]) -> String {
        let cell = |program: &MovingProgram, place: usize| {
            let series = &self.series[place].name;
            let of = |record: &&&MovingRecord| {
                record.program == program.name && record.series == *series
            };
            let ours = records.iter().find(of).map_or("-".into(), |r| format!("{:.3}", r.time));
            let paper = program.paper.get(place);
            ours + &paper.map_or(String::new(), |time| format!(" ({time:.3})"))
        };
        let series: Vec<&str> = self.series.iter().map(|series| &*series.name).collect();
        let programs: Vec<&str> = self.programs.iter().map(|program| &*program.name).collect();
        let by_series = series.len() > programs.len();
        let (rows, columns) = if by_series { (&series, &programs) } else { (&programs, &series) };
        let head = [if by_series { "series" } else { "program" }];
        let head: Vec<&str> = head.into_iter().chain(columns.iter().copied()).collect();
        let mut table = plain_table(&head, 1..head.len());
        for (number, row) in rows.iter().enumerate() {
            let of = |column| match by_series {
                true => cell(&self.programs[column], number),
                false => cell(&self.programs[number], column),
            };
            let mut cells = vec![(*row).to_owned()];
            cells.extend((0..columns.len()).map(of));
            table.add_row(cells);
        }
        text_of(&table)
    }

    /// A row for each series: what it takes on the mean, beside what the paper says.
    fn means(&self, records: &[&MovingRecord]) -> String {
        let head = [
            "mean of",
            "time",
            "paper",
            "copies %",
            "less %",
            "paper",
            "look-ups %",
            "less %",
            "paper",
            "rest %",
            "pages/live",
        ];
        let mut table = plain_table(&head, 1..head.len());
        let stated = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.0}"));
        for series in &self.series {
            let mean = |of: fn(&MovingRecord) -> f64| Self::mean(records, &series.name, of);
            let less = |of: fn(&MovingRecord) -> f64| self.less(records, &series.name, of);
            table.add_row(vec![
                series.name.clone(),
                format!("{:.3}", mean(|record| record.time)),
                series.paper.map_or("-".into(), |paper| format!("{paper:.3}")),
                format!("{:.1}", mean(|record| record.moving.copy)),
                format!("{:.0}", less(|record| record.moving.copy)),
                stated(series.copies_less),
                format!("{:.1}", mean(|record| record.moving.look_up)),
                format!("{:.0}", less(|record| record.moving.look_up)),
                stated(series.look_ups_less),
                format!("{:.1}", mean(|record| record.moving.rest())),
                format!("{:.2}", mean(|record| record.pages_a_byte.unwrap_or(0.0))),
            ]);
        }
        text_of(&table)
    }

    /// What the rest of each series is.
    fn rests(&self, records: &[&MovingRecord]) -> String {
        let head = ["the rest of", "mark %", "plan %", "heal %", "release %"];
        let mut table = plain_table(&head, 1..head.len());
        for series in &self.series {
            let mean = |of: fn(&Moving) -> f64| {
                format!("{:.1}", Self::mean(records, &series.name, |record| of(&record.moving)))
            };
            table.add_row(vec![
                series.name.clone(),
                mean(|moving| moving.mark),
                mean(|moving| moving.plan),
                mean(|moving| moving.heal),
                mean(|moving| moving.release),
            ]);
        }
        text_of(&table)
    }
}
