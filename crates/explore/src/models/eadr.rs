//! eADR: a battery saves the caches (Intel's enhanced ADR; "global persistent flush" of CXL).
//!
//! What is in coherent memory survives, so flushes and fences change nothing about durability, and
//! a crash leaves memory as it was: strict persistency over x86-TSO. What a thread's store buffer
//! or a write-combining buffer still holds is lost; a fence empties them. In a recorded run a
//! store enters memory at its call, and of non-temporal stores any may still be in the buffer at a
//! crash that comes before the next fence, unless another thread has seen it. Of a write that is
//! wider than a word, and is being made, any words may be in memory.

use super::lanes::Flight;
use super::order::{NodeId, PersistOrder};
use super::views::{Place, Views};
use super::{Act, Persistency, Step, Target};
use crate::wide::Part;

#[derive(Clone, Default)]
pub(super) struct Eadr {
    views: Views,
    all: Option<NodeId>,
    flight: Flight,
    /// Non-temporal stores that may still be in a buffer, each with the stores of its word up to
    /// it, and its node.
    combining: Vec<(u16, Target, u32, NodeId)>,
}

impl Eadr {
    fn store(&mut self, thread: u16, target: Target, order: &mut PersistOrder) {
        let all = *self.all.get_or_insert_with(|| order.node(&[]));
        order.store(all, target.log);
        self.flight.store(target, order);
        self.views.store(thread, target);
    }

    fn store_nt(&mut self, thread: u16, target: Target, order: &mut PersistOrder) {
        if !target.is_lane {
            return self.store(thread, target, order);
        }
        let node = match self.combining.last() {
            Some(&(_, last, _, node)) if last.part.is_one_with(target.part) => node,
            _ => order.node(&[]),
        };
        if let Part::Whole(_) = target.part {
            order.precede(node, node);
        }
        order.store(node, target.log);
        self.combining.push((thread, target, order.stored(target.log), node));
        self.views.store(thread, target);
    }

    /// These non-temporal stores leave for memory.
    fn leave(&mut self, order: &mut PersistOrder, which: impl Fn(u16, Target) -> bool) {
        self.combining.retain(|&(thread, target, stores, _)| {
            let leaves = which(thread, target);
            if leaves {
                order.persist_line(target.log, stores);
            }
            !leaves
        });
    }

    /// The thread stores to the word: its own stores to the line leave first, and those of others
    /// to the word have left.
    fn overwrite(&mut self, thread: u16, stored: Target, order: &mut PersistOrder) {
        self.leave(order, |writer, target| match writer == thread {
            true => target.line == stored.line,
            false => target.word == stored.word,
        });
    }

    fn fence(&mut self, thread: u16, order: &mut PersistOrder) {
        self.leave(order, |writer, _| writer == thread);
    }
}

impl Persistency for Eadr {
    fn follow(&mut self, step: Step, order: &mut PersistOrder) {
        let Step { thread, act } = step;
        self.flight.follow(act.stores(), order);
        match act {
            Act::Store(target) | Act::Locked { store: Some(target) } => {
                self.overwrite(thread, target, order);
            }
            // What another thread reads has left; its own the thread reads from the buffer.
            Act::Load { word, from: None, .. } => {
                self.leave(order, |writer, target| writer != thread && target.word == word);
            }
            _ => {}
        }
        match act {
            Act::Store(target) => self.store(thread, target, order),
            Act::StoreNt(target) => self.store_nt(thread, target, order),
            Act::Load { line, word, from } => self.views.load(thread, line, word, from),
            Act::Learn { upto } => self.views.learn(thread, upto),
            Act::Order | Act::Drain | Act::Join => self.fence(thread, order),
            Act::WriteBack { .. } | Act::Flush { .. } | Act::Strand => {}
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
