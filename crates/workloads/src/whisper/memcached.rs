//! Memcached on Mnemosyne, as WHISPER ran it (ASPLOS'17, Table 1): a hash table and LRU lists in
//! persistent memory, with 5 % SET requests.
//!
//! A GET finds its item and stores the time of its use, one word; it does not move the item in its
//! list, because memcached does so only once a minute. A SET makes a new item, puts it at the front
//! of the list of its class in place of the old item of its key, and removes the last item if the
//! class is full. So nearly all transactions write one line, and nearly all epochs consist of one.
//!
//! Items are of fifteen classes, with values of 64 to 512 bytes, each class with its list. A bucket
//! has one of [`STRIPES`] locks, a class has one; a SET takes that of the class, then those of the
//! buckets. The share of accesses to persistent memory is unpublished; the front end's work is set
//! such that SETs of two threads in one class are about as rare as published (0.2 % of epochs
//! depend on another thread's).

use super::client::Client;
use super::mnemosyne::{Cursor, RedoLog, Tx};
use super::reach::{Reach, within, word};
use super::share;
use crate::harness::history::{Contents, initial_tag, tag};
use crate::harness::workload::{ENTRIES_MAX, THREADS_MAX};
use crate::shared::Slots;
use crate::{Damage, Flaw, Layout, Setup, Worker, Workload};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::{Arena, Locks, pool};
use std::collections::BTreeMap;
use std::sync::Arc;

const CLASSES: u64 = 15;
/// The difference in words between the values of a class and those of the one before.
const CLASS_WORDS: u64 = 4;
const STRIPES: u64 = 512;
/// Keys for every four items of a class: some keys are absent.
const KEYS_FOR_FOUR: u64 = 5;

/// An item: links, then constant fields, then its time of use; its value has lines of its own.
const CHAIN: u64 = 0;
const NEWER: u64 = 8;
const OLDER: u64 = 16;
const KEY: u64 = 24;
const TAG: u64 = 32;
const USED: u64 = 40;
const VALUE: u64 = LINE_BYTES;
const HEAD_WORDS: u64 = 6;

/// The list of a class.
const NEWEST: u64 = 0;
const OLDEST: u64 = 8;
const COUNT: u64 = 16;

/// Function calls of the front end for a request.
const CALLS: u64 = 400;
const REQUEST_BYTES: u64 = 40;

/// The application.
///
/// After a crash, chains, lists and items are as the last commits left them: opening performs the
/// writes in the redo log of a committed transaction, and any other transaction has changed
/// nothing. Locks, free items and the read and write sets of the transactional memory are in DRAM;
/// opening rebuilds the free lists from the items that the buckets reach.
#[derive(Clone, Debug)]
pub struct Memcached {
    /// The greatest number of items of a class.
    room: u64,
    client: Client,
    log: RedoLog,
    buckets: Addr,
    lists: Addr,
    items: Arc<[Slots]>,
    classes: Locks,
    stripes: Locks,
}

/// Chains and lists, as a transaction sees and changes them.
struct Links<'a, 'm, M: Memory> {
    cache: &'a Memcached,
    tx: &'a mut Tx<'m, M>,
}

fn class_of(key: u64) -> u64 {
    key % CLASSES
}

/// Words of the value of an item.
fn value_words(class: u64) -> u64 {
    (class + 2) * CLASS_WORDS
}

impl<M: Memory> Links<'_, '_, M> {
    /// The word that points to the item of `key`, and the item.
    fn find(&mut self, key: u64) -> Option<(Addr, Addr)> {
        let mut link = self.cache.bucket(key);
        loop {
            let item = self.tx.follow(link);
            if item.is_null() {
                return None;
            }
            if self.tx.load(item.plus(KEY)) == key {
                return Some((link, item));
            }
            link = item.plus(CHAIN);
        }
    }

