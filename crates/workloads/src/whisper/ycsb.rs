//! YCSB on N-store's engine, as WHISPER ran it (ASPLOS'17, Table 1): one table of tuples with ten
//! fields of 100 bytes; four in five transactions write all fields of a tuple, the others read
//! them.
//!
//! A field is a word of the tuple that points to its bytes. Writing one takes four epochs: the new
//! bytes, the record, its link, the word; with the begin and the end of the transaction that is 42,
//! the published median. Each thread is an executor with its own part of the keys, and one
//! transaction in [`FOREIGN`] uses a key of another part: threads rarely conflict, as published
//! (0.003 % of epochs). The front end's work ([`CALLS`]) follows from the published share of
//! accesses to persistent memory, 8.71 %.

use super::client::Client;
use super::nstore::{Cursor, Tx, Wal};
use super::reach::{Reach, within, word};
use super::share;
use crate::harness::history::{Contents, initial_tag, tag};
use crate::harness::workload::{ENTRIES_MAX, THREADS_MAX};
use crate::shared::Slots;
use crate::{Damage, Layout, Setup, Worker, Workload};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::{Arena, Locks, pool};

const FIELDS: u64 = 10;
/// Words of a field: the tag, and words that are a function of it.
const FIELD_WORDS: u64 = 13;
/// A tuple: its key, then its fields.
const KEY: u64 = 0;
const FIRST_FIELD: u64 = 8;
const TUPLE_BYTES: u64 = 2 * LINE_BYTES;
const STRIPES: u64 = 512;

/// Function calls of the front end per transaction, and per field of it.
const CALLS: u64 = 20;
const CALLS_A_FIELD: u64 = 6;
/// One transaction in this number can use any key.
const FOREIGN: u64 = 256;
const REQUEST_BYTES: u64 = 64;
const RESPONSE_BYTES: u64 = 128;

/// The application.
///
/// After a crash all ten fields of a tuple are of the same committed transaction: opening restores
/// the old values in the logs of open transactions. Locks and lists of free blocks are in DRAM;
/// opening rebuilds the lists from the blocks that the tuples reach.
#[derive(Clone, Copy, Debug)]
pub struct Ycsb {
    threads: u64,
    tuples: u64,
    client: Client,
    wal: Wal,
    index: Addr,
    rows: Addr,
    values: Slots,
    locks: Locks,
}

/// The words of a field.
fn bytes_of(key: u64, field: u64, tag: u64) -> [u64; FIELD_WORDS as usize] {
    std::array::from_fn(|at| match at {
        0 => tag,
        _ => word(key, tag, FIELD_WORDS * field + at as u64),
    })
}

impl Ycsb {
    fn place(threads: u64, tuples: u64) -> (Ycsb, Arena) {
        let mut arena = Arena::new();
        let values = Slots::enough(FIELDS * (tuples + threads), threads);
        let ycsb = Ycsb {
            threads,
            tuples,
            client: Client::place(&mut arena, threads),
            wal: Wal::place(&mut arena, threads),
            index: arena.pm(8 * 2 * tuples),
            rows: arena.pm(tuples * TUPLE_BYTES),
            values: Slots::place(&mut arena, values, 8 * FIELD_WORDS, threads),
            locks: Locks::place(&mut arena, STRIPES, threads, 1),
        };
        (ycsb, arena)
    }

    /// The places of the index where `key` can be, the most likely first.
    fn places(&self, key: u64) -> impl Iterator<Item = Addr> + use<> {
        let (index, places) = (self.index, 2 * self.tuples);
        let first = share::place_of(key, places);
        (0..places).map(move |step| index.plus(8 * ((first + step) % places)))
    }

    /// Mostly a key of the executor's own part: those of thread t are t modulo the threads.
    fn key(&self, worker: &mut Worker) -> u64 {
        let thread = worker.thread as u64;
        let own = (self.tuples + self.threads - 1 - thread) / self.threads;
        if worker.below(FOREIGN) == 0 || own == 0 {
            return worker.below(self.tuples);
        }
        worker.below(own) * self.threads + thread
    }

    fn find<M: Memory>(&self, memory: &M, key: u64) -> Option<Addr> {
        let found = self.places(key).map(|place| memory.load::<Addr>(place));
        let mut tuples = found.take_while(|tuple| !tuple.is_null());
        tuples.find(|tuple| memory.load::<u64>(tuple.plus(KEY)) == key)
    }

    fn field(tuple: Addr, field: u64) -> Addr {
        tuple.plus(FIRST_FIELD + 8 * field)
    }

    /// Reads all fields of the tuple.
    fn read<M: Memory>(&self, memory: &M, tuple: Addr, hash: u64) -> u64 {
        let mut sum = 0;
        for field in 0..FIELDS {
            let value: Addr = memory.load(Ycsb::field(tuple, field));
            for at in 0..FIELD_WORDS {
                sum ^= memory.load::<u64>(value.plus(8 * at));
            }
            self.client.calls(memory, hash ^ field, CALLS_A_FIELD);
        }
        sum
    }

    /// Writes all fields of the tuple; returns the addresses of the old bytes.
    fn write<M: Memory>(
        &self,
        memory: &M,
        cursor: &mut Cursor,
        (tuple, key): (Addr, u64),
        worker: &Worker,
    ) -> Vec<Addr> {
        let tag = tag(worker.thread, worker.number);
        worker.history.effect(worker.thread, worker.number, key, tag);
        let mut tx = Tx::begin(memory, &self.wal, cursor, worker.flaw);
        let mut old = Vec::new();
        for field in 0..FIELDS {
            self.client.calls(memory, key ^ field, CALLS_A_FIELD);
            let value = self.values.take(memory).expect("slots for all fields twice");
            tx.block(value, &bytes_of(key, field, tag));
            let at = Ycsb::field(tuple, field);
            old.push(memory.load(at));
            tx.set(at, value.bits());
        }
        tx.commit();
        old
    }

