//! Version words: how readers notice writers, and writers each other.
//!
//! Optimistic lock coupling (Leis, Scheibner, Kemper, Neumann, "The ART of Practical
//! Synchronization", DaMoN'16). A word is even when free and odd when locked; a writer locks a node
//! by compare-and-exchange from the version that it read the node at, so everything read since
//! holds, and it never waits while it holds a lock. The words are in DRAM: no lock survives a
//! crash. A node has the word that its address hashes to; nodes that share one are locked
//! together, which costs a restart now and then and is never wrong. Words outlive nodes, so a
//! reader of a node that was freed, and is perhaps something else by now, finds that its word has
//! moved on.

use seawall_memory::{Addr, LINE_BYTES, Memory};

/// The version words of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Versions {
    words: Addr,
    mask: u64,
}

/// The locks that an operation holds, at most one for each level and one more.
#[derive(Debug, Default)]
pub(super) struct Held {
    words: Vec<(Addr, u64)>,
}

impl Versions {
    /// The words at `words`, whose number is a power of two.
    pub(super) const fn new(words: Addr, count: u64) -> Versions {
        Versions { words, mask: count - 1 }
    }

    #[inline]
    fn word(&self, node: Addr) -> Addr {
        let hash = (node.bits() / LINE_BYTES).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        self.words.plus(8 * (hash & self.mask))
    }

    /// The version of a node that is not locked; waits while it is. Any address will do.
    #[inline]
    pub(super) fn seen<M: Memory>(&self, memory: &M, node: Addr) -> u64 {
        let word = self.word(node);
        let mut version = memory.load::<u64>(word);
        while version % 2 == 1 {
            version = memory.spin_while(word, version);
        }
        version
    }

    /// True if nothing that was read of the node since it was `seen` has changed.
    #[inline]
    pub(super) fn still<M: Memory>(&self, memory: &M, node: Addr, seen: u64) -> bool {
        memory.load::<u64>(self.word(node)) == seen
    }

    /// Locks the node if it is as it was `seen`.
    #[inline]
    #[must_use]
    pub(super) fn lock<M: Memory>(&self, memory: &M, node: Addr, seen: u64) -> bool {
        memory.compare_exchange(self.word(node), seen, seen + 1).is_ok()
    }

    /// Unlocks a node that has changed since it was `seen`.
    #[inline]
    pub(super) fn unlock<M: Memory>(&self, memory: &M, node: Addr, seen: u64) {
        memory.store(self.word(node), seen.wrapping_add(2));
    }

    /// As [`lock`](Versions::lock), for one of several nodes.
    #[must_use]
    pub(super) fn also<M: Memory>(
        &self,
        memory: &M,
        held: &mut Held,
        node: Addr,
        seen: u64,
    ) -> bool {
        let word = self.word(node);
        if let Some((_, before)) = held.words.iter().find(|(other, _)| *other == word) {
            return *before == seen;
        }
        let is_locked = memory.compare_exchange(word, seen, seen + 1).is_ok();
        if is_locked {
            held.words.push((word, seen));
        }
        is_locked
    }
}

impl Held {
    /// Unlocks nodes that have changed.
    pub(super) fn release<M: Memory>(self, memory: &M) {
        for (word, seen) in self.words {
            memory.store(word, seen.wrapping_add(2));
        }
    }

    /// Unlocks nodes that are as they were.
    pub(super) fn abandon<M: Memory>(self, memory: &M) {
        for (word, seen) in self.words {
            memory.store(word, seen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_memory::Image;

    #[test]
    fn a_lock_is_taken_only_at_the_version_that_was_seen_and_moves_it_on() {
        let (image, versions) = (Image::new(64, 64), Versions::new(Addr::dram(0), 8));
        let node = Addr::pm(4096);
        let seen = versions.seen(&image, node);
        assert!(versions.lock(&image, node, seen) && !versions.lock(&image, node, seen));
        assert!(!versions.still(&image, node, seen));
        versions.unlock(&image, node, seen);
        assert!(!versions.still(&image, node, seen) && !versions.lock(&image, node, seen));
        assert!(versions.seen(&image, node) > seen);
    }

    #[test]
    fn nodes_that_share_a_word_are_locked_once() {
        let (image, versions) = (Image::new(64, 64), Versions::new(Addr::dram(0), 1));
        let mut held = Held::default();
        assert!(versions.also(&image, &mut held, Addr::pm(64), 0));
        assert!(versions.also(&image, &mut held, Addr::pm(128), 0));
        assert!(!versions.also(&image, &mut held, Addr::pm(192), 2), "seen at another time");
        held.release(&image);
        assert_eq!(versions.seen(&image, Addr::pm(64)), 2);
        let mut held = Held::default();
        assert!(versions.also(&image, &mut held, Addr::pm(64), 2));
        held.abandon(&image);
        assert!(versions.still(&image, Addr::pm(64), 2));
    }
}
