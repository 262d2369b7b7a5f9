//! Records as Redis keeps hashes: a dictionary of fields for each key, every part of which is an
//! object of its own, on the dictionary, the undo log and the bitmaps of the `redis` workload.
//!
//! YCSB's binding for Redis stores a record with HMSET as ten fields of 100 bytes; an update writes
//! one of them, which is YCSB's default (`writeallfields=false`), and a read gets all. A field of
//! more than 64 bytes makes Redis keep the hash as a table (`hash-max-ziplist-value`). Objects and
//! their sizes are those of Redis 4 and later:
//!
//! | object | bytes |
//! |---|---|
//! | entry of the dictionary, with the key, the record and the next entry | 24 |
//! | key: "user" and up to 20 digits | 32 |
//! | record (`robj`), dictionary of its fields | 16, 96 |
//! | table of the fields: 4 buckets, doubled while there are more fields | 8 each |
//! | for each field an entry, its name and its value | 24, 8, of 100 bytes 104 |
//!
//! A value that is overwritten becomes a new object, and the old one is freed. Strings have Redis'
//! header of 1 or 3 bytes and a zero at the end, and are stored in whole words. As in PMDK
//! (`alloc_class.c`), an object begins with a header of 16 bytes and takes a unit of 128 bytes, the
//! larger ones 192, 320 or 448; what a transaction allocates and frees changes the bitmaps when it
//! commits. A table is written once, at its last size.

use crate::Damage;
use crate::harness::history::age;
use crate::harness::ycsb::Op;
use crate::whisper::blocks::{Blocks, ReachedBlocks};
use crate::whisper::redis::{Dictionary, Stored};
use crate::whisper::share::{Share, spread};
use crate::whisper::undo::UndoTx;
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_runtime::Arena;
use std::fmt;

/// The benchmark of a cache with YCSB's records.
pub type RedisYcsb = Dictionary<Hashes<YcsbRecords>>;

/// Sizes of blocks.
const CLASSES: usize = 4;
const BLOCK_BYTES: [u64; CLASSES] = [128, 192, 320, 448];
/// Before the words of an object: its bytes and its kind.
const HEADER: u64 = 16;
/// Kinds of objects.
const KEY: u64 = 1;
const RECORD: u64 = 2;
const DICTIONARY: u64 = 3;
const ENTRY: u64 = 4;
const STRING: u64 = 5;
const TABLE: u64 = 6;
const KEY_WORDS: u64 = 4;
const RECORD_WORDS: u64 = 2;
const DICTIONARY_WORDS: u64 = 12;
const ENTRY_WORDS: u64 = 3;

/// Words of an entry: what it is found by, what it holds, and the next one.
const NAME: u64 = HEADER;
const HELD: u64 = HEADER + 8;
const NEXT: u64 = HEADER + 16;
/// In a record and in its dictionary: the object that it leads to.
const LEADS: u64 = HEADER + 8;

/// The fields of records.
pub trait Columns: Copy + fmt::Debug + Send + Sync + 'static {
    /// Name of the workload.
    const NAME: &'static str;
    /// One line for the list of workloads.
    const ABOUT: &'static str;
    /// Entries of a thread's log.
    const LOG_ENTRIES: u64;
    /// Blocks of each size that one transaction can need beyond those in use.
    const SPARE: u64;

    /// The columns of the records of `share`.
    fn of(share: Share) -> Self;

    /// The greatest number of keys of a thread.
    fn room(share: Share) -> u64;

    /// How many keys of a thread have which fields.
    fn tables(&self, share: Share) -> Vec<(u64, &'static [u64])>;

    /// Bytes of each field of the record of a key: a few fields at least.
    fn bytes(&self, key: u64) -> &'static [u64];
}

/// Ten fields of 100 bytes.
#[derive(Clone, Copy, Debug)]
pub struct YcsbRecords;

impl Columns for YcsbRecords {
    const NAME: &'static str = "redis-ycsb";
    const ABOUT: &'static str = "as redis, with YCSB's records: hashes of ten fields of 100 bytes";
    const LOG_ENTRIES: u64 = 128;
    const SPARE: u64 = 128;

