//! How fast the model of Optane-like DIMMs is alone: requests per second of CPU time.
//!
//! One DIMM gets reads and writes of 64 bytes over 256 MiB, each when an earlier one of sixteen has
//! been answered, so that its queues are full and nothing else is timed. Beside it stands what the
//! public simulator of such DIMMs was measured to do with the same patterns.

use crate::LabError;
use crate::cell::cpu_time;
use crate::engine::options::{default_options, in_range};
use clap::Args;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_report::{Experiment, Files, Form, Progress, Report, json_lines, plain_table, text_of};
use seawall_sim::{Cycle, Machine, MemoryConfig, XpDimms};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// SiteLines of 64 bytes in 256 MiB.
const LINES: u64 = 1 << 22;
const OUTSTANDING: usize = 16;

/// The order in which lines are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Reads from one end to the other.
    SequentialReads,
    /// Writes from one end to the other.
    SequentialWrites,
    /// Reads anywhere.
    RandomReads,
    /// Writes anywhere.
    RandomWrites,
    /// Half reads, half writes, anywhere.
    RandomMixed,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vans {
    what: String,
    speed: Vec<VansSpeed>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VansSpeed {
    pattern: Pattern,
    requests_per_second: f64,
}

impl Vans {
    fn read() -> Vans {
        let text = include_str!("../../../validation/vans.toml");
        toml::from_str(text).expect("a test reads validation/vans.toml")
    }
}

/// What to time.
#[derive(Clone, Debug, Args)]
pub struct DimmBenchOptions {
    /// Machine with such DIMMs, or the path of a .toml file
    #[arg(long, short, default_value = "optane24", value_name = "NAME")]
    pub machine: String,
    /// Runs of each pattern, of which the median counts
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub runs: usize,
    /// Requests of a run
    #[arg(long, default_value_t = 2_000_000, value_name = "N")]
    pub requests: u64,
    /// Seed of the random lines
    #[arg(skip = 1_u64)]
    pub seed: u64,
    /// Write a JSON record per pattern to this file [if stopped: none]
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

default_options!(DimmBenchOptions);

/// The speed with one pattern, as `--json` writes it.
#[derive(Clone, Debug, Serialize)]
pub struct DimmSpeed {
    /// The order of the requests.
    pub pattern: Pattern,
    /// Requests per second of CPU time, the median of the runs.
    pub requests_per_second: f64,
    /// The slowest and the fastest run.
    pub range: [f64; 2],
    /// Simulated nanoseconds for each request.
    pub simulated_ns: f64,
    /// Requests of a run.
    pub requests: u64,
    /// What the other simulator was measured to do.
    pub vans_requests_per_second: f64,
}

/// The speed of the DIMMs' model on this host.
#[derive(Clone, Debug)]
pub struct DimmBench {
    records: Vec<DimmSpeed>,
}

impl DimmBench {
    /// The speeds, a record for each pattern.
    pub fn records(&self) -> &[DimmSpeed] {
        &self.records
    }

    /// A table for people.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "requests of 64 bytes to one DIMM, per second of CPU time, in thousands; the other \
             simulator\n(measured elsewhere) is {}\n\n",
            Vans::read().what
        );
        let head = ["requests", "median", "range", "simulated", "VANS", "times faster"];
        let mut table = plain_table(&head, 1..6);
        for record in &self.records {
            let thousands = |speed: f64| format!("{:.0}", speed / 1e3);
            let [slowest, fastest] = record.range;
            table.add_row(vec![
                record.pattern.name().to_owned(),
                thousands(record.requests_per_second),
                format!("{}..{}", thousands(slowest), thousands(fastest)),
                format!("{:.1} ns", record.simulated_ns),
                format!("{:.1}", record.vans_requests_per_second / 1e3),
                format!("{:.0}", record.requests_per_second / record.vans_requests_per_second),
            ]);
        }
        text += &text_of(&table);
        text
    }
}

impl Pattern {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::SequentialReads => "sequential reads",
            Pattern::SequentialWrites => "sequential writes",
            Pattern::RandomReads => "random reads",
            Pattern::RandomWrites => "random writes",
            Pattern::RandomMixed => "random, half writes",
        }
    }

    /// The line of request `number`, and whether it is written.
    fn request(self, number: u64, random: &mut Xoshiro256PlusPlus) -> (u64, bool) {
        match self {
            Pattern::SequentialReads => (number % LINES, false),
            Pattern::SequentialWrites => (number % LINES, true),
            Pattern::RandomReads => (random.random_range(0..LINES), false),
            Pattern::RandomWrites => (random.random_range(0..LINES), true),
            Pattern::RandomMixed => (random.random_range(0..LINES), random.random()),
        }
    }
}

