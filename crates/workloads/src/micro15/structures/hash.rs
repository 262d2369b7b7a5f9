//! A chained hash table with striped locks (MICRO'15, Table 2, "Hash").
//!
//! A stripe is one line: the number of its entries and the heads of six chains. The entry
//! and the stripe's number change together, so an insert or delete is a transaction of two words;
//! the new entry itself is a fresh object and needs no log.

use super::entry::{self, ENTRY_BYTES, ENTRY_WORDS};
use crate::shared::epoch_log::{Logs, Tx};
use crate::shared::inconsistency::{Reached, within};
use crate::shared::{Change, Full, Inconsistency};
use crate::shared::{LockVersion, LockVersions, Slots};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::{Arena, Guard, Locks};
use std::collections::BTreeMap;

const CHAINS: u64 = 6;
const COUNT: u64 = 0;
const HEADS: u64 = 8;

const NEXT: u64 = 0;
const KEY: u64 = 8;
const TAG: u64 = 16;
const PAYLOAD: u64 = 3;

const LOG_WORDS: u64 = 8;

/// The parameters of a [`HashTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashShape {
    /// Threads that may use it, 1 to 1024.
    pub threads: u64,
    /// Stripes, each with a lock and six chains; 1 to 2^24.
    pub stripes: u64,
    /// The capacity in entries, 1 to 2^32.
    pub capacity: u64,
}

impl HashShape {
    /// Rejects parameters out of range.
    ///
    /// # Errors
    /// [`Inconsistency::Shape`], which names the parameter.
    pub fn check(self) -> Result<HashShape, Inconsistency> {
        within("threads", self.threads, 1, 1024)?;
        within("stripes", self.stripes, 1, 1 << 24)?;
        within("capacity", self.capacity, 1, 1 << 32)?;
        Ok(self)
    }
}

/// A hash table from key to tagged entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashTable {
    shape: HashShape,
    stripes: Addr,
    locks: Locks,
    versions: LockVersions,
    logs: Logs,
    slots: Slots,
}

/// A stripe that is locked.
struct Held {
    guard: Guard,
    version: LockVersion,
    stripe: Addr,
    head: Addr,
}

impl HashTable {
    /// Places the table; in a zeroed pool it is empty, after [`recover`](HashTable::recover).
    pub fn place(shape: HashShape, arena: &mut Arena) -> HashTable {
        let slots = Slots::enough(shape.capacity, shape.threads);
        HashTable {
            shape,
            stripes: arena.pm(shape.stripes * LINE_BYTES),
            locks: Locks::place(arena, shape.stripes, shape.threads, 1),
            versions: LockVersions::place(arena, shape.stripes),
            logs: Logs::place(arena, shape.threads, LOG_WORDS),
            slots: Slots::place(arena, slots, ENTRY_BYTES, shape.threads),
        }
    }

    /// Its parameters.
    pub const fn shape(&self) -> HashShape {
        self.shape
    }

    fn chain(&self, key: u64) -> u64 {
        let hashed = key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let chains = self.shape.stripes * CHAINS;
        ((u128::from(hashed) * u128::from(chains)) >> 64) as u64
    }

    fn head(&self, chain: u64) -> Addr {
        self.stripes.plus(chain / CHAINS * LINE_BYTES + HEADS + 8 * (chain % CHAINS))
    }

    #[track_caller]
    fn hold<M: Memory>(&self, memory: &M, key: u64) -> Held {
        let chain = self.chain(key);
        let stripe = chain / CHAINS;
        memory.work(8);
        let guard = self.locks.acquire(memory, stripe, 0);
        let version = self.versions.read(memory, stripe);
        let line = self.stripes.plus(stripe * LINE_BYTES);
        Held { guard, version, stripe: line, head: self.head(chain) }
    }

    fn find<M: Memory>(memory: &M, head: Addr, key: u64) -> Option<(Addr, Addr)> {
        let mut link = head;
        loop {
            let at = memory.load::<Addr>(link);
            if at.is_null() {
                return None;
            }
            if memory.load::<u64>(at.plus(KEY)) == key {
                return Some((link, at));
            }
            link = at.plus(NEXT);
        }
    }

    /// The tag of the entry of `key`, which it reads; `None` if there is none.
    #[track_caller]
    pub fn search<M: Memory>(&self, memory: &M, key: u64) -> Option<u64> {
        let held = self.hold(memory, key);
        let found = HashTable::find(memory, held.head, key).map(|(_, at)| {
            entry::read(memory, at);
            memory.load(at.plus(TAG))
        });
        self.locks.release(memory, held.guard);
        found
    }

