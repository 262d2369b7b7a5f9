//! P-CLHT: a hash table with a line per bucket that grows while threads use it, and its bug.
//!
//! CLHT-LB-RES (David, Guerraoui, Trigonakis, ASPLOS'15) in the form that RECIPE (Lee et al.,
//! SOSP'19) gave it for persistent memory. A bucket is a lock, three keys, three values and the
//! next bucket of its chain. An update locks the first bucket of the chain and makes durable what
//! it changed before it unlocks; a look-up takes no lock. Too many overflow buckets lead to a table
//! of twice the size: a thread locks each old bucket for ever while it copies the chain, and swaps
//! the pointer to the table. A thread that meets such a lock copies buckets from the other end,
//! then waits for the swap.
//!
//! The bug (RC-2, RECIPE clht_lb_res.c, ccb31d9 -> 94dc38f): the swap is seen before it is durable.
//! A thread that starts an operation in between completes it in a table that a crash takes away.
//! Here the fixed form marks the pointer until it is durable, and whoever meets the mark makes it
//! so (link-and-persist: David et al., "Log-Free Concurrent Data Structures", ATC'18).

mod recovery;

use super::Index;
use crate::kit::{Words, line, word};
use crate::program::{About, BugKind};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use std::iter;

const POOL_LINES: u64 = 1024;

/// The root object: the pointer to the table in use, alone in its line.
const ROOT: Addr = line(1);
/// Its second line: who resizes, and the oldest table that is not freed.
const RESIZE_LOCK: Addr = line(2);
const OLDEST: Addr = word(RESIZE_LOCK, 1);
/// The allocator: lines from the first one that was never used, and a list of freed lines. All of
/// them are zero but for the link to the next one.
const UNUSED: Addr = line(3);
const FREED: Addr = line(4);
const FIRST_LINE: u64 = 5;

/// A bit of the pointer to the table: it may not be durable.
const UNFLUSHED: u64 = 1;

const UNLOCKED: u64 = 0;
const LOCKED: u64 = 1;
/// A bucket that is copied to the next table, and stays locked.
const RESIZED: u64 = 2;

/// Keys of a bucket; key 0 is none.
const SLOTS: u64 = 3;
const FIRST_BUCKETS: u64 = 2;
/// Buckets of a chain up to which a table is good enough.
const CHAIN_MAX: u64 = 3;

/// What a helper of a resize has come to.
const HELPING: u64 = 1;
const HELPED: u64 = 2;

/// The table, with what threads find before they start and what each of them does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clht {
    entries_before: u64,
    operations: u64,
}

impl Clht {
    /// The first table is full and grows.
    pub(crate) const USUAL: Clht = Clht { entries_before: 8, operations: 3 };
}

/// A hash table: a line that does not change once the table is in use, a line about its resize,
/// and the buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Table(Addr);

impl Table {
    const HEADER_LINES: u64 = 2;

    fn buckets(self) -> Addr {
        self.0
    }

    /// The number of buckets less 1: what of a hash tells them apart.
    fn mask(self) -> Addr {
        word(self.0, 1)
    }

    /// The number of resizes that led to it.
    fn version(self) -> Addr {
        word(self.0, 2)
    }

    /// The table before it.
    fn previous(self) -> Addr {
        word(self.0, 3)
    }

    /// Overflow buckets.
    fn expansions(self) -> Addr {
        self.0.plus(LINE_BYTES)
    }

    /// The table that this one is being copied to.
    fn coming(self) -> Addr {
        word(self.expansions(), 1)
    }

    /// The table that took its place.
    fn successor(self) -> Addr {
        word(self.expansions(), 2)
    }

    fn helper(self) -> Addr {
        word(self.expansions(), 3)
    }

    /// Makes an empty table; it is durable with the next drain.
    fn create<M: Memory>(memory: &M, buckets: u64, version: u64, previous: Addr) -> Table {
        let table = Table(allocate(memory, Table::HEADER_LINES + buckets));
        memory.put(table.buckets(), table.0.plus(LINE_BYTES * Table::HEADER_LINES).bits());
        memory.put(table.mask(), buckets - 1);
        memory.put(table.version(), version);
        memory.put(table.previous(), previous.bits());
        memory.flush(table.0, LINE_BYTES);
        table
    }

