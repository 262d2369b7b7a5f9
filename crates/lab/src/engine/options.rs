//! What the options of commands have in common: their defaults, their limits, and the errors for
//! values outside them.

use crate::LabError;
use seawall_sim::{Machine, SimError};

/// Crashes of each cell, unless told otherwise.
pub const CRASHES: u64 = 20;

/// The machine, unless told otherwise.
pub const MACHINE: &str = "micro15";

pub(crate) const CRASHES_MAX: u64 = 1 << 20;
const JOBS_MAX: usize = 1024;

/// Refuses a number of host threads that makes no sense.
pub(crate) fn check_jobs(jobs: Option<usize>) -> Result<(), LabError> {
    jobs.map_or(Ok(()), |jobs| in_range("--jobs", jobs as u64, 1, JOBS_MAX as u64))
}

pub(crate) fn in_range(
    option: &'static str,
    value: u64,
    low: u64,
    high: u64,
) -> Result<(), LabError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    let valid =
        if high == u64::MAX { format!("at least {low}") } else { format!("{low} to {high}") };
    Err(LabError::Option { option, value: value.to_string(), valid })
}

/// Threads of a run: one per core unless told otherwise, and never more. `option` is who said it.
pub(crate) fn threads_of(
    option: &'static str,
    asked: Option<usize>,
    machine: &Machine,
) -> Result<usize, LabError> {
    let cores = machine.core.count;
    let threads = asked.unwrap_or(cores);
    in_range(option, threads as u64, 1, u64::MAX)?;
    if threads > cores {
        return Err(SimError::TooManyPrograms { programs: threads, cores }.into());
    }
    Ok(threads)
}

pub(crate) fn once(what: &'static str, names: &[String]) -> Result<(), LabError> {
    let repeated = |place: &usize| names[..*place].contains(&names[*place]);
    match (0..names.len()).find(repeated) {
        Some(place) => Err(LabError::Twice { what, name: names[place].clone() }),
        None => Ok(()),
    }
}
