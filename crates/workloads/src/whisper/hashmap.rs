//! A hash map under the [`map_insert`](super::inserts) of NVML: WHISPER's "hashmap".
//!
//! An insert allocates an entry, links it in front of its chain and counts it. Each thread has a
//! map; no other thread writes the line with its count or its buckets.
//!
//! Sizes: 2.6 % of the accesses of the published run are to persistent memory, and it has 11 epochs
//! per transaction (`experiments/whisper.toml`); `STEP_CALLS` and `CALLS` are chosen for the
//! former.

use super::blocks::{Blocks, ReachedBlocks};
use super::inserts::{Inserted, MapInsert, VALUE_WORDS};
use super::share::{self, KEY, Share};
use super::undo::UndoTx;
use crate::{Contents, Damage};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::Arena;

/// An entry is a value, and the next entry of its chain.
const NEXT: u64 = 8 * VALUE_WORDS;
const ENTRY_BYTES: u64 = NEXT + 8;

/// The hash map benchmark.
pub type HashMap = MapInsert<Chains>;

/// Chains of entries, the same number for each thread.
#[derive(Clone, Copy, Debug)]
pub struct Chains {
    share: Share,
    counts: Addr,
    buckets: Addr,
    entries: Blocks,
}

impl Chains {
    fn count(&self, thread: u64) -> Addr {
        self.counts.plus(thread * LINE_BYTES)
    }

    fn bucket(&self, thread: u64, bucket: u64) -> Addr {
        self.buckets.plus(thread * bucket_bytes(self.share) + 8 * bucket)
    }

    /// The bucket of a key, in the map of its thread.
    fn number(&self, key: u64) -> u64 {
        share::place_of(key, buckets(self.share))
    }

    /// Increments the number of keys of the transaction's thread.
    fn recount<M: Memory>(&self, tx: &mut UndoTx<'_, M>) {
        let (memory, count) = (tx.memory(), self.count(tx.thread()));
        tx.strand();
        tx.add(count, 1);
        memory.store(count, memory.load::<u64>(count) + 1);
    }

    /// Checks the map of `thread`, and adds its entries.
    fn check<M: Memory>(
        &self,
        memory: &M,
        thread: u64,
        entries: &mut ReachedBlocks<'_>,
        contents: &mut Contents,
    ) -> Result<(), Damage> {
        let what = format!("the map of thread {thread}");
        let mut found = 0;
        for bucket in 0..buckets(self.share) {
            let mut next = memory.load::<u64>(self.bucket(thread, bucket));
            while next != 0 {
                let entry = entries.reach(thread, next, &what)?;
                let key = memory.load::<u64>(entry.plus(KEY));
                if self.share.owner(key) != thread || self.number(key) != bucket {
                    return Err(Damage(format!("key {key} is in a wrong chain of {what}")));
                }
                let tag = share::check(memory, entry, VALUE_WORDS, key)?;
                if contents.insert(key, tag).is_some() {
                    return Err(Damage(format!("key {key} is there twice")));
                }
                found += 1;
                next = memory.load(entry.plus(NEXT));
            }
        }
        match memory.load::<u64>(self.count(thread)) {
            count if count == found => Ok(()),
            count => Err(Damage(format!("{what} says that it has {count} keys, not {found}"))),
        }
    }
}

/// Buckets of a thread: two for each key at the start.
const fn buckets(share: Share) -> u64 {
    share.each().div_ceil(4)
}

const fn bucket_bytes(share: Share) -> u64 {
    (8 * buckets(share)).next_multiple_of(LINE_BYTES)
}

impl Inserted for Chains {
    const NAME: &'static str = "hashmap";
    const ABOUT: &'static str = "inserts into hash maps with an undo log (NVML)";
    const STEP_CALLS: u64 = 5;
    const CALLS: u64 = 45;
    type Cursors = u64;
    /// The head of the chain to which the absent key belongs.
    type Near = Addr;

    fn place(arena: &mut Arena, share: Share) -> Chains {
        Chains {
            share,
            counts: arena.pm(share.threads * LINE_BYTES),
            buckets: arena.pm(share.threads * bucket_bytes(share)),
            entries: Blocks::place(arena, share.threads, share.each() + 1, ENTRY_BYTES),
        }
    }

    fn find<M: Memory>(&self, memory: &M, key: u64) -> Result<Addr, Addr> {
        let head = self.bucket(self.share.owner(key), self.number(key));
        let mut link = head;
        memory.work(8);
        loop {
            let entry = memory.load::<Addr>(link);
            if entry.is_null() {
                return Err(head);
            }
            if memory.load::<u64>(entry.plus(KEY)) == key {
                return Ok(entry);
            }
            link = entry.plus(NEXT);
        }
    }

    fn insert<M: Memory>(
        &self,
        mut tx: UndoTx<'_, M>,
        cursor: &mut u64,
        (key, tag): (u64, u64),
        head: Addr,
    ) {
        let memory = tx.memory();
        let entry = self.entries.take(&mut tx, cursor).expect("an entry for each key");
        share::fill(memory, entry, VALUE_WORDS, key, tag);
        memory.store(entry.plus(NEXT), memory.load::<u64>(head));
        tx.strand();
        tx.add(head, 1);
        memory.store(head, entry);
        self.recount(&mut tx);
        tx.commit();
    }

    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage> {
        let (mut contents, mut entries) = (Contents::new(), self.entries.reached());
        for thread in 0..self.share.threads {
            self.check(memory, thread, &mut entries, &mut contents)?;
        }
        entries.check(memory)?;
        Ok(contents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Setup, Workload};
    use seawall_memory::Image;

    #[test]
    fn a_wrong_count_and_an_entry_that_is_lost_are_found() {
        let setup = Setup { entries: 8, ..Setup::of::<HashMap>(2) };
        let layout = HashMap::layout(&setup);
        let image = Image::new(layout.pm_bytes, layout.dram_bytes);
        let map = HashMap::create(&image, &setup);
        let contents = map.contents(&image).unwrap();
        let count = image.load::<u64>(map.map.count(1));
        image.store(map.map.count(1), count + 1);
        let wrong = map.contents(&image).unwrap_err();
        assert!(wrong.0.contains("map of thread 1 says"), "{wrong}");
        let key = contents.keys().copied().find(|key| key % 2 == 1).unwrap();
        let bucket = map.map.bucket(1, map.map.number(key));
        let first = image.load::<Addr>(bucket);
        image.store(bucket, image.load::<u64>(first.plus(NEXT)));
        image.store(map.map.count(1), count - 1);
        let lost = map.contents(&image).unwrap_err();
        assert!(lost.0.contains("nothing leads to it"), "{lost}");
    }
}
