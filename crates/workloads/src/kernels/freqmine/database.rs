//! The transactions, and the plain computation: sets grow by intersecting lists of transactions.

use super::{RESULT, SET_ITEMS, SETS, SUM, weight};
use crate::Input;
use crate::harness::workload::below;

/// The number of items.
pub(super) const ITEMS: u64 = 256;
/// The number of items that a transaction draws, with repetition.
const DRAWN: u64 = 12;
/// Sets of items that tend to occur together.
const PATTERNS: usize = 48;
/// An item in this number of 1000 transactions is frequent.
const LEAST_PER_MILLE: u64 = 4;
/// The least number of transactions that make an item frequent.
const LEAST: u64 = 8;

pub(super) struct Database {
    pub(super) least: u64,
    /// The items of each transaction, each once, unordered.
    pub(super) transactions: Vec<Vec<u64>>,
}

impl Database {
    pub(super) fn new(input: &Input) -> Database {
        let mut rng = input.stream(0);
        // Small numbers are more probable: the product of two uniform ones.
        let item = |rng: &mut _| below(rng, ITEMS) * below(rng, ITEMS) / ITEMS;
        let patterns: Vec<[u64; 4]> =
            (0..PATTERNS).map(|_| [(); 4].map(|()| item(&mut rng))).collect();
        let transactions = (0..input.size).map(|_| {
            let mut items: Vec<u64> = Vec::new();
            let wanted = 2 + below(&mut rng, DRAWN - 1) as usize;
            while items.len() < wanted {
                if below(&mut rng, 2) == 0 {
                    items.extend(patterns[below(&mut rng, PATTERNS as u64) as usize]);
                } else {
                    items.push(item(&mut rng));
                }
            }
            items.sort_unstable();
            items.dedup();
            items
        });
        let transactions = transactions.collect();
        Database { least: (input.size * LEAST_PER_MILLE).div_ceil(1000).max(LEAST), transactions }
    }

    pub(super) fn occurrences(&self) -> u64 {
        self.transactions.iter().map(|items| items.len() as u64).sum()
    }

    pub(super) fn supports(&self) -> Vec<u64> {
        let mut supports = vec![0; ITEMS as usize];
        for item in self.transactions.iter().flatten() {
            supports[*item as usize] += 1;
        }
        supports
    }

    /// Frequent items, the most frequent first.
    fn frequent(&self) -> Vec<u64> {
        let supports = self.supports();
        let mut items: Vec<u64> =
            (0..ITEMS).filter(|item| supports[*item as usize] >= self.least).collect();
        items.sort_by_key(|item| (std::cmp::Reverse(supports[*item as usize]), *item));
        items
    }

    /// The greatest number of words of an item's conditional base, if no two paths are the same.
    pub(super) fn base_words(&self) -> u64 {
        let mut rank_of = vec![None; ITEMS as usize];
        for (rank, item) in self.frequent().into_iter().enumerate() {
            rank_of[item as usize] = Some(rank);
        }
        let mut words = vec![0; ITEMS as usize];
        for transaction in &self.transactions {
            let mut ranks: Vec<usize> =
                transaction.iter().filter_map(|item| rank_of[*item as usize]).collect();
            ranks.sort_unstable();
            for (before, rank) in (0..).zip(ranks) {
                words[rank] += 2 + before;
            }
        }
        words.into_iter().max().unwrap_or(0)
    }

    /// For each item, the number of frequent sets that end with it, and the sum over them.
    pub(super) fn plain(&self) -> Vec<u64> {
        let frequent = self.frequent();
        let lists: Vec<Vec<u32>> = frequent
            .iter()
            .map(|item| {
                let has = |(_, items): &(u32, &Vec<u64>)| items.contains(item);
                (0..).zip(&self.transactions).filter(has).map(|(index, _)| index).collect()
            })
            .collect();
        let mut results = vec![0; (ITEMS * RESULT) as usize];
        for (rank, item) in frequent.iter().enumerate() {
            let mut found = (0, 0);
            grow(&lists, self.least, &mut vec![rank as u64], &lists[rank], &mut found);
            results[(item * RESULT + SETS) as usize] = found.0;
            results[(item * RESULT + SUM) as usize] = found.1;
        }
        results
    }
}

/// Counts the set and all its extensions by items that are more frequent than its last.
fn grow(lists: &[Vec<u32>], least: u64, set: &mut Vec<u64>, list: &[u32], found: &mut (u64, u64)) {
    found.0 += 1;
    found.1 = found.1.wrapping_add(weight(set, list.len() as u64));
    if set.len() == SET_ITEMS {
        return;
    }
    for rank in 0..set[set.len() - 1] {
        let both = common(list, &lists[rank as usize]);
        if both.len() as u64 >= least {
            set.push(rank);
            grow(lists, least, set, &both, found);
            set.pop();
        }
    }
}

fn common(left: &[u32], right: &[u32]) -> Vec<u32> {
    let mut right = right.iter().peekable();
    let mut both = Vec::new();
    for index in left {
        while right.next_if(|other| *other < index).is_some() {}
        both.extend(right.next_if_eq(&index));
    }
    both
}
