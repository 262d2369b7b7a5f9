//! What can be explored: a program that can be recorded under a schedule, and its check.

use super::{ExploreError, UnreachedFunction};
use crate::commands::run::CollectorReport;
use seawall_any::{AnyMemory, AnyStructure, AnyWorkload};
use seawall_explore::{Check, CrashImage, CrashPoint, Recorder, Schedule, Trace, Turns};
use seawall_memory::{Image, Memory};
use seawall_runtime::defrag::{DefragCounts, DefragOptions};
use seawall_workloads::history::Effect;
use seawall_workloads::{
    Collect, Contents, Cost, Damage, Explainer, Flaw, History, Layout, RequestMix, Setup, Worker,
};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock};

/// A program, and what it has to survive.
pub(super) trait Target: Sync {
    /// The name on the command line.
    fn name(&self) -> String;

    /// The program with its numbers, in words.
    fn in_words(&self) -> String;

    /// What a run depends on besides the name and the schedule: the head of a replay string.
    fn key(&self) -> String;

    /// Threads of a run.
    fn threads(&self) -> usize;

    /// The words behind `seawall explore` that name it.
    fn command(&self) -> String {
        self.name()
    }

    /// What each run of a program of others returns.
    fn exit_code(&self) -> Option<u8> {
        None
    }

    /// Whether what is found from now on is worthless, as more must be known of the program first.
    fn is_outdated(&self) -> bool {
        false
    }

    /// Its functions that make stores durable and that no run has come to, of a program of others.
    fn unreached(&self) -> Vec<UnreachedFunction> {
        Vec::new()
    }

    /// Whether what it promises are its outputs, so that a run without them is suspect.
    fn promises_by_outputs(&self) -> bool {
        true
    }

    /// Runs the program once.
    fn record(&self, schedule: &Schedule) -> Result<Recorded, ExploreError>;
}

/// A run, and what its images are checked against. The check's type is forgotten, so that all that
/// is done with runs is compiled once, and not for each workload.
pub(super) struct Recorded {
    pub(super) trace: Trace,
    /// What moved, if objects were to be moved together.
    pub(super) moved: Option<CollectorReport>,
    pub(super) check: Box<dyn Check<Found = Found> + Send + Sync>,
}

/// What recovery finds.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) enum Found {
    Workload(Contents),
    Case(seawall_corpus::Found),
    /// The check of a program of others has ended with 0.
    Sound,
}

impl AsMut<Trace> for Recorded {
    fn as_mut(&mut self) -> &mut Trace {
        &mut self.trace
    }
}

/// What a run of a workload depends on besides its schedule; the head of a replay string.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct RunKey {
    pub(super) seed: u64,
    pub(super) threads: usize,
    pub(super) ops: u64,
    pub(super) entries: u64,
    pub(super) search_percent: u32,
    /// Instead of the share of searches, where there is one.
    pub(super) mix: Option<RequestMix>,
    pub(super) flaw: Flaw,
    /// Thread 0 also defragments.
    pub(super) defragment: Option<DefragOptions>,
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RunKey { seed, threads, ops, entries, search_percent, mix, flaw, defragment } = self;
        let requests = mix.map_or(search_percent.to_string(), |mix| mix.to_string());
        let way = defragment.map_or_else(String::new, |way| format!("+{way}"));
        write!(f, "{seed}-{threads}-{ops}-{entries}-{requests}-{}{way}", flaw.letter())
    }
}

impl FromStr for RunKey {
    type Err = ();

    fn from_str(text: &str) -> Result<RunKey, ()> {
        // Names of protocols may have hyphens, too.
        let (text, way) = match text.split_once('+') {
            Some((text, way)) => (text, Some(way.parse().map_err(|_| ())?)),
            None => (text, None),
        };
        let parts: Vec<&str> = text.splitn(5, '-').collect();
        let [seed, threads, ops, entries, rest] = parts[..] else { return Err(()) };
        // Names of mixes have hyphens.
        let (requests, letter) = rest.rsplit_once('-').ok_or(())?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| ());
        let (search_percent, mix) = match requests.parse::<u32>() {
            Ok(percent) => (percent, None),
            Err(_) => (0, Some(requests.parse().map_err(|_| ())?)),
        };
        Ok(RunKey {
            seed: number(seed)?,
            threads: threads.parse().map_err(|_| ())?,
            ops: number(ops)?,
            entries: number(entries)?,
            search_percent,
            mix,
            flaw: Flaw::of_letter(letter).ok_or(())?,
            defragment: way,
        })
    }
}

/// A workload with its numbers.
pub(super) struct WorkloadTarget {
    workload: &'static dyn AnyWorkload,
    key: RunKey,
    /// What all runs have in common, once it is there.
    ready: OnceLock<Result<Ready, Damage>>,
}

/// A workload in its first state.
struct Ready {
    recorder: Recorder,
    workload: Arc<dyn AnyStructure>,
    before: Contents,
}

impl WorkloadTarget {
    pub(super) fn new(workload: &'static dyn AnyWorkload, key: RunKey) -> WorkloadTarget {
        WorkloadTarget { workload, key, ready: OnceLock::new() }
    }
}

