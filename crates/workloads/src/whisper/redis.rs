//! Gets and sets in a cache with approximate LRU eviction: WHISPER's "redis", a dictionary above
//! NVML's undo log, under the lru test of redis (ASPLOS'17, section 3.2).
//!
//! The dictionary is a chained hash table that grows step by step: a set that adds a key moves one
//! bucket of the small table into one of twice the size, until the small one is empty. A set of an
//! existing key overwrites its value. If there is no room for another key, the set evicts one in
//! the same transaction: the least recently used of a small sample. The times of use are in DRAM
//! only, because a restart can lose them. A few keys are requested most. The published program is
//! one process with one thread; here each thread is one such server, with a dictionary of its own.
//!
//! A dictionary has no order, so for scans YCSB keeps its keys also in a sorted set of the server.
//! Here that set is in volatile memory, because only the dictionary was moved to persistent memory:
//! the first scan builds it from the dictionary, as after a restart, and sets keep it up to date
//! from then on. A program without scans has none.
//!
//! What an entry holds is a `Stored`: here words in the entry itself, in
//! `ribbon20::hashes` a hash of fields with objects of their own.
//!
//! Sizes: 0.74 % of the accesses of the published run are to persistent memory, and it has 6 epochs
//! per transaction (`experiments/whisper.toml`); [`STEP_CALLS`] and [`CALLS`] are chosen for the
//! former.

use super::client::Client;
use super::share::{Share, spread};
use super::undo::{Overhead, Undo, UndoTx};
use crate::harness::ycsb::{Accepts, Op};
use crate::{Contents, Damage, Flaw, Layout, Setup, Worker, Workload};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::Arena;
use std::collections::BTreeSet;

mod stored;

pub(crate) use stored::{InEntry, Stored};

/// Function calls per step of the transaction system, and per transaction beside the steps.
const STEP_CALLS: u64 = 8;
const CALLS: u64 = 60;
/// Words of a dictionary's line: its level (the small table has 2^level buckets), the number of
/// moved buckets of the small table, and the number of keys.
const LEVEL: u64 = 0;
const MOVED: u64 = 8;
const USED: u64 = 16;

/// Keys per bucket at which the dictionary grows.
const CROWDED: u64 = 2;
/// Keys in the sample of an eviction.
const SAMPLES: u64 = 5;
/// Instructions per step in the sorted set.
const SORTED_WORK: u32 = 20;

const LOG_ENTRY_LINES: u64 = 2;

/// The cache benchmark of WHISPER.
pub type Redis = Dictionary<InEntry>;

/// A cache of a server for each thread.
///
/// After a crash, dictionaries, including growing ones, and the bitmaps of free blocks are as their
/// threads' last commits left them: a thread's undo log restores what an open transaction had
/// changed. The times of use are in DRAM and lost; nothing is rebuilt.
#[derive(Clone, Copy, Debug)]
pub struct Dictionary<S> {
    pub(crate) share: Share,
    undo: Undo,
    heads: Addr,
    tables: Addr,
    pub(crate) stored: S,
    /// The time of use of each key.
    used: Addr,
    client: Client,
}

/// The volatile state of a thread: where it searches for free entries, the time, and its keys in
/// order once a scan has requested them.
#[derive(Debug, Default)]
pub struct Server<C> {
    pub(crate) cursors: C,
    clock: u64,
    sorted: Option<BTreeSet<u64>>,
}

/// An entry, and the word that points to it.
struct Found {
    link: Addr,
    entry: Addr,
}

/// The level of the largest table.
fn levels(share: Share) -> u64 {
    u64::from(share.each().next_power_of_two().ilog2())
}

/// Bytes of all tables of a thread.
fn table_bytes(share: Share) -> u64 {
    (16u64 << levels(share)).next_multiple_of(LINE_BYTES)
}

impl<S: Stored> Dictionary<S> {
    /// Places dictionaries in a pool.
    pub(crate) fn place(share: Share) -> (Dictionary<S>, Arena) {
        let mut arena = Arena::new();
        let redis = Dictionary {
            share,
            undo: Undo::place(&mut arena, share.threads, S::LOG_ENTRIES, LOG_ENTRY_LINES),
            heads: arena.pm(share.threads * LINE_BYTES),
            tables: arena.pm(share.threads * table_bytes(share)),
            stored: S::place(&mut arena, share, S::room(share)),
            used: arena.dram(8 * share.keys),
            client: Client::place(&mut arena, share.threads),
        };
        (redis, arena)
    }

