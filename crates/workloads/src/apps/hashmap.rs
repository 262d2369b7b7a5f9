//! Inserts, updates and deletes in a hash map above an undo log: WHISPER's "hashmap", the
//! `map_insert` benchmark of NVML (ASPLOS'17, section 3.2): four clients, values of 128 bytes.
//!
//! An insert takes an entry, links it in front of its chain and counts it; a delete takes it out
//! again. Each thread has a map, whose line with the count and whose buckets nobody else writes.
//!
//! Amounts: 2.6 % of the accesses of the published run are to persistent memory, and it has 11
//! epochs for a transaction (`experiments/whisper.toml`); [`STEP_CALLS`] and [`CALLS`] are chosen
//! for the former.

use super::blocks::{Blocks, Reached};
use super::client::Client;
use super::share::{self, KEY, Share};
use super::undo::{Overhead, Undo, UndoTx};
use crate::workload::Action;
use crate::{Contents, Damage, Flaw, Layout, Setup, Worker, Workload};
use seawall_memory::{Addr, LINE_BYTES, Memory};
use seawall_runtime::Arena;

/// Function calls of the transaction system for each of its steps, and of the rest.
const STEP_CALLS: u64 = 5;
const CALLS: u64 = 45;
const REQUEST_BYTES: u64 = 64;
const RESPONSE_BYTES: u64 = 32;

/// An entry is a value, and the next entry of its chain.
const VALUE_WORDS: u64 = 16;
const NEXT: u64 = 8 * VALUE_WORDS;
const ENTRY_BYTES: u64 = NEXT + 8;

const LOG_ENTRIES: u64 = 8;
const LOG_ENTRY_LINES: u64 = 3;

/// The hash map benchmark.
#[derive(Clone, Copy, Debug)]
pub struct HashMap {
    share: Share,
    undo: Undo,
    counts: Addr,
    buckets: Addr,
    entries: Blocks,
    client: Client,
}

/// An entry, and what leads to it.
struct Found {
    link: Addr,
    entry: Addr,
}

impl HashMap {
    fn place(share: Share) -> (HashMap, Arena) {
        let mut arena = Arena::new();
        let map = HashMap {
            share,
            undo: Undo::place(&mut arena, share.threads, LOG_ENTRIES, LOG_ENTRY_LINES),
            counts: arena.pm(share.threads * LINE_BYTES),
            buckets: arena.pm(share.threads * bucket_bytes(share)),
            entries: Blocks::place(&mut arena, share.threads, share.each() + 1, ENTRY_BYTES),
            client: Client::place(&mut arena, share.threads),
        };
        (map, arena)
    }

    fn count(&self, thread: u64) -> Addr {
        self.counts.plus(thread * LINE_BYTES)
    }

    fn bucket(&self, thread: u64, bucket: u64) -> Addr {
        self.buckets.plus(thread * bucket_bytes(self.share) + 8 * bucket)
    }

    /// The bucket of a key, in the map of its thread.
    fn number(&self, key: u64) -> u64 {
        let hashed = key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((u128::from(hashed) * u128::from(self.share.each())) >> 64) as u64
    }

    fn find<M: Memory>(&self, memory: &M, key: u64) -> Result<Found, Addr> {
        let head = self.bucket(self.share.owner(key), self.number(key));
        let mut link = head;
        memory.work(8);
        loop {
            let entry = memory.load::<Addr>(link);
            if entry.is_null() {
                return Err(head);
            }
            if memory.load::<u64>(entry.plus(KEY)) == key {
                return Ok(Found { link, entry });
            }
            link = entry.plus(NEXT);
        }
    }

