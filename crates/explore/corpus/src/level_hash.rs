//! Bugs of level hashing, in a table of two levels of buckets.
//!
//! "Write-Optimized and High-Performance Hashing Index Scheme for Persistent Memory" (Zuo, Hua,
//! Wu, OSDI'18). A bucket's tokens say which of its slots are valid; they are the commit. The bugs
//! are of the published code, as found by Witcher (SOSP'21) and by reading (LH-1 .. of our list).
//! Here tokens and slots are in different lines: in one line several of these are no bugs.

use crate::kit::{Words, ensure, inserted, line, some_state, word};
use crate::program::{About, BugKind, Found, Program};
use crate::tx::{redo, redo_apply};
use seawall_memory::{Addr, Memory, MemoryExt};

const SLOTS: u64 = 4;

/// A bucket: one word whose bits are the tokens; its slots (key, value) are in the next line.
const fn bucket(number: u64) -> Addr {
    line(4 + 2 * number)
}

fn slot(bucket: Addr, index: u64) -> Addr {
    bucket.plus(64 + 16 * index)
}

fn tokens_with<M: Memory>(memory: &M, bucket: Addr, index: u64) -> u64 {
    memory.get(bucket) | 1 << index
}

fn write_slot<M: Memory>(memory: &M, at: Addr, key: u64, value: u64) {
    memory.put(at, key);
    memory.put(word(at, 1), value);
    memory.flush(at, 16);
}

/// The valid pairs of some buckets.
fn pairs<M: Memory>(memory: &M, buckets: &[Addr]) -> Vec<(u64, u64)> {
    let mut pairs = Vec::new();
    for &bucket in buckets {
        let tokens = memory.get(bucket);
        for index in (0..SLOTS).filter(|index| tokens & 1 << index != 0) {
            let at = slot(bucket, index);
            pairs.push((memory.get(at), memory.get(word(at, 1))));
        }
    }
    pairs
}

/// LH-1, so LH-2 .. LH-8 and LH-10.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenFirst;

impl Program for TokenFirst {
    fn about(&self) -> About {
        About::new(
            "lh-1",
            BugKind::Order,
            "an insert sets the token before key and value are durable",
            "level_hashing.c 417, 445, .. 616, 28eca31 -> 5a6f9c1, c3dcb9b (Witcher 7-16)",
        )
        .epochs_too()
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let home = bucket(0);
        for number in 0..3 {
            write_slot(memory, slot(home, number), 1 + number, 10 + number);
            if fixed {
                memory.order();
            }
            memory.put_persist(home, tokens_with(memory, home, number));
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let pairs = pairs(memory, &[bucket(0)]);
        ensure(pairs.iter().all(|(key, _)| (1..=3).contains(key)), "a valid slot has no key")?;
        let value = |key: u64| pairs.iter().find(|(k, _)| *k == key).map_or(0, |(_, v)| *v);
        Ok((1..=3).map(value).collect())
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, promised, &[10, 11, 12])
    }
}

/// Where updates and moves start: key 5 with value 50, in the first slot of bucket 0.
fn five_is_fifty<M: Memory>(memory: &M) {
    memory.put(bucket(0), 1);
    write_slot(memory, slot(bucket(0), 0), 5, 50);
}

/// The value is the first one, or that of the first or second update.
fn updated(found: &[u64], promised: &[u64]) -> Result<(), String> {
    some_state(found, promised, &[[50], [51], [52]])
}

/// LH-9, one of those in an update.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpdateTokenFirst;

