//! Slots of one size, with a free list for each thread.
//!
//! Like [`Slots`](crate::shared::Slots), it stores nothing about free slots in the pool: recovery
//! finds the slots that are reached. Unlike there, a slot belongs to one thread and never moves to
//! another, so threads with data of their own share no line.

use crate::Damage;
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::Arena;

/// Slots and the free lists, as stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FreeLists {
    area: Addr,
    lists: Addr,
    threads: u64,
    each: u64,
    bytes: u64,
}

impl FreeLists {
    /// Places `each` slots of `bytes` bytes (rounded up to lines) for each thread. The free lists
    /// are empty until [`rebuild`](FreeLists::rebuild).
    pub(super) fn place(arena: &mut Arena, threads: u64, each: u64, bytes: u64) -> FreeLists {
        let bytes = bytes.next_multiple_of(LINE_BYTES);
        let lists = FreeLists { area: Addr::NULL, lists: Addr::NULL, threads, each, bytes };
        let area = arena.pm(threads * each * bytes);
        FreeLists { area, lists: arena.dram(threads * lists.list_bytes()), ..lists }
    }

    /// Bytes of a free list: a line with its length, and the slots.
    const fn list_bytes(&self) -> u64 {
        LINE_BYTES + (8 * self.each).next_multiple_of(LINE_BYTES)
    }

    fn list(&self, thread: u64) -> Addr {
        self.lists.plus(thread * self.list_bytes())
    }

    /// The number of the slot of `thread` that starts at `at`; `None` if none does.
    pub(super) fn index(&self, thread: u64, at: Addr) -> Option<u64> {
        let from_start = at.bits().checked_sub(self.area.bits())?;
        let index = from_start / self.bytes;
        let is_one = from_start.is_multiple_of(self.bytes) && index / self.each == thread;
        is_one.then_some(index)
    }

    /// Pops a slot of the thread's free list; it contains the bytes of its last user.
    pub(super) fn take<M: Memory>(&self, memory: &M, thread: u64) -> Option<Addr> {
        let list = self.list(thread);
        let left = memory.load::<u64>(list).checked_sub(1)?;
        memory.store(list, left);
        Some(memory.load(list.plus(LINE_BYTES + 8 * left)))
    }

    /// Pushes a slot of the thread, which is no longer reachable, on its free list.
    pub(super) fn give<M: Memory>(&self, memory: &M, thread: u64, at: Addr) {
        let list = self.list(thread);
        let length = memory.load::<u64>(list);
        memory.store(list.plus(LINE_BYTES + 8 * length), at);
        memory.store(list, length + 1);
    }

    /// Fills the free lists with all slots that were not reached; one thread runs.
    pub(super) fn rebuild<M: Memory>(&self, memory: &M, reached: &Marks<'_>) {
        for thread in 0..self.threads {
            memory.store(self.list(thread), 0u64);
            for slot in (thread * self.each..(thread + 1) * self.each).rev() {
                if !reached.marks[slot as usize] {
                    self.give(memory, thread, self.area.plus(slot * self.bytes));
                }
            }
        }
    }

    /// The slots that a walk can reach, each once.
    pub(super) fn marks(&self) -> Marks<'_> {
        Marks { lists: self, marks: vec![false; (self.threads * self.each) as usize] }
    }
}

/// The slots that a walk has reached.
pub(super) struct Marks<'a> {
    lists: &'a FreeLists,
    marks: Vec<bool>,
}

impl Marks<'_> {
    /// Marks the slot at `at` of a thread.
    ///
    /// # Errors
    /// If there is none, or it was reached before.
    pub(super) fn reach(&mut self, thread: u64, at: Addr) -> Result<(), Damage> {
        match self.lists.index(thread, at) {
            Some(slot) if !std::mem::replace(&mut self.marks[slot as usize], true) => Ok(()),
            Some(_) => Err(Damage(format!("the slot at {at} is reached a second time"))),
            None => Err(Damage(format!("data of thread {thread} leads to {at}, no slot of it"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_memory::Image;
    use std::collections::BTreeSet;

    #[test]
    fn a_thread_gets_its_own_slots_each_once_and_none_that_was_reached() {
        let mut arena = Arena::new();
        let lists = FreeLists::place(&mut arena, 2, 5, 100);
        let image = Image::new(arena.pm_bytes(), arena.dram_bytes());
        assert_eq!(lists.take(&image, 0), None);
        let mut marks = lists.marks();
        let reached = lists.area.plus(6 * 128);
        assert_eq!(marks.reach(1, reached), Ok(()));
        assert!(marks.reach(1, reached).unwrap_err().0.contains("second time"));
        assert!(marks.reach(0, reached).unwrap_err().0.contains("no slot of it"));
        assert!(marks.reach(1, reached.plus(8)).is_err());
        assert!(marks.reach(1, lists.area.plus(10 * 128)).is_err());
        lists.rebuild(&image, &marks);
        for (thread, count) in [(0, 5), (1, 4)] {
            let taken: Vec<Addr> = std::iter::from_fn(|| lists.take(&image, thread)).collect();
            assert!(taken.iter().all(|at| lists.index(thread, *at).is_some() && *at != reached));
            assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), count);
            lists.give(&image, thread, taken[0]);
            assert_eq!(lists.take(&image, thread), Some(taken[0]));
        }
    }
}
