//! What shows that code of a program was not compiled with `seawall cc`: its flushes and fences are
//! not seen, and designs show no difference then.

use super::plan::Program;
use super::{ProgramCell, Programs};
use seawall_program::{Asks, Persistent};
use std::fmt::Write;

/// How many stores that were not seen are named.
const UNSEEN_SHOWN: usize = 3;

impl Programs {
    /// Words that were stored to persistent memory, if no flush and no fence was seen, under a
    /// design that does nothing without.
    fn never_asked(&self, program: usize) -> Option<u64> {
        let needs_some = |cell: &&ProgramCell| {
            let design = &cell.point.design;
            design.model().is_some() && !design.promises_cuts()
        };
        let cell = self.of_program(program).find(needs_some)?;
        let [_, words] = cell.ran.stored;
        let is_silent = cell.ran.asked == Asks::default() && words > 0;
        (is_silent && self.plan.persistent != Persistent::All).then_some(words)
    }

    /// The cell with the most stores that were not seen, if there are any.
    fn most_unseen(&self, program: usize) -> Option<&ProgramCell> {
        let most = self.of_program(program).max_by_key(|cell| cell.ran.unseen);
        most.filter(|cell| cell.ran.unseen > 0)
    }

    /// Stores past the caches that were ordinary ones, under a design that needs flushes.
    fn ordinary(&self, program: usize) -> u64 {
        let cells = self.of_program(program);
        let needs_flushes = cells.filter(|cell| cell.point.design.needs_flushes());
        needs_flushes.map(|cell| cell.ran.ordinary).max().unwrap_or(0)
    }

    /// The parts without code of `seawall cc`, if there are any.
    fn opaque_said(&self, program: usize) -> Option<String> {
        let parts = self.facts[program].opaque.join(", ");
        let said = || format!("not compiled with `seawall cc`, so not simulated: {parts}");
        (!parts.is_empty()).then(said)
    }

    /// Those about the first program, each in a line, without its end.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let program = 0;
        let mut doubts: Vec<String> = self.opaque_said(program).into_iter().collect();
        if let Some(words) = self.never_asked(program) {
            doubts.push(format!(
                "no flush and no fence was seen, though {words} words of persistent memory were \
                 stored to"
            ));
        }
        if self.ordinary(program) > 0 {
            doubts.push(format!(
                "{} stores past the caches were ordinary ones, which no fence makes durable: the \
                 machine has no write-combining buffer (core.write_combining = 0)",
                self.ordinary(program)
            ));
        }
        if let Some(cell) = self.most_unseen(program) {
            doubts.push(format!(
                "{} words of persistent memory changed without a store that was seen",
                cell.ran.unseen
            ));
        }
        doubts
    }

    /// Those about each program.
    pub(super) fn doubts_text(&self) -> String {
        self.plan.programs.iter().map(|program| self.doubts_about(program)).collect()
    }

    fn doubts_about(&self, program: &Program) -> String {
        let Program { number, name, has_others, .. } = program;
        let (number, name) =
            (*number, if *has_others { format!("{name}: ") } else { String::new() });
        let opaque = self.opaque_said(number);
        let mut text = opaque.map_or(String::new(), |said| format!("{name}{said}\n"));
        if let Some(words) = self.never_asked(number) {
            let _ = writeln!(
                text,
                "\nWARNING: {name}no flush and no fence was seen, though {words} words of \
                 persistent memory\nwere stored to: the program asks for none, or the code that \
                 does was not compiled\nwith `seawall cc`"
            );
        }
        if self.ordinary(number) > 0 {
            let _ = writeln!(
                text,
                "\nWARNING: {name}{} stores past the caches were ordinary ones, which no fence \
                 makes durable:\nthe machine has no write-combining buffer; \
                 :core.write_combining=6 behind its name gives it one",
                self.ordinary(number)
            );
        }
        if let Some(cell) = self.most_unseen(number) {
            let _ = writeln!(
                text,
                "\nWARNING: {name}{} words of persistent memory changed without a store that was \
                 seen, by code\nthat `seawall cc` did not compile; a crash cannot lose or reorder \
                 such stores",
                cell.ran.unseen
            );
            for place in cell.unseen.iter().take(UNSEEN_SHOWN) {
                let _ = writeln!(text, "  {place}");
            }
        }
        text
    }
}
