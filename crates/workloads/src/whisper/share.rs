//! The common part of applications whose threads each own a part of the data: keys that belong to a
//! thread, values that contain their key, and the pool's header.
//!
//! In WHISPER less than one epoch in 5000 of these programs writes a line that another thread wrote
//! within 50 us (ASPLOS'17, section 5): their threads work on data of their own. Here that holds by
//! construction: key k belongs to thread k modulo the number of threads.

use crate::harness::history::initial_tag;
use crate::harness::workload::initial_keys_in;
use crate::{Damage, Layout, Setup, Worker};
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_runtime::{Arena, pool};

/// The greatest numbers of threads and keys of a pool.
const THREADS_MAX: u64 = 1024;
const KEYS_MAX: u64 = 1 << 31;
/// Keys per initial entry, if nearly all picked keys must be new.
const WIDE: u64 = 8;

/// The key and the tag of a value; its other words follow from them.
pub(crate) const KEY: u64 = 0;
pub(crate) const TAG: u64 = 8;
const PAYLOAD: u64 = 2;

/// Keys and the threads that they belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The number of threads.
    pub(crate) threads: u64,
    /// The number of keys; keys are the numbers below it.
    pub(crate) keys: u64,
}

impl Share {
    /// The share for `setup`: twice as many keys as entries.
    pub(crate) fn of(setup: &Setup) -> Share {
        Share { threads: setup.threads as u64, keys: 2 * setup.entries }
    }

    /// The share for `setup`, with enough keys that few of the picked ones exist already.
    pub(crate) fn wide(setup: &Setup) -> Share {
        Share { keys: WIDE * setup.entries, ..Share::of(setup) }
    }

    /// Writes the header of a pool named `name` whose data is durable.
    pub(crate) fn seal<M: Memory>(self, memory: &M, name: &str, setup: &Setup, arena: &Arena) {
        let roots = [self.threads, self.keys];
        pool::create(memory, name, setup.uuid(), arena.pm_bytes(), &roots);
    }

    /// Reads the header of the pool named `name`.
    ///
    /// # Errors
    /// If it is another header, or has values that no program writes.
    pub(crate) fn open<M: Memory>(memory: &M, name: &str, layout: Layout) -> Result<Share, Damage> {
        let [threads, keys, ..] = pool::open(memory, name, layout.pm_bytes)?;
        if (1..=THREADS_MAX).contains(&threads) && (1..=KEYS_MAX).contains(&keys) {
            return Ok(Share { threads, keys });
        }
        Err(Damage(format!("the pool's roots say {threads} threads and {keys} keys")))
    }

    /// The thread that owns a key.
    pub(crate) const fn owner(self, key: u64) -> u64 {
        key % self.threads
    }

    /// The greatest number of keys of a thread.
    pub(crate) const fn each(self) -> u64 {
        self.keys.div_ceil(self.threads)
    }

    /// The number of keys of `thread`.
    pub(crate) const fn count(self, thread: u64) -> u64 {
        (self.keys + self.threads - 1 - thread) / self.threads
    }

    /// A random key of the worker's thread, nearly uniform; `None` if it has none.
    pub(crate) fn pick(self, worker: &mut Worker) -> Option<u64> {
        let thread = worker.thread as u64;
        let count = self.count(thread);
        (count > 0).then(|| worker.below(count) * self.threads + thread)
    }

    /// The keys at the start, with their tags.
    pub(crate) fn initial(self, setup: &Setup) -> impl Iterator<Item = (u64, u64)> {
        (0..)
            .zip(initial_keys_in(setup, self.threads))
            .map(|(number, key)| (key, initial_tag(number)))
    }
}

