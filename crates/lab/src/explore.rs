//! A short run of a workload, and every image that a crash of it may leave.
//!
//! The workload runs on the recording machine, once for each schedule. On each image recovery
//! runs twice (the second time must change nothing), then the invariants are checked, and what
//! the structure holds must be explained by the operations that had begun, with all that had been
//! promised among them.

use rayon::prelude::*;
use seawall_explore::{
    Choice, CrashImage, CrashPoint, Finding, Model, Outcome, ReplayError, RunError, Schedule,
    Search, Trace, record, replay, search,
};
use seawall_memory::{Image, Memory};
use seawall_workloads::history::Effect;
use seawall_workloads::{
    Contents, Damage, Explainer, Flaw, History, Layout, Setup, UnknownWorkload, Visitor, Worker,
    Workload, with_workload,
};
use serde::Serialize;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Instant;

/// The most threads of a run.
pub const EXPLORE_THREADS_MAX: usize = 64;

/// The most entries at the start of a run.
pub const EXPLORE_ENTRIES_MAX: u64 = 1 << 16;

/// The most operations of one thread.
pub const EXPLORE_OPS_MAX: u64 = 1 << 16;

/// What to explore, and how far.
#[derive(Clone, Debug)]
pub struct ExploreOptions {
    /// The models that the structure has to survive.
    pub models: Vec<Model>,
    /// Threads, 1 to [`EXPLORE_THREADS_MAX`].
    pub threads: usize,
    /// Operations of each thread, 1 to [`EXPLORE_OPS_MAX`].
    pub ops: u64,
    /// Entries at the start, 1 to [`EXPLORE_ENTRIES_MAX`].
    pub entries: u64,
    /// Per cent of operations that only search: they leave no images.
    pub search_percent: u32,
    /// Schedules of the threads to try; one thread has only one.
    pub schedules: u64,
    /// Seed of the operations, the schedules and the random images.
    pub seed: u64,
    /// A deliberate mistake.
    pub flaw: Flaw,
    /// Crash after each store too.
    pub thorough: bool,
    /// Images to check at most, for each model and schedule.
    pub budget: u64,
    /// The one image to build instead of a search, as a finding printed it.
    pub replay: Option<String>,
}

impl Default for ExploreOptions {
    fn default() -> ExploreOptions {
        ExploreOptions {
            models: vec![Model::Px86, Model::Bep],
            threads: 1,
            ops: 12,
            entries: 8,
            search_percent: 0,
            schedules: 8,
            seed: 1,
            flaw: Flaw::None,
            thorough: false,
            budget: 500_000,
            replay: None,
        }
    }
}

