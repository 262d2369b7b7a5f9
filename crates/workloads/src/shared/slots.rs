//! Slots of one size in the pool, allocated from free lists in DRAM.
//!
//! The pool does not store which slots are free: a slot is free if the structure does not reach it,
//! as found by its walk at recovery ([`Slots::rebuild`]). So allocating and freeing a slot cost no
//! persist.
//!
//! Each thread has a list of its own, last in first out. A slot that a thread frees and allocates
//! again is written in a later epoch of the same thread than the one that unlinked it, so no crash
//! can show the new bytes through the old pointer. A list that grows beyond twice [`SLOT_RESERVE`]
//! spills to a shared list, and an empty one is filled from there, both under a lock whose
//! [version](crate::LockVersions) carries the same order from thread to thread.
//!
//! A pool with `live + threads * (2 * SLOT_RESERVE + 1)` slots always has room for `live` live
//! slots.

use super::lock_versions::LockVersions;
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::{Arena, Locks};

/// The number of slots that move between a thread's list and the shared one at once.
pub const SLOT_RESERVE: u64 = 8;

/// Offset in a list's line of its first slot, plus 1; 0 when the list is empty.
const FIRST: u64 = 0;
/// Offset in a list's line of its length.
const LENGTH: u64 = 8;

/// An area of slots and their free lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    area: Addr,
    bytes: u64,
    count: u64,
    next: Addr,
    lists: Addr,
    threads: u64,
    lock: Locks,
    version: LockVersions,
}

impl Slots {
    /// Places `count` slots of `bytes` bytes (rounded up to lines) for `threads` threads.
    ///
    /// The lists are empty until [`rebuild`](Slots::rebuild).
    pub fn place(arena: &mut Arena, count: u64, bytes: u64, threads: u64) -> Slots {
        let bytes = bytes.next_multiple_of(LINE_BYTES);
        Slots {
            area: arena.pm(count * bytes),
            bytes,
            count,
            next: arena.dram(count * 8),
            lists: arena.dram((threads + 1) * LINE_BYTES),
            threads,
            lock: Locks::place(arena, 1, threads, 1),
            version: LockVersions::place(arena, 1),
        }
    }

    /// The number of slots that is enough for `live` live ones under any schedule.
    pub const fn enough(live: u64, threads: u64) -> u64 {
        live + threads * (2 * SLOT_RESERVE + 1)
    }

    /// The number of slots.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The number of the slot that starts at `at`; `None` if none does.
    pub fn index(&self, at: Addr) -> Option<u64> {
        let from_start = at.bits().checked_sub(self.area.bits())?;
        let index = from_start / self.bytes;
        (index < self.count && from_start.is_multiple_of(self.bytes)).then_some(index)
    }

    /// Allocates a slot; `None` if this thread's list and the shared list are empty. It contains
    /// the bytes of its last user.
    ///
    /// # Panics
    /// If the pool has no list for the calling thread.
    #[track_caller]
    pub fn take<M: Memory>(&self, memory: &M) -> Option<Addr> {
        let mine = self.mine(memory);
        if memory.load::<u64>(mine.plus(FIRST)) == 0 {
            self.refill(memory, mine);
        }
        let slot = self.pop(memory, mine)?;
        Some(self.area.plus(slot * self.bytes))
    }

    /// Frees the slot at `at`, to which nothing in the pool points any more: the store that
    /// unlinked it has been ordered. Call it without other locks where possible: it may wait.
    ///
    /// # Panics
    /// When `at` is no slot, or the pool has no list for the calling thread.
    #[track_caller]
    pub fn give<M: Memory>(&self, memory: &M, at: Addr) {
        let slot = self.index(at).unwrap_or_else(|| panic!("{at:?} is no slot"));
        let mine = self.mine(memory);
        self.push(memory, mine, slot);
        if memory.load::<u64>(mine.plus(LENGTH)) > 2 * SLOT_RESERVE {
            self.spill(memory, mine);
        }
    }

    /// Fills the lists with all slots that are not live, after a crash or at creation; one thread
    /// runs. `live` holds for each slot whether the structure reaches it.
    ///
    /// # Panics
    /// If the length of `live` is not the number of slots.
    pub fn rebuild<M: Memory>(&self, memory: &M, live: &[bool]) {
        assert_eq!(live.len() as u64, self.count, "one mark a slot");
        for list in 0..=self.threads {
            memory.store(self.list(list).plus(FIRST), 0u64);
            memory.store(self.list(list).plus(LENGTH), 0u64);
        }
        let mut free = (0..self.count).filter(|slot| !live[*slot as usize]);
        for thread in 0..self.threads {
            let share: Vec<u64> = free.by_ref().take(SLOT_RESERVE as usize).collect();
            for slot in share.into_iter().rev() {
                self.push(memory, self.list(thread), slot);
            }
        }
        let rest: Vec<u64> = free.collect();
        for slot in rest.into_iter().rev() {
            self.push(memory, self.list(self.threads), slot);
        }
    }

