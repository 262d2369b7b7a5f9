//! Bugs of logs and of recovery from them; most of the second kind need a crash of recovery.
//!
//! The classes are those of the patches that PMTest (ASPLOS'19) and XFDetector (ASPLOS'20) ship
//! and of fixes in PMDK; the programs are ours. A log here: its length, then entries.

use crate::kit::{Words, ensure, inserted, line, some_state, word};
use crate::program::{About, BugKind, Found, Program};
use crate::tx::{LOG, entry, redo_apply, undo_add, undo_rollback};
use seawall_memory::{Addr, Memory, MemoryExt};

const A: Addr = line(1);
const B: Addr = line(2);

/// A transaction under an undo log, with a mistake in how the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UndoWrite {
    CountFirst,
    DataFirst,
    NoFence,
    NotCleared,
}

impl UndoWrite {
    fn add<M: Memory>(self, memory: &M, at: Addr, fixed: bool) {
        if fixed || !matches!(self, UndoWrite::CountFirst | UndoWrite::NoFence) {
            return undo_add(memory, at);
        }
        let length = memory.get(LOG);
        if self == UndoWrite::CountFirst {
            memory.put_persist(LOG, length + 1);
        }
        memory.put(entry(length), at.bits());
        memory.put(word(entry(length), 1), memory.get(at));
        memory.flush(entry(length), 16);
        if self == UndoWrite::CountFirst {
            memory.order();
        } else {
            memory.put_flush(LOG, length + 1);
        }
    }
}

impl Program for UndoWrite {
    fn about(&self) -> About {
        let (name, kind, what, source) = match self {
            UndoWrite::CountFirst => (
                "log-count",
                BugKind::Order,
                "the length of an undo log is durable before the entry it counts",
                "class of PMTest's swapped persists (pmtest/patch hashmap_tx, btree)",
            ),
            UndoWrite::DataFirst => (
                "log-late",
                BugKind::Log,
                "a word is changed, and then added to the transaction",
                "class of PMTest's misplaced TX_ADD (pmtest/patch btree, ctree)",
            ),
            UndoWrite::NoFence => (
                "log-fence",
                BugKind::Fence,
                "nothing orders an undo entry before the change that it is to undo",
                "class of PMTest's missing persist barriers; PMDK ulog, PR 3820",
            ),
            UndoWrite::NotCleared => (
                "log-kept",
                BugKind::Log,
                "a transaction ends without clearing its log: recovery undoes what completed",
                "class of PMTest's unterminated transactions",
            ),
        };
        About::new(name, kind, what, source).epochs_too()
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        for number in 0..2 {
            let late = *self == UndoWrite::DataFirst && !fixed;
            for at in [A, B] {
                if late {
                    memory.put_flush(at, 10 + number);
                }
                self.add(memory, at, fixed);
                if !late {
                    memory.put_flush(at, 10 + number);
                }
            }
            memory.drain();
            if fixed || *self != UndoWrite::NotCleared {
                memory.put_persist(LOG, 0);
            }
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        undo_rollback(memory);
        Ok(vec![memory.get(A), memory.get(B)])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[0, 0], [10, 10], [11, 11]])
    }
}

/// A record that is found by its checksum, with a mistake in what the checksum is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    NoChecksum,
    LengthLeftOut,
}

/// Record `number`: length, two words, checksum; from the middle of a line into the next.
const fn record(number: u64) -> Addr {
    line(10 + 2 * number).plus(48)
}

/// What a record says, as one number.
fn meaning(words: [u64; 3]) -> u64 {
    let valid = words[1..].iter().take(words[0] as usize);
    10 * valid.sum::<u64>() + words[0]
}

/// What an older log left at record `number`, and what is written there.
const fn old_and_new(number: u64) -> ([u64; 3], [u64; 3]) {
    ([1, 20 + number, 0], [2, 20 + number, 30 + number])
}

impl Record {
    fn sum(self, words: [u64; 3], fixed: bool) -> u64 {
        let covered = if self == Record::LengthLeftOut && !fixed { &words[1..] } else { &words };
        covered.iter().fold(0x51ed, |sum: u64, word| (sum ^ word).wrapping_mul(0x100_0000_01b3))
    }

    fn write<M: Memory>(self, memory: &M, number: u64, words: [u64; 3], fixed: bool) {
        let sum = [self.sum(words, fixed)];
        let bytes: Vec<u8> = words.iter().chain(&sum).flat_map(|word| word.to_le_bytes()).collect();
        memory.write(record(number), &bytes);
        memory.persist(record(number), 32);
    }
}

