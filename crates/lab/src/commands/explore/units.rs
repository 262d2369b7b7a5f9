//! The units of an exploration: which there are, which shard runs them, and which are done.
//!
//! A unit is a part of one run under one model. Units are numbered the same way on every machine,
//! so a shard (`3/64`) is every 64th of them, and a file of finished units lets an interrupted
//! exploration go on. The outcome is that of the units in order, up to the first that finds
//! something: it does not depend on the number of cores.

use super::target::{Recorded, Target};
use super::{ExploreError, Shard};
use crate::engine::jobs::host_threads;
use crate::{LabError, Progress};
use rayon::prelude::*;
use seawall_explore::{Model, Schedule, Schedules, Search, SearchOutcome, Turns, search_watched};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Events of a run that one unit looks at.
const EVENTS_PER_UNIT: usize = 1000;

/// The runs that are explored.
pub(super) struct Runs {
    pub(super) runs: Vec<Run>,
    /// How they were chosen, in words.
    pub(super) about: String,
}

/// A run, and the models of the machines that it is one of.
pub(super) struct Run {
    pub(super) schedule: Schedule,
    pub(super) recorded: Recorded,
    models: Vec<Model>,
}

/// How the threads' turns are chosen.
#[derive(Clone, Debug)]
pub(super) struct Interleave {
    pub(super) schedules: usize,
    pub(super) preemptions: usize,
    pub(super) delays: usize,
    pub(super) buffer: usize,
    pub(super) seed: u64,
    pub(super) models: Vec<Model>,
}

impl Interleave {
    /// Runs the program under each schedule of each kind of machine.
    pub(super) fn runs(&self, target: &dyn Target) -> Result<Runs, ExploreError> {
        let base = Schedule { threads: target.threads(), seed: self.seed, ..Schedule::default() };
        if target.threads() == 1 {
            let schedule = Schedule { turns: Turns::Chosen(Vec::new()), ..base };
            let (recorded, models) = (target.record(&schedule)?, self.models.clone());
            return Ok(Runs {
                runs: vec![Run { schedule, recorded, models }],
                about: String::new(),
            });
        }
        let mut all = Runs { runs: Vec::new(), about: String::new() };
        let kinds = kinds(&self.models);
        for models in &kinds {
            let about = self.runs_of(models, &base, target, &mut all.runs)?;
            let names: Vec<&str> = models.iter().map(|model| model.name()).collect();
            let (names, first) = (names.join(", "), all.about.is_empty());
            all.about += if first { "" } else { "; " };
            all.about += &if kinds.len() == 1 { about } else { format!("{names}: {about}") };
        }
        Ok(all)
    }

    /// Runs the program on one kind of machine: three quarters of the schedules with few
    /// interruptions, one quarter at random. Returns how they were chosen, in words.
    fn runs_of(
        &self,
        models: &[Model],
        base: &Schedule,
        target: &dyn Target,
        runs: &mut Vec<Run>,
    ) -> Result<String, ExploreError> {
        let mut add = |schedule: Schedule, recorded: Recorded| {
            runs.push(Run { schedule, recorded, models: models.to_vec() });
        };
        let limit = (self.schedules * 3).div_ceil(4);
        let Interleave { preemptions: interruptions, delays, buffer, .. } = *self;
        let bounds =
            Schedules { interruptions, delays, buffer, limit, ..Schedules::new(models[0]) };
        let found = bounds.all(base, |schedule| target.record(schedule))?;
        let number = found.runs.len();
        found.runs.into_iter().for_each(|(schedule, run)| add(schedule, run));
        let random = self.schedules.saturating_sub(number);
        for number in 0..random as u64 {
            let turns = if number % 2 == 0 { Turns::Random } else { Turns::Priorities(3) };
            let seed = self.seed ^ (number << 32);
            let schedule = Schedule { turns, seed, model: models[0], ..base.clone() };
            let recorded = target.record(&schedule)?;
            add(schedule, recorded);
        }
        let some = |count: usize, what: &str| match count {
            1 => format!("1 {what}"),
            _ => format!("{count} {what}s"),
        };
        let which = if found.tried.complete { "all" } else { "the first" };
        let mut about =
            format!("{which} {number} with at most {}", some(interruptions, "interruption"));
        if models[0].buffers_stores() {
            let delays = some(delays, "delay");
            about += &format!(" and {delays} in store buffers of {buffer}");
        }
        if random > 0 {
            about += &format!(", {random} at random");
        }
        Ok(about)
    }
}

/// The models by the kinds of machines whose runs differ.
fn kinds(models: &[Model]) -> Vec<Vec<Model>> {
    let kind =
        |model: Model| (model.buffers_stores(), model.orders_all_stores(), model.orders_loads());
    let mut kinds: Vec<Vec<Model>> = Vec::new();
    for &model in models {
        match kinds.iter_mut().find(|known| kind(known[0]) == kind(model)) {
            Some(known) => known.push(model),
            None => kinds.push(vec![model]),
        }
    }
    kinds
}

/// One unit of work.
pub(super) struct Unit {
    pub(super) run: usize,
    pub(super) model: Model,
    events: Range<usize>,
}

/// The units of these runs.
pub(super) fn units(runs: &Runs) -> Vec<Unit> {
    let of_run = |(run, of): (usize, &Run)| {
        let events = of.recorded.trace.events().len();
        let parts = (0..=events).step_by(EVENTS_PER_UNIT);
        let parts: Vec<_> = parts.map(|from| from..from + EVENTS_PER_UNIT).collect();
        let unit =
            move |model| parts.clone().into_iter().map(move |events| Unit { run, model, events });
        of.models.clone().into_iter().flat_map(unit)
    };
    runs.runs.iter().enumerate().flat_map(of_run).collect()
}

