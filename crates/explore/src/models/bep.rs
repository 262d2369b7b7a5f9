//! Buffered epoch persistency (Pelley, Chen, Wenisch, ISCA'14) as LB and LB++ keep it: "Efficient
//! Persist Barriers for Multicores" (Joshi et al., MICRO'15), sections 2 and 3.
//!
//! - A persist barrier (order, drain) ends the thread's epoch; the epochs of a thread persist in
//!   program order. Nothing waits, so nothing is ever promised to be durable.
//! - A load or store of a line whose last writer is an epoch of another thread is a conflict: the
//!   accessor's epoch persists after that epoch.
//! - If that epoch is still open it is split there: what it did so far becomes an epoch of its own
//!   and the rest follows in a new one, so that the order has no circle (MICRO'15, section 3.3).
//! - A crash leaves a down-closed set of whole epochs, and of the first epochs not in it any prefix
//!   of each line's stores.
//!
//! Conflicts order whole epochs: what the accessor's epoch stored before the conflict is taken to
//! persist after the source epoch as well. A locked operation is a load and a store; it is no
//! barrier. DRAM lines carry no order.

use super::epochs::{EpochId, Graph};
use super::{Cut, Persistency, Visit};
use crate::trace::{Event, Kind, LineIndex, Trace};

#[derive(Default)]
pub(super) struct Bep {
    graph: Graph,
    /// The open epoch of each thread.
    open: Vec<Option<EpochId>>,
    /// Stores of each line, and the epoch and thread of the last.
    lines: Vec<(u32, Option<(EpochId, u16)>)>,
}

impl Bep {
    fn current(&mut self, thread: u16) -> EpochId {
        let thread = usize::from(thread);
        if self.open.len() <= thread {
            self.open.resize(thread + 1, None);
        }
        *self.open[thread].get_or_insert_with(|| self.graph.add(None))
    }

    fn barrier(&mut self, thread: u16) {
        let current = self.current(thread);
        if !self.graph.is_empty(current) {
            self.open[usize::from(thread)] = Some(self.graph.add(Some(current)));
        }
    }

    /// The thread uses the line: its epoch follows that of the line's last writer.
    fn conflict(&mut self, thread: u16, line: LineIndex) {
        let Some(&(_, Some((source, writer)))) = self.lines.get(line as usize) else { return };
        if writer == thread {
            return;
        }
        if self.open[usize::from(writer)] == Some(source) {
            self.barrier(writer);
        }
        let current = self.current(thread);
        self.graph.order(source, current);
    }

    fn store(&mut self, thread: u16, line: LineIndex) {
        self.conflict(thread, line);
        let current = self.current(thread);
        if self.lines.len() <= line as usize {
            self.lines.resize(line as usize + 1, (0, None));
        }
        let (stores, last) = &mut self.lines[line as usize];
        self.graph.store(current, line, *stores);
        *stores += 1;
        *last = Some((current, thread));
    }
}

impl Persistency for Bep {
    fn follow(&mut self, trace: &Trace, event: &Event) {
        match event.kind {
            Kind::Order | Kind::Drain => self.barrier(event.thread),
            Kind::Read { line } => self.conflict(event.thread, line),
            _ => {}
        }
        if let Some(store) = event.kind.store() {
            self.store(event.thread, trace.stores[store as usize].line);
        }
    }

    fn families(&self, limit: usize, visit: &mut Visit<'_>) -> bool {
        self.graph.families(limit, visit)
    }

    fn forget_given(&mut self) {
        self.graph.forget_touched();
    }

    fn allows(&self, cut: &Cut) -> bool {
        self.graph.allows(cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Words;
    use seawall_memory::{Addr, Width};
    use std::panic::Location;

    enum Act {
        Store(u16, u64),
        Read(u16, u64),
        Barrier(u16),
    }
    use Act::{Barrier, Read, Store};

    /// The model after these acts; line n has the index of its first use.
    fn after(acts: &[Act]) -> Bep {
        let mut trace = Trace::new(2, vec![0; 1024], 0);
        let memory = Words::zeroed(1024);
        let mut model = Bep::default();
        for act in acts {
            let (thread, kind) = match *act {
                Barrier(thread) => (thread, Kind::Order),
                Read(thread, line) => {
                    (thread, Kind::Read { line: trace.line(Addr::pm(64 * line).line()) })
                }
                Store(thread, line) => {
                    let at = Addr::pm(64 * line);
                    let change = memory.store(at, Width::B8, 1);
                    (thread, Kind::Store { store: trace.add_store(at, Width::B8, change) })
                }
            };
            let event = Event { thread, operation: 0, kind, at: Location::caller() };
            model.follow(&trace, &event);
            trace.events.push(event);
        }
        model
    }

    #[test]
    fn an_open_epoch_is_split_where_another_thread_depends_on_it() {
        let model = after(&[Store(0, 0), Read(1, 0), Store(1, 1), Store(0, 2)]);
        assert!(model.allows(&Cut(vec![1, 1, 0])), "what came after the conflict is not awaited");
        assert!(!model.allows(&Cut(vec![0, 1, 1])));
        assert!(!model.allows(&Cut(vec![0, 0, 1])), "the parts stay in order");
    }

    #[test]
    fn threads_that_depend_on_each_other_make_no_circle() {
        let acts = [Store(0, 0), Store(1, 1), Read(1, 0), Read(0, 1), Store(0, 2), Store(1, 3)];
        let model = after(&acts);
        assert!(model.allows(&Cut(vec![1, 1, 1, 1])));
        assert!(model.allows(&Cut(vec![1, 1, 0, 0])));
        assert!(!model.allows(&Cut(vec![1, 0, 1, 0])), "the reader follows what it read");
        assert!(!model.allows(&Cut(vec![0, 1, 0, 0])), "and so does what it stored before");
    }

    #[test]
    fn a_barrier_ends_an_epoch_only_of_its_own_thread() {
        let model = after(&[Store(0, 0), Barrier(1), Store(0, 1), Barrier(0), Store(0, 2)]);
        assert!(model.allows(&Cut(vec![0, 1, 0])));
        assert!(!model.allows(&Cut(vec![0, 1, 1])));
    }
}
