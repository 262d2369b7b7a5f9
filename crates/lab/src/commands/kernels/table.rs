//! What `seawall kernels` prints, at most 100 columns wide where names of designs are short.
//!
//! First each kernel under each design, then each design over all kernels: where conflicts come
//! from, which waits they cost, and what is written to memory.

use super::record::{conflicts, own_lines, per_cent};
use super::{KernelCell, Kernels};
use crate::engine::parts::{Parts, number_head, text_head};
use crate::engine::spent::{Groups, mostly_head, short};
use crate::engine::warm;
use seawall_report::{Fitted, plain_table, text_of, text_sparing};
use seawall_sim::{Choice, Counters, Reason};
use std::fmt::Write;

/// Reasons that no design reaches this mean share of are left out.
const COLUMN_SHARE_MIN: f64 = 0.005;
/// Columns of kernels that a narrow terminal can do without, in this order.
const SPARE: [&str; 6] = ["inter", "confl.", "lock", "busy", "mem.", "mostly"];
/// How wide the times are in a table whose rows are not all there yet, as in "123.45".
const TIME_COLUMNS: usize = 6;
/// Columns of designs that it can do without, before the reasons.
const DESIGNS_SPARE: [&str; 4] = ["log", "inter", "confl.", "Klines"];
/// How many broken crashes of a cell are described in full.
const BROKEN_SHOWN: usize = 3;

/// What the columns are.
const LEGEND: &str = "
confl.: epochs that were flushed because of a conflict; inter: conflicts between threads, of all;
log: lines of log and processor state, of all written; busy, mem., lock, persist and what comes
after Klines: where the threads' time went; all in %. Klines: thousands of lines written to memory
";

impl Kernels {
    /// The tables, and what broke.
    pub fn to_text(&self) -> String {
        let parts = 0..self.plan.kernels().count();
        parts.map(|number| self.part(number)).collect::<String>() + &self.last_part()
    }

    /// What follows the rows of all kernels.
    fn last_part(&self) -> String {
        let mut text = self.fitted(&[]).note + "\n" + &self.designs();
        text += LEGEND;
        text += &self.summary();
        let runs = self.cells.iter().map(|cell| &cell.run.counters);
        text += &warm::hint(&self.plan.machine_name, runs);
        if self.is_partial {
            let (done, all) = (self.cells.len(), self.plan.points.len());
            let _ = writeln!(text, "PARTIAL: stopped after {done} of {all} cells");
        }
        text + &self.broken_text()
    }