    fn of(_: Share) -> YcsbRecords {
        YcsbRecords
    }

    fn room(share: Share) -> u64 {
        share.each() - share.each() / 3
    }

    fn tables(&self, share: Share) -> Vec<(u64, &'static [u64])> {
        vec![(share.each(), &[100; 10])]
    }

    fn bytes(&self, _: u64) -> &'static [u64] {
        &[100; 10]
    }
}

/// Records that are hashes.
#[derive(Clone, Copy, Debug)]
pub struct Hashes<C> {
    pub(crate) columns: C,
    blocks: [Blocks; CLASSES],
}

/// Words of a string of `bytes` bytes.
const fn string_words(bytes: u64) -> u64 {
    let header = if bytes < 32 { 1 } else { 3 };
    (header + bytes + 1).div_ceil(8)
}

/// Buckets of the table of so many fields.
fn buckets(fields: usize) -> u64 {
    (fields as u64).next_power_of_two().max(4)
}

/// The size of the block of an object of `words` words.
fn class(words: u64) -> usize {
    let bytes = HEADER + 8 * words;
    BLOCK_BYTES.iter().position(|most| bytes <= *most).expect("objects of known sizes")
}

/// Blocks of each size that a record with such fields takes.
fn blocks_of(fields: &[u64]) -> [u64; CLASSES] {
    let mut count = [0; CLASSES];
    let others = [ENTRY_WORDS, KEY_WORDS, RECORD_WORDS, DICTIONARY_WORDS, buckets(fields.len())];
    others.iter().for_each(|words| count[class(*words)] += 1);
    for bytes in fields {
        [ENTRY_WORDS, 1, string_words(*bytes)].iter().for_each(|words| count[class(*words)] += 1);
    }
    count
}

/// The name of a field, which a string of 8 bytes holds.
fn name(field: usize) -> u64 {
    spread(field as u64) | 1
}

