//! The keys of the maps: uniform, from one seed, and the orders in which they are used.

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const SEED: u64 = 1;

/// Keys in three orders. Each thread takes its own part of each.
pub(crate) struct Keys {
    inserted: Vec<u64>,
    looked_up: Vec<u64>,
    removed: Vec<u64>,
}

impl Keys {
    pub(crate) fn new(count: usize) -> Keys {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
        let mut inserted: Vec<u64> = (0..count).map(|_| random.next_u64().max(1)).collect();
        inserted.sort_unstable();
        inserted.dedup();
        inserted.truncate(inserted.len() & !7);
        inserted.shuffle(&mut random);
        let (mut looked_up, mut removed) = (inserted.clone(), inserted.clone());
        looked_up.shuffle(&mut random);
        removed.shuffle(&mut random);
        Keys { inserted, looked_up, removed }
    }

    /// Keys of each of `threads` threads, which divide 8.
    pub(crate) fn share(&self, threads: usize) -> u64 {
        (self.inserted.len() / threads) as u64
    }

    pub(crate) fn inserted(&self, thread: usize, threads: usize) -> &[u64] {
        self.part(&self.inserted, thread, threads)
    }

    pub(crate) fn looked_up(&self, thread: usize, threads: usize) -> &[u64] {
        self.part(&self.looked_up, thread, threads)
    }

    pub(crate) fn removed(&self, thread: usize, threads: usize) -> &[u64] {
        self.part(&self.removed, thread, threads)
    }

    fn part<'a>(&self, of: &'a [u64], thread: usize, threads: usize) -> &'a [u64] {
        let share = self.share(threads) as usize;
        &of[thread * share..(thread + 1) * share]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_three_orders_are_the_same_keys_and_differ() {
        let keys = Keys::new(1000);
        let set = |of: &[u64]| of.iter().copied().collect::<BTreeSet<u64>>();
        assert_eq!(set(&keys.inserted), set(&keys.looked_up));
        assert_eq!(set(&keys.inserted), set(&keys.removed));
        assert!(keys.inserted != keys.looked_up && keys.looked_up != keys.removed);
        assert_eq!(Keys::new(1000).inserted, keys.inserted);
    }

    #[test]
    fn threads_have_keys_of_their_own() {
        let keys = Keys::new(1007);
        let both = [keys.inserted(0, 2), keys.inserted(1, 2)].concat();
        assert_eq!(both.len() as u64, 2 * keys.share(2));
        assert_eq!(both.iter().collect::<BTreeSet<_>>().len(), both.len());
    }
}