    fn bucket<M: Memory>(self, memory: &M, number: u64) -> Addr {
        Addr::from_bits(memory.get(self.buckets())).plus(LINE_BYTES * number)
    }

    fn bucket_of<M: Memory>(self, memory: &M, key: u64) -> Addr {
        self.bucket(memory, hash(key) & memory.get(self.mask()))
    }

    /// Whether so many overflow buckets call for a larger table.
    fn is_overfull<M: Memory>(self, memory: &M, expansions: u64) -> bool {
        expansions > memory.get(self.mask()).div_ceil(2)
    }
}

fn hash(key: u64) -> u64 {
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32
}

/// A bucket starts with its lock.
fn key_at(bucket: Addr, slot: u64) -> Addr {
    word(bucket, 1 + slot)
}

fn value_at(bucket: Addr, slot: u64) -> Addr {
    word(bucket, 1 + SLOTS + slot)
}

/// The next bucket of a chain, or the next freed line.
fn next(bucket: Addr) -> Addr {
    word(bucket, 7)
}

/// The buckets of a chain.
fn chain<M: Memory>(memory: &M, first: Addr) -> impl Iterator<Item = Addr> {
    iter::successors(Some(first), |bucket| match memory.get(next(*bucket)) {
        0 => None,
        bits => Some(Addr::from_bits(bits)),
    })
}

/// Takes lines that are zero. A crash before they are linked gives them back, by recovery.
fn allocate<M: Memory>(memory: &M, lines: u64) -> Addr {
    let freed = if lines == 1 { take_freed(memory) } else { None };
    freed.unwrap_or_else(|| {
        let at = Addr::from_bits(memory.fetch_add(UNUSED, lines * LINE_BYTES));
        assert!(at.plus(lines * LINE_BYTES) <= line(POOL_LINES), "the pool is full");
        memory.persist(UNUSED, 8);
        at
    })
}

/// The first freed line. It cannot come back while a thread takes it, as only recovery frees.
fn take_freed<M: Memory>(memory: &M) -> Option<Addr> {
    loop {
        let freed = Some(memory.get(FREED)).filter(|bits| *bits != 0).map(Addr::from_bits)?;
        if memory.compare_exchange(FREED, freed.bits(), memory.get(next(freed))).is_ok() {
            memory.persist(FREED, 8);
            memory.put(next(freed), 0);
            return Some(freed);
        }
    }
}

/// The table in use.
fn current<M: Memory>(memory: &M, fixed: bool) -> Table {
    let bits = memory.get(ROOT);
    if fixed && bits & UNFLUSHED != 0 {
        memory.persist(ROOT, 8);
        let _ = memory.compare_exchange(ROOT, bits, bits & !UNFLUSHED);
    }
    Table(Addr::from_bits(bits & !UNFLUSHED))
}

/// Locks a bucket of the table; false if it has moved to the next table, which then is in use.
fn lock<M: Memory>(memory: &M, table: Table, bucket: Addr) -> bool {
    loop {
        match memory.compare_exchange(bucket, UNLOCKED, LOCKED) {
            Ok(_) => return true,
            Err(RESIZED) => {
                help(memory, table);
                memory.spin_while(table.successor(), 0);
                return false;
            }
            Err(_) => drop(memory.spin_while(bucket, LOCKED)),
        }
    }
}

/// Locks the chain of a key; gives the table and the first bucket.
fn lock_chain<M: Memory>(memory: &M, key: u64, fixed: bool) -> (Table, Addr) {
    loop {
        let table = current(memory, fixed);
        let first = table.bucket_of(memory, key);
        if lock(memory, table, first) {
            return (table, first);
        }
    }
}

fn unlock<M: Memory>(memory: &M, first: Addr) {
    memory.put(first, UNLOCKED);
}

/// What a chain has for a key.
enum Place {
    /// The key is there.
    Taken(Addr, u64),
    /// It is not, and this slot is empty.
    Empty(Addr, u64),
    /// It is not, and all slots are taken: the last bucket, and buckets.
    Full(Addr, u64),
}

