//! Buffered epoch persistency as LB and LB++ keep it: "Efficient Persist Barriers for Multicores"
//! (Joshi, Nagarajan, Cintra, Viglas, MICRO'15), sections 2 and 3.
//!
//! - A persist barrier (order) ends the thread's epoch and does not wait; the epochs of a thread
//!   persist in program order. A drain waits until all of the thread's epochs are durable.
//! - A load or store of a line whose last writer is an epoch of another thread is a conflict: what
//!   the accessor does from there on persists after that whole epoch. (What its own epoch stored
//!   before the conflict is not ordered: hardware may have written it already.)
//! - If that epoch is still open it is split there: what it did so far becomes an epoch of its own
//!   and the rest follows in a new one, so that the order has no circle (section 3.3).
//!
//! Conflicts are seen by line, as caches see them. A locked operation is a load and a store; it is
//! no barrier. DRAM carries no order. Visibility is sequentially consistent.

use super::order::{NodeId, PersistOrder};
use super::{Act, Persistency, Step};
use crate::trace::LineIndex;
use rustc_hash::FxHashMap;

/// An epoch: its stores up to its first conflict, up to the next, and so on.
type Parts = Vec<NodeId>;

#[derive(Clone, Default)]
struct Thread {
    /// The epochs so far; the last one is open.
    epochs: Vec<Parts>,
}

#[derive(Clone, Default)]
pub(super) struct Bep {
    threads: Vec<Thread>,
    /// The thread and epoch that wrote each line last.
    writers: FxHashMap<LineIndex, (u16, usize)>,
}

impl Bep {
    /// The thread's open epoch, which has at least one part.
    fn open(&mut self, thread: u16, order: &mut PersistOrder) -> &mut Parts {
        let thread = usize::from(thread);
        if self.threads.len() <= thread {
            self.threads.resize_with(thread + 1, Thread::default);
        }
        let epochs = &mut self.threads[thread].epochs;
        if epochs.is_empty() {
            epochs.push(vec![order.node(&[], false)]);
        }
        epochs.last_mut().expect("one was put there")
    }

    fn barrier(&mut self, thread: u16, order: &mut PersistOrder) {
        let open = self.open(thread, order);
        if open.len() > 1 || !order.is_empty(open[0]) || !order.nodes_before(open[0]).is_empty() {
            let next = order.node(open, false);
            self.threads[usize::from(thread)].epochs.push(vec![next]);
        }
    }

    fn drain(&mut self, thread: u16, order: &mut PersistOrder) {
        self.barrier(thread, order);
        let open = self.open(thread, order)[0];
        order.nodes_before(open).to_vec().into_iter().for_each(|node| order.persist(node));
    }

    /// The thread uses the line: what it does from now on follows the epoch of the last writer.
    fn conflict(&mut self, thread: u16, line: LineIndex, order: &mut PersistOrder) {
        let Some(&(writer, epoch)) = self.writers.get(&line) else { return };
        if writer == thread {
            return;
        }
        let source = self.threads[usize::from(writer)].epochs[epoch].clone();
        if source.iter().all(|&part| order.is_durable(part)) {
            return;
        }
        if epoch + 1 == self.threads[usize::from(writer)].epochs.len() {
            self.barrier(writer, order);
        }
        let open = self.open(thread, order);
        let last = *open.last().expect("an epoch has a part");
        if source.iter().all(|part| order.nodes_before(last).contains(part)) {
            return;
        }
        let part = if order.is_empty(last) {
            last
        } else {
            let before = order.nodes_before(last).to_vec();
            open.push(order.node(&before, false));
            *open.last().expect("just put there")
        };
        source.into_iter().for_each(|source| order.precede(source, part));
    }

    fn store(&mut self, thread: u16, line: LineIndex, order: &mut PersistOrder) {
        self.conflict(thread, line, order);
        let part = *self.open(thread, order).last().expect("an epoch has a part");
        order.store(part, line);
        let epoch = self.threads[usize::from(thread)].epochs.len() - 1;
        self.writers.insert(line, (thread, epoch));
    }
}

impl Persistency for Bep {
    fn follow(&mut self, step: Step, order: &mut PersistOrder) {
        let Step { thread, act } = step;
        match act {
            Act::Order | Act::FullFence => self.barrier(thread, order),
            Act::Drain => self.drain(thread, order),
            Act::Load { line, .. } => self.conflict(thread, line, order),
            _ => {}
        }
        if let Some((line, _)) = act.stores() {
            self.store(thread, line, order);
        }
    }

    fn copy(&self) -> Box<dyn Persistency> {
        Box::new(self.clone())
    }
}
