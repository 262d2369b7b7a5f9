//! The timeline of one cell as a file for Perfetto: the options, what of a plan is recorded, and
//! what is said of it.
//!
//! A file has one cell, so that its tracks are those of one machine. What is drawn is in [`draw`].

use crate::LabError;
use clap::Args;
use seawall_sim::{RunTimeline, Simulation, TimelineWindow};
use std::path::{Path, PathBuf};
use std::str::FromStr;

mod draw;

pub(crate) use draw::draw;

/// The most bytes of a file: what the viewer opens in some seconds.
pub(crate) const TRACE_BYTES_MAX: u64 = 64 << 20;

const WINDOW: &str = "--trace-window";

/// What a user says about timelines.
#[derive(Clone, Debug, Default, Args)]
pub struct TraceOptions {
    /// Write the timeline of the cell to this file, for ui.perfetto.dev; one workload, kernel or
    /// program and one design, and at most 64 MiB
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// The part of the run that it shows: FROM..TO in cycles, or ops:FROM..TO in operations, all
    /// threads together [default: as much from the start as has room]
    #[arg(long, value_name = "FROM..TO", requires = "trace")]
    pub trace_window: Option<TraceWindow>,
}

impl TraceOptions {
    /// What is recorded, if something is.
    pub(crate) fn window(&self) -> Option<TimelineWindow> {
        let window = self.trace_window.map_or(TimelineWindow::ALL, |window| window.0);
        self.trace.as_ref().map(|_| window)
    }
}

/// A window, as a user says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceWindow(pub TimelineWindow);

impl FromStr for TraceWindow {
    type Err = LabError;

    fn from_str(text: &str) -> Result<TraceWindow, LabError> {
        let wrong = || LabError::Option {
            option: WINDOW,
            value: text.into(),
            valid: "FROM..TO in cycles, as 10000..20000, or ops:FROM..TO in operations, as \
                    ops:100..200; without a number, from the start or to the end"
                .into(),
        };
        let operations = text.strip_prefix("ops:");
        let (from, to) = operations.unwrap_or(text).split_once("..").ok_or_else(wrong)?;
        let number = |text: &str, default: u64| match text {
            "" => Ok(default),
            text => text.parse().map_err(|_| wrong()),
        };
        let (from, to) = (number(from, 0)?, number(to, u64::MAX)?);
        if from >= to {
            return Err(wrong());
        }
        Ok(TraceWindow(match operations {
            Some(_) => TimelineWindow::Outputs(from, to),
            None => TimelineWindow::Cycles(from, to),
        }))
    }
}

/// What is recorded of a run besides what is always counted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recorded {
    /// The timeline of this part.
    pub(crate) window: Option<TimelineWindow>,
    /// Latencies, queues and cores.
    pub(crate) detail: bool,
}

/// `simulation`, which records that.
pub(crate) fn recorded(simulation: Simulation<'_>, recording: Recorded) -> Simulation<'_> {
    let simulation = match recording.window {
        Some(window) => simulation.with_timeline(window, TRACE_BYTES_MAX),
        None => simulation,
    };
    if recording.detail { simulation.with_detail() } else { simulation }
}

/// What is recorded of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Traced {
    /// The number of the point.
    pub(crate) point: usize,
    pub(crate) window: TimelineWindow,
}

impl Traced {
    /// The one point to record, of those that the user has named, with the operations that it has;
    /// none, if nothing is to be recorded.
    ///
    /// # Errors
    /// Several points, or operations that there are not.
    pub(crate) fn of(
        options: &TraceOptions,
        named: &[(usize, String)],
        operations: Option<u64>,
    ) -> Result<Option<Traced>, LabError> {
        let Some(window) = options.window() else { return Ok(None) };
        if let Some(file) = options.trace.as_ref().filter(|file| is_json(file)) {
            return Err(LabError::Option {
                option: "--trace",
                value: file.display().to_string(),
                valid: "the name of a file in Perfetto's protobuf, as in run.perfetto".into(),
            });
        }
        let [(point, _)] = named else {
            let first: Vec<&str> = named.iter().take(3).map(|(_, name)| &**name).collect();
            let more = if named.len() > first.len() { ", .." } else { "" };
            return Err(LabError::ManyTraced {
                cells: named.len(),
                first: first.join(", ") + more,
            });
        };
        if let TimelineWindow::Outputs(from, _) = window {
            let value = format!("ops:{from}..");
            let valid = match operations {
                None => "in cycles: a kernel reports no operations".into(),
                Some(all) if from >= all => format!("less: the run has {all} operations"),
                Some(_) => return Ok(Some(Traced { point: *point, window })),
            };
            return Err(LabError::Option { option: WINDOW, value, valid });
        }
        Ok(Some(Traced { point: *point, window }))
    }

