//! Radix sort, with the sharing of SPLASH-2's "radix" (Woo et al., ISCA'95): each pass counts the
//! digits of a thread's part, sums the counts of all threads, and permutes the keys into the other
//! array, where the parts of different threads alternate line by line.
//!
//! In the pool: both arrays of keys (4 bytes each), and for each thread its counts and its ranks.
//! The sort is stable, and sorts by the low 20 bits of a key only, so the check also detects equal
//! keys that change places.

use super::sync::Team;
use crate::{Counts, Damage, Input, Kernel, Mix, Phased, Words};
use rand_xoshiro::rand_core::Rng;
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_runtime::Arena;
use std::ops::RangeInclusive;

const DIGIT_BITS: u32 = 10;
const DIGITS: u64 = 1 << DIGIT_BITS;
/// Passes; an even number, so that the sorted keys end in the first array.
const PASSES: u32 = 2;

/// The sort.
#[derive(Clone, Copy, Debug)]
pub struct Radix {
    team: Team,
    count: u64,
    keys: [Words; 2],
    totals: Words,
    counts: Words,
    ranks: Words,
}

fn keys_of(input: &Input, count: u64) -> Vec<u32> {
    let mut rng = input.stream(0);
    (0..count).map(|_| rng.next_u64() as u32).collect()
}

fn key_at(keys: Words, index: u64) -> Addr {
    keys.at(index / 2).plus(4 * (index % 2))
}

fn digit(key: u32, pass: u32) -> u64 {
    u64::from(key >> (pass * DIGIT_BITS)) % DIGITS
}

impl Radix {
    fn count_digits<M: Memory>(&self, memory: &M, pass: u32, counts: Words) {
        for index in 0..DIGITS {
            counts.put(memory, index, 0);
        }
        for index in self.team.share(memory, self.count) {
            let key = memory.load::<u32>(key_at(self.keys[pass as usize % 2], index));
            memory.work(4);
            let digit = digit(key, pass);
            counts.put(memory, digit, counts.get(memory, digit) + 1);
        }
    }

    /// Computes from all counts, for the digits of this thread's share, the number of keys with the
    /// same digit in the threads before.
    fn add_up<M: Memory>(&self, memory: &M) {
        for digit in self.team.share(memory, DIGITS) {
            let mut before = 0;
            for thread in 0..self.team.threads() {
                let index = thread * DIGITS + digit;
                self.ranks.put(memory, index, before);
                before += self.counts.get(memory, index);
                memory.work(3);
            }
            self.totals.put(memory, digit, before);
        }
    }

    fn permute<M: Memory>(&self, memory: &M, pass: u32, ranks: Words) {
        let mut before = 0;
        for digit in 0..DIGITS {
            ranks.put(memory, digit, ranks.get(memory, digit) + before);
            before += self.totals.get(memory, digit);
            memory.work(3);
        }
        let (from, to) = (self.keys[pass as usize % 2], self.keys[1 - pass as usize % 2]);
        for index in self.team.share(memory, self.count) {
            let key = memory.load::<u32>(key_at(from, index));
            memory.work(4);
            let digit = digit(key, pass);
            let rank = ranks.get(memory, digit);
            memory.store(key_at(to, rank), key);
            ranks.put(memory, digit, rank + 1);
        }
    }
}

impl Kernel for Radix {
    const NAME: &'static str = "radix";
    const ABOUT: &'static str = "radix sort: all threads permute keys into one array";
    const UNIT: &'static str = "keys";
    const SIZE: u64 = 1 << 22;
    const QUICK: u64 = 1 << 16;
    const SMALL: u64 = 3000;
    const SIZES: RangeInclusive<u64> = 2..=1 << 30;
    const MIX: Mix = Mix {
        program: "radix of Splash-3, 262144 keys, radix 1024",
        run: Counts {
            instructions: 14_238_209,
            heap_stores: 2_377_834,
            stack_loads: 404,
            stack_stores: 331,
            per_1000: 1000,
        },
        start: None,
        heap_lines: 919,
        stack_lines: 1,
        parallelism: 2020,
    };

    fn place(input: &Input, arena: &mut Arena) -> Radix {
        let team = Team::place(input, arena, 1);
        let count = input.size.next_multiple_of(2);
        let keys = [Words::place(arena, count / 2), Words::place(arena, count / 2)];
        let totals = Words::place(arena, DIGITS);
        let counts = Words::place(arena, DIGITS * team.threads());
        let ranks = Words::place(arena, DIGITS * team.threads());
        Radix { team, count, keys, totals, counts, ranks }
    }

    fn fill<M: Memory>(&self, memory: &M) {
        for (index, key) in (0..).zip(keys_of(&self.team.input, self.count)) {
            memory.store(key_at(self.keys[0], index), key);
        }
    }

    fn run<M: Memory>(&self, memory: &M) {
        for pass in 0..self.phases() {
            self.phase(memory, pass);
        }
    }

    fn check<M: Memory>(&self, memory: &M) -> Result<(), Damage> {
        let mut keys = keys_of(&self.team.input, self.count);
        keys.sort_by_key(|key| key % (1 << (DIGIT_BITS * PASSES)));
        let pairs = keys.chunks(2).map(|pair| u64::from(pair[0]) | u64::from(pair[1]) << 32);
        self.keys[0].compare(memory, "pair of keys", pairs)
    }

    fn results(&self) -> Vec<Words> {
        vec![self.keys[0]]
    }
}

impl Phased for Radix {
    const CHECKPOINTED: &'static str = "radix-checkpoint";
    const ABOUT_CHECKPOINTED: &'static str = "radix with a checkpoint after each pass";

    fn phases(&self) -> u64 {
        u64::from(PASSES)
    }

    fn phase<M: Memory>(&self, memory: &M, pass: u64) {
        let pass = pass as u32;
        let own = memory.thread() as u64 * DIGITS;
        let (counts, ranks) =
            (self.counts.part(own..own + DIGITS), self.ranks.part(own..own + DIGITS));
        self.count_digits(memory, pass, counts);
        self.team.meet(memory);
        self.add_up(memory);
        self.team.meet(memory);
        self.permute(memory, pass, ranks);
        self.team.meet(memory);
    }
}
