//! Batons, or persisted lock versions: one PM word per lock, which makes critical sections persist
//! in order.
//!
//! Under buffered epoch persistency as in LB ("Efficient Persist Barriers for Multicores", Joshi et
//! al., MICRO'15, section 5.1) hardware orders epochs of different threads only through accesses to
//! the same PM line. With locks in DRAM, thread B could persist an update that builds on one of
//! thread A while the truncation of A's log is lost; recovery would then apply A's old log over B's
//! data. So a thread loads the baton after it acquires the lock, and stores baton + 1 in the epoch
//! that truncates its log. Reading what A wrote in its last epoch makes every later epoch of B
//! follow it. A critical section that changes nothing loads the baton and does not store it. On x86
//! this costs one load and one store.

use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::Arena;

/// The batons of a set of locks: one PM word each, each on its own line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batons {
    words: Addr,
    count: u64,
}

/// The value of a baton when the lock was acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Baton {
    at: Addr,
    value: u64,
}

impl Batons {
    /// Places `count` batons.
    pub fn place(arena: &mut Arena, count: u64) -> Batons {
        Batons { words: arena.pm(count * LINE_BYTES), count }
    }

    /// Loads baton `index`; call it right after acquiring the lock of this index.
    ///
    /// # Panics
    /// If there is no such baton.
    #[track_caller]
    pub fn pick<M: Memory>(&self, memory: &M, index: u64) -> Baton {
        assert!(index < self.count, "baton {index} of {}", self.count);
        let at = self.words.plus(index * LINE_BYTES);
        Baton { at, value: memory.load(at) }
    }
}

impl Baton {
    /// Stores and flushes the baton's next value: part of the holder's last epoch.
    #[track_caller]
    pub fn hand_on<M: Memory>(self, memory: &M) {
        memory.store(self.at, self.value.wrapping_add(1));
        memory.flush(self.at, 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_memory::Image;

    #[test]
    fn a_baton_handed_on_differs_from_the_one_picked() {
        let mut arena = Arena::new();
        let batons = Batons::place(&mut arena, 2);
        let image = Image::new(arena.pm_bytes(), 0);
        let first = batons.pick(&image, 1);
        first.hand_on(&image);
        assert_ne!(batons.pick(&image, 1), first);
        assert_eq!(batons.pick(&image, 0).value, 0);
    }
}