impl Program for Record {
    fn about(&self) -> About {
        let (name, what, source) = match self {
            Record::NoChecksum => (
                "torn-record",
                "a record of 32 bytes over two lines is taken as whole when its length is there",
                "class of torn log entries, as PMDK and NOVA-Fortis keep checksums for",
            ),
            Record::LengthLeftOut => (
                "torn-length",
                "a checksum leaves out the length: half a new record makes an old one longer",
                "class of HSE issue 471 (Pathfinder): header fields and their checksum",
            ),
        };
        About::new(name, BugKind::Tearing, what, source).epochs_too()
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        for number in 0..2 {
            self.write(memory, number, old_and_new(number).0, fixed);
        }
        memory.output(0);
        for number in 0..2 {
            self.write(memory, number, old_and_new(number).1, fixed);
            memory.output(1 + number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, fixed: bool) -> Result<Found, String> {
        let read = |number| {
            let words = [0, 1, 2].map(|index| memory.get(word(record(number), index)));
            let is_whole = match self {
                Record::NoChecksum if !fixed => words[0] != 0,
                _ => memory.get(word(record(number), 3)) == self.sum(words, fixed),
            };
            if is_whole { meaning(words) } else { 0 }
        };
        Ok((0..2).map(read).collect())
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        for (number, &value) in (0..).zip(found) {
            let (old, new) = old_and_new(number);
            let whole = [meaning(old), meaning(new)].contains(&value);
            ensure(whole || value == 0, "a record that was never written")?;
            let is_new = value == meaning(new);
            ensure(is_new || promised[0] < 2 + number, "a completed record is lost")?;
        }
        Ok(())
    }
}

/// A log of what to add, applied by recovery only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplayTwice;

/// The sum and, in the same word, the number of the last entry in it.
const fn sum_with(sum: u64, last: u64) -> u64 {
    last << 32 | sum
}

impl Program for ReplayTwice {
    fn about(&self) -> About {
        About::new(
            "redo-adds",
            BugKind::Recovery,
            "a redo log says what to add: a recovery that is cut short adds it twice",
            "class: recovery that is not idempotent (XFDetector, failures in recovery)",
        )
        .nested()
        .epochs_too()
    }

    fn run<M: Memory>(&self, memory: &M, _: bool) {
        for number in 0..3 {
            memory.put_persist(entry(number), 5);
            memory.put_persist(LOG, number + 1);
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, fixed: bool) -> Result<Found, String> {
        for number in 0..memory.get(LOG) {
            let (sum, last) = (memory.get(A) & 0xffff_ffff, memory.get(A) >> 32);
            if !fixed || number >= last {
                memory.put_persist(A, sum_with(sum + memory.get(entry(number)), number + 1));
            }
        }
        memory.put_persist(LOG, 0);
        Ok(vec![memory.get(A) & 0xffff_ffff])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[0], [5], [10], [15]])
    }
}

/// A rollback that is right if it is left to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rollback {
    ClearsEarly,
    NotFlushed,
    Swaps,
}

impl Rollback {
    /// The mistake, at one entry.
    fn entry<M: Memory>(self, memory: &M, at: Addr, old: Addr) {
        match self {
            Rollback::ClearsEarly => memory.put_flush(at, memory.get(old)),
            Rollback::NotFlushed => memory.put(at, memory.get(old)),
            Rollback::Swaps => {
                let new = memory.get(at);
                memory.put_persist(at, memory.get(old));
                memory.put_persist(old, new);
            }
        }
    }
}

impl Program for Rollback {
    fn about(&self) -> About {
        let recovery = BugKind::Recovery;
        match self {
            Rollback::ClearsEarly => About::new(
                "undo-clears",
                recovery,
                "recovery clears the undo log without waiting for what it brought back",
                "PMDK cfafbd04c -> dd5001272 (PM-2), as it is in recovery",
            )
            .nested()
            .epochs_too(),
            Rollback::NotFlushed => About::new(
                "undo-unflushed",
                recovery,
                "recovery does not flush what it brought back, and clears the undo log",
                "class of XFDetector's failures in recovery (hashmap_atomic, redis_init)",
            )
            .nested(),
            Rollback::Swaps => About::new(
                "undo-swaps",
                recovery,
                "recovery exchanges old and new words, to keep both: the second time it redoes",
                "class: recovery that is not idempotent (XFDetector, failures in recovery)",
            )
            .nested()
            .epochs_too(),
        }
    }

