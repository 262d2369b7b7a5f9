//! A short run of a program, and every image that a crash of it may leave.
//!
//! The program runs on the recording machine, once for each schedule of its threads; each run is
//! searched under each model, until all is done or the time is over.

use crate::engine::options::{default_options, flaws, listed};
use case::CaseTarget;
use clap::Args;
use parts::Share;
use report::ModelReport;
use resume::Resume;
use seawall_any::workload;
use seawall_corpus::FastFair;
use seawall_explore::{
    CrashPath, FailedRun, Finding, Model, Onlooker, ReplayError, Schedule, Scope, Search,
    SearchOutcome, Silence, TurnsName, parse_replay, replay,
};
use seawall_report::{Experiment, Files, Form, Progress};
use seawall_runtime::defrag::DefragOptions;
use seawall_workloads::{Collect, Flaw, RequestMix};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use target::{Recorded, RunKey, Target, WorkloadTarget};

mod bench;
mod case;
mod corpus;
mod error;
mod left;
mod page;
mod parts;
mod program;
mod report;
mod resume;
mod sources;
mod target;
mod unreached;

pub use bench::{ExploreBench, ExploreBenchOptions, ExploreSpeed};
pub use case::MEASURED;
pub use corpus::{Corpus, CorpusOptions, UnknownCase};
pub use error::ExploreError;
pub use parts::{ExplorePart, Shard};
pub use program::ExploreProgramOptions;
pub use report::ExploreReport;
pub use unreached::UnreachedFunction;

/// The most threads of a run.
pub const EXPLORE_THREADS_MAX: usize = 64;

/// The most entries at the start of a run.
pub const EXPLORE_ENTRIES_MAX: u64 = 1 << 16;

/// The most operations of one thread.
pub const EXPLORE_OPS_MAX: u64 = 1 << 16;

/// The most cores that search at once.
const SEARCHERS_MAX: u64 = 1024;

/// The most different schedules.
const SCHEDULES_MAX: u64 = 1 << 32;

/// What to explore, and how far.
#[derive(Clone, Debug, Args)]
pub struct ExploreOptions {
    /// Move objects together meanwhile, by a step behind each operation of the first thread:
    /// espresso, sfccd, ffccd, or sfccd:TRIGGER:TARGET
    #[arg(long, value_name = "PROTOCOL", conflicts_with = "replay")]
    pub defragment: Option<DefragOptions>,
    /// Persistency models, separated by commas
    #[arg(
        long = "model",
        visible_alias = "models",
        value_delimiter = ',',
        value_parser = listed::<Model>,
        default_value = "px86,bep",
        value_name = "MODELS"
    )]
    pub models: Vec<Model>,
    /// Threads
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub threads: usize,
    /// Operations of each thread
    #[arg(long, default_value_t = 12, value_name = "N")]
    pub ops: u64,
    /// Entries at the start
    #[arg(long, default_value_t = 8, value_name = "N")]
    pub entries: u64,
    /// Per cent of operations that only search
    #[arg(long = "search", default_value_t = 0, value_name = "PERCENT")]
    pub search_percent: u32,
    /// Requests of YCSB instead of the workload's own: ycsb-a, .. (`seawall list mixes`)
    #[arg(long, value_name = "MIX", conflicts_with_all = ["search_percent", "replay"])]
    pub mix: Option<RequestMix>,
    /// Seconds that it may take, 0 for as long as it needs [default: 10; with --quick 2, with
    /// --thorough 0]
    #[arg(long, value_name = "N", default_value = "10", hide_default_value = true,
          default_value_ifs = [("quick", "true", "2"), ("thorough", "true", "0")])]
    pub seconds: u64,
    /// Different schedules of the threads to try at most, on each kind of machine; one more at
    /// random follows every third
    #[arg(long, default_value_t = SCHEDULES_MAX, value_name = "N", hide_default_value = true)]
    pub schedules: u64,
    /// Interruptions of a thread in one schedule at most, where not at random [default: 2; with
    /// --quick 1, with --thorough 3]
    #[arg(long, value_name = "N", default_value = "2", hide_default_value = true,
          default_value_ifs = [("quick", "true", "1"), ("thorough", "true", "3")])]
    pub preemptions: u64,
    /// Delays in store buffers in one schedule at most, where not at random: loads before earlier
    /// stores, non-temporal stores that leave late
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub delays: u64,
    /// Stores that a store buffer holds
    #[arg(long, default_value_t = 16, value_name = "N")]
    pub buffer: u64,
    /// Seed of the operations, the schedules and the random images
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Crash states at most, for each model and run, or part of the only run [default: no limit]
    #[arg(long, default_value_t = u64::MAX, value_name = "N", hide_default_value = true)]
    pub budget: u64,
    /// Lines of one image, at most, whose words were written past the caches and persisted out of
    /// order [default: 1; with --quick 0]
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        hide_default_value = true,
        default_value_if("quick", "true", "0")
    )]
    pub torn_lines: u64,
    /// Crashes during recovery that follow the first crash [default: 2; with --quick 1]
    #[arg(
        long,
        value_name = "N",
        default_value = "2",
        hide_default_value = true,
        default_value_if("quick", "true", "1")
    )]
    pub depth: u64,
    /// Cores that search at once, each with some 100 MB at most; the others make runs
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub searchers: u64,
    /// Do one part of the work, as 3/64
    #[arg(
        long,
        default_value = "1/1",
        hide_default_value = true,
        value_name = "PART",
        conflicts_with = "replay"
    )]
    pub shard: Shard,
    /// File to note finished work in, and to go on from if stopped
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub resume: Option<PathBuf>,
    /// Look less far, for an answer at once
    #[arg(long, conflicts_with = "thorough")]
    pub quick: bool,
    /// Look further, for as long as it takes; crash after each store, too
    #[arg(long)]
    pub thorough: bool,
    /// Break the structure on purpose
    #[arg(long, value_name = "FLAW", value_parser = flaws(), default_value = "none",
          hide_default_value = true, conflicts_with = "replay")]
    pub flaw: Flaw,
    /// The fixed twin of a case of the corpus
    #[arg(long, conflicts_with = "replay")]
    pub fixed: bool,
    /// Build one image again, as a finding printed it
    #[arg(long, value_name = "IMAGE")]
    pub replay: Option<String>,
}

