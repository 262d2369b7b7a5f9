//! Runs cases in the explorer: is every broken program found, and every fixed one clean?

use crate::program::{About, Case};
use seawall_explore::{CrashImage, CrashPoint, Model, Reached, Schedule, Search, search};
use seawall_memory::{Addr, Image, LINE_BYTES, Memory};
use serde::Serialize;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Accesses that one recovery may make.
pub(crate) const RECOVERY_STEPS: u64 = 100_000;

/// How far to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Schedules tried for a program of several threads: the seeds from 1.
    pub schedules: u64,
    /// Images checked for one run at most.
    pub budget: u64,
    /// Crash recovery too, at each of its failure points.
    pub nested: bool,
    /// Crash after every store too, not only before fences and outputs.
    pub thorough: bool,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort { schedules: 48, budget: 100_000, nested: false, thorough: false }
    }
}

/// What the exploration of one twin gave.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The model.
    pub model: Model,
    /// What the first failing image showed, in words; the text of a run that failed itself.
    pub message: Option<String>,
    /// Builds the failing image again: the choice of the explorer.
    pub choice: Option<String>,
    /// The seed of the schedule that showed it.
    pub seed: Option<u64>,
    /// Runs (schedules) explored.
    pub runs: u64,
    /// Different images checked, over all runs.
    pub images: u64,
    /// Images checked of crashes of recovery.
    pub nested_images: u64,
    /// True if every image of every run was checked.
    pub complete: bool,
    /// Wall-clock time.
    pub time: Duration,
}

/// A line of the table: one case under one model.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The case.
    pub about: About,
    /// The exploration of the program with the bug.
    pub broken: Report,
    /// The exploration of its fixed twin.
    pub fixed: Report,
}

impl Row {
    /// True if the bug was found and the fixed twin is clean.
    pub fn is_as_expected(&self) -> bool {
        self.broken.message.is_some() && self.fixed.message.is_none()
    }
}

/// Explores both twins of every case, under each model that must show its bug.
pub fn run_all(effort: &Effort) -> Vec<Row> {
    crate::CASES.iter().flat_map(|case| run_case(*case, effort)).collect()
}

/// Explores both twins of a case, under each model that must show its bug.
pub fn run_case(case: &dyn Case, effort: &Effort) -> Vec<Row> {
    let about = case.about();
    let effort = Effort { nested: effort.nested || about.needs_nested, ..*effort };
    let row = |&model| Row {
        about,
        broken: explore(case, false, model, &effort),
        fixed: explore(case, true, model, &effort),
    };
    about.models().iter().map(row).collect()
}

/// Explores one twin of a case under `model`.
pub fn explore(case: &dyn Case, fixed: bool, model: Model, effort: &Effort) -> Report {
    let clock = Instant::now();
    let mut report = Report {
        model,
        message: None,
        choice: None,
        seed: None,
        runs: 0,
        images: 0,
        nested_images: 0,
        complete: true,
        time: Duration::ZERO,
    };
    let schedules = if case.about().threads == 1 { 1 } else { effort.schedules };
    for seed in 1..=schedules {
        one_run(case, fixed, seed, effort, &mut report);
        if report.message.is_some() {
            report.seed = Some(seed);
            break;
        }
    }
    report.time = clock.elapsed();
    report
}

fn one_run(case: &dyn Case, fixed: bool, seed: u64, effort: &Effort, report: &mut Report) {
    report.runs += 1;
    let schedule = Schedule { seed, steps: 100_000, ..Schedule::default() };
    let trace = match case.record(fixed, &schedule) {
        Ok(trace) => trace,
        Err(error) => {
            report.message = Some(error.to_string());
            return;
        }
    };
    let Effort { budget, thorough, .. } = *effort;
    let options = Search { budget, thorough, steps: RECOVERY_STEPS, ..Search::new(report.model) };
    let nested = Cell::new(0);
    let outcome = search(&trace, &options, &|image, point| {
        let before = effort.nested.then(|| copy(image));
        let found = case.recover(image, fixed)?;
        case.judge(&found, &point.promised)?;
        match before {
            Some(before) => crash_recovery(case, fixed, before, &options, point, &nested),
            None => Ok(()),
        }
    });
    report.images += outcome.checked;
    report.nested_images += nested.get();
    report.complete &= outcome.reached == Reached::Complete;
    if let Some(finding) = outcome.finding {
        report.message = Some(finding.message);
        report.choice = Some(finding.choice.to_string());
    }
}

/// The image before recovery writes to it.
fn copy(image: &CrashImage) -> Image {
    let copy = Image::new(image.pm_bytes(), image.dram_bytes());
    let mut bytes = [0; LINE_BYTES as usize];
    for start in (0..image.pm_bytes()).step_by(LINE_BYTES as usize) {
        image.read(Addr::pm(start), &mut bytes);
        copy.write(Addr::pm(start), &bytes);
    }
    copy
}

/// Crashes the recovery from `before` at each of its failure points and recovers again.
fn crash_recovery(
    case: &dyn Case,
    fixed: bool,
    before: Image,
    options: &Search,
    outer: &CrashPoint,
    nested: &Cell<u64>,
) -> Result<(), String> {
    let trace = case.record_recovery(before, fixed).map_err(|error| error.to_string())?;
    if trace.stores().is_empty() {
        return Ok(());
    }
    let outcome = search(&trace, options, &|image, _| {
        let found = case.recover(image, fixed)?;
        case.judge(&found, &outer.promised)
    });
    nested.set(nested.get() + outcome.checked);
    match outcome.finding {
        Some(finding) => Err(format!("after a crash of recovery: {}", finding.message)),
        None => Ok(()),
    }
}
