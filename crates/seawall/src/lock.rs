//! The lock of a pool: one transaction, or several reads.
//!
//! It is a word of volatile memory behind that of the heap, taken through the seam, so that threads
//! exclude each other on simulated and explored machines, too.

use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};

/// A transaction has it; else the number of reads that have.
const WRITER: u64 = 1 << 31;

/// Bytes of volatile memory that it takes.
pub(crate) const LOCK_BYTES: u64 = LINE_BYTES;

#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolLock {
    word: Addr,
}

/// The lock, held until this is dropped.
pub(crate) struct Held<'m, M: Memory> {
    memory: &'m M,
    word: Addr,
    by: u64,
}

impl PoolLock {
    pub(crate) const fn at(word: Addr) -> PoolLock {
        PoolLock { word }
    }

    /// Waits until no other thread holds it.
    pub(crate) fn write<'m, M: Memory>(&self, memory: &'m M) -> Held<'m, M> {
        while let Err(holders) = memory.compare_exchange(self.word, 0, WRITER) {
            memory.sleep_while(self.word, holders);
        }
        Held { memory, word: self.word, by: WRITER }
    }

    /// Waits until no transaction has it.
    pub(crate) fn read<'m, M: Memory>(&self, memory: &'m M) -> Held<'m, M> {
        loop {
            let holders: u64 = memory.load(self.word);
            if holders == WRITER {
                memory.sleep_while(self.word, holders);
            } else if memory.compare_exchange(self.word, holders, holders + 1).is_ok() {
                return Held { memory, word: self.word, by: 1 };
            }
        }
    }
}

impl<M: Memory> Drop for Held<'_, M> {
    fn drop(&mut self) {
        // A machine that ends with this thread takes no more accesses.
        if !std::thread::panicking() || self.memory.slots().is_some() {
            self.memory.fetch_add(self.word, self.by.wrapping_neg());
            self.memory.wake(self.word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_memory::Image;

    #[test]
    fn reads_share_it_and_a_transaction_has_it_alone() {
        let (image, lock) = (Image::new(4096, 64), PoolLock::at(Addr::dram(0)));
        let held = (lock.read(&image), lock.read(&image));
        assert_eq!(image.load::<u64>(lock.word), 2);
        drop(held);
        let held = lock.write(&image);
        assert_eq!(image.load::<u64>(lock.word), WRITER);
        drop(held);
        assert_eq!(image.load::<u64>(lock.word), 0);
    }

    #[test]
    #[should_panic(expected = "waits for itself")]
    fn a_read_waits_for_a_transaction() {
        let (image, lock) = (Image::new(4096, 64), PoolLock::at(Addr::dram(0)));
        let _held = lock.write(&image);
        drop(lock.read(&image));
    }
}
