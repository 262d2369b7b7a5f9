//! Independent pieces of work on all cores of the host, one at a time for each.
//!
//! Results come back in the order of the pieces, so neither the number of host threads nor their
//! order reaches one.

use super::kept::{Keep, Kept};
use crate::LabError;
use rayon::prelude::*;
use seawall_report::Progress;
use seawall_sim::SimError;
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A piece of work: what it runs, and under which design.
pub(crate) trait Piece: Sync {
    fn program(&self) -> &str;
    fn design(&self) -> String;
}

/// A piece with its number.
impl<P: Piece> Piece for (usize, &P) {
    fn program(&self) -> &str {
        self.1.program()
    }

    fn design(&self) -> String {
        self.1.design()
    }
}

/// So many threads of the host, or one per core, to `install` parallel work on.
pub(crate) fn host_threads(jobs: Option<usize>) -> Result<rayon::ThreadPool, LabError> {
    let jobs = jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs).build();
    pool.map_err(|error| LabError::Jobs { jobs, why: error.to_string() })
}

/// What `one` makes of each of `pieces`, in their order.
pub(crate) fn in_parallel<P: Sync, T: Send>(
    pool: &rayon::ThreadPool,
    pieces: &[P],
    one: impl Fn(&P) -> T + Sync,
) -> Vec<T> {
    let done: Vec<Mutex<Option<T>>> = pieces.iter().map(|_| Mutex::new(None)).collect();
    each(pool, pieces.len(), &|at| {
        let result = one(&pieces[at]);
        *done[at].lock().expect("nobody panics with it") = Some(result);
    });
    let result = |done: Mutex<Option<T>>| done.into_inner().ok().flatten().expect("it is done");
    done.into_iter().map(result).collect()
}

/// Calls `one` with each number below `count`. One at a time for each thread, in order: halving the
/// list would leave one thread the slow half. Without types of its own, because parallel iterators
/// take long to compile.
fn each(pool: &rayon::ThreadPool, count: usize, one: &(dyn Fn(usize) + Sync)) {
    pool.install(|| (0..count).par_bridge().for_each(one));
}

/// How lists of pieces are done.
#[derive(Clone, Copy)]
pub(crate) struct Runner<'a> {
    /// Threads of the host; none: one per core.
    pub(crate) jobs: Option<usize>,
    pub(crate) progress: &'a Progress,
    /// Becomes true when a user wants no more.
    pub(crate) stop: &'a Arc<AtomicBool>,
    /// Where results are kept that may be asked for again.
    pub(crate) kept: Option<&'a Kept>,
}

impl<'a> Runner<'a> {
    /// One that keeps nothing.
    pub(crate) fn new(
        jobs: Option<usize>,
        progress: &'a Progress,
        stop: &'a Arc<AtomicBool>,
    ) -> Runner<'a> {
        Runner { jobs, progress, stop, kept: None }
    }

    /// Does `run` with each of `pieces`. What a request to stop cut short, or did not let begin, is
    /// none.
    pub(crate) fn all<P: Piece, T: Send>(
        &self,
        pieces: &[P],
        run: impl Fn(&P) -> Result<T, LabError> + Sync,
    ) -> Result<Vec<Option<T>>, LabError> {
        let Runner { progress, stop, .. } = *self;
        let pool = host_threads(self.jobs)?;
        progress.start(pieces.iter().map(Piece::program));
        let one = |piece: &P| {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let done = run(piece);
            progress.cell_done(piece.program(), &piece.design());
            match done {
                Err(LabError::Sim(SimError::Stopped)) => Ok(None),
                Err(LabError::Sim(error)) if error.is_stuck() => {
                    let cell = format!("{} under {}", piece.program(), piece.design());
                    Err(LabError::Stuck { cell, error: Box::new(error), repeat: String::new() })
                }
                other => other.map(Some),
            }
        };
        let done = in_parallel(&pool, pieces, one);
        progress.end();
        done.into_iter().collect()
    }

    /// As [`all`](Runner::all); what came of a piece on `machine` before is taken from the file
    /// where results are kept, and what is new is written to it.
    pub(crate) fn all_kept<P: Piece + Debug, T: Send + Keep<P>>(
        &self,
        machine: &str,
        pieces: &[P],
        run: impl Fn(&P) -> Result<T, LabError> + Sync,
    ) -> Result<Vec<Option<T>>, LabError> {
        let Some(kept) = self.kept else { return self.all(pieces, run) };
        self.all(pieces, |piece| {
            if let Some(result) = kept.get(machine, piece) {
                return Ok(result);
            }
            let result = run(piece)?;
            let is_whole = !self.stop.load(Ordering::Relaxed);
            if is_whole {
                let name = format!("{} {}", piece.program(), piece.design());
                kept.add(machine, piece, name, &result)?;
            }
            Ok(result)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_sim::UnfinishedCore;

    struct Named;

    impl Piece for Named {
        fn program(&self) -> &str {
            "lu"
        }

        fn design(&self) -> String {
            "bsp-lb".into()
        }
    }

    #[test]
    fn a_piece_that_is_stuck_is_named() {
        let (progress, stop) = (Progress::hidden(), Arc::default());
        let stuck = |_: &Named| {
            let core = UnfinishedCore { core: 8, does: "waits for a drain".into(), at: None };
            Err::<(), _>(SimError::Deadlock { cycle: 5, cores: vec![core] }.into())
        };
        let error = Runner::new(Some(1), &progress, &stop).all(&[Named], stuck).unwrap_err();
        let expected = "lu under bsp-lb: deadlock at cycle 5\n  core 8 waits for a drain";
        assert_eq!(error.to_string(), expected);
    }
}