    /// What each kernel did under the baseline, by which sizes are chosen.
    pub fn traffic_text(&self) -> String {
        let head = [
            "kernel", "size", "of", "MB", "Mrefs", "Kstores", "L1 miss", "LLC miss", "c2c",
            "Mcycles",
        ];
        let mut table = plain_table(&head, 1..2);
        for column in 3..head.len() {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(comfy_table::CellAlignment::Right);
            }
        }
        let kernels = self.plan.kernels();
        for cell in kernels.filter_map(|kernel| self.cell(kernel, &self.plan.baseline)) {
            table.add_row(traffic(cell));
        }
        let baseline = &self.plan.baseline;
        format!(
            "\nunder {baseline}; Kstores of a thread, misses and lines of other caches in % of \
             references\n\n{}",
            text_of(&table)
        )
    }

    /// The table with these rows only. Its columns are as wide as in any part of it.
    fn fitted(&self, rows: &[Vec<String>]) -> Fitted {
        let parts = self.plan.kernels().count();
        let kernel = text_head("kernel", self.plan.kernels());
        let design = text_head("design", self.plan.designs().map(|design| &*design.text));
        let time = number_head("time", TIME_COLUMNS, parts);
        let mostly = mostly_head(self.cells.iter().map(KernelCell::spent), parts);
        let head = [
            &kernel, &design, &time, "confl.", "inter", "busy", "mem.", "lock", "persist", &mostly,
            "crashes",
        ];
        let mut table = plain_table(&head, 2..9);
        table.add_rows(rows);
        Fitted::of(&table, &SPARE)
    }

    fn rows_of(&self, kernel: &str) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        for design in self.plan.designs() {
            if let Some(cell) = self.cell(kernel, &design.text) {
                let name = if rows.is_empty() { kernel } else { "" };
                rows.push(self.row(name, cell));
            }
        }
        rows
    }

    fn row(&self, kernel: &str, cell: &KernelCell) -> Vec<String> {
        let spent = cell.spent();
        let Groups { busy, memory, lock, persist } = spent.groups();
        let percent = |share: f64| format!("{:.0}", 100.0 * share);
        vec![
            kernel.to_owned(),
            cell.point.design.text.clone(),
            self.relative(cell).map_or("-".into(), |ratio| format!("{ratio:.2}")),
            whole(cell.conflicting_epochs()),
            whole(cell.conflicts_between_threads()),
            percent(busy),
            percent(memory),
            percent(lock),
            percent(persist),
            spent.mostly(),
            outcome(cell),
        ]
    }

    fn designs(&self) -> String {
        let all = Reason::ALL.into_iter().filter(|reason| reason.is_persistency());
        let reasons: Vec<Reason> = all
            .filter(|reason| {
                let share = |design| self.mean_share(design, *reason).unwrap_or(0.0);
                self.plan.designs().any(|design| share(design) >= COLUMN_SHARE_MIN)
            })
            .collect();
        let mut head = vec!["all kernels", "time", "confl.", "inter", "log", "Klines"];
        let before_reasons = head.len();
        head.extend(reasons.iter().map(|reason| match reason {
            Reason::Log => "no room",
            other => short(*other),
        }));
        head.push("crashes");
        let mut table = plain_table(&head, 1..head.len() - 1);
        for design in self.plan.designs() {
            table.add_row(self.design_row(design, &reasons));
        }
        // The outcome of crashes stays beside the times.
        let reasons = head[before_reasons..head.len() - 1].iter().rev();
        let spare: Vec<&str> = DESIGNS_SPARE.iter().chain(reasons).copied().collect();
        text_sparing(&table, &spare)
    }

    fn cells_of<'a>(&'a self, design: &'a Choice) -> impl Iterator<Item = &'a KernelCell> {
        self.cells.iter().filter(|cell| cell.point.design.text == design.text)
    }

    fn design_row(&self, design: &Choice, reasons: &[Reason]) -> Vec<String> {
        let sum = |of: fn(&Counters) -> u64| -> u64 {
            self.cells_of(design).map(|cell| of(&cell.run.counters)).sum()
        };
        let lines = sum(|counters| counters.line_writes);
        let own = sum(own_lines);
        let mean = self.mean_relative(&design.text);
        let mut row = vec![
            design.text.clone(),
            mean.map_or("-".into(), |mean| format!("{mean:.2}")),
            whole(per_cent(sum(|counters| counters.epochs_conflicting), sum(|c| c.epochs))),
            whole(per_cent(sum(|counters| counters.conflicts_inter), sum(conflicts))),
            if own == 0 { "-".into() } else { whole(per_cent(own, lines)) },
            format!("{:.0}", lines as f64 / 1000.0),
        ];
        row.extend(reasons.iter().map(|reason| {
            let share = self.mean_share(design, *reason);
            share.map_or("-".into(), |share| format!("{:.0}", 100.0 * share))
        }));
        let judged = self.cells_of(design).filter_map(|cell| cell.cuts.as_ref());
        let (crashes, broken) = judged.fold((0, 0), |(crashes, broken), cuts| {
            (crashes + cuts.crashes, broken + cuts.broken.len())
        });
        row.push(match (crashes > 0, broken) {
            (false, 0) => "-".into(),
            (_, 0) => format!("{crashes} ok"),
            (_, broken) => format!("{crashes}, {broken} BROKEN"),
        });
        row
    }

    /// The mean over the kernels of a reason's share of the time.
    fn mean_share(&self, design: &Choice, reason: Reason) -> Option<f64> {
        let shares: Vec<f64> =
            self.cells_of(design).map(|cell| cell.spent().share(reason)).collect();
        (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
    }

    fn summary(&self) -> String {
        let wrong = self.cells.iter().filter(|cell| cell.run.result.is_err()).count();
        let mut text = format!("{} results held to a plain computation: ", self.cells.len());
        text += &if wrong == 0 { "all right".to_owned() } else { format!("{wrong} WRONG") };
        if self.plan.crashes == 0 {
            return text + "\n";
        }
        let cuts = || self.cells.iter().filter_map(|cell| cell.cuts.as_ref());
        let crashes: u64 = cuts().map(|cuts| cuts.crashes).sum();
        let broken: usize = cuts().map(|cuts| cuts.broken.len()).sum();
        let judged = match broken {
            0 => "each left a consistent cut".to_owned(),
            broken => format!("{broken} left NO CONSISTENT CUT"),
        };
        let _ =
            write!(text, "\n{crashes} crashes, recovered and held to the recorded run: {judged}");
        if self.plan.designs().any(|design| !design.promises_cuts()) {
            text += ";\n- where a design promises none to a program that says nothing";
        }
        if self.cells.iter().any(|cell| cell.is_crashed_smaller()) {
            text += ";\ncrashes are of runs at the quick size";
        }
        let cut = cuts().map(|cuts| cuts.crashes).min();
        if let Some(least) = cut.filter(|least| *least < self.plan.crashes) {
            let asked = self.plan.crashes;
            let _ = write!(
                text,
                ";\n--crashes {asked} was cut to {least}: there is at most one \
                                  after each store; take a larger size"
            );
        }
        text + "\n"
    }

    fn broken_text(&self) -> String {
        let mut text = String::new();
        for cell in self.cells.iter().filter(|cell| cell.broken() > 0) {
            let (kernel, design) = (&cell.point.kernel, &cell.point.design.text);
            if let Err(damage) = &cell.run.result {
                let _ = writeln!(text, "\nWRONG {kernel} under {design}: {damage}");
            }
            let broken = cell.cuts.as_ref().map_or(&[][..], |cuts| &cuts.broken);
            for broken in broken.iter().take(BROKEN_SHOWN) {
                let (cycle, what) = (broken.cycle, &broken.what);
                let _ = writeln!(text, "\nBROKEN {kernel} under {design}, cycle {cycle}: {what}");
            }
            let more = broken.len().saturating_sub(BROKEN_SHOWN);
            if more > 0 {
                let _ = writeln!(text, "  and {more} more");
            }
            let _ = writeln!(text, "  repeat: {}", cell.command(self));
        }
        text
    }
}

