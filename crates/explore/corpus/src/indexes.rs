//! Published bugs of concurrent indexes, in indexes of their real size.
//!
//! Elsewhere in the corpus a bug is cut out. Here it is left where it was found: in an index with
//! all of its operations, which two threads use at once, and nothing points at the place. An index
//! is an [`Index`]; [`Threads`] makes a [`Program`] of it: each thread inserts and removes keys of
//! its own, keys of all threads lie in the same nodes, and what survives must be what some number
//! of each thread's operations leave, no fewer than had completed. Keys are looked up after a crash
//! only.

pub(crate) mod bwtree;
pub(crate) mod clht;
pub(crate) mod fast_fair;

use crate::kit::ensure;
use crate::program::{About, Found, Program};
use seawall_memory::Memory;

/// A map from keys to values, neither of them 0, that threads share.
///
/// `fixed` asks for the form without the bug.
pub(crate) trait Index: Copy + Send + Sync + 'static {
    /// Words about the bug.
    fn about(&self) -> About;

    /// Bytes of persistent memory.
    fn pool_bytes(&self) -> u64;

    /// Bytes of volatile memory, zeroed at each start.
    fn dram_bytes(&self) -> u64;

    /// Entries before the threads start.
    fn entries_before(&self) -> u64;

    /// Operations of each thread.
    fn operations(&self) -> u64;

    /// Makes an empty index in zeroed memory.
    fn create<M: Memory>(&self, memory: &M);

    /// Adds a key that is not there; it is durable on return.
    fn insert<M: Memory>(&self, memory: &M, key: u64, value: u64, fixed: bool);

    /// Takes a key out, durably; false if it is not there.
    fn remove<M: Memory>(&self, memory: &M, key: u64, fixed: bool) -> bool;

    /// The value of a key.
    fn get<M: Memory>(&self, memory: &M, key: u64, fixed: bool) -> Option<u64>;

    /// Makes the index usable after a crash.
    ///
    /// # Errors
    /// What is broken.
    fn recover<M: Memory>(&self, memory: &M) -> Result<(), String>;

    /// All entries, in any order, by a walk over the whole index that checks its invariants.
    ///
    /// # Errors
    /// The invariant that does not hold.
    fn entries<M: Memory>(&self, memory: &M) -> Result<Vec<(u64, u64)>, String>;
}

/// Threads that use an index at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Threads<I>(pub(crate) I);

/// What a thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Insert(u64),
    Remove(u64),
}

/// Different keys, spread so that neighbours are used by different threads.
const KEYS: u64 = 251;

fn key(number: u64) -> u64 {
    1 + number * 97 % KEYS
}

/// The value of a key: no other key has it, and no address is like it.
pub(crate) fn value_of(key: u64) -> u64 {
    1_000_001 + 2 * key
}

impl<I: Index> Threads<I> {
    fn threads(&self) -> u64 {
        self.0.about().threads as u64
    }

    /// The key that the thread inserts in its operation `number`.
    fn own_key(&self, thread: u64, number: u64) -> u64 {
        key(self.0.entries_before() + number * self.threads() + thread)
    }

    /// Every third operation removes the key of the one before it; the others insert.
    fn step(&self, thread: u64, number: u64) -> Step {
        match number % 3 {
            2 => Step::Remove(self.own_key(thread, number - 1)),
            _ => Step::Insert(self.own_key(thread, number)),
        }
    }

    /// All keys that are ever there, with the thread that changes them.
    fn all_keys(&self) -> impl Iterator<Item = (u64, Option<u64>)> + '_ {
        let (before, of_threads) = (self.0.entries_before(), self.0.operations() * self.threads());
        let owner = move |number: u64| Some((number.checked_sub(before)?) % self.threads());
        (0..before + of_threads).map(move |number| (key(number), owner(number)))
    }

    /// Whether the key is there once its owner has done so many operations.
    fn is_there(&self, wanted: u64, owner: u64, done: u64) -> bool {
        (0..done).fold(false, |there, number| match self.step(owner, number) {
            Step::Insert(key) if key == wanted => true,
            Step::Remove(key) if key == wanted => false,
            _ => there,
        })
    }
}

impl<I: Index> Program for Threads<I> {
    fn about(&self) -> About {
        self.0.about()
    }

