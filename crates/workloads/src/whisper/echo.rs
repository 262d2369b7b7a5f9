//! Batches of puts into a key-value store with versions: WHISPER's "echo" (ASPLOS'17, section 3.2,
//! after Bailey, Hornyack, Ceze, Gribble and Levy, INFLOW'13).
//!
//! A client collects its puts and submits them together. Each put is written into a new version and
//! recorded in the client's log, with its mark as a separate epoch; one word commits the batch.
//! Then the log is applied to the master table, one word after the other: a new key gets its entry,
//! the version is linked in front of the older one, the entry points to it, and all but the last
//! two versions are freed. A second word of the log records that it is applied. After a crash a log
//! that is committed and not applied is applied again, skipping steps that are done already; any
//! other log is discarded. Each client has keys of its own.
//!
//! Entries and versions come from free lists in DRAM: an unreachable one is free.
//!
//! Sizes: 5.5 % of the accesses of the published run are to persistent memory, and it has 307
//! epochs per batch (`experiments/whisper.toml`): [`BATCH`] puts of nine or ten, and two.
//! [`PUT_CALLS`] and [`STEP_CALLS`] were chosen for the former with values of 184 bytes; with those
//! of the scripts it is 9.5 %.

use super::client::Client;
use super::free_lists::{FreeLists, Marks};
use super::share::{self, Share, TAG};
use crate::harness::history::tag;
use crate::{Contents, Damage, Flaw, Layout, Setup, Worker, Workload};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::Arena;
use std::collections::BTreeSet;

/// Puts of a batch.
const BATCH: u64 = 32;
/// The greatest number of requests for a batch, per put of the batch.
const REQUESTS: usize = 8;
/// Function calls for each put, and for each step of it.
const PUT_CALLS: u64 = 24;
const STEP_CALLS: u64 = 3;
const REQUEST_BYTES: u64 = 1184;
const RESPONSE_BYTES: u64 = 32;

/// A version is a key of 128 bytes with a value of 1024, as in WHISPER's scripts, and the version
/// before it.
const VALUE_WORDS: u64 = 144;
const BEFORE: u64 = 8 * VALUE_WORDS;
const VERSION_BYTES: u64 = BEFORE + 8;

/// Words of an entry of the master table: the next of its chain, its key, the tag of the put under
/// way or of the last one, its newest version, and the tag of that version.
const NEXT: u64 = 0;
const ENTRY_KEY: u64 = 8;
const PENDING: u64 = 16;
const NEWEST: u64 = 24;
const STAMP: u64 = 32;

/// Words of a log: the committed and the applied batch, each with its number and, in the low bits,
/// its number of puts; records from the second line on.
const COMMITTED: u64 = 0;
const APPLIED: u64 = 8;
const COUNT_BITS: u32 = 16;
/// Words of a record: its mark (the number of its batch), the key, the version, the entry.
const RECORD_KEY: u64 = 8;
const RECORD_VERSION: u64 = 16;
const RECORD_ENTRY: u64 = 24;

/// The key-value store benchmark.
///
/// After a crash a batch is in the master table whole or not at all: opening applies each client's
/// log if it is committed and not applied, and discards it otherwise. The free lists of entries and
/// versions are in DRAM; opening rebuilds them from the slots that the table reaches.
#[derive(Clone, Copy, Debug)]
pub struct Echo {
    share: Share,
    logs: Addr,
    buckets: Addr,
    entries: FreeLists,
    versions: FreeLists,
    client: Client,
}

/// A put in the form of its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Put {
    key: u64,
    version: Addr,
    entry: Addr,
}

/// The cost of a step of a put: function calls in the calling thread.
#[derive(Clone, Copy)]
struct Steps {
    client: Client,
    hash: u64,
    calls: u64,
}

impl Steps {
    /// Writes back the word or the bytes from `at`, and ends an epoch.
    fn end<M: Memory>(&self, memory: &M, at: Addr, bytes: u64) {
        memory.flush(at, bytes);
        memory.order();
        self.client.calls(memory, self.hash ^ at.bits(), self.calls);
    }
}

