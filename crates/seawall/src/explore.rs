//! Every crash of a short run, in a test.

use crate::started::{recovered, started};
use crate::thread::Thread;
use crate::{Branded, Error, HeapError, ReadError};
use seawall_explore::{
    CrashImage, CrashPoint, FailedRun, Finding, Model, Recorded, Recorder, ReplayError, RunError,
    Schedule, Search, Silence, Told, Traced, TurnsName, check, replay,
};
use seawall_memory::Image;
use seawall_runtime::{Heap, HeapOptions, typed};
use std::fmt;
use std::hash::Hash;
use std::time::Duration;

/// The limits of [`explore`]. The defaults suit a test of some seconds: a program of a few
/// transactions, in a pool of 1 MiB.
#[derive(Clone, Debug)]
pub struct Exploration {
    how: seawall_explore::Scope,
    replay: Option<String>,
    bytes: u64,
    log_bytes: u64,
}

impl Default for Exploration {
    fn default() -> Exploration {
        let usual = seawall_explore::Scope::new(&[Model::Px86, Model::Bep], 1);
        let search = Search { depth: 0, budget: u64::MAX, ..usual.search };
        let time = Some(Duration::from_secs(20));
        let how = seawall_explore::Scope { runs: 100_000, time, search, ..usual };
        Exploration { how, replay: None, bytes: 1 << 20, log_bytes: 16 << 10 }
    }
}

impl Exploration {
    /// Sets the number of threads that run the program at once, under every schedule with at most
    /// two [interruptions](Exploration::interruptions). The default is 1.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Exploration {
        self.how.base.threads = threads;
        self
    }

    /// Sets how often a thread may be interrupted in one run. The default is 2.
    #[must_use]
    pub fn interruptions(mut self, interruptions: usize) -> Exploration {
        self.how.interruptions = interruptions;
        self
    }

    /// Sets the most runs to try, each different. The default is 100,000.
    #[must_use]
    pub fn runs(mut self, runs: usize) -> Exploration {
        self.how.runs = runs;
        self
    }

    /// Sets the most crash states of each run under each model. The default is no limit.
    #[must_use]
    pub fn states(mut self, states: u64) -> Exploration {
        self.how.search.budget = states;
        self
    }

    /// Sets the time that the exploration may take; what it did not come to is
    /// [said](Explored::complete). The default is 20 s.
    #[must_use]
    pub fn time(mut self, time: Duration) -> Exploration {
        self.how.time = Some(time);
        self
    }

    /// Lets the exploration take as long as it needs. The other limits hold.
    #[must_use]
    pub fn unhurried(mut self) -> Exploration {
        self.how.time = None;
        self
    }

    /// Sets how often power fails again while recovery runs. The default is 0, as each failure
    /// multiplies the crash states, and recovery is the library's.
    #[must_use]
    pub fn crashes_of_recovery(mut self, depth: usize) -> Exploration {
        self.how.search.depth = depth;
        self
    }

    /// Looks only at one image, which [`ExploreError::Broken`] named.
    #[must_use]
    pub fn replay(self, image: &str) -> Exploration {
        Exploration { replay: Some(image.into()), ..self }
    }

    /// Sets the bytes of objects that the pool has room for. The default is 1 MiB.
    #[must_use]
    pub fn bytes(self, bytes: u64) -> Exploration {
        Exploration { bytes, ..self }
    }

    /// As [`Options::log_bytes`](crate::Options). The default is 16 KiB.
    #[must_use]
    pub fn log_bytes(self, log_bytes: u64) -> Exploration {
        Exploration { log_bytes, ..self }
    }
}

/// How far a run had come when power failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Crashed {
    /// For each thread, how often it had called [`Thread::output`]: what came before has to be
    /// there.
    pub outputs: Told,
}

/// What an exploration tried; its text is fit to be printed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explored {
    /// Different runs.
    pub runs: usize,
    /// Crash states: images that recovery can tell apart, over all moments of a crash.
    pub states: u64,
    /// True if these are all, of every schedule within the limits.
    pub complete: bool,
    /// Why nothing could be found, if so: a program without an output, a `judge` that does not look
    /// at them, or the like.
    pub silence: Vec<Silence>,
    words: String,
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