    /// Removes an item from its chain and its list.
    fn unlink(&mut self, link: Addr, item: Addr, class: u64) {
        let list = self.cache.list(class);
        let [chain, newer, older] = [CHAIN, NEWER, OLDER].map(|at| self.tx.load(item.plus(at)));
        self.tx.store(link, chain);
        let from_newer = if newer == 0 { list.plus(NEWEST) } else { Addr::pm(newer).plus(OLDER) };
        let from_older = if older == 0 { list.plus(OLDEST) } else { Addr::pm(older).plus(NEWER) };
        self.tx.store(from_newer, older);
        self.tx.store(from_older, newer);
        self.tx.add(list.plus(COUNT), u64::MAX);
    }

    /// Writes a new item, and puts it at the front of its chain and its list.
    fn link(&mut self, item: Addr, key: u64, tag: u64) {
        let (class, bucket) = (class_of(key), self.cache.bucket(key));
        let list = self.cache.list(class);
        let (chain, older) = (self.tx.load(bucket), self.tx.load(list.plus(NEWEST)));
        let head: [u64; HEAD_WORDS as usize] = [chain, 0, older, key, tag, 0];
        let value: Vec<u64> = (0..value_words(class)).map(|at| word(key, tag, at)).collect();
        self.tx.fresh(item, &head);
        self.tx.fresh(item.plus(VALUE), &value);
        let from_older = if older == 0 { list.plus(OLDEST) } else { Addr::pm(older).plus(NEWER) };
        self.tx.store(bucket, item.bits());
        self.tx.store(list.plus(NEWEST), item.bits());
        self.tx.store(from_older, item.bits());
        self.tx.add(list.plus(COUNT), 1);
    }
}

impl Memcached {
    fn place(threads: u64, room: u64) -> (Memcached, Arena) {
        let mut arena = Arena::new();
        let slots = Slots::enough(room + 2 * threads, threads);
        let client = Client::place(&mut arena, threads);
        let log = RedoLog::place(&mut arena, threads);
        let buckets = arena.pm(8 * CLASSES * room);
        let lists = arena.pm(CLASSES * LINE_BYTES);
        let items = (0..CLASSES)
            .map(|class| Slots::place(&mut arena, slots, VALUE + 8 * value_words(class), threads));
        let items: Arc<[Slots]> = items.collect();
        let cache = Memcached {
            room,
            client,
            log,
            buckets,
            lists,
            items,
            classes: Locks::place(&mut arena, CLASSES, threads, 1),
            stripes: Locks::place(&mut arena, STRIPES, threads, 2),
        };
        (cache, arena)
    }

    fn keys(&self) -> u64 {
        (CLASSES * self.room * KEYS_FOR_FOUR).div_ceil(4)
    }

    fn list(&self, class: u64) -> Addr {
        self.lists.plus(class * LINE_BYTES)
    }

    fn bucket_of(&self, key: u64) -> u64 {
        share::place_of(key, CLASSES * self.room)
    }

    fn bucket(&self, key: u64) -> Addr {
        self.buckets.plus(8 * self.bucket_of(key))
    }

    fn stripe(&self, key: u64) -> u64 {
        self.bucket_of(key) % STRIPES
    }

    /// Reads the value of an item into a response; returns its words.
    fn copy<M: Memory>(memory: &M, item: Addr, class: u64) -> u64 {
        let words = value_words(class);
        for at in 0..words {
            memory.load::<u64>(item.plus(VALUE + 8 * at));
        }
        words
    }

    /// Answers a GET; returns the words of the value, 0 if there is none.
    fn get<M: Memory>(&self, memory: &M, cursor: &mut Cursor, worker: &Worker, key: u64) -> u64 {
        let guard = self.stripes.acquire(memory, self.stripe(key), 0);
        let mut tx = Tx::begin(memory, &self.log, cursor, worker.flaw);
        let found = Links { cache: self, tx: &mut tx }.find(key);
        let words = found.map_or(0, |(_, item)| {
            tx.store(item.plus(USED), tag(worker.thread, worker.number));
            Memcached::copy(memory, item, class_of(key))
        });
        tx.commit();
        self.stripes.release(memory, guard);
        words
    }