impl Program for UpdateTokenFirst {
    fn about(&self) -> About {
        About::new(
            "lh-9",
            BugKind::Order,
            "an update exchanges the tokens before the new slot is durable",
            "level_hashing.c 657, 677, 28eca31 -> c3dcb9b (Witcher 15-16)",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        five_is_fifty(memory);
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        for number in 0..2 {
            write_slot(memory, slot(bucket(0), number + 1), 5, 51 + number);
            if fixed {
                memory.order();
            }
            memory.put_persist(bucket(0), 1 << (number + 1));
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let pairs = pairs(memory, &[bucket(0)]);
        ensure(pairs.iter().all(|(key, _)| *key == 5), "a valid slot has no key")?;
        Ok(pairs.iter().map(|(_, value)| *value).collect())
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        updated(found, promised)
    }
}

/// LH-11.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExpandCapacity;

const CAPACITY: Addr = line(1);
const TOP: Addr = line(2);

impl ExpandCapacity {
    fn place(capacity: u64, key: u64) -> u64 {
        key % capacity
    }
}

impl Program for ExpandCapacity {
    fn about(&self) -> About {
        About::new(
            "lh-11",
            BugKind::Atomicity,
            "the capacity grows before the new buckets exist: every key is looked for elsewhere",
            "level_hashing.c:112 level_expand, 28eca31 (Witcher 17)",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        memory.put(CAPACITY, 2);
        memory.put(TOP, line(10).bits());
        (2..6).for_each(|key| memory.put(word(line(10), key), 0));
        memory.put(line(10), 4);
        memory.put(word(line(10), 1), 3);
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        if !fixed {
            memory.put_persist(CAPACITY, 4);
        }
        for key in [3, 4] {
            memory.put(word(line(12), ExpandCapacity::place(4, key)), key);
        }
        memory.flush(line(12), 32);
        memory.order();
        if fixed {
            redo(memory, &[(CAPACITY, 4), (TOP, line(12).bits())]);
        } else {
            memory.put_persist(TOP, line(12).bits());
        }
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        redo_apply(memory);
        let (capacity, top) = (memory.get(CAPACITY), memory.follow(TOP)?);
        Ok([3, 4].map(|key| memory.get(word(top, ExpandCapacity::place(capacity, key)))).into())
    }

    fn judge(&self, found: &[u64], _: &[u64]) -> Result<(), String> {
        ensure(found == [3, 4], "keys are lost in an expansion")
    }
}

/// LH-13.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MoveDuplicates;

impl Program for MoveDuplicates {
    fn about(&self) -> About {
        About::new(
            "lh-13",
            BugKind::Atomicity,
            "a move sets the token at the destination, then clears the one at the source",
            "level_hashing.c:609, 665, 685, 28eca31 -> e3d067f (Witcher 19-21)",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        five_is_fifty(memory);
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        write_slot(memory, slot(bucket(1), 2), 5, 50);
        memory.order();
        if fixed {
            redo(memory, &[(bucket(1), 1 << 2), (bucket(0), 0)]);
        } else {
            memory.put_persist(bucket(1), 1 << 2);
            memory.put_persist(bucket(0), 0);
        }
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        redo_apply(memory);
        let pairs = pairs(memory, &[bucket(0), bucket(1)]);
        Ok(pairs.iter().flat_map(|&(key, value)| [key, value]).collect())
    }

    fn judge(&self, found: &[u64], _: &[u64]) -> Result<(), String> {
        ensure(found == [5, 50], "a key is not there exactly once")
    }
}

/// LH-16.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpdateLoses;

impl Program for UpdateLoses {
    fn about(&self) -> About {
        About::new(
            "lh-16",
            BugKind::Atomicity,
            "an update clears the token of the old slot before it sets that of the new one",
            "level_hashing.c:416, 444 level_update, 28eca31 -> c3dcb9b (Witcher 22-23)",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        five_is_fifty(memory);
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        for number in 0..2 {
            let (old, new) = (number, number + 1);
            write_slot(memory, slot(bucket(0), new), 5, 51 + number);
            memory.order();
            let without = memory.get(bucket(0)) & !(1 << old);
            if !fixed {
                memory.put_persist(bucket(0), without);
            }
            memory.put_persist(bucket(0), without | 1 << new);
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let pairs = pairs(memory, &[bucket(0)]);
        Ok(pairs.iter().map(|(_, value)| *value).collect())
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        updated(found, promised)
    }
}

/// LH-19.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlushLoop;

impl Program for FlushLoop {
    fn about(&self) -> About {
        About::new(
            "lh-19",
            BugKind::Flush,
            "the loop that flushes a new table starts at the local variable that points to it",
            "level_hashing.c:123, 228, 273 level_init .. level_shrink, 967d4f3 on, open",
        )
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let (table, local) = (line(10), Addr::dram(64));
        memory.put(local, table.bits());
        (0..16).for_each(|index| memory.put(word(table, index), 100 + index));
        let from = if fixed { table } else { local };
        (0..2).for_each(|number| memory.flush(from.plus(64 * number), 64));
        memory.order();
        memory.put_persist(TOP, table.bits());
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let table = memory.get(TOP);
        if table == 0 {
            return Ok(Vec::new());
        }
        Ok((0..16).map(|index| memory.get(word(Addr::from_bits(table), index))).collect())
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[Vec::new(), (100..116).collect()])
    }
}
