//! How fast the simulator itself is: simulated references per second of CPU time, and how much
//! longer a reference takes than on a toy machine that does a little, fixed work for each.
//!
//! Each point runs a few times without checks on one host thread, in turns with the toy, which runs
//! the same program; the medians count. Rates differ by half between hosts, and between minutes on
//! a shared one; the ratio to the toy does not. The program that gem5 was timed with runs last,
//! beside what gem5 needed for it. Instructions are what Valgrind counts.

use crate::LabError;
use crate::MACHINE;
use crate::cell::{Point, run_cell};
use crate::commands::compare::plan::{CompareOptions, Plan};
use crate::engine::gem5::{Gem5, Gem5Speed};
use crate::engine::options::{default_options, in_range, listed_name};
use clap::Args;
use seawall_report::{
    Experiment, Files, Finished, Form, Progress, Report, json_lines, plain_table, text_of,
};
use seawall_sim::{Choice, Machine, SimError};
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

mod cc;
mod dimms;
mod instructions;

pub use cc::record::{CcRecord, NativeRecord, RecoveryRecord, SimulatedRecord, Spread};
pub use cc::{CcBench, CcBenchOptions};
pub use dimms::{DimmBench, DimmBenchOptions, DimmSpeed, Pattern};

/// The workload of the comparison with gem5, and the design that it runs under.
const GEM5: (&str, &str) = ("ht", "clwb");

/// What to time.
#[derive(Clone, Debug, Args)]
pub struct BenchOptions {
    /// Workloads, separated by commas [default: those of MICRO'15, or what the machine says]
    #[arg(long, short, value_delimiter = ',', value_parser = listed_name, value_name = "NAMES")]
    pub workloads: Vec<String>,
    /// Designs, separated by commas [default: all]
    #[arg(long, short, value_delimiter = ',', value_parser = listed_name, value_name = "DESIGNS")]
    pub designs: Vec<String>,
    /// Numbers of simulated cores
    #[arg(long, value_delimiter = ',', default_value = "1,32", value_name = "NUMBERS")]
    pub cores: Vec<usize>,
    /// Machine, or the path of a .toml file, each with :KEY=VALUE for other numbers
    #[arg(long, short, default_value = MACHINE, value_name = "NAME")]
    pub machine: String,
    /// Runs of each point, of which the median counts
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub runs: usize,
    /// References of a run, about
    #[arg(long, default_value_t = 2_000_000, value_name = "N")]
    pub references: u64,
    /// Count the host's instructions for a reference, too, with Valgrind, which takes a minute each
    #[arg(long)]
    pub instructions: bool,
    /// Run each point once and nothing else, and print its references
    #[arg(long, hide = true)]
    pub alone: bool,
    /// Write a JSON record per point to this file [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

default_options!(BenchOptions);

/// The speed of one point, as `--json` writes it.
#[derive(Clone, Debug, Serialize)]
pub struct SpeedRecord {
    pub workload: String,
    pub design: String,
    pub cores: usize,
    /// Simulated references per second of CPU time, the median of the runs.
    pub references_per_second: f64,
    /// References of a run.
    pub references: u64,
    /// The slowest and the fastest run, in the same unit.
    pub range: [f64; 2],
    /// The CPU time of a reference over that on the toy machine, the median of the pairs of runs.
    pub times_the_toy: f64,
    /// The least and the largest of the pairs.
    pub toy_range: [f64; 2],
    /// Instructions of the host for a reference, if they were counted.
    pub instructions_per_reference: Option<f64>,
    pub runs: usize,
    pub machine: String,
    /// What gem5 does with the same program, where that was measured.
    pub gem5_references_per_second: Option<f64>,
}

/// The speed of the simulator on this host.
#[derive(Clone, Debug)]
pub struct Bench {
    records: Vec<SpeedRecord>,
    /// References of the points, if they ran alone.
    alone: Option<u64>,
    /// Most memory that this process has had in use, in bytes, if the system reports it.
    pub peak_bytes: Option<u64>,
    /// True if it was stopped before all was timed.
    pub is_partial: bool,
}

impl Bench {
    /// The speeds, in the order in which they were measured.
    pub fn records(&self) -> &[SpeedRecord] {
        &self.records
    }

