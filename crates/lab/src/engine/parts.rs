//! The parts of a report that can be read while the rest of it is still run. The columns of a table
//! in parts are as wide in each of them as in any other: their heads are.

use seawall_report::Progress;
use std::sync::Mutex;

/// A report whose text begins with parts, each of the cells of one workload or kernel.
pub(crate) trait Parts {
    type Cell;

    /// Takes a cell, in any order.
    fn take(&mut self, cell: &Self::Cell);

    /// True if there is a part of that number, and all of its cells are there.
    fn is_complete(&self, number: usize) -> bool;

    /// The text of the part of that number.
    fn part(&self, number: usize) -> String;
}

/// Shows each part when it and those before it are complete.
pub(crate) struct Shown<'a, R> {
    progress: &'a Progress,
    /// What there is of the report, and how many of its parts were shown.
    so_far: Mutex<(R, usize)>,
}

impl<R: Parts> Shown<'_, R> {
    /// `report` has no cell yet.
    pub(crate) fn new(report: R, progress: &Progress) -> Shown<'_, R> {
        Shown { progress, so_far: Mutex::new((report, 0)) }
    }

    /// `cell` is complete.
    pub(crate) fn add(&self, cell: &R::Cell) {
        let mut so_far = self.so_far.lock().unwrap_or_else(|error| error.into_inner());
        let (report, parts) = &mut *so_far;
        report.take(cell);
        while report.is_complete(*parts) {
            self.progress.part(|| report.part(*parts));
            *parts += 1;
        }
    }
}

/// The head of a column with these texts.
pub(crate) fn text_head<'a>(head: &str, texts: impl Iterator<Item = &'a str>) -> String {
    let columns = texts.map(|text| text.chars().count()).max().unwrap_or(0);
    format!("{head:columns$}")
}

/// The head of a column with numbers that can be so wide, in a table of so many parts.
pub(crate) fn number_head(head: &str, columns: usize, parts: usize) -> String {
    let columns = if parts == 1 { 0 } else { columns };
    format!("{head:>columns$}")
}
