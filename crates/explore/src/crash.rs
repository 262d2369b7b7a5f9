//! A crash of a run, and the stores that each line had by then.

use crate::models::order::Cut;
use crate::trace::Trace;

/// A crash: how many events took effect before it, and what each line kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Crash {
    pub(crate) event: usize,
    pub(crate) cut: Cut,
}

/// How many stores each line had before the event.
pub(crate) fn stored(trace: &Trace, event: usize) -> Cut {
    let mut stored = Cut(vec![0; trace.lines.len()]);
    for store in trace.events[..event].iter().filter_map(|event| event.kind.store()) {
        stored.0[trace.stores[store as usize].line as usize] += 1;
    }
    stored
}
