//! Every crash of a short run, in a test.

use crate::started::{recovered, started};
use crate::thread::Thread;
use crate::{Branded, Error, HeapError, ReadError};
use seawall_explore::{
    CrashImage, CrashPoint, Finding, Model, RunError, Schedule, Schedules, Search, SearchOutcome,
    Trace, Traced, check, record, search,
};
use seawall_memory::Image;
use seawall_runtime::{Heap, HeapOptions, typed};
use std::fmt;
use std::hash::Hash;

/// The limits of [`explore`]. The defaults suit a test of some seconds: a program of a few
/// transactions, in a pool of 1 MiB.
#[derive(Clone, Debug)]
pub struct Exploration {
    threads: usize,
    models: Vec<Model>,
    interruptions: usize,
    runs: usize,
    states: u64,
    depth: usize,
    bytes: u64,
    log_bytes: u64,
}

impl Default for Exploration {
    fn default() -> Exploration {
        Exploration {
            threads: 1,
            models: vec![Model::Px86, Model::Bep],
            interruptions: 2,
            runs: 100,
            states: 50_000,
            depth: 0,
            bytes: 1 << 20,
            log_bytes: 16 << 10,
        }
    }
}

impl Exploration {
    /// Sets the number of threads that run the program at once, under every schedule with at most
    /// two interruptions (up to [`runs`](Exploration::runs)). The default is 1.
    #[must_use]
    pub fn threads(self, threads: usize) -> Exploration {
        Exploration { threads, ..self }
    }

    /// Sets the most runs to try, each different. The default is 100.
    #[must_use]
    pub fn runs(self, runs: usize) -> Exploration {
        Exploration { runs, ..self }
    }

    /// Sets the most crash states of each run under each model. The default is 50,000.
    #[must_use]
    pub fn states(self, states: u64) -> Exploration {
        Exploration { states, ..self }
    }

    /// Sets how often power fails again while recovery runs. The default is 0, as each failure
    /// multiplies the crash states, and recovery is the library's.
    #[must_use]
    pub fn crashes_of_recovery(self, depth: usize) -> Exploration {
        Exploration { depth, ..self }
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
    pub outputs: Vec<u64>,
}

/// What an exploration tried; its text is fit to be printed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explored {
    /// Different runs.
    pub runs: usize,
    /// True if no other schedule with so few interruptions differs from these.
    pub all_runs: bool,
    /// Crash states: images that recovery can tell apart, over all moments of a crash.
    pub states: u64,
    /// True if these are all.
    pub complete: bool,
}

impl fmt::Display for Explored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Explored { runs, states, .. } = self;
        write!(f, "{runs} runs, {states} crash states, ")?;
        f.write_str(if self.all_runs && self.complete { "complete" } else { "not all there are" })
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
    #[error(transparent)]
    Run(#[from] RunError),
    /// A crash leaves what `look` or `judge` refuse: the smallest image of that kind.
    #[error("{0}")]
    Broken(Box<Finding>),
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
pub fn explore<R: Branded + 'static, F: Eq + Hash>(
    how: &Exploration,
    setup: impl FnOnce(&mut Thread<'_, R, Image>) -> Result<(), Error>,
    program: impl Fn(&mut Thread<'_, R, Traced<'_>>) -> Result<(), Error> + Clone + 'static,
    look: impl Fn(&mut Thread<'_, R, CrashImage>) -> Result<F, ReadError>,
    judge: impl Fn(&F, &Crashed) -> Result<(), String>,
) -> Result<Explored, ExploreError> {
    let options = HeapOptions {
        bytes: how.bytes,
        bytes_max: how.bytes,
        threads: how.threads as u64,
        log_bytes: how.log_bytes,
        ..typed::options::<R>()
    };
    let (start, heap) = started(&options, setup)?;
    let bytes = start.pm_bytes();
    let recover = |image: &CrashImage| {
        let found = || {
            let mut thread = Thread::join(recovered::<R>(image, bytes)?, image)?;
            Ok::<_, HeapError>(look(&mut thread)?)
        };
        found().map_err(|error| error.to_string())
    };
    let judge =
        |found: &F, point: &CrashPoint| judge(found, &Crashed { outputs: point.outputs.clone() });
    let check = check(recover, judge);
    let mut explored = Explored { runs: 0, all_runs: true, states: 0, complete: true };
    for model in &how.models {
        let (traces, all) = recorded(how, *model, &start, heap, &program)?;
        explored.runs = explored.runs.max(traces.len());
        explored.all_runs &= all;
        for trace in &traces {
            let search_for = Search { budget: how.states, depth: how.depth, ..Search::new(*model) };
            let outcome: SearchOutcome = search(trace, &search_for, &check);
            explored.states += outcome.states;
            explored.complete &= outcome.reached == seawall_explore::Reached::Complete;
            if let Some(finding) = outcome.finding {
                return Err(ExploreError::Broken(Box::new(finding)));
            }
        }
    }
    Ok(explored)
}

/// Every run that the exploration wants, and whether these are all.
fn recorded<R: Branded + 'static>(
    how: &Exploration,
    model: Model,
    start: &Image,
    heap: Heap,
    program: &(impl Fn(&mut Thread<'_, R, Traced<'_>>) -> Result<(), Error> + Clone + 'static),
) -> Result<(Vec<Trace>, bool), RunError> {
    let run = |schedule: &Schedule| {
        let program = program.clone();
        record(start.clone(), schedule, move |memory| {
            let run = || Ok::<_, HeapError>(program(&mut Thread::join(heap, memory)?)?);
            run().unwrap_or_else(|error| panic!("{error}"));
        })
    };
    let base = Schedule { threads: how.threads, ..Schedule::default() };
    if how.threads == 1 {
        return Ok((vec![run(&base)?], true));
    }
    let interrupted =
        Schedules { interruptions: how.interruptions, limit: how.runs, ..Schedules::new(model) };
    let found = interrupted.all(&base, run)?;
    let complete = found.tried.complete;
    Ok((found.runs.into_iter().map(|(_, trace)| trace).collect(), complete))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_model_of_processors_and_buffered_epochs() {
        assert_eq!(Exploration::default().models, [Model::Px86, Model::Bep]);
    }
}
