//! Runs that are made ahead of their turn, by other threads of the host.
//!
//! A run depends on its schedule only, and each schedule that an exploration knows of is run at
//! some time: so making a run ahead changes nothing but when it is made.

use crate::schedule::Schedule;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Runs that are made ahead at most, for each worker.
const AHEAD: usize = 4;

/// Where a run is that is to be made ahead.
enum Stage<R> {
    Wanted,
    InWork,
    Made(R),
}

/// The runs that are made ahead.
pub(crate) struct Ahead<R> {
    most: usize,
    runs: Mutex<Vec<(Schedule, Stage<R>)>>,
    made: Condvar,
}

impl<R> Ahead<R> {
    pub(crate) fn new(workers: usize) -> Ahead<R> {
        Ahead { most: AHEAD * workers, runs: Mutex::default(), made: Condvar::new() }
    }

    /// Wants the first of these runs; true if there is more to do.
    pub(crate) fn foresee(&self, later: &mut dyn Iterator<Item = Schedule>) -> bool {
        let mut runs = self.lock();
        if runs.len() > self.most / 2 {
            return false;
        }
        let before = runs.len();
        for schedule in later.take(self.most) {
            if !runs.iter().any(|(known, _)| *known == schedule) {
                runs.push((schedule, Stage::Wanted));
            }
        }
        runs.len() > before
    }

    /// A run to make now.
    pub(crate) fn next(&self) -> Option<Schedule> {
        let mut runs = self.lock();
        let (schedule, stage) = runs.iter_mut().find(|(_, run)| matches!(run, Stage::Wanted))?;
        *stage = Stage::InWork;
        Some(schedule.clone())
    }

    /// Makes the run that was [next](Ahead::next).
    pub(crate) fn put(&self, schedule: &Schedule, make: impl FnOnce() -> R) {
        let mut unmade = Unmade { ahead: self, schedule, run: None };
        unmade.run = Some(make());
    }

    /// The run, if it was made ahead; waits for one that is being made.
    pub(crate) fn take(&self, schedule: &Schedule) -> Option<R> {
        let mut runs = self.lock();
        loop {
            let at = runs.iter().position(|(known, _)| known == schedule)?;
            if !matches!(runs[at].1, Stage::InWork) {
                return match runs.remove(at).1 {
                    Stage::Made(run) => Some(run),
                    _ => None,
                };
            }
            runs = self.made.wait(runs).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Schedule, Stage<R>)>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A run in work. Should it panic, whoever waits for it makes it again.
struct Unmade<'a, R> {
    ahead: &'a Ahead<R>,
    schedule: &'a Schedule,
    run: Option<R>,
}

impl<R> Drop for Unmade<'_, R> {
    fn drop(&mut self) {
        let mut runs = self.ahead.lock();
        if let Some((_, stage)) = runs.iter_mut().find(|(known, _)| known == self.schedule) {
            *stage = self.run.take().map_or(Stage::Wanted, Stage::Made);
        }
        self.ahead.made.notify_all();
    }
}
