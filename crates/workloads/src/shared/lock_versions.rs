//! Persisted lock versions: one PM word per lock, which makes critical sections persist in order.
//!
//! Under buffered epoch persistency as in LB ("Efficient Persist Barriers for Multicores", Joshi et
//! al., MICRO'15, section 5.1) hardware orders epochs of different threads only through accesses to
//! the same PM line. With locks in DRAM, thread B could persist an update that builds on one of
//! thread A while the truncation of A's log is lost; recovery would then apply A's old log over B's
//! data. So a thread reads the lock's version after it acquires the lock, and stores version + 1 in
//! the epoch that truncates its log. Reading what A wrote in its last epoch makes every later epoch
//! of B follow it. A critical section that changes nothing reads the version and does not store it.
//! On x86 this costs one load and one store.

use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::Arena;

/// The versions of a set of locks: one PM word each, each on its own line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockVersions {
    words: Addr,
    count: u64,
}

/// The version of a lock when the lock was acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockVersion {
    at: Addr,
    value: u64,
}

impl LockVersions {
    /// Places `count` versions.
    pub fn place(arena: &mut Arena, count: u64) -> LockVersions {
        LockVersions { words: arena.pm(count * LINE_BYTES), count }
    }

    /// Reads version `index`; call it right after acquiring the lock of this index.
    ///
    /// # Panics
    /// If there is no such version.
    #[track_caller]
    pub fn read<M: Memory>(&self, memory: &M, index: u64) -> LockVersion {
        assert!(index < self.count, "version {index} of {}", self.count);
        let at = self.words.plus(index * LINE_BYTES);
        LockVersion { at, value: memory.load(at) }
    }
}

impl LockVersion {
    /// Stores and flushes the version's next value: part of the holder's last epoch.
    #[track_caller]
    pub fn advance<M: Memory>(self, memory: &M) {
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
        let versions = LockVersions::place(&mut arena, 2);
        let image = Image::new(arena.pm_bytes(), 0);
        let first = versions.read(&image, 1);
        first.advance(&image);
        assert_ne!(versions.read(&image, 1), first);
        assert_eq!(versions.read(&image, 0).value, 0);
    }
}