/// Looks for a key in a chain that no other thread changes.
fn find<M: Memory>(memory: &M, first: Addr, wanted: u64) -> Place {
    let (mut place, mut buckets) = (Place::Full(first, 0), 0);
    for bucket in chain(memory, first) {
        buckets += 1;
        for slot in 0..SLOTS {
            match memory.get(key_at(bucket, slot)) {
                key if key == wanted => return Place::Taken(bucket, slot),
                0 if !matches!(place, Place::Empty(..)) => place = Place::Empty(bucket, slot),
                _ => {}
            }
        }
        if let Place::Full(..) = place {
            place = Place::Full(bucket, buckets);
        }
    }
    place
}

/// Puts an entry in an empty slot. What a line holds persists in order, so the key comes last.
fn fill<M: Memory>(memory: &M, bucket: Addr, slot: u64, key: u64, value: u64) {
    memory.put(value_at(bucket, slot), value);
    memory.put(key_at(bucket, slot), key);
}

/// Adds a bucket with one entry to the end of a chain; gives the overflow buckets of the table.
fn extend<M: Memory>(memory: &M, table: Table, last: Addr, key: u64, value: u64) -> u64 {
    let bucket = allocate(memory, 1);
    fill(memory, bucket, 0, key, value);
    memory.persist(bucket, LINE_BYTES);
    memory.put_persist(next(last), bucket.bits());
    1 + memory.fetch_add(table.expansions(), 1)
}

/// Adds a key; false if it is there.
fn put<M: Memory>(memory: &M, key: u64, value: u64, fixed: bool) -> bool {
    let (table, first) = lock_chain(memory, key, fixed);
    let mut is_overfull = false;
    match find(memory, first, key) {
        Place::Taken(..) => {
            unlock(memory, first);
            return false;
        }
        Place::Empty(bucket, slot) => {
            fill(memory, bucket, slot, key, value);
            memory.persist(bucket, LINE_BYTES);
        }
        Place::Full(last, buckets) => {
            let expansions = extend(memory, table, last, key, value);
            is_overfull = buckets >= CHAIN_MAX || table.is_overfull(memory, expansions);
        }
    }
    unlock(memory, first);
    if is_overfull {
        resize(memory, table, fixed);
    }
    true
}

/// Takes a key out; false if it is not there.
fn remove<M: Memory>(memory: &M, key: u64, fixed: bool) -> bool {
    let (_, first) = lock_chain(memory, key, fixed);
    let place = find(memory, first, key);
    if let Place::Taken(bucket, slot) = place {
        memory.put_persist(key_at(bucket, slot), 0);
    }
    unlock(memory, first);
    matches!(place, Place::Taken(..))
}

/// The value of a key, without a lock. A slot may get another entry between two loads, so the key
/// is read again after the value. What the answer rests on is durable on return.
fn look_up<M: Memory>(memory: &M, key: u64, fixed: bool) -> Option<u64> {
    let table = current(memory, fixed);
    let mut found = None;
    for bucket in chain(memory, table.bucket_of(memory, key)) {
        for slot in (0..SLOTS).filter(|slot| memory.get(key_at(bucket, *slot)) == key) {
            let value = memory.get(value_at(bucket, slot));
            if memory.get(key_at(bucket, slot)) == key {
                found = Some(value);
            }
        }
        memory.flush(bucket, LINE_BYTES);
        if found.is_some() {
            break;
        }
    }
    memory.drain();
    found
}

/// Replaces the table by one of twice the size, and that one if it is overfull as well; does
/// nothing if another thread does so, or has done so.
fn resize<M: Memory>(memory: &M, old: Table, fixed: bool) {
    let mut old = old;
    if memory.compare_exchange(RESIZE_LOCK, UNLOCKED, LOCKED).is_err() {
        return;
    }
    while current(memory, fixed) == old {
        let new = begin_resize(memory, old);
        let buckets = 1 + memory.get(old.mask());
        let _ = (0..buckets).all(|number| copy_chain(memory, old, number, new));
        memory.spin_while(old.helper(), HELPING);
        memory.drain();
        publish(memory, new, fixed);
        memory.put(old.successor(), new.0.bits());
        if !new.is_overfull(memory, memory.get(new.expansions())) {
            break;
        }
        old = new;
    }
    unlock(memory, RESIZE_LOCK);
}