    /// Inserts an entry for `key`; returns false and changes nothing if one exists.
    ///
    /// # Errors
    /// [`Full`] if there is no room.
    #[track_caller]
    pub fn insert<M: Memory, F: FnMut(u64, u64)>(
        &self,
        memory: &M,
        key: u64,
        change: Change<F>,
    ) -> Result<bool, Full> {
        let held = self.hold(memory, key);
        let outcome = match HashTable::find(memory, held.head, key) {
            Some(_) => Ok(false),
            None => self.add(memory, key, change, &held).map(|()| true),
        };
        self.locks.release(memory, held.guard);
        outcome
    }

    #[track_caller]
    fn add<M: Memory, F: FnMut(u64, u64)>(
        &self,
        memory: &M,
        key: u64,
        mut change: Change<F>,
        held: &Held,
    ) -> Result<(), Full> {
        let at = self.slots.take(memory).ok_or(Full)?;
        (change.note)(key, change.tag);
        memory.store(at.plus(NEXT), memory.load::<Addr>(held.head));
        memory.store(at.plus(KEY), key);
        memory.store(at.plus(TAG), change.tag);
        entry::fill(memory, at, PAYLOAD, key, change.tag);
        let mut tx = Tx::begin(memory, &self.logs, change.flaw);
        tx.fresh(at, ENTRY_WORDS);
        tx.store(held.stripe.plus(COUNT), tx.load(held.stripe.plus(COUNT)) + 1);
        tx.store(held.head, at.bits());
        tx.commit(&[held.version]);
        Ok(())
    }

    /// Replaces the entry of `key` by a new one; returns false and changes nothing if none exists.
    ///
    /// # Errors
    /// [`Full`] if there is no room.
    #[track_caller]
    pub fn update<M: Memory, F: FnMut(u64, u64)>(
        &self,
        memory: &M,
        key: u64,
        mut change: Change<F>,
    ) -> Result<bool, Full> {
        let held = self.hold(memory, key);
        let found = HashTable::find(memory, held.head, key);
        let fresh = if found.is_some() { self.slots.take(memory) } else { None };
        if let (Some((link, old)), Some(at)) = (found, fresh) {
            (change.note)(key, change.tag);
            memory.store(at.plus(NEXT), memory.load::<Addr>(old.plus(NEXT)));
            memory.store(at.plus(KEY), key);
            memory.store(at.plus(TAG), change.tag);
            entry::fill(memory, at, PAYLOAD, key, change.tag);
            let mut tx = Tx::begin(memory, &self.logs, change.flaw);
            tx.fresh(at, ENTRY_WORDS);
            tx.store(link, at.bits());
            tx.commit(&[held.version]);
        }
        self.locks.release(memory, held.guard);
        match (found, fresh) {
            (None, _) => Ok(false),
            (Some(_), None) => Err(Full),
            (Some((_, old)), Some(_)) => {
                self.slots.give(memory, old);
                Ok(true)
            }
        }
    }

    /// Deletes the entry of `key`; returns false and changes nothing if none exists.
    #[track_caller]
    pub fn delete<M: Memory, F: FnMut(u64, u64)>(
        &self,
        memory: &M,
        key: u64,
        mut change: Change<F>,
    ) -> bool {
        let held = self.hold(memory, key);
        let found = HashTable::find(memory, held.head, key);
        if let Some((link, at)) = found {
            (change.note)(key, 0);
            let mut tx = Tx::begin(memory, &self.logs, change.flaw);
            tx.store(held.stripe.plus(COUNT), tx.load(held.stripe.plus(COUNT)) - 1);
            tx.store(link, tx.load(at.plus(NEXT)));
            tx.commit(&[held.version]);
        }
        self.locks.release(memory, held.guard);
        if let Some((_, at)) = found {
            self.slots.give(memory, at);
        }
        found.is_some()
    }

    /// Finishes what a crash interrupted and rebuilds the free lists, in a pool of `pm_bytes`.
    ///
    /// # Errors
    /// If the pool is damaged beyond what a crash can do.
    pub fn recover<M: Memory>(&self, memory: &M, pm_bytes: u64) -> Result<(), Inconsistency> {
        self.logs.recover(memory, pm_bytes)?;
        let mut reached = Reached::none(&self.slots);
        self.walk(memory, &mut reached, |_, _, _| Ok(()))?;
        self.slots.rebuild(memory, &reached.live);
        Ok(())
    }

