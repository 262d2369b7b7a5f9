//! What a crash leaves of the table, and how it becomes usable: locks, counters and lines that
//! nobody holds do not survive.

use super::{
    FIRST_LINE, FREED, OLDEST, RESIZE_LOCK, ROOT, SLOTS, Table, UNFLUSHED, UNLOCKED, UNUSED, hash,
    key_at, next, value_at,
};
use crate::kit::{Words, ensure, line};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use std::collections::BTreeSet;

/// The table that the root names.
pub(super) fn live_table<M: Memory>(memory: &M) -> Result<Table, String> {
    let at = Addr::from_bits(memory.follow(ROOT)?.bits() & !UNFLUSHED);
    let end = memory.get(UNUSED);
    let is_object = |at: Addr| at >= line(FIRST_LINE) && at == at.line().start();
    ensure(is_object(at) && at.bits() < end, "the root names no table")?;
    let table = Table(at);
    let buckets = memory.get(table.mask()).wrapping_add(1);
    ensure(buckets.is_power_of_two(), "the buckets of a table are not a power of two")?;
    let first = at.plus(LINE_BYTES * Table::HEADER_LINES);
    ensure(memory.get(table.buckets()) == first.bits(), "a table has lost its buckets")?;
    let last = LINE_BYTES.checked_mul(buckets).map(|bytes| first.bits() + bytes);
    ensure(last.is_some_and(|last| last <= end), "a table ends outside of the pool")?;
    Ok(table)
}

/// The chains of a table, from its first bucket to its last; adds its lines to `used`.
fn chains<M: Memory>(
    memory: &M,
    table: Table,
    used: &mut BTreeSet<Addr>,
) -> Result<Vec<Vec<Addr>>, String> {
    let (end, buckets) = (Addr::from_bits(memory.get(UNUSED)), 1 + memory.get(table.mask()));
    used.extend((0..Table::HEADER_LINES).map(|number| table.0.plus(LINE_BYTES * number)));
    let firsts: Vec<Addr> = (0..buckets).map(|number| table.bucket(memory, number)).collect();
    used.extend(&firsts);
    let chain = |first: Addr| {
        let mut buckets = vec![first];
        let mut at = Addr::from_bits(memory.get(next(first)));
        while !at.is_null() {
            let is_line = at >= line(FIRST_LINE) && at == at.line().start() && at < end;
            ensure(is_line, "a chain goes on at what is no bucket")?;
            ensure(used.insert(at), "a bucket is in two chains")?;
            buckets.push(at);
            at = Addr::from_bits(memory.get(next(at)));
        }
        Ok(buckets)
    };
    firsts.into_iter().map(chain).collect()
}

/// Frees all lines but these: old tables, one that was being made, and what was not linked yet.
fn free_all_but<M: Memory>(memory: &M, used: &BTreeSet<Addr>) {
    let end = used.last().map_or(line(FIRST_LINE), |last| last.plus(LINE_BYTES));
    let allocated = memory.get(UNUSED) / LINE_BYTES;
    let mut freed = Addr::NULL;
    for free in (FIRST_LINE..allocated).map(line).filter(|line| !used.contains(line)) {
        memory.write(free, &[0; LINE_BYTES as usize]);
        if free < end {
            memory.put(next(free), freed.bits());
            freed = free;
        }
        memory.flush(free, LINE_BYTES);
    }
    memory.drain(); // before lines count as never used
    memory.put_flush(FREED, freed.bits());
    memory.put_persist(UNUSED, end.bits());
}

/// The tables that were replaced are in a list, from the table in use to the oldest one.
fn check_old_tables<M: Memory>(memory: &M, table: Table) -> Result<(), String> {
    let (oldest, mut newer) = (memory.get(OLDEST), table);
    while newer.0.bits() != oldest {
        let older = Table(memory.follow(newer.previous())?);
        let successor = memory.get(older.successor());
        ensure(successor == newer.0.bits(), "an old table was replaced by another one")?;
        let version = memory.get(older.version()).wrapping_add(1);
        ensure(version == memory.get(newer.version()), "a version of the table is missing")?;
        newer = older;
    }
    ensure(memory.get(newer.previous()) == 0, "there is a table before the oldest one")
}

/// Drops a resize that had not come to the swap, frees what the table in use does not hold, and
/// opens all locks.
pub(super) fn recover<M: Memory>(memory: &M) -> Result<(), String> {
    let table = live_table(memory)?;
    let mut used = BTreeSet::new();
    let chains = chains(memory, table, &mut used)?;
    for bucket in chains.iter().flatten() {
        memory.put_flush(*bucket, UNLOCKED);
    }
    let expansions: usize = chains.iter().map(|chain| chain.len() - 1).sum();
    memory.put(table.expansions(), expansions as u64);
    for of_resize in [table.coming(), table.successor(), table.helper()] {
        memory.put(of_resize, 0);
    }
    memory.flush(table.expansions(), LINE_BYTES);
    memory.put_flush(table.previous(), 0);
    memory.put_flush(ROOT, table.0.bits());
    memory.put(RESIZE_LOCK, UNLOCKED);
    memory.put(OLDEST, table.0.bits());
    memory.flush(RESIZE_LOCK, LINE_BYTES);
    memory.drain();
    free_all_but(memory, &used);
    Ok(())
}

/// All entries, and a check of what holds while nobody uses the table.
pub(super) fn entries<M: Memory>(memory: &M) -> Result<Vec<(u64, u64)>, String> {
    let table = live_table(memory)?;
    let (mut used, mut entries) = (BTreeSet::new(), Vec::new());
    let chains = chains(memory, table, &mut used)?;
    for (number, chain) in chains.iter().enumerate() {
        ensure(memory.get(chain[0]) == UNLOCKED, "a bucket is locked")?;
        for (bucket, slot) in chain.iter().flat_map(|at| (0..SLOTS).map(move |s| (*at, s))) {
            let key = memory.get(key_at(bucket, slot));
            if key != 0 {
                let place = hash(key) & memory.get(table.mask());
                ensure(place == number as u64, "a key is in a wrong chain")?;
                let value = memory.get(value_at(bucket, slot));
                ensure(value != 0, "a key has no value")?;
                entries.push((key, value));
            }
        }
    }
    let expansions: usize = chains.iter().map(|chain| chain.len() - 1).sum();
    let counted = memory.get(table.expansions());
    ensure(counted == expansions as u64, "overflow buckets are miscounted")?;
    check_old_tables(memory, table)?;
    Ok(entries)
}