/// Why nothing could be explored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExploreError {
    /// No such workload.
    #[error(transparent)]
    Workload(#[from] UnknownWorkload),
    /// The run itself failed.
    #[error("`{workload}` did not run to its end: {error}")]
    Run {
        /// The workload.
        workload: &'static str,
        /// Why.
        error: RunError,
    },
    /// The structure is not right before any crash.
    #[error("`{workload}` is damaged before any crash: {damage}")]
    Damage {
        /// The workload.
        workload: &'static str,
        /// What is wrong.
        damage: Damage,
    },
    /// An option is out of its range.
    #[error("{option} is {value}: it must be {range}")]
    Range {
        /// Which one.
        option: &'static str,
        /// Its value.
        value: u64,
        /// What it may be.
        range: String,
    },
    /// No model was named.
    #[error("no persistency model to explore under: name at least one of {0}")]
    NoModel(String),
    /// The replay string does not fit.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// What was explored, and what was found.
#[derive(Clone, Debug, Serialize)]
pub struct ExploreReport {
    /// The workload.
    pub workload: &'static str,
    /// Threads.
    pub threads: usize,
    /// Operations of each thread.
    pub ops: u64,
    /// Entries at the start.
    pub entries: u64,
    /// Schedules tried at most for each model.
    pub schedules: u64,
    /// Seed.
    pub seed: u64,
    /// The deliberate mistake, as the option that asks for it; empty if none.
    pub flaw: &'static str,
    /// Whether this is a replay of one image.
    pub replayed: bool,
    /// Each model, in the order asked for.
    pub models: Vec<ModelReport>,
}

/// What was explored under one model.
#[derive(Clone, Debug, Serialize)]
pub struct ModelReport {
    /// Counts and coverage over all schedules.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Coverage in words.
    pub coverage: String,
    /// Wall-clock time, in seconds; the only field that differs from run to run.
    pub seconds: f64,
    /// The command that builds the failing image again.
    pub replay_command: Option<String>,
}

impl ExploreReport {
    /// True if some model may leave an image that breaks the structure.
    pub fn found(&self) -> bool {
        self.models.iter().any(|model| model.outcome.finding.is_some())
    }
}

impl fmt::Display for ExploreReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExploreReport { workload, threads, ops, entries, seed, flaw, .. } = self;
        let plural = if *threads == 1 { "" } else { "s" };
        let broken = if flaw.is_empty() { "" } else { ", deliberately broken by " };
        writeln!(
            f,
            "{workload}: {threads} thread{plural} x {ops} operations on {entries} entries, \
             seed {seed}{broken}{flaw}"
        )?;
        for model in &self.models {
            if !self.replayed {
                writeln!(f, "{model}")?;
            }
            if let Some(finding) = &model.outcome.finding {
                write!(f, "\nFAILS under {}: {finding}", model.outcome.model)?;
            }
            if let Some(command) = &model.replay_command {
                writeln!(f, "  replay: {command}\n")?;
            }
        }
        match (self.found(), self.replayed) {
            (false, false) => writeln!(f, "no image found that recovery cannot handle"),
            (false, true) => writeln!(f, "recovery handles this image"),
            (true, _) => Ok(()),
        }
    }
}

impl fmt::Display for ModelReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { model, points, generated, checked, .. } = &self.outcome;
        let rate = *checked as f64 / self.seconds.max(1e-9);
        write!(
            f,
            "  {:<6} {points} failure points, {generated} images, {checked} different and checked \
             in {:.2} s ({rate:.0}/s); {}",
            model.name(),
            self.seconds,
            self.coverage
        )
    }
}

/// What a run depends on besides the workload and its flaw, as the head of a replay string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RunKey {
    seed: u64,
    threads: usize,
    ops: u64,
    entries: u64,
    search_percent: u32,
    schedule: u64,
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RunKey { seed, threads, ops, entries, search_percent, schedule } = self;
        write!(f, "{seed}-{threads}-{ops}-{entries}-{search_percent}-{schedule}")
    }
}

impl FromStr for RunKey {
    type Err = ();

    fn from_str(text: &str) -> Result<RunKey, ()> {
        let numbers: Result<Vec<u64>, _> = text.split('-').map(str::parse).collect();
        let numbers: [u64; 6] = numbers.map_err(|_| ())?.try_into().map_err(|_| ())?;
        let [seed, threads, ops, entries, search_percent, schedule] = numbers;
        let threads = usize::try_from(threads).map_err(|_| ())?;
        let search_percent = u32::try_from(search_percent).map_err(|_| ())?;
        Ok(RunKey { seed, threads, ops, entries, search_percent, schedule })
    }
}

/// Runs the workload `name` and looks for an image that it does not recover from.
///
/// # Errors
/// When there is no such workload, an option is out of range, the run itself fails, or the replay
/// string is of another run.
pub fn explore_workload(
    name: &str,
    options: &ExploreOptions,
) -> Result<ExploreReport, ExploreError> {
    with_workload(name, Explore { options })?
}

struct Explore<'a> {
    options: &'a ExploreOptions,
}

