//! Px86: x86 persistency (Raad, Wickerson, Neiger, Vafeiadis, POPL'20) in the form of its views
//! (Cho, Lee, Raad, Kang, PLDI'21), with the non-temporal stores of Raad, Maranget, Vafeiadis
//! (POPL'22).
//!
//! - The stores of a line persist in order; lines are independent of each other. An aligned store
//!   of up to 8 bytes never tears; wider writes are several stores.
//! - `clwb` and `clflushopt` leave a debt of the thread: what it has seen of the line. The next
//!   `sfence`, `mfence` or successful locked operation of the same thread pays its debts: they are
//!   durable from then on. A fence alone makes nothing durable, nor does a write-back.
//! - `clflush` is ordered with the thread's stores: what the thread has seen is durable at once.
//! - A non-temporal store is a store with a debt. Until a fence it may stay in a write-combining
//!   buffer, where other threads do not see it (the caller of the
//!   model decides when it leaves: recorded runs take it out at once).
//! - A locked operation that fails is a plain load and pays no debts, as in PLDI'21. (Taken as a
//!   fence, which the vendor's manual suggests, fewer images would be allowed.)
//!
//! So a line may keep any number of its stores between what is durable and what was stored.

use super::order::{NodeId, PersistOrder};
use super::views::{Place, Views};
use super::{Act, Persistency, Step};

#[derive(Clone, Default)]
pub(super) struct Px86 {
    views: Views,
    /// All stores are in one node: they have no order but that of their lines.
    all: Option<NodeId>,
}

impl Px86 {
    fn store(&mut self, thread: u16, line: u32, word: u32, order: &mut PersistOrder) {
        let all = *self.all.get_or_insert_with(|| order.node(&[]));
        order.store(all, line);
        self.views.store(thread, line, word);
    }

    fn fence(&mut self, thread: u16, order: &mut PersistOrder) {
        for (line, stores) in self.views.fence(thread) {
            order.persist_line(line, stores);
        }
    }
}

impl Persistency for Px86 {
    fn follow(&mut self, step: Step, order: &mut PersistOrder) {
        let Step { thread, act } = step;
        match act {
            Act::Store { line, word } => self.store(thread, line, word, order),
            Act::StoreNt { line, word } => {
                self.store(thread, line, word, order);
                self.views.write_back(thread, line);
            }
            Act::Load { line, word, from } => self.views.load(thread, line, word, from),
            Act::Learn { upto } => self.views.learn(thread, upto),
            Act::WriteBack { line } => self.views.write_back(thread, line),
            Act::Flush { line } => {
                let stores = self.views.flush(thread, line);
                order.persist_line(line, stores);
            }
            Act::Order | Act::Join | Act::Drain => self.fence(thread, order),
            Act::Strand => {}
            Act::FullFence => {
                self.views.full_fence(thread, false);
                self.fence(thread, order);
            }
            Act::Locked { store } => {
                if let Some((line, word)) = store {
                    self.store(thread, line, word, order);
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
