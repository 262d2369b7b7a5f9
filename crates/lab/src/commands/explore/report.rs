//! The report of an exploration: in words, and as a record whose names are stable.

use super::unreached::{UnreachedFunction, in_words};
use crate::commands::run::CollectorReport;
use seawall_explore::{SearchOutcome, Waste};
use seawall_report::{Finished, HtmlPage, Report, json_lines};
use serde::Serialize;
use std::fmt;

/// What was explored, and what was found.
#[derive(Clone, Debug, Serialize)]
pub struct ExploreReport {
    /// The program, with its numbers, in words.
    pub program: String,
    /// What each run returned, of a program of others: another end of a run is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// Which schedules were tried, in words; empty if there is only one.
    pub schedules: String,
    /// True if every image of every schedule within the bounds was tried.
    pub complete: bool,
    /// What was covered, in words.
    pub coverage: String,
    /// What is left if it is not complete, an estimate, and which option makes it less; in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
    /// True if it was stopped from outside.
    pub stopped: bool,
    /// Why nothing could be found, or not all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Different runs of the program.
    pub runs: usize,
    /// Which part of the work this was, as `3/64`.
    pub shard: String,
    /// Whether this is a replay of one image.
    pub replayed: bool,
    /// Each model, in the order asked for.
    pub models: Vec<ModelReport>,
    /// What the steps of the first run moved, if there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<CollectorReport>,
    /// Flushes and fences that do nothing, and stores that are never flushed, over all runs.
    pub waste: Vec<Waste>,
    /// Functions of a program of others that make stores durable and that no run has come to, if
    /// nothing was found.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreached: Vec<UnreachedFunction>,
    /// Whether it is a failure if not all was tried.
    #[serde(skip)]
    pub must_be_complete: bool,
}

/// What was explored under one model.
#[derive(Clone, Debug, Serialize)]
pub struct ModelReport {
    /// Counts and coverage over all runs.
    #[serde(flatten)]
    pub outcome: SearchOutcome,
    pub coverage: String,
    /// Wall-clock time of the whole exploration, in seconds; differs from run to run.
    pub seconds: f64,
    /// The command that builds the failing image again.
    pub replay_command: Option<String>,
}

impl Report for ExploreReport {
    fn text(&self) -> String {
        self.to_string()
    }

    fn found(&self) -> bool {
        self.fails() || (self.must_be_complete && !self.complete)
    }

    fn finished(&self) -> Finished {
        Finished::of(self.stopped, false)
    }

    fn json(&self) -> String {
        json_lines([self])
    }

    fn page(&self) -> HtmlPage {
        self.to_page()
    }
}

impl ExploreReport {
    /// Whether recovery fails on an image.
    fn fails(&self) -> bool {
        self.models.iter().any(|model| model.outcome.finding.is_some())
    }
}

impl fmt::Display for ExploreReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.program)?;
        if !self.schedules.is_empty() {
            writeln!(f, "  {}", self.schedules)?;
        }
        if self.shard != "1/1" {
            writeln!(f, "  part {} of the work", self.shard)?;
        }
        if let Some(moved) = &self.moved {
            writeln!(f, "  {moved}")?;
            if moved.moved == 0 {
                writeln!(f, "  the steps have moved no object: take more --entries and --ops")?;
            }
        }
        for model in &self.models {
            if !self.replayed {
                writeln!(f, "{model}")?;
            }
            if let Some(finding) = &model.outcome.finding {
                write!(f, "\nFAILS under {}: {finding}", model.outcome.model)?;
            }
            if let Some(command) = &model.replay_command {
                writeln!(f, "  replay: {command}\n")?;
            }
        }
        if !self.replayed {
            writeln!(f, "  {}", self.coverage)?;
            self.left.iter().try_for_each(|left| writeln!(f, "  {left}"))?;
        }
        if let Some(unreached) = in_words(&self.unreached) {
            writeln!(f, "  {unreached}")?;
        }
        for warning in &self.warnings {
            writeln!(f, "  warning: {warning}")?;
        }
        for (at, waste) in self.waste.iter().enumerate() {
            let head = if at == 0 { "  wasted on x86:" } else { "                " };
            writeln!(f, "{head} {waste}")?;
        }
        match (self.fails(), self.replayed) {
            (false, false) if self.finished() != Finished::All => {
                writeln!(f, "interrupted: so far recovery handled every image that was tried")
            }
            (false, false) if self.models.iter().all(|model| model.outcome.points == 0) => {
                writeln!(f, "this part holds no work")
            }
            (false, false) if self.found() => writeln!(
                f,
                "recovery handled every image that was tried, which are not all: --require-complete"
            ),
            (false, false) => writeln!(f, "recovery handled every image that was tried"),
            (false, true) => writeln!(f, "recovery handles this image"),
            (true, _) => Ok(()),
        }
    }
}

impl fmt::Display for ModelReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SearchOutcome { model, points, nested_points, states, runs, .. } = &self.outcome;
        write!(f, "  {:<6} {points} failure points", model.name())?;
        if *nested_points > 0 {
            write!(f, " and {nested_points} in recovery")?;
        }
        write!(f, ", {states} crash states, {runs} runs of recovery; {}", self.coverage)
    }
}
