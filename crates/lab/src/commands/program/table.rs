//! What is printed of a program under designs, at most 100 columns wide.

use super::output::shown;
use super::{Judged, ProgramCell, ProgramPoint, Programs};
use crate::cell::{Flushed, ribbon_summary};
use crate::engine::spent::Groups;
use crate::engine::timeline::summary;
use crate::engine::warm;
use comfy_table::Table;
use seawall_memory::Model;
use seawall_program::{Fences, From, Persistent};
use seawall_report::{plain_table, text_sparing};
use std::fmt::Write;

/// Columns that a narrow terminal can do without, in this order.
const SPARE: [&str; 8] = ["Mrefs", "Minstr", "confl.", "lock", "busy", "mem.", "mostly", "Mcycles"];
/// How many broken crashes of a cell are described in full.
const BROKEN_SHOWN: usize = 3;

/// What is said where a program breaks that may rely on more than order.
const ORDER_ALONE: &str = "
Fences ask for order alone, which is less than on x86: there, other threads see nothing that
follows a fence before what came before is durable. To ask for that: --fence drain
";

impl Programs {
    /// The table, and what broke.
    pub(super) fn to_text(&self) -> String {
        let plan = &self.plan;
        let persistent = match plan.persistent {
            Persistent::Files => "mapped files are persistent",
            Persistent::Heap => "mapped files and the heap are persistent",
            Persistent::All => "all memory is persistent",
        };
        let from = match plan.from {
            From::Start => "",
            From::Threads => ", from its first thread",
        };
        let cores = self.cells.iter().map(|cell| cell.ran.cores).max().unwrap_or(0);
        let mut text = format!(
            "{}\n{cores} cores of {}, seed {}; {persistent}{from}; time over {}\n\n",
            plan.command.text, plan.machine_name, plan.seed, plan.baseline
        );
        text += &text_sparing(&self.table(), &SPARE);
        text += "\nMinstr, Mrefs: millions of instructions, and of loads and stores among them\n\
                 confl.: epochs that were flushed because of a conflict, in %\n\
                 busy, mem., lock, persist: where the threads' time went, in %\n";
        text += &self.ribbon_summary();
        text += &self.crash_summary();
        let runs = self.cells.iter().map(|cell| &cell.ran.counters);
        text += &warm::hint(&plan.machine_name, runs);
        if let Some((cell, timeline)) = self.traced() {
            text += &summary(&cell, timeline);
        }
        if self.is_partial {
            let (done, all) = (self.cells.len(), plan.points.len());
            let _ = writeln!(text, "PARTIAL: stopped after {done} of {all} cells");
        }
        text += &self.doubts_text();
        text += &self.difference_text();
        text += &self.profile_text();
        text += &self.broken_text();
        text + &self.output_text()
    }

    fn table(&self) -> Table {
        let head = [
            "design", "time", "Mcycles", "Minstr", "Mrefs", "confl.", "busy", "mem.", "lock",
            "persist", "mostly", "crashes",
        ];
        let mut table = plain_table(&head, 1..10);
        self.cells.iter().for_each(|cell| {
            table.add_row(self.row(cell));
        });
        table
    }

    fn row(&self, cell: &ProgramCell) -> Vec<String> {
        let Groups { busy, memory, lock, persist } = cell.spent().groups();
        let percent = |share: f64| format!("{:.0}", 100.0 * share);
        let millions = |count: u64| format!("{:.3}", count as f64 / 1e6);
        vec![
            cell.point.label(),
            self.relative(cell).map_or("-".into(), |ratio| format!("{ratio:.2}")),
            millions(cell.ran.cycles),
            millions(cell.ran.instructions),
            millions(cell.ran.counters.references),
            cell.conflicting_epochs().map_or("-".into(), |percent| format!("{percent:.0}")),
            percent(busy),
            percent(memory),
            percent(lock),
            percent(persist),
            cell.spent().mostly(),
            outcome(cell),
        ]
    }

    /// What the Ribbon is, how lines were flushed, and which designs have none.
    pub(super) fn ribbon_summary(&self) -> String {
        let Some(ribbon) = &self.plan.ribbon else { return String::new() };
        let cells = self.cells.iter().filter_map(|cell| {
            let counts = cell.ran.ribbon?;
            Some((format!("under {}", cell.point.label()), Flushed::of_counts(counts)))
        });
        let without = self.plan.points.iter().filter(|point| !point.design.needs_flushes());
        ribbon_summary(ribbon, cells, &without.map(ProgramPoint::label).collect::<Vec<_>>())
    }

