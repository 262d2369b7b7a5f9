//! What `seawall compare` prints, at most 100 columns wide; narrow terminals show fewer columns.
//!
//! Shares of time are of the time until each thread finishes, so a row's `busy`, `memory`, `lock`
//! and `persist` add up to 100. The last words name the persistency reasons behind `persist`.
//!
//! The rows of a workload are shown as soon as they are there, so that a long comparison can be
//! read from its first seconds on: columns have the same widths in all parts of the table.

use crate::cell::{Cell, Flushed, Point, ribbon_summary};
use crate::commands::compare::Comparison;
use crate::engine::parts::{Parts, number_head, text_head};
use crate::engine::spent::{Groups, mostly_head};
use crate::engine::timeline::summary;
use crate::engine::warm;
use seawall_report::{Fitted, plain_table};
use std::fmt::Write;

/// Columns that a narrow terminal can do without, in this order.
const SPARE: [&str; 6] = ["confl.", "lock", "busy", "mem.", "mostly", "Mop/s"];
/// How wide the throughputs are in a table whose rows are not all there yet, as in "1234.5".
const RATE_COLUMNS: usize = 6;
const MEAN: &str = "geo. mean";
/// How many broken crashes of a cell are described in full.
const BROKEN_SHOWN: usize = 3;

impl Comparison {
    /// The table, the means, and what broke.
    pub fn to_text(&self) -> String {
        let parts = 0..self.plan.workloads().len();
        parts.map(|number| self.part(number)).collect::<String>() + &self.last_part()
    }

    /// What follows the rows of all workloads.
    fn last_part(&self) -> String {
        let Fitted { rows, note, .. } = self.fitted(&self.means());
        let mut text = rows + &note;
        text += "\nconfl.: epochs that were flushed because of a conflict, in %\n\
                 busy, mem., lock, persist: where the threads' time went, in %\n";
        text += &self.ribbon_summary();
        text += &self.crash_summary();
        let runs = self.cells.iter().map(|cell| &cell.counters);
        text += &warm::hint(&self.plan.machine_name, runs);
        if let Some((cell, timeline)) = self.traced() {
            text += &summary(&cell.point.cell_name(), timeline);
        }
        for stuck in &self.stuck {
            let _ = writeln!(text, "\nSTUCK {stuck}");
        }
        let (done, all) = (self.cells.len(), self.plan.points.len());
        if done + self.stuck.len() < all {
            let _ = writeln!(text, "PARTIAL: stopped after {done} of {all} cells");
        }
        text + &self.broken_text()
    }

    /// The table with these rows only. Its columns are as wide as in any part of it.
    fn fitted(&self, rows: &[Vec<String>]) -> Fitted {
        let (workloads, designs) = (self.plan.workloads(), self.plan.designs());
        let parts = workloads.len();
        let workload = text_head("workload", workloads.into_iter().chain([MEAN]));
        let design = text_head("design", designs.iter().map(String::as_str));
        let relative = format!("vs {}", self.plan.baseline);
        let rate = number_head("Mop/s", RATE_COLUMNS, parts);
        let mostly = mostly_head(self.cells.iter().map(Cell::spent), parts);
        let head = [
            &workload, &design, &relative, &rate, "confl.", "busy", "mem.", "lock", "persist",
            &mostly, "crashes",
        ];
        let mut table = plain_table(&head, 2..9);
        table.add_rows(rows);
        Fitted::of(&table, &SPARE)
    }

