//! What the file of a figure says of a series with a Ribbon (PACT'20), and what its cells count.

use super::is_same;
use crate::LabError;
use crate::cell::{Cell, Point, ribbon};
use crate::plan::Plan;
use seawall_runtime::ribbon::{Mode, RibbonOptions};
use serde::{Deserialize, Serialize};

/// A Ribbon around the threads of a series.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesRibbon {
    /// Flushers, each on a core of its own.
    pub flushers: u64,
    /// Whether threads leave flushes to them.
    pub mode: FlushMode,
    /// Whether lines may be cleaned early, so that their flush is skipped.
    #[serde(default)]
    pub early: bool,
    /// Cycles from one estimate of the number of flushers to the next; 0: all work, always.
    #[serde(default)]
    pub period: u64,
    /// Cycles that each of the four samples of an estimate takes.
    #[serde(default)]
    pub window: u64,
}

/// Whether threads leave flushes to flushers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlushMode {
    /// Where a thread measures that it pays.
    Auto,
    /// Always.
    Always,
    /// Never: flushers only clean lines early.
    Never,
}

impl SeriesRibbon {
    pub(super) fn options(&self) -> RibbonOptions {
        let SeriesRibbon { flushers, early, period, window, .. } = *self;
        let mode = match self.mode {
            FlushMode::Auto => Mode::Auto,
            FlushMode::Always => Mode::Always,
            FlushMode::Never => Mode::Never,
        };
        RibbonOptions { flushers, mode, early, period, window, ..RibbonOptions::default() }
    }

    /// Adds to `plan`, for each workload, a point like that under `design`, with this Ribbon.
    ///
    /// # Errors
    /// A Ribbon that has nothing to do under the design, or no cores.
    pub(super) fn add_to(&self, plan: &mut Plan, design: &str) -> Result<(), LabError> {
        let is_like = |point: &&Point| point.ribbon.is_none() && point.design.text == design;
        let plain: Vec<Point> = plan.points.iter().filter(is_like).cloned().collect();
        for point in plain {
            let point = Point { ribbon: Some(self.options()), ..point };
            ribbon::check(&plan.machine, &point)?;
            if !plan.points.iter().any(|other| is_same(other, &point)) {
                plan.points.push(point);
            }
        }
        Ok(())
    }
}

/// Who flushed the lines that the threads of a cell asked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Flushed {
    /// Per cent that flushers executed.
    pub by_flushers: f64,
    /// Per cent that were known to be clean, and not flushed.
    pub skipped: f64,
    /// Lines that flushers cleaned early, in per cent of those asked for.
    pub cleaned: f64,
}

impl Flushed {
    pub(super) fn of(cell: &Cell) -> Option<Flushed> {
        let counts = cell.ribbon?;
        let asked = counts.pushed + counts.inline + counts.full + counts.skipped;
        let share = |count: u64| 100.0 * count as f64 / asked.max(1) as f64;
        Some(Flushed {
            by_flushers: share(counts.by_flushers),
            skipped: share(counts.skipped),
            cleaned: share(counts.cleaned),
        })
    }
}