    fn run<M: Memory>(&self, memory: &M, _: bool) {
        for number in 0..2 {
            for at in [A, B] {
                undo_add(memory, at);
                memory.put_flush(at, memory.get(at) + 5);
            }
            memory.drain();
            memory.put_persist(LOG, 0);
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, fixed: bool) -> Result<Found, String> {
        if fixed {
            undo_rollback(memory);
        }
        for index in (0..memory.get(LOG)).rev() {
            let at = Addr::from_bits(memory.get(entry(index)));
            self.entry(memory, at, word(entry(index), 1));
        }
        if *self != Rollback::ClearsEarly {
            memory.order();
        }
        memory.put_persist(LOG, 0);
        Ok(vec![memory.get(A), memory.get(B)])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[0, 0], [5, 5], [10, 10]])
    }
}

/// The count of a map, rebuilt when it is marked dirty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirtyClearedFirst;

const COUNT: Addr = line(3);
const DIRTY: Addr = line(4);

impl Program for DirtyClearedFirst {
    fn about(&self) -> About {
        About::new(
            "dirty-first",
            BugKind::Recovery,
            "recovery clears the dirty mark of a count before the count is rebuilt",
            "class of XFDetector's semantic bugs (xfdetector/patch hashmap_atomic)",
        )
        .nested()
        .epochs_too()
    }

    fn run<M: Memory>(&self, memory: &M, _: bool) {
        for number in 0..2 {
            memory.put_persist(DIRTY, 1);
            memory.put_persist(line(10 + number), 10 + number);
            memory.put_persist(COUNT, number + 1);
            memory.put_persist(DIRTY, 0);
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, fixed: bool) -> Result<Found, String> {
        let found = vec![memory.get(line(10)), memory.get(line(11))];
        let real = found.iter().filter(|value| **value != 0).count() as u64;
        if memory.get(DIRTY) == 1 {
            if !fixed {
                memory.put_persist(DIRTY, 0);
            }
            memory.put_persist(COUNT, real);
            memory.put_persist(DIRTY, 0);
        }
        ensure(memory.get(COUNT) == real, "the count differs from the number of entries")?;
        Ok(found)
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, promised, &[10, 11])
    }
}

/// An undo log with two entries for one word.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UndoForwards;

impl Program for UndoForwards {
    fn about(&self) -> About {
        About::new(
            "undo-order",
            BugKind::Recovery,
            "rollback goes forwards: a word that was added twice gets its second value",
            "class of PMTest's double logging (pmtest/patch, real bugs in btree and rbtree)",
        )
        .epochs_too()
    }

    fn run<M: Memory>(&self, memory: &M, _: bool) {
        for value in [10, 20] {
            undo_add(memory, A);
            memory.put_flush(A, value);
        }
        memory.drain();
        memory.put_persist(LOG, 0);
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, fixed: bool) -> Result<Found, String> {
        if fixed {
            undo_rollback(memory);
        } else {
            redo_apply(memory); // the same log, forwards
        }
        Ok(vec![memory.get(A)])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, promised, &[20])
    }
}

/// An allocator whose recovery frees unreachable memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReserveLeak;

impl Program for ReserveLeak {
    fn about(&self) -> About {
        About::new(
            "alloc-leak",
            BugKind::Leak,
            "an object is allocated, then linked: a crash between leaks it, and no scan finds it",
            "class of PMRace's and Mumak's leaks (P-CLHT :808, PMDK allocation outside of publish)",
        )
        .epochs_too()
    }

    fn run<M: Memory>(&self, memory: &M, _: bool) {
        for number in 0..3 {
            let node = line(10 + number);
            memory.put_persist(B, memory.get(B) + 1); // nodes in use
            memory.put_persist(node, memory.get(A));
            memory.put_persist(A, node.bits());
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, fixed: bool) -> Result<Found, String> {
        let (mut reachable, mut at) = (0, memory.get(A));
        while at != 0 {
            reachable += 1;
            at = memory.get(Addr::from_bits(at));
        }
        if fixed {
            memory.put_persist(B, reachable);
        }
        ensure(memory.get(B) == reachable, "a node is in use that nothing points to")?;
        Ok(vec![reachable])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[0], [1], [2], [3]])
    }
}