impl Echo {
    fn place(share: Share) -> (Echo, Arena) {
        let mut arena = Arena::new();
        let (keys, threads) = (share.each(), share.threads);
        let echo = Echo {
            share,
            logs: arena.pm(threads * LOG_BYTES),
            buckets: arena.pm(8 * threads * bucket_words(share)),
            entries: FreeLists::place(&mut arena, threads, keys + BATCH, LINE_BYTES),
            versions: FreeLists::place(&mut arena, threads, 2 * keys + BATCH, VERSION_BYTES),
            client: Client::place(&mut arena, threads),
        };
        (echo, arena)
    }

    fn log(&self, thread: u64) -> Addr {
        self.logs.plus(thread * LOG_BYTES)
    }

    fn record(&self, thread: u64, number: u64) -> Addr {
        self.log(thread).plus((1 + number) * LINE_BYTES)
    }

    fn bucket(&self, key: u64) -> Addr {
        let bucket = share::place_of(key, self.share.each());
        self.buckets.plus(8 * (self.share.owner(key) * bucket_words(self.share) + bucket))
    }

    /// The entry of `key`; null if it has none.
    fn find<M: Memory>(&self, memory: &M, key: u64) -> Addr {
        let mut at = memory.load::<Addr>(self.bucket(key));
        memory.work(8);
        while !at.is_null() && memory.load::<u64>(at.plus(ENTRY_KEY)) != key {
            at = memory.load(at.plus(NEXT));
        }
        at
    }

    fn steps(&self, hash: u64) -> Steps {
        Steps { client: self.client, hash, calls: STEP_CALLS }
    }

    /// Logs put `number` of batch `batch`: three epochs.
    fn note<M: Memory>(
        &self,
        memory: &M,
        (thread, batch, number): (u64, u64, u64),
        (key, tag): (u64, u64),
        flaw: Flaw,
    ) -> Put {
        let full = "a slot for each entry and version";
        let version = self.versions.take(memory, thread).expect(full);
        let found = self.find(memory, key);
        let entry =
            if found.is_null() { self.entries.take(memory, thread).expect(full) } else { found };
        let steps = self.steps(key);
        let end = |at: Addr, bytes: u64| {
            if flaw != Flaw::NoFlush {
                memory.flush(at, bytes);
            }
            if flaw != Flaw::NoOrder {
                memory.order();
            }
            steps.client.calls(memory, steps.hash ^ at.bits(), steps.calls);
        };
        share::fill(memory, version, VALUE_WORDS, key, tag);
        memory.store(version.plus(BEFORE), 0u64);
        end(version, VERSION_BYTES);
        let record = self.record(thread, number);
        memory.store(record.plus(RECORD_KEY), key);
        memory.store(record.plus(RECORD_VERSION), version);
        memory.store(record.plus(RECORD_ENTRY), entry);
        end(record, LINE_BYTES);
        memory.store(record, batch);
        end(record, 8);
        Put { key, version, entry }
    }

    /// Applies a put of a committed log, which may be partly applied: seven epochs, and two more
    /// for a new key. Returns the version that is no longer reachable.
    fn apply<M: Memory>(&self, memory: &M, put: Put, steps: Steps) -> Addr {
        let Put { key, version, entry } = put;
        if self.find(memory, key).is_null() {
            let bucket = self.bucket(key);
            memory.store(entry.plus(NEXT), memory.load::<u64>(bucket));
            memory.store(entry.plus(ENTRY_KEY), key);
            for word in [PENDING, NEWEST, STAMP] {
                memory.store(entry.plus(word), 0u64);
            }
            steps.end(memory, entry, LINE_BYTES);
            memory.store(bucket, entry);
            steps.end(memory, bucket, 8);
        }
        let newest = memory.load::<Addr>(entry.plus(NEWEST));
        let tag = memory.load::<u64>(version.plus(TAG));
        if newest != version {
            memory.store(version.plus(BEFORE), newest);
            steps.end(memory, version.plus(BEFORE), 8);
            memory.store(entry.plus(PENDING), tag);
            steps.end(memory, entry.plus(PENDING), 8);
            memory.store(entry.plus(NEWEST), version);
            steps.end(memory, entry.plus(NEWEST), 8);
        }
        memory.store(entry.plus(STAMP), tag);
        steps.end(memory, entry.plus(STAMP), 8);
        let before = memory.load::<Addr>(version.plus(BEFORE));
        if before.is_null() {
            return Addr::NULL;
        }
        let oldest = memory.load::<Addr>(before.plus(BEFORE));
        memory.store(before.plus(BEFORE), 0u64);
        steps.end(memory, before.plus(BEFORE), 8);
        oldest
    }

