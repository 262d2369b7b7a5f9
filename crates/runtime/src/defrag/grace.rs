//! Scopes: the spans in which a program may hold pointers, and the wait for their end.
//!
//! The brand `'p` keeps a pointer within the call of `typed::open`, `create`, `enter` or
//! `typed::Thread::enter` that gave it. So once all scopes that are open at some moment have ended,
//! no pointer that was loaded before that moment is left but in the pool. A cycle waits for that
//! between its stages, and a scope waits for nothing.
//!
//! A scope of a `typed::Thread`, and a transaction outside of any, makes a word of its thread odd.
//! The others may be shared by threads, and are counted: in one of two counters, which the wait
//! lets change places, so that it need not wait for those that begin meanwhile (as sleepable
//! read-copy update has it).

use super::scope::View;
use crate::Session;
use crate::heap::Heap;
use crate::heap::layout::Layout;
use seawall_memory::{Addr, Memory, MemoryExt};

/// A scope that several threads may be in.
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
        if let Some(counter) = self.counter {
            memory.fetch_add(counter, u64::MAX);
        }
    }
}

impl<M: Memory> Session<'_, M> {
    /// A scope of this thread begins. One that a panic cut short is over.
    #[inline]
    pub(crate) fn begin_scope(&mut self) {
        if self.heap.layout.numbers.moves {
            let at = self.heap.layout.scope(self.thread);
            let number: u64 = self.memory.load(at);
            self.memory.swap(at, (number + 1) | 1);
            self.scope.view = View::of(self.heap.phase(self.memory));
            self.scope.is_open = true;
        }
    }

    /// It is over.
    #[inline]
    pub(crate) fn end_scope(&mut self) {
        if self.heap.layout.numbers.moves {
            let at = self.heap.layout.scope(self.thread);
            let number: u64 = self.memory.load(at);
            self.memory.store(at, (number + 1) & !1);
            self.scope.view = View::Plain;
            self.scope.is_open = false;
        }
    }
}

/// Scopes that have to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grace {
    /// Words of threads, as they were.
    threads: Vec<(Addr, u64)>,
    /// How often the counters have yet to be seen empty.
    waits: u32,
}

impl Grace {
    /// All that are open now.
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

    /// Returns when one of those that keep it from being over has changed.
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

/// The counter in which no scope begins now.
fn resting<M: Memory>(memory: &M, layout: &Layout) -> Addr {
    layout.counter(memory.load::<u64>(layout.turn()) + 1)
}
