//! A dictionary of objects as in Redis: for each key an entry, a key and a value object, which are
//! allocated separately and change together.
//!
//! PACT'20 ("Ribbon", flush coalescing) finds that 47 % of the bytes in the lines that Redis
//! flushes are dirty, because its small objects straddle lines, and the objects of one key are on
//! different lines; it aligns them and places key and value back to back. Here the same program
//! runs with its objects placed in three ways ([`Placing`]), on a heap with one redo transaction
//! per operation.
//!
//! An entry is four words: the next entry of the chain, the key object, the value object, and the
//! number of the last change. A key object is its length and 12 to 40 bytes. A value object is two
//! words (its length; the number of the change that last wrote it, which a count changes in place)
//! and 4 to 108 bytes. Lengths are a function of key and number, so a check knows all bytes.

use crate::Damage;
use crate::harness::workload::{below, stream};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::{CHUNK_BYTES, Heap, HeapError, HeapOptions, Placement, Session, Tx, TxError};
use std::collections::BTreeSet;
use std::fmt;

const NAME: &str = "objects";
const NEXT: u64 = 0;
const KEY: u64 = 8;
const VALUE: u64 = 16;
const CHANGED: u64 = 24;
const ENTRY_BYTES: u64 = 32;
/// In a key object, before its bytes; in a value object, before the number of its change.
const LENGTH: u64 = 0;
const KEY_HEAD: u64 = 8;
const WRITTEN: u64 = 8;
const VALUE_HEAD: u64 = 16;
/// In the root object: the table of buckets, the buckets per thread, and the number of threads.
const TABLE: u64 = 0;
const BUCKETS: u64 = 8;
const THREADS: u64 = 16;
const ROOT_BYTES: u64 = 24;
/// The number of low bits of a key below the number of its thread.
const THREAD_SHIFT: u32 = 32;

/// The placement of the objects of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Placing {
    /// In the smallest blocks, each separately.
    Packed,
    /// Each separately, so that none straddles a line.
    Lines,
    /// Back to back, first the entry and the value, which change most; a new value near its entry.
    Together,
}

impl Placing {
    /// All placements, the naive one first.
    pub const ALL: [Placing; 3] = [Placing::Packed, Placing::Lines, Placing::Together];
}

impl fmt::Display for Placing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Placing::Packed => "packed",
            Placing::Lines => "lines",
            Placing::Together => "together",
        })
    }
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectChange {
    /// Adds the key, with a value.
    Insert,
    /// Replaces the value object by another, in general of another length.
    Replace,
    /// Writes the number of the change into the entry and the value object, as a counter does.
    Count,
    /// Removes the key, if it exists.
    Remove,
}

/// A dictionary for each thread, in one heap.
#[derive(Clone, Copy, Debug)]
pub struct Objects {
    heap: Heap,
    placing: Placing,
    table: Addr,
    buckets: u64,
    threads: u64,
}

/// The options of a heap for at most `keys` keys per thread at a time.
pub fn options(keys: u64, threads: u64, placing: Placing) -> HeapOptions {
    let bytes = (512 * keys + 48 * CHUNK_BYTES) * threads;
    HeapOptions {
        bytes,
        bytes_max: bytes,
        threads,
        root_bytes: ROOT_BYTES,
        together: placing == Placing::Together,
        ..HeapOptions::default()
    }
}

fn key_bytes(key: u64) -> Vec<u8> {
    let mut rng = stream(key, 1);
    let length = 12 + below(&mut rng, 29);
    let rest = (8..length).map(|_| below(&mut rng, 256) as u8);
    key.to_le_bytes().into_iter().chain(rest).collect()
}

fn value_bytes(key: u64, number: u64) -> Vec<u8> {
    let mut rng = stream(key ^ number << 32, 2);
    let length = 4 + below(&mut rng, 105);
    (0..length).map(|_| below(&mut rng, 256) as u8).collect()
}

/// A random number below `keys`, nearly uniform.
pub fn draw(rng: &mut Xoshiro256PlusPlus, keys: u64) -> u64 {
    below(rng, keys)
}

/// A thread's random generator for `seed`.
pub fn numbers(seed: u64, thread: u64) -> Xoshiro256PlusPlus {
    stream(seed, thread)
}

/// The key with this number of a thread: each has keys of its own.
pub fn key_of(thread: u64, number: u64) -> u64 {
    thread << THREAD_SHIFT | number
}

