//! What an exploration covered and what it found, in numbers and in words.
//!
//! It is complete if each of these is: the schedules within the bounds, the images of every run,
//! and those of every recovery that was cut short. What it does not cover it says.

use crate::finding::Finding;
use crate::interleavings::Tried;
use crate::outcome::{Reached, SearchOutcome};
use crate::scope::{KIND, Scope};
use crate::waste::{Waste, together};
use seawall_memory::Model;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;

/// The outcome of a unit.
pub(crate) struct Done {
    pub(crate) number: usize,
    pub(crate) run: usize,
    pub(crate) model: Model,
    /// Whether it is the first one of its run.
    pub(crate) is_first: bool,
    pub(crate) outcome: SearchOutcome,
    pub(crate) waste: Vec<Waste>,
    /// Whether the run reported an operation as done, and stored to persistent memory.
    pub(crate) is_told: [bool; 2],
}

/// How many schedules there are, by how those that were made branch: an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// With the bounds of the exploration.
    pub schedules: u64,
    /// With one interruption less, if there is one to leave out.
    pub less_interrupted: Option<u64>,
    /// Without delays, if there are any.
    pub undelayed: Option<u64>,
}

/// The runs on a kind of machine.
#[derive(Clone, Debug)]
pub struct Machines {
    /// The models of the machines.
    pub models: Vec<Model>,
    /// The schedules within the bounds.
    pub tried: Tried,
    /// Runs at random besides these.
    pub random: usize,
    /// How many schedules there are, if not all were made.
    pub estimate: Option<Estimate>,
}

/// What an exploration did and found.
#[derive(Clone, Debug)]
pub struct Covered {
    /// How far it was to go.
    pub how: Scope,
    /// Each kind of machine.
    pub kinds: Vec<Machines>,
    /// The outcome under each model, over all runs.
    pub models: Vec<SearchOutcome>,
    /// For each model the number of the run in which something was found, from 1.
    pub found_in: Vec<Option<usize>>,
    /// Different runs that were searched.
    pub runs: usize,
    /// Flushes and fences that do nothing, and stores that are never flushed, over all runs.
    pub waste: Vec<Waste>,
    /// Why nothing could be found.
    pub silence: Vec<Silence>,
    /// True if there was too little time.
    pub is_late: bool,
    /// True if it was stopped from outside.
    pub is_stopped: bool,
    /// False if threads of recovery have come to share words before whose accesses they were not
    /// interrupted in all runs.
    pub is_whole: bool,
}

/// A reason for which an exploration can find nothing, or not all: most likely a mistake in the
/// test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Silence {
    /// No run has an output.
    #[error(
        "no thread reports an operation as done (`output`), so nothing is promised: an operation \
         that is lost is no failure"
    )]
    NoOutput,
    /// No run stores to persistent memory.
    #[error("the program stores nothing to persistent memory: there is nothing to lose")]
    NoStore,
    /// Recovery reads nothing.
    #[error("recovery reads nothing from persistent memory: it finds the same after every crash")]
    NoRead,
    /// The judgement does not look.
    #[error(
        "the judgement never looks at what had been promised, nor at the outputs: an operation \
         that is lost is no failure"
    )]
    NotAsked,
}

impl Covered {
    /// The outcome of the units that were done, up to the first of each model that found
    /// something.
    pub(crate) fn of(
        how: &Scope,
        kinds: Vec<Machines>,
        mut done: Vec<Done>,
        first: Vec<usize>,
        [is_late, is_stopped]: [bool; 2],
    ) -> Covered {
        done.sort_unstable_by_key(|done| done.number);
        let limit = |model: Model| {
            let at = how.models.iter().position(|of| *of == model);
            first[at.expect("a unit is of one of the models")]
        };
        done.retain(|done| done.number <= limit(done.model));
        let models = how.models.iter().map(|&model| {
            let start = SearchOutcome { reached: Reached::Complete, ..SearchOutcome::of(model) };
            let of_model = done.iter().filter(|done| done.model == model);
            of_model.fold(start, |mut whole, done| {
                let mut outcome = done.outcome.clone();
                if outcome.stopped && done.run % KIND > 0 {
                    // It is a schedule less, which is said elsewhere.
                    (outcome.stopped, outcome.reached) = (false, Reached::Complete);
                    outcome.tried = None;
                }
                whole.add(outcome);
                whole
            })
        });
        let models: Vec<SearchOutcome> = models.collect();
        let found_in = how.models.iter().map(|&model| {
            let of_model = |done: &&Done| done.model == model && done.outcome.finding.is_some();
            Some(1 + done.iter().find(of_model)?.run % KIND)
        });
        let found_in = found_in.collect();
        let whole = done.iter().filter(|done| !done.outcome.stopped || done.run % KIND == 0);
        let runs = whole.map(|done| done.run).collect::<BTreeSet<_>>().len();
        let silence = silence(&done, &models);
        // Only the runs on x86 count.
        let kind = |done: &Done| done.number / KIND;
        let x86 = done.iter().find(|done| done.model == Model::Px86).map(kind);
        let firsts = done.into_iter().filter(|done| done.is_first && Some(kind(done)) == x86);
        let waste = together(firsts.map(|done| done.waste));
        Covered {
            how: how.clone(),
            kinds,
            models,
            found_in,
            runs,
            waste,
            silence,
            is_late,
            is_stopped,
            is_whole: true,
        }
    }

    fn index_of(&self, model: Model) -> usize {
        let at = self.how.models.iter().position(|of| *of == model);
        at.expect("a model of the exploration")
    }

