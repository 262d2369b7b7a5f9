//! Parts of an exploration: a user's own, as `3/64`, and those that other processes do, which are
//! put together to what one process finds.
//!
//! The second kind is the work of one searcher. It keeps what it knows of recovery from unit to
//! unit and shares it with no other, so its units come out the same, with all counts, wherever it
//! works. Every part makes all runs of the program, and searches its own units of them.

use super::{ExploreCommand, ExploreError, ExploreReport, explore_share, program};
use seawall_explore::{Scope, SearchOutcome};
use seawall_report::Progress;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A part of the work: unit `number` of each `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which part, from 1.
    pub number: usize,
    pub of: usize,
}

impl Default for Shard {
    fn default() -> Shard {
        Shard { number: 1, of: 1 }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Shard {
    type Err = ExploreError;

    fn from_str(text: &str) -> Result<Shard, ExploreError> {
        let parts = text.split_once('/');
        let parts = parts.and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Shard { number, of }),
            _ => Err(ExploreError::Shard(text.into())),
        }
    }
}

/// What one searcher found, as it goes from one process to another.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ExplorePart {
    /// Of what exploration it is, in full.
    what: String,
    units: BTreeMap<usize, Noted>,
}

/// A unit that was done.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Noted {
    outcome: SearchOutcome,
    /// The finding itself stays where it was made.
    has_found: bool,
}

/// What a process does of an exploration.
#[derive(Clone, Copy)]
pub(super) enum Share<'a> {
    Whole,
    /// The work of this searcher, which is noted.
    Part(usize, &'a Mutex<ExplorePart>),
    /// What no part has done: the runs, and of each model the first unit that found something.
    Rest(&'a ExplorePart),
}

impl Share<'_> {
    /// Begins what `what` describes, from the start if it was begun before; what to do of it.
    pub(super) fn begin(self, what: &str, how: Scope) -> Result<Scope, ExploreError> {
        match self {
            Share::Whole => Ok(how),
            Share::Part(number, notes) => {
                *locked(notes) = ExplorePart { what: what.to_owned(), units: BTreeMap::new() };
                Ok(Scope { only: Some(number), workers: Some(1), ..how })
            }
            Share::Rest(done) if done.what == what => Ok(how),
            Share::Rest(_) => Err(ExploreError::OtherPart),
        }
    }

    pub(super) fn known(self, unit: usize) -> Option<SearchOutcome> {
        self.noted(unit).filter(|noted| !noted.has_found).map(|noted| noted.outcome.clone())
    }

    pub(super) fn counted(self, unit: usize) -> Option<SearchOutcome> {
        self.noted(unit).filter(|noted| noted.has_found).map(|noted| noted.outcome.clone())
    }

    fn noted(&self, unit: usize) -> Option<&Noted> {
        match self {
            Share::Rest(done) => done.units.get(&unit),
            Share::Whole | Share::Part(..) => None,
        }
    }

    pub(super) fn note(self, unit: usize, outcome: &SearchOutcome) {
        if let Share::Part(_, notes) = self {
            let has_found = outcome.finding.is_some();
            let outcome = SearchOutcome { finding: None, ..outcome.clone() };
            locked(notes).units.insert(unit, Noted { outcome, has_found });
        }
    }

    /// Processes of a program of others that pay.
    pub(super) fn servers(self) -> usize {
        match self {
            Share::Part(..) => 1,
            Share::Whole | Share::Rest(_) => {
                std::thread::available_parallelism().map_or(1, usize::from)
            }
        }
    }
}

fn locked(notes: &Mutex<ExplorePart>) -> MutexGuard<'_, ExplorePart> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ExploreCommand {
    /// How many parts it has for other processes: one for each searcher.
    ///
    /// # Errors
    /// When it cannot be done in parts.
    pub fn parts(&self) -> Result<usize, ExploreError> {
        let options = &self.options;
        options.check()?;
        let refuse = |option| Err(ExploreError::NotInParts { option });
        match () {
            () if options.seconds > 0 => refuse("--seconds other than 0"),
            () if options.shard != Shard::default() => refuse("--shard"),
            () if options.resume.is_some() => refuse("--resume"),
            () if options.replay.is_some() => refuse("--replay"),
            () => Ok(options.searchers as usize),
        }
    }

    /// Does the part of this number, from 0.
    ///
    /// # Errors
    /// When the program cannot be explored, or not in parts. A run that fails is no error of a
    /// part, as another one may have a finding before it.
    pub fn part(
        &self,
        number: usize,
        progress: &Progress,
        stop: &Arc<AtomicBool>,
    ) -> Result<ExplorePart, ExploreError> {
        self.parts()?;
        let notes = Mutex::default();
        let done = self.share(Share::Part(number, &notes), progress, stop);
        let part = notes.into_inner().unwrap_or_else(PoisonError::into_inner);
        match done {
            _ if stop.load(Ordering::Relaxed) => Err(ExploreError::Stopped),
            Err(error) if part.what.is_empty() => Err(error),
            _ => Ok(part),
        }
    }

    /// What all parts have found, as if one process had done all.
    ///
    /// # Errors
    /// When a part is of another exploration, or a run has failed before anything was found.
    pub fn together(
        &self,
        parts: Vec<ExplorePart>,
        progress: &Progress,
        stop: &Arc<AtomicBool>,
    ) -> Result<ExploreReport, ExploreError> {
        let mut whole = ExplorePart::default();
        for part in parts {
            if !whole.what.is_empty() && whole.what != part.what {
                return Err(ExploreError::OtherPart);
            }
            // What threads of recovery share is found over all searchers.
            if part.units.values().any(|noted| noted.outcome.has_threads) {
                return Err(ExploreError::RecoveryThreads);
            }
            whole.what = part.what;
            whole.units.extend(part.units);
        }
        self.share(Share::Rest(&whole), progress, stop)
    }

    pub(super) fn share(
        &self,
        share: Share<'_>,
        progress: &Progress,
        stop: &Arc<AtomicBool>,
    ) -> Result<ExploreReport, ExploreError> {
        let report = match &self.workload {
            Some(name) => explore_share(name, &self.options, share, progress, stop),
            None => program::explore(&self.program, &self.options, share, progress, stop),
        }?;
        Ok(ExploreReport { must_be_complete: self.require_complete, ..report })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::explore::ExploreOptions;
    use seawall_explore::Model;
    use seawall_report::Report as _;
    use seawall_workloads::Flaw;

    fn of(name: &str, options: ExploreOptions) -> ExploreCommand {
        ExploreCommand {
            workload: Some(name.into()),
            options: ExploreOptions { seconds: 0, ..options },
            broken: false,
            require_complete: false,
            json: None,
            html: None,
            program: Default::default(),
        }
    }

    /// All parts, each as text on its way, from the last to the first.
    fn parts(command: &ExploreCommand) -> Vec<ExplorePart> {
        let (progress, stop) = (Progress::hidden(), Arc::default());
        let part = |number| {
            let part = command.part(number, &progress, &stop).unwrap();
            serde_json::from_str(&serde_json::to_string(&part).unwrap()).unwrap()
        };
        (0..command.parts().unwrap()).rev().map(part).collect()
    }

    fn without_times(report: ExploreReport) -> String {
        let mut report = report;
        report.models.iter_mut().for_each(|model| model.seconds = 0.0);
        report.json() + &report.text()
    }

    #[test]
    fn parts_make_up_what_one_process_finds_with_the_same_counts() {
        let small = ExploreOptions { ops: 3, entries: 2, ..ExploreOptions::default() };
        let two = ExploreOptions { threads: 2, ops: 1, preemptions: 1, ..small.clone() };
        let late =
            ExploreOptions { models: vec![Model::Px86], searchers: 2, ..ExploreOptions::default() };
        let flawed = ExploreOptions { flaw: Flaw::NoOrder, ..small.clone() };
        let cases = [
            ("queue", small.clone(), false),
            ("hash", ExploreOptions { searchers: 7, ..small }, false),
            // Runs with several units, which have one searcher.
            (
                "queue",
                ExploreOptions { models: vec![Model::Bep, Model::Hops], ..two.clone() },
                false,
            ),
            ("queue", ExploreOptions { models: vec![Model::Px86], ..two }, false),
            ("queue", flawed.clone(), true),
            ("hash", ExploreOptions { threads: 2, searchers: 9, ..flawed }, true),
            // Found in a late schedule, by a searcher that knows much of recovery by then.
            ("cc-9", late.clone(), true),
            ("rb-7", late, true),
        ];
        let (progress, stop) = (Progress::hidden(), Arc::default());
        for (name, options, finds) in cases {
            let command = of(name, options);
            let whole = command.share(Share::Whole, &progress, &stop).unwrap();
            assert_eq!(whole.found(), finds, "{name}");
            let parts = parts(&command);
            let busy = parts.iter().filter(|part| !part.units.is_empty()).count();
            assert!(busy > 1, "{name}: all work is in one part");
            let together = command.together(parts, &progress, &stop).unwrap();
            assert_eq!(without_times(together), without_times(whole), "{name}");
        }
    }

    #[test]
    fn parts_of_another_exploration_and_options_without_use_are_refused() {
        let small = ExploreOptions { ops: 1, entries: 1, ..ExploreOptions::default() };
        let (progress, stop) = (Progress::hidden(), Arc::default());
        let command = of("queue", small.clone());
        let other = of("queue", ExploreOptions { seed: 2, ..small.clone() });
        let mixed = vec![
            command.part(0, &progress, &stop).unwrap(),
            other.part(1, &progress, &stop).unwrap(),
        ];
        assert_eq!(command.together(mixed, &progress, &stop).unwrap_err(), ExploreError::OtherPart);
        let all = parts(&other);
        assert_eq!(command.together(all, &progress, &stop).unwrap_err(), ExploreError::OtherPart);
        let mut threaded = parts(&command);
        let noted = threaded.iter_mut().find_map(|part| part.units.values_mut().next());
        noted.unwrap().outcome.has_threads = true;
        let said = command.together(threaded, &progress, &stop).unwrap_err().to_string();
        assert!(said.contains("on one machine, without workers"), "{said}");
        let mut late = command.clone();
        late.options.seconds = 5;
        assert!(late.parts().unwrap_err().to_string().contains("--seconds"));
        let shard = of("queue", ExploreOptions { shard: "1/2".parse().unwrap(), ..small });
        assert!(shard.parts().unwrap_err().to_string().contains("--shard"));
        stop.store(true, Ordering::Relaxed);
        assert_eq!(command.part(0, &progress, &stop).unwrap_err(), ExploreError::Stopped);
        let none = of("hsah", ExploreOptions::default());
        let said = none.part(0, &progress, &Arc::default()).unwrap_err().to_string();
        assert!(said.contains("hsah"), "{said}");
    }
}