    /// The window, if `at` is the point.
    pub(crate) fn at(traced: Option<Traced>, at: usize) -> Option<TimelineWindow> {
        traced.filter(|traced| traced.point == at).map(|traced| traced.window)
    }
}

/// Whether a file is named as one of Chrome's JSON, which this is not.
fn is_json(file: &Path) -> bool {
    file.extension().is_some_and(|end| end.eq_ignore_ascii_case("json"))
}

/// What a table says below it.
pub(crate) fn summary(cell: &str, timeline: &RunTimeline) -> String {
    let RunTimeline { from, to, cycles, .. } = *timeline;
    if from >= to {
        let begin = match timeline.begin {
            0 => String::new(),
            begin => format!(" what is measured begins at cycle {begin}, and"),
        };
        return format!("trace of {cell}: empty, as{begin} the run ends at cycle {cycles}\n");
    }
    let rest = match timeline.is_full {
        true => format!(
            "\n  {} MiB had no room for what follows; {WINDOW} {to}.. shows it\n",
            TRACE_BYTES_MAX >> 20
        ),
        false => "\n".into(),
    };
    // The machine is at rest a little later than its programs.
    let cycles = cycles.max(from);
    let to = to.min(cycles);
    format!("trace of {cell}: cycles {from} to {to} of {cycles}, each a nanosecond there{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(text: &str) -> TimelineWindow {
        text.parse::<TraceWindow>().unwrap().0
    }

    #[test]
    fn a_window_is_in_cycles_or_in_operations_and_may_be_open() {
        assert_eq!(window("100..200"), TimelineWindow::Cycles(100, 200));
        assert_eq!(window("..200"), TimelineWindow::Cycles(0, 200));
        assert_eq!(window("100.."), TimelineWindow::Cycles(100, u64::MAX));
        assert_eq!(window("ops:1..2"), TimelineWindow::Outputs(1, 2));
        for text in ["", "5", "5..5", "6..5", "a..b", "ops:", "op:1..2", "1...2", "-1..2"] {
            let error = text.parse::<TraceWindow>().unwrap_err().to_string();
            assert!(error.contains("--trace-window") && error.contains("10000..20000"), "{error}");
        }
    }

    #[test]
    fn one_cell_is_recorded_and_its_operations_must_be_there() {
        let options = |text: &str| TraceOptions {
            trace: Some("t".into()),
            trace_window: Some(text.parse().unwrap()),
        };
        let one = [(3, "hash under lb".to_owned())];
        let traced = Traced::of(&options("ops:9.."), &one, Some(10)).unwrap().unwrap();
        assert_eq!(Traced::at(Some(traced), 3), Some(TimelineWindow::Outputs(9, u64::MAX)));
        assert_eq!(Traced::at(Some(traced), 2), None);
        let late = Traced::of(&options("ops:10.."), &one, Some(10)).unwrap_err().to_string();
        assert!(late.contains("the run has 10 operations"), "{late}");
        let kernel = Traced::of(&options("ops:1.."), &one, None).unwrap_err().to_string();
        assert!(kernel.contains("in cycles"), "{kernel}");
        let two = [one[0].clone(), (4, "hash under lbpp".to_owned())];
        let many = Traced::of(&options("1.."), &two, None).unwrap_err().to_string();
        assert!(many.contains("2 are named") && many.contains("hash under lbpp"), "{many}");
        assert_eq!(Traced::of(&TraceOptions::default(), &two, None).unwrap(), None);
        let json = TraceOptions { trace: Some("run.JSON".into()), trace_window: None };
        let refused = Traced::of(&json, &one, None).unwrap_err().to_string();
        assert!(refused.contains("run.JSON") && refused.contains("protobuf"), "{refused}");
    }
}
