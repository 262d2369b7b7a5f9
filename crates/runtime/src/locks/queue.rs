//! Queue locks in DRAM, which are free after every crash.
//!
//! **Locks live in DRAM**, so none survives a crash. They are queue locks (Mellor-Crummey and
//! Scott, 1991): a waiting thread spins on a line of its own, and threads enter in the order of
//! their arrival, so each of 32 waiters costs one line transfer. Where there are more threads than
//! processors, the next thread in the queue is rarely running; so a machine can let waiting threads
//! sleep, and the lock names the thread to wake.

use crate::Arena;
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};

/// Queue locks in DRAM, each on its own line, with the queue nodes of every thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locks {
    words: Addr,
    nodes: Addr,
    count: u64,
    threads: u64,
    levels: u64,
}

/// A held lock. [`Locks::release`] releases it; dropping it does not: a release is a memory access,
/// which a fiber that is torn down must not make.
#[must_use = "a lock that is never released blocks every other thread"]
#[derive(Debug)]
pub struct Guard {
    word: Addr,
    node: Addr,
}

/// Offset of the word in a node that is 1 while its owner waits.
const WAITS: u64 = 0;
/// Offset of the word in a node that holds the node behind it, 0 if there is none.
const NEXT: u64 = 8;

impl Locks {
    /// Places `count` locks for `threads` threads, each of which holds at most `levels` at once.
    pub fn place(arena: &mut Arena, count: u64, threads: u64, levels: u64) -> Locks {
        let words = arena.dram(count * LINE_BYTES);
        let nodes = arena.dram(threads * levels * LINE_BYTES);
        Locks { words, nodes, count, threads, levels }
    }

    /// Places the locks in the pool, for a machine whose whole memory is persistent and which
    /// restarts its threads where they were. Not for programs that recover: a lock that was held
    /// when power failed stays held.
    pub fn place_in_pool(arena: &mut Arena, count: u64, threads: u64, levels: u64) -> Locks {
        let words = arena.pm(count * LINE_BYTES);
        let nodes = arena.pm(threads * levels * LINE_BYTES);
        Locks { words, nodes, count, threads, levels }
    }

    /// The number of locks.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Waits for lock `index` and takes it. `level` numbers the locks that a thread holds at once:
    /// 0 for the first, 1 for the second.
    ///
    /// # Panics
    /// When there is no such lock, level, or thread.
    #[track_caller]
    pub fn acquire<M: Memory>(&self, memory: &M, index: u64, level: u64) -> Guard {
        let thread = memory.thread() as u64;
        assert!(index < self.count, "lock {index} of {}", self.count);
        assert!(thread < self.threads, "thread {thread} in a pool for {}", self.threads);
        assert!(level < self.levels, "a thread holds at most {} of these locks", self.levels);
        let word = self.words.plus(index * LINE_BYTES);
        let node = self.nodes.plus((thread * self.levels + level) * LINE_BYTES);
        memory.store(node.plus(NEXT), 0u64);
        memory.store(node.plus(WAITS), 1u64);
        let before = memory.swap(word, node.bits());
        if before != 0 {
            memory.store(Addr::from_bits(before).plus(NEXT), node.bits());
            while memory.sleep_while(node.plus(WAITS), 1) == 1 {}
        }
        Guard { word, node }
    }

    /// Releases the lock to the thread that has waited longest.
    #[track_caller]
    pub fn release<M: Memory>(&self, memory: &M, guard: Guard) {
        let mut next = memory.load::<u64>(guard.node.plus(NEXT));
        if next == 0 {
            if memory.compare_exchange(guard.word, guard.node.bits(), 0).is_ok() {
                return;
            }
            while next == 0 {
                next = memory.spin_while(guard.node.plus(NEXT), 0);
            }
        }
        let waits = Addr::from_bits(next).plus(WAITS);
        memory.store(waits, 0u64);
        memory.wake(waits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_memory::Image;

    fn place() -> (Image, Locks) {
        let mut arena = Arena::new();
        let locks = Locks::place(&mut arena, 2, 1, 2);
        (Image::new(arena.pm_bytes(), arena.dram_bytes()), locks)
    }

    #[test]
    fn a_released_lock_is_as_it_was_and_can_be_taken_again() {
        let (image, locks) = place();
        for _ in 0..2 {
            let first = locks.acquire(&image, 0, 0);
            let second = locks.acquire(&image, 1, 1);
            assert_ne!(image.load::<u64>(first.word), 0);
            locks.release(&image, first);
            locks.release(&image, second);
            assert_eq!(image.load::<u64>(locks.words), 0);
        }
    }

    #[test]
    #[should_panic(expected = "waits for itself")]
    fn a_held_lock_makes_the_next_wait() {
        let (image, locks) = place();
        let _held = locks.acquire(&image, 0, 0);
        let _again = locks.acquire(&image, 0, 1);
    }

    #[test]
    fn the_waiter_gets_the_lock_from_whoever_releases_it() {
        let (image, locks) = place();
        let held = locks.acquire(&image, 0, 0);
        let waiter = locks.nodes.plus(LINE_BYTES);
        image.store(waiter.plus(WAITS), 1u64);
        image.store(held.node.plus(NEXT), waiter.bits());
        image.store(held.word, waiter.bits());
        locks.release(&image, held);
        assert_eq!(image.load::<u64>(waiter.plus(WAITS)), 0);
        assert_eq!(image.load::<u64>(locks.words), waiter.bits());
    }
}