    fn rows_of(&self, workload: &str) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for design in self.plan.designs() {
            if let Some(cell) = self.cell(workload, &design) {
                let name = if rows.is_empty() { workload } else { "" };
                rows.push(self.row(name, cell));
            }
        }
        rows
    }

    fn means(&self) -> Vec<Vec<String>> {
        let mut rows: Vec<Vec<String>> = Vec::new();
        for design in self.plan.designs() {
            let mean = self.mean_relative(&design).map_or("-".into(), |mean| format!("{mean:.2}"));
            let name = if rows.is_empty() { MEAN } else { "" };
            rows.push(vec![name.to_owned(), design, mean]);
        }
        rows
    }

    fn row(&self, workload: &str, cell: &Cell) -> Vec<String> {
        let Groups { busy, memory, lock, persist } = cell.spent().groups();
        let percent = |share: f64| format!("{:.0}", 100.0 * share);
        let operations_per_us = cell.throughput * self.plan.machine.ghz * 1000.0;
        vec![
            workload.to_owned(),
            cell.point.label(),
            self.relative(cell).map_or("-".into(), |ratio| format!("{ratio:.2}")),
            format!("{operations_per_us:.1}"),
            cell.conflicting_epochs().map_or("-".into(), |percent| format!("{percent:.0}")),
            percent(busy),
            percent(memory),
            percent(lock),
            percent(persist),
            cell.spent().mostly(),
            crashes(cell),
        ]
    }

    /// What the Ribbon is, how lines were flushed, and which designs have none.
    fn ribbon_summary(&self) -> String {
        let Some(ribbon) = &self.plan.ribbon else { return String::new() };
        let cells = self.cells.iter();
        let cells = cells.filter_map(|cell| Some((cell.point.cell_name(), Flushed::of(cell)?)));
        let points = self
            .plan
            .points
            .iter()
            .take_while(|point| point.workload == self.plan.points[0].workload);
        let without: Vec<String> =
            points.filter(|point| !point.design.needs_flushes()).map(Point::label).collect();
        ribbon_summary(ribbon, cells, &without)
    }

    /// How many crashes there were, and what came of them.
    pub(super) fn crashes_said(&self) -> String {
        let crashes: u64 = self.cells.iter().map(|cell| cell.crashes).sum();
        let crashed = format!("{crashes} crash{}", if crashes == 1 { "" } else { "es" });
        match self.broken() {
            0 => format!("{crashed} injected, recovered twice and checked: none broke"),
            broken => format!("{crashed} injected, recovered and checked: {broken} BROKEN"),
        }
    }

    fn crash_summary(&self) -> String {
        let mut text = self.crashes_said();
        if self.cells.iter().any(|cell| !cell.is_crashed()) {
            text += "; - where a design promises nothing";
        }
        text += "\n";
        let cut = self.cells.iter().filter(|cell| cell.is_crashed());
        let cut = cut.filter(|cell| cell.crashes < cell.point.crashes);
        if let Some(least) = cut.min_by_key(|cell| cell.crashes) {
            let (asked, crashes) = (least.point.crashes, least.crashes);
            text += &format!("--crashes {asked} was cut to {crashes}: there is at most one for ");
            text += "each operation, or store of a kernel; take more --ops\n";
        }
        let mut unsafe_ones: Vec<String> = Vec::new();
        for cell in self.cells.iter().filter(|cell| !cell.is_crashed()) {
            let design = &cell.point.design;
            let is_plain = design.text == design.entry.name;
            let name = if is_plain { design.entry.names() } else { design.text.clone() };
            if !unsafe_ones.contains(&name) {
                unsafe_ones.push(name);
            }
        }
        if !unsafe_ones.is_empty() {
            text += &format!("not crash-safe: {}\n", unsafe_ones.join(", "));
        }
        text
    }

    fn broken_text(&self) -> String {
        let mut text = String::new();
        for cell in self.cells.iter().filter(|cell| !cell.broken.is_empty()) {
            let (workload, design) = (&cell.point.workload, cell.point.label());
            for broken in cell.broken.iter().take(BROKEN_SHOWN) {
                let (cycle, what) = (broken.cycle, &broken.what);
                let _ = writeln!(text, "\nBROKEN {workload} under {design}, cycle {cycle}: {what}");
            }
            let more = cell.broken.len().saturating_sub(BROKEN_SHOWN);
            if more > 0 {
                let _ = writeln!(text, "  and {more} more");
            }
            let command = cell.command(&self.plan.machine_name);
            let _ = writeln!(text, "  repeat: {command}");
        }
        text
    }
}

impl Parts for Comparison {
    type Cell = Cell;

    fn take(&mut self, cell: &Cell) {
        self.cells.push(cell.clone());
    }

    fn is_complete(&self, number: usize) -> bool {
        let workloads = self.plan.workloads();
        let of = |workload: &&str| {
            self.cells.iter().filter(|cell| cell.point.workload == **workload).count()
        };
        workloads.get(number).is_some_and(|it| of(it) == self.plan.designs().len())
    }

    /// The rows of a workload; before the first, what was run, and the head of the table.
    fn part(&self, number: usize) -> String {
        let workload = self.plan.workloads()[number];
        let Fitted { head, rows, .. } = self.fitted(&self.rows_of(workload));
        if number > 0 {
            return rows + "\n";
        }
        let first = self.plan.points.first();
        let text = format!(
            "{} threads on {}, {} operations each, seed {}; throughput relative to {}\n\n",
            first.map_or(0, |point| point.threads),
            self.plan.machine_name,
            first.map_or(0, |point| point.operations),
            first.map_or(0, |point| point.seed),
            self.plan.baseline,
        );
        text + &head + &rows + "\n"
    }
}

fn crashes(cell: &Cell) -> String {
    match (cell.is_crashed(), cell.broken.len()) {
        (false, 0) => "-".into(),
        (_, 0) => format!("{} ok", cell.crashes),
        (_, broken) => format!("{}, {broken} BROKEN", cell.crashes),
    }
}