    pub(super) fn crash_summary(&self) -> String {
        let wrong = self.cells.iter().filter(|cell| cell.wrong.is_some()).count();
        let code = self.plan.exit_code;
        let mut text = match wrong {
            0 if self.plan.no_native => format!("it returned {code} under each design\n"),
            0 => format!("it returned {code}, as natively, under each design\n"),
            wrong => format!("it did not return {code} in {wrong} cells: WRONG\n"),
        };
        let crashed = || self.cells.iter().filter_map(|cell| cell.crashed.as_ref());
        let crashes: u64 = crashed().map(|ran| ran.crashes).sum();
        let broken: usize = crashed().map(|ran| ran.broken.len()).sum();
        let held = match &self.plan.judged {
            Judged::Not => {
                return text
                    + "no crashes: give a command that checks {pool} with --check, or a \
                               function of the program with --check-entry\n";
            }
            _ if self.plan.crashes == 0 => return text,
            Judged::By(_) | Judged::ByEntry(_) => "held to the check",
            Judged::Cuts => "held to the recorded run",
        };
        let verdict = match broken {
            0 => "none broke".to_owned(),
            broken => format!("{broken} BROKEN"),
        };
        let _ = write!(text, "{crashes} crashes, {held}: {verdict}");
        if self.cells.iter().any(|cell| cell.crashed.is_none()) {
            text += "; - where a design promises nothing";
        }
        text += "\n";
        let few = self.cells.iter().filter(|cell| {
            cell.crashed.as_ref().is_some_and(|ran| ran.crashes < self.plan.crashes)
        });
        for cell in few {
            let stores = cell.ran.stored[usize::from(self.plan.judged != Judged::Cuts)];
            let _ = writeln!(
                text,
                "fewer than --crashes {} under {}: the run has {stores} stores to crash after, and \
                 crashes come before its end",
                self.plan.crashes,
                cell.point.label(),
            );
        }
        text
    }

    fn difference_text(&self) -> String {
        let differ = || self.cells.iter().filter_map(|cell| Some((cell, cell.differs.as_ref()?)));
        if differ().next().is_none() {
            return String::new();
        }
        let mut text =
            "\nWARNING: it printed something else than natively: times and the order of \
                        threads may differ,\nresults may not; --show-output shows all of it\n"
                .to_owned();
        for (cell, difference) in differ() {
            let _ = write!(text, "  under {}, {difference}", cell.point.label());
        }
        text
    }

    /// What it printed, if the user asks for it.
    fn output_text(&self) -> String {
        let native = self.printed.as_ref().map(|text| ("natively".to_owned(), text));
        let cells = self.cells.iter().filter_map(|cell| {
            Some((format!("under {}", cell.point.label()), cell.printed.as_ref()?))
        });
        let runs: Vec<_> = native.into_iter().chain(cells).collect();
        shown(runs.iter().map(|(name, text)| (&name[..], &text[..])))
    }

    fn broken_text(&self) -> String {
        let mut text = String::new();
        for cell in self.cells.iter().filter(|cell| cell.broken() > 0) {
            let design = cell.point.label();
            if let Some(wrong) = &cell.wrong {
                let _ = writeln!(text, "\nWRONG under {design}: {wrong}");
            }
            let broken = cell.crashed.as_ref().map_or(&[][..], |ran| &ran.broken);
            for broken in broken.iter().take(BROKEN_SHOWN) {
                let (cycle, what) = (broken.cycle, &broken.what);
                let _ = writeln!(text, "\nBROKEN under {design}, cycle {cycle}: {what}");
            }
            let more = broken.len().saturating_sub(BROKEN_SHOWN);
            if more > 0 {
                let _ = writeln!(text, "  and {more} more");
            }
            if let Some(unread) = &cell.unread {
                let _ = writeln!(
                    text,
                    "  {unread} of lines that another thread had stored to, and that the flushing \
                     one\n  had not read: under {design} a flush is nothing, and a barrier covers \
                     what its own\n  thread has stored, and what that has read of other threads: \
                     read the data before"
                );
            }
            let _ = writeln!(text, "  repeat: {}", self.command(cell));
        }
        let orders = self.plan.fences == Fences::Order;
        let waits =
            |cell: &&ProgramCell| !cell.point.design.model().is_some_and(Model::order_is_durable);
        if orders && self.cells.iter().filter(|cell| cell.broken() > 0).any(|cell| waits(&cell)) {
            text += ORDER_ALONE;
        }
        text
    }
}

fn outcome(cell: &ProgramCell) -> String {
    let crashes = match &cell.crashed {
        None => "-".to_owned(),
        Some(ran) if ran.broken.is_empty() => format!("{} ok", ran.crashes),
        Some(ran) => format!("{}, {} BROKEN", ran.crashes, ran.broken.len()),
    };
    if cell.wrong.is_some() { format!("{crashes} WRONG") } else { crashes }
}
