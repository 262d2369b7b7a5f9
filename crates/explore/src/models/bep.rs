//! Buffered epoch persistency as LB and LB++ keep it: "Efficient Persist Barriers for Multicores"
//! (Joshi, Nagarajan, Cintra, Viglas, MICRO'15), sections 2 and 3.
//!
//! - A persist barrier (order) ends the thread's epoch and does not wait; the epochs of a thread
//!   persist in program order. A drain waits until all of the thread's epochs are durable.
//! - A load or store of a line that another thread stored to last is a conflict: what the accessor
//!   does from there on persists after what that thread had done up to that store, its epoch and
//!   those before it. (What the accessor's own epoch stored before the conflict is not ordered:
//!   hardware may have written it already.)
//! - An epoch that is open when a conflict meets it is split (section 3.3). A request may meet it
//!   long before it is answered, so the split may come anywhere after the store: what the epoch
//!   stores after it is not ordered before the accessor.
//!
//! Conflicts are seen by line, as caches see them. A locked operation is a load and a store; it is
//! no barrier. DRAM carries no order. Visibility is sequentially consistent.

use super::lanes::Lanes;
use super::order::{NodeId, PersistOrder};
use super::threads::PerThread;
use super::{Act, Persistency, Step, Target};
use crate::words::LineIndex;
use rustc_hash::FxHashMap;

#[derive(Clone, Default)]
struct Thread {
    /// What every later store comes after: the epochs before this one, and conflicts.
    base: Option<NodeId>,
    /// All that the thread has done so far in its strand; without strands, since its start.
    done: Option<NodeId>,
    /// All that it did in the strands before.
    left: Option<NodeId>,
    /// All that it had done when it joined its strands last.
    joined: Option<NodeId>,
    /// The node of its last stores, and their line.
    last: Option<(NodeId, LineIndex)>,
}

#[derive(Clone, Default)]
pub(super) struct Bep {
    threads: PerThread<Thread>,
    /// The thread that stored to each line last, and all that it had done by then.
    writers: FxHashMap<LineIndex, (u16, NodeId)>,
    lanes: Lanes,
}

impl Bep {
    fn barrier(&mut self, thread: u16) {
        let own = self.threads.of(thread);
        own.base = own.done;
        own.last = None;
    }

    fn drain(&mut self, thread: u16, order: &mut PersistOrder) {
        self.barrier(thread);
        let own = self.threads.of(thread);
        for all in [own.done, own.left].into_iter().flatten() {
            order.persist(all);
        }
    }

    /// The thread goes on as another one would that knows what was joined, until it drains.
    pub(super) fn begin_strand(&mut self, thread: u16, order: &mut PersistOrder) {
        let own = self.threads.of(thread);
        own.left = own.done.map(|done| join(order, own.left, done)).or(own.left);
        (own.done, own.base, own.last) = (own.joined, own.joined, None);
    }

    /// A barrier for all strands of the thread, where it has several.
    fn join_strands(&mut self, thread: u16, order: &mut PersistOrder) {
        let own = self.threads.of(thread);
        if let Some(left) = own.left.take() {
            own.done = Some(join(order, own.done, left));
        }
        own.joined = own.done;
        self.barrier(thread);
    }

    fn conflict(&mut self, thread: u16, line: LineIndex, order: &mut PersistOrder) {
        let Some(&(writer, source)) = self.writers.get(&line) else { return };
        let base = self.threads.of(thread).base;
        let is_known = base == Some(source)
            || base.is_some_and(|base| order.nodes_before(base).contains(&source));
        if writer == thread || is_known || order.is_durable(source) {
            return;
        }
        self.threads.of(writer).last = None;
        let own = self.threads.of(thread);
        let base = join(order, own.base, source);
        own.done = Some(own.done.map_or(base, |done| join(order, Some(done), base)));
        own.base = Some(base);
        own.last = None;
    }

    fn store(&mut self, thread: u16, target: Target, order: &mut PersistOrder) {
        let line = target.line;
        self.conflict(thread, line, order);
        let own = self.threads.of(thread);
        let node = match own.last {
            Some((node, last)) if last == line && !Lanes::have(target) => node,
            _ => {
                let node = match Lanes::have(target) {
                    true => self.lanes.node(target, own.base.as_slice(), order),
                    false => order.node(own.base.as_slice()),
                };
                own.done = Some(join(order, own.done, node));
                own.last = Some((node, line));
                node
            }
        };
        order.store(node, target.log);
        let done = own.done.expect("it has stored");
        self.writers.insert(line, (thread, done));
    }
}

/// A node without stores that comes after both.
fn join(order: &mut PersistOrder, first: Option<NodeId>, second: NodeId) -> NodeId {
    let join = order.node(first.as_slice());
    order.precede(second, join);
    join
}

impl Persistency for Bep {
    fn follow(&mut self, step: Step, order: &mut PersistOrder) {
        let Step { thread, act } = step;
        match act {
            Act::Order | Act::FullFence => self.barrier(thread),
            Act::Join => self.join_strands(thread, order),
            Act::Drain => self.drain(thread, order),
            Act::Load { line, .. } => {
                self.lanes.see(line, order);
                self.conflict(thread, line, order);
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