    /// Checks every invariant and returns the tag of each key. No operation may be in flight.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn contents<M: Memory>(&self, memory: &M) -> Result<BTreeMap<u64, u64>, Inconsistency> {
        let mut contents = BTreeMap::new();
        self.walk(memory, &mut Reached::none(&self.slots), |chain, at, key| {
            let tag = memory.load(at.plus(TAG));
            entry::check(memory, at, PAYLOAD, key, tag)?;
            if self.chain(key) != chain {
                return Err(Inconsistency::Broken(format!(
                    "key {key} is in the foreign chain {chain}"
                )));
            }
            match contents.insert(key, tag) {
                None => Ok(()),
                Some(_) => Err(Inconsistency::Broken(format!("key {key} is there twice"))),
            }
        })?;
        Ok(contents)
    }

    fn walk<M: Memory>(
        &self,
        memory: &M,
        reached: &mut Reached<'_>,
        mut each: impl FnMut(u64, Addr, u64) -> Result<(), Inconsistency>,
    ) -> Result<(), Inconsistency> {
        for stripe in 0..self.shape.stripes {
            let mut found = 0;
            for chain in stripe * CHAINS..(stripe + 1) * CHAINS {
                let mut next = memory.load::<u64>(self.head(chain));
                while next != 0 {
                    let at = reached.reach(next, || format!("chain {chain}"))?;
                    each(chain, at, memory.load(at.plus(KEY)))?;
                    found += 1;
                    next = memory.load(at.plus(NEXT));
                }
            }
            let stored = memory.load(self.stripes.plus(stripe * LINE_BYTES + COUNT));
            if stored != found {
                let what = format!("the count of stripe {stripe}");
                return Err(Inconsistency::Count { what, stored, found });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use seawall_memory::Image;

    fn place() -> (Image, HashTable, u64) {
        let mut arena = Arena::new();
        let shape = HashShape { threads: 1, stripes: 2, capacity: 24 };
        let hash = HashTable::place(shape.check().expect("a good shape"), &mut arena);
        let image = Image::new(arena.pm_bytes(), arena.dram_bytes());
        hash.recover(&image, arena.pm_bytes()).expect("an empty pool");
        (image, hash, arena.pm_bytes())
    }

    proptest! {
        #[test]
        fn it_does_what_a_map_does(
            steps in proptest::collection::vec((0u8..4, 0u64..24), 0..150),
        ) {
            let (image, hash, bytes) = place();
            let mut model = BTreeMap::new();
            for (number, (action, key)) in steps.into_iter().enumerate() {
                let tag = number as u64 + 1;
                match action {
                    0 => prop_assert_eq!(hash.search(&image, key), model.get(&key).copied()),
                    1 => {
                        let inserted = hash.insert(&image, key, Change::of(tag));
                        prop_assert_eq!(inserted, Ok(!model.contains_key(&key)));
                        model.entry(key).or_insert(tag);
                    }
                    2 => {
                        let updated = hash.update(&image, key, Change::of(tag));
                        prop_assert_eq!(updated, Ok(model.contains_key(&key)));
                        model.entry(key).and_modify(|old| *old = tag);
                    }
                    _ => {
                        let deleted = hash.delete(&image, key, Change::of(tag));
                        prop_assert_eq!(deleted, model.remove(&key).is_some());
                    }
                }
            }
            prop_assert_eq!(hash.contents(&image), Ok(model.clone()));
            prop_assert_eq!(hash.recover(&image, bytes), Ok(()));
            prop_assert_eq!(hash.contents(&image), Ok(model));
        }

        #[test]
        fn wild_bytes_are_damage_and_never_a_panic_or_a_loop(
            wild in proptest::collection::vec((any::<u16>(), any::<u64>()), 1..40), small: bool,
        ) {
            let (image, hash, bytes) = place();
            for key in 0..12 {
                prop_assert_eq!(hash.insert(&image, key, Change::of(key + 1)), Ok(true));
            }
            for (word, value) in wild {
                let at = u64::from(word) * 8 % (bytes - 8);
                let value = if small { value % bytes / 64 * 64 } else { value };
                image.store(Addr::pm(at), value);
            }
            let _ = hash.contents(&image);
            let _ = hash.recover(&image, bytes);
        }
    }

    #[test]
    fn a_cycle_and_a_wrong_count_are_named() {
        let (image, hash, bytes) = place();
        hash.insert(&image, 1, Change::of(1)).expect("room");
        let head = hash.head(hash.chain(1));
        let at = image.load::<Addr>(head);
        image.store(at.plus(NEXT), at);
        assert!(matches!(hash.recover(&image, bytes), Err(Inconsistency::Twice { .. })));
        image.store(at.plus(NEXT), 0u64);
        image.store(head, 0u64);
        assert!(matches!(
            hash.contents(&image),
            Err(Inconsistency::Count { stored: 1, found: 0, .. })
        ));
    }

    #[test]
    fn a_full_table_says_so_and_is_unchanged() {
        let (image, hash, _) = place();
        let inserted = (0..100).map(|key| hash.insert(&image, key, Change::of(9)));
        let fitted = inserted.filter(|outcome| *outcome == Ok(true)).count();
        assert_eq!(fitted as u64, hash.slots.count());
        assert_eq!(hash.contents(&image).expect("whole").len(), fitted);
    }
}
