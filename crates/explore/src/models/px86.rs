//! Px86: x86 persistency (Raad, Wickerson, Neiger, Vafeiadis, POPL'20) in the form of its views
//! (Cho, Lee, Raad, Kang, PLDI'21), with the non-temporal stores of Raad, Maranget, Vafeiadis
//! (POPL'22).
//!
//! - The stores of a line persist in order; lines are independent of each other. An aligned store
//!   of up to 8 bytes never tears; the words of a [wider](crate::wide) one have no order.
//! - `clwb` and `clflushopt` leave a debt of the thread: what it has seen of the line. The next
//!   `sfence`, `mfence` or successful locked operation of the same thread pays its debts: they are
//!   durable from then on. A fence alone makes nothing durable, nor does a write-back.
//! - `clflush` is ordered with the thread's stores: what the thread has seen is durable at once.
//! - A non-temporal store is a store with a debt. Until a fence it may stay in a write-combining
//!   buffer, where other threads do not see it. When it leaves for other threads, the caller of the
//!   model decides. For a crash it may have left at any moment since it was made: in a recorded run
//!   the words of its line persist on their own, and only the other stores of the line are ordered
//!   among each other, and before it. A load by the same thread orders nothing.
//! - A locked operation that fails waits until the thread's earlier stores are visible, as every
//!   locked one does, but pays no debts, as in PLDI'21. (Taken as a fence for write-backs too,
//!   which the vendor's manual suggests, fewer images would be allowed.)
//!
//! So a line may keep any number of its stores between what is durable and what was stored.

use super::lanes::Lanes;
use super::order::{NodeId, PersistOrder};
use super::views::{Place, Views};
use super::{Act, Persistency, Step, Target};
use crate::wide::Part;
use crate::words::LineIndex;

#[derive(Clone, Default)]
pub(super) struct Px86 {
    views: Views,
    /// All stores to lines that persist whole: they have no order but that of their lines.
    all: Option<NodeId>,
    /// The order in the lines whose words persist on their own.
    lanes: Lanes,
    /// Non-temporal stores to these lines that may still be in a buffer.
    combining: Vec<Combined>,
}

#[derive(Clone, Copy)]
struct Combined {
    thread: u16,
    line: LineIndex,
    word: u32,
    part: Part,
    node: NodeId,
}

impl Px86 {
    fn store(&mut self, thread: u16, target: Target, order: &mut PersistOrder) {
        let node = match Lanes::have(target) {
            true => {
                self.leave(target.line, order, |store| store.thread == thread);
                self.lanes.node(target, &[], order)
            }
            false => *self.all.get_or_insert_with(|| order.node(&[])),
        };
        order.store(node, target.log);
        self.views.store(thread, target);
    }

    fn store_nt(&mut self, thread: u16, target: Target, order: &mut PersistOrder) {
        if target.is_lane {
            let node = match self.combining.last() {
                Some(last) if last.part.is_one_with(target.part) => last.node,
                _ => self.lanes.apart(target, &[], order),
            };
            order.store(node, target.log);
            self.views.store(thread, target);
            let Target { line, word, part, .. } = target;
            self.combining.push(Combined { thread, line, word, part, node });
        } else {
            self.store(thread, target, order);
        }
        self.views.write_back(thread, target.line);
    }

    /// These non-temporal stores to the line have left: later stores to it come after them.
    fn leave(
        &mut self,
        line: LineIndex,
        order: &mut PersistOrder,
        which: impl Fn(&Combined) -> bool,
    ) {
        let leaves = |store: &Combined| store.line == line && which(store);
        if !self.combining.iter().any(leaves) {
            return;
        }
        let left = self.combining.iter().filter(|store| leaves(store)).map(|store| store.node);
        self.lanes.put_before(line, left, order);
        self.combining.retain(|store| !leaves(store));
    }

    fn load(&mut self, thread: u16, line: LineIndex, word: u32, order: &mut PersistOrder) {
        self.lanes.see(line, order);
        self.leave(line, order, |store| store.thread != thread && store.word == word);
    }

    fn fence(&mut self, thread: u16, order: &mut PersistOrder) {
        self.combining.retain(|store| store.thread != thread);
        for (log, stores) in self.views.fence(thread) {
            order.persist_line(log, stores);
        }
    }
}

impl Persistency for Px86 {
    fn follow(&mut self, step: Step, order: &mut PersistOrder) {
        let Step { thread, act } = step;
        match act {
            Act::Store(target) => self.store(thread, target, order),
            Act::StoreNt(target) => self.store_nt(thread, target, order),
            Act::Load { line, word, from } => {
                if from.is_none() {
                    self.load(thread, line, word, order);
                }
                self.views.load(thread, line, word, from);
            }
            Act::Learn { upto } => self.views.learn(thread, upto),
            Act::WriteBack { line } => self.views.write_back(thread, line),
            Act::Flush { line } => {
                for (log, stores) in self.views.flush(thread, line) {
                    order.persist_line(log, stores);
                }
            }
            Act::Order | Act::Join | Act::Drain => self.fence(thread, order),
            Act::Strand => {}
            Act::Failed => self.views.full_fence(thread, true),
            Act::FullFence => {
                self.views.full_fence(thread, false);
                self.fence(thread, order);
            }
            Act::Locked { store } => {
                if let Some(target) = store {
                    self.store(thread, target, order);
                }
                self.views.full_fence(thread, true);
                self.fence(thread, order);
            }
        }
    }

    fn oldest(&self, thread: u16, word: u32) -> Place {
        self.views.oldest(thread, word)
    }

    fn copy(&self) -> Box<dyn Persistency> {
        Box::new(self.clone())
    }
}
