//! What a person sees while cells run: a bar on a terminal, a line per workload elsewhere.
//!
//! All of it goes to standard error, and none of it to a result.

use crate::tell;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Mutex;

/// How far a set of cells has come.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    lines: bool,
    left: Mutex<BTreeMap<String, usize>>,
}

impl Progress {
    /// Shows nothing.
    pub fn hidden() -> Progress {
        Progress { bar: ProgressBar::hidden(), lines: false, left: Mutex::default() }
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
        Progress { bar, lines, left: Mutex::default() }
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
        !self.bar.is_hidden()
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