    fn begin<'a, M: Memory>(
        &'a self,
        memory: &'a M,
        key: u64,
        (hash, flaw): (u64, Flaw),
    ) -> UndoTx<'a, M> {
        let overhead = Overhead { client: self.client, hash, calls: STEP_CALLS };
        UndoTx::begin(memory, &self.undo, self.share.owner(key), overhead, flaw.of_epochs())
    }

    /// Changes the count of the transaction's thread.
    fn recount<M: Memory>(&self, tx: &mut UndoTx<'_, M>, by: i64) {
        let (memory, count) = (tx.memory(), self.count(tx.thread()));
        tx.strand();
        tx.add(count, 1);
        memory.store(count, memory.load::<u64>(count).wrapping_add_signed(by));
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
        self.recount(&mut tx, 1);
        tx.commit();
    }

    fn update<M: Memory>(&self, mut tx: UndoTx<'_, M>, (key, tag): (u64, u64), found: &Found) {
        tx.add(found.entry, VALUE_WORDS);
        share::fill(tx.memory(), found.entry, VALUE_WORDS, key, tag);
        tx.commit();
    }

    fn delete<M: Memory>(&self, mut tx: UndoTx<'_, M>, found: &Found) {
        let memory = tx.memory();
        tx.add(found.link, 1);
        memory.store(found.link, memory.load::<u64>(found.entry.plus(NEXT)));
        self.entries.give(&mut tx, found.entry);
        self.recount(&mut tx, -1);
        tx.commit();
    }

    /// Checks the map of `thread`, and adds what it holds.
    fn check<M: Memory>(
        &self,
        memory: &M,
        thread: u64,
        entries: &mut Reached<'_>,
        contents: &mut Contents,
    ) -> Result<(), Damage> {
        let what = format!("the map of thread {thread}");
        let mut found = 0;
        for bucket in 0..self.share.each() {
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

const fn bucket_bytes(share: Share) -> u64 {
    (8 * share.each()).next_multiple_of(LINE_BYTES)
}

impl Workload for HashMap {
    const NAME: &'static str = "hashmap";
    const ABOUT: &'static str = "insert, update, delete in hash maps with an undo log (NVML)";
    const ENTRIES: u64 = 8192;
    const SEARCH_PERCENT: u32 = 0;

    fn layout(setup: &Setup) -> Layout {
        Layout::of(&HashMap::place(Share::of(setup)).1)
    }

    fn create<M: Memory>(memory: &M, setup: &Setup) -> HashMap {
        let (map, arena) = HashMap::place(Share::of(setup));
        let mut cursors = vec![0; setup.threads];
        for (key, tag) in map.share.initial(setup) {
            let Err(head) = map.find(memory, key) else { continue };
            let cursor = &mut cursors[map.share.owner(key) as usize];
            map.insert(map.begin(memory, key, (key, Flaw::None)), cursor, (key, tag), head);
        }
        map.share.seal(memory, HashMap::NAME, setup, &arena);
        map
    }

    fn open<M: Memory>(memory: &M, layout: Layout) -> Result<HashMap, Damage> {
        let (map, arena) = HashMap::place(Share::open(memory, HashMap::NAME, layout)?);
        layout.hold(&arena)?;
        map.undo.recover(memory, arena.pm_bytes())?;
        map.contents(memory)?;
        Ok(map)
    }

    /// Where the thread looks for a free entry.
    type Local<'m, M: Memory + 'm> = u64;

    fn join<M: Memory>(&self, _: &M) -> u64 {
        0
    }

    fn step<M: Memory>(&self, memory: &M, cursor: &mut u64, worker: &mut Worker) {
        let Some(key) = self.share.pick(worker) else { return };
        let action = worker.action();
        let hash = self.client.request(memory, key, REQUEST_BYTES);
        self.client.calls(memory, hash, CALLS);
        let change = worker.change();
        let (tag, mut note) = (change.tag, change.note);
        let begin = || self.begin(memory, key, (hash, worker.flaw));
        match (action, self.find(memory, key)) {
            (Action::Search, Ok(found)) => {
                share::read(memory, found.entry, VALUE_WORDS);
            }
            (Action::Search, Err(_)) => {}
            (_, Err(head)) => {
                note(key, tag);
                self.insert(begin(), cursor, (key, tag), head);
            }
            (Action::Insert, Ok(found)) => {
                note(key, tag);
                self.update(begin(), (key, tag), &found);
            }
            (Action::Delete, Ok(found)) => {
                note(key, 0);
                self.delete(begin(), &found);
            }
        }
        self.client.respond(memory, hash, RESPONSE_BYTES);
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
    use seawall_memory::Image;

    #[test]
    fn a_wrong_count_and_an_entry_that_is_lost_are_found() {
        let setup = Setup { entries: 8, ..Setup::of::<HashMap>(2) };
        let layout = HashMap::layout(&setup);
        let image = Image::new(layout.pm_bytes, layout.dram_bytes);
        let map = HashMap::create(&image, &setup);
        let contents = map.contents(&image).unwrap();
        let count = image.load::<u64>(map.count(1));
        image.store(map.count(1), count + 1);
        let wrong = map.contents(&image).unwrap_err();
        assert!(wrong.0.contains("map of thread 1 says"), "{wrong}");
        let key = contents.keys().copied().find(|key| key % 2 == 1).unwrap();
        let Ok(Found { link, entry }) = map.find(&image, key) else { panic!("{key} is there") };
        image.store(link, image.load::<u64>(entry.plus(NEXT)));
        image.store(map.count(1), count - 1);
        let lost = map.contents(&image).unwrap_err();
        assert!(lost.0.contains("nothing leads to it"), "{lost}");
    }
}