    /// A table for people.
    pub fn to_text(&self) -> String {
        if let Some(references) = self.alone {
            return format!("{} {references}\n", instructions::ALONE);
        }
        let mut text = String::from(
            "simulated references per second of CPU time, in millions; the time of one over that \
             on a toy machine\n\n",
        );
        let counted = self.records.iter().any(|record| record.instructions_per_reference.is_some());
        let mut table = plain_table(&SpeedRecord::columns(counted), 2..8);
        let (gem5, own): (Vec<_>, Vec<_>) =
            self.records.iter().partition(|record| record.gem5_references_per_second.is_some());
        for record in own {
            table.add_row(record.row(counted));
        }
        text += &text_of(&table);
        text += &gem5_text(&gem5, counted);
        if let Some(bytes) = self.peak_bytes {
            let _ = writeln!(text, "\npeak resident memory {} MB", bytes / 1_000_000);
        }
        if self.is_partial {
            text += "PARTIAL: stopped before everything was timed\n";
        }
        text
    }
}

fn gem5_text(records: &[&SpeedRecord], counted: bool) -> String {
    let (workload, design) = GEM5;
    let mut text = format!(
        "\n{workload} under {design}, the program that gem5 was timed with; its figures were \
         measured elsewhere\n(validation/gem5.md), with {}\n\n",
        Gem5::read().what
    );
    let mut head = SpeedRecord::columns(counted);
    head.extend(["gem5", "times faster"]);
    let mut table = plain_table(&head, 2..10);
    for record in records {
        let gem5 = record.gem5_references_per_second.unwrap_or(f64::NAN);
        let mut row = record.row(counted);
        row.push(format!("{:.4}", gem5 / 1e6));
        row.push(format!("{:.0}", record.references_per_second / gem5));
        table.add_row(row);
    }
    text += &text_of(&table);
    text
}

impl SpeedRecord {
    fn columns(counted: bool) -> Vec<&'static str> {
        let mut columns = vec!["workload", "design", "cores", "median", "range", "of toy", "range"];
        columns.extend(counted.then_some("instr."));
        columns
    }

    fn row(&self, counted: bool) -> Vec<String> {
        let range = |[from, to]: [f64; 2]| format!("{from:.1}..{to:.1}");
        let mut row = vec![self.workload.clone(), self.design.clone(), self.cores.to_string()];
        row.push(format!("{:.1}", self.references_per_second / 1e6));
        row.push(range(self.range.map(|speed| speed / 1e6)));
        row.push(format!("{:.1}", self.times_the_toy));
        row.push(range(self.toy_range));
        let instructions = |each| format!("{each:.0}");
        row.extend(
            counted.then(|| self.instructions_per_reference.map_or("-".into(), instructions)),
        );
        row
    }
}

fn plan(
    options: &BenchOptions,
    workloads: Vec<String>,
    designs: Vec<String>,
    cores: usize,
) -> Result<Plan, LabError> {
    let mut plan = Plan::new(&CompareOptions {
        workloads,
        designs,
        machine: options.machine.clone(),
        threads: Some(cores),
        crashes: 0,
        ..CompareOptions::default()
    })?;
    for point in &mut plan.points {
        point.checked = false;
        point.warmup = 0;
        point.operations = 32;
    }
    Ok(plan)
}

/// `point` with as many operations as give about so many references.
fn sized(
    machine: &Machine,
    point: &Point,
    references: u64,
    stop: &Arc<AtomicBool>,
) -> Result<Point, LabError> {
    let sample = run_cell(machine, point, stop)?;
    let each = sample.counters.references.max(1) / point.operations;
    Ok(Point { operations: (references / each.max(1)).max(1), ..point.clone() })
}

/// A run: its references, and how many it simulates in a second of CPU time.
fn speed(machine: &Machine, point: &Point, stop: &Arc<AtomicBool>) -> Result<(u64, f64), LabError> {
    let cell = run_cell(machine, point, stop)?;
    let references = cell.counters.references;
    Ok((references, references as f64 / cell.host.as_secs_f64().max(1e-9)))
}

/// The median of the numbers, which it sorts, the least and the largest.
fn spread(numbers: &mut [f64]) -> (f64, [f64; 2]) {
    numbers.sort_by(f64::total_cmp);
    (numbers[numbers.len() / 2], [numbers[0], numbers[numbers.len() - 1]])
}

/// Runs `point` with as many operations as give the wanted references, several times, in turns with
/// the toy.
fn time(
    machine: &Machine,
    point: &Point,
    options: &BenchOptions,
    stop: &Arc<AtomicBool>,
) -> Result<SpeedRecord, LabError> {
    let point = sized(machine, point, options.references, stop)?;
    let toy = Point { design: Choice::toy(), ..point.clone() };
    let (mut speeds, mut ratios) = (Vec::new(), Vec::new());
    let mut references = 0;
    for _ in 0..options.runs {
        let (all, full) = speed(machine, &point, stop)?;
        let (_, toy) = speed(machine, &toy, stop)?;
        references = all;
        speeds.push(full);
        ratios.push(toy / full);
    }
    let (references_per_second, range) = spread(&mut speeds);
    let (times_the_toy, toy_range) = spread(&mut ratios);
    let counted = options.instructions.then(|| instructions::per_reference(&point, options, stop));
    let is_gem5 = (&*point.workload, &*point.design.text) == GEM5;
    let gem5 = Gem5::read().speed.into_iter();
    let gem5 = gem5.filter(|_| is_gem5).find(|speed| speed.cores == point.threads);
    Ok(SpeedRecord {
        workload: point.workload.clone(),
        design: point.design.text.clone(),
        cores: point.threads,
        references_per_second,
        references,
        range,
        times_the_toy,
        toy_range,
        instructions_per_reference: counted.transpose()?,
        runs: options.runs,
        machine: options.machine.clone(),
        gem5_references_per_second: gem5.map(|speed| speed.references_per_second),
    })
}

