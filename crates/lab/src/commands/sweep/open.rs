//! A sweep while it runs: its file is open, and points come in any order, from wherever they ran.
//!
//! When all are there, the lines are put in the order of the plan. So the file depends on the
//! experiment alone: not on how many ran it, nor where, nor on what was interrupted.

use super::record::SweepRecord;
use super::store::Store;
use super::task::SweepTask;
use super::{Sweep, SweepError, SweepPlan, SweepPoint};
use crate::LabError;
use crate::engine::jobs::Piece;
use crate::subject::Setting;
use seawall_sim::SimError;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A sweep whose file is open.
pub struct OpenSweep {
    plan: SweepPlan,
    store: Store,
    found: usize,
}

impl OpenSweep {
    /// Opens or starts the file of `plan`. One point that the file has is run again, because a line
    /// says what version wrote it, but not what build.
    ///
    /// # Errors
    /// A file of another experiment or another build, or one that another sweep has open.
    pub fn open(plan: SweepPlan, stop: &Arc<AtomicBool>) -> Result<OpenSweep, SweepError> {
        let keys = plan.points.iter().map(|point| &*point.key).collect();
        let store = Store::open(&plan.out, &keys)?;
        let found = store.count();
        match changed(&plan, &store, stop)? {
            Some(error) => Err(error),
            None => Ok(OpenSweep { plan, store, found }),
        }
    }

    /// The points that are not done, in the order of the plan.
    pub fn left(&self) -> Vec<SweepTask> {
        self.points_left().map(|point| SweepTask::new(&self.plan.head, point)).collect()
    }

    pub(super) fn points_left(&self) -> impl Iterator<Item = &SweepPoint> {
        self.plan.points.iter().filter(|point| self.store.get(&point.key).is_none())
    }

    /// The cycles of a point that is done; of a workload, those of a billion operations.
    pub fn cycles(&self, key: &str) -> Option<u64> {
        self.store.get(key).map(|record| record.took())
    }

    /// The references to memory of a point that is done.
    pub fn references(&self, key: &str) -> u64 {
        self.store.get(key).map_or(0, |record| record.counter("references"))
    }

    /// Writes the line of a point that was run elsewhere; the second line of a point is dropped.
    /// Returns the program and the design, as progress shows them.
    ///
    /// # Errors
    /// When it is no line of this sweep, or cannot be written.
    pub fn add(&self, line: &str) -> Result<(String, String), SweepError> {
        let other = |what: String| SweepError::Task { what };
        let record = SweepRecord::read(line).map_err(other)?;
        let key = record.key();
        let Some(point) = self.plan.points.iter().find(|point| point.key == key) else {
            return Err(other(format!("{} is no point of this sweep", record.point)));
        };
        if self.store.get(&key).is_none() {
            self.store.add(record)?;
        }
        Ok((point.program().to_owned(), point.design()))
    }

    /// Runs a point here and writes it.
    pub(super) fn run(&self, point: &SweepPoint, stop: &Arc<AtomicBool>) -> Result<(), LabError> {
        let over = point.baseline.as_deref().and_then(|key| self.cycles(key));
        self.store.add(point.run(&self.plan.head, over, stop)?)
    }

    pub(super) fn plan(&self) -> &SweepPlan {
        &self.plan
    }

    /// Closes the file, in the order of the plan if every point is there.
    ///
    /// # Errors
    /// When the file cannot be written anew; it is as it was then.
    pub fn finish(self) -> Result<Sweep, SweepError> {
        let OpenSweep { plan, store, found } = self;
        let records = store.finish(plan.points.iter().map(|point| &*point.key))?;
        Ok(Sweep { plan, records, found })
    }
}

/// Runs the shortest point of the file again. What the answer says is wrong, if it comes out
/// differently.
fn changed(
    plan: &SweepPlan,
    store: &Store,
    stop: &Arc<AtomicBool>,
) -> Result<Option<SweepError>, LabError> {
    let done = plan.points.iter().filter_map(|point| Some((point, store.get(&point.key)?)));
    let length = |(point, record): &(&SweepPoint, SweepRecord)| {
        (point.baseline.is_none(), record.counter("references"))
    };
    let Some((point, record)) = done.min_by_key(length) else { return Ok(None) };
    let setting = Setting { crashes: 0, detail: false, ..point.setting.clone() };
    let run = match point.subject.run(&setting, stop) {
        Err(LabError::Sim(SimError::Stopped)) => return Ok(None),
        other => other?,
    };
    Ok((!record.is_of(&run)).then(|| SweepError::Changed {
        path: plan.out.display().to_string(),
        point: point.described.to_string(),
        cycles: run.cycles,
        recorded: record.cycles,
    }))
}
