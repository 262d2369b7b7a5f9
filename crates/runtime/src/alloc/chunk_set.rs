//! Sets of chunks, in DRAM: where there is free space, known without a search.
//!
//! A set has a bit for each chunk, a bit for each word of those that is not zero, and so on up to a
//! single word. So an empty set is known by one load, and the first member is found in as many
//! steps as there are levels, at most five. Any thread inserts at any time; members are removed,
//! and searched for, under the chunk lock.

use seawall_memory::{Addr, Memory, MemoryExt};
use std::ops::Range;

/// A set of chunks, of so many at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkSet {
    at: Addr,
    most: u64,
}

/// The words of one level.
#[derive(Clone, Copy)]
struct Level {
    at: Addr,
    words: u64,
}

impl Level {
    fn word(self, number: u64) -> Addr {
        self.at.plus(8 * (number / 64))
    }

    fn above(self) -> Level {
        Level { at: self.at.plus(8 * self.words), words: self.words.div_ceil(64) }
    }
}

impl ChunkSet {
    /// Bytes of a set of up to `most` chunks.
    pub(crate) fn bytes(most: u64) -> u64 {
        let set = ChunkSet { at: Addr::dram(0), most };
        set.levels().map(|level| 8 * level.words).sum()
    }

    pub(crate) fn new(at: Addr, most: u64) -> ChunkSet {
        ChunkSet { at, most }
    }

    fn levels(&self) -> impl Iterator<Item = Level> {
        let leaves = Level { at: self.at, words: self.most.div_ceil(64) };
        std::iter::successors(Some(leaves), |level| (level.words > 1).then(|| level.above()))
    }

    /// Whether the set has no member.
    #[inline]
    pub(crate) fn is_empty<M: Memory>(&self, memory: &M) -> bool {
        let top = self.levels().last().expect("the leaves");
        memory.load::<u64>(top.at) == 0
    }

    pub(crate) fn contains<M: Memory>(&self, memory: &M, chunk: u64) -> bool {
        memory.load::<u64>(self.at.plus(8 * (chunk / 64))) >> (chunk % 64) & 1 == 1
    }

    pub(crate) fn insert<M: Memory>(&self, memory: &M, chunk: u64) {
        self.insert_run(memory, chunk, 1);
    }

    /// Inserts `length` chunks, the first one first.
    pub(crate) fn insert_run<M: Memory>(&self, memory: &M, first: u64, length: u64) {
        for (number, mask) in words(first..first + length) {
            if set(memory, self.at.plus(8 * number), mask) == 0 {
                self.insert_above(memory, 1, number);
            }
        }
    }

    /// Inserts a bit in that level and, where its word was zero, in those above.
    fn insert_above<M: Memory>(&self, memory: &M, level: usize, mut number: u64) {
        for level in self.levels().skip(level) {
            if set(memory, level.word(number), 1 << (number % 64)) != 0 {
                return;
            }
            number /= 64;
        }
    }

    /// Removes a chunk. The chunk lock is held.
    pub(crate) fn remove<M: Memory>(&self, memory: &M, chunk: u64) {
        self.remove_run(memory, chunk, 1);
    }

    /// Removes `length` chunks. The chunk lock is held.
    pub(crate) fn remove_run<M: Memory>(&self, memory: &M, first: u64, length: u64) {
        for (number, mask) in words(first..first + length) {
            if clear(memory, self.at.plus(8 * number), mask) == 0 {
                self.remove_above(memory, number);
            }
        }
    }

    /// Removes the bit of a leaf that is zero, and those of words above that are zero then. Where
    /// another thread inserts something below meanwhile, the bit comes back.
    fn remove_above<M: Memory>(&self, memory: &M, mut number: u64) {
        let levels = self.levels().zip(self.levels().skip(1)).zip(1..);
        for ((below, level), height) in levels {
            let left = clear(memory, level.word(number), 1 << (number % 64));
            if memory.load::<u64>(below.at.plus(8 * number)) != 0 {
                return self.insert_above(memory, height, number);
            }
            if left != 0 {
                return;
            }
            number /= 64;
        }
    }

    /// The first member from `from` on. The chunk lock is held.
    pub(crate) fn first<M: Memory>(&self, memory: &M, from: u64) -> Option<u64> {
        let (mut height, mut number) = (0, from);
        loop {
            let level = self.levels().nth(height)?;
            if number / 64 >= level.words {
                return None;
            }
            let word = memory.load::<u64>(level.word(number)) >> (number % 64);
            if word == 0 {
                (height, number) = (height + 1, number / 64 + 1);
                continue;
            }
            number += u64::from(word.trailing_zeros());
            if height == 0 {
                return Some(number);
            }
            (height, number) = (height - 1, 64 * number);
        }
    }

