//! What a search did, and how far it got, in words.

use crate::finding::Finding;
use seawall_memory::Model;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How many of the images that a crash may leave were tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reached {
    /// Not even the first kind of images at every point.
    Part,
    /// At each point as little as possible persisted, and as much as possible.
    Ends,
    /// What recovery reads differs from that in one line.
    Singles,
    /// In two lines.
    Pairs,
    /// Every image.
    Complete,
}

/// The failure points of a search that did not try all images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointsTried {
    /// Those of which all images were tried.
    pub whole: u64,
    /// All of them.
    pub all: u64,
}

/// What a search did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SearchOutcome {
    /// The model searched.
    pub model: Model,
    /// Failure points of the run.
    pub points: u64,
    /// Failure points during recovery.
    pub nested_points: u64,
    /// Times that recovery ran.
    pub runs: u64,
    /// Crash states that recovery can tell apart, over all points; each stands for all images that
    /// differ only in what recovery does not read.
    pub states: u64,
    /// The last kind of images that was tried at every point.
    pub reached: Reached,
    /// Points that had too many images, which were sampled.
    pub sampled_points: u64,
    /// True if the budget ended the search.
    pub out_of_budget: bool,
    /// True if it was stopped from outside, or by its time.
    pub stopped: bool,
    /// True if recovery read persistent memory.
    pub has_read: bool,
    /// True if the judgement looked at what was promised.
    pub has_asked: bool,
    /// True if recovery ran several threads.
    #[serde(default)]
    pub has_threads: bool,
    /// True if some point had more images than memory can hold the recoveries of, or an image more
    /// open words than the stack can hold.
    #[serde(default)]
    pub is_full: bool,
    /// How many points were searched whole, if not all were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried: Option<PointsTried>,
    /// The smallest failing image made from the first one found.
    #[serde(skip_deserializing)]
    pub finding: Option<Finding>,
}

impl SearchOutcome {
    /// Nothing was done yet.
    pub fn of(model: Model) -> SearchOutcome {
        SearchOutcome {
            model,
            points: 0,
            nested_points: 0,
            runs: 0,
            states: 0,
            reached: Reached::Part,
            sampled_points: 0,
            out_of_budget: false,
            stopped: false,
            has_read: false,
            has_asked: false,
            has_threads: false,
            is_full: false,
            tried: None,
            finding: None,
        }
    }

    /// The outcome of looking at one image, as [`replay`](crate::replay()) does.
    pub fn of_replay(model: Model, finding: Option<Finding>) -> SearchOutcome {
        SearchOutcome { points: 1, runs: 1, states: 1, finding, ..SearchOutcome::of(model) }
    }

    /// True if every image was tried.
    pub fn is_complete(&self) -> bool {
        self.reached == Reached::Complete && !self.stopped
    }

    fn points_tried(&self) -> PointsTried {
        self.tried.unwrap_or(PointsTried { whole: self.points, all: self.points })
    }

    /// Adds the outcome of the same search elsewhere: on other points, or another run.
    pub fn add(&mut self, other: SearchOutcome) {
        if self.tried.is_some() || other.tried.is_some() {
            let (one, more) = (self.points_tried(), other.points_tried());
            self.tried =
                Some(PointsTried { whole: one.whole + more.whole, all: one.all + more.all });
        }
        self.points = self.points.saturating_add(other.points);
        self.nested_points = self.nested_points.saturating_add(other.nested_points);
        self.runs = self.runs.saturating_add(other.runs);
        self.states = self.states.saturating_add(other.states);
        self.reached = self.reached.min(other.reached);
        self.sampled_points = self.sampled_points.saturating_add(other.sampled_points);
        self.out_of_budget |= other.out_of_budget;
        self.stopped |= other.stopped;
        self.has_read |= other.has_read;
        self.has_asked |= other.has_asked;
        self.has_threads |= other.has_threads;
        self.is_full |= other.is_full;
        self.finding = self.finding.take().or(other.finding);
    }
}

impl fmt::Display for SearchOutcome {
    /// The coverage in words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.finding.is_some() {
            return write!(f, "stopped at a failing image, after {} runs of recovery", self.runs);
        }
        let PointsTried { whole, all } = self.points_tried();
        let others = match self.reached {
            Reached::Complete => return f.write_str("all images"),
            Reached::Part => "not all others were come to",
            Reached::Ends => "at the others as little and as much persisted as possible",
            Reached::Singles => "at the others one line ahead or behind",
            Reached::Pairs => "at the others all pairs of lines ahead or behind",
        };
        write!(f, "all images at {whole} of {all} failure points, {others}")?;
        if self.stopped {
            f.write_str("; stopped")
        } else if self.out_of_budget {
            write!(f, "; budget reached after {} crash states", self.states)
        } else {
            write!(f, "; {} of {} points sampled beyond that", self.sampled_points, self.points)
        }
    }
}
