//! A crash of a run, and the stores that each line had by then.

use crate::models::order::Cut;
use crate::trace::Trace;

/// A turn of a recovery by several threads that departs from the default: the call before which it
/// begins, and the thread.
pub(crate) type Turn = (u32, u16);

/// A crash: how many events took effect before it, what each line kept, and the turns of the
/// recovery after it, if that runs several threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Crash {
    pub(crate) event: usize,
    pub(crate) cut: Cut,
    pub(crate) turns: Vec<Turn>,
}

/// How many stores each line had before the event.
pub(crate) fn stored(trace: &Trace, event: usize) -> Cut {
    let mut stored = Cut(vec![0; trace.lines.len()]);
    for store in trace.events[..event].iter().filter_map(|event| event.kind.store()) {
        stored.0[trace.stores[store as usize].line as usize] += 1;
    }
    stored
}
