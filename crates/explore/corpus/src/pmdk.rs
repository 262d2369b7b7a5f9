//! Bugs of PMDK itself: its heap, its logs and its flush helpers.
//!
//! Sources: the history of PMDK and its issues, Witcher (SOSP'21), and the numbers of our list of
//! known bugs (PM-1 ..). Only the idea of each bug is here.

use crate::kit::{Words, ensure, inserted, line, some_state, word};
use crate::program::{About, BugKind, Found, Program};
use crate::tx::{LOG, entry, redo, redo_apply, redo_write};
use seawall_memory::{Addr, Memory, MemoryExt};

/// Units of the whole heap of chunks.
const HEAP: u64 = 8;

/// The header of the chunk that starts at `unit`: its size, times two, plus one if used.
const fn header(unit: u64) -> Addr {
    line(1 + unit)
}

/// Walks the headers; gives size and use of each chunk.
fn walk_heap<M: Memory>(memory: &M) -> Result<Found, String> {
    let (mut unit, mut found) = (0, Vec::new());
    while unit < HEAP {
        let bits = memory.get(header(unit));
        ensure(bits >= 2, "a chunk of size 0")?;
        found.push(bits);
        unit += bits / 2;
    }
    ensure(unit == HEAP, "a chunk overlaps the next one")?;
    Ok(found)
}

/// PM-1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeapSplit;

impl Program for HeapSplit {
    fn about(&self) -> About {
        About::new(
            "pm-1",
            BugKind::Order,
            "a chunk is shrunk before the header of its remainder exists: chunks overlap",
            "PMDK heap.c heap_split_block, 9f5cef3a8 -> cfafbd04c, issue 4945 (Witcher 1)",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        memory.put(header(0), 2 * HEAP);
        memory.put(header(3), 2 * HEAP); // of an earlier life
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        if fixed {
            memory.put_persist(header(3), 2 * (HEAP - 3));
            memory.put_persist(header(0), 2 * 3 + 1);
        } else {
            memory.put_persist(header(0), 2 * 3 + 1);
            memory.put_persist(header(3), 2 * (HEAP - 3));
        }
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        walk_heap(memory)
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[vec![2 * HEAP], vec![7, 2 * (HEAP - 3)]])
    }
}

/// PM-2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RedoNoDrain;

impl Program for RedoNoDrain {
    fn about(&self) -> About {
        About::new(
            "pm-2",
            BugKind::Fence,
            "the redo log is cleared without waiting for what it put in place",
            "PMDK memops.c ulog process, cfafbd04c -> dd5001272",
        )
        .epochs_too()
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        for number in 0..2 {
            redo_write(memory, &[(line(1), 10 + number), (line(2), 20 + number)]);
            for index in 0..2 {
                let at = Addr::from_bits(memory.get(entry(index)));
                memory.put_flush(at, memory.get(word(entry(index), 1)));
            }
            if fixed {
                memory.order();
            }
            memory.put_persist(LOG, 0);
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        redo_apply(memory);
        Ok(vec![memory.get(line(1)), memory.get(line(2))])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[0, 0], [10, 20], [11, 21]])
    }
}

/// PM-4.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CancelledRange;

impl Program for CancelledRange {
    fn about(&self) -> About {
        About::new(
            "pm-4",
            BugKind::Flush,
            "cancelling one new object drops its neighbour, merged with it, from the flush set",
            "PMDK tx.c pmemobj_tx_xfree, issue 5613 (DAOS-12755), open",
        )
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let (kept, cancelled) = (line(4), line(5));
        memory.put(kept, 7);
        memory.put(cancelled, 8);
        // Both are one range of 128 bytes to flush; then the second object is cancelled.
        memory.flush(kept, if fixed { 64 } else { 0 });
        memory.order();
        memory.put_persist(line(1), kept.bits());
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let root = Addr::from_bits(memory.get(line(1)));
        Ok(vec![if root.is_null() { 0 } else { memory.get(root) + 100 }])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, promised, &[107])
    }
}

/// PM-5.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coalesce;

/// The footer in the last unit of a chunk: its size.
const fn footer(unit: u64) -> Addr {
    line(20 + unit)
}

impl Program for Coalesce {
    fn about(&self) -> About {
        About::new(
            "pm-5",
            BugKind::Atomicity,
            "a free chunk is merged with the one before: header and footer change one by one",
            "PMDK pfree coalescing, 97a02847e -> 8eebb163d, PR 816",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        memory.put(header(0), 2 * 4);
        memory.put(footer(3), 4);
        memory.put(header(4), 2 * 4 + 1);
        memory.put(footer(7), 4);
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let changes = [(header(0), 2 * HEAP), (footer(7), HEAP)];
        if fixed {
            redo(memory, &changes);
        } else {
            changes.iter().for_each(|&(at, value)| memory.put_persist(at, value));
        }
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        redo_apply(memory);
        let chunks = walk_heap(memory)?;
        let mut end = 0;
        for chunk in &chunks {
            end += chunk / 2;
            ensure(memory.get(footer(end - 1)) == chunk / 2, "header and footer differ")?;
        }
        Ok(chunks)
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[vec![8, 9], vec![2 * HEAP]])
    }
}