    fn pool_bytes(&self) -> u64 {
        self.0.pool_bytes()
    }

    fn dram_bytes(&self) -> u64 {
        self.0.dram_bytes()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        self.0.create(memory);
        for number in 0..self.0.entries_before() {
            self.0.insert(memory, key(number), value_of(key(number)), true);
        }
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        let thread = memory.thread() as u64;
        for number in 0..self.0.operations() {
            match self.step(thread, number) {
                Step::Insert(key) => self.0.insert(memory, key, value_of(key), fixed),
                Step::Remove(key) => assert!(self.0.remove(memory, key, fixed), "{key} is gone"),
            }
            memory.output(number);
        }
    }

    fn recover<M: Memory>(&self, memory: &M, fixed: bool) -> Result<Found, String> {
        self.0.recover(memory)?;
        let entries = self.0.entries(memory)?;
        let mut there = 0;
        let found = self.all_keys().map(|(key, _)| {
            let by_get = self.0.get(memory, key, fixed);
            let mut by_walk = entries.iter().filter(|(other, _)| *other == key);
            ensure(by_get == by_walk.next().map(|(_, value)| *value), "get and a walk disagree")?;
            ensure(by_walk.next().is_none(), "a key is there twice")?;
            ensure(by_get.is_none_or(|value| value == value_of(key)), "a value is another key's")?;
            there += usize::from(by_get.is_some());
            Ok(u64::from(by_get.is_some()))
        });
        let found: Found = found.collect::<Result<_, String>>()?;
        ensure(there == entries.len(), "a key is there that nobody inserted")?;
        Ok(found)
    }

    /// Of each thread: what some number of its operations leave, and no fewer than promised.
    fn judge(&self, found: &[u64], promised: &[u64]) -> Result<(), String> {
        let is_there: Vec<(u64, Option<u64>, bool)> = self
            .all_keys()
            .zip(found)
            .map(|((key, owner), there)| (key, owner, *there == 1))
            .collect();
        let lost = is_there.iter().find(|(_, owner, there)| owner.is_none() && !there);
        if let Some((key, ..)) = lost {
            return Err(format!("key {key}, there from the start, is lost"));
        }
        for thread in 0..self.threads() {
            let own = is_there.iter().filter(|(_, owner, _)| *owner == Some(thread));
            let differs = |done: u64| {
                let mut own = own.clone();
                own.find(|(key, _, there)| self.is_there(*key, thread, done) != *there)
            };
            let least = promised[thread as usize];
            let mut possible = least..=self.0.operations();
            if let Some((key, _, there)) = differs(least)
                && possible.all(|done| differs(done).is_some())
            {
                let is = if *there { "there" } else { "lost" };
                return Err(format!(
                    "key {key} is {is} after a crash: thread {thread} had completed {least} \
                     operations"
                ));
            }
        }
        Ok(())
    }
}

/// What tests of indexes share.
#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use seawall_memory::Image;
    use std::collections::BTreeMap;

    /// One thread: inserts, removals and look-ups do what those of a map do, over `operations`
    /// operations on `keys` keys; recovery changes nothing.
    pub(crate) fn holds_what_a_map_holds<I: Index>(index: I, keys: u64, operations: u64) {
        let memory = Image::new(index.pool_bytes(), index.dram_bytes());
        index.create(&memory);
        let mut map = BTreeMap::new();
        for number in 0..operations {
            let key = 1 + (number * 7919 + number * number * 31) % keys;
            if map.remove(&key).is_some() {
                assert!(index.remove(&memory, key, true), "{key}");
            } else {
                assert!(!index.remove(&memory, key, true), "{key}");
                index.insert(&memory, key, value_of(key), true);
                map.insert(key, value_of(key));
            }
            let mut entries = index.entries(&memory).unwrap();
            entries.sort_unstable();
            assert_eq!(entries, map.clone().into_iter().collect::<Vec<_>>(), "after {number}");
            let there = |key| index.get(&memory, key, true) == map.get(&key).copied();
            assert!((1..=keys).all(there));
        }
        index.recover(&memory).unwrap();
        assert_eq!(index.entries(&memory).unwrap().len(), map.len());
    }
}
