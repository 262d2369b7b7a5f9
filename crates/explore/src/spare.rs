//! Flushes and fences that no crash of a run needs, found by leaving them out.
//!
//! The calls of one place are taken out of the run, and every image that a crash of the rest may
//! leave is tried. If recovery handles all of them, this run does not need these calls; a longer
//! one may. Rules over the trace ([`waste`](crate::waste())) name only what does nothing: that a
//! fence orders what need not be ordered, only recovery can tell.

use crate::check::Check;
use crate::options::Search;
use crate::recoveries::Recoveries;
use crate::search::is_clean_on;
use crate::trace::{Kind, Trace};
use crate::waste::{Waste, WasteKind};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The calls of one place, and the run without them.
struct Without {
    trace: Arc<Trace>,
    kind: WasteKind,
    place: String,
    times: u64,
}

/// The kind of waste that a call is if nothing needs it.
fn kind_of(kind: Kind) -> Option<WasteKind> {
    match kind {
        Kind::Flush { .. } => Some(WasteKind::SpareFlush),
        Kind::Order | Kind::Drain | Kind::Join => Some(WasteKind::SpareFence),
        _ => None,
    }
}

/// The run without its flushes, or fences, of each place at which it makes some.
fn without_each(trace: &Trace) -> Vec<Without> {
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for event in &trace.events {
        let Some(kind) = kind_of(event.kind) else { continue };
        if !seen.insert((kind, event.at)) {
            continue;
        }
        let mut rest = trace.clone();
        let mut times = 0;
        for other in rest.events.iter_mut().filter(|other| other.at == event.at) {
            if kind_of(other.kind) == Some(kind) {
                times += 1;
                // On x86 neither does anything.
                let is_flush = kind == WasteKind::SpareFlush;
                other.kind = if is_flush { Kind::FlushElsewhere } else { Kind::Strand };
            }
        }
        let place = event.at.to_string();
        all.push(Without { trace: Arc::new(rest), kind, place, times });
    }
    all
}

/// The places whose flushes, or whose fences, no crash of the run needs on x86; until `stops`.
pub(crate) fn spare<C>(
    trace: &Trace,
    how: &Search,
    check: &C,
    workers: usize,
    stops: &(dyn Fn() -> bool + Sync),
) -> Vec<Waste>
where
    C: Check + Sync,
    C::Found: Send,
{
    let places = without_each(trace);
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let watch = |_| if stops() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let work = || {
        let mut known = Recoveries::default();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(Without { trace, .. }) = places.get(at).filter(|_| !stops()) else { return };
            // Most are needed, which recovery shows before it is cut short itself.
            let mut depths = BTreeSet::from([0, how.depth]).into_iter();
            let clean = depths.all(|depth| {
                let how = Search { depth, ..how.clone() };
                is_clean_on(trace.clone(), &how, check, &mut known, &mut { watch })
            });
            if clean {
                found.lock().unwrap_or_else(PoisonError::into_inner).push(at);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..workers.min(places.len()) {
            // Without more threads this one does all of it.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_unstable();
    let waste = |at: &usize| {
        let Without { kind, place, times, .. } = &places[*at];
        Waste { kind: *kind, place: place.clone(), times: *times, calls: *times }
    };
    found.iter().map(waste).collect()
}