    /// The first chunk of `length` consecutive members below `end`; or else the most consecutive
    /// ones that there are. The chunk lock is held.
    pub(crate) fn find_run<M: Memory>(
        &self,
        memory: &M,
        length: u64,
        end: u64,
    ) -> Result<u64, u64> {
        let (mut most, mut from) = (0, 0);
        while let Some(first) = self.first(memory, from) {
            let found = self.count_from(memory, first, length);
            if found >= length && first + length <= end {
                return Ok(first);
            }
            most = most.max(found);
            from = first + found;
        }
        Err(most)
    }

    /// The number of consecutive members from `first` on; no more than `limit` are counted.
    fn count_from<M: Memory>(&self, memory: &M, first: u64, limit: u64) -> u64 {
        let last = self.most.min(first + limit);
        for (number, mask) in words(first..last) {
            let missing = !memory.load::<u64>(self.at.plus(8 * number)) & mask;
            if missing != 0 {
                return 64 * number + u64::from(missing.trailing_zeros()) - first;
            }
        }
        last - first
    }
}

/// The leaves that have bits of these chunks, and which bits.
fn words(chunks: Range<u64>) -> impl Iterator<Item = (u64, u64)> {
    let Range { start, end } = chunks;
    (start / 64..end.div_ceil(64)).map(move |number| {
        let low = start.saturating_sub(64 * number);
        let high = (end - 64 * number).min(64);
        (number, (!0 >> (64 - high)) & (!0 << low))
    })
}

/// Sets bits of a word; returns what it was.
fn set<M: Memory>(memory: &M, at: Addr, mask: u64) -> u64 {
    let mut word: u64 = memory.load(at);
    while word & mask != mask {
        match memory.compare_exchange(at, word, word | mask) {
            Ok(_) => return word,
            Err(now) => word = now,
        }
    }
    word
}

/// Clears bits of a word; returns what is left.
fn clear<M: Memory>(memory: &M, at: Addr, mask: u64) -> u64 {
    let mut word: u64 = memory.load(at);
    while word & mask != 0 {
        match memory.compare_exchange(at, word, word & !mask) {
            Ok(_) => return word & !mask,
            Err(now) => word = now,
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use seawall_memory::Image;
    use std::collections::BTreeSet;

    const MOST: u64 = 64 * 64 + 70;

    fn run(chunks: &BTreeSet<u64>, length: u64, end: u64) -> Option<u64> {
        let is_free = |first: &u64| (*first..first + length).all(|chunk| chunks.contains(&chunk));
        (0..end.saturating_sub(length - 1)).find(is_free)
    }

    proptest! {
        #[test]
        fn a_set_says_what_a_list_says(
            steps in proptest::collection::vec((0..MOST, 1u64..200, proptest::bool::ANY), 1..30),
            from in 0..MOST, length in 1u64..150, end in 1..MOST,
        ) {
            let image = Image::new(64, ChunkSet::bytes(MOST));
            let set = ChunkSet::new(Addr::dram(0), MOST);
            let mut list = BTreeSet::new();
            for (first, length, comes) in steps {
                let length = length.min(MOST - first);
                if comes {
                    set.insert_run(&image, first, length);
                    list.extend(first..first + length);
                } else {
                    set.remove_run(&image, first, length);
                    list.retain(|chunk| !(first..first + length).contains(chunk));
                }
                prop_assert_eq!(set.is_empty(&image), list.is_empty());
            }
            prop_assert_eq!(set.first(&image, from), list.range(from..).next().copied());
            prop_assert_eq!(set.contains(&image, from), list.contains(&from));
            let found = set.find_run(&image, length, end);
            prop_assert_eq!(found.ok(), run(&list, length, end));
            let Err(most) = found else { return Ok(()) };
            prop_assert_eq!(run(&list, length, MOST).is_some(), most == length);
            prop_assert!(most == 0 || run(&list, most, MOST).is_some());
            prop_assert!(most == length || run(&list, most + 1, MOST).is_none());
        }
    }

    #[test]
    fn that_a_set_is_empty_is_one_load() {
        for most in [1, 64, 65, 1 << 20, 1 << 28] {
            assert_eq!(ChunkSet::new(Addr::dram(0), most).levels().last().unwrap().words, 1);
        }
    }
}
