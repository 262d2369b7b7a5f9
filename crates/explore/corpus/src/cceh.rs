//! Bugs of CCEH, an extendible hash table, in a directory of small segments.
//!
//! "Write-Optimized Dynamic Hashing for Persistent Memory" (Nam, Cha, Choi, Noh, Nam, FAST'19), its
//! published code and the copy-on-write form in SEPH; found by Witcher (SOSP'21), PMRace
//! (ASPLOS'22) and users (CC-1 .. of our list). A segment holds keys whose top bits are its
//! pattern; the directory has 2^depth entries and may name a segment several times.

use crate::kit::{Words, ensure, inserted, line, some_state, word};
use crate::program::{About, BugKind, Found, Program};
use seawall_memory::{Addr, Memory, MemoryExt};

/// Directory entry `index`; a line each, so that a crash may part them.
const fn directory(index: u64) -> Addr {
    line(4 + index)
}

/// A segment: its depth, its pattern, then one word per key.
const fn segment(number: u64) -> Addr {
    line(10 + 2 * number)
}

const DEPTH: u64 = 2;

/// The top bits of a key of 2 bits, as many as `depth`.
const fn top(key: u64, depth: u64) -> u64 {
    key >> (DEPTH - depth)
}

/// The value of a key: none if the segment's pattern is not the key's, for then the word is stale.
fn lookup<M: Memory>(memory: &M, key: u64) -> Result<u64, String> {
    let at = memory.follow(directory(key))?;
    let (depth, pattern) = (memory.get(at), memory.get(word(at, 1)));
    let mine = depth <= DEPTH && top(key, depth) == pattern;
    Ok(if mine { memory.get(word(at, 2 + key)) } else { 0 })
}

fn one_segment<M: Memory>(memory: &M) {
    (0..4).for_each(|key| memory.put(directory(key), segment(0).bits()));
    (0..4).for_each(|key| memory.put(word(segment(0), 2 + key), 10 + key));
}

/// Fills the second segment with the upper half of the first.
fn new_half<M: Memory>(memory: &M) {
    memory.put(segment(1), 1);
    memory.put(word(segment(1), 1), 1);
    for key in [2, 3] {
        memory.put(word(segment(1), 2 + key), memory.get(word(segment(0), 2 + key)));
    }
    memory.persist(segment(1), 64);
}

/// CC-1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DepthFirst;

impl Program for DepthFirst {
    fn about(&self) -> About {
        About::new(
            "cc-1",
            BugKind::Atomicity,
            "a split makes the old segment's depth durable before the directory: keys are lost",
            "CCEH_MSB.cpp:103, :198, d53b336 (Witcher 24)",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        one_segment(memory);
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        new_half(memory);
        if !fixed {
            memory.put_persist(segment(0), 1);
        }
        for key in [2, 3] {
            memory.put_persist(directory(key), segment(1).bits());
        }
        if fixed {
            memory.put_persist(segment(0), 1);
        }
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        (0..4).map(|key| lookup(memory, key)).collect()
    }

    fn judge(&self, found: &[u64], _: &[u64]) -> Result<(), String> {
        ensure(found == [10, 11, 12, 13], "a split lost keys")
    }
}

/// CC-3.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineMask;

impl Program for LineMask {
    fn about(&self) -> About {
        About::new(
            "cc-3",
            BugKind::Flush,
            "addresses are rounded with ~64 - 1 for ~(64 - 1): every second line is missed",
            "CCEH util/persist.h clflush, 4c9a78b -> 6db158d",
        )
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let mask = if fixed { !(64u64 - 1) } else { !64u64 - 1 };
        for number in 0..3 {
            let at = line(10 + number);
            memory.put(at, 10 + number);
            memory.persist(Addr::pm(at.offset() & mask), 1);
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        Ok((0..3).map(|number| memory.get(line(10 + number))).collect())
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, promised, &[10, 11, 12])
    }
}

/// CC-4.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stride;

impl Program for Stride {
    fn about(&self) -> About {
        About::new(
            "cc-4",
            BugKind::Recovery,
            "recovery walks the directory with a wrong stride and leaves a buddy entry behind",
            "CCEH_MSB Recovery, 6db158d -> 0e2c529",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        one_segment(memory);
    }

    fn run<M: Memory>(&self, memory: &M, _: bool) {
        new_half(memory);
        for key in [2, 3] {
            memory.put_persist(directory(key), segment(1).bits());
        }
        memory.put_persist(segment(0), 1);
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, fixed: bool) -> Result<Found, String> {
        let mut index = 0;
        while index < 4 {
            let at = memory.follow(directory(index))?;
            let depth = memory.get(at);
            let shared = if fixed { 1 << (DEPTH - depth) } else { DEPTH - depth };
            let ends = (index + shared.max(1)).min(4);
            // A split that was cut short: the entries from the first of the new segment on are its.
            let mut owner = at;
            for buddy in index..ends {
                let here = memory.follow(directory(buddy))?;
                if memory.get(here) > memory.get(owner) {
                    owner = here;
                }
                memory.put_persist(directory(buddy), owner.bits());
            }
            index = ends;
        }
        if memory.get(directory(2)) != segment(0).bits() {
            memory.put_persist(segment(0), 1); // the split goes to its end
        }
        (0..4).map(|key| lookup(memory, key)).collect()
    }

    fn judge(&self, found: &[u64], _: &[u64]) -> Result<(), String> {
        ensure(found == [10, 11, 12, 13], "keys are lost in recovery")
    }
}

/// CC-6.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CapacityRead;

impl Program for CapacityRead {
    fn about(&self) -> About {
        About::new(
            "cc-6",
            BugKind::Threads,
            "memory is allocated by a capacity that is not durable, and leaks when that is lost",
            "CCEH.h:167 -> CCEH.cpp:183 (PMRace)",
        )
        .threads(2)
    }