    /// Whether schedules were left out other than because all models have found something.
    pub fn lacks_schedules(&self, kind: &Machines) -> bool {
        let has_found = |model: &Model| self.found_in[self.index_of(*model)].is_some();
        !kind.tried.complete && !kind.models.iter().all(has_found)
    }

    /// The first finding.
    pub fn finding(&self) -> Option<&Finding> {
        self.models.iter().find_map(|outcome| outcome.finding.as_ref())
    }

    /// True if every image of every schedule within the bounds was tried, under all models.
    pub fn is_complete(&self) -> bool {
        let images = |outcome: &SearchOutcome| outcome.is_complete();
        self.how.part == (1, 1)
            && self.how.only.is_none()
            && !self.is_late
            && !self.is_stopped
            && self.is_whole
            && self.models.iter().all(images)
            && self.kinds.iter().all(|kind| kind.tried.complete)
    }

    /// Which schedules were tried, in words; empty if there is only one.
    pub fn schedules(&self) -> String {
        let Scope { interruptions, base, models, .. } = &self.how;
        let seed = base.seed;
        if base.threads == 1 {
            return String::new();
        }
        let mut words = Vec::new();
        for Machines { models: of, tried, random, .. } in &self.kinds {
            let bound = some(*interruptions, "interruption");
            let found = of.iter().map(|model| self.found_in[self.index_of(*model)]);
            let mut kind = match found.collect::<Option<Vec<usize>>>() {
                // How many more were made by then, perhaps all, depends on the machine.
                Some(found) => {
                    let most = found.into_iter().max().unwrap_or(0);
                    format!("{}, up to a failing image", some(most, "schedule"))
                }
                None => {
                    let Tried { runs, made, .. } = tried;
                    let which = if tried.complete { "all" } else { "the first" };
                    format!(
                        "{which} {made} schedules with at most {bound}, of which {runs} show \
                         something new, and {random} more at random from seed {seed}"
                    )
                }
            };
            if of.len() < models.len() {
                let names: Vec<&str> = of.iter().map(|model| model.name()).collect();
                kind = format!("{}: {kind}", names.join(", "));
            }
            words.push(kind);
        }
        words.join("; ")
    }

    /// The bounds, within which it may be complete.
    pub fn bounds(&self) -> String {
        let Scope { interruptions, delays, buffer, search, base, models, .. } = &self.how;
        let mut all = Vec::new();
        if base.threads > 1 {
            all.push(some(*interruptions, "interruption"));
            if models.iter().any(|model| model.buffers_stores()) {
                all.push(format!("{} in store buffers of {buffer}", some(*delays, "delay")));
            }
        }
        all.push(some(search.depth, "crash") + " of recovery");
        if self.models.iter().any(|outcome| outcome.has_threads) {
            let interruptions = some(search.recovery_interruptions, "interruption");
            all.push(format!("{interruptions} of its threads, which have no store buffers"));
        }
        if models.iter().any(|model| model.buffers_stores()) {
            all.push(some(search.torn_lines, "torn line"));
        }
        all.join(", ")
    }

    /// What was covered, in words.
    pub fn coverage(&self) -> String {
        let bounds = self.bounds();
        if self.is_complete() {
            let runs = if self.how.base.threads > 1 { "every schedule" } else { "the run" };
            return format!("complete: every image of {runs}, with at most {bounds}");
        }
        let mut left = Vec::new();
        if self.kinds.iter().any(|kind| self.lacks_schedules(kind)) {
            left.push("schedules".into());
        }
        for outcome in &self.models {
            if outcome.finding.is_none() && !outcome.is_complete() {
                left.push(format!("images under {}", outcome.model));
            }
        }
        if !self.is_whole && !self.is_late && !self.is_stopped {
            left.push("interruptions of the threads of recovery".into());
        }
        if self.how.part != (1, 1) || self.how.only.is_some() {
            left.push("the other parts of the work".into());
        }
        let why = match (self.is_stopped, self.is_late) {
            (true, _) => ", as it was stopped",
            (_, true) => ", for lack of time",
            _ => "",
        };
        match left.is_empty() {
            true => format!("stopped at a failing image; bounds: {bounds}"),
            false => {
                format!("not complete{why}: left out are {}; bounds: {bounds}", left.join(", "))
            }
        }
    }
}

fn some(count: usize, what: &str) -> String {
    let plural = if what.ends_with('h') { "es" } else { "s" };
    format!("{count} {what}{}", if count == 1 { "" } else { plural })
}

fn silence(done: &[Done], models: &[SearchOutcome]) -> Vec<Silence> {
    let mut all = Vec::new();
    if models.iter().any(|outcome| outcome.finding.is_some()) || done.is_empty() {
        return all;
    }
    if !done.iter().any(|done| done.is_told[1]) {
        return vec![Silence::NoStore];
    }
    if !models.iter().any(|outcome| outcome.has_read) {
        all.push(Silence::NoRead);
    }
    if !done.iter().any(|done| done.is_told[0]) {
        all.push(Silence::NoOutput);
    } else if !models.iter().any(|outcome| outcome.has_asked) {
        all.push(Silence::NotAsked);
    }
    all
}

impl fmt::Display for Covered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let states: u64 = self.models.iter().map(|outcome| outcome.states).sum();
        let (runs, states) = (some(self.runs, "run"), some(states as usize, "crash state"));
        write!(f, "{runs}, {states}; {}", self.coverage())?;
        self.silence.iter().try_for_each(|silence| write!(f, "\nwarning: {silence}"))
    }
}