    /// Submits a batch of `keys` that have the same tag.
    fn submit<M: Memory>(&self, memory: &M, thread: u64, keys: &[u64], (tag, flaw): (u64, Flaw)) {
        let log = self.log(thread);
        let batch = (memory.load::<u64>(log.plus(APPLIED)) >> COUNT_BITS) + 1;
        let note = |(number, key): (u64, &u64)| {
            self.note(memory, (thread, batch, number), (*key, tag), flaw)
        };
        let puts: Vec<Put> = (0..).zip(keys).map(note).collect();
        let steps = self.steps(tag);
        let committed = batch << COUNT_BITS | puts.len() as u64;
        memory.store(log.plus(COMMITTED), committed);
        steps.end(memory, log.plus(COMMITTED), 8);
        let mut free = Vec::new();
        for (number, put) in (0..).zip(&puts) {
            free.push(self.apply(memory, *put, steps));
            let done = self.record(thread, number).plus(RECORD_KEY);
            memory.store(done, u64::MAX);
            steps.end(memory, done, 8);
        }
        memory.store(log.plus(APPLIED), committed);
        memory.persist(log.plus(APPLIED), 8);
        for version in free.into_iter().filter(|version| !version.is_null()) {
            self.versions.give(memory, thread, version);
        }
    }

    /// Applies the logs that are committed and not applied.
    fn recover<M: Memory>(&self, memory: &M) -> Result<(), Damage> {
        let steps = Steps { calls: 0, ..self.steps(0) };
        for thread in 0..self.share.threads {
            let log = self.log(thread);
            let committed = memory.load::<u64>(log.plus(COMMITTED));
            if committed == memory.load::<u64>(log.plus(APPLIED)) {
                continue;
            }
            for number in 0..committed & ((1 << COUNT_BITS) - 1) {
                if let Some(put) = self.logged(memory, (thread, committed, number))? {
                    self.apply(memory, put, steps);
                }
            }
            memory.store(log.plus(APPLIED), committed);
            memory.persist(log.plus(APPLIED), 8);
        }
        Ok(())
    }

    /// Record `number` of a log; `None` if the log is applied.
    fn logged<M: Memory>(
        &self,
        memory: &M,
        (thread, committed, number): (u64, u64, u64),
    ) -> Result<Option<Put>, Damage> {
        let wrong = |what: String| Damage(format!("record {number} of log {thread} {what}"));
        if number >= BATCH {
            return Err(wrong("is beyond its end".to_owned()));
        }
        let record = self.record(thread, number);
        let batch = memory.load::<u64>(record);
        if batch != committed >> COUNT_BITS {
            return Err(wrong(format!("is one of batch {batch}, but a later one is committed")));
        }
        let key = memory.load::<u64>(record.plus(RECORD_KEY));
        if key == u64::MAX {
            return Ok(None);
        }
        let version = memory.load::<Addr>(record.plus(RECORD_VERSION));
        let entry = memory.load::<Addr>(record.plus(RECORD_ENTRY));
        let is_ours = key < self.share.keys && self.share.owner(key) == thread;
        let is_there = self.versions.index(thread, version).is_some()
            && self.entries.index(thread, entry).is_some();
        if !is_ours || !is_there {
            return Err(wrong(format!("puts key {key} at {version} into {entry}")));
        }
        share::check(memory, version, VALUE_WORDS, key)?;
        self.vet(memory, key, entry)?;
        Ok(Some(Put { key, version, entry }))
    }