impl Visitor for Explore<'_> {
    type Output = Result<ExploreReport, ExploreError>;

    fn visit<W: Workload>(self) -> Self::Output {
        match &self.options.replay {
            Some(text) => replay_image::<W>(text, self.options),
            None => explore_schedules::<W>(self.options),
        }
    }
}

fn in_range(option: &'static str, value: u64, least: u64, most: u64) -> Result<(), ExploreError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ExploreError::Range { option, value, range: format!("{least} to {most}") })
}

fn flaw_option(flaw: Flaw) -> &'static str {
    match flaw {
        Flaw::None => "",
        Flaw::NoOrder => "--broken",
        Flaw::NoFlush => "--flaw no-flush",
    }
}

impl ExploreOptions {
    fn key(&self, schedule: u64) -> RunKey {
        RunKey {
            seed: self.seed,
            threads: self.threads,
            ops: self.ops,
            entries: self.entries,
            search_percent: self.search_percent,
            schedule,
        }
    }

    fn search(&self, model: Model) -> Search {
        let Self { budget, thorough, seed, .. } = *self;
        Search { budget, thorough, seed, ..Search::new(model) }
    }

    fn report<W: Workload>(&self, key: RunKey, models: Vec<ModelReport>) -> ExploreReport {
        ExploreReport {
            workload: W::NAME,
            threads: key.threads,
            ops: key.ops,
            entries: key.entries,
            schedules: self.schedules,
            seed: key.seed,
            flaw: flaw_option(self.flaw),
            replayed: self.replay.is_some(),
            models,
        }
    }

    fn command(&self, workload: &str, key: RunKey, finding: &Finding) -> String {
        let flaw = match flaw_option(self.flaw) {
            "" => String::new(),
            option => format!("{option} "),
        };
        format!("seawall explore {workload} {flaw}--replay {key}/{}", finding.choice)
    }
}

/// A recorded run of a workload, with what its check needs.
struct Recorded {
    trace: Trace,
    layout: Layout,
    before: Contents,
    effects: Vec<Effect>,
    explainer: Explainer,
}

impl RunKey {
    fn check(&self) -> Result<(), ExploreError> {
        in_range("threads", self.threads as u64, 1, EXPLORE_THREADS_MAX as u64)?;
        in_range("operations", self.ops, 1, EXPLORE_OPS_MAX)?;
        in_range("entries", self.entries, 1, EXPLORE_ENTRIES_MAX)?;
        in_range("the share of searches", self.search_percent.into(), 0, 100)
    }

    fn record<W: Workload>(&self, flaw: Flaw) -> Result<Recorded, ExploreError> {
        let RunKey { seed, threads, ops, entries, search_percent, schedule } = *self;
        let damaged = |damage| ExploreError::Damage { workload: W::NAME, damage };
        let setup = Setup { threads, seed, entries, search_percent, flaw };
        let layout = W::layout(&setup);
        let start = Image::new(layout.pm_bytes, layout.dram_bytes);
        let workload = W::create(&start, &setup);
        let before = workload.contents(&start).map_err(damaged)?;
        let history = Arc::new(History::new());
        let told = history.clone();
        let turns = Schedule { threads, seed: seed ^ (schedule << 32), ..Schedule::default() };
        let trace = record(start, &turns, move |memory| {
            let mut worker = Worker::new(&setup, memory.thread(), told.clone());
            while worker.number < ops {
                workload.step(memory, &mut worker);
                worker.number += 1;
                memory.output(worker.number);
            }
        });
        let trace = trace.map_err(|error| ExploreError::Run { workload: W::NAME, error })?;
        let (effects, explainer) = (history.effects(), history.index());
        Ok(Recorded { trace, layout, before, effects, explainer })
    }
}

impl Recorded {
    fn recover<W: Workload>(&self, image: &CrashImage) -> Result<Contents, String> {
        let workload = W::open(image, self.layout)
            .map_err(|damage| format!("recovery refuses the pool: {damage}"))?;
        workload.contents(image).map_err(|damage| format!("an invariant is broken: {damage}"))
    }