default_options!(ExploreOptions);

/// A program, and how to explore it.
#[derive(Clone, Debug, Args)]
pub struct ExploreCommand {
    /// Workload, case of the corpus, fast-fair or hash-table
    #[arg(required_unless_present = "command")]
    pub workload: Option<String>,
    /// How far.
    #[command(flatten)]
    pub options: ExploreOptions,
    /// Break the structure on purpose: the same as --flaw no-order
    #[arg(long, conflicts_with_all = ["flaw", "replay"])]
    pub broken: bool,
    /// Exit code 1 also if not every image of every schedule within the bounds was tried
    #[arg(long, conflicts_with_all = ["replay", "shard"])]
    pub require_complete: bool,
    /// Write the report to this file, as one JSON record [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write a page for a browser to this file, with what happened before each crash beside the
    /// sources [if stopped: to FILE.partial]
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// A program of others instead. The last, as what is behind it would be under its heading.
    #[command(flatten)]
    pub program: ExploreProgramOptions,
}

impl Experiment for ExploreCommand {
    type Plan = ExploreCommand;
    type Report = ExploreReport;
    type Error = ExploreError;

    fn plan(&self) -> Result<ExploreCommand, ExploreError> {
        self.program.check_alone().map_err(|error| ExploreError::Lab(error.to_string()))?;
        let mut plan = self.clone();
        if self.broken {
            plan.options.flaw = Flaw::NoOrder;
        }
        Ok(plan)
    }

    fn files(&self, _: &ExploreCommand) -> Files {
        Files::new()
            .makes("--resume", self.options.resume.as_deref())
            .results(Form::Html, &self.html)
            .results(Form::Json, &self.json)
    }

    fn run(
        plan: ExploreCommand,
        progress: &Progress,
        stop: &Arc<AtomicBool>,
    ) -> Result<ExploreReport, ExploreError> {
        plan.share(Share::Whole, progress, stop)
    }
}