impl Objects {
    /// Creates empty dictionaries in a zeroed pool, for about `keys` keys per thread.
    ///
    /// # Errors
    /// If the heap has no room for the table.
    pub fn create<M: Memory>(
        memory: &M,
        keys: u64,
        threads: u64,
        placing: Placing,
    ) -> Result<Objects, HeapError> {
        let options = options(keys, threads, placing);
        let heap = Heap::create(memory, NAME, u128::from(keys) + 1, &options)?;
        let buckets = keys.next_power_of_two();
        let mut session = heap.join(memory);
        let table = session.transaction(|tx| {
            let table = tx.alloc_lines(8 * buckets * threads)?;
            tx.store(heap.root().plus(TABLE), table)?;
            tx.store(heap.root().plus(BUCKETS), buckets)?;
            tx.store(heap.root().plus(THREADS), threads)?;
            Ok::<_, TxError>(table)
        })?;
        let all = buckets * threads;
        (0..all).for_each(|bucket| memory.store(table.plus(8 * bucket), Addr::NULL));
        memory.persist(table, 8 * all);
        session.retire();
        session.leave();
        Ok(Objects { heap, placing, table, buckets, threads })
    }

    /// Opens the dictionaries in a pool of `bytes` bytes, after a crash too.
    ///
    /// # Errors
    /// If there is none, or it is damaged.
    pub fn open<M: Memory>(memory: &M, bytes: u64, placing: Placing) -> Result<Objects, Damage> {
        let (heap, _) = Heap::open(memory, NAME, bytes)?;
        let table: Addr = memory.load(heap.root().plus(TABLE));
        let buckets: u64 = memory.load(heap.root().plus(BUCKETS));
        let threads: u64 = memory.load(heap.root().plus(THREADS));
        let size = buckets.checked_mul(8).and_then(|size| size.checked_mul(threads));
        let size = size.filter(|size| *size > 0 && buckets.is_power_of_two());
        let is_data = size.is_some_and(|size| {
            heap.join(memory).transaction(|tx| tx.add(&[(table, size)])).is_ok()
        });
        if !is_data || !table.offset().is_multiple_of(LINE_BYTES) {
            return Err(Damage("the root leads to no table of buckets".into()));
        }
        Ok(Objects { heap, placing, table, buckets, threads })
    }

    /// The heap of the dictionaries.
    pub fn heap(&self) -> Heap {
        self.heap
    }