    fn check<W: Workload>(&self, image: &CrashImage, point: &CrashPoint) -> Result<(), String> {
        let after = self.recover::<W>(image)?;
        image.restart();
        let again = self.recover::<W>(image)?;
        if after != again {
            return Err("a second recovery changes what the first one gave".into());
        }
        let begun = self.begun(&point.outputs);
        let explained = self.explainer.explain_first(begun, &self.before, &after, &point.promised);
        explained.map(drop).map_err(|violation| violation.to_string())
    }

    /// Effects at the start of the history whose operations had begun when power failed.
    fn begun(&self, outputs: &[u64]) -> usize {
        let later = |effect: &Effect| effect.number > outputs[effect.thread];
        self.effects.iter().position(later).unwrap_or(self.effects.len())
    }

    fn search<W: Workload>(&self, options: &Search) -> Outcome {
        search(&self.trace, options, &|image, point| self.check::<W>(image, point))
    }
}

fn explore_schedules<W: Workload>(options: &ExploreOptions) -> Result<ExploreReport, ExploreError> {
    if options.models.is_empty() {
        return Err(ExploreError::NoModel(Model::names().join(", ")));
    }
    in_range("schedules", options.schedules, 1, 1 << 20)?;
    if options.budget == 0 {
        let range = "at least 1".into();
        return Err(ExploreError::Range { option: "budget", value: 0, range });
    }
    options.key(0).check()?;
    let models = options.models.par_iter().map(|&model| under_model::<W>(model, options));
    let models: Result<Vec<ModelReport>, ExploreError> = models.collect();
    Ok(options.report::<W>(options.key(0), models?))
}

/// Tries the schedules until one leaves a failing image.
fn under_model<W: Workload>(
    model: Model,
    options: &ExploreOptions,
) -> Result<ModelReport, ExploreError> {
    let start = Instant::now();
    let search = options.search(model);
    let schedules = if options.threads == 1 { 1 } else { options.schedules };
    let mut key = options.key(0);
    let mut outcome = key.record::<W>(options.flaw)?.search::<W>(&search);
    while outcome.finding.is_none() && key.schedule + 1 < schedules {
        key.schedule += 1;
        outcome.add(key.record::<W>(options.flaw)?.search::<W>(&search));
    }
    let replay_command =
        outcome.finding.as_ref().map(|finding| options.command(W::NAME, key, finding));
    let seconds = start.elapsed().as_secs_f64();
    Ok(ModelReport { coverage: outcome.to_string(), outcome, seconds, replay_command })
}

