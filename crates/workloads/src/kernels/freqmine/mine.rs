//! Mining of one item: its conditional base, and those of the sets that extend it, consecutively in
//! the thread's part of the pool.
//!
//! A base is a list of paths: count, number of ranks, and the ranks, the less frequent first. The
//! first words of the part count ranks.

use super::database::ITEMS;
use super::prefix::Prefixes;
use super::{SET_ITEMS, weight};
use crate::Words;
use seawall_memory::Memory;
use std::ops::Range;

pub(super) struct Miner<'m, M> {
    memory: &'m M,
    words: Words,
    least: u64,
    /// The number of sets, and the sum over them.
    pub(super) found: (u64, u64),
}

impl<'m, M: Memory> Miner<'m, M> {
    pub(super) fn new(memory: &'m M, words: Words, least: u64) -> Miner<'m, M> {
        Miner { memory, words, least, found: (0, 0) }
    }

    fn get(&self, index: u64) -> u64 {
        self.words.get(self.memory, index)
    }

    fn put(&self, index: u64, value: u64) {
        self.words.put(self.memory, index, value);
    }

    fn put_path(&self, to: u64, count: u64, path: impl Iterator<Item = u64>) -> u64 {
        let mut end = to + 2;
        for rank in path {
            self.put(end, rank);
            end += 1;
        }
        self.put(to, count);
        self.put(to + 1, end - to - 2);
        end
    }

    /// Writes the base of `rank` as the first; returns its end.
    pub(super) fn base_of(&self, tree: &Prefixes, rank: u64) -> u64 {
        let mut end = ITEMS;
        tree.paths_of(self.memory, rank, |count, path| {
            if !path.is_empty() {
                end = self.put_path(end, count, path.iter().copied());
            }
        });
        end
    }

    /// The paths of a base: the count, and the range of its ranks.
    fn paths(&self, base: Range<u64>) -> impl Iterator<Item = (u64, Range<u64>)> {
        let mut at = base.start;
        std::iter::from_fn(move || {
            (at < base.end).then(|| {
                let (count, first) = (self.get(at), at + 2);
                at = first + self.get(at + 1);
                (count, first..at)
            })
        })
    }

    /// Counts the set with this base, and all its extensions.
    pub(super) fn grow(&mut self, set: &mut Vec<u64>, support: u64, base: Range<u64>) {
        self.found.0 += 1;
        self.found.1 = self.found.1.wrapping_add(weight(set, support));
        if set.len() == SET_ITEMS || base.is_empty() {
            return;
        }
        let last = set[set.len() - 1];
        for rank in 0..last {
            self.put(rank, 0);
        }
        for (count, ranks) in self.paths(base.clone()) {
            for place in ranks {
                let rank = self.get(place);
                self.put(rank, self.get(rank) + count);
                self.memory.work(4);
            }
        }
        let mut frequent = Vec::new();
        for rank in 0..last {
            let support = self.get(rank);
            self.memory.work(3);
            if support >= self.least {
                frequent.push((rank, support));
            }
        }
        for (rank, support) in frequent {
            set.push(rank);
            let end = if set.len() < SET_ITEMS { self.project(&base, rank) } else { base.end };
            self.grow(set, support, base.end..end);
            set.pop();
        }
    }

    /// Writes behind `base` the part above `rank` of its paths that contain `rank`; returns the
    /// end.
    fn project(&self, base: &Range<u64>, rank: u64) -> u64 {
        let mut end = base.end;
        for (count, ranks) in self.paths(base.clone()) {
            let mut places = ranks.clone();
            let is_there = places.by_ref().any(|place| {
                self.memory.work(2);
                self.get(place) <= rank
            });
            let first = places.start;
            if is_there && self.get(first - 1) == rank && first < ranks.end {
                end = self.put_path(end, count, (first..ranks.end).map(|place| self.get(place)));
            }
        }
        end
    }
}