fn time(
    memory: &MemoryConfig,
    ghz: f64,
    other: &VansSpeed,
    options: &DimmBenchOptions,
) -> DimmSpeed {
    let pattern = other.pattern;
    let mut speeds = Vec::new();
    let mut cycles = 0;
    for _ in 0..options.runs {
        let before = cpu_time();
        cycles = black_box(drive(memory, pattern, options));
        let took = (cpu_time() - before).as_secs_f64();
        speeds.push(options.requests as f64 / took.max(1e-9));
    }
    speeds.sort_by(f64::total_cmp);
    DimmSpeed {
        pattern,
        requests_per_second: speeds[speeds.len() / 2],
        range: [speeds[0], speeds[speeds.len() - 1]],
        simulated_ns: cycles as f64 / ghz / options.requests as f64,
        requests: options.requests,
        vans_requests_per_second: other.requests_per_second,
    }
}

/// Sends all requests; returns when the last has been answered.
fn drive(memory: &MemoryConfig, pattern: Pattern, options: &DimmBenchOptions) -> Cycle {
    let Some(mut dimm) = XpDimms::new(memory) else { return 0 };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(options.seed);
    let mut answered = [0; OUTSTANDING];
    let mut at = 0;
    for number in 0..options.requests {
        let (line, is_write) = pattern.request(number, &mut random);
        let slot = &mut answered[number as usize % OUTSTANDING];
        at = (at + 1).max(*slot);
        *slot = if is_write { dimm.write(line, at).accepted } else { dimm.read(line, at) };
    }
    answered.into_iter().max().unwrap_or(0)
}

impl Experiment for DimmBenchOptions {
    type Plan = DimmBenchOptions;
    type Report = DimmBench;
    type Error = LabError;

    fn plan(&self) -> Result<DimmBenchOptions, LabError> {
        Ok(self.clone())
    }

    fn files(&self, _: &DimmBenchOptions) -> Files {
        Files::without_partial()
            .reads("--machine", Machine::base(&self.machine))
            .results(Form::Json, &self.json)
    }

    fn run(
        options: DimmBenchOptions,
        _: &Progress,
        _: &Arc<AtomicBool>,
    ) -> Result<DimmBench, LabError> {
        in_range("--runs", options.runs as u64, 1, 1000)?;
        in_range("--requests", options.requests, 1000, 1 << 40)?;
        let machine = Machine::load(&options.machine)?;
        let mut memory = machine.memory.clone();
        let Some(dimms) = &mut memory.nvm.dimms else {
            return Err(LabError::Option {
                option: "--machine",
                value: options.machine.clone(),
                valid: "a machine with the table memory.nvm.dimms, as optane24".into(),
            });
        };
        dimms.count = 1;
        let speeds = Vans::read().speed.into_iter();
        let records = speeds.map(|other| time(&memory, machine.ghz, &other, &options));
        Ok(DimmBench { records: records.collect() })
    }
}

impl Report for DimmBench {
    fn text(&self) -> String {
        self.to_text()
    }

    fn json(&self) -> String {
        json_lines(&self.records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_timed_and_takes_the_simulated_time_that_it_should() {
        let options = DimmBenchOptions { runs: 1, requests: 20_000, ..DimmBenchOptions::default() };
        let bench =
            DimmBenchOptions::run(options.clone(), &Progress::hidden(), &Arc::default()).unwrap();
        assert_eq!(bench.records().len(), 5);
        let of = |pattern| {
            let found = bench.records().iter().find(|record| record.pattern == pattern);
            found.unwrap().simulated_ns
        };
        let ratio = of(Pattern::RandomWrites) / of(Pattern::SequentialWrites);
        assert!((3.8..4.2).contains(&ratio), "{ratio}");
        assert!(of(Pattern::RandomReads) > of(Pattern::SequentialReads));
        assert!(bench.to_text().contains("VANS"));
    }

    #[test]
    fn a_machine_without_dimms_is_named_with_what_to_give() {
        let options = DimmBenchOptions { machine: "desktop".into(), ..DimmBenchOptions::default() };
        let error = DimmBenchOptions::run(options.clone(), &Progress::hidden(), &Arc::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains("desktop") && error.contains("optane24"), "{error}");
    }
}