    /// Answers a SET.
    fn set<M: Memory>(&self, memory: &M, cursor: &mut Cursor, worker: &Worker, key: u64) {
        let class = class_of(key);
        let slots = &self.items[class as usize];
        let effect = |key, tag| worker.history.effect(worker.thread, worker.number, key, tag);
        let of_class = self.classes.acquire(memory, class, 0);
        let oldest: Addr = memory.load(self.list(class).plus(OLDEST));
        let is_full = memory.load::<u64>(self.list(class).plus(COUNT)) == self.room;
        let last = if is_full { memory.load(oldest.plus(KEY)) } else { key };
        let (low, high) = (self.stripe(key), self.stripe(last));
        let (low, high) = (low.min(high), low.max(high));
        let first = self.stripes.acquire(memory, low, 0);
        let second = (low != high).then(|| self.stripes.acquire(memory, high, 1));

        let mut tx = Tx::begin(memory, &self.log, cursor, worker.flaw);
        let mut links = Links { cache: self, tx: &mut tx };
        let tag = tag(worker.thread, worker.number);
        effect(key, tag);
        let mut old = links.find(key);
        if let Some((link, item)) = old {
            links.unlink(link, item, class);
        } else if is_full {
            effect(last, 0);
            old = links.find(last);
            let (link, item) = old.expect("the last item of a list is in its chain");
            links.unlink(link, item, class);
        }
        let item = slots.take(memory).expect("items for all classes");
        links.link(item, key, tag);
        tx.commit();
        if let Some(second) = second {
            self.stripes.release(memory, second);
        }
        self.stripes.release(memory, first);
        self.classes.release(memory, of_class);
        if let Some((_, item)) = old {
            slots.give(memory, item);
        }
    }

    /// Checks every invariant; adds the keys to `contents` and marks the items in `reach`, by
    /// class.
    fn walk<M: Memory>(
        &self,
        memory: &M,
        reach: &mut [Reach<'_>],
        contents: &mut Contents,
    ) -> Result<(), Damage> {
        let mut found = BTreeMap::new();
        for bucket in 0..CLASSES * self.room {
            let what = || format!("bucket {bucket}");
            let mut link = self.buckets.plus(8 * bucket);
            while let Some(to) = Some(memory.load::<u64>(link)).filter(|to| *to != 0) {
                let key = self.key_of(memory, to, what)?;
                let class = class_of(key);
                let item = reach[class as usize].reach(to, what)?;
                let tag: u64 = memory.load(item.plus(TAG));
                let is_word =
                    |at| memory.load::<u64>(item.plus(VALUE + 8 * at)) == word(key, tag, at);
                if self.bucket_of(key) != bucket || tag == 0 {
                    return Err(Damage(format!("{} has key {key}", what())));
                }
                if !(0..value_words(class)).all(is_word) {
                    return Err(Damage(format!("the value of key {key} is torn")));
                }
                if contents.insert(key, tag).is_some() {
                    return Err(Damage(format!("key {key} is there twice")));
                }
                found.insert(to, class);
                link = item.plus(CHAIN);
            }
        }
        for class in 0..CLASSES {
            self.walk_list(memory, class, &mut found)?;
        }
        match found.first_key_value() {
            None => Ok(()),
            Some((at, class)) => {
                Err(Damage(format!("the item at {at:#x} is not in the list of class {class}")))
            }
        }
    }

    /// The key of the item at `to`, if an item of any class starts there.
    fn key_of<M: Memory>(
        &self,
        memory: &M,
        to: u64,
        what: impl Fn() -> String,
    ) -> Result<u64, Damage> {
        let at = Addr::from_bits(to);
        if self.items.iter().all(|slots| slots.index(at).is_none()) {
            return Err(Damage(format!("{} points to {to:#x}, where nothing starts", what())));
        }
        match memory.load::<u64>(at.plus(KEY)) {
            key if key < self.keys() => Ok(key),
            key => Err(Damage(format!("{} has key {key}, which nobody has", what()))),
        }
    }

    /// Follows the list of a class and removes its items from `found`.
    fn walk_list<M: Memory>(
        &self,
        memory: &M,
        class: u64,
        found: &mut BTreeMap<u64, u64>,
    ) -> Result<(), Damage> {
        let field = |offset| memory.load::<u64>(self.list(class).plus(offset));
        let (mut at, mut newer, mut count) = (field(NEWEST), 0, 0);
        while at != 0 {
            if found.remove(&at) != Some(class) {
                return Err(Damage(format!("list {class} leads to {at:#x}, which is not its")));
            }
            let item = Addr::from_bits(at);
            if memory.load::<u64>(item.plus(NEWER)) != newer {
                return Err(Damage(format!("list {class} does not lead back from {at:#x}")));
            }
            (newer, at) = (at, memory.load(item.plus(OLDER)));
            count += 1;
        }
        if field(OLDEST) != newer || field(COUNT) != count || count > self.room {
            return Err(Damage(format!("list {class} has {count} items, or another end")));
        }
        Ok(())
    }

    fn none(&self) -> Vec<Reach<'_>> {
        self.items.iter().map(Reach::none).collect()
    }
}