/// Runs each point once, and nothing else.
fn alone(
    machine: &Machine,
    points: &[Point],
    options: &BenchOptions,
    stop: &Arc<AtomicBool>,
) -> Result<Bench, LabError> {
    let mut references = 0;
    for point in points {
        let point = sized(machine, point, options.references, stop)?;
        references += run_cell(machine, &point, stop)?.counters.references;
    }
    Ok(Bench { records: Vec::new(), alone: Some(references), peak_bytes: None, is_partial: false })
}

/// The high-water mark of this process's resident memory, as Linux reports it.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

impl Experiment for BenchOptions {
    type Plan = BenchOptions;
    type Report = Bench;
    type Error = LabError;

    fn plan(&self) -> Result<BenchOptions, LabError> {
        Ok(self.clone())
    }

    fn files(&self, _: &BenchOptions) -> Files {
        Files::new()
            .reads("--machine", Machine::base(&self.machine))
            .results(Form::Json, &self.json)
    }

    fn run(
        options: BenchOptions,
        progress: &Progress,
        stop: &Arc<AtomicBool>,
    ) -> Result<Bench, LabError> {
        in_range("--runs", options.runs as u64, 1, 1000)?;
        in_range("--references", options.references, 1000, 1 << 40)?;
        if options.instructions {
            instructions::check()?;
        }
        let mut points = Vec::new();
        for &cores in &options.cores {
            let timed = plan(&options, options.workloads.clone(), options.designs.clone(), cores)?;
            points.extend(timed.points);
        }
        let machine = Machine::load(&options.machine)?;
        if options.alone {
            return alone(&machine, &points, &options, stop);
        }
        let most = machine.core.count;
        let (workload, design) = GEM5;
        for Gem5Speed { cores, .. } in Gem5::read().speed {
            if cores <= most {
                let alone = plan(&options, vec![workload.into()], vec![design.into()], cores)?;
                points.extend(alone.points);
            }
        }
        progress.start(points.iter().map(|point| &*point.workload));
        let mut records = Vec::new();
        let mut is_partial = false;
        for point in &points {
            match time(&machine, point, &options, stop) {
                Err(LabError::Sim(SimError::Stopped)) => {
                    is_partial = true;
                    break;
                }
                record => records.push(record?),
            }
            progress.cell_done(&point.workload, &point.design.text);
        }
        progress.end();
        Ok(Bench { records, alone: None, peak_bytes: peak_bytes(), is_partial })
    }
}

impl Report for Bench {
    fn text(&self) -> String {
        self.to_text()
    }

    fn finished(&self) -> Finished {
        Finished::of(self.is_partial, self.records.is_empty())
    }

    fn json(&self) -> String {
        json_lines(&self.records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_of_gem5_can_be_read() {
        let gem5 = Gem5::read();
        assert!(gem5.what.contains("gem5"));
        let cores: Vec<usize> = gem5.speed.iter().map(|speed| speed.cores).collect();
        assert_eq!(cores, [1, 4, 32]);
    }

    #[test]
    fn a_small_benchmark_times_each_point_and_the_program_of_gem5() {
        let options = BenchOptions {
            workloads: vec!["queue".into()],
            designs: vec!["lbpp".into()],
            cores: vec![2],
            machine: "desktop".into(),
            runs: 3,
            references: 2000,
            instructions: false,
            alone: false,
            json: None,
        };
        let bench = BenchOptions::run(options, &Progress::hidden(), &Arc::default()).unwrap();
        let points: Vec<(&str, usize)> =
            bench.records().iter().map(|record| (&*record.workload, record.cores)).collect();
        assert_eq!(points, [("queue", 2), ("ht", 1), ("ht", 4)]);
        for record in bench.records() {
            let [slowest, fastest] = record.range;
            assert!(slowest > 0.0 && slowest <= record.references_per_second);
            assert!(record.references_per_second <= fastest);
            assert!(record.references >= 1000, "{record:?}");
            let [least, most] = record.toy_range;
            assert!(0.0 < least && least <= record.times_the_toy && record.times_the_toy <= most);
        }
        let text = bench.to_text();
        assert!(text.contains("gem5") && text.contains("peak resident memory"), "{text}");
    }
}