impl Target for WorkloadTarget {
    fn name(&self) -> String {
        self.workload.name().into()
    }

    fn in_words(&self) -> String {
        let RunKey { seed, threads, ops, entries, mix, flaw, defragment, .. } = self.key;
        let plural = if threads == 1 { "" } else { "s" };
        let broken = flaw
            .name()
            .map_or(String::new(), |flaw| format!(", deliberately broken by --flaw {flaw}"));
        let mix = mix.map_or(String::new(), |mix| format!(" of {mix}"));
        let way = defragment.map_or_else(String::new, |way| format!(", moved by {way}"));
        format!(
            "{}: {threads} thread{plural} x {ops} operations{mix} on {entries} entries{way}, seed \
             {seed}{broken}",
            self.workload.name()
        )
    }

    fn key(&self) -> String {
        self.key.to_string()
    }

    fn threads(&self) -> usize {
        self.key.threads
    }

    fn record(&self, schedule: &Schedule) -> Result<Recorded, ExploreError> {
        let RunKey { seed, threads, ops, entries, search_percent, mix, flaw, defragment } =
            self.key;
        let (kind, name) = (self.workload, self.workload.name());
        let damaged = |damage| ExploreError::Damage { workload: name, damage };
        let collect = Collect::by_steps(defragment);
        let setup =
            Setup { threads, seed, entries, search_percent, mix, collect, cost: Cost::Lean, flaw };
        let layout = kind.layout(&setup);
        let ready = self.ready.get_or_init(|| {
            let start = Image::new(layout.pm_bytes, layout.dram_bytes);
            let workload = kind.create(&AnyMemory::image(&start), &setup);
            let before = workload.contents(&AnyMemory::image(&start))?;
            Ok(Ready { recorder: Recorder::new(start), workload, before })
        });
        let ready = ready.as_ref().map_err(|damage| damaged(damage.clone()))?;
        let (workload, before) = (ready.workload.again(), ready.before.clone());
        let history = Arc::new(History::new());
        let told = history.clone();
        let moved = Arc::new(Mutex::new(DefragCounts::default()));
        let tell = moved.clone();
        // Its name says no seed where turns are not random: replays have the run's then.
        let is_random = !matches!(schedule.turns, Turns::Chosen(_));
        let seed = if is_random { schedule.seed } else { seed };
        let schedule = &Schedule { seed, ..schedule.clone() };
        let trace = ready.recorder.record(schedule, move |memory| {
            let mut worker = Worker::new(&setup, memory.thread(), told.clone());
            let memory = &AnyMemory::traced(memory);
            let mut joined = workload.join(memory);
            while worker.number < ops {
                joined.step(&mut worker);
                worker.number += 1;
                memory.output(worker.number);
            }
            *tell.lock().expect("nobody panics with it") = joined.moved();
        });
        let trace = trace.map_err(|error| ExploreError::Run {
            program: name.into(),
            schedule: None,
            error,
        })?;
        let (effects, explainer) = (history.effects(), history.index());
        let workload = kind;
        let check = WorkloadCheck { workload, layout, flaw, before, effects, explainer };
        let counts = *moved.lock().expect("nobody panics with it");
        let moved = defragment.map(|way| CollectorReport::of(way, &counts));
        Ok(Recorded { trace, moved, check: Box::new(check) })
    }
}

/// On each image recovery runs twice (the second time must change nothing), then the invariants
/// are checked, and what the structure holds must be explained by the operations that had begun,
/// with all that had been promised among them.
struct WorkloadCheck {
    workload: &'static dyn AnyWorkload,
    layout: Layout,
    flaw: Flaw,
    before: Contents,
    effects: Vec<Effect>,
    explainer: Explainer,
}

impl WorkloadCheck {
    fn recover_once(&self, image: &CrashImage) -> Result<Contents, String> {
        let image = &AnyMemory::crashed(image);
        let opened = self.workload.open(image, self.layout, self.flaw);
        let opened = opened.map_err(|damage| format!("recovery refuses the pool: {damage}"))?;
        opened.contents(image).map_err(|damage| format!("an invariant is broken: {damage}"))
    }

    /// Effects at the start of the history whose operations had begun when power failed.
    fn begun(&self, outputs: &[u64]) -> usize {
        let later = |effect: &Effect| effect.number > outputs[effect.thread];
        self.effects.iter().position(later).unwrap_or(self.effects.len())
    }
}

impl Check for WorkloadCheck {
    type Found = Found;

    fn recover(&self, image: &CrashImage) -> Result<Found, String> {
        let after = self.recover_once(image)?;
        image.restart();
        if after != self.recover_once(image)? {
            return Err("a second recovery changes what the first one gave".into());
        }
        Ok(Found::Workload(after))
    }

    fn judge(&self, found: &Found, point: &CrashPoint) -> Result<(), String> {
        let Found::Workload(after) = found else { unreachable!("recovery of a workload") };
        let begun = self.begun(&point.outputs);
        let explained = self.explainer.explain_first(begun, &self.before, after, &point.promised);
        explained.map(drop).map_err(|violation| violation.to_string())
    }
}
