//! Frequent sets of items in a database of transactions, with the sharing of PARSEC's "freqmine"
//! (Bienia et al., PACT'08), which is FP-growth (Han, Pei and Yin, SIGMOD'00): all threads count
//! the items, insert their transactions into one prefix tree, locking only the node that gets a new
//! child and adding to counts with locked adds, and then mine the tree, item by item, each in
//! private memory.
//!
//! The conditional bases of the items are kept as lists of paths, in the thread's part of the pool;
//! sets of up to four items are counted. In the pool: database, counts, tree, those lists, and for
//! each item the number of frequent sets that end with it, and a sum over them. The check finds the
//! same sets by another algorithm: from the lists of transactions of every item (Zaki's "Eclat").

use super::sync::Team;
use crate::{Counts, Damage, Input, Kernel, Mix, Words};
use seawall_memory::Memory;
use seawall_runtime::Arena;
use std::ops::RangeInclusive;

mod database;
mod mine;
mod prefix;

use database::{Database, ITEMS};
use mine::Miner;
use prefix::Prefixes;

/// The greatest number of items of a set.
const SET_ITEMS: usize = 4;

/// Words of the result of an item, and offsets.
const RESULT: u64 = 2;
const SETS: u64 = 0;
const SUM: u64 = 1;

/// The mining.
#[derive(Clone, Copy, Debug)]
pub struct Freqmine {
    team: Team,
    transactions: u64,
    /// The least number of transactions with a frequent item.
    least: u64,
    /// The start of each transaction in `items`, and the end of the last.
    starts: Words,
    items: Words,
    /// Counts of items, by thread.
    counts: Words,
    supports: Words,
    /// The rank of each item, plus one, if it is frequent; and items by rank.
    ranks: Words,
    by_rank: Words,
    /// The number of frequent items, and of items taken to be mined.
    counters: Words,
    tree: Prefixes,
    scratch: Words,
    scratch_each: u64,
    results: Words,
}

const FREQUENT: u64 = 0;
const MINED: u64 = 8;

/// The term of a set in the sum of its item: a function of its items and its support.
fn weight(ranks: &[u64], support: u64) -> u64 {
    let mixed = ranks.iter().fold(support, |mixed, rank| {
        (mixed ^ (rank + 1)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31)
    });
    mixed | 1
}

impl Freqmine {
    fn count<M: Memory>(&self, memory: &M) {
        let own = memory.thread() as u64 * ITEMS;
        let counts = self.counts.part(own..own + ITEMS);
        let share = self.team.share(memory, self.transactions);
        let first = self.starts.get(memory, share.start);
        for place in first..self.starts.get(memory, share.end) {
            let item = self.items.get(memory, place);
            memory.work(3);
            counts.put(memory, item, counts.get(memory, item) + 1);
        }
        self.team.meet(memory);
        for item in self.team.share(memory, ITEMS) {
            let mut sum = 0;
            for thread in 0..self.team.threads() {
                sum += self.counts.get(memory, thread * ITEMS + item);
                memory.work(3);
            }
            self.supports.put(memory, item, sum);
        }
        self.team.meet(memory);
    }

    /// Ranks the frequent items, the most frequent first; one thread runs it.
    fn rank<M: Memory>(&self, memory: &M) {
        let mut frequent = Vec::new();
        for item in 0..ITEMS {
            let support = self.supports.get(memory, item);
            memory.work(4);
            if support >= self.least {
                frequent.push((support, item));
            }
        }
        frequent.sort_by_key(|(support, item)| (std::cmp::Reverse(*support), *item));
        for (rank, (_, item)) in (0..).zip(&frequent) {
            self.ranks.put(memory, *item, rank + 1);
            self.by_rank.put(memory, rank, *item);
            memory.work(20);
        }
        self.counters.put(memory, FREQUENT, frequent.len() as u64);
    }