/// Word `word` of the value of a field; word 0 is the tag.
fn value_word((key, field, tag): (u64, usize, u64), word: u64) -> u64 {
    let mixed = key.rotate_left(32) ^ tag ^ (field as u64) << 48 ^ word << 56;
    if word == 0 { tag } else { mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
}

/// Word `word` of a key object; word 0 is the key.
fn key_word(key: u64, word: u64) -> u64 {
    if word == 0 { key } else { spread(key ^ word << 56) }
}

impl<C: Columns> Hashes<C> {
    /// Allocates an object of `kind` and writes its words.
    fn object<M: Memory>(
        &self,
        tx: &mut UndoTx<'_, M>,
        cursors: &mut [u64; CLASSES],
        kind: u64,
        words: &[u64],
    ) -> Addr {
        let class = class(words.len() as u64);
        let at = self.blocks[class].reserve(tx, &mut cursors[class]).expect("room for each key");
        self.write(tx, at, kind, words);
        at
    }

    fn write<M: Memory>(&self, tx: &mut UndoTx<'_, M>, at: Addr, kind: u64, words: &[u64]) {
        let memory = tx.memory();
        tx.fresh(at, HEADER / 8 + words.len() as u64);
        memory.store(at, HEADER + 8 * words.len() as u64);
        memory.store(at.plus(8), kind);
        for (place, word) in (0..).zip(words) {
            memory.store(at.plus(HEADER + 8 * place), *word);
        }
        memory.work(words.len() as u32);
    }

    fn value<M: Memory>(
        &self,
        tx: &mut UndoTx<'_, M>,
        cursors: &mut [u64; CLASSES],
        what: (u64, usize, u64),
    ) -> Addr {
        let words = string_words(self.columns.bytes(what.0)[what.1]);
        let words: Vec<u64> = (0..words).map(|word| value_word(what, word)).collect();
        self.object(tx, cursors, STRING, &words)
    }

    /// The entries of the fields of a record, in the order of its table.
    fn fields<M: Memory>(&self, memory: &M, entry: Addr, count: usize) -> Vec<Addr> {
        let record = memory.load::<Addr>(entry.plus(HELD));
        let dictionary = memory.load::<Addr>(record.plus(LEADS));
        let table = memory.load::<Addr>(dictionary.plus(LEADS));
        let mut entries = Vec::new();
        for bucket in 0..buckets(count) {
            let mut next = memory.load::<Addr>(table.plus(HEADER + 8 * bucket));
            while !next.is_null() && entries.len() < count {
                entries.push(next);
                next = memory.load(next.plus(NEXT));
            }
        }
        entries
    }

    /// The entry of one field, found through its bucket.
    fn field<M: Memory>(&self, memory: &M, entry: Addr, (key, field): (u64, usize)) -> Addr {
        let record = memory.load::<Addr>(entry.plus(HELD));
        let dictionary = memory.load::<Addr>(record.plus(LEADS));
        let table = memory.load::<Addr>(dictionary.plus(LEADS));
        let bucket = bucket_of(field, self.columns.bytes(key).len());
        let mut next = memory.load::<Addr>(table.plus(HEADER + 8 * bucket));
        memory.work(12);
        loop {
            let called = memory.load::<Addr>(next.plus(NAME));
            if memory.load::<u64>(called.plus(HEADER)) == name(field) {
                return next;
            }
            next = memory.load(next.plus(NEXT));
        }
    }

    /// Overwrites one field of an existing record.
    pub(crate) fn set<M: Memory>(
        &self,
        tx: &mut UndoTx<'_, M>,
        cursors: &mut [u64; CLASSES],
        entry: Addr,
        what: (u64, usize, u64),
    ) {
        let memory = tx.memory();
        let place = self.field(memory, entry, (what.0, what.1)).plus(HELD);
        let old = memory.load::<Addr>(place);
        let new = self.value(tx, cursors, what);
        tx.strand();
        tx.add(place, 1);
        memory.store(place, new);
        let words = string_words(self.columns.bytes(what.0)[what.1]);
        self.blocks[class(words)].release(tx, old);
    }

    /// Reads one field.
    pub(crate) fn get<M: Memory>(&self, memory: &M, entry: Addr, (key, field): (u64, usize)) {
        let place = self.field(memory, entry, (key, field)).plus(HELD);
        self.read_value(memory, memory.load(place));
    }

    fn read_value<M: Memory>(&self, memory: &M, value: Addr) {
        let bytes = memory.load::<u64>(value).clamp(HEADER, BLOCK_BYTES[CLASSES - 1]);
        memory.read(value.plus(HEADER), &mut vec![0; (bytes - HEADER) as usize]);
        memory.work((bytes / 8) as u32);
    }

    /// Checks the header of an object.
    fn is_object<M: Memory>(&self, memory: &M, at: Addr, kind: u64, words: u64) -> bool {
        let found = [0, 8].map(|offset| memory.load::<u64>(at.plus(offset)));
        found == [HEADER + 8 * words, kind]
    }

    /// Checks a field and marks its objects as reached; returns its number and tag.
    fn check_field<M: Memory>(
        &self,
        walk: &mut [ReachedBlocks<'_>; CLASSES],
        memory: &M,
        at: (u64, u64),
        (thread, key): (u64, u64),
    ) -> Result<(usize, u64, u64), Damage> {
        let what = format!("the record of key {key}");
        let torn = || Damage(format!("{what} is torn"));
        let (next, bucket) = at;
        let bytes = self.columns.bytes(key);
        let entry = walk[0].reach(thread, next, &what)?;
        let [called, value, next] =
            [NAME, HELD, NEXT].map(|offset| memory.load::<u64>(entry.plus(offset)));
        let called = walk[0].reach(thread, called, &what)?;
        let found = memory.load::<u64>(called.plus(HEADER));
        let field = (0..bytes.len()).find(|field| name(*field) == found).ok_or_else(torn)?;
        let words = string_words(bytes[field]);
        let value = walk[class(words)].reach(thread, value, &what)?;
        let tag = memory.load::<u64>(value.plus(HEADER));
        let is_wrong = |word: u64| {
            memory.load::<u64>(value.plus(HEADER + 8 * word)) != value_word((key, field, tag), word)
        };
        let is_whole = self.is_object(memory, entry, ENTRY, ENTRY_WORDS)
            && self.is_object(memory, called, STRING, 1)
            && self.is_object(memory, value, STRING, words);
        if !is_whole || tag == 0 || (0..words).any(is_wrong) {
            return Err(torn());
        }
        match bucket_of(field, bytes.len()) == bucket {
            true => Ok((field, tag, next)),
            false => Err(Damage(format!("a field of {what} is in a wrong chain"))),
        }
    }
}

fn bucket_of(field: usize, fields: usize) -> u64 {
    name(field) >> 20 & (buckets(fields) - 1)
}

impl<C: Columns> Stored for Hashes<C> {
    const NAME: &'static str = C::NAME;
    const ABOUT: &'static str = C::ABOUT;
    const LOG_ENTRIES: u64 = C::LOG_ENTRIES;
    const NEXT: u64 = NEXT;
    type Cursors = [u64; CLASSES];
    type Walk<'a> = [ReachedBlocks<'a>; CLASSES];

    fn place(arena: &mut Arena, share: Share, room: u64) -> Hashes<C> {
        let columns = C::of(share);
        let mut sum = [0; CLASSES];
        for (keys, fields) in columns.tables(share) {
            let needs = blocks_of(fields);
            sum.iter_mut().zip(needs).for_each(|(sum, needs)| *sum += keys * needs);
        }
        let each = share.each().max(1);
        let count = |class: usize| (sum[class] * room).div_ceil(each) + C::SPARE;
        let blocks = std::array::from_fn(|class| {
            Blocks::place(arena, share.threads, count(class), BLOCK_BYTES[class])
        });
        Hashes { columns, blocks }
    }

    fn room(share: Share) -> u64 {
        C::room(share)
    }

    fn message_bytes(op: Op) -> (u64, u64) {
        match op {
            Op::Read | Op::Scan(_) => (32, 1088),
            Op::Delete => (32, 16),
            Op::Insert | Op::Put => (1120, 16),
            Op::Update => (136, 16),
            Op::ReadModifyWrite => (136, 1088),
        }
    }

    fn key<M: Memory>(memory: &M, entry: Addr) -> u64 {
        memory.load(memory.load::<Addr>(entry.plus(NAME)).plus(HEADER))
    }

    fn take<M: Memory>(&self, tx: &mut UndoTx<'_, M>, cursors: &mut [u64; CLASSES]) -> Addr {
        self.blocks[0].reserve(tx, &mut cursors[0]).expect("room for each key")
    }

    fn fill<M: Memory>(
        &self,
        tx: &mut UndoTx<'_, M>,
        cursors: &mut [u64; CLASSES],
        (entry, key, tag): (Addr, u64, u64),
    ) {
        let bytes = self.columns.bytes(key);
        let words: Vec<u64> = (0..KEY_WORDS).map(|word| key_word(key, word)).collect();
        let key_object = self.object(tx, cursors, KEY, &words);
        let mut table = vec![0; buckets(bytes.len()) as usize];
        for field in 0..bytes.len() {
            let called = self.object(tx, cursors, STRING, &[name(field)]);
            let value = self.value(tx, cursors, (key, field, tag));
            let head = &mut table[bucket_of(field, bytes.len()) as usize];
            let words = [called.bits(), value.bits(), *head];
            *head = self.object(tx, cursors, ENTRY, &words).bits();
        }
        let size = table.len() as u64;
        let table = self.object(tx, cursors, TABLE, &table);
        let mut words = [0; DICTIONARY_WORDS as usize];
        words[..5].copy_from_slice(&[size, table.bits(), size, size - 1, bytes.len() as u64]);
        let dictionary = self.object(tx, cursors, DICTIONARY, &words);
        let record = self.object(tx, cursors, RECORD, &[1, dictionary.bits()]);
        self.write(tx, entry, ENTRY, &[key_object.bits(), record.bits(), 0]);
    }

    fn update<M: Memory>(
        &self,
        tx: &mut UndoTx<'_, M>,
        cursors: &mut [u64; CLASSES],
        (entry, key, tag): (Addr, u64, u64),
    ) {
        let fields = self.columns.bytes(key).len() as u64;
        let field = (spread(tag) >> 32) % fields;
        self.set(tx, cursors, entry, (key, field as usize, tag));
    }

    fn read<M: Memory>(&self, memory: &M, entry: Addr) {
        let count = self.columns.bytes(Self::key(memory, entry)).len();
        for field in self.fields(memory, entry, count) {
            self.read_value(memory, memory.load(field.plus(HELD)));
        }
    }

    fn give<M: Memory>(&self, tx: &mut UndoTx<'_, M>, entry: Addr) {
        let memory = tx.memory();
        let lead = |at: Addr, offset: u64| memory.load::<Addr>(at.plus(offset));
        let key_object = lead(entry, NAME);
        let bytes = self.columns.bytes(memory.load(key_object.plus(HEADER)));
        let record = lead(entry, HELD);
        let dictionary = lead(record, LEADS);
        let table = lead(dictionary, LEADS);
        let mut objects = vec![entry, key_object, record, dictionary, table];
        for field in self.fields(memory, entry, bytes.len()) {
            objects.extend([field, lead(field, NAME), lead(field, HELD)]);
        }
        for at in objects {
            let words = (memory.load::<u64>(at) - HEADER) / 8;
            self.blocks[class(words)].release(tx, at);
        }
    }

    fn walk(&self) -> [ReachedBlocks<'_>; CLASSES] {
        std::array::from_fn(|class| self.blocks[class].reached())
    }

    fn reach<M: Memory>(
        walk: &mut [ReachedBlocks<'_>; CLASSES],
        memory: &M,
        thread: u64,
        (at, what): (u64, &str),
    ) -> Result<Addr, Damage> {
        let entry = walk[0].reach(thread, at, what)?;
        walk[0].reach(thread, memory.load(entry.plus(NAME)), what)?;
        Ok(entry)
    }

    fn check<M: Memory>(
        &self,
        walk: &mut [ReachedBlocks<'_>; CLASSES],
        memory: &M,
        (entry, key): (Addr, u64),
        thread: u64,
    ) -> Result<u64, Damage> {
        let what = format!("the record of key {key}");
        let torn = || Damage(format!("{what} is torn"));
        let count = self.columns.bytes(key).len();
        let size = buckets(count);
        let key_object = memory.load::<Addr>(entry.plus(NAME));
        let record = walk[0].reach(thread, memory.load(entry.plus(HELD)), &what)?;
        let dictionary = walk[0].reach(thread, memory.load(record.plus(LEADS)), &what)?;
        let table = memory.load(dictionary.plus(LEADS));
        let table = walk[class(size)].reach(thread, table, &what)?;
        let is_other = |word: u64| {
            memory.load::<u64>(key_object.plus(HEADER + 8 * word)) != key_word(key, word)
        };
        let is_whole = self.is_object(memory, entry, ENTRY, ENTRY_WORDS)
            && self.is_object(memory, key_object, KEY, KEY_WORDS)
            && self.is_object(memory, record, RECORD, RECORD_WORDS)
            && self.is_object(memory, dictionary, DICTIONARY, DICTIONARY_WORDS)
            && self.is_object(memory, table, TABLE, size);
        if !is_whole || (0..KEY_WORDS).any(is_other) {
            return Err(torn());
        }
        let mut tags = vec![0; count];
        for bucket in 0..size {
            let mut next = memory.load::<u64>(table.plus(HEADER + 8 * bucket));
            while next != 0 {
                let (field, tag, after) =
                    self.check_field(walk, memory, (next, bucket), (thread, key))?;
                if std::mem::replace(&mut tags[field], tag) != 0 {
                    return Err(Damage(format!("{what} has field {field} twice")));
                }
                next = after;
            }
        }
        if tags.contains(&0) {
            return Err(torn());
        }
        tags.into_iter().max_by_key(|tag| age(*tag)).ok_or_else(torn)
    }

    fn check_blocks<M: Memory>(
        walk: &[ReachedBlocks<'_>; CLASSES],
        memory: &M,
    ) -> Result<(), Damage> {
        walk.iter().try_for_each(|reached| reached.check(memory))
    }
}

#[cfg(test)]
mod tests;
