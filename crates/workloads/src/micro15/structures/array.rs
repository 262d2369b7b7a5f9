//! An array of entries that swaps two of them atomically (MICRO'15, Table 2, "SPS").
//!
//! A swap rewrites two whole entries, so its transaction logs 1 KB: the structure with the largest
//! log. Each entry holds an id that moves with its payload, and the tag of the swap that put it
//! there, which does not. Entries are locked by stripes, at most two, in ascending order.

use super::entry::{self, ENTRY_BYTES, ENTRY_WORDS};
use crate::shared::LockVersions;
use crate::shared::epoch_log::{Logs, Tx};
use crate::shared::inconsistency::within;
use crate::shared::{Change, Inconsistency};
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_runtime::{Arena, Locks};
use std::collections::BTreeMap;

const ID: u64 = 0;
const TAG: u64 = 8;
const PAYLOAD: u64 = 2;
/// Replaces the tag in the payload, which must not change when an entry moves.
const MOVES: u64 = 1;

const LOG_WORDS: u64 = 2 * (ENTRY_WORDS + 1);

/// The parameters of an [`Array`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayShape {
    /// Threads that may use it, 1 to 1024.
    pub threads: u64,
    /// Stripes, each with a lock; 1 to 2^24.
    pub stripes: u64,
    /// Entries, 1 to 2^32.
    pub entries: u64,
}

impl ArrayShape {
    /// Rejects parameters out of range.
    ///
    /// # Errors
    /// [`Inconsistency::Shape`], which names the parameter.
    pub fn check(self) -> Result<ArrayShape, Inconsistency> {
        within("threads", self.threads, 1, 1024)?;
        within("stripes", self.stripes, 1, 1 << 24)?;
        within("entries", self.entries, 1, 1 << 32)?;
        Ok(self)
    }
}

/// An array of tagged entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Array {
    shape: ArrayShape,
    entries: Addr,
    locks: Locks,
    versions: LockVersions,
    logs: Logs,
}

impl Array {
    /// Places the array; call [`fill`](Array::fill) before anything else.
    pub fn place(shape: ArrayShape, arena: &mut Arena) -> Array {
        Array {
            shape,
            entries: arena.pm(shape.entries * ENTRY_BYTES),
            locks: Locks::place(arena, shape.stripes, shape.threads, 2),
            versions: LockVersions::place(arena, shape.stripes),
            logs: Logs::place(arena, shape.threads, LOG_WORDS),
        }
    }

    /// Its parameters.
    pub const fn shape(&self) -> ArrayShape {
        self.shape
    }

    /// Sets every entry's first id, its index, and its tag, by `tag`; one thread runs.
    pub fn fill<M: Memory>(&self, memory: &M, tag: impl Fn(u64) -> u64) {
        for index in 0..self.shape.entries {
            let at = self.entry(index);
            memory.store(at.plus(ID), index);
            memory.store(at.plus(TAG), tag(index));
            entry::fill(memory, at, PAYLOAD, index, MOVES);
            memory.flush(at, ENTRY_BYTES);
        }
        memory.drain();
    }

    #[track_caller]
    fn entry(&self, index: u64) -> Addr {
        assert!(index < self.shape.entries, "entry {index} of {}", self.shape.entries);
        self.entries.plus(index * ENTRY_BYTES)
    }

    /// The tag of entry `index`, which it reads.
    ///
    /// # Panics
    /// If there is no such entry.
    #[track_caller]
    pub fn search<M: Memory>(&self, memory: &M, index: u64) -> u64 {
        let at = self.entry(index);
        let stripe = index % self.shape.stripes;
        let guard = self.locks.acquire(memory, stripe, 0);
        let _ = self.versions.read(memory, stripe);
        entry::read(memory, at);
        let tag = memory.load(at.plus(TAG));
        self.locks.release(memory, guard);
        tag
    }

