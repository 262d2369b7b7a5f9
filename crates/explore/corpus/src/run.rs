//! Runs cases in the explorer: is every broken program found, and every fixed one clean?

use crate::program::{About, Case, Found};
use seawall_explore::{
    Check, CrashImage, CrashPoint, FailedRun, Model, Recorded, RunError, Schedule, Scope, Search,
};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Accesses that one recovery may make.
const RECOVERY_STEPS: u64 = 100_000;

/// How far to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Interruptions of one run of several threads; all places for them are tried.
    pub preemptions: usize,
    /// The most different runs of several threads that such interruptions lead to.
    pub schedules: usize,
    /// Runs with random turns or priorities between these, at most.
    pub random: usize,
    /// Crash states of one run of the program at most.
    pub budget: u64,
    /// Crashes of recovery that follow the first crash; one at least where the bug needs it.
    pub depth: usize,
    /// Crash after every store too, not only before fences and outputs.
    pub thorough: bool,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort {
            preemptions: 2,
            schedules: 1000,
            random: 96,
            budget: 100_000,
            depth: 0,
            thorough: false,
        }
    }
}

/// What the exploration of one twin gave.
#[derive(Clone, Debug, Serialize)]
pub struct CaseReport {
    /// The model.
    pub model: Model,
    /// What the first failing image showed, in words; the text of a run that failed itself.
    pub message: Option<String>,
    /// Builds the failing image again: the choice of the explorer.
    pub choice: Option<String>,
    /// The schedule that showed it, in short.
    pub schedule: Option<String>,
    /// Runs of the program (schedules) explored.
    pub runs: u64,
    /// Runs of recovery, over all runs of the program.
    pub recoveries: u64,
    /// Crash states that recovery can tell apart.
    pub states: u64,
    /// Moments at which recovery was cut short.
    pub nested_points: u64,
    /// True if every state of every run was checked, and no run was left out.
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
    pub broken: CaseReport,
    /// The exploration of its fixed twin.
    pub fixed: CaseReport,
}

impl Row {
    /// True if the bug was found and the fixed twin is clean.
    pub fn is_as_expected(&self) -> bool {
        self.broken.message.is_some() && self.fixed.message.is_none()
    }
}

/// Explores both twins of every case, under each model that must show its bug.
pub fn run_all(effort: &Effort) -> Vec<Row> {
    crate::all_cases().flat_map(|case| run_case(case, effort)).collect()
}

/// Explores both twins of a case, under each model that must show its bug.
pub fn run_case(case: &dyn Case, effort: &Effort) -> Vec<Row> {
    let about = case.about();
    let effort = Effort { depth: effort.depth.max(usize::from(about.needs_nested)), ..*effort };
    let row = |&model| Row {
        about,
        broken: explore(case, false, model, &effort),
        fixed: explore(case, true, model, &effort),
    };
    about.models().iter().map(row).collect()
}

/// Explores one twin of a case under `model`.
pub fn explore(case: &dyn Case, fixed: bool, model: Model, effort: &Effort) -> CaseReport {
    let clock = Instant::now();
    let Effort { preemptions, schedules, random, budget, depth, thorough } = *effort;
    let usual = Scope::new(&[model], case.about().threads);
    let how = Scope {
        base: Schedule { steps: 100_000, ..usual.base },
        interruptions: preemptions,
        runs: schedules,
        random,
        search: Search { budget, depth, thorough, steps: RECOVERY_STEPS, ..usual.search },
        ..usual
    };
    let record = |schedule: &Schedule| {
        let trace = case.record(fixed, schedule)?;
        Ok(Recorded { trace, check: CaseCheck { case, fixed } })
    };
    let mut report = CaseReport {
        model,
        message: None,
        choice: None,
        schedule: None,
        runs: 0,
        recoveries: 0,
        states: 0,
        nested_points: 0,
        complete: true,
        time: Duration::ZERO,
    };
    match seawall_explore::explore(&how, record, &()) {
        Err::<_, FailedRun<RunError>>(FailedRun { turns, error }) => {
            report.message = Some(error.to_string());
            report.schedule = Some(turns.to_string());
            report.complete = false;
        }
        Ok(explored) => {
            let outcome = &explored.models[0];
            report.runs = explored.runs as u64;
            report.recoveries = outcome.runs;
            report.states = outcome.states;
            report.nested_points = outcome.nested_points;
            report.complete = explored.is_complete();
            if let Some(finding) = explored.finding() {
                report.message = Some(finding.message.clone());
                report.choice = Some(finding.choice.to_string());
                report.schedule = finding.schedule.clone();
            }
        }
    }
    report.time = clock.elapsed();
    report
}

/// The recovery of a case, and its judgement.
struct CaseCheck<'a> {
    case: &'a dyn Case,
    fixed: bool,
}

impl Check for CaseCheck<'_> {
    type Found = Found;

    fn recover(&self, image: &CrashImage) -> Result<Found, String> {
        self.case.recover(image, self.fixed, 0)
    }

    fn judge(&self, found: &Found, point: &CrashPoint) -> Result<(), String> {
        self.case.judge(found, &point.promised)
    }
}
