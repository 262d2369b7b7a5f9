//! Bugs of P-CLHT, RECIPE's hash table with a line per bucket.
//!
//! RECIPE (SOSP'19); found by Witcher (SOSP'21), Jaaru (ASPLOS'21), PMRace (ASPLOS'22), and in
//! issues of RECIPE (RC- of our list). A bucket here: lock, two keys with their values, next.

use crate::kit::{Words, ensure, inserted, line, some_state, word};
use crate::program::{About, BugKind, Found, Program};
use crate::tx::{redo, redo_apply};
use seawall_memory::{Addr, Memory, MemoryExt};

/// Where the pointer to the table in use is.
const TABLE: Addr = line(1);
/// Which tables are allocated, a bit each.
const USED: Addr = line(2);

const fn table(number: u64) -> Addr {
    line(10 + 2 * number)
}

/// RC-2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResizeSwap;

impl Program for ResizeSwap {
    fn about(&self) -> About {
        About::new(
            "rc-2",
            BugKind::Threads,
            "a resize shows the new table, then flushes its pointer: inserts between are lost",
            "RECIPE clht_lb_res.c resize, ccb31d9 -> 94dc38f",
        )
        .threads(2)
    }

    fn setup<M: Memory>(&self, memory: &M) {
        memory.put(TABLE, table(0).bits());
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let lock = Addr::dram(0);
        while memory.compare_exchange(lock, 0, 1).is_err() {
            memory.spin_while(lock, 1);
        }
        if memory.thread() == 0 {
            memory.put_persist(word(table(1), 1), memory.get(word(table(0), 1)));
            memory.put(TABLE, table(1).bits());
            if fixed {
                memory.persist(TABLE, 8);
            }
            let _ = memory.swap(lock, 0);
            memory.persist(TABLE, 8);
        } else {
            let home = Addr::from_bits(memory.get(TABLE));
            memory.put_persist(word(home, 1), 77);
            let _ = memory.swap(lock, 0);
        }
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let home = memory.follow(TABLE)?;
        Ok(vec![memory.get(word(home, 1))])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        inserted(found, &promised[1..], &[77])
    }
}

/// RC-3.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OffsetFlushed;

impl Program for OffsetFlushed {
    fn about(&self) -> About {
        About::new(
            "rc-3",
            BugKind::Flush,
            "a new bucket is named by its offset in the table, and the flush takes the offset bare",
            "RECIPE clht (pmdk branch) :177, 53923cf (Witcher 31)",
        )
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let first = table(0);
        for number in 0..2 {
            let offset = 128 * (1 + number);
            let new = first.plus(offset);
            memory.put(new, 10 + number);
            memory.put(word(new, 1), memory.get(first));
            memory.flush(if fixed { new } else { Addr::pm(offset) }, 16);
            memory.order();
            memory.put_persist(first, offset);
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        let (first, mut found) = (table(0), Vec::new());
        let mut offset = memory.get(first);
        while offset != 0 {
            found.insert(0, memory.get(first.plus(offset)));
            offset = memory.get(word(first.plus(offset), 1));
        }
        Ok(found)
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[vec![], vec![10], vec![10, 11]])
    }
}

/// RC-5.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OldestFreed;

impl Program for OldestFreed {
    fn about(&self) -> About {
        About::new(
            "rc-5",
            BugKind::Recovery,
            "the oldest table is freed and the pointer to it kept: a restart frees it again",
            "RECIPE clht_gc.c:183-196, 05a49d7, issue 24",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        memory.put(TABLE, table(0).bits()); // here the oldest one
        memory.put(table(0), table(1).bits());
        memory.put(table(1), table(2).bits());
        memory.put(USED, 0b111);
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        for number in 0..2 {
            let (next, used) = (table(number + 1).bits(), memory.get(USED) & !(1 << number));
            if fixed {
                redo(memory, &[(USED, used), (TABLE, next)]);
            } else {
                memory.put_persist(USED, used);
                memory.put_persist(TABLE, next);
            }
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        redo_apply(memory);
        let oldest = (memory.get(TABLE) - table(0).bits()) / 128;
        ensure(memory.get(USED) & 1 << oldest != 0, "a table is freed twice")?;
        Ok(vec![oldest])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[0], [1], [2]])
    }
}

/// RC-6.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BucketLock;

impl Program for BucketLock {
    fn about(&self) -> About {
        About::new(
            "rc-6",
            BugKind::Threads,
            "a bucket's lock lies beside its keys, survives, and no recovery opens it: a hang",
            "RECIPE clht_lb_res.h:311, issue 19 (PMRace, synchronisation)",
        )
        .threads(2)
        .epochs_too()
    }

    fn run<M: Memory>(&self, memory: &M, _: bool) {
        let bucket = table(0);
        while memory.compare_exchange(bucket, 0, 1).is_err() {
            memory.spin_while(bucket, 1);
        }
        memory.put_persist(word(bucket, 1 + memory.thread() as u64), 10);
        memory.order();
        memory.put_persist(bucket, 0);
        memory.output(0);
    }

    fn recover<M: Memory>(&self, memory: &M, fixed: bool) -> Result<Found, String> {
        let bucket = table(0);
        if fixed {
            memory.put_persist(bucket, 0);
        }
        memory.spin_while(bucket, 1);
        Ok(vec![memory.get(word(bucket, 1)), memory.get(word(bucket, 2))])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        let kept = |thread: usize| promised[thread] == 0 || found[thread] == 10;
        ensure(kept(0) && kept(1), "a completed insert is lost")
    }
}

/// RC-8.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableLeak;

impl Program for TableLeak {
    fn about(&self) -> About {
        About::new(
            "rc-8",
            BugKind::Leak,
            "a crash between the allocation of a new table and the swap leaks it; so after it",
            "RECIPE clht_lb_res.c:808 table_new, :320 table_off (PMRace)",
        )
        .epochs_too()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        memory.put(USED, 1);
        memory.put(TABLE, table(0).bits());
    }

    fn run<M: Memory>(&self, memory: &M, _: bool) {
        for number in 0..2 {
            memory.put_persist(USED, memory.get(USED) | 1 << (number + 1));
            memory.put_persist(table(number + 1), 10 + number);
            memory.put_persist(TABLE, table(number + 1).bits());
            memory.put_persist(USED, memory.get(USED) & !(1 << number));
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, fixed: bool) -> Result<Found, String> {
        let current = (memory.get(TABLE) - table(0).bits()) / 128;
        if fixed {
            memory.put_persist(USED, 1 << current);
        }
        ensure(memory.get(USED) == 1 << current, "a table is allocated and unreachable")?;
        Ok(vec![current])
    }

    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        some_state(found, promised, &[[0], [1], [2]])
    }
}