    /// Creates dictionaries with the keys and tags of `initial`, as many as there is room for.
    pub(crate) fn create_with<M: Memory>(
        memory: &M,
        setup: &Setup,
        share: Share,
        initial: impl Iterator<Item = (u64, u64)>,
    ) -> Dictionary<S> {
        let (redis, arena) = Dictionary::place(share);
        for thread in 0..share.threads {
            memory.store(redis.head(thread).plus(LEVEL), levels(share).saturating_sub(2));
            memory.flush(redis.head(thread), LINE_BYTES);
        }
        memory.drain();
        let mut servers = Vec::new();
        servers.resize_with(setup.threads, Server::default);
        for (key, tag) in initial {
            let thread = share.owner(key);
            let used = memory.load::<u64>(redis.head(thread).plus(USED));
            if used < S::room(share) {
                let mut tx = redis.begin(memory, key, (key, Flaw::None));
                redis.insert(&mut tx, &mut servers[thread as usize], (key, tag));
                tx.commit();
            }
        }
        share.seal(memory, S::NAME, setup, &arena);
        redis
    }

    /// A request arrives and is handled; returns its hash.
    pub(crate) fn request<M: Memory>(&self, memory: &M, key: u64, bytes: u64) -> u64 {
        let hash = self.client.request(memory, key, bytes);
        self.client.calls(memory, hash, CALLS);
        hash
    }

    pub(crate) fn respond<M: Memory>(&self, memory: &M, hash: u64, bytes: u64) {
        self.client.respond(memory, hash, bytes);
    }

    fn head(&self, thread: u64) -> Addr {
        self.heads.plus(thread * LINE_BYTES)
    }

    /// A bucket of the table of a level: the tables are stored one after the other, small ones
    /// first.
    fn bucket(&self, thread: u64, level: u64, bucket: u64) -> Addr {
        self.tables.plus(thread * table_bytes(self.share) + 8 * ((1 << level) + bucket))
    }

    /// The present bucket of `hashed`.
    fn place_of<M: Memory>(&self, memory: &M, thread: u64, hashed: u64) -> Addr {
        let level = memory.load::<u64>(self.head(thread).plus(LEVEL));
        let moved = memory.load::<u64>(self.head(thread).plus(MOVED));
        let of_level = |level: u64| hashed >> 20 & ((1 << level) - 1);
        let small = of_level(level);
        if small < moved {
            return self.bucket(thread, level + 1, of_level(level + 1));
        }
        self.bucket(thread, level, small)
    }

    fn find<M: Memory>(&self, memory: &M, key: u64) -> Result<Found, Addr> {
        let bucket = self.place_of(memory, self.share.owner(key), spread(key));
        let mut link = bucket;
        memory.work(12);
        loop {
            let entry = memory.load::<Addr>(link);
            if entry.is_null() {
                return Err(bucket);
            }
            if S::key(memory, entry) == key {
                return Ok(Found { link, entry });
            }
            link = entry.plus(S::NEXT);
        }
    }

    /// The entry of a key, if it exists.
    pub(crate) fn entry<M: Memory>(&self, memory: &M, key: u64) -> Option<Addr> {
        self.find(memory, key).ok().map(|found| found.entry)
    }

