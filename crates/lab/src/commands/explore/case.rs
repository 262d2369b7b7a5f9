//! Programs of the corpus as targets, and the programs that explorers are measured with.

use super::ExploreError;
use super::target::{Found, Recorded, Target};
use seawall_corpus::{Case, Entry, FastFair, HashTable, all_cases};
use seawall_explore::{Check, CrashImage, CrashPoint, Schedule};
use std::sync::Arc;

/// A case of the corpus, or a program to measure with: broken or fixed.
pub(super) struct CaseTarget {
    case: Arc<dyn Case + Send>,
    fixed: bool,
    ops: u64,
}

/// The names of the programs that are no bug, and take a number of operations.
pub const MEASURED: [&str; 3] = ["fast-fair", "hash-table", "lossy-table"];

impl CaseTarget {
    /// The program called `name`; `ops` counts for those of [`MEASURED`] only.
    pub(super) fn named(name: &str, fixed: bool, ops: u64) -> Option<CaseTarget> {
        let case: Arc<dyn Case + Send> = match name {
            "fast-fair" => Arc::new(Entry(FastFair::new(ops))),
            "hash-table" => Arc::new(Entry(HashTable::new(ops))),
            "lossy-table" => Arc::new(Entry(HashTable::lossy(ops))),
            _ => Arc::new(all_cases().find(|case| case.about().name == name)?),
        };
        Some(CaseTarget { case, fixed, ops })
    }

    fn is_measured(&self) -> bool {
        MEASURED.contains(&self.case.about().name)
    }
}

impl Target for CaseTarget {
    fn name(&self) -> String {
        self.case.about().name.into()
    }

    fn in_words(&self) -> String {
        let about = self.case.about();
        if self.is_measured() {
            return format!("{}: {} inserts", about.name, self.ops);
        }
        let twin = if self.fixed { "the fixed twin of" } else { "the bug:" };
        format!("{}: {twin} {} ({})", about.name, about.what, about.source)
    }

    fn key(&self) -> String {
        match (self.is_measured(), self.fixed) {
            (true, _) => self.ops.to_string(),
            (false, true) => "fixed".into(),
            (false, false) => "broken".into(),
        }
    }

    fn threads(&self) -> usize {
        self.case.about().threads
    }

    fn record(&self, schedule: &Schedule) -> Result<Recorded, ExploreError> {
        let trace = self.case.record(self.fixed, schedule);
        let trace = trace.map_err(|error| ExploreError::Run {
            program: self.name(),
            schedule: None,
            error,
        })?;
        let check = CaseCheck { case: self.case.clone(), fixed: self.fixed };
        Ok(Recorded { trace, moved: None, check: Box::new(check) })
    }
}

/// The recovery of a case, and its judgement.
struct CaseCheck {
    case: Arc<dyn Case + Send>,
    fixed: bool,
}

impl Check for CaseCheck {
    type Found = Found;

    fn parts(&self) -> usize {
        self.case.parts()
    }

    fn recover(&self, image: &CrashImage) -> Result<Found, String> {
        self.recover_part(image, 0)
    }

    fn recover_part(&self, image: &CrashImage, part: usize) -> Result<Found, String> {
        self.case.recover(image, self.fixed, part).map(Found::Case)
    }

    fn judge(&self, found: &Found, point: &CrashPoint) -> Result<(), String> {
        let Found::Case(found) = found else { unreachable!("recovery of a case") };
        self.case.judge(found, &point.promised)
    }
}
