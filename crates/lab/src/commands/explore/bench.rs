//! How fast the explorer is: runs of recovery and crash states per second of one core.
//!
//! Three programs of the corpus crate and the workloads, each explored on one host thread, a few
//! times; the median counts. The B+-tree stands beside what Jaaru needs for the tree that it is
//! modelled after. At the end the tree grows until it cannot be explored exhaustively in the time
//! given.

use super::case::CaseTarget;
use super::target::{Target, WorkloadTarget};
use super::{ExploreError, ExploreOptions};
use crate::cell::cpu_time;
use crate::engine::options::default_options;
use clap::Args;
use seawall_any::workload;
use seawall_explore::{Model, Reached, Schedule, Search, SearchOutcome, search_watched};
use seawall_report::{
    Experiment, Files, Finished, Form, Progress, Report, json_lines, plain_table, text_of,
};
use serde::Serialize;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What Jaaru was measured to need.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Jaaru {
    what: String,
    run: Vec<JaaruRun>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct JaaruRun {
    inserts: u64,
    executions: u64,
    seconds: f64,
}

impl Jaaru {
    fn read() -> Jaaru {
        let text = include_str!("../../../validation/jaaru.toml");
        toml::from_str(text).expect("a test reads validation/jaaru.toml")
    }
}

/// What to time.
#[derive(Clone, Debug, Args)]
pub struct ExploreBenchOptions {
    /// Seconds that the exploration of the largest tree may take
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub seconds: u64,
    /// Write a JSON record per program to this file [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

default_options!(ExploreBenchOptions);

/// A program under a model.
#[derive(Clone, Debug, Serialize)]
pub struct ExploreSpeed {
    pub program: String,
    /// Operations that it does.
    pub operations: u64,
    pub model: Model,
    pub points: u64,
    /// Crash states that recovery can tell apart, over all points.
    pub states: u64,
    pub runs: u64,
    /// CPU time of one exploration, in seconds.
    pub seconds: f64,
    /// Runs of recovery in a second.
    pub runs_per_second: f64,
    /// Crash states in a second.
    pub states_per_second: f64,
    /// True if every state was looked at.
    pub complete: bool,
    pub coverage: String,
    /// Executions and seconds that Jaaru needs, where that was measured.
    pub jaaru: Option<(u64, f64)>,
}

/// The speed of the explorer.
#[derive(Debug)]
pub struct ExploreBench {
    rows: Vec<ExploreSpeed>,
    largest: Option<ExploreSpeed>,
    /// Time that the largest may take.
    limit: Duration,
    /// True if it was stopped.
    pub is_partial: bool,
}

/// Explorations of each program; the median counts.
const REPEATS: usize = 5;

/// An exploration that takes longer is not repeated.
const REPEATED_BELOW: Duration = Duration::from_secs(1);

impl ExploreBench {
    /// The table.
    pub fn to_text(&self) -> String {
        let head = [
            "program",
            "operations",
            "model",
            "points",
            "states",
            "runs",
            "ms",
            "runs/s",
            "states/s",
            "Jaaru: executions",
            "s",
        ];
        let mut table = plain_table(&head, 1..11);
        for row in &self.rows {
            let (executions, seconds) = match row.jaaru {
                Some((executions, seconds)) => (executions.to_string(), seconds.to_string()),
                None => Default::default(),
            };
            let name =
                if row.complete { row.program.clone() } else { format!("{} *", row.program) };
            table.add_row([
                name,
                row.operations.to_string(),
                row.model.to_string(),
                row.points.to_string(),
                row.states.to_string(),
                row.runs.to_string(),
                format!("{:.2}", row.seconds * 1e3),
                format!("{:.0}", row.runs_per_second),
                format!("{:.0}", row.states_per_second),
                executions,
                seconds,
            ]);
        }
        let mut text = "exploring on one core: CPU time, median\n\n".to_owned() + &text_of(&table);
        text += "\nstates: crash states that recovery can tell apart, over all failure points\n\
                 runs: of recovery; other states agree with one of these in all that was read\n";
        if self.rows.iter().any(|row| !row.complete) {
            text += "*: not every state was looked at; `seawall explore` says how far it goes\n";
        }
        let _ = writeln!(text, "Jaaru: measured elsewhere ({})", Jaaru::read().what);
        if let Some(largest) = &self.largest {
            let ExploreSpeed { operations, points, states, runs, seconds, .. } = largest;
            let _ = writeln!(
                text,
                "largest tree tried that was explored completely within {:.0} s: {operations} \
                 inserts ({points} points, {states} states, {runs} runs, {seconds:.2} s)",
                self.limit.as_secs_f64()
            );
        }
        text
    }
}

fn measured(
    name: &str,
    ops: u64,
    model: Model,
    stop: &AtomicBool,
) -> Result<ExploreSpeed, ExploreError> {
    let target = CaseTarget::named(name, true, ops).expect("a name of the table");
    time(&target, ops, model, stop)
}

/// Explores the program a few times on this thread.
fn time(
    target: &dyn Target,
    operations: u64,
    model: Model,
    stop: &AtomicBool,
) -> Result<ExploreSpeed, ExploreError> {
    let run = target.record(&Schedule { threads: target.threads(), ..Schedule::default() })?;
    let search = Search { point_limit: u64::MAX >> 1, ..Search::new(model) };
    let mut times = Vec::new();
    let mut outcome = SearchOutcome::of(model);
    while times.len() < REPEATS {
        let start = cpu_time();
        outcome = search_watched(&run.trace, &search, &run.check, &mut |_| {
            if stop.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        times.push(cpu_time().saturating_sub(start));
        if times[0] > REPEATED_BELOW || outcome.stopped {
            break;
        }
    }
    times.sort_unstable();
    let seconds = times[times.len() / 2].as_secs_f64().max(1e-9);
    Ok(ExploreSpeed {
        program: target.name(),
        operations,
        model,
        points: outcome.points,
        states: outcome.states,
        runs: outcome.runs,
        seconds,
        runs_per_second: outcome.runs as f64 / seconds,
        states_per_second: outcome.states as f64 / seconds,
        complete: outcome.reached == Reached::Complete && outcome.finding.is_none(),
        coverage: outcome.to_string(),
        jaaru: None,
    })
}

impl Experiment for ExploreBenchOptions {
    type Plan = Duration;
    type Report = ExploreBench;
    type Error = ExploreError;

    fn plan(&self) -> Result<Duration, ExploreError> {
        Ok(Duration::from_secs(self.seconds))
    }

    fn files(&self, _: &Duration) -> Files {
        Files::new().results(Form::Json, &self.json)
    }

    fn run(
        limit: Duration,
        _: &Progress,
        stop: &Arc<AtomicBool>,
    ) -> Result<ExploreBench, ExploreError> {
        let mut bench = ExploreBench { rows: Vec::new(), largest: None, limit, is_partial: false };
        for JaaruRun { inserts, executions, seconds } in Jaaru::read().run {
            let row = measured("fast-fair", inserts, Model::Px86, stop)?;
            bench.rows.push(ExploreSpeed { jaaru: Some((executions, seconds)), ..row });
        }
        for (name, ops) in [("hash-table", 100), ("hash-table", 1000), ("lossy-table", 14)] {
            bench.rows.push(measured(name, ops, Model::Px86, stop)?);
        }
        for name in ["queue", "hash"] {
            for model in [Model::Px86, Model::Bep] {
                let key = ExploreOptions::default().key();
                let target = WorkloadTarget::new(workload(name)?, key);
                bench.rows.push(time(&target, key.ops, model, stop)?);
            }
        }
        let mut ops = 64;
        while ops <= 1000 {
            let row = measured("fast-fair", ops, Model::Px86, stop)?;
            if !row.complete || row.seconds > limit.as_secs_f64() {
                break;
            }
            bench.largest = Some(row);
            ops = if ops < 512 { ops * 2 } else { ops + 244 };
        }
        bench.is_partial = stop.load(Ordering::Relaxed);
        Ok(bench)
    }
}

impl Report for ExploreBench {
    fn text(&self) -> String {
        self.to_text()
    }

    fn finished(&self) -> Finished {
        Finished::of(self.is_partial, false)
    }

    fn json(&self) -> String {
        json_lines(self.rows.iter().chain(&self.largest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_explored_completely_in_fewer_runs_than_jaaru_needs() {
        for JaaruRun { inserts, executions, .. } in Jaaru::read().run {
            let row = measured("fast-fair", inserts, Model::Px86, &AtomicBool::new(false)).unwrap();
            assert!(row.complete && row.runs < executions, "{row:?}");
        }
    }
}
