//! Scopes (critical sections, in which a program can hold pointers), and grace periods: waiting for
//! all open ones to end.
//!
//! The brand `'p` keeps a pointer within the call of `typed::open`, `create`, `enter` or
//! `typed::Thread::enter` that returned it. So when all scopes that were open at some moment have
//! ended, pointers that were loaded before that moment are left in the pool only. A cycle waits for
//! that between its stages; a scope waits for nothing.
//!
//! A scope of a `typed::Thread`, and a transaction outside of one, makes a word of its thread odd.
//! Other scopes can be shared by threads and are counted in one of two counters. A grace period
//! swaps the two, so that it need not wait for scopes that begin meanwhile (as in sleepable
//! read-copy update).

use super::scope::View;
use crate::Session;
use crate::heap::Heap;
use crate::heap::layout::Layout;
use seawall_memory::{Addr, Memory, MemoryExt, ThreadSlots};

/// A scope that several threads can be in.
#[must_use = "it has to be ended"]
#[derive(Debug)]
pub(crate) struct Shared {
    counter: Option<Addr>,
    pub(crate) view: View,
}

impl Shared {
    pub(crate) fn begin<M: Memory>(memory: &M, heap: &Heap) -> Shared {
        if !heap.layout.numbers.moves {
            return Shared { counter: None, view: View::Plain };
        }
        let turn = memory.load::<u64>(heap.layout.turn());
        let counter = heap.layout.counter(turn);
        memory.fetch_add(counter, 1);
        Shared { counter: Some(counter), view: View::of(heap.phase(memory)) }
    }

    pub(crate) fn end<M: Memory>(&self, memory: &M) {
        let is_inherited = memory.slots().is_some_and(ThreadSlots::are_inherited);
        if let Some(counter) = self.counter.filter(|_| !is_inherited) {
            memory.fetch_add(counter, u64::MAX);
        }
    }
}

impl<M: Memory> Session<'_, M> {
    /// Begins a scope of this thread. A scope that a panic interrupted has ended.
    #[inline]
    pub(crate) fn begin_scope(&mut self) {
        if self.heap.layout.numbers.moves && !self.is_inherited() {
            let at = self.heap.layout.scope(self.thread);
            let number: u64 = self.memory.load(at);
            self.memory.swap(at, (number + 1) | 1);
            self.scope.view = View::of(self.heap.phase(self.memory));
            self.scope.checks = self.scope.view == View::New && self.heap.is_published(self.memory);
            self.scope.checked.set(None);
            self.scope.is_open = true;
        }
    }

    /// Ends the scope of this thread.
    #[inline]
    pub(crate) fn end_scope(&mut self) {
        if self.heap.layout.numbers.moves && !self.is_inherited() {
            let at = self.heap.layout.scope(self.thread);
            let number: u64 = self.memory.load(at);
            self.memory.store(at, (number + 1) & !1);
            self.scope.view = View::Plain;
            self.scope.checks = false;
            self.scope.is_open = false;
        }
    }
}

/// A grace period: the scopes that must end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grace {
    /// The words of threads in scopes, at the beginning.
    threads: Vec<(Addr, u64)>,
    /// How many counters have not been seen empty yet.
    waits: u32,
}

impl Grace {
    /// Begins a grace period for all open scopes.
    pub(crate) fn of_now<M: Memory>(memory: &M, layout: &Layout) -> Grace {
        let words = (0..layout.numbers.threads).map(|thread| layout.scope(thread));
        let words = words.map(|at| (at, memory.load::<u64>(at)));
        Grace { threads: words.filter(|(_, word)| word % 2 == 1).collect(), waits: 2 }
    }

    pub(crate) fn is_over<M: Memory>(&mut self, memory: &M, layout: &Layout) -> bool {
        self.threads.retain(|(at, word)| memory.load::<u64>(*at) == *word);
        while self.waits > 0 && memory.load::<u64>(resting(memory, layout)) == 0 {
            self.waits -= 1;
            if self.waits > 0 {
                memory.fetch_add(layout.turn(), 1);
            }
        }
        self.threads.is_empty() && self.waits == 0
    }

    /// Waits until one of the open scopes has changed.
    pub(crate) fn wait_for_one<M: Memory>(&self, memory: &M, layout: &Layout) {
        if let Some((at, word)) = self.threads.first() {
            memory.spin_while(*at, *word);
        } else if self.waits > 0 {
            let counter = resting(memory, layout);
            let open: u64 = memory.load(counter);
            if open > 0 {
                memory.spin_while(counter, open);
            }
        }
    }
}

/// The counter that new scopes do not use.
fn resting<M: Memory>(memory: &M, layout: &Layout) -> Addr {
    layout.counter(memory.load::<u64>(layout.turn()) + 1)
}