    /// Swaps the entries at two different indices; both get the tag of the change.
    ///
    /// # Panics
    /// If they are the same or one does not exist.
    #[track_caller]
    pub fn swap<M: Memory, F: FnMut(u64, u64)>(
        &self,
        memory: &M,
        left: u64,
        right: u64,
        mut change: Change<F>,
    ) {
        assert_ne!(left, right, "a swap of an entry with itself");
        let (left_at, right_at) = (self.entry(left), self.entry(right));
        let stripes = [left % self.shape.stripes, right % self.shape.stripes];
        let (first, second) = (stripes[0].min(stripes[1]), stripes[0].max(stripes[1]));
        let outer = self.locks.acquire(memory, first, 0);
        let inner = (first != second).then(|| self.locks.acquire(memory, second, 1));
        let versions = [self.versions.read(memory, first), self.versions.read(memory, second)];
        (change.note)(left, change.tag);
        (change.note)(right, change.tag);
        let mut tx = Tx::begin(memory, &self.logs, change.flaw);
        let left_words = read(memory, left_at, change.tag);
        let right_words = read(memory, right_at, change.tag);
        tx.write(left_at, &right_words);
        tx.write(right_at, &left_words);
        tx.commit(if inner.is_some() { &versions } else { &versions[..1] });
        if let Some(inner) = inner {
            self.locks.release(memory, inner);
        }
        self.locks.release(memory, outer);
    }

    /// Finishes what a crash interrupted, in a pool of `pm_bytes`.
    ///
    /// # Errors
    /// If the pool is damaged beyond what a crash can do.
    pub fn recover<M: Memory>(&self, memory: &M, pm_bytes: u64) -> Result<(), Inconsistency> {
        self.logs.recover(memory, pm_bytes)?;
        Ok(())
    }

    /// Checks that every entry is whole and that no id is lost; returns the tag of each index. No
    /// operation may be in flight.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn contents<M: Memory>(&self, memory: &M) -> Result<BTreeMap<u64, u64>, Inconsistency> {
        let mut contents = BTreeMap::new();
        let mut seen = vec![false; self.shape.entries as usize];
        for index in 0..self.shape.entries {
            let at = self.entry(index);
            let (id, tag) = (memory.load::<u64>(at.plus(ID)), memory.load::<u64>(at.plus(TAG)));
            entry::check(memory, at, PAYLOAD, id, MOVES)?;
            match seen.get_mut(id as usize) {
                Some(seen) if !*seen && tag != 0 => *seen = true,
                _ => {
                    return Err(Inconsistency::Broken(format!(
                        "entry {index} has id {id} and tag {tag:#x}: an id is lost or there twice"
                    )));
                }
            }
            contents.insert(index, tag);
        }
        Ok(contents)
    }
}

/// The words of the entry at `at`, with `tag` in place of its tag.
fn read<M: Memory>(memory: &M, at: Addr, tag: u64) -> [u64; ENTRY_WORDS as usize] {
    let entry = entry::read(memory, at);
    let (words, _) = entry.as_chunks::<8>();
    std::array::from_fn(|word| match 8 * word as u64 {
        TAG => tag,
        _ => u64::from_le_bytes(words[word]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use seawall_memory::Image;

    fn place() -> (Image, Array, u64) {
        let mut arena = Arena::new();
        let shape = ArrayShape { threads: 1, stripes: 3, entries: 8 };
        let array = Array::place(shape.check().expect("a good shape"), &mut arena);
        let image = Image::new(arena.pm_bytes(), arena.dram_bytes());
        array.fill(&image, |index| index + 100);
        (image, array, arena.pm_bytes())
    }

    proptest! {
        #[test]
        fn it_does_what_swaps_of_a_vector_do(
            swaps in proptest::collection::vec((0u64..8, 0u64..8), 0..40),
        ) {
            let (image, array, _) = place();
            let mut ids: Vec<u64> = (0..8).collect();
            let mut tags: Vec<u64> = (100..108).collect();
            for (number, (left, right)) in swaps.into_iter().enumerate() {
                if left == right {
                    continue;
                }
                let tag = number as u64 + 1;
                array.swap(&image, left, right, Change::of(tag));
                ids.swap(left as usize, right as usize);
                (tags[left as usize], tags[right as usize]) = (tag, tag);
                prop_assert_eq!(array.search(&image, left), tag);
            }
            let contents = array.contents(&image).expect("whole");
            prop_assert_eq!(contents.into_values().collect::<Vec<_>>(), tags);
            for (index, id) in ids.into_iter().enumerate() {
                prop_assert_eq!(image.load::<u64>(array.entry(index as u64).plus(ID)), id);
            }
        }
    }

    #[test]
    fn an_entry_that_is_there_twice_is_damage() {
        let (image, array, bytes) = place();
        let mut words = vec![0; ENTRY_BYTES as usize];
        image.read(array.entry(1), &mut words);
        image.write(array.entry(2), &words);
        assert_eq!(array.recover(&image, bytes), Ok(()));
        assert!(array.contents(&image).unwrap_err().to_string().contains("id 1"));
    }
}
