//! A queue between two stages: every push and every pop takes a slot of its own by a locked add,
//! and a pop waits until its slot is filled. It has a slot for every item; it never wraps.

use crate::Words;
use seawall_memory::Memory;
use seawall_runtime::Arena;

/// In a slot: the queue is closed.
const CLOSED: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    /// The number of slots pushed and, on another line, of slots popped.
    ends: Words,
    slots: Words,
}

const PUSHED: u64 = 0;
const POPPED: u64 = 8;

impl Queue {
    pub(super) fn place(arena: &mut Arena, slots: u64) -> Queue {
        Queue { ends: Words::place(arena, POPPED + 1), slots: Words::place(arena, slots) }
    }

    fn fill<M: Memory>(&self, memory: &M, word: u64) {
        let slot = self.ends.claim(memory, PUSHED, 1);
        self.slots.put(memory, slot, word);
    }

    pub(super) fn push<M: Memory>(&self, memory: &M, item: u64) {
        self.fill(memory, item + 1);
    }

    /// Ends the loop of one popping thread; comes after the last push.
    pub(super) fn close<M: Memory>(&self, memory: &M) {
        self.fill(memory, CLOSED);
    }

    /// Waits for the next item; `None` when the queue is closed.
    pub(super) fn pop<M: Memory>(&self, memory: &M) -> Option<u64> {
        let slot = self.ends.claim(memory, POPPED, 1);
        let word = memory.spin_while(self.slots.at(slot), 0);
        (word != CLOSED).then(|| word - 1)
    }
}