    /// The handle of the thread.
    pub fn join<'m, M: Memory>(&self, memory: &'m M) -> Session<'m, M> {
        let mut session = self.heap.join(memory);
        session.set_placement(match self.placing {
            Placing::Lines => Placement::Lines,
            Placing::Packed | Placing::Together => Placement::Packed,
        });
        session
    }

    fn bucket(&self, key: u64) -> Addr {
        let hashed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let thread = (key >> THREAD_SHIFT) % self.threads;
        self.table.plus(8 * (thread * self.buckets + (hashed & (self.buckets - 1))))
    }

    /// The entry of a key, and the word that points to it; the last such word of the chain if there
    /// is no entry.
    fn find<M: Memory>(&self, memory: &M, key: u64) -> (Addr, Option<Addr>) {
        let mut link = self.bucket(key);
        loop {
            memory.work(4);
            let entry: Addr = memory.load(link);
            if entry.is_null() {
                return (link, None);
            }
            let object: Addr = memory.load(entry.plus(KEY));
            if memory.load::<u64>(object.plus(KEY_HEAD)) == key {
                return (link, Some(entry));
            }
            link = entry.plus(NEXT);
        }
    }

    /// Changes a key of the thread in one transaction: durable when it returns, and atomic in a
    /// crash before. Inserting an existing key, and any other change of an absent key, has no
    /// effect. `number` is greater than 0 and different for each change of that key.
    ///
    /// # Errors
    /// If the heap is full.
    pub fn change<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        change: ObjectChange,
        key: u64,
        number: u64,
    ) -> Result<(), TxError> {
        let memory = session.memory();
        let (link, found) = self.find(memory, key);
        match (change, found) {
            (ObjectChange::Insert, None) => session.transaction(|tx| self.insert(tx, key, number)),
            (ObjectChange::Replace, Some(entry)) => {
                session.transaction(|tx| self.replace(tx, entry, key, number))
            }
            (ObjectChange::Count, Some(entry)) => {
                let value: Addr = memory.load(entry.plus(VALUE));
                session.transaction(|tx| {
                    tx.store(entry.plus(CHANGED), number)?;
                    tx.store(value.plus(WRITTEN), number)
                })
            }
            (ObjectChange::Remove, Some(entry)) => session.transaction(|tx| {
                let parts = [KEY, VALUE].map(|part| tx.load::<Addr>(entry.plus(part)));
                tx.store(link, tx.load::<Addr>(entry.plus(NEXT)))?;
                parts.into_iter().chain([entry]).try_for_each(|part| tx.free(part))
            }),
            _ => Ok(()),
        }
    }

    fn insert<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: u64,
        number: u64,
    ) -> Result<(), TxError> {
        let (name, content) = (key_bytes(key), value_bytes(key, number));
        let lengths =
            [ENTRY_BYTES, VALUE_HEAD + content.len() as u64, KEY_HEAD + name.len() as u64];
        let [entry, value, object] = match self.placing {
            Placing::Together => tx.alloc_together(lengths)?,
            Placing::Packed | Placing::Lines => {
                [tx.alloc(lengths[0])?, tx.alloc(lengths[1])?, tx.alloc(lengths[2])?]
            }
        };
        let bucket = self.bucket(key);
        tx.store(entry.plus(NEXT), tx.load::<Addr>(bucket))?;
        tx.store(entry.plus(KEY), object)?;
        tx.store(entry.plus(VALUE), value)?;
        tx.store(entry.plus(CHANGED), number)?;
        tx.store(object.plus(LENGTH), name.len() as u64)?;
        tx.write(object.plus(KEY_HEAD), &name)?;
        write_value(tx, value, &content, number)?;
        tx.store(bucket, entry)
    }

    fn replace<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        entry: Addr,
        key: u64,
        number: u64,
    ) -> Result<(), TxError> {
        let content = value_bytes(key, number);
        let length = VALUE_HEAD + content.len() as u64;
        let value = match self.placing {
            Placing::Together => tx.alloc_near(entry, length)?,
            Placing::Packed | Placing::Lines => tx.alloc(length)?,
        };
        write_value(tx, value, &content, number)?;
        let old: Addr = tx.load(entry.plus(VALUE));
        tx.store(entry.plus(VALUE), value)?;
        tx.store(entry.plus(CHANGED), number)?;
        tx.free(old)
    }

    /// Checks the dictionaries, and returns each key with the number of its last change, in the
    /// order of keys.
    ///
    /// # Errors
    /// The damage, and its place.
    pub fn contents<M: Memory>(&self, memory: &M) -> Result<Vec<(u64, u64)>, Damage> {
        let mut live = BTreeSet::new();
        self.heap.objects(memory, |object| {
            live.insert((object.at, object.bytes));
        })?;
        let mut reach = |at: Addr, bytes: u64| {
            let object = live.range((at, bytes)..).next().copied();
            match object.filter(|(start, _)| *start == at) {
                Some(object) => Ok(live.remove(&object)),
                None => Err(Damage(format!("no object of {bytes} bytes starts at {at}"))),
            }
        };
        reach(self.table, 8 * self.buckets * self.threads)?;
        let mut contents = Vec::new();
        for bucket in 0..self.buckets * self.threads {
            let mut entry: Addr = memory.load(self.table.plus(8 * bucket));
            while !entry.is_null() {
                reach(entry, ENTRY_BYTES)?;
                contents.push(check_entry(memory, entry, &mut reach)?);
                entry = memory.load(entry.plus(NEXT));
            }
        }
        if let Some((at, _)) = live.first() {
            return Err(Damage(format!("nothing leads to the object at {at}")));
        }
        contents.sort_unstable();
        Ok(contents)
    }
}

fn write_value<M: Memory>(
    tx: &mut Tx<'_, '_, M>,
    value: Addr,
    content: &[u8],
    number: u64,
) -> Result<(), TxError> {
    // The number that determines the bytes is stored with the length and never incremented.
    tx.store(value.plus(LENGTH), content.len() as u64 | number << 16)?;
    tx.store(value.plus(WRITTEN), number)?;
    tx.write(value.plus(VALUE_HEAD), content)
}