/// Why an exploration did not pass.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ExploreError {
    /// The pool cannot be made, or the first transactions failed.
    #[error(transparent)]
    Setup(#[from] HeapError),
    /// A run panicked, waits for ever, or does not end.
    #[error("{error} (turns {schedule})")]
    Run {
        /// The turns of its threads, as in a replay string.
        schedule: String,
        /// What happened.
        error: RunError,
    },
    /// A crash leaves what `look` or `judge` refuse: the smallest image of that kind.
    #[error("{0}  again: Exploration::replay(\"{replay}\")", replay = .0.replay())]
    Broken(Box<Finding>),
    /// What [`Exploration::replay`] named is no image of this program.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

/// The message: it is what a failing test prints.
impl fmt::Debug for ExploreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Runs `program`, lets power fail at every moment of it, recovers every image that a crash can
/// leave under x86 and under buffered epoch persistency, and refuses the first bad one.
///
/// `setup` fills the pool before. `look` says what is in a recovered pool, or that it is damaged;
/// it only reads. `judge` says whether a crash may leave that, given how far the run had come.
///
/// ```
/// use seawall::{Exploration, Persist, explore};
///
/// #[derive(Clone, Copy, Persist)]
/// struct Account {
///     cents: [i64; 2],
/// }
///
/// let explored = explore::<Account, _>(
///     &Exploration::default(),
///     |pool| pool.transaction(|tx, root| tx.set(root.at(Account::CENTS).index(0), 100)),
///     |pool| {
///         pool.transaction(|tx, root| {
///             tx.update(root.at(Account::CENTS).index(0), |cents| cents - 30)?;
///             tx.update(root.at(Account::CENTS).index(1), |cents| cents + 30)
///         })?;
///         pool.output(0);
///         Ok(())
///     },
///     |pool| pool.read(|view, root| view.get(root.at(Account::CENTS))),
///     |cents, crash| match (cents, crash.outputs[0]) {
///         ([100, 0], 0) | ([70, 30], _) => Ok(()),
///         _ => Err(format!("{cents:?}")),
///     },
/// )?;
/// assert!(explored.complete);
/// # Ok::<(), seawall::ExploreError>(())
/// ```
///
/// A function that is generic over the machine is given as a closure: `|pool| run(pool)`.
///
/// # Errors
/// [`ExploreError::Broken`] with what was lost and what was kept, and the lines of the program that
/// stored it.
pub fn explore<R: Branded + 'static, F: Eq + Hash + Send>(
    how: &Exploration,
    setup: impl FnOnce(&mut Thread<'_, R, Image>) -> Result<(), Error>,
    program: impl Fn(&mut Thread<'_, R, Traced<'_>>) -> Result<(), Error> + Clone + Sync + 'static,
    look: impl Fn(&mut Thread<'_, R, CrashImage>) -> Result<F, ReadError> + Sync,
    judge: impl Fn(&F, &Crashed) -> Result<(), String> + Sync,
) -> Result<Explored, ExploreError> {
    let options = HeapOptions {
        bytes: how.bytes,
        bytes_max: how.bytes,
        threads: how.how.base.threads as u64,
        log_bytes: how.log_bytes,
        ..typed::options::<R>()
    };
    let (start, heap) = started(&options, setup)?;
    let bytes = start.pm_bytes();
    let recorder = Recorder::new(start);
    let recover = |image: &CrashImage| {
        let found = || {
            let mut thread = Thread::join(recovered::<R>(image, bytes)?, image)?;
            Ok::<_, HeapError>(look(&mut thread)?)
        };
        found().map_err(|error| error.to_string())
    };
    let judge =
        |found: &F, point: &CrashPoint| judge(found, &Crashed { outputs: point.outputs.clone() });
    let check = &check(recover, judge);
    let run = |schedule: &Schedule| {
        let trace = recorded(&recorder, heap, schedule, &program)?;
        Ok(Recorded { trace, check })
    };
    if let Some(image) = &how.replay {
        return replayed(how, image, run);
    }
    let explored = seawall_explore::explore(&how.how, run, &()).map_err(of_run)?;
    match explored.finding() {
        Some(finding) => Err(ExploreError::Broken(Box::new(finding.clone()))),
        None => Ok(Explored {
            runs: explored.runs,
            states: explored.models.iter().map(|outcome| outcome.states).sum(),
            complete: explored.is_complete(),
            words: explored.to_string(),
            silence: explored.silence,
        }),
    }
}

fn of_run(FailedRun { turns, error }: FailedRun<RunError>) -> ExploreError {
    ExploreError::Run { schedule: turns.to_string(), error }
}

/// One run of the program.
fn recorded<R: Branded + 'static>(
    recorder: &Recorder,
    heap: Heap,
    schedule: &Schedule,
    program: &(impl Fn(&mut Thread<'_, R, Traced<'_>>) -> Result<(), Error> + Clone + 'static),
) -> Result<seawall_explore::Trace, RunError> {
    let program = program.clone();
    recorder.record(schedule, move |memory| {
        let run = || Ok::<_, HeapError>(program(&mut Thread::join(heap, memory)?)?);
        run().unwrap_or_else(|error| panic!("{error}"));
    })
}

/// Looks at the one image of this name.
fn replayed<C: seawall_explore::Check>(
    how: &Exploration,
    image: &str,
    run: impl Fn(&Schedule) -> Result<Recorded<C>, RunError>,
) -> Result<Explored, ExploreError> {
    let (turns, choice) = seawall_explore::parse_replay(image)?;
    let name = turns.to_string();
    let TurnsName(turns, seed) = turns;
    let schedule = Schedule { turns, seed, model: choice.model, ..how.how.base.clone() };
    let failed =
        |error| of_run(FailedRun { turns: TurnsName(schedule.turns.clone(), seed), error });
    let Recorded { trace, check } = run(&schedule).map_err(failed)?;
    match replay(&trace, &how.how.search, &choice, &check)? {
        Some(finding) => {
            let finding = Finding { schedule: Some(name), ..finding };
            Err(ExploreError::Broken(Box::new(finding)))
        }
        None => Ok(Explored {
            runs: 1,
            states: 1,
            complete: false,
            silence: Vec::new(),
            words: format!("recovery handles the image {image}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_model_of_processors_and_buffered_epochs() {
        assert_eq!(Exploration::default().how.models, [Model::Px86, Model::Bep]);
    }
}
