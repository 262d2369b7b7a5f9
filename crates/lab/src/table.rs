//! What `seawall compare` prints, at most 100 columns wide.
//!
//! Shares of time are of the time until each thread finishes, so a row's `busy`, `memory`, `lock`
//! and `persist` add up to 100. The last words name the persistency reasons behind `persist`.

use crate::cell::Cell;
use crate::compare::Comparison;
use comfy_table::{CellAlignment, LineStyle, Table, TableStyle};
use seawall_sim::Reason;
use std::fmt::Write;

/// Reasons below this share of the time are not named.
const NAMED_SHARE_MIN: f64 = 0.02;
/// How many reasons a row names.
const NAMED_MAX: usize = 2;
/// How many broken crashes of a cell are told in full.
const BROKEN_SHOWN: usize = 3;

/// A table with a rule under its head, and the columns from `first_number` on flushed right.
pub(crate) fn plain_table(head: &[&str], numbers: std::ops::Range<usize>) -> Table {
    let style = TableStyle::new().header_separator(LineStyle::none().fill('-'));
    let mut table = Table::new();
    table.load_style(style).set_header(head.to_vec());
    for column in numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    if let Some(last) = table.column_mut(head.len() - 1) {
        last.set_padding((0, 0));
    }
    table
}

/// The lines of a table without trailing spaces.
pub(crate) fn text_of(table: &Table) -> String {
    table.lines().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

impl Comparison {
    /// The table, the means, and what broke.
    pub fn to_text(&self) -> String {
        let mut text = format!(
            "{} threads on {}, {} operations each, seed {}; throughput relative to {}\n\n",
            self.plan.points.first().map_or(0, |point| point.threads),
            self.plan.machine_name,
            self.plan.points.first().map_or(0, |point| point.operations),
            self.plan.points.first().map_or(0, |point| point.seed),
            self.plan.baseline,
        );
        text += &text_of(&self.table());
        text += "\nconfl.: epochs that were flushed because of a conflict, in %\n\
                 busy, mem., lock, persist: where the threads' time went, in %\n";
        text += &self.crash_summary();
        if self.is_partial {
            let (done, all) = (self.cells.len(), self.plan.points.len());
            let _ = writeln!(text, "PARTIAL: stopped after {done} of {all} cells");
        }
        text + &self.broken_text()
    }

    fn table(&self) -> Table {
        let relative = format!("vs {}", self.plan.baseline);
        let head = [
            "workload", "design", &relative, "Mop/s", "confl.", "busy", "mem.", "lock", "persist",
            "mostly", "crashes",
        ];
        let mut table = plain_table(&head, 2..9);
        for workload in self.plan.workloads() {
            let mut name = workload;
            for design in self.plan.designs() {
                if let Some(cell) = self.cell(workload, design) {
                    table.add_row(self.row(name, cell));
                    name = "";
                }
            }
            table.add_row(vec![""; head.len()]);
        }
        let mut name = "geo. mean";
        for design in self.plan.designs() {
            let mean = self.mean_relative(design).map_or("-".into(), |mean| format!("{mean:.2}"));
            table.add_row(vec![name.to_owned(), design.to_owned(), mean]);
            name = "";
        }
        table
    }

    fn row(&self, workload: &str, cell: &Cell) -> Vec<String> {
        let Groups { busy, memory, lock, persist } = Groups::of(cell);
        let percent = |share: f64| format!("{:.0}", 100.0 * share);
        let operations_per_us = cell.throughput * self.plan.machine.ghz * 1000.0;
        vec![
            workload.to_owned(),
            cell.point.design.text.clone(),
            self.relative(cell).map_or("-".into(), |ratio| format!("{ratio:.2}")),
            format!("{operations_per_us:.1}"),
            cell.conflicting_epochs().map_or("-".into(), |percent| format!("{percent:.0}")),
            percent(busy),
            percent(memory),
            percent(lock),
            percent(persist),
            mostly(cell),
            crashes(cell),
        ]
    }

    fn crash_summary(&self) -> String {
        let crashed: u64 = self.cells.iter().map(|cell| cell.crashes).sum();
        let mut text = match self.broken() {
            0 => format!("{crashed} crashes injected, recovered twice and checked: none broke"),
            broken => format!("{crashed} crashes injected, recovered and checked: {broken} BROKEN"),
        };
        if self.cells.iter().any(|cell| !cell.is_crashed()) {
            text += "; - where a design promises nothing";
        }
        text + "\n"
    }

    fn broken_text(&self) -> String {
        let mut text = String::new();
        for cell in self.cells.iter().filter(|cell| !cell.broken.is_empty()) {
            let (workload, design) = (&cell.point.workload, &cell.point.design.text);
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

/// Shares of the time, which add up to 1.
pub(crate) struct Groups {
    pub(crate) busy: f64,
    pub(crate) memory: f64,
    pub(crate) lock: f64,
    pub(crate) persist: f64,
}

impl Groups {
    pub(crate) fn of(cell: &Cell) -> Groups {
        let (busy, lock) = (cell.busy_share(), cell.share(Reason::Lock));
        let persistency = Reason::ALL.into_iter().filter(|reason| reason.is_persistency());
        let persist: f64 = persistency.map(|reason| cell.share(reason)).sum();
        let memory = Reason::ALL.into_iter().filter(|reason| is_memory(*reason));
        Groups { busy, memory: memory.map(|reason| cell.share(reason)).sum(), lock, persist }
    }
}

fn is_memory(reason: Reason) -> bool {
    !reason.is_persistency() && !matches!(reason, Reason::Lock | Reason::Idle)
}

/// The largest persistency reasons with their shares in per cent.
fn mostly(cell: &Cell) -> String {
    let mut reasons: Vec<(f64, Reason)> = Reason::ALL
        .into_iter()
        .filter(|reason| reason.is_persistency())
        .map(|reason| (cell.share(reason), reason))
        .filter(|(share, _)| *share >= NAMED_SHARE_MIN)
        .collect();
    reasons.sort_by(|left, right| right.0.total_cmp(&left.0));
    let named = reasons.iter().take(NAMED_MAX);
    let named: Vec<String> =
        named.map(|(share, reason)| format!("{} {:.0}", short(*reason), 100.0 * share)).collect();
    named.join(", ")
}

fn short(reason: Reason) -> &'static str {
    match reason {
        Reason::WriteThrough => "write",
        Reason::IntraConflict => "intra",
        Reason::InterConflict => "inter",
        Reason::Replacement => "repl",
        Reason::EpochIds => "ids",
        other => other.name(),
    }
}

fn crashes(cell: &Cell) -> String {
    match (cell.is_crashed(), cell.broken.len()) {
        (false, 0) => "-".into(),
        (_, 0) => format!("{} ok", cell.crashes),
        (_, broken) => format!("{}, {broken} BROKEN", cell.crashes),
    }
}
