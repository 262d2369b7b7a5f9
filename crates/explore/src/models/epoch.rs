//! Epoch persistency (Pelley, Chen, Wenisch, "Memory Persistency", ISCA'14), unbuffered.
//!
//! - A barrier (order, drain) ends the thread's epoch, and returns when the thread's stores before
//!   it are durable. Stores of one epoch persist in any order.
//! - Strong persist atomicity: two accesses of one word, of which at least one is a store, are
//!   ordered as in memory, in any threads; a load orders what comes before it and after it in
//!   this way too. The order is transitive, and it is one of accesses, not of whole epochs: of two
//!   stores before a conflict only the conflicting one is ordered.
//!
//! Visibility is sequentially consistent; a locked operation is a load and a store, no barrier.
//! A crash leaves the stores that the barriers waited for, and any of the others that is closed
//! under this order.

use super::lanes::Lanes;
use super::order::{NodeId, PersistOrder};
use super::threads::PerThread;
use super::{Act, Persistency, Step, Target};
use rustc_hash::FxHashMap;

#[derive(Clone, Default)]
struct Word {
    store: Option<NodeId>,
    loads: Vec<NodeId>,
}

#[derive(Clone, Default)]
struct Thread {
    /// Comes after everything before the thread's last barrier.
    barrier: Option<NodeId>,
    stores: Vec<NodeId>,
    loads: Vec<NodeId>,
}

#[derive(Clone, Default)]
pub(super) struct Epoch {
    threads: PerThread<Thread>,
    words: FxHashMap<u32, Word>,
    lanes: Lanes,
}

impl Epoch {
    fn load(&mut self, thread: u16, word: u32, order: &mut PersistOrder) {
        let barrier = self.threads.of(thread).barrier;
        let last = self.words.entry(word).or_default();
        let before: Vec<NodeId> = barrier.into_iter().chain(last.store).collect();
        if before.is_empty() {
            return;
        }
        let node = order.node(&before);
        last.loads.push(node);
        self.threads.of(thread).loads.push(node);
    }

    fn store(&mut self, thread: u16, target: Target, order: &mut PersistOrder) {
        let own = self.threads.of(thread);
        let node = match Lanes::have(target) {
            true => self.lanes.node(target, own.barrier.as_slice(), order),
            false => order.node(own.barrier.as_slice()),
        };
        own.stores.push(node);
        let last = self.words.entry(target.word).or_default();
        for before in last.loads.drain(..).chain(last.store.replace(node)) {
            order.precede(before, node);
        }
        order.store(node, target.log);
    }

    fn barrier(&mut self, thread: u16, order: &mut PersistOrder) {
        let own = self.threads.of(thread);
        own.stores.drain(..).for_each(|node| order.persist(node));
        let before: Vec<NodeId> = own.loads.drain(..).chain(own.barrier).collect();
        let barrier = order.node(&before);
        own.barrier = (!order.nodes_before(barrier).is_empty()).then_some(barrier);
    }
}

impl Persistency for Epoch {
    fn follow(&mut self, step: Step, order: &mut PersistOrder) {
        let Step { thread, act } = step;
        match act {
            Act::Order | Act::Join | Act::Drain | Act::FullFence => self.barrier(thread, order),
            Act::Load { line, word, .. } => {
                self.lanes.see(line, order);
                self.load(thread, word, order);
            }
            _ => {}
        }
        if let Some(target) = act.stores() {
            self.store(thread, target, order);
        }
    }

    fn copy(&self) -> Box<dyn Persistency> {
        Box::new(self.clone())
    }
}
