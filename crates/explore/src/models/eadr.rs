//! eADR: a battery saves the caches (Intel's enhanced ADR; "global persistent flush" of CXL).
//!
//! What is in coherent memory survives, so flushes and fences change nothing about durability, and
//! a crash leaves memory as it was: strict persistency over x86-TSO. What a thread's store buffer
//! or a write-combining buffer still holds is lost; a fence empties them. In a recorded run nothing
//! stays in these buffers, so its images are those of `strict`.

use super::order::{NodeId, PersistOrder};
use super::views::{Place, Views};
use super::{Act, Persistency, Step};

#[derive(Clone, Default)]
pub(super) struct Eadr {
    views: Views,
    all: Option<NodeId>,
}

impl Eadr {
    fn store(&mut self, thread: u16, line: u32, word: u32, order: &mut PersistOrder) {
        let all = *self.all.get_or_insert_with(|| order.node(&[]));
        order.store(all, line);
        order.persist_line(line, order.stored(line));
        self.views.store(thread, line, word);
    }
}

impl Persistency for Eadr {
    fn follow(&mut self, step: Step, order: &mut PersistOrder) {
        let Step { thread, act } = step;
        match act {
            Act::Store { line, word } | Act::StoreNt { line, word } => {
                self.store(thread, line, word, order);
            }
            Act::Load { line, word, from } => self.views.load(thread, line, word, from),
            Act::Learn { upto } => self.views.learn(thread, upto),
            Act::WriteBack { .. }
            | Act::Flush { .. }
            | Act::Order
            | Act::Drain
            | Act::Strand
            | Act::Join => {}
            Act::FullFence => self.views.full_fence(thread, false),
            Act::Locked { store } => {
                if let Some((line, word)) = store {
                    self.store(thread, line, word, order);
                }
                self.views.full_fence(thread, true);
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