impl KernelCell {
    fn is_crashed_smaller(&self) -> bool {
        self.cuts.as_ref().is_some_and(|cuts| cuts.size < self.run.input.size)
    }
}

impl Parts for Kernels {
    type Cell = KernelCell;

    fn take(&mut self, cell: &KernelCell) {
        self.cells.push(cell.clone());
    }

    fn is_complete(&self, number: usize) -> bool {
        let kernel = self.plan.kernels().nth(number);
        let of = |kernel: &str| self.cells.iter().filter(|it| it.point.kernel == kernel).count();
        kernel.is_some_and(|kernel| of(kernel) == self.plan.designs)
    }

    /// The rows of a kernel; before the first, what was run, and the head of the table.
    fn part(&self, number: usize) -> String {
        let kernel = self.plan.kernels().nth(number).unwrap_or_default();
        let Fitted { head, rows, .. } = self.fitted(&self.rows_of(kernel));
        if number > 0 {
            return rows;
        }
        let first = self.plan.points.first();
        let text = format!(
            "{} threads on {}, seed {}, {}; time over {}\n\n",
            first.map_or(0, |point| point.threads),
            self.plan.machine_name,
            first.map_or(0, |point| point.seed),
            first.map_or("", |point| point.extent.in_words()),
            self.plan.baseline,
        );
        text + &head + &rows
    }
}

fn whole(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| format!("{value:.0}"))
}

fn outcome(cell: &KernelCell) -> String {
    let crashes = match &cell.cuts {
        None => "-".to_owned(),
        Some(cuts) if cuts.broken.is_empty() => format!("{} ok", cuts.crashes),
        Some(cuts) => format!("{}, {} BROKEN", cuts.crashes, cuts.broken.len()),
    };
    match cell.run.result {
        Ok(()) => crashes,
        Err(_) => format!("{crashes} WRONG"),
    }
}

fn traffic(cell: &KernelCell) -> Vec<String> {
    let run = &cell.run;
    let counters = &run.counters;
    let share = |part: u64| format!("{:.2}", 100.0 * part as f64 / counters.references as f64);
    let millions = |count: u64| format!("{:.2}", count as f64 / 1e6);
    vec![
        cell.point.kernel.clone(),
        run.input.size.to_string(),
        super::entry(&cell.point.kernel).map_or("", |entry| entry.unit).to_owned(),
        format!("{:.1}", run.pm_bytes as f64 / 1e6),
        millions(counters.references),
        ((counters.stores + counters.locked) / run.input.threads as u64 / 1000).to_string(),
        share(counters.l1_misses),
        share(counters.llc_misses),
        share(counters.cache_to_cache),
        millions(run.cycles),
    ]
}

#[cfg(test)]
mod tests {
    use crate::{Experiment, KernelOptions, Progress};

    #[test]
    fn crashes_that_a_run_has_no_stores_for_are_said_to_be_left_out() {
        let options = KernelOptions {
            kernels: vec!["lu:4".into()],
            designs: vec!["bsp-lb".into()],
            machine: "desktop".into(),
            threads: Some(1),
            crashes: 1,
            ..KernelOptions::default()
        };
        let plan = options.plan().expect("a plan");
        let kernels = KernelOptions::run(plan, &Progress::hidden(), &Default::default());
        let mut kernels = kernels.expect("it runs");
        assert!(!kernels.to_text().contains("was cut"), "{}", kernels.to_text());
        kernels.plan.crashes = 7;
        assert!(kernels.to_text().contains("--crashes 7 was cut to 1: "), "{}", kernels.to_text());
    }

    #[test]
    fn rows_are_shown_kernel_by_kernel_and_are_the_beginning_of_the_text() {
        let options = KernelOptions {
            kernels: ["radix:64", "lu:16"].map(String::from).to_vec(),
            designs: vec!["bsp-lb".into()],
            machine: "desktop".into(),
            threads: Some(2),
            crashes: 0,
            ..KernelOptions::default()
        };
        let progress = Progress::hidden().with_parts(None, |_| Ok(()));
        let plan = options.plan().expect("a plan");
        let kernels = KernelOptions::run(plan, &progress, &Default::default()).expect("it runs");
        let (text, shown) = (kernels.to_text(), progress.shown());
        let rest = text.strip_prefix(&shown).expect("the text begins with what was shown");
        assert!(rest.starts_with("\nall kernels"), "{rest}");
        assert!(shown.contains("\nradix ") && shown.contains("\nlu "), "{shown}");
    }
}