/// Runs the program `name` (a workload, a case of the corpus, or one of [`MEASURED`]) and looks
/// for an image that it does not recover from.
///
/// # Errors
/// When there is no such program, an option is out of range, the run itself fails, a file cannot
/// be used, or the replay string is of another run.
pub fn explore(
    name: &str,
    options: &ExploreOptions,
    progress: &Progress,
    stop: &Arc<AtomicBool>,
) -> Result<ExploreReport, ExploreError> {
    explore_share(name, options, Share::Whole, progress, stop)
}

fn explore_share(
    name: &str,
    options: &ExploreOptions,
    share: Share<'_>,
    progress: &Progress,
    stop: &Arc<AtomicBool>,
) -> Result<ExploreReport, ExploreError> {
    let options = &options.without_repeats();
    let explore = Explore { options, share, time: options.time(), progress, stop };
    let replay = options.replay.as_deref().map(Replay::parse).transpose()?;
    let ops = match &replay {
        Some(replay) => replay.key.parse().unwrap_or(options.ops),
        None => options.ops,
    };
    if name == "fast-fair" {
        in_range("--ops", ops, 1, FastFair::INSERTS_MAX)?;
    }
    let fixed = replay.as_ref().map_or(options.fixed, |replay| replay.key == "fixed");
    match CaseTarget::named(name, fixed, ops) {
        Some(_) if options.mix.is_some() => Err(ExploreError::NoMix(name.into())),
        Some(_) if options.defragment.is_some() => Err(ExploreError::Fixed(name.into())),
        Some(_) if options.flaw != Flaw::None => Err(ExploreError::NoFlaw(name.into())),
        Some(_) if options.fixed && MEASURED.contains(&name) => {
            Err(ExploreError::OneForm(name.into()))
        }
        Some(target) if options.threads > 1 && options.threads != target.threads() => {
            let (program, threads) = (name.into(), target.threads());
            Err(ExploreError::OwnThreads { program, threads })
        }
        Some(target) => explore.target(&target, replay),
        None => explore.workload(name, replay),
    }
}

/// A replay string: `KEY-TURNS/CHOICE`.
struct Replay<'a> {
    text: &'a str,
    key: &'a str,
    turns: TurnsName,
    choice: CrashPath,
}

impl Replay<'_> {
    fn parse(text: &str) -> Result<Replay<'_>, ExploreError> {
        let malformed = || ReplayError::Malformed(text.into());
        let run = text.split_once('/').map_or(text, |(run, _)| run);
        let (key, _) = run.rsplit_once('-').ok_or_else(malformed)?;
        let (turns, choice) = parse_replay(&text[key.len() + 1..])?;
        Ok(Replay { text, key, turns, choice })
    }
}

impl Explore<'_> {
    fn workload(
        &self,
        name: &str,
        replay: Option<Replay<'_>>,
    ) -> Result<ExploreReport, ExploreError> {
        let workload = workload(name)?;
        if self.options.fixed {
            return Err(ExploreError::NoTwin(workload.name()));
        }
        let key = match &replay {
            Some(Replay { text, key, .. }) => {
                key.parse().map_err(|()| ReplayError::Malformed((*text).into()))?
            }
            None => self.options.key(),
        };
        key.check()?;
        workload.check_flaw(key.flaw)?;
        workload.check_mix(key.mix)?;
        workload.check_collect(Collect::by_steps(key.defragment))?;
        self.target(&WorkloadTarget::new(workload, key), replay)
    }
}

fn in_range(option: &'static str, value: u64, least: u64, most: u64) -> Result<(), ExploreError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ExploreError::Range { option, value, range: format!("{least} to {most}") })
}

impl ExploreOptions {
    /// Each model once.
    fn without_repeats(&self) -> ExploreOptions {
        let mut models: Vec<Model> = Vec::new();
        for &model in &self.models {
            if !models.contains(&model) {
                models.push(model);
            }
        }
        ExploreOptions { models, ..self.clone() }
    }

    fn key(&self) -> RunKey {
        RunKey {
            seed: self.seed,
            threads: self.threads,
            ops: self.ops,
            entries: self.entries,
            search_percent: self.search_percent,
            mix: self.mix,
            flaw: self.flaw,
            defragment: self.defragment,
        }
    }

    fn search(&self, model: Model) -> Search {
        let Self { budget, thorough, seed, .. } = *self;
        let (depth, torn_lines) = (self.depth as usize, self.torn_lines as usize);
        Search { budget, thorough, seed, depth, torn_lines, ..Search::new(model) }
    }