    /// Rejects a chain, or versions of the entry of `key`, that point outside the slots or form a
    /// cycle, so that a put can be applied to them.
    fn vet<M: Memory>(&self, memory: &M, key: u64, entry: Addr) -> Result<(), Damage> {
        let thread = self.share.owner(key);
        let mut marks = self.entries.marks();
        let mut at = memory.load::<Addr>(self.bucket(key));
        let mut is_linked = false;
        while !at.is_null() {
            marks.reach(thread, at)?;
            let is_it = memory.load::<u64>(at.plus(ENTRY_KEY)) == key;
            if is_it && at != entry {
                return Err(Damage(format!("key {key} has the entry {at}, its log {entry}")));
            }
            is_linked |= is_it;
            at = memory.load(at.plus(NEXT));
        }
        let mut version = if is_linked { memory.load(entry.plus(NEWEST)) } else { Addr::NULL };
        for _ in 0..2 {
            if !version.is_null() {
                self.versions.marks().reach(thread, version)?;
                version = memory.load(version.plus(BEFORE));
            }
        }
        Ok(())
    }

    /// Checks the table; returns its contents, and the entries and versions in use.
    fn walk<M: Memory>(&self, memory: &M) -> Result<(Contents, [Marks<'_>; 2]), Damage> {
        let mut contents = Contents::new();
        let mut marks = [self.entries.marks(), self.versions.marks()];
        for thread in 0..self.share.threads {
            for bucket in 0..self.share.each() {
                let words = thread * bucket_words(self.share) + bucket;
                let bucket = self.buckets.plus(8 * words);
                let mut at = memory.load::<Addr>(bucket);
                while !at.is_null() {
                    marks[0].reach(thread, at)?;
                    let key = memory.load::<u64>(at.plus(ENTRY_KEY));
                    if key >= self.share.keys || self.bucket(key) != bucket {
                        return Err(Damage(format!("key {key} is in a wrong chain")));
                    }
                    let tag = self.check(memory, key, at, &mut marks[1])?;
                    if contents.insert(key, tag).is_some() {
                        return Err(Damage(format!("key {key} is there twice")));
                    }
                    at = memory.load(at.plus(NEXT));
                }
            }
        }
        Ok((contents, marks))
    }

    /// Checks the entry of a key; returns its tag.
    fn check<M: Memory>(
        &self,
        memory: &M,
        key: u64,
        entry: Addr,
        marks: &mut Marks<'_>,
    ) -> Result<u64, Damage> {
        let newest = memory.load::<Addr>(entry.plus(NEWEST));
        let mut tags = Vec::new();
        let mut version = newest;
        while !version.is_null() && tags.len() < 3 {
            marks.reach(self.share.owner(key), version)?;
            tags.push(share::check(memory, version, VALUE_WORDS, key)?);
            version = memory.load(version.plus(BEFORE));
        }
        let says = [PENDING, STAMP].map(|word| memory.load::<u64>(entry.plus(word)));
        match tags[..] {
            [tag] | [tag, _] if says == [tag; 2] => Ok(tag),
            _ => Err(Damage(format!(
                "the entry of key {key} says {:#x} and {:#x}, its versions {tags:x?}",
                says[0], says[1]
            ))),
        }
    }
}

/// Bytes of a log.
const LOG_BYTES: u64 = (1 + BATCH) * LINE_BYTES;

/// Words of the buckets of a thread, in whole lines.
fn bucket_words(share: Share) -> u64 {
    share.each().next_multiple_of(LINE_BYTES / 8)
}

impl Workload for Echo {
    const NAME: &'static str = "echo";
    const ABOUT: &'static str = "batches of puts into a store with versions and a log (echo)";
    const ENTRIES: u64 = 4096;
    const SEARCH_PERCENT: u32 = 0;

    fn layout(setup: &Setup) -> Layout {
        Layout::of(&Echo::place(Share::of(setup)).1)
    }

    fn create<M: Memory>(memory: &M, setup: &Setup) -> Echo {
        let (echo, arena) = Echo::place(Share::of(setup));
        echo.entries.rebuild(memory, &echo.entries.marks());
        echo.versions.rebuild(memory, &echo.versions.marks());
        for (key, tag) in echo.share.initial(setup) {
            echo.submit(memory, echo.share.owner(key), &[key], (tag, Flaw::None));
        }
        echo.share.seal(memory, Echo::NAME, setup, &arena);
        echo
    }

    fn open<M: Memory>(memory: &M, layout: Layout) -> Result<Echo, Damage> {
        let (echo, arena) = Echo::place(Share::open(memory, Echo::NAME, layout)?);
        layout.hold(&arena)?;
        echo.recover(memory)?;
        let (_, [entries, versions]) = echo.walk(memory)?;
        echo.entries.rebuild(memory, &entries);
        echo.versions.rebuild(memory, &versions);
        Ok(echo)
    }

