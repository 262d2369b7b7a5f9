//! Independent pieces of work on all cores of the host, one at a time for each.
//!
//! Results come back in the order of the pieces, so neither the number of host threads nor their
//! order reaches one.

use crate::LabError;
use rayon::prelude::*;
use seawall_report::Progress;
use seawall_sim::SimError;
use std::sync::atomic::{AtomicBool, Ordering};

/// A piece of work: what it runs, and under which design.
pub(crate) trait Piece: Sync {
    fn program(&self) -> &str;
    fn design(&self) -> String;
}

/// So many threads of the host, or one per core, to `install` parallel work on.
pub(crate) fn host_threads(jobs: Option<usize>) -> Result<rayon::ThreadPool, LabError> {
    let jobs = jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(jobs).build();
    pool.map_err(|error| LabError::Jobs { jobs, why: error.to_string() })
}

/// Does `run` with each of `pieces` on `jobs` host threads. What a request to stop cut short, or
/// did not let begin, is none.
pub(crate) fn run_all<P: Piece, T: Send>(
    pieces: &[P],
    jobs: Option<usize>,
    progress: &Progress,
    stop: &AtomicBool,
    run: impl Fn(&P) -> Result<T, LabError> + Sync,
) -> Result<Vec<Option<T>>, LabError> {
    let pool = host_threads(jobs)?;
    progress.start(pieces.iter().map(Piece::program));
    let one = |piece: &P| {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let done = run(piece);
        progress.cell_done(piece.program(), &piece.design());
        match done {
            Err(LabError::Sim(SimError::Stopped)) => Ok(None),
            other => other.map(Some),
        }
    };
    // One piece at a time, in order: halving the list would leave one thread the slow half.
    let done: Vec<_> = pool.install(|| {
        let mut done: Vec<_> =
            pieces.iter().enumerate().par_bridge().map(|(at, piece)| (at, one(piece))).collect();
        done.sort_by_key(|(at, _)| *at);
        done
    });
    progress.end();
    done.into_iter().map(|(_, done)| done).collect()
}