    /// The time that it may take, if it is limited.
    fn time(&self) -> Option<Duration> {
        (self.seconds > 0).then(|| Duration::from_secs(self.seconds))
    }

    fn exploration(&self, threads: usize, time: Option<Duration>) -> Scope {
        let usual = Scope::new(&self.models, threads);
        Scope {
            base: Schedule { seed: self.seed, ..usual.base },
            interruptions: self.preemptions as usize,
            delays: self.delays as usize,
            buffer: self.buffer as usize,
            runs: self.schedules as usize,
            random: usize::MAX,
            time,
            search: self.search(Model::Px86),
            part: (self.shard.number, self.shard.of),
            searchers: self.searchers as usize,
            ..usual
        }
    }

    fn check(&self) -> Result<(), ExploreError> {
        if self.models.is_empty() {
            return Err(ExploreError::NoModel(Model::names().join(", ")));
        }
        in_range("--schedules", self.schedules, 1, SCHEDULES_MAX)?;
        in_range("--preemptions", self.preemptions, 0, 8)?;
        in_range("--delays", self.delays, 0, 8)?;
        in_range("--buffer", self.buffer, 1, 64)?;
        in_range("--depth", self.depth, 0, 8)?;
        in_range("--budget", self.budget, 1, u64::MAX)?;
        in_range("--searchers", self.searchers, 1, SEARCHERS_MAX)?;
        in_range("--ops", self.ops, 1, EXPLORE_OPS_MAX)
    }
}

impl RunKey {
    fn check(&self) -> Result<(), ExploreError> {
        in_range("--threads", self.threads as u64, 1, EXPLORE_THREADS_MAX as u64)?;
        in_range("--ops", self.ops, 1, EXPLORE_OPS_MAX)?;
        in_range("--entries", self.entries, 1, EXPLORE_ENTRIES_MAX)?;
        in_range("--search", self.search_percent.into(), 0, 100)
    }
}

/// Who looks on while a program is explored.
struct Watch<'a> {
    target: &'a dyn Target,
    share: Share<'a>,
    progress: &'a Progress,
    stop: &'a AtomicBool,
    resume: Option<Resume>,
    /// Thousandths of the work that were shown as done.
    at: AtomicU64,
}

impl Onlooker for Watch<'_> {
    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.target.is_outdated()
    }

    fn is_at(&self, part: f64) {
        let now = (part * 1000.0) as u64;
        let before = self.at.fetch_max(now, Ordering::Relaxed);
        self.progress.advance_work(now.saturating_sub(before));
    }

    fn known(&self, unit: usize) -> Option<SearchOutcome> {
        match &self.resume {
            Some(resume) => resume.known(unit),
            None => self.share.known(unit),
        }
    }

    fn has_done(&self, unit: usize, outcome: &SearchOutcome) {
        self.share.note(unit, outcome);
        if let Some(resume) = &self.resume {
            resume.add(unit, outcome);
        }
    }

    fn has_found(&self, unit: usize, outcome: &SearchOutcome) {
        self.share.note(unit, outcome);
    }

    fn counted(&self, unit: usize) -> Option<SearchOutcome> {
        self.share.counted(unit)
    }
}

struct Explore<'a> {
    options: &'a ExploreOptions,
    share: Share<'a>,
    /// What is left of the time that it may take.
    time: Option<Duration>,
    progress: &'a Progress,
    stop: &'a AtomicBool,
}

