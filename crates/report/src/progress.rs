//! What a person sees while cells run: a bar on a terminal, a line per workload elsewhere, and the
//! parts of the report that are there already.
//!
//! The bar and the lines go to standard error, and none of them to a result.

use crate::table::{Room, within};
use crate::{ReportError, tell};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Mutex;

/// How far a set of cells has come.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    lines: bool,
    /// Somebody asks for [`Progress::state`].
    watched: bool,
    left: Mutex<BTreeMap<String, usize>>,
    parts: Option<Parts>,
}

/// The parts of a report that are shown before all of it is there.
#[derive(Debug)]
struct Parts {
    room: Option<Room>,
    show: fn(&str) -> Result<(), ReportError>,
    shown: Mutex<ShownParts>,
}

#[derive(Debug, Default)]
struct ShownParts {
    text: String,
    /// One could not be printed, so that none is after it.
    failed: bool,
}

/// How far work has come, for those who show it themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgressState {
    /// Units of the work that are done.
    pub done: u64,
    /// All units of it, as far as that is known; 0 if it is not.
    pub all: u64,
    /// What was done last, or what is under way.
    pub note: String,
}

impl Progress {
    /// Shows nothing.
    pub fn hidden() -> Progress {
        let bar = ProgressBar::hidden();
        Progress { bar, lines: false, watched: false, left: Mutex::default(), parts: None }
    }

    /// Shows nothing itself: its owner asks how far the work has come.
    pub fn watched() -> Progress {
        Progress { watched: true, ..Progress::hidden() }
    }

    /// How far the work has come.
    pub fn state(&self) -> ProgressState {
        let (done, all) = (self.bar.position(), self.bar.length().unwrap_or(0));
        ProgressState { done, all, note: self.bar.message() }
    }

    /// A bar if standard error is a terminal; else a line there for each finished workload.
    pub fn on_stderr() -> Progress {
        let lines = !std::io::stderr().is_terminal();
        let target =
            if lines { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template(
            "{bar:30} {pos}/{len} cells, {elapsed} elapsed, about {eta} to go  {msg}",
        );
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Progress { bar, lines, watched: false, left: Mutex::default(), parts: None }
    }

    /// The same, for a report whose parts `show` prints as soon as they are there; tables in them
    /// fit `room`.
    pub fn with_parts(
        self,
        room: Option<Room>,
        show: fn(&str) -> Result<(), ReportError>,
    ) -> Progress {
        Progress { parts: Some(Parts { room, show, shown: Mutex::default() }), ..self }
    }

    /// The next part of the report's text is there. Whoever prints the report asks with
    /// [`shown`](Progress::shown) what has been printed of it. If a part cannot be printed, it is
    /// not in that, and nor are those after it.
    pub fn part(&self, make: impl FnOnce() -> String) {
        let Some(Parts { room, show, shown }) = &self.parts else { return };
        let mut shown = shown.lock().unwrap_or_else(|error| error.into_inner());
        if shown.failed {
            return;
        }
        let part = within(*room, make);
        match self.bar.suspend(|| show(&part)) {
            Ok(()) => shown.text += &part,
            Err(_) => shown.failed = true,
        }
    }

    /// The parts that were printed, one after the other.
    pub fn shown(&self) -> String {
        let shown = self.parts.as_ref().map(|parts| parts.shown.lock());
        let shown = shown.map(|shown| shown.unwrap_or_else(|error| error.into_inner()));
        shown.map(|shown| shown.text.clone()).unwrap_or_default()
    }

    /// Begins a set of cells, by their workloads.
    pub fn start<'a>(&self, workloads: impl Iterator<Item = &'a str>) {
        let mut left = self.left.lock().unwrap_or_else(|error| error.into_inner());
        for workload in workloads {
            *left.entry(workload.to_owned()).or_default() += 1;
        }
        self.bar.reset();
        self.bar.set_length(left.values().sum::<usize>() as u64);
        self.tick();
    }

    /// Starts to show work that is not made of cells: that many units, in thousandths.
    pub fn start_work(&self, units: u64) {
        let style = "{bar:30} {percent} %, {elapsed} elapsed, about {eta} to go";
        if let Ok(style) = ProgressStyle::with_template(style) {
            self.bar.set_style(style);
        }
        self.bar.set_length(units * 1000);
        self.tick();
    }

    /// Keeps the time in the bar running, if it is shown and the system has a thread for that.
    fn tick(&self) {
        let has_thread = || std::thread::Builder::new().spawn(|| ()).is_ok();
        if !self.bar.is_hidden() && has_thread() {
            self.bar.enable_steady_tick(std::time::Duration::from_millis(200));
        }
    }

    /// So many thousandths of a unit are done.
    pub fn advance_work(&self, thousandths: u64) {
        self.bar.inc(thousandths);
    }

    /// True if notes are shown.
    pub fn is_seen(&self) -> bool {
        self.watched || !self.bar.is_hidden()
    }

    /// Starts to show notes, each in the place of the last one.
    pub fn start_notes(&self) {
        if let Ok(style) = ProgressStyle::with_template("{elapsed} elapsed  {msg}") {
            self.bar.set_style(style);
        }
        self.tick();
    }

    /// Shows a note, on a terminal.
    pub fn note(&self, text: String) {
        self.bar.set_message(text);
    }

    /// Notes that a cell is done.
    pub fn cell_done(&self, workload: &str, design: &str) {
        self.bar.set_message(format!("{workload} {design}"));
        self.bar.inc(1);
        let mut left = self.left.lock().unwrap_or_else(|error| error.into_inner());
        if let Some(count) = left.get_mut(workload) {
            *count -= 1;
            if *count == 0 && self.lines {
                tell(format_args!("{workload}: done"));
            }
        }
    }

    /// Ends the display.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_watches_sees_units_and_notes_though_nothing_is_shown() {
        let progress = Progress::watched();
        assert_eq!(progress.state(), ProgressState::default());
        progress.start(["hash", "hash", "queue"].into_iter());
        assert_eq!(progress.state().all, 3);
        progress.cell_done("hash", "lbpp");
        let reached = ProgressState { done: 1, all: 3, note: "hash lbpp".into() };
        assert_eq!(progress.state(), reached);
        assert!(progress.is_seen() && !Progress::hidden().is_seen());
    }

    #[test]
    fn parts_are_shown_until_one_cannot_be() {
        let show = |part: &str| match part {
            "full" => Err(ReportError::Plot("no room".into())),
            _ => Ok(()),
        };
        let progress = Progress::hidden().with_parts(None, show);
        for part in ["one ", "two ", "full", "three"] {
            progress.part(|| part.to_owned());
        }
        assert_eq!(progress.shown(), "one two ");
        let silent = Progress::hidden();
        silent.part(|| unreachable!("nobody prints it"));
        assert_eq!(silent.shown(), "");
    }
}
