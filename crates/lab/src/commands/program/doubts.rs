//! What shows that code of a program was not compiled with `seawall cc`: its flushes and fences are
//! not seen, and designs show no difference then.

use super::{ProgramCell, Programs};
use seawall_program::{Asks, Persistent};
use std::fmt::Write;

/// How many stores that were not seen are named.
const UNSEEN_SHOWN: usize = 3;

impl Programs {
    /// Words that were stored to persistent memory, if no flush and no fence was seen, under a
    /// design that does nothing without.
    fn never_asked(&self) -> Option<u64> {
        let needs_some = |cell: &&ProgramCell| {
            let design = &cell.point.design;
            design.model().is_some() && !design.promises_cuts()
        };
        let cell = self.cells.iter().find(needs_some)?;
        let [_, words] = cell.ran.stored;
        let is_silent = cell.ran.asked == Asks::default() && words > 0;
        (is_silent && self.plan.persistent != Persistent::All).then_some(words)
    }

    /// The cell with the most stores that were not seen, if there are any.
    fn most_unseen(&self) -> Option<&ProgramCell> {
        let most = self.cells.iter().max_by_key(|cell| cell.ran.unseen);
        most.filter(|cell| cell.ran.unseen > 0)
    }

    /// Stores past the caches that were ordinary ones, under a design that needs flushes.
    fn ordinary(&self) -> u64 {
        let needs_flushes = self.cells.iter().filter(|cell| cell.point.design.needs_flushes());
        needs_flushes.map(|cell| cell.ran.ordinary).max().unwrap_or(0)
    }

    /// The parts without code of `seawall cc`, if there are any.
    fn opaque_said(&self) -> Option<String> {
        let parts = self.opaque.join(", ");
        let said = || format!("not compiled with `seawall cc`, so not simulated: {parts}");
        (!parts.is_empty()).then(said)
    }

    /// Each in a line, without its end.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let mut doubts: Vec<String> = self.opaque_said().into_iter().collect();
        if let Some(words) = self.never_asked() {
            doubts.push(format!(
                "no flush and no fence was seen, though {words} words of persistent memory were \
                 stored to"
            ));
        }
        if self.ordinary() > 0 {
            doubts.push(format!(
                "{} stores past the caches were ordinary ones, which no fence makes durable: the \
                 machine has no write-combining buffer (core.write_combining = 0)",
                self.ordinary()
            ));
        }
        if let Some(cell) = self.most_unseen() {
            doubts.push(format!(
                "{} words of persistent memory changed without a store that was seen",
                cell.ran.unseen
            ));
        }
        doubts
    }

    pub(super) fn doubts_text(&self) -> String {
        let mut text = self.opaque_said().map_or(String::new(), |said| said + "\n");
        if let Some(words) = self.never_asked() {
            let _ = writeln!(
                text,
                "\nWARNING: no flush and no fence was seen, though {words} words of persistent \
                 memory\nwere stored to: the program asks for none, or the code that does was not \
                 compiled\nwith `seawall cc`"
            );
        }
        if self.ordinary() > 0 {
            let _ = writeln!(
                text,
                "\nWARNING: {} stores past the caches were ordinary ones, which no fence makes \
                 durable:\nthe machine has no write-combining buffer; \
                 :core.write_combining=6 behind its name gives it one",
                self.ordinary()
            );
        }
        if let Some(cell) = self.most_unseen() {
            let _ = writeln!(
                text,
                "\nWARNING: {} words of persistent memory changed without a store that was seen, \
                 by code\nthat `seawall cc` did not compile; a crash cannot lose or reorder such \
                 stores",
                cell.ran.unseen
            );
            for place in cell.unseen.iter().take(UNSEEN_SHOWN) {
                let _ = writeln!(text, "  {place}");
            }
        }
        text
    }
}