    type Local<'m, M: Memory + 'm> = ();

    fn join<M: Memory>(&self, _: &M) {}

    fn step<M: Memory>(&self, memory: &M, (): &mut (), worker: &mut Worker) {
        let thread = worker.thread as u64;
        let count = self.share.count(thread);
        let batch = BATCH.min(count.div_ceil(2)) as usize;
        let (mut keys, mut is_in) = (Vec::with_capacity(batch), BTreeSet::new());
        for _ in 0..REQUESTS * batch {
            if keys.len() == batch {
                break;
            }
            let Some(key) = self.share.pick(worker) else { return };
            let hash = self.client.request(memory, key, REQUEST_BYTES);
            self.client.calls(memory, hash, PUT_CALLS);
            if worker.below(100) < u64::from(worker.search_percent) {
                let entry = self.find(memory, key);
                if !entry.is_null() {
                    share::read(memory, memory.load(entry.plus(NEWEST)), VALUE_WORDS);
                }
            } else if is_in.insert(key) {
                keys.push(key);
            }
            self.client.respond(memory, hash, RESPONSE_BYTES);
        }
        if keys.is_empty() {
            return;
        }
        let tag = tag(worker.thread, worker.number);
        for key in &keys {
            worker.history.effect(worker.thread, worker.number, *key, tag);
        }
        self.submit(memory, thread, &keys, (tag, worker.flaw));
    }

    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage> {
        Ok(self.walk(memory)?.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_memory::Image;

    fn made() -> (Image, Echo, Layout) {
        let setup = Setup { entries: 8, ..Setup::of::<Echo>(1) };
        let layout = Echo::layout(&setup);
        let image = Image::new(layout.pm_bytes, layout.dram_bytes);
        let echo = Echo::create(&image, &setup);
        (image, echo, layout)
    }

    #[test]
    fn a_log_that_is_committed_is_applied_by_recovery_from_wherever_it_stopped() {
        let (image, echo, layout) = made();
        let keys: Vec<u64> = (0..6).collect();
        let before = echo.contents(&image).unwrap();
        let old = image.load::<u64>(echo.log(0).plus(APPLIED));
        let batch = (old >> COUNT_BITS) + 1;
        let puts: Vec<Put> = (0..)
            .zip(&keys)
            .map(|(number, key)| echo.note(&image, (0, batch, number), (*key, 77), Flaw::None))
            .collect();
        let open = |image: &Image| {
            let image = Image::from_pm(image.clone().into_pm(), layout.dram_bytes);
            Echo::open(&image, layout).and_then(|echo| echo.contents(&image))
        };
        assert_eq!(open(&image), Ok(before), "a log that is not committed is forgotten");
        image.store(echo.log(0).plus(COMMITTED), batch << COUNT_BITS | 6);
        for put in &puts[..3] {
            let contents = open(&image).unwrap();
            assert!(keys.iter().all(|key| contents[key] == 77), "{contents:?}");
            echo.apply(&image, *put, echo.steps(1));
        }
        image.store(echo.record(0, 2), 0u64);
        assert!(open(&image).unwrap_err().0.contains("is one of batch 0"));
    }

    #[test]
    fn a_log_that_no_client_wrote_is_refused() {
        let (image, echo, layout) = made();
        let record = echo.record(0, 0);
        image.store(echo.log(0).plus(COMMITTED), 1u64 << 40 | 1);
        image.store(record, 1u64 << 40 >> COUNT_BITS);
        image.store(record.plus(RECORD_VERSION), 9u64);
        for (word, value) in [(1, 3u64), (3, 1 << 50), (1, 1 << 30), (2, u64::MAX)] {
            image.store(record.plus(8 * word), value);
            let refused = Echo::open(&image, layout).map(|_| ()).unwrap_err();
            assert!(refused.0.contains("record 0 of log 0 puts"), "{refused}");
        }
        image.store(echo.log(0).plus(COMMITTED), 1u64 << 40 | 0xffff);
        assert!(Echo::open(&image, layout).is_err());
    }
}