    /// Checks every tuple, and calls `each` with its key and tag.
    fn walk<M: Memory>(
        &self,
        memory: &M,
        reach: &mut Reach<'_>,
        mut each: impl FnMut(u64, u64),
    ) -> Result<(), Damage> {
        for key in 0..self.tuples {
            let tuple = self.rows.plus(key * TUPLE_BYTES);
            let found = self.places(key).map(|place| memory.load::<Addr>(place));
            let mut known = found.take_while(|at| !at.is_null());
            if memory.load::<u64>(tuple.plus(KEY)) != key || !known.any(|at| at == tuple) {
                return Err(Damage(format!("the index does not lead to the tuple of key {key}")));
            }
            let mut first = None;
            for field in 0..FIELDS {
                let what = || format!("field {field} of key {key}");
                let value = reach.reach(memory.load(Ycsb::field(tuple, field)), what)?;
                let tag = *first.get_or_insert_with(|| memory.load(value));
                let is_its =
                    |(at, word): (u64, u64)| memory.load::<u64>(value.plus(8 * at)) == word;
                if tag == 0 || !(0..).zip(bytes_of(key, field, tag)).all(is_its) {
                    return Err(Damage(format!("{} is torn, or older than field 0", what())));
                }
            }
            each(key, first.unwrap_or(0));
        }
        Ok(())
    }
}

impl Workload for Ycsb {
    const NAME: &'static str = "ycsb";
    const ABOUT: &'static str = "YCSB on an engine like N-store's: ten fields, changed in place";
    const ENTRIES: u64 = 4096;
    const SEARCH_PERCENT: u32 = 20;

    fn layout(setup: &Setup) -> Layout {
        Layout::of(&Ycsb::place(setup.threads as u64, setup.entries).1)
    }

    fn create<M: Memory>(memory: &M, setup: &Setup) -> Ycsb {
        let threads = setup.threads as u64;
        let (ycsb, arena) = Ycsb::place(threads, setup.entries);
        Reach::none(&ycsb.values).rebuild(memory);
        for key in 0..ycsb.tuples {
            let tuple = ycsb.rows.plus(key * TUPLE_BYTES);
            memory.store(tuple.plus(KEY), key);
            for field in 0..FIELDS {
                let value = ycsb.values.take(memory).expect("slots for all fields");
                for (at, word) in (0..).zip(bytes_of(key, field, initial_tag(key))) {
                    memory.store(value.plus(8 * at), word);
                }
                memory.store(Ycsb::field(tuple, field), value);
            }
            let mut places = ycsb.places(key);
            let place = places.find(|place| memory.load::<u64>(*place) == 0);
            memory.store(place.expect("half of the index is empty"), tuple);
        }
        memory.flush(Addr::NULL, arena.pm_bytes());
        let mut reach = Reach::none(&ycsb.values);
        ycsb.walk(memory, &mut reach, |_, _| ()).expect("tuples just made");
        reach.rebuild(memory);
        let roots = [threads, ycsb.tuples];
        pool::create(memory, Ycsb::NAME, setup.uuid(), arena.pm_bytes(), &roots);
        ycsb
    }

    fn open<M: Memory>(memory: &M, layout: Layout) -> Result<Ycsb, Damage> {
        let [threads, tuples, ..] = pool::open(memory, Ycsb::NAME, layout.pm_bytes)?;
        let threads = within("threads", threads, 1, THREADS_MAX)?;
        let (ycsb, arena) = Ycsb::place(threads, within("tuples", tuples, 1, ENTRIES_MAX)?);
        layout.hold(&arena)?;
        ycsb.wal.recover(memory, arena.pm_bytes())?;
        let mut reach = Reach::none(&ycsb.values);
        ycsb.walk(memory, &mut reach, |_, _| ())?;
        reach.rebuild(memory);
        Ok(ycsb)
    }

    type Local<'m, M: Memory + 'm> = Cursor;

    fn join<M: Memory>(&self, memory: &M) -> Cursor {
        self.wal.join(memory)
    }

    fn step<M: Memory>(&self, memory: &M, cursor: &mut Cursor, worker: &mut Worker) {
        let is_read = worker.below(100) < u64::from(worker.search_percent);
        let key = self.key(worker);
        let hash = self.client.request(memory, key, REQUEST_BYTES);
        self.client.calls(memory, hash, CALLS);
        let guard = self.locks.acquire(memory, key % STRIPES, 0);
        let tuple = self.find(memory, key).expect("a tuple for every key");
        let (mut said, mut old) = (0, Vec::new());
        if is_read {
            said = self.read(memory, tuple, hash);
        } else {
            old = self.write(memory, cursor, (tuple, key), worker);
        }
        self.locks.release(memory, guard);
        old.into_iter().for_each(|value| self.values.give(memory, value));
        self.client.respond(memory, said, RESPONSE_BYTES);
    }

    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage> {
        let mut contents = Contents::new();
        self.walk(memory, &mut Reach::none(&self.values), |key, tag| {
            contents.insert(key, tag);
        })?;
        Ok(contents)
    }
}
