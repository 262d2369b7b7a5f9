//! Buffered strict persistency in bulk mode: MICRO'15, section 5.2.
//!
//! - Hardware cuts each thread's stores into epochs: after [`BULK`] stores, at a barrier, and where
//!   another thread conflicts. An undo log makes an epoch atomic: after a crash it is there as a
//!   whole or not at all, and an epoch that was open is rolled back.
//! - The epochs of a thread persist in program order. A load or store of a line whose last writer
//!   is another thread's epoch orders the accessor's whole epoch behind that one, which is closed
//!   there if it was open.
//! - A drain closes the thread's epoch and waits until all of its epochs are durable.
//!
//! Programs need no persistency calls: what they see is strict persistency, late. Visibility is
//! sequentially consistent; a locked operation is a load and a store.

use super::order::{NodeId, PersistOrder};
use super::threads::PerThread;
use super::{Act, Persistency, Step};
use crate::trace::LineIndex;
use rustc_hash::FxHashMap;

/// Stores after which hardware closes an epoch (the paper tries 300, 1000 and 10000).
const BULK: u32 = 1000;

#[derive(Clone, Default)]
struct Thread {
    open: Option<NodeId>,
    stores: u32,
}

#[derive(Clone, Default)]
pub(super) struct Bsp {
    threads: PerThread<Thread>,
    writers: FxHashMap<LineIndex, (u16, NodeId)>,
}

impl Bsp {
    fn open(&mut self, thread: u16, order: &mut PersistOrder) -> NodeId {
        *self.threads.of(thread).open.get_or_insert_with(|| order.node(&[], true))
    }

    /// Closes the thread's epoch and opens the next; gives the closed one.
    fn close(&mut self, thread: u16, order: &mut PersistOrder) -> NodeId {
        let closed = self.open(thread, order);
        order.close(closed);
        let next = order.node(&[closed], true);
        *self.threads.of(thread) = Thread { open: Some(next), stores: 0 };
        closed
    }

    fn conflict(&mut self, thread: u16, line: LineIndex, order: &mut PersistOrder) {
        let Some(&(writer, epoch)) = self.writers.get(&line) else { return };
        if writer == thread || order.is_durable(epoch) {
            return;
        }
        if self.open(writer, order) == epoch {
            self.close(writer, order);
        }
        let own = self.open(thread, order);
        order.precede(epoch, own);
    }

    fn store(&mut self, thread: u16, line: LineIndex, order: &mut PersistOrder) {
        self.conflict(thread, line, order);
        let own = self.open(thread, order);
        order.store(own, line);
        self.writers.insert(line, (thread, own));
        self.threads.of(thread).stores += 1;
        if self.threads.of(thread).stores == BULK {
            self.close(thread, order);
        }
    }
}

impl Persistency for Bsp {
    fn follow(&mut self, step: Step, order: &mut PersistOrder) {
        let Step { thread, act } = step;
        match act {
            Act::Order | Act::FullFence => drop(self.close(thread, order)),
            Act::Drain => {
                let closed = self.close(thread, order);
                order.persist(closed);
            }
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