    pub(crate) fn begin<'a, M: Memory>(
        &'a self,
        memory: &'a M,
        key: u64,
        (hash, flaw): (u64, Flaw),
    ) -> UndoTx<'a, M> {
        let overhead = Overhead { client: self.client, hash, calls: STEP_CALLS };
        UndoTx::begin(memory, &self.undo, self.share.owner(key), overhead, flaw.of_epochs())
    }

    /// Records that `key` is used now.
    fn touch<M: Memory>(&self, memory: &M, server: &mut Server<S::Cursors>, key: u64) {
        server.clock += 1;
        memory.store(self.used.plus(8 * key), server.clock);
    }

    /// The least recently used of a sample of the thread's keys, never `but`. `None` if the sample
    /// has no key.
    fn victim<M: Memory>(&self, memory: &M, thread: u64, hash: u64, but: u64) -> Option<u64> {
        let mut oldest: Option<(u64, u64)> = None;
        let (mut met, mut hash) = (0, hash);
        for _ in 0..SAMPLES * self.share.each() {
            hash = spread(hash ^ met);
            let mut link = self.place_of(memory, thread, hash);
            memory.work(12);
            loop {
                let entry = memory.load::<Addr>(link);
                if entry.is_null() {
                    break;
                }
                let key = S::key(memory, entry);
                let used = memory.load::<u64>(self.used.plus(8 * key));
                if key != but {
                    met += 1;
                    oldest = Some(oldest.map_or((used, key), |oldest| oldest.min((used, key))));
                }
                link = entry.plus(S::NEXT);
            }
            if met >= SAMPLES {
                break;
            }
            hash = hash.rotate_left(17);
        }
        oldest.map(|(_, key)| key)
    }

    /// Moves one bucket of the small table if the dictionary is growing, or starts its growth.
    fn grow<M: Memory>(&self, tx: &mut UndoTx<'_, M>) {
        let (memory, thread) = (tx.memory(), tx.thread());
        let head = self.head(thread);
        let word = |offset: u64| memory.load::<u64>(head.plus(offset));
        let (level, moved, used) = (word(LEVEL), word(MOVED), word(USED));
        let is_due = moved > 0 || used > CROWDED << level;
        if !is_due || level >= levels(self.share) {
            return;
        }
        let from = self.bucket(thread, level, moved);
        let mut next = memory.load::<Addr>(from);
        let mask = (2 << level) - 1;
        tx.strand();
        tx.add(from, 1);
        while !next.is_null() {
            let entry = next;
            next = memory.load(entry.plus(S::NEXT));
            let hashed = spread(S::key(memory, entry));
            let into = self.bucket(thread, level + 1, hashed >> 20 & mask);
            tx.add(entry.plus(S::NEXT), 1);
            tx.add(into, 1);
            memory.store(entry.plus(S::NEXT), memory.load::<u64>(into));
            memory.store(into, entry);
        }
        memory.store(from, 0u64);
        tx.strand();
        tx.add(head, 3);
        let is_last = moved + 1 == 1 << level;
        memory.store(head.plus(LEVEL), level + u64::from(is_last));
        memory.store(head.plus(MOVED), if is_last { 0 } else { moved + 1 });
    }

    /// Changes the key count of the dictionary of the transaction's thread.
    fn recount<M: Memory>(&self, tx: &mut UndoTx<'_, M>, by: i64) {
        let (memory, head) = (tx.memory(), self.head(tx.thread()));
        tx.strand();
        tx.add(head, 3);
        let used = memory.load::<u64>(head.plus(USED));
        memory.store(head.plus(USED), used.wrapping_add_signed(by));
    }

    /// Reads up to `most` keys of the thread, in order, from `key` on.
    fn scan<M: Memory>(
        &self,
        memory: &M,
        server: &mut Server<S::Cursors>,
        (key, most): (u64, u64),
    ) {
        let thread = self.share.owner(key);
        let sorted = server.sorted.get_or_insert_with(|| self.keys(memory, thread).collect());
        let keys: Vec<u64> = sorted.range(key..).take(most as usize).copied().collect();
        for key in keys {
            memory.work(SORTED_WORK);
            if let Ok(found) = self.find(memory, key) {
                self.stored.read(memory, found.entry);
                self.touch(memory, server, key);
            }
        }
    }

    /// The keys of `thread`.
    pub(crate) fn keys<M: Memory>(&self, memory: &M, thread: u64) -> impl Iterator<Item = u64> {
        let head = self.head(thread);
        let level = memory.load::<u64>(head.plus(LEVEL));
        let grows = memory.load::<u64>(head.plus(MOVED)) > 0;
        let buckets = (level..=level + u64::from(grows))
            .flat_map(move |level| (0..1 << level).map(move |at| self.bucket(thread, level, at)));
        buckets.flat_map(move |bucket| {
            let next = move |link: Addr| {
                memory.work(SORTED_WORK);
                Some(memory.load::<Addr>(link)).filter(|entry| !entry.is_null())
            };
            let entries =
                std::iter::successors(next(bucket), move |entry| next(entry.plus(S::NEXT)));
            entries.map(move |entry| S::key(memory, entry))
        })
    }

    /// Removes the existing `key`.
    pub(crate) fn remove<M: Memory>(&self, tx: &mut UndoTx<'_, M>, key: u64) {
        let memory = tx.memory();
        let Ok(Found { link, entry }) = self.find(memory, key) else { return };
        tx.strand();
        tx.add(link, 1);
        memory.store(link, memory.load::<u64>(entry.plus(S::NEXT)));
        self.stored.give(tx, entry);
        self.recount(tx, -1);
    }

    /// Adds the absent `key`.
    pub(crate) fn insert<M: Memory>(
        &self,
        tx: &mut UndoTx<'_, M>,
        server: &mut Server<S::Cursors>,
        (key, tag): (u64, u64),
    ) {
        let memory = tx.memory();
        self.grow(tx);
        let entry = self.stored.take(tx, &mut server.cursors);
        let Err(bucket) = self.find(memory, key) else { return };
        self.stored.fill(tx, &mut server.cursors, (entry, key, tag));
        memory.store(entry.plus(S::NEXT), memory.load::<u64>(bucket));
        tx.strand();
        tx.add(bucket, 1);
        memory.store(bucket, entry);
        self.recount(tx, 1);
    }

    /// Checks the dictionary of `thread`, and adds its entries.
    fn check<M: Memory>(
        &self,
        memory: &M,
        thread: u64,
        walk: &mut S::Walk<'_>,
        contents: &mut Contents,
    ) -> Result<(), Damage> {
        let what = format!("the dictionary of thread {thread}");
        let head = self.head(thread);
        let word = |offset: u64| memory.load::<u64>(head.plus(offset));
        let (level, moved) = (word(LEVEL), word(MOVED));
        let most = levels(self.share);
        if level > most || (moved > 0 && (level == most || moved >= 1 << level)) {
            return Err(Damage(format!("{what} is at bucket {moved} of level {level}")));
        }
        let mut found = 0;
        for level in level..=level + u64::from(moved > 0) {
            for number in 0..1 << level {
                let bucket = self.bucket(thread, level, number);
                let mut next = memory.load::<u64>(bucket);
                while next != 0 {
                    let entry = S::reach(walk, memory, thread, (next, &what))?;
                    let key = S::key(memory, entry);
                    let is_here = self.place_of(memory, thread, spread(key)) == bucket;
                    if self.share.owner(key) != thread || key >= self.share.keys || !is_here {
                        return Err(Damage(format!("key {key} is in a wrong chain of {what}")));
                    }
                    let tag = self.stored.check(walk, memory, (entry, key), thread)?;
                    if contents.insert(key, tag).is_some() {
                        return Err(Damage(format!("key {key} is there twice")));
                    }
                    found += 1;
                    next = memory.load(entry.plus(S::NEXT));
                }
            }
        }
        match word(USED) {
            used if used == found => Ok(()),
            used => Err(Damage(format!("{what} says that it has {used} keys, not {found}"))),
        }
    }
}