/// A key's hash: spread over all 64 bits, and a bijection.
pub(crate) const fn spread(key: u64) -> u64 {
    key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The one of `places` for a key's hash.
pub(crate) fn place_of(key: u64, places: u64) -> u64 {
    ((u128::from(spread(key)) * u128::from(places)) >> 64) as u64
}

fn payload(key: u64, tag: u64, word: u64) -> u64 {
    (key.rotate_left(32) ^ tag ^ word << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// Writes the value of `key` and `tag` of `words` words at `at`; not flushed.
pub(crate) fn fill<M: Memory>(memory: &M, at: Addr, words: u64, key: u64, tag: u64) {
    memory.store(at.plus(KEY), key);
    memory.store(at.plus(TAG), tag);
    for word in PAYLOAD..words {
        memory.store(at.plus(8 * word), payload(key, tag, word));
    }
    memory.work(words as u32);
}

/// Reads a whole value, as a look-up does; returns its tag.
pub(crate) fn read<M: Memory>(memory: &M, at: Addr, words: u64) -> u64 {
    let mut bytes = vec![0; 8 * words as usize];
    memory.read(at, &mut bytes);
    memory.work(words as u32);
    memory.load(at.plus(TAG))
}

/// The tag of the value of `key` at `at`.
///
/// # Errors
/// If it is another key's, or torn.
pub(crate) fn check<M: Memory>(memory: &M, at: Addr, words: u64, key: u64) -> Result<u64, Damage> {
    let (found, tag) = (memory.load::<u64>(at.plus(KEY)), memory.load::<u64>(at.plus(TAG)));
    let wrong = |word: &u64| memory.load::<u64>(at.plus(8 * word)) != payload(key, tag, *word);
    if found != key || tag == 0 {
        return Err(Damage(format!("the value of key {key} at {at} is one of key {found}")));
    }
    match (PAYLOAD..words).find(wrong) {
        None => Ok(tag),
        Some(word) => {
            Err(Damage(format!("the value of key {key} at {at} is torn: its word {word} is wrong")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CTree, HashMap, History, Workload};
    use seawall_memory::Image;
    use std::sync::Arc;

    /// The number of keys that a hundred operations add to 64; none must be lost.
    fn added<W: Workload>() -> usize {
        let setup = Setup { entries: 64, ..Setup::of::<W>(1) };
        let layout = W::layout(&setup);
        let image = Image::new(layout.pm_bytes, layout.dram_bytes);
        let workload = W::create(&image, &setup);
        let mut worker = Worker::new(&setup, 0, Arc::new(History::off()));
        let (mut local, mut keys) = (workload.join(&image), 64);
        while worker.number < 100 {
            workload.step(&image, &mut local, &mut worker);
            worker.number += 1;
            let found = workload.contents(&image).unwrap().len();
            assert!(found >= keys, "{} deletes a key", W::NAME);
            keys = found;
        }
        keys - 64
    }

    #[test]
    fn map_insert_only_inserts_and_nearly_always_keys_that_are_new() {
        for added in [added::<CTree>(), added::<HashMap>()] {
            assert!((65..100).contains(&added), "{added} new keys in 100 inserts");
        }
    }

    #[test]
    fn every_key_belongs_to_one_thread() {
        for (threads, keys) in [(1, 7), (3, 2), (4, 24), (5, 23)] {
            let share = Share { threads, keys };
            let counts: u64 = (0..threads).map(|thread| share.count(thread)).sum();
            assert_eq!(counts, keys);
            assert!((0..threads).all(|thread| share.count(thread) <= share.each()));
        }
    }

    #[test]
    fn a_torn_value_and_one_of_another_key_are_found() {
        let image = Image::new(512, 0);
        let at = Addr::pm(256);
        fill(&image, at, 16, 3, 9);
        assert_eq!(check(&image, at, 16, 3), Ok(9));
        assert_eq!(read(&image, at, 16), 9);
        assert!(check(&image, at, 16, 4).unwrap_err().0.contains("one of key 3"));
        for word in 2..16 {
            let place = at.plus(8 * word);
            let right = image.load::<u64>(place);
            image.store(place, right ^ 2);
            assert!(check(&image, at, 16, 3).unwrap_err().0.contains("torn"));
            image.store(place, right);
        }
    }
}
