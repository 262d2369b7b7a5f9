//! Planted bugs, by name: they prove that a checker finds what it must find.
//!
//! Every structure can have the first two. Some are bugs of the heap, for the workloads that live
//! in one. Bugs of the heap's type information are not among them: the tests of the typed layer
//! catch those. One is the structure's own; the head of its file describes it.

use crate::shared::epoch_log;
use crate::{WORKLOADS, Workload};
use seawall_runtime::HeapFlaw;
use std::fmt;
use std::str::FromStr;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Flaw {
    /// No planted bug.
    #[default]
    None,
    /// An update becomes visible before the log or copy that makes it recoverable is ordered.
    NoOrder,
    /// The log or copy that makes an update recoverable is not flushed. Only x86-like machines show
    /// it.
    NoFlush,
    /// A bug of the heap, in workloads that live in one.
    Heap(HeapFlaw),
    /// A bug of the structure itself, in workloads that grow and shrink.
    Slip,
}

/// No planted bug has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown flaw `{0}`; the flaws are {names}", names = Flaw::names().join(", "))]
pub struct UnknownFlaw(pub String);

/// A workload cannot have this planted bug.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{workload} cannot have the flaw {flaw}, which is one of {kind}: explore {able} with it, or \
     choose no-order or no-flush",
    kind = if *flaw == Flaw::Slip { "structures that grow and shrink" } else { "heaps" },
    able = able(*flaw)
)]
pub struct UnfitFlaw {
    workload: &'static str,
    flaw: Flaw,
}

/// The workloads that can have the planted bug, if not all can.
fn able(flaw: Flaw) -> String {
    let can = |entry: &&crate::WorkloadEntry| {
        if flaw == Flaw::Slip { entry.slips } else { entry.in_heap }
    };
    let names: Vec<&str> = WORKLOADS.iter().filter(can).map(|entry| entry.name).collect();
    names.join(" or ")
}

struct Entry {
    flaw: Flaw,
    name: &'static str,
    letter: &'static str,
    about: &'static str,
}

macro_rules! flaws {
    ($($flaw:expr, $name:literal, $letter:literal, $about:literal;)*) => {
        const FLAWS: &[Entry] =
            &[$(Entry { flaw: $flaw, name: $name, letter: $letter, about: $about }),*];
    };
}

flaws! {
    Flaw::NoOrder, "no-order", "o", "Leave out the order before an update becomes visible";
    Flaw::NoFlush, "no-flush", "f", "Leave out the flush before it";
    Flaw::Heap(HeapFlaw::NoFlush), "no-data-flush", "d",
        "In a heap: truncate logs without flushing the data";
    Flaw::Heap(HeapFlaw::LateUndo), "late-undo", "u", "In a heap: log old values too late";
    Flaw::Heap(HeapFlaw::NoWait), "no-wait", "w",
        "In a heap: truncate logs without waiting for writers";
    Flaw::Heap(HeapFlaw::NoOrder), "no-stamps", "s", "In a heap: replay logs thread by thread";
    Flaw::Heap(HeapFlaw::NoFreed), "no-freed", "v", "In a heap: replay logs over freed memory";
    Flaw::Slip, "slip", "p", "In a structure that grows and shrinks: its own planted bug";
}

impl Flaw {
    /// All planted bugs.
    pub fn all() -> impl Iterator<Item = Flaw> {
        FLAWS.iter().map(|entry| entry.flaw)
    }

    fn names() -> Vec<&'static str> {
        FLAWS.iter().map(|entry| entry.name).collect()
    }

    fn entry(self) -> Option<&'static Entry> {
        FLAWS.iter().find(|entry| entry.flaw == self)
    }

    /// The name; `None` without a planted bug, or if it has no name.
    pub fn name(self) -> Option<&'static str> {
        self.entry().map(|entry| entry.name)
    }

    /// Its letter in short texts; `n` for none.
    pub fn letter(self) -> &'static str {
        self.entry().map_or("n", |entry| entry.letter)
    }

    /// The planted bug with this letter.
    pub fn of_letter(letter: &str) -> Option<Flaw> {
        let found = FLAWS.iter().find(|entry| entry.letter == letter);
        found.map(|entry| entry.flaw).or((letter == "n").then_some(Flaw::None))
    }

    /// Its description, one line.
    pub fn about(self) -> &'static str {
        self.entry().map_or("", |entry| entry.about)
    }

    /// Rejects a planted bug that `W` cannot have.
    ///
    /// # Errors
    /// The workload, the planted bug, and the workloads that have it.
    pub fn check_for<W: Workload>(self) -> Result<(), UnfitFlaw> {
        let fits = match self {
            Flaw::None | Flaw::NoOrder | Flaw::NoFlush => true,
            Flaw::Heap(_) => W::IN_HEAP,
            Flaw::Slip => W::SLIPS,
        };
        if fits {
            return Ok(());
        }
        Err(UnfitFlaw { workload: W::NAME, flaw: self })
    }

    /// The planted bug, for a structure with a log of three epochs.
    pub(crate) fn of_epochs(self) -> epoch_log::OrderFlaw {
        match self {
            Flaw::NoOrder => epoch_log::OrderFlaw::NoOrder,
            Flaw::NoFlush => epoch_log::OrderFlaw::NoFlush,
            Flaw::None | Flaw::Heap(_) | Flaw::Slip => epoch_log::OrderFlaw::None,
        }
    }

    /// The planted bug, for a heap.
    pub(crate) fn of_heap(self) -> HeapFlaw {
        match self {
            Flaw::None | Flaw::Slip => HeapFlaw::None,
            Flaw::NoOrder => HeapFlaw::NoFence,
            Flaw::NoFlush => HeapFlaw::NoLogFlush,
            Flaw::Heap(flaw) => flaw,
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().unwrap_or("none"))
    }
}

impl FromStr for Flaw {
    type Err = UnknownFlaw;

    fn from_str(name: &str) -> Result<Flaw, UnknownFlaw> {
        let found = FLAWS.iter().find(|entry| entry.name == name);
        found.map(|entry| entry.flaw).ok_or_else(|| UnknownFlaw(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flaw_is_found_by_its_name_and_a_wrong_name_lists_the_right_ones() {
        for flaw in Flaw::all() {
            assert_eq!(flaw.to_string().parse(), Ok(flaw));
            assert_eq!(Flaw::of_letter(flaw.letter()), Some(flaw));
            assert_eq!(flaw.of_heap() == HeapFlaw::None, flaw == Flaw::Slip);
            let is_heaps = flaw.check_for::<crate::Hash>().is_err();
            assert_eq!(flaw.of_epochs() == epoch_log::OrderFlaw::None, is_heaps);
            assert_eq!(flaw.check_for::<crate::BTree>().is_err(), flaw == Flaw::Slip);
            assert_eq!(flaw.check_for::<crate::ChurnAvl>(), Ok(()));
        }
        let wrong = "no-odrer".parse::<Flaw>().unwrap_err().to_string();
        assert!(wrong.contains("`no-odrer`") && wrong.contains("no-order, no-flush"), "{wrong}");
        assert_eq!((Flaw::None.name(), Flaw::None.of_heap()), (None, HeapFlaw::None));
        assert_eq!((Flaw::of_letter("n"), Flaw::of_letter("x")), (Some(Flaw::None), None));
    }
}
