//! What is printed of a program under designs, at most 100 columns wide.

use super::output::shown;
use super::plan::{Judged, Program, ProgramPoint};
use super::{ProgramCell, Programs};
use crate::cell::{Flushed, ribbon_summary};
use crate::engine::spent::Groups;
use crate::engine::timeline::summary;
use crate::engine::warm;
use comfy_table::Table;
use seawall_memory::Model;
use seawall_program::{Fences, From, Persistent};
use seawall_report::{plain_table, text_sparing};
use std::fmt::Write;
use std::sync::Arc;

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
        let mut text = String::new();
        for Program { name, command, has_others, .. } in plan.programs.iter().map(|it| &**it) {
            let name = if *has_others { format!("{name}: ") } else { String::new() };
            let _ = writeln!(text, "{name}{}", command.text);
        }
        let _ = write!(
            text,
            "{cores} cores of {}, seed {}; {persistent}{from}; time over {}\n\n",
            plan.machine_name, plan.seed, plan.baseline
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
        let first = format!("vs {}", self.plan.programs[0].name);
        let of_several = if self.plan.is_of_several() { &["program", &first][..] } else { &[] };
        let numbers = [
            "time", "Mcycles", "Minstr", "Mrefs", "confl.", "busy", "mem.", "lock", "persist",
            "mostly", "crashes",
        ];
        let head = [&["design"], of_several, &numbers].concat();
        let names = 1 + usize::from(self.plan.is_of_several());
        let mut table = plain_table(&head, names..head.len() - 2);
        let mut above = String::new();
        for cell in &self.cells {
            let mut row = self.row(cell);
            let design = std::mem::take(&mut row[0]);
            if design != above {
                (row[0], above) = (design.clone(), design);
            }
            table.add_row(row);
        }
        table
    }

    fn row(&self, cell: &ProgramCell) -> Vec<String> {
        let Groups { busy, memory, lock, persist } = cell.spent().groups();
        let percent = |share: f64| format!("{:.0}", 100.0 * share);
        let millions = |count: u64| format!("{:.3}", count as f64 / 1e6);
        let ratio = |ratio: Option<f64>| ratio.map_or("-".into(), |ratio| format!("{ratio:.2}"));
        let mut row = vec![cell.point.label()];
        if self.plan.is_of_several() {
            row.extend([cell.point.program.name.clone(), ratio(self.over_first(cell))]);
        }
        row.extend([
            ratio(self.relative(cell)),
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
        ]);
        row
    }

    /// What the Ribbon is, how lines were flushed, and which designs have none.
    pub(super) fn ribbon_summary(&self) -> String {
        let Some(ribbon) = &self.plan.ribbon else { return String::new() };
        let cells = self.cells.iter().filter_map(|cell| {
            let counts = cell.ran.ribbon?;
            Some((cell.point.said(), Flushed::of_counts(counts)))
        });
        let without = self.plan.points.iter().filter(|point| !point.design.needs_flushes());
        let mut without: Vec<String> = without.map(ProgramPoint::label).collect();
        without.dedup();
        ribbon_summary(ribbon, cells, &without)
    }

    pub(super) fn crash_summary(&self) -> String {
        let wrong = self.cells.iter().filter(|cell| cell.wrong.is_some()).count();
        let code = self.plan.exit_code;
        let it = if self.plan.is_of_several() { "each program" } else { "it" };
        let mut text = match wrong {
            0 if self.plan.no_native => format!("{it} returned {code} under each design\n"),
            0 => format!("{it} returned {code}, as natively, under each design\n"),
            wrong => format!("it did not return {code} in {wrong} cells: WRONG\n"),
        };
        let crashed = || self.cells.iter().filter_map(|cell| cell.crashed.as_ref());
        let crashes: u64 = crashed().map(|ran| ran.crashes).sum();
        let broken: usize = crashed().map(|ran| ran.broken.len()).sum();
        let (judged, not): (Vec<&Arc<Program>>, Vec<&Arc<Program>>) =
            self.plan.programs.iter().partition(|program| program.judged != Judged::Not);
        if judged.is_empty() {
            return text
                + "no crashes: give a command that checks {pool} with --check, or a \
                   function of the program with --check-entry\n";
        }
        if self.plan.crashes == 0 {
            return text;
        }
        let is_cut = |program: &&Arc<Program>| program.judged == Judged::Cuts;
        let held = match (judged.iter().all(is_cut), judged.iter().any(is_cut)) {
            (true, _) => "held to the recorded run",
            (false, false) => "held to the check",
            (false, true) => "held to the check, or to the recorded run",
        };
        let verdict = match broken {
            0 => "none broke".to_owned(),
            broken => format!("{broken} BROKEN"),
        };
        let _ = write!(text, "{crashes} crashes, {held}: {verdict}");
        let is_judged = |cell: &&ProgramCell| cell.point.program.judged != Judged::Not;
        if self.cells.iter().filter(is_judged).any(|cell| cell.crashed.is_none()) {
            text += "; - where a design promises nothing";
        }
        text += "\n";
        for Program { name, .. } in not.into_iter().map(|it| &**it) {
            let _ = writeln!(text, "no crashes of {name}: give its check with --check {name}=..");
        }
        let few = self.cells.iter().filter(|cell| {
            cell.crashed.as_ref().is_some_and(|ran| ran.crashes < self.plan.crashes)
        });
        for cell in few {
            let is_cut = cell.point.program.judged == Judged::Cuts;
            let stores = cell.ran.stored[usize::from(!is_cut)];
            let _ = writeln!(
                text,
                "fewer than --crashes {} {}: the run has {stores} stores to crash after, and \
                 crashes come before its end",
                self.plan.crashes,
                cell.point.said(),
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
            let _ = write!(text, "  {}, {difference}", cell.point.said());
        }
        text
    }

    /// What it printed, if the user asks for it.
    fn output_text(&self) -> String {
        let native = self.plan.programs.iter().zip(&self.facts).filter_map(|(program, facts)| {
            let name =
                if program.has_others { format!("{} ", program.name) } else { String::new() };
            Some((format!("{name}natively"), facts.printed.as_ref()?))
        });
        let cells = self.cells.iter();
        let cells = cells.filter_map(|cell| Some((cell.point.said(), cell.printed.as_ref()?)));
        let runs: Vec<_> = native.chain(cells).collect();
        shown(runs.iter().map(|(name, text)| (&name[..], &text[..])))
    }

    fn broken_text(&self) -> String {
        let plan = &self.plan;
        let mut text = String::new();
        for cell in self.cells.iter().filter(|cell| cell.broken() > 0) {
            let (design, said) = (cell.point.label(), cell.point.said());
            if let Some(wrong) = &cell.wrong {
                let _ = writeln!(text, "\nWRONG {said}: {wrong}");
            }
            let broken = cell.crashed.as_ref().map_or(&[][..], |ran| &ran.broken);
            for broken in broken.iter().take(BROKEN_SHOWN) {
                let (cycle, what) = (broken.cycle, &broken.what);
                let _ = writeln!(text, "\nBROKEN {said}, cycle {cycle}: {what}");
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
            let _ = writeln!(text, "  repeat: {}", plan.command(&cell.point));
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
