//! Where the threads' time went, in the groups and words that all tables and plots share.
//!
//! Shares are of the time until each thread finishes, so busy, memory, lock and persistency add up
//! to 1.

use seawall_report::TimePart;
use seawall_sim::{Reason, Stalls};
use serde_json::{Map, Value, json};

/// Reasons below this share of the time are not named.
const NAMED_SHARE_MIN: f64 = 0.02;
/// How many reasons are named.
const NAMED_MAX: usize = 2;
/// How wide they are in a table whose rows are not all there yet: more than "intra 50, inter 6".
const MOSTLY_COLUMNS: usize = 18;

/// The cycles of all threads from the start to the end of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) core_cycles: u64,
    pub(crate) stalls: Stalls,
}

/// Shares of the time, which add up to 1.
pub(crate) struct Groups {
    pub(crate) busy: f64,
    pub(crate) memory: f64,
    pub(crate) lock: f64,
    pub(crate) persist: f64,
}

impl Spent {
    /// Cycles in which cores issued instructions.
    pub(crate) fn busy(&self) -> u64 {
        self.core_cycles - self.stalls.total()
    }

    /// Share of a thread's time until it finishes that went to `reason`, 0 to 1.
    pub(crate) fn share(&self, reason: Reason) -> f64 {
        self.of_running(self.stalls.get(reason))
    }

    /// Share of a thread's time until it finishes in which it issued instructions, 0 to 1.
    pub(crate) fn busy_share(&self) -> f64 {
        self.of_running(self.busy())
    }

    fn of_running(&self, cycles: u64) -> f64 {
        let running = self.core_cycles - self.stalls.get(Reason::Idle);
        cycles as f64 / running.max(1) as f64
    }

    pub(crate) fn groups(&self) -> Groups {
        let persistency = Reason::ALL.into_iter().filter(|reason| reason.is_persistency());
        let memory = Reason::ALL.into_iter().filter(|reason| is_memory(*reason));
        Groups {
            busy: self.busy_share(),
            memory: memory.map(|reason| self.share(reason)).sum(),
            lock: self.share(Reason::Lock),
            persist: persistency.map(|reason| self.share(reason)).sum(),
        }
    }

    /// The largest persistency reasons with their shares in per cent.
    pub(crate) fn mostly(&self) -> String {
        let mut reasons: Vec<(f64, Reason)> = Reason::ALL
            .into_iter()
            .filter(|reason| reason.is_persistency())
            .map(|reason| (self.share(reason), reason))
            .filter(|(share, _)| *share >= NAMED_SHARE_MIN)
            .collect();
        reasons.sort_by(|left, right| right.0.total_cmp(&left.0));
        let named = reasons.iter().take(NAMED_MAX);
        let named: Vec<String> = named
            .map(|(share, reason)| format!("{} {:.0}", short(*reason), 100.0 * share))
            .collect();
        named.join(", ")
    }

    /// Share of all threads' cycles by reason, `busy` and `idle` included; adds up to 1.
    pub(crate) fn to_json(self) -> Map<String, Value> {
        let share = |cycles: u64| json!(cycles as f64 / self.core_cycles.max(1) as f64);
        let reasons = Reason::ALL.into_iter();
        let stalled = reasons.map(|reason| (reason.name(), self.stalls.get(reason)));
        std::iter::once(("busy", self.busy()))
            .chain(stalled)
            .map(|(name, cycles)| (name.to_owned(), share(cycles)))
            .collect()
    }
}

/// The head of the column that names the reasons, in a table of so many parts: as wide as what it
/// names or, where not all of that is there yet, as that usually is.
pub(crate) fn mostly_head(spent: impl Iterator<Item = Spent>, parts: usize) -> String {
    let columns = match parts {
        1 => spent.map(|spent| spent.mostly().len()).max().unwrap_or(0),
        _ => MOSTLY_COLUMNS,
    };
    format!("{:columns$}", "mostly")
}

/// What plots show of the time of threads; the shares add up to 1.
pub(crate) const PARTS: &[TimePart<Spent>] = &[
    TimePart { name: "busy", colour: (0, 158, 115), share: Spent::busy_share },
    TimePart { name: "memory", colour: (86, 180, 233), share: |s| s.groups().memory },
    TimePart { name: "lock", colour: (200, 200, 200), share: |s| s.share(Reason::Lock) },
    TimePart { name: "fence", colour: (240, 228, 66), share: |s| s.share(Reason::Fence) },
    TimePart {
        name: "flushes under way",
        colour: (170, 150, 20),
        share: |s| s.share(Reason::FlushesFull),
    },
    TimePart {
        name: "write-through",
        colour: (102, 102, 51),
        share: |s| s.share(Reason::WriteThrough),
    },
    TimePart {
        name: "intra-thread conflict",
        colour: (230, 159, 0),
        share: |s| s.share(Reason::IntraConflict),
    },
    TimePart {
        name: "inter-thread conflict",
        colour: (213, 94, 0),
        share: |s| s.share(Reason::InterConflict),
    },
    TimePart {
        name: "replacement, versions",
        colour: (204, 121, 167),
        share: |s| s.share(Reason::Replacement),
    },
    TimePart { name: "epoch numbers", colour: (0, 114, 178), share: |s| s.share(Reason::EpochIds) },
    TimePart {
        name: "persist buffer",
        colour: (0, 90, 80),
        share: |s| s.share(Reason::BufferFull) + s.share(Reason::BufferedLine),
    },
    TimePart { name: "hardware log", colour: (120, 120, 120), share: |s| s.share(Reason::Log) },
];

fn is_memory(reason: Reason) -> bool {
    !reason.is_persistency() && !matches!(reason, Reason::Lock | Reason::Idle)
}

/// A name that has room in a column.
pub(crate) fn short(reason: Reason) -> &'static str {
    match reason {
        Reason::FlushesFull => "flush",
        Reason::WriteThrough => "write",
        Reason::IntraConflict => "intra",
        Reason::InterConflict => "inter",
        Reason::Replacement => "repl",
        Reason::EpochIds => "ids",
        Reason::BufferFull => "full",
        Reason::BufferedLine => "line",
        other => other.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CompareOptions, Comparison, Plan, Progress};
    use std::sync::Arc;

    #[test]
    fn the_parts_of_a_bar_are_all_of_the_time() {
        let designs = ["strict", "clwb", "lb", "lbpp:epochs=2", "bsp-lbpp:stores=20:records=2"];
        let options = CompareOptions {
            workloads: vec!["queue".into()],
            designs: designs.map(String::from).to_vec(),
            machine: "desktop".into(),
            operations: 60,
            crashes: 0,
            ..CompareOptions::default()
        };
        let plan = Plan::new(&options).expect("good options");
        let comparison = Comparison::run(plan, &Progress::hidden(), &Arc::default());
        for cell in &comparison.expect("it ends").cells {
            let whole: f64 = PARTS.iter().map(|part| (part.share)(&cell.spent())).sum();
            assert!((whole - 1.0).abs() < 1e-9, "{}: {whole}", cell.point.design.text);
        }
    }
}