/// PM-7.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UndoListLeak;

const ROOT: Addr = line(1);
/// The list of objects that a transaction allocated; in the line of the root, after it.
const PENDING: Addr = word(ROOT, 1);
const BITMAP: Addr = line(2);

fn object(number: u64) -> Addr {
    line(10 + number)
}

impl Program for UndoListLeak {
    fn about(&self) -> About {
        About::new(
            "pm-7",
            BugKind::Leak,
            "recovery unlinks the objects of an unfinished transaction and does not free them",
            "PMDK tx recovery of the undo set, 189467dbb -> 0a8d020be, PR 733",
        )
        .epochs_too()
    }

    fn run<M: Memory>(&self, memory: &M, _: bool) {
        for number in 0..2 {
            let at = object(number);
            memory.put_persist(PENDING, at.bits());
            memory.put_persist(BITMAP, memory.get(BITMAP) | 1 << number);
            memory.put_flush(at, memory.get(ROOT));
            memory.order();
            memory.put(ROOT, at.bits());
            memory.put(PENDING, 0);
            memory.persist(ROOT, 16);
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, fixed: bool) -> Result<Found, String> {
        let pending = memory.get(PENDING);
        if pending != 0 && pending != memory.get(ROOT) && fixed {
            let number = (pending - object(0).bits()) / 64;
            memory.put_persist(BITMAP, memory.get(BITMAP) & !(1 << number));
        }
        memory.put_persist(PENDING, 0);
        let (mut reachable, mut at) = (0u64, Addr::from_bits(memory.get(ROOT)));
        while !at.is_null() {
            reachable |= 1 << ((at.bits() - object(0).bits()) / 64);
            at = Addr::from_bits(memory.get(at));
        }
        let used = memory.get(BITMAP);
        ensure(used & !reachable == 0, "an object is used and unreachable")?;
        ensure(reachable & !used == 0, "an object is reachable and free")?;
        Ok(vec![used])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[0], [1], [3]])
    }
}

/// PM-8.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplicaLog;

impl Program for ReplicaLog {
    fn about(&self) -> About {
        About::new(
            "pm-8",
            BugKind::Recovery,
            "recovery runs before the second replica has a log context: only one is repaired",
            "PMDK obj.c replica init, bbe4ff3ee -> 63b25b30b",
        )
        .epochs_too()
    }

    fn run<M: Memory>(&self, memory: &M, _: bool) {
        for number in 0..2 {
            redo(memory, &[(line(1), 10 + number), (line(2), 10 + number)]);
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, fixed: bool) -> Result<Found, String> {
        for replica in 0..memory.get(LOG) {
            if fixed || replica == 0 {
                let at = Addr::from_bits(memory.get(entry(replica)));
                memory.put_flush(at, memory.get(word(entry(replica), 1)));
            }
        }
        memory.order();
        memory.put_persist(LOG, 0);
        Ok(vec![memory.get(line(1)), memory.get(line(2))])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[0, 0], [10, 10], [11, 11]])
    }
}

/// PM-11.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeepFlush;

impl Program for DeepFlush {
    fn about(&self) -> About {
        About::new(
            "pm-11",
            BugKind::Flush,
            "a deep flush starts at the start of the mapping, not of the range",
            "PMDK libpmem2 deep_flush, 9aa5ebe0c -> 885a99eea",
        )
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let map = line(8);
        for number in 0..3 {
            let at = map.plus(128 * number);
            memory.put(at, 10 + number);
            memory.persist(if fixed { at } else { map }, 64);
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        Ok((0..3).map(|number| memory.get(line(8 + 2 * number))).collect())
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, promised, &[10, 11, 12])
    }
}

/// PM-14.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LazyReclaim;

const UNITS: u64 = 4;

impl Program for LazyReclaim {
    fn about(&self) -> About {
        About::new(
            "pm-14",
            BugKind::Atomicity,
            "free and reserve before a zone is reclaimed after restart: one unit is given twice",
            "PMDK lazily reclaimed zones, f3971b135 -> b1d9a57f0, PR 5470",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        memory.put(BITMAP, 1);
    }

    fn run<M: Memory>(&self, memory: &M, _: bool) {
        memory.put_persist(BITMAP, 0b11);
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, fixed: bool) -> Result<Found, String> {
        let used = memory.get(BITMAP);
        let mut free = Vec::new();
        memory.put_persist(BITMAP, used & !1); // the program frees unit 0
        if !fixed {
            free.push(0);
        }
        let zone_bits = memory.get(BITMAP); // only now the zone is reclaimed
        free.extend((0..UNITS).filter(|unit| zone_bits & 1 << unit == 0));
        let doubly = free.iter().any(|unit| free.iter().filter(|other| *other == unit).count() > 1);
        ensure(!doubly, "a unit stands in the free list twice")?;
        Ok(vec![used & 0b10])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, promised, &[0b10])
    }
}