impl Workload for Memcached {
    const NAME: &'static str = "memcached";
    const ABOUT: &'static str = "memcached on a redo log like Mnemosyne's: a cache of 5 % SET";
    const ENTRIES: u64 = 16384;
    const SEARCH_PERCENT: u32 = 95;

    fn layout(setup: &Setup) -> Layout {
        let room = setup.entries.div_ceil(CLASSES);
        Layout::of(&Memcached::place(setup.threads as u64, room).1)
    }

    fn create<M: Memory>(memory: &M, setup: &Setup) -> Memcached {
        let (threads, room) = (setup.threads as u64, setup.entries.div_ceil(CLASSES));
        let (cache, arena) = Memcached::place(threads, room);
        cache.none().into_iter().for_each(|reach| reach.rebuild(memory));
        let mut cursor = Cursor::default();
        for key in 0..CLASSES * room {
            let slots = &cache.items[class_of(key) as usize];
            let item = slots.take(memory).expect("items for all classes");
            let mut tx = Tx::begin(memory, &cache.log, &mut cursor, Flaw::None);
            Links { cache: &cache, tx: &mut tx }.link(item, key, initial_tag(key));
            tx.commit();
        }
        let mut reach = cache.none();
        cache.walk(memory, &mut reach, &mut Contents::new()).expect("a cache just filled");
        reach.into_iter().for_each(|reach| reach.rebuild(memory));
        pool::create(memory, Memcached::NAME, setup.uuid(), arena.pm_bytes(), &[threads, room]);
        cache
    }

    fn open<M: Memory>(memory: &M, layout: Layout) -> Result<Memcached, Damage> {
        let [threads, room, ..] = pool::open(memory, Memcached::NAME, layout.pm_bytes)?;
        let threads = within("threads", threads, 1, THREADS_MAX)?;
        let (cache, arena) = Memcached::place(threads, within("room", room, 1, ENTRIES_MAX)?);
        layout.hold(&arena)?;
        cache.log.recover(memory, arena.pm_bytes())?;
        let mut reach = cache.none();
        cache.walk(memory, &mut reach, &mut Contents::new())?;
        reach.into_iter().for_each(|reach| reach.rebuild(memory));
        Ok(cache)
    }

    type Local<'m, M: Memory + 'm> = Cursor;

    fn join<M: Memory>(&self, _: &M) -> Cursor {
        Cursor::default()
    }

    fn step<M: Memory>(&self, memory: &M, cursor: &mut Cursor, worker: &mut Worker) {
        let is_get = worker.below(100) < u64::from(worker.search_percent);
        let key = worker.below(self.keys());
        let value_bytes = 8 * value_words(class_of(key));
        let request = if is_get { REQUEST_BYTES } else { REQUEST_BYTES + value_bytes };
        let hash = self.client.request(memory, key, request);
        self.client.calls(memory, hash, CALLS);
        let words = if is_get {
            self.get(memory, cursor, worker, key)
        } else {
            self.set(memory, cursor, worker, key);
            1
        };
        self.client.respond(memory, hash, 8 * words.max(1));
    }

    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage> {
        let mut contents = Contents::new();
        self.walk(memory, &mut self.none(), &mut contents)?;
        Ok(contents)
    }
}