    fn list(&self, list: u64) -> Addr {
        self.lists.plus(list * LINE_BYTES)
    }

    #[track_caller]
    fn mine<M: Memory>(&self, memory: &M) -> Addr {
        let thread = memory.thread() as u64;
        assert!(thread < self.threads, "thread {thread} in a pool for {}", self.threads);
        self.list(thread)
    }

    fn pop<M: Memory>(&self, memory: &M, list: Addr) -> Option<u64> {
        let slot = memory.load::<u64>(list.plus(FIRST)).checked_sub(1)?;
        memory.store(list.plus(FIRST), memory.load::<u64>(self.next.plus(8 * slot)));
        let length = memory.load::<u64>(list.plus(LENGTH));
        memory.store(list.plus(LENGTH), length - 1);
        Some(slot)
    }

    fn push<M: Memory>(&self, memory: &M, list: Addr, slot: u64) {
        let first = memory.load::<u64>(list.plus(FIRST));
        memory.store(self.next.plus(8 * slot), first);
        memory.store(list.plus(FIRST), slot + 1);
        let length = memory.load::<u64>(list.plus(LENGTH));
        memory.store(list.plus(LENGTH), length + 1);
    }

    fn refill<M: Memory>(&self, memory: &M, mine: Addr) {
        let guard = self.lock.acquire(memory, 0, 0);
        let _ = self.version.read(memory, 0);
        self.transfer(memory, self.list(self.threads), mine);
        self.lock.release(memory, guard);
    }

    fn spill<M: Memory>(&self, memory: &M, mine: Addr) {
        let guard = self.lock.acquire(memory, 0, 0);
        let version = self.version.read(memory, 0);
        self.transfer(memory, mine, self.list(self.threads));
        version.advance(memory);
        memory.order();
        self.lock.release(memory, guard);
    }

    fn transfer<M: Memory>(&self, memory: &M, from: Addr, to: Addr) {
        for _ in 0..SLOT_RESERVE {
            let Some(slot) = self.pop(memory, from) else { return };
            self.push(memory, to, slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use seawall_memory::Image;
    use std::collections::BTreeSet;

    fn place(count: u64) -> (Image, Slots) {
        let mut arena = Arena::new();
        let slots = Slots::place(&mut arena, count, 500, 1);
        (Image::new(arena.pm_bytes(), arena.dram_bytes()), slots)
    }

    #[test]
    fn the_slot_given_last_is_taken_first() {
        let (image, slots) = place(30);
        slots.rebuild(&image, &[false; 30]);
        let first = slots.take(&image).expect("a free slot");
        let second = slots.take(&image).expect("a free slot");
        slots.give(&image, first);
        slots.give(&image, second);
        assert_eq!(slots.take(&image), Some(second));
    }

    #[test]
    fn only_the_start_of_a_slot_is_one() {
        let (_, slots) = place(3);
        assert_eq!(slots.index(slots.area.plus(512)), Some(1));
        assert_eq!(slots.index(slots.area.plus(8)), None);
        assert_eq!(slots.index(slots.area.plus(3 * 512)), None);
        assert_eq!(slots.index(Addr::NULL), None);
        assert_eq!(slots.index(Addr::from_bits(u64::MAX)), None);
    }

    proptest! {
        #[test]
        fn no_slot_is_handed_out_twice_and_none_is_lost(
            live in proptest::collection::vec(any::<bool>(), 40), turns: Vec<bool>,
        ) {
            let (image, slots) = place(40);
            slots.rebuild(&image, &live);
            let mut held = BTreeSet::new();
            for take in turns {
                if take {
                    if let Some(at) = slots.take(&image) {
                        let index = slots.index(at).expect("a slot");
                        prop_assert!(!live[index as usize]);
                        prop_assert!(held.insert(at));
                    }
                } else if let Some(at) = held.pop_first() {
                    slots.give(&image, at);
                }
            }
            while let Some(at) = slots.take(&image) {
                prop_assert!(held.insert(at));
            }
            prop_assert_eq!(held.len(), live.iter().filter(|live| !**live).count());
        }
    }
}