impl Explore<'_> {
    fn target(
        &self,
        target: &dyn Target,
        replay: Option<Replay<'_>>,
    ) -> Result<ExploreReport, ExploreError> {
        self.options.check()?;
        match replay {
            Some(Replay { text, key, .. }) if key != target.key() => {
                Err(ReplayError::Malformed(text.into()).into())
            }
            Some(replay) => self.replay(target, replay),
            None => self.search(target),
        }
    }

    fn search(&self, target: &dyn Target) -> Result<ExploreReport, ExploreError> {
        let Explore { options, share, time, progress, stop } = *self;
        let start = Instant::now();
        let how = options.exploration(target.threads(), time);
        let (name, key, command) = (target.name(), target.key(), target.command());
        let what = Scope { time: None, part: (1, 1), ..how.clone() };
        let what = format!("{} {name} {key} {what:?}", env!("CARGO_PKG_VERSION"));
        let how = share.begin(&what, how)?;
        let resume = options.resume.as_ref().map(|path| Resume::open(path, &what));
        let (resume, at) = (resume.transpose()?, AtomicU64::new(0));
        let watch = Watch { target, share, progress, stop, resume, at };
        progress.start_work(1);
        let moved = OnceLock::new();
        let record = |schedule: &Schedule| {
            let Recorded { trace, check, moved: of_run } = target.record(schedule)?;
            moved.get_or_init(|| of_run);
            Ok::<_, ExploreError>(seawall_explore::Recorded { trace, check })
        };
        let explored = seawall_explore::explore(&how, record, &watch);
        let explored = explored.map_err(|FailedRun { turns, error }| match error {
            ExploreError::Run { program, error, .. } if how.base.threads > 1 => {
                ExploreError::Run { program, schedule: Some(turns.to_string()), error }
            }
            ExploreError::Program { what, .. } if how.base.threads > 1 => {
                ExploreError::Program { what, schedule: Some(turns.to_string()) }
            }
            error => error,
        })?;
        progress.end();
        let unnoted = watch.resume.map_or(Ok(None), Resume::finish)?;
        let unnoted = unnoted.filter(|_| !explored.is_complete() && explored.finding().is_none());
        let is_of_outputs = |why: &Silence| matches!(why, Silence::NoOutput | Silence::NotAsked);
        let silence = explored.silence.iter();
        let silence = silence.filter(|why| target.promises_by_outputs() || !is_of_outputs(why));
        // What was done elsewhere, or before, has run there.
        let is_all = matches!(share, Share::Whole) && options.resume.is_none();
        let is_all = is_all && options.shard == Shard::default() && explored.finding().is_none();
        let unreached = if is_all { target.unreached() } else { Vec::new() };
        let seconds = start.elapsed().as_secs_f64();
        let models = explored.models.iter().map(|outcome| {
            let command = outcome.finding.as_ref().map(|finding| {
                format!("seawall explore {command} --replay {key}-{}", finding.replay())
            });
            let (coverage, outcome) = (outcome.to_string(), outcome.clone());
            ModelReport { coverage, outcome, seconds, replay_command: command }
        });
        Ok(ExploreReport {
            program: target.in_words(),
            exit_code: target.exit_code(),
            models: models.collect(),
            schedules: explored.schedules(),
            runs: explored.runs,
            complete: explored.is_complete(),
            stopped: explored.is_stopped,
            coverage: explored.coverage(),
            shard: options.shard.to_string(),
            replayed: false,
            moved: moved.into_inner().flatten(),
            left: left::left(&explored, options),
            waste: explored.waste,
            unreached,
            warnings: silence.map(|why| why.to_string()).chain(unnoted).collect(),
            must_be_complete: false,
        })
    }

    fn replay(
        &self,
        target: &dyn Target,
        replayed: Replay<'_>,
    ) -> Result<ExploreReport, ExploreError> {
        let start = Instant::now();
        let Replay { turns, choice, .. } = replayed;
        let name = turns.to_string();
        let TurnsName(turns, seed) = turns;
        let (threads, model) = (target.threads(), choice.model);
        let schedule = Schedule { threads, turns, seed, model, ..Schedule::default() };
        let Recorded { trace, check, moved } = target.record(&schedule)?;
        let options = self.options.search(choice.model);
        let finding = replay(&trace, &options, &choice, &check)?
            .map(|finding| Finding { schedule: Some(name), ..finding });
        let model = ModelReport {
            coverage: "one image".into(),
            outcome: SearchOutcome::of_replay(choice.model, finding),
            seconds: start.elapsed().as_secs_f64(),
            replay_command: None,
        };
        Ok(ExploreReport {
            program: target.in_words(),
            exit_code: target.exit_code(),
            schedules: String::new(),
            runs: 1,
            complete: false,
            stopped: false,
            coverage: "one image".into(),
            shard: Shard::default().to_string(),
            replayed: true,
            models: vec![model],
            moved,
            left: Vec::new(),
            waste: Vec::new(),
            unreached: Vec::new(),
            warnings: Vec::new(),
            must_be_complete: false,
        })
    }
}

#[cfg(test)]
mod tests;
