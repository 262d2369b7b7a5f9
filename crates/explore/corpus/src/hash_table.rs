//! A hash table to measure explorers with: 3 stores, 2 flushes and 2 fences for each insert.
//!
//! The table that our measurements of other testers used (Jaaru, pmemcheck, PMTest): buckets of a
//! line, a bit for each valid slot; key and value are durable before the bit is set. The bits have
//! a line of their own, for in the line of the slots no crash could part them.

use crate::kit::{Words, ensure, line, word};
use crate::program::{About, BugKind, Found, Program};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};

/// Slots in a bucket: pairs of key and value in one line.
const SLOTS: u64 = 4;

/// Inserts into a hash table, correct: a program to measure an explorer with.
///
/// Recovery reads the whole table and searches each key.
#[derive(Clone, Copy, Debug)]
pub struct HashTable {
    /// Inserts, up to 4 for each bucket.
    pub inserts: u64,
    /// Buckets, each of 4 slots.
    pub buckets: u64,
    /// The bits are left to the caches, as in a cache that may lose entries: any of them may be
    /// there after a crash, so the crash states are exponentially many, and all are right.
    pub lossy: bool,
}

impl HashTable {
    /// A table in which every insert finds room.
    pub const fn new(inserts: u64) -> HashTable {
        HashTable { inserts, buckets: if inserts < 32 { 16 } else { inserts / 2 }, lossy: false }
    }

    /// A table that may lose any of its entries.
    pub const fn lossy(inserts: u64) -> HashTable {
        HashTable { lossy: true, ..HashTable::new(inserts) }
    }

    fn bits(&self, bucket: u64) -> Addr {
        line(1 + 2 * bucket)
    }

    fn slot(&self, bucket: u64, index: u64) -> Addr {
        self.bits(bucket).plus(LINE_BYTES + 16 * index)
    }

    fn home(&self, key: u64) -> u64 {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % self.buckets
    }

    /// The buckets from a key's home on.
    fn probe(&self, key: u64) -> impl Iterator<Item = u64> {
        let (home, buckets) = (self.home(key), self.buckets);
        (0..buckets).map(move |step| (home + step) % buckets)
    }

    fn insert<M: Memory>(&self, memory: &M, key: u64, value: u64) {
        for bucket in self.probe(key) {
            let bits = memory.get(self.bits(bucket));
            let free = u64::from((!bits).trailing_zeros());
            if free < SLOTS {
                let slot = self.slot(bucket, free);
                memory.put(slot, key);
                memory.put(word(slot, 1), value);
                memory.flush(slot, 16);
                memory.order();
                memory.put(self.bits(bucket), bits | 1 << free);
                if !self.lossy {
                    memory.persist(self.bits(bucket), 8);
                }
                return;
            }
        }
        panic!("the table of {} buckets is full", self.buckets);
    }

    fn search<M: Memory>(&self, memory: &M, key: u64) -> Option<u64> {
        for bucket in self.probe(key) {
            let bits = memory.get(self.bits(bucket));
            for index in (0..SLOTS).filter(|index| bits & 1 << index != 0) {
                let slot = self.slot(bucket, index);
                if memory.get(slot) == key {
                    return Some(memory.get(word(slot, 1)));
                }
            }
            if bits != (1 << SLOTS) - 1 {
                return None;
            }
        }
        None
    }
}

fn nth(number: u64) -> (u64, u64) {
    (number + 1, 1000 + number)
}

impl Program for HashTable {
    fn about(&self) -> About {
        About::new(
            if self.lossy { "lossy-table" } else { "hash-table" },
            BugKind::Order,
            "no bug: a table whose slots are durable before their bit",
            "our own; as measured for the other testers",
        )
    }

    fn pool_bytes(&self) -> u64 {
        LINE_BYTES * (1 + 2 * self.buckets)
    }

    fn run<M: Memory>(&self, memory: &M, _: bool) {
        for number in 0..self.inserts {
            let (key, value) = nth(number);
            self.insert(memory, key, value);
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let valid: u64 = (0..self.buckets)
            .map(|bucket| u64::from(memory.get(self.bits(bucket)).count_ones()))
            .sum();
        let found: Found = (0..self.inserts)
            .map(|number| self.search(memory, nth(number).0).unwrap_or(0))
            .collect();
        let there = found.iter().filter(|value| **value != 0).count() as u64;
        ensure(there == valid, "a valid slot holds no key that was inserted")?;
        Ok(found)
    }

    fn parts(&self) -> usize {
        if self.lossy { self.buckets as usize } else { 1 }
    }

    /// A bucket of the lossy table: what is valid in it was inserted.
    fn recover_part<M: Memory>(&self, memory: &M, _: bool, part: usize) -> Result<Found, String> {
        if !self.lossy {
            return self.recover(memory, true);
        }
        let bucket = part as u64;
        let bits = memory.get(self.bits(bucket));
        let mut found = vec![0; self.inserts as usize];
        for index in (0..SLOTS).filter(|index| bits & 1 << index != 0) {
            let slot = self.slot(bucket, index);
            let (key, value) = (memory.get(slot), memory.get(word(slot, 1)));
            let number = (0..self.inserts).find(|number| nth(*number) == (key, value));
            let number = number.ok_or("a valid slot holds what was never inserted")?;
            found[number as usize] = value;
        }
        Ok(found)
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        if self.lossy {
            let right = (0..).zip(found).all(|(n, value)| [0, nth(n).1].contains(value));
            return ensure(right, "a value that was never inserted");
        }
        let there = found.iter().take_while(|value| **value != 0).count();
        let right = (0..).zip(found).take(there).all(|(n, value)| *value == nth(n).1);
        ensure(right && found[there..].iter().all(|value| *value == 0), "not the first inserts")?;
        ensure(there as u64 >= promised[0], "a completed insert is lost")
    }
}