    fn build<M: Memory>(&self, memory: &M) {
        let mut own = prefix::Own::default();
        for transaction in self.team.share(memory, self.transactions) {
            let first = self.starts.get(memory, transaction);
            let mut ranks = Vec::new();
            for place in first..self.starts.get(memory, transaction + 1) {
                let item = self.items.get(memory, place);
                memory.work(4);
                ranks.extend(self.ranks.get(memory, item).checked_sub(1));
            }
            ranks.sort_unstable();
            memory.work(8 * ranks.len() as u32);
            self.tree.insert(memory, &ranks, &mut own);
        }
    }

    fn mine<M: Memory>(&self, memory: &M) {
        let frequent = self.counters.get(memory, FREQUENT);
        let own = memory.thread() as u64 * self.scratch_each;
        let scratch = self.scratch.part(own..own + self.scratch_each);
        loop {
            let taken = self.counters.claim(memory, MINED, 1);
            if taken >= frequent {
                return;
            }
            let rank = frequent - 1 - taken;
            let item = self.by_rank.get(memory, rank);
            let support = self.supports.get(memory, item);
            let mut miner = Miner::new(memory, scratch, self.least);
            let end = miner.base_of(&self.tree, rank);
            miner.grow(&mut vec![rank], support, ITEMS..end);
            let (sets, sum) = miner.found;
            self.results.put(memory, item * RESULT + SETS, sets);
            self.results.put(memory, item * RESULT + SUM, sum);
        }
    }
}

impl Kernel for Freqmine {
    const NAME: &'static str = "freqmine";
    const ABOUT: &'static str = "frequent sets: one prefix tree that all threads build and mine";
    const UNIT: &'static str = "transactions";
    const SIZE: u64 = 1 << 14;
    const QUICK: u64 = 1 << 11;
    const SMALL: u64 = 400;
    const SIZES: RangeInclusive<u64> = 1..=1 << 24;
    const MIX: Mix = Mix {
        program: "PARSEC's freqmine, 12000 transactions",
        run: Counts {
            instructions: 177_102_592,
            heap_stores: 15_667_507,
            stack_loads: 11_573_058,
            stack_stores: 8_778_384,
            per_1000: 7300,
        },
        start: Some(Counts {
            instructions: 58_179_539,
            heap_stores: 4_414_801,
            stack_loads: 1_948_350,
            stack_stores: 1_616_397,
            per_1000: 28_300,
        }),
        heap_lines: 141,
        stack_lines: 13,
        parallelism: 1860,
    };

    fn place(input: &Input, arena: &mut Arena) -> Freqmine {
        let database = Database::new(input);
        let team = Team::place(input, arena, 1);
        let scratch_each = ITEMS + database.base_words() * (SET_ITEMS as u64 - 1);
        Freqmine {
            team,
            transactions: input.size,
            least: database.least,
            starts: Words::place(arena, input.size + 1),
            items: Words::place(arena, database.occurrences()),
            counts: Words::place(arena, ITEMS * team.threads()),
            supports: Words::place(arena, ITEMS),
            ranks: Words::place(arena, ITEMS),
            by_rank: Words::place(arena, ITEMS),
            counters: Words::place(arena, MINED + 1),
            tree: Prefixes::place(arena, database.occurrences(), team.threads()),
            scratch: Words::place(arena, scratch_each * team.threads()),
            scratch_each,
            results: Words::place(arena, ITEMS * RESULT),
        }
    }

    fn fill<M: Memory>(&self, memory: &M) {
        let mut start = 0;
        let database = Database::new(&self.team.input);
        for (index, transaction) in (0..).zip(&database.transactions) {
            self.starts.put(memory, index, start);
            for item in transaction {
                self.items.put(memory, start, *item);
                start += 1;
            }
        }
        self.starts.put(memory, self.transactions, start);
    }

    fn run<M: Memory>(&self, memory: &M) {
        self.count(memory);
        if memory.thread() == 0 {
            self.rank(memory);
        }
        self.team.meet(memory);
        self.build(memory);
        self.team.meet(memory);
        self.mine(memory);
    }

    fn check<M: Memory>(&self, memory: &M) -> Result<(), Damage> {
        let database = Database::new(&self.team.input);
        self.supports.compare(memory, "support of item", database.supports())?;
        self.results.compare(memory, "word of the sets found", database.plain())
    }

    fn results(&self) -> Vec<Words> {
        vec![self.supports, self.results]
    }
}