/// Who does what, and how to stop it.
pub(super) struct Work<'a> {
    pub(super) search: &'a Search,
    pub(super) shard: Shard,
    pub(super) progress: &'a Progress,
    pub(super) stop: &'a AtomicBool,
    pub(super) done: Option<Done>,
}

/// The outcomes of the units of this shard that were done, with their numbers.
pub(super) fn work(
    work: &Work<'_>,
    runs: &Runs,
    units: &[Unit],
) -> Result<Vec<(usize, SearchOutcome)>, ExploreError> {
    let mine = |at: &usize| work.shard.has(*at);
    let mine: Vec<usize> = (0..units.len()).filter(mine).collect();
    work.progress.start_work(mine.len() as u64);
    // Of each model the first unit that found something; later ones need not be done.
    let first: BTreeMap<Model, AtomicUsize> =
        units.iter().map(|unit| (unit.model, AtomicUsize::new(usize::MAX))).collect();
    let one = |at: usize| {
        let unit = &units[at];
        let known = work.done.as_ref().and_then(|done| done.known.get(&at));
        let outcome = match known {
            Some(outcome) => outcome.clone(),
            None if first[&unit.model].load(Ordering::Relaxed) < at => return Ok(None),
            None if work.stop.load(Ordering::Relaxed) => {
                SearchOutcome { stopped: true, ..SearchOutcome::of(unit.model) }
            }
            None => {
                let Recorded { trace, check, .. } = &runs.runs[unit.run].recorded;
                let events = unit.events.clone();
                let search = Search { model: unit.model, events, ..work.search.clone() };
                let mut told = 0;
                let outcome = search_watched(trace, &search, check, &mut |part| {
                    // A finding of several crashes is looked for again, from the start.
                    let now = told.max((part * 1000.0) as u64);
                    work.progress.advance_work(now - told);
                    told = now;
                    let later = first[&unit.model].load(Ordering::Relaxed) < at;
                    match later || work.stop.load(Ordering::Relaxed) {
                        true => ControlFlow::Break(()),
                        false => ControlFlow::Continue(()),
                    }
                });
                work.progress.advance_work(1000 - told);
                outcome
            }
        };
        if outcome.finding.is_some() {
            first[&unit.model].fetch_min(at, Ordering::Relaxed);
        } else if let (Some(done), None, false) = (&work.done, known, outcome.stopped) {
            done.add(at, &outcome)?;
        }
        Ok(Some((at, outcome)))
    };
    let threads = host_threads(None).map_err(|error| ExploreError::Lab(error.to_string()))?;
    let outcomes: Result<Vec<_>, ExploreError> =
        threads.install(|| mine.into_iter().par_bridge().map(one).collect());
    work.progress.end();
    let mut outcomes: Vec<(usize, SearchOutcome)> = outcomes?.into_iter().flatten().collect();
    outcomes.sort_by_key(|(at, _)| *at);
    outcomes.retain(|(at, _)| *at <= first[&units[*at].model].load(Ordering::Relaxed));
    Ok(outcomes)
}

/// A file of finished units.
pub(super) struct Done {
    known: BTreeMap<usize, SearchOutcome>,
    file: Mutex<File>,
    path: std::path::PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Head {
    seawall_explore: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    unit: usize,
    outcome: SearchOutcome,
}

impl Done {
    /// Opens or starts the file of the exploration that `head` describes.
    pub(super) fn open(path: &Path, head: &str) -> Result<Done, ExploreError> {
        let failed = |error| ExploreError::Lab(LabError::file(path)(error).to_string());
        if std::fs::metadata(path).is_ok_and(|status| !status.is_file()) {
            return Err(ExploreError::OtherResume { path: path.display().to_string() });
        }
        let mut known = BTreeMap::new();
        let mut file =
            OpenOptions::new().read(true).append(true).create(true).open(path).map_err(failed)?;
        let mut whole = 0;
        let mut reader = BufReader::new(&file);
        let mut text = String::new();
        let mut number = 0;
        let other = || ExploreError::OtherResume { path: path.display().to_string() };
        while reader.read_line(&mut text).map_err(|_| other())? > 0 {
            if number == 0 {
                let first: Head = serde_json::from_str(&text).map_err(|_| other())?;
                if first.seawall_explore != head {
                    return Err(other());
                }
            } else if let Ok(Line { unit, outcome }) = serde_json::from_str(&text) {
                known.insert(unit, outcome);
            } else if text.ends_with('\n') {
                return Err(other());
            }
            // A last line that was cut short is written again.
            whole += if text.ends_with('\n') { text.len() as u64 } else { 0 };
            number += 1;
            text.clear();
        }
        file.set_len(whole).map_err(failed)?;
        if whole == 0 {
            let head = Head { seawall_explore: head.to_owned() };
            let line = serde_json::to_string(&head).expect("a text");
            writeln!(file, "{line}").map_err(failed)?;
        }
        Ok(Done { known, file: Mutex::new(file), path: path.to_owned() })
    }

    fn add(&self, unit: usize, outcome: &SearchOutcome) -> Result<(), ExploreError> {
        let line = Line { unit, outcome: outcome.clone() };
        let line = serde_json::to_string(&line).expect("plain data");
        let mut file = self.file.lock().unwrap_or_else(|error| error.into_inner());
        let written = writeln!(file, "{line}");
        written.map_err(|error| ExploreError::Lab(LabError::file(&self.path)(error).to_string()))
    }
}