impl<S: Stored> Workload for Dictionary<S> {
    const NAME: &'static str = S::NAME;
    const ABOUT: &'static str = S::ABOUT;
    const ENTRIES: u64 = 8192;
    const SEARCH_PERCENT: u32 = 50;
    const ACCEPTS: Accepts = Accepts::Ranges;

    fn layout(setup: &Setup) -> Layout {
        Layout::of(&Self::place(Share::of(setup)).1)
    }

    fn create<M: Memory>(memory: &M, setup: &Setup) -> Self {
        let share = Share::of(setup);
        Self::create_with(memory, setup, share, share.initial(setup))
    }

    fn open<M: Memory>(memory: &M, layout: Layout) -> Result<Self, Damage> {
        let (redis, arena) = Self::place(Share::open(memory, S::NAME, layout)?);
        layout.hold(&arena)?;
        redis.undo.recover(memory, arena.pm_bytes())?;
        redis.contents(memory)?;
        Ok(redis)
    }

    type Local<'m, M: Memory + 'm> = Server<S::Cursors>;

    fn join<M: Memory>(&self, _: &M) -> Server<S::Cursors> {
        Server::default()
    }

    fn step<M: Memory>(&self, memory: &M, server: &mut Server<S::Cursors>, worker: &mut Worker) {
        let thread = worker.thread as u64;
        let Some(count) = Some(self.share.count(thread)).filter(|count| *count > 0) else { return };
        let (op, rank) = match worker.request_of_mix(count, (0, 1)) {
            Some(request) => request,
            None => {
                // The product of two uniform numbers: half of the requests go to the first sixth of
                // the keys.
                let rank = worker.below(count) * worker.below(count) / count;
                (worker.action().into(), rank)
            }
        };
        let key = rank * self.share.threads + thread;
        let (request_bytes, response_bytes) = S::message_bytes(op);
        let hash = self.request(memory, key, request_bytes);
        if let Op::Scan(most) = op {
            self.scan(memory, server, (key, most));
            return self.client.respond(memory, hash, response_bytes);
        }
        let found = self.find(memory, key);
        let mut change = worker.change();
        if let (Op::Read | Op::ReadModifyWrite, Ok(found)) = (op, &found) {
            self.stored.read(memory, found.entry);
            self.touch(memory, server, key);
        }
        match (op, found) {
            (Op::Read, _) | (Op::Update | Op::ReadModifyWrite, Err(_)) => {}
            (_, Ok(found)) => {
                (change.note)(key, change.tag);
                let mut tx = self.begin(memory, key, (hash, worker.flaw));
                let at = (found.entry, key, change.tag);
                self.stored.update(&mut tx, &mut server.cursors, at);
                tx.commit();
                self.touch(memory, server, key);
            }
            (_, Err(_)) => {
                let used = memory.load::<u64>(self.head(thread).plus(USED));
                let is_full = used >= S::room(self.share);
                let victim = is_full.then(|| self.victim(memory, thread, hash, key)).flatten();
                if is_full && victim.is_none() {
                    return;
                }
                (change.note)(key, change.tag);
                let mut tx = self.begin(memory, key, (hash, worker.flaw));
                if let Some(victim) = victim {
                    (change.note)(victim, 0);
                    self.remove(&mut tx, victim);
                }
                if let Some(sorted) = &mut server.sorted {
                    memory.work(SORTED_WORK);
                    sorted.insert(key);
                    victim.map(|victim| sorted.remove(&victim));
                }
                self.insert(&mut tx, server, (key, change.tag));
                tx.commit();
                self.touch(memory, server, key);
            }
        }
        self.client.respond(memory, hash, response_bytes);
    }

    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage> {
        let (mut contents, mut walk) = (Contents::new(), self.stored.walk());
        for thread in 0..self.share.threads {
            self.check(memory, thread, &mut walk, &mut contents)?;
        }
        S::check_blocks(&walk, memory)?;
        Ok(contents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::History;
    use seawall_memory::Image;
    use std::sync::Arc;

    #[test]
    fn the_sorted_set_has_the_keys_of_the_dictionary_also_while_it_grows() {
        let mix = Some("ycsb-e".parse().unwrap());
        let setup = Setup { entries: 128, mix, ..Setup::of::<Redis>(2) };
        let layout = Redis::layout(&setup);
        let image = Image::new(layout.pm_bytes, layout.dram_bytes);
        let redis = Redis::create(&image, &setup);
        let mut worker = Worker::new(&setup, 0, Arc::new(History::new()));
        let (mut server, mut grew) = (Server::default(), false);
        let before = redis.keys(&image, 0).count();
        while worker.number < 1000 {
            redis.step(&image, &mut server, &mut worker);
            worker.number += 1;
            grew |= image.load::<u64>(redis.head(0).plus(MOVED)) > 0;
            let sorted = server.sorted.clone().unwrap_or_default();
            let keys: BTreeSet<u64> = redis.keys(&image, 0).collect();
            assert!(sorted.is_empty() || sorted == keys);
        }
        assert!(grew && redis.keys(&image, 0).count() > before);
        let own = redis.contents(&image).unwrap().into_keys();
        let own: BTreeSet<u64> = own.filter(|key| redis.share.owner(*key) == 0).collect();
        assert_eq!(server.sorted, Some(own));
    }

    #[test]
    fn it_grows_step_by_step_and_throws_out_what_was_not_used_for_long() {
        let setup = Setup { entries: 128, search_percent: 0, ..Setup::of::<Redis>(1) };
        let layout = Redis::layout(&setup);
        let image = Image::new(layout.pm_bytes, layout.dram_bytes);
        let redis = Redis::create(&image, &setup);
        let word = |offset| image.load::<u64>(redis.head(0).plus(offset));
        let (level, room) = (word(LEVEL), InEntry::room(redis.share));
        let history = Arc::new(History::new());
        let (mut worker, mut server) = (Worker::new(&setup, 0, history.clone()), Server::default());
        let (mut between, mut last) = (0, 0);
        while worker.number < 1000 {
            redis.step(&image, &mut server, &mut worker);
            worker.number += 1;
            between += u64::from(word(MOVED) > 0);
            last = word(USED);
            assert!(last <= room);
            assert_eq!(redis.contents(&image).unwrap().len() as u64, last);
        }
        assert!(word(LEVEL) > level && between > 10, "at level {}, was {level}", word(LEVEL));
        assert_eq!(last, room, "full, and stays so");
        let effects = history.effects();
        let gone: Vec<u64> = effects.iter().filter(|e| e.tag == 0).map(|e| e.key).collect();
        let mean = gone.iter().sum::<u64>() / gone.len() as u64;
        assert!(mean > redis.share.keys / 2, "rarely used keys go: {mean}");
    }
}
