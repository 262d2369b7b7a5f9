//! Version words: how readers notice writers, and writers each other.
//!
//! Optimistic lock coupling (Leis, Scheibner, Kemper, Neumann, "The ART of Practical
//! Synchronization", DaMoN'16). A word is even when free and odd when locked; a writer locks nodes
//! at the versions that it read them at, so everything read since holds. The words are in DRAM: no
//! lock survives a crash. A node has the word that its address hashes to; nodes that share one are
//! locked together, which costs a repetition now and then and is never wrong. Words outlive nodes,
//! so a reader of a node that was freed, and is perhaps something else by now, finds that its word
//! has moved on.

use super::{BTreeFlaw, Tree};
use crate::reads::{Reads, Within};
use seawall_memory::{Addr, LINE_BYTES, Memory};
use seawall_runtime::{HeapExtent, Session, Stripe, Tx, TxError};

/// The version words of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Versions {
    words: Addr,
    mask: u64,
}

impl Versions {
    /// The words at `words`, whose number is a power of two.
    pub(super) const fn new(words: Addr, count: u64) -> Versions {
        Versions { words, mask: count - 1 }
    }

    /// The lock of a node; any address will do.
    #[inline]
    pub(super) fn of(&self, node: Addr) -> Stripe {
        let hash = (node.bits() / LINE_BYTES).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        Stripe::at(self.words.plus(8 * (hash & self.mask)))
    }
}

/// What walks over nodes: a reader that waits for writers, or a transaction that may not always.
pub(super) trait Walker: Reads {
    /// The version of a lock, when no other thread has it.
    fn version(&mut self, lock: Stripe) -> Result<u64, TxError>;

    /// True if nothing that was read under the lock since it was `seen` has changed.
    fn is_still(&self, lock: Stripe, seen: u64) -> bool;

    /// True if the heap has such addresses.
    fn is_data(&self, at: Addr, bytes: u64) -> bool;

    /// True if what was read of a node since it was `seen` is its content: of a moment for a
    /// reader, until the end for a transaction, which locks the node.
    fn holds<const SLOTS: usize, const KEYS: usize>(
        &mut self,
        tree: &Tree<SLOTS, KEYS>,
        node: Addr,
        seen: u64,
    ) -> bool;
}

/// No thread waits for it, so it may wait for any thread.
pub(super) struct Reader<'a, 'm, M: Memory>(pub(super) &'a Session<'m, M>);

impl<M: Memory> Reads for Reader<'_, '_, M> {
    #[inline]
    fn word(&self, at: Addr) -> u64 {
        self.0.load(at)
    }

    #[inline]
    fn line(&self, at: Addr) -> [u64; 8] {
        self.0.memory().line(at)
    }

    fn has(&self, extent: &HeapExtent, at: Addr, bytes: u64) -> bool {
        extent.holds(self.0.memory(), at, bytes)
    }
}

impl<M: Memory> Walker for Reader<'_, '_, M> {
    #[inline]
    fn version(&mut self, lock: Stripe) -> Result<u64, TxError> {
        Ok(lock.version(self.0.memory()))
    }

    #[inline]
    fn is_still(&self, lock: Stripe, seen: u64) -> bool {
        lock.is_still(self.0.memory(), seen)
    }

    fn is_data(&self, at: Addr, bytes: u64) -> bool {
        self.0.is_data(at, bytes)
    }

    fn holds<const SLOTS: usize, const KEYS: usize>(
        &mut self,
        tree: &Tree<SLOTS, KEYS>,
        node: Addr,
        seen: u64,
    ) -> bool {
        tree.still(self, node, seen)
    }
}

/// A transaction on its way to what it will change.
pub(super) struct Writer<'a, 's, 'm, M: Memory>(pub(super) &'a mut Tx<'s, 'm, M>);

impl<M: Memory> Reads for Writer<'_, '_, '_, M> {
    #[inline]
    fn word(&self, at: Addr) -> u64 {
        self.0.load(at)
    }

    #[inline]
    fn line(&self, at: Addr) -> [u64; 8] {
        Within(self.0).line(at)
    }

    fn has(&self, extent: &HeapExtent, at: Addr, bytes: u64) -> bool {
        extent.holds(self.0.memory(), at, bytes)
    }
}

impl<M: Memory> Walker for Writer<'_, '_, '_, M> {
    #[inline]
    fn version(&mut self, lock: Stripe) -> Result<u64, TxError> {
        self.0.version(lock)
    }

    #[inline]
    fn is_still(&self, lock: Stripe, seen: u64) -> bool {
        lock.is_still(self.0.memory(), seen)
    }

    fn is_data(&self, at: Addr, bytes: u64) -> bool {
        self.0.is_data(at, bytes)
    }

    fn holds<const SLOTS: usize, const KEYS: usize>(
        &mut self,
        tree: &Tree<SLOTS, KEYS>,
        node: Addr,
        seen: u64,
    ) -> bool {
        tree.lock(self.0, [(node, seen)])
    }
}

impl<const SLOTS: usize, const KEYS: usize> Tree<SLOTS, KEYS> {
    /// As [`Walker::is_still`], of a node.
    #[inline]
    pub(super) fn still(&self, from: &impl Walker, node: Addr, seen: u64) -> bool {
        from.is_still(self.versions.of(node), seen) || self.flaw.is(BTreeFlaw::NoValidation)
    }

    /// Locks nodes, if they are as they were seen, until the transaction is over.
    #[inline]
    pub(super) fn lock<M: Memory, const COUNT: usize>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        nodes: [(Addr, u64); COUNT],
    ) -> bool {
        let locks = nodes.map(|(node, seen)| (self.versions.of(node), seen));
        if self.flaw.is(BTreeFlaw::NoLock) {
            return true;
        }
        if self.flaw.is(BTreeFlaw::EarlyUnlock) {
            return locks.iter().all(|(lock, seen)| {
                let is_still = lock.is_still(tx.memory(), *seen);
                lock.acquire(tx.memory()).release(tx.memory());
                is_still
            });
        }
        tx.lock_seen(&locks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_memory::{Image, MemoryExt};

    #[test]
    fn every_node_has_one_of_the_words_and_always_the_same() {
        let image = Image::new(64, 8 * 8);
        let versions = Versions::new(Addr::dram(0), 8);
        for node in (0..1000).map(|line| Addr::pm(LINE_BYTES * line)) {
            let seen = versions.of(node).version(&image);
            versions.of(node).acquire(&image).release(&image);
            assert_eq!(versions.of(node).version(&image), seen + 2);
        }
        let used = (0..8).filter(|word| image.load::<u64>(Addr::dram(8 * word)) > 0);
        assert_eq!(used.count(), 8);
    }
}