fn replay_image<W: Workload>(
    text: &str,
    options: &ExploreOptions,
) -> Result<ExploreReport, ExploreError> {
    let malformed = || ReplayError::Malformed(text.into());
    let (key, choice) = text.split_once('/').ok_or_else(malformed)?;
    let key: RunKey = key.parse().map_err(|()| malformed())?;
    let choice: Choice = choice.parse()?;
    key.check()?;
    let start = Instant::now();
    let run = key.record::<W>(options.flaw)?;
    let finding = replay(&run.trace, &options.search(choice.model), &choice, &|image, point| {
        run.check::<W>(image, point)
    })?;
    let outcome = Outcome::of_replay(choice.model, finding);
    let report = ModelReport {
        coverage: "one image".into(),
        outcome,
        seconds: start.elapsed().as_secs_f64(),
        replay_command: None,
    };
    Ok(options.report::<W>(key, vec![report]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_explore::Reached;
    use seawall_workloads::WORKLOADS;

    fn explore(workload: &str, options: &ExploreOptions) -> ExploreReport {
        explore_workload(workload, options).unwrap_or_else(|error| panic!("{workload}: {error}"))
    }

    fn broken() -> ExploreOptions {
        ExploreOptions { flaw: Flaw::NoOrder, ..ExploreOptions::default() }
    }

    #[test]
    fn every_structure_survives_every_image_that_is_tried() {
        for entry in WORKLOADS.iter().filter(|entry| entry.default) {
            for (threads, ops, schedules) in [(1, 12, 1), (2, 3, 3)] {
                let models = Model::all().collect();
                let options = ExploreOptions { threads, ops, schedules, models, ..small() };
                let report = explore(entry.name, &options);
                assert!(!report.found(), "{report}");
                let ends = |m: &ModelReport| m.outcome.reached >= Reached::Ends;
                assert!(report.models.iter().all(ends), "{report}");
            }
        }
    }

    fn small() -> ExploreOptions {
        ExploreOptions { budget: 20_000, ..ExploreOptions::default() }
    }

    #[test]
    fn a_missing_order_is_found_in_every_structure_under_both_models() {
        for entry in WORKLOADS.iter().filter(|entry| entry.default) {
            let report = explore(entry.name, &broken());
            for model in &report.models {
                let finding = model.outcome.finding.as_ref();
                let finding = finding.unwrap_or_else(|| panic!("nothing found: {report}"));
                assert_eq!(finding.lost.len(), 1, "one lost store is enough: {report}");
            }
        }
    }

    #[test]
    fn a_missing_flush_is_found_in_the_queue_on_x86_only() {
        let report =
            explore("queue", &ExploreOptions { flaw: Flaw::NoFlush, ..ExploreOptions::default() });
        let found: Vec<bool> = report.models.iter().map(|m| m.outcome.finding.is_some()).collect();
        assert_eq!(found, [true, false], "{report}");
    }

    #[test]
    fn the_printed_command_replays_the_same_image() {
        for threads in [1, 2] {
            let options = ExploreOptions { threads, ops: 4, ..broken() };
            for model in explore("hash", &options).models {
                let command = model.replay_command.expect("found");
                let head = "seawall explore hash --broken --replay ";
                let replay = command.strip_prefix(head).map(str::to_owned);
                assert!(replay.is_some(), "{command}");
                let again = explore("hash", &ExploreOptions { replay, ..broken() });
                assert_eq!(again.models[0].outcome.finding, model.outcome.finding);
                assert!(again.replayed && again.found());
            }
        }
    }

    #[test]
    fn two_explorations_differ_only_in_their_times() {
        let run = || {
            let mut report = explore("queue", &ExploreOptions { threads: 2, ops: 3, ..small() });
            report.models.iter_mut().for_each(|model| model.seconds = 0.0);
            serde_json::to_string(&report).expect("plain data")
        };
        assert_eq!(run(), run());
    }

    #[test]
    fn bad_options_are_errors_that_name_the_option() {
        let error = |workload: &str, options: ExploreOptions| {
            explore_workload(workload, &options).expect_err("a bad option").to_string()
        };
        let default = ExploreOptions::default;
        assert!(error("hsah", default()).contains("hash"));
        let none = ExploreOptions { models: Vec::new(), ..default() };
        assert!(error("hash", none).contains("px86, bep"));
        let threads = error("hash", ExploreOptions { threads: 0, ..default() });
        assert_eq!(threads, "threads is 0: it must be 1 to 64");
        let budget = error("hash", ExploreOptions { budget: 0, ..default() });
        assert!(budget.contains("budget is 0"), "a search of nothing finds nothing: {budget}");
        for replay in ["", "1-1-12-8-0-0", "1-1-12-8-0/px86/1/none", "1-0-1-8-0-0/px86/1/none"] {
            let options = ExploreOptions { replay: Some(replay.into()), ..default() };
            assert!(explore_workload("hash", &options).is_err(), "{replay}");
        }
        let replay = Some("1-1-12-8-0-0/px86/999999/none".to_owned());
        assert!(error("hash", ExploreOptions { replay, ..default() }).contains("the run"));
    }
}