/// Checks the objects of an entry; returns its key and the number of its last change.
fn check_entry<M: Memory>(
    memory: &M,
    entry: Addr,
    reach: &mut impl FnMut(Addr, u64) -> Result<bool, Damage>,
) -> Result<(u64, u64), Damage> {
    let [object, value] = [KEY, VALUE].map(|part| memory.load::<Addr>(entry.plus(part)));
    reach(object, KEY_HEAD + 12)?;
    let key: u64 = memory.load(object.plus(KEY_HEAD));
    let name = key_bytes(key);
    let mut found = vec![0; name.len()];
    memory.read(object.plus(KEY_HEAD), &mut found);
    if memory.load::<u64>(object.plus(LENGTH)) != name.len() as u64 || found != name {
        return Err(Damage(format!("the key object at {object} is torn")));
    }
    reach(value, VALUE_HEAD + 4)?;
    let head: u64 = memory.load(value.plus(LENGTH));
    let content = value_bytes(key, head >> 16);
    found = vec![0; content.len()];
    memory.read(value.plus(VALUE_HEAD), &mut found);
    let number: u64 = memory.load(entry.plus(CHANGED));
    let is_whole = head & 0xffff == content.len() as u64 && found == content;
    if !is_whole || memory.load::<u64>(value.plus(WRITTEN)) != number {
        return Err(Damage(format!("the value of key {key} at {value} is torn")));
    }
    Ok((key, number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::Rng;
    use seawall_memory::Image;
    use std::collections::BTreeMap;

    const KEYS: u64 = 300;

    fn made(placing: Placing) -> (Image, Objects) {
        let options = options(KEYS, 1, placing);
        let image = Image::new(options.pm_bytes(), options.dram_bytes());
        let objects = Objects::create(&image, KEYS, 1, placing).expect("room");
        (image, objects)
    }

    #[test]
    fn every_placing_holds_what_was_put_into_it_and_no_key_more() {
        for placing in Placing::ALL {
            let (image, objects) = made(placing);
            let mut session = objects.join(&image);
            let (mut model, mut rng) = (BTreeMap::new(), numbers(3, 0));
            for number in 1..3000 {
                let key = draw(&mut rng, KEYS);
                let changes = [
                    ObjectChange::Insert,
                    ObjectChange::Replace,
                    ObjectChange::Count,
                    ObjectChange::Remove,
                ];
                let change = changes[(rng.next_u64() % 4) as usize];
                objects.change(&mut session, change, key, number).expect("room");
                match (change, model.contains_key(&key)) {
                    (ObjectChange::Insert, false)
                    | (ObjectChange::Replace | ObjectChange::Count, true) => {
                        model.insert(key, number);
                    }
                    (ObjectChange::Remove, true) => drop(model.remove(&key)),
                    _ => {}
                }
            }
            let wanted: Vec<(u64, u64)> = model.into_iter().collect();
            assert_eq!(objects.contents(&image).expect("whole"), wanted, "{placing}");
            let again = Image::from_pm(image.into_pm(), objects.heap().dram_bytes());
            let bytes = again.pm_bytes();
            let objects = Objects::open(&again, bytes, placing).expect("it is there");
            assert_eq!(objects.contents(&again).expect("whole"), wanted, "{placing}");
        }
    }

    #[test]
    fn objects_straddle_where_they_are_packed_and_share_lines_where_they_are_together() {
        let [packed, lines, together] = Placing::ALL.map(|placing| {
            let (image, objects) = made(placing);
            let mut session = objects.join(&image);
            for key in 0..KEYS {
                objects.change(&mut session, ObjectChange::Insert, key, 1).expect("room");
            }
            objects.heap().stats(&image).expect("whole")
        });
        assert!(packed.straddling > KEYS / 4, "{packed:?}");
        assert_eq!((lines.straddling, together.straddling), (0, 0));
        assert!(packed.live < lines.live && together.live < lines.live, "{lines:?}");
    }

    #[test]
    fn a_torn_value_is_noticed() {
        let (image, objects) = made(Placing::Together);
        let mut session = objects.join(&image);
        objects.change(&mut session, ObjectChange::Insert, 5, 9).expect("room");
        let entry: Addr = image.load(objects.bucket(5));
        let value: Addr = image.load(entry.plus(VALUE));
        for at in [value.plus(WRITTEN), value.plus(VALUE_HEAD), entry.plus(CHANGED)] {
            let byte: u8 = image.load(at);
            image.store(at, !byte);
            let error = objects.contents(&image).expect_err("it is torn");
            assert!(error.0.contains("torn"), "{error:?}");
            image.store(at, byte);
        }
        assert_eq!(objects.contents(&image).expect("whole"), [(5, 9)]);
    }
}
