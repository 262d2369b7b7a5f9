//! One image built again, by the string that names it.

use crate::check::{Check, Findings};
use crate::crash::Crash;
use crate::finding::Finding;
use crate::options::Search;
use crate::recoveries::{Interned, Interner};
use crate::replay_string::{CrashPath, ReplayError};
use crate::shrink::describe;
use crate::trace::Trace;
use crate::verdict::{Court, Verdict};
use std::sync::Arc;

/// Builds the one image that `choice` names, checks it, and describes it if it fails.
///
/// # Errors
/// When the run cannot leave such an image, so it is not the run that the choice was made from.
pub fn replay<C: Check>(
    trace: &Trace,
    options: &Search,
    choice: &CrashPath,
    check: &C,
) -> Result<Option<Finding>, ReplayError> {
    let by_lanes = trace.by_lanes(choice.model);
    let trace = Arc::new(by_lanes.unwrap_or_else(|| trace.clone()));
    let found = &Interner::default();
    replay_found(&trace, options, choice, &Interned { check, found })
}

fn replay_found(
    trace: &Arc<Trace>,
    options: &Search,
    choice: &CrashPath,
    check: &dyn Findings,
) -> Result<Option<Finding>, ReplayError> {
    let other = |why: String| ReplayError::OtherRun { choice: choice.to_string(), why };
    let options = Search { model: choice.model, ..options.clone() };
    let mut court = Court::new(trace, &options, check);
    let mut crashes: Vec<Crash> = Vec::new();
    for (at, next) in choice.crashes.iter().enumerate() {
        let crash = match at {
            0 => next.crash_of(trace),
            _ => match court.recovery_after(&crashes) {
                Some(recovery) => next.crash_of(&recovery),
                None => Err(format!("{} forbids it", choice.model)),
            },
        };
        crashes.push(crash.map_err(other)?);
    }
    match court.verdict(&crashes) {
        Verdict::Forbidden => Err(other(format!("{} forbids it", choice.model))),
        Verdict::Fine => Ok(None),
        Verdict::Cut => Err(other("recovery was stopped before it had ended".into())),
        Verdict::Fails(message) => Ok(Some(describe(&mut court, &crashes, message))),
    }
}