    fn setup<M: Memory>(&self, memory: &M) {
        memory.put(line(1), 1);
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let (capacity, used) = (line(1), line(2));
        if memory.thread() == 0 {
            memory.put(capacity, 2);
            memory.persist(capacity, 8);
        } else {
            let slots = memory.get(capacity);
            if fixed {
                memory.persist(capacity, 8);
            }
            memory.put_persist(used, 1 << (slots - 1));
        }
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let (capacity, used) = (memory.get(line(1)), memory.get(line(2)));
        ensure(used >> capacity == 0, "memory beyond the capacity is in use: nobody frees it")?;
        Ok(vec![u64::from(used != 0)])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, &promised[1..], &[1])
    }
}

/// CC-7.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentLock;

impl Program for SegmentLock {
    fn about(&self) -> About {
        About::new(
            "cc-7",
            BugKind::Threads,
            "a segment's lock lies in its durable line and is never given back after a crash",
            "CCEH.h:88 (PMRace, synchronisation)",
        )
        .epochs_too()
    }

    fn run<M: Memory>(&self, memory: &M, _: bool) {
        let home = segment(0);
        for number in 0..2 {
            let _ = memory.compare_exchange(home, 0, 1);
            memory.put_persist(word(home, 2 + number), 10 + number);
            memory.put_persist(home, 0);
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, fixed: bool) -> Result<Found, String> {
        let home = segment(0);
        if fixed {
            memory.put_persist(home, 0);
        }
        let found = vec![memory.get(word(home, 2)), memory.get(word(home, 3))];
        let locked = memory.compare_exchange(home, 0, 1);
        ensure(locked.is_ok(), "the first insert after the crash waits for ever")?;
        memory.put_persist(home, 0);
        Ok(found)
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, promised, &[10, 11])
    }
}

/// CC-9.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectoryVisible;

impl Program for DirectoryVisible {
    fn about(&self) -> About {
        About::new(
            "cc-9",
            BugKind::Threads,
            "a doubled directory is visible to inserts before it is durable",
            "CCEH in SEPH, directory doubling, SEPH issue 2, open",
        )
        .threads(2)
    }

    fn setup<M: Memory>(&self, memory: &M) {
        memory.put(line(1), line(20).bits());
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let (current, old, new) = (line(1), line(20), line(22));
        if memory.thread() == 0 {
            memory.put_persist(new, memory.get(old));
            let _ = memory.compare_exchange(current, old.bits(), new.bits());
            memory.persist(current, 8);
        } else {
            let home = Addr::from_bits(memory.get(current));
            if fixed {
                memory.persist(current, 8);
            }
            memory.put_persist(word(home, 1), 77);
        }
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let home = memory.follow(line(1))?;
        let in_old = memory.get(word(line(20), 1));
        // An insert into the old directory is carried over: not what is looked at here.
        Ok(vec![memory.get(word(home, 1)).max(in_old)])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, &promised[1..], &[77])
    }
}

/// CC-10.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GetUnpersisted;

impl Program for GetUnpersisted {
    fn about(&self) -> About {
        About::new(
            "cc-10",
            BugKind::Threads,
            "a lock-free get returns an update that a crash then takes back",
            "CCEH_COW in SEPH, Get, SEPH issue 3, open",
        )
        .threads(2)
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let (value, seen) = (line(10), line(20));
        if memory.thread() == 0 {
            memory.put(value, 7);
            memory.persist(value, 8);
        } else {
            let got = memory.get(value);
            if fixed {
                memory.persist(value, 8);
            }
            memory.put_persist(seen, got);
        }
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let (value, seen) = (memory.get(line(10)), memory.get(line(20)));
        ensure(seen <= value, "a value that was read has gone")?;
        Ok(vec![value])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[0], [7]])
    }
}