/// Makes the next table, and shows it to helpers.
fn begin_resize<M: Memory>(memory: &M, old: Table) -> Table {
    let buckets = 2 * (1 + memory.get(old.mask()));
    let new = Table::create(memory, buckets, 1 + memory.get(old.version()), old.0);
    memory.put(old.coming(), new.0.bits());
    new
}

/// Makes the new table the one in use.
fn publish<M: Memory>(memory: &M, new: Table, fixed: bool) {
    let marked = if fixed { new.0.bits() | UNFLUSHED } else { new.0.bits() };
    let _ = memory.swap(ROOT, marked);
    memory.persist(ROOT, 8);
    if fixed {
        let _ = memory.compare_exchange(ROOT, marked, new.0.bits());
    }
}

/// Copies buckets of a table that is being replaced, from its end, unless another thread does so.
fn help<M: Memory>(memory: &M, old: Table) {
    if memory.compare_exchange(old.helper(), 0, HELPING).is_err() {
        return;
    }
    let new = Table(Addr::from_bits(memory.get(old.coming())));
    let buckets = 1 + memory.get(old.mask());
    let _ = (0..buckets).rev().all(|number| copy_chain(memory, old, number, new));
    memory.drain();
    memory.put(old.helper(), HELPED);
}

/// Locks a chain for ever and copies it to the new table, where the two buckets that its entries go
/// to have entries of no other chain; durable with the next drain. False if another thread does so:
/// then it has come to all that are left.
fn copy_chain<M: Memory>(memory: &M, old: Table, number: u64, new: Table) -> bool {
    let first = old.bucket(memory, number);
    while let Err(state) = memory.compare_exchange(first, UNLOCKED, RESIZED) {
        if state == RESIZED {
            return false;
        }
        memory.spin_while(first, LOCKED);
    }
    for bucket in chain(memory, first) {
        for slot in 0..SLOTS {
            let key = memory.get(key_at(bucket, slot));
            if key != 0 {
                put_in_order(memory, new, key, memory.get(value_at(bucket, slot)));
            }
        }
    }
    true
}

/// Adds a key that is not there to a table whose chain no other thread uses.
fn put_in_order<M: Memory>(memory: &M, table: Table, key: u64, value: u64) {
    match find(memory, table.bucket_of(memory, key), key) {
        Place::Taken(..) => unreachable!("key {key} is twice in a table"),
        Place::Empty(bucket, slot) => {
            fill(memory, bucket, slot, key, value);
            memory.flush(bucket, LINE_BYTES);
        }
        Place::Full(last, _) => drop(extend(memory, table, last, key, value)),
    }
}

impl Index for Clht {
    fn about(&self) -> About {
        About::new(
            "p-clht",
            BugKind::Threads,
            "a resize shows the new table before the pointer to it is durable: inserts are lost",
            "RECIPE P-CLHT clht_lb_res.c resize, ccb31d9 -> 94dc38f",
        )
        .threads(2)
    }

    fn pool_bytes(&self) -> u64 {
        POOL_LINES * LINE_BYTES
    }

    fn dram_bytes(&self) -> u64 {
        0
    }

    fn entries_before(&self) -> u64 {
        self.entries_before
    }

    fn operations(&self) -> u64 {
        self.operations
    }

    fn create<M: Memory>(&self, memory: &M) {
        memory.put_persist(UNUSED, line(FIRST_LINE).bits());
        let table = Table::create(memory, FIRST_BUCKETS, 0, Addr::NULL);
        memory.put_persist(OLDEST, table.0.bits());
        memory.put_persist(ROOT, table.0.bits());
    }

    fn insert<M: Memory>(&self, memory: &M, key: u64, value: u64, fixed: bool) {
        assert!(put(memory, key, value, fixed), "key {key} was there");
    }

    fn remove<M: Memory>(&self, memory: &M, key: u64, fixed: bool) -> bool {
        remove(memory, key, fixed)
    }

    fn get<M: Memory>(&self, memory: &M, key: u64, fixed: bool) -> Option<u64> {
        look_up(memory, key, fixed)
    }

    fn recover<M: Memory>(&self, memory: &M) -> Result<(), String> {
        recovery::recover(memory)
    }

    fn entries<M: Memory>(&self, memory: &M) -> Result<Vec<(u64, u64)>, String> {
        recovery::entries(memory)
    }
}

#[cfg(test)]
mod tests;
