//! A map from byte strings to byte strings in a heap, for many threads.
//!
//! A table (`table.rs`) from the hash of a key to the address of its *record*, an object of the
//! heap that never changes: a word of two lengths (key low, value high), the key padded to whole
//! words, the value. Two keys with one hash are two entries of the table, with different
//! records.
//!
//! The hash is SipHash-1-3 (Aumasson and Bernstein, INDOCRYPT 2012, with fewer rounds) under a key
//! that comes from the pool's uuid and the map's address. An attacker who chooses keys
//! without knowing the pool cannot make them collide, so keys may come from outside.
//!
//! A reader takes no lock, so a record may be freed and its place reused while it is read. What it
//! read of an address or a length is therefore used only if the segment is still as it was, and the
//! bytes are returned only if it still is at the end.

use crate::damage::Wild;
use crate::live::Live;
use crate::reads::{Reads, Within};
use crate::table::flaw::MapFlaw;
use crate::table::{Kind, Table, mix};
use crate::{Damage, MapError, MapOptions, MapSize};
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_runtime::{Heap, Logging, Session, Tx, TxError};
use siphasher::sip::SipHasher13;

const KIND: Kind = Kind { word: u64::from_le_bytes(*b"kvmap v1"), name: "map of byte strings" };

/// The longest key, and the longest value, in bytes.
pub const KV_BYTES_MAX: usize = u32::MAX as usize;

/// A map from byte strings to byte strings: a few numbers, to be copied to every thread.
///
/// A change is one transaction of the heap, which also allocates and frees what it needs: durable
/// when it returns; after a crash before that, the change is there as a whole or not, and nothing
/// is leaked. Or it is part of a caller's transaction, under the rules of a [`Map`](crate::Map).
/// Readers take no lock and see durable content only.
///
/// | operation | fences | holds |
/// |---|---|---|
/// | [`get`](KvMap::get) | 0 | |
/// | [`insert`](KvMap::insert) | 1, and 1 more for records of 4 KiB and more | a stripe |
/// | [`remove`](KvMap::remove) | 1, 0 if there is nothing | a stripe |
/// | now and then: a split or a merge | 1 more | ... and that of the map |
/// | `get_in`, `insert_in`, `remove_in` | 0 | the same, until the transaction is over |
///
/// ```
/// use seawall_collections::{KvMap, MapOptions};
/// use seawall_memory::Image;
/// use seawall_runtime::{Heap, HeapOptions};
///
/// let options = HeapOptions { threads: 1, ..HeapOptions::default() };
/// let memory = Image::new(options.pm_bytes(), options.dram_bytes());
/// let heap = Heap::create(&memory, "names", 42, &options)?;
/// let mut session = heap.join(&memory);
/// let map = session.transaction(|tx| KvMap::create(tx, heap.root(), &MapOptions::default()))?;
/// map.insert(&mut session, b"name", b"value")?; // durable here
/// assert_eq!(map.get(&memory, b"name")?.as_deref(), Some(&b"value"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvMap {
    table: Table,
}

/// Bytes of a value that a look-up has on the stack.
const SMALL: usize = 64;

/// Bytes of a record on the stack; longer ones are put together elsewhere.
const SHORT: usize = 256;

/// What the first word of a record says.
#[derive(Clone, Copy)]
struct Lengths {
    key: usize,
    value: usize,
}

impl Lengths {
    fn of(word: u64) -> Lengths {
        Lengths { key: word as u32 as usize, value: (word >> 32) as usize }
    }

    fn word(self) -> u64 {
        self.key as u64 | (self.value as u64) << 32
    }

    /// Bytes from the start of the record to its value.
    fn value_at(self) -> usize {
        8 + self.key.next_multiple_of(8)
    }

    fn bytes(self) -> usize {
        self.value_at() + self.value
    }
}

/// True if the record has that key: word by word, as its padding is zero.
#[inline]
fn has_key<R: Reads>(from: &R, record: Addr, lengths: Lengths, key: &[u8]) -> bool {
    let (words, rest) = key.as_chunks();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let last = (!rest.is_empty()).then_some(&last);
    let mut words = words.iter().chain(last).zip((8..).step_by(8));
    lengths.key == key.len()
        && words.all(|(word, at)| from.word(record.plus(at)) == u64::from_le_bytes(*word))
}

/// The bytes of a record, in `short` if they fit.
fn record<'a>(
    (key, value): (&[u8], &[u8]),
    short: &'a mut [u8; SHORT],
    long: &'a mut Vec<u8>,
) -> Result<&'a [u8], MapError> {
    for (what, bytes) in [("key", key.len()), ("value", value.len())] {
        if bytes > KV_BYTES_MAX {
            return Err(MapError::Long { what, bytes, most: KV_BYTES_MAX });
        }
    }
    let lengths = Lengths { key: key.len(), value: value.len() };
    let record = match short.get_mut(..lengths.bytes()) {
        Some(record) => record,
        None => {
            long.resize(lengths.bytes(), 0);
            &mut long[..]
        }
    };
    record[..8].copy_from_slice(&lengths.word().to_le_bytes());
    record[8..8 + key.len()].copy_from_slice(key);
    record[lengths.value_at()..].copy_from_slice(value);
    Ok(record)
}

/// The value of the record to which the word of an entry leads, of which [`KvMap::is_record_of`]
/// has said so.
fn value_of<M: Memory>(tx: &Tx<'_, '_, M>, word: u64) -> Vec<u8> {
    let record = Addr::from_bits(word);
    let lengths = Lengths::of(tx.load(record));
    let mut value = vec![0; lengths.value];
    tx.read(record.plus(lengths.value_at() as u64), &mut value);
    value
}

fn filled<M: Memory>(tx: &mut Tx<'_, '_, M>, record: &[u8]) -> Result<Addr, TxError> {
    let at = tx.alloc(record.len() as u64)?;
    tx.fill(at, record)?;
    Ok(at)
}

impl KvMap {
    /// Makes an empty map in a transaction, and stores its address in the word at `link`.
    ///
    /// # Errors
    /// When an option is out of range, the heap is full, or `link` is none of its data.
    pub fn create<M: Memory>(
        tx: &mut Tx<'_, '_, M>,
        link: Addr,
        options: &MapOptions,
    ) -> Result<KvMap, MapError> {
        Ok(KvMap { table: Table::create(tx, link, KIND, options)? })
    }

    /// The map that was created with that `link`. Takes no time worth speaking of, after a crash
    /// too. Only the root is looked at. What leads out of the heap is [`MapError::Damage`] to the
    /// operation that meets it; [`check`](KvMap::check) finds damage of any kind.
    ///
    /// # Errors
    /// [`MapError::NoMap`] when something else is there.
    pub fn open<M: Memory>(session: &mut Session<'_, M>, link: Addr) -> Result<KvMap, MapError> {
        Ok(KvMap { table: Table::open(session, link, KIND)? })
    }

    /// As [`open`](KvMap::open), as a transaction sees it: also a map that this has made.
    ///
    /// # Errors
    /// As [`open`](KvMap::open).
    pub fn open_in<M: Memory>(tx: &Tx<'_, '_, M>, link: Addr) -> Result<KvMap, MapError> {
        Ok(KvMap { table: Table::open_in(tx, link, KIND)? })
    }

    /// The map with a planted bug.
    #[cfg(feature = "flaws")]
    #[must_use]
    pub fn with_flaw(mut self, flaw: MapFlaw) -> KvMap {
        self.table.flaw = flaw.into();
        self
    }

    fn hash(&self, key: &[u8]) -> u64 {
        if self.table.flaw.is(MapFlaw::WeakHash) {
            return mix(key.len() as u64 % 4);
        }
        let [first, second] = self.table.seed;
        SipHasher13::new_with_keys(first, second).hash(key)
    }

    /// Shows `take` where the value of `key` is, and how long, as often as another thread may have
    /// changed it meanwhile; what it reads there counts if this returns true. False if `key` has
    /// none.
    #[inline]
    fn find<M: Memory>(
        &self,
        memory: &M,
        key: &[u8],
        mut take: impl FnMut(Addr, usize),
    ) -> Result<bool, Wild> {
        let found = self.table.read(memory, self.hash(key), |word, is_still| {
            if !is_still() {
                return Some(Ok(()));
            }
            let (record, lengths) = (Addr::from_bits(word), self.lengths(memory, word));
            let lengths = match lengths {
                Ok(lengths) if is_still() => lengths,
                lengths => return Some(lengths.map(drop)),
            };
            if !has_key(memory, record, lengths, key) {
                return None;
            }
            take(record.plus(lengths.value_at() as u64), lengths.value);
            Some(Ok(()))
        })?;
        found.transpose().map(|found| found.is_some())
    }

    /// The lengths of the record to which the word of an entry leads, which is in the heap as a
    /// whole.
    #[inline]
    fn lengths<R: Reads>(&self, from: &R, word: u64) -> Result<Lengths, Wild> {
        let (record, wild) = (Addr::from_bits(word), Wild { what: "an entry of a map", to: word });
        if !self.table.has(from, record, 8) {
            return Err(wild);
        }
        let lengths = Lengths::of(from.word(record));
        if self.table.has(from, record, lengths.bytes() as u64) { Ok(lengths) } else { Err(wild) }
    }

    /// True if the word of an entry leads to a record of that key.
    #[inline]
    fn is_record_of<R: Reads>(&self, from: &R, word: u64, key: &[u8]) -> Result<bool, Wild> {
        Ok(has_key(from, Addr::from_bits(word), self.lengths(from, word)?, key))
    }

    /// Puts the value of `key` in place of what is in `into`; false, and `into` is empty, if it has
    /// none.
    ///
    /// # Errors
    /// When the map is damaged.
    pub fn get_into<M: Memory>(
        &self,
        memory: &M,
        key: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<bool, MapError> {
        let found = self.find(memory, key, |at, bytes| {
            into.clear();
            into.resize(bytes, 0);
            memory.read(at, into);
        });
        if !matches!(found, Ok(true)) {
            into.clear();
        }
        Ok(found?)
    }

    /// What `act` makes of the value of `key`, which is not copied to the heap of the process if it
    /// has up to 64 bytes.
    ///
    /// # Errors
    /// When the map is damaged.
    pub fn get_with<M: Memory, T>(
        &self,
        memory: &M,
        key: &[u8],
        act: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, MapError> {
        let (mut short, mut long, mut length) = ([0; SMALL], Vec::new(), 0);
        let found = self.find(memory, key, |at, bytes| {
            length = bytes;
            match short.get_mut(..bytes) {
                Some(short) => memory.read(at, short),
                None => {
                    long.resize(bytes, 0);
                    memory.read(at, &mut long[..bytes]);
                }
            }
        })?;
        let value = |short: [u8; SMALL], long: Vec<u8>| match short.get(..length) {
            Some(short) => act(short),
            None => act(&long[..length]),
        };
        Ok(found.then(|| value(short, long)))
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// When the map is damaged.
    pub fn get<M: Memory>(&self, memory: &M, key: &[u8]) -> Result<Option<Vec<u8>>, MapError> {
        let mut value = Vec::new();
        Ok(self.get_into(memory, key, &mut value)?.then_some(value))
    }

    /// Makes `value` that of `key`; true if there was another before.
    ///
    /// # Errors
    /// When key or value are longer than [`KV_BYTES_MAX`], or the heap is full; then nothing has
    /// changed.
    pub fn insert<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, MapError> {
        let (mut short, mut long) = ([0; SHORT], Vec::new());
        let record = record((key, value), &mut short, &mut long)?;
        let mut early = None;
        if self.table.flaw.is(MapFlaw::EarlyRecord) {
            early = Some(session.transaction(|tx| filled(tx, record))?);
        }
        let old = session.retry(Logging::Redo, |tx| self.put(tx, key, record, early, |_, _| ()))?;
        if let Some(old) = old
            && self.table.flaw.is(MapFlaw::LateFree)
        {
            session.transaction(|tx| tx.free(Addr::from_bits(old)))?;
        }
        Ok(old.is_some())
    }

    /// Removes `key`; true if it was there.
    ///
    /// # Errors
    /// When the heap is damaged.
    pub fn remove<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: &[u8],
    ) -> Result<bool, MapError> {
        session.retry(Logging::Redo, |tx| self.remove_in(tx, key))
    }

    /// The value of `key` as a transaction sees it; it holds until that is over.
    ///
    /// # Errors
    /// [`TxError::Busy`].
    pub fn get_in<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, MapError> {
        let is_it = |from: &Within<'_, '_, '_, M>, word| self.is_record_of(from, word, key);
        let found = self.table.look_up(tx, self.hash(key), is_it)?;
        Ok(found.map(|word| value_of(tx, word)))
    }

    /// As [`insert`](KvMap::insert), as part of a transaction.
    ///
    /// # Errors
    /// As [`insert`](KvMap::insert), and [`TxError::Busy`].
    pub fn insert_in<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, MapError> {
        let (mut short, mut long) = ([0; SHORT], Vec::new());
        let record = record((key, value), &mut short, &mut long)?;
        Ok(self.put(tx, key, record, None, |_, _| ())?.is_some())
    }

    /// As [`insert_in`](KvMap::insert_in); returns the value that was there, found on the way.
    ///
    /// # Errors
    /// As [`insert_in`](KvMap::insert_in).
    pub fn replace_in<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<Vec<u8>>, MapError> {
        let (mut short, mut long) = ([0; SHORT], Vec::new());
        let record = record((key, value), &mut short, &mut long)?;
        let mut old = None;
        self.put(tx, key, record, None, |tx, word| old = Some(value_of(tx, word)))?;
        Ok(old)
    }

    /// As [`remove`](KvMap::remove), as part of a transaction.
    ///
    /// # Errors
    /// As [`remove`](KvMap::remove), and [`TxError::Busy`].
    pub fn remove_in<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: &[u8],
    ) -> Result<bool, MapError> {
        let Some(word) = self.unlink(tx, key)? else { return Ok(false) };
        tx.free(Addr::from_bits(word))?;
        Ok(true)
    }

    /// As [`remove_in`](KvMap::remove_in); returns the value that was there.
    ///
    /// # Errors
    /// As [`remove_in`](KvMap::remove_in).
    pub fn take_in<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, MapError> {
        let Some(word) = self.unlink(tx, key)? else { return Ok(None) };
        let value = value_of(tx, word);
        tx.free(Addr::from_bits(word))?;
        Ok(Some(value))
    }

    /// Takes the entry of `key` out of the table; returns the address of its record.
    fn unlink<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: &[u8],
    ) -> Result<Option<u64>, MapError> {
        let is_it = |from: &Within<'_, '_, '_, M>, word| self.is_record_of(from, word, key);
        self.table.take(tx, self.hash(key), is_it)
    }

    /// Shows keys and values to `each` as a transaction sees them; they stay until it is over.
    ///
    /// # Errors
    /// [`TxError::Busy`], or when the map is damaged.
    pub fn for_each_in<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), TxError> {
        self.table.each_in(tx, |tx, _, word| {
            let lengths = self.lengths(&Within(tx), word)?;
            let mut bytes = vec![0; lengths.bytes() - 8];
            tx.read(Addr::from_bits(word).plus(8), &mut bytes);
            each(&bytes[..lengths.key], &bytes[lengths.value_at() - 8..]);
            Ok(())
        })
    }

    /// Frees the map with all that it holds, and clears the `link` that it was created with. No
    /// other thread may use it.
    ///
    /// # Errors
    /// [`TxError::TooLarge`] when the transaction does not fit its log.
    pub fn free_in<M: Memory>(self, tx: &mut Tx<'_, '_, M>, link: Addr) -> Result<(), TxError> {
        self.table.each_in(tx, |tx, _, word| tx.free(Addr::from_bits(word)))?;
        self.table.free_in(tx, link)
    }

    /// Puts a record, or the one that a planted bug allocated `early`, where that of its key is;
    /// returns the word that was there, which `seen` gets while its record is not yet freed.
    fn put<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: &[u8],
        record: &[u8],
        early: Option<Addr>,
        seen: impl FnOnce(&Tx<'_, '_, M>, u64),
    ) -> Result<Option<u64>, MapError> {
        let is_it = |from: &Within<'_, '_, '_, M>, word| self.is_record_of(from, word, key);
        self.table.put(tx, self.hash(key), is_it, |tx, old| {
            if let Some(old) = old {
                seen(tx, old);
            }
            let at = match early {
                Some(at) => at,
                None => filled(tx, record)?,
            };
            if let Some(old) = old.filter(|_| !self.table.flaw.is(MapFlaw::LateFree)) {
                tx.free(Addr::from_bits(old))?;
            }
            Ok(at.bits())
        })
    }

    /// How many keys there are. Counts them, in time that grows with the map: nothing is kept that
    /// every change would have to pay for.
    ///
    /// # Errors
    /// When the map is damaged.
    pub fn len<M: Memory>(&self, memory: &M) -> Result<u64, MapError> {
        Ok(self.table.count(memory)?)
    }

    /// As [`len`](KvMap::len), as a transaction sees it.
    ///
    /// # Errors
    /// [`TxError::Busy`].
    pub fn len_in<M: Memory>(&self, tx: &mut Tx<'_, '_, M>) -> Result<u64, TxError> {
        let mut count = 0;
        self.table.each_in(tx, |_, _, _| {
            count += 1;
            Ok(())
        })?;
        Ok(count)
    }

    /// True if there is no key. Looks at the whole map, as [`len`](KvMap::len).
    ///
    /// # Errors
    /// When the map is damaged.
    pub fn is_empty<M: Memory>(&self, memory: &M) -> Result<bool, MapError> {
        Ok(self.len(memory)? == 0)
    }

    /// Shows keys and values to `each`, in an order that is the same every time. Those that are
    /// there all the while are shown once, those that come or go meanwhile perhaps; parts of some
    /// hundred, which are copied out together, are as they were at one moment. `each` may use the
    /// map.
    ///
    /// # Errors
    /// When the map is damaged; entries may have been shown before.
    pub fn for_each<M: Memory>(
        &self,
        memory: &M,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), MapError> {
        let mut next = Some(0);
        while let Some(from) = next {
            next = self.for_each_of(memory, from, &mut each)?;
        }
        Ok(())
    }

    /// One of the parts of [`for_each`](KvMap::for_each), for programs that come back for the next:
    /// the one at `from`, which is 0 for the first. Gives where the next one is.
    ///
    /// # Errors
    /// When the map is damaged.
    pub fn for_each_of<M: Memory>(
        &self,
        memory: &M,
        from: u64,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<u64>, MapError> {
        let copy = |_, word| {
            let lengths = self.lengths(memory, word)?;
            let mut bytes = vec![0; lengths.bytes() - 8];
            memory.read(Addr::from_bits(word).plus(8), &mut bytes);
            Ok((lengths, bytes))
        };
        let (copies, next) = self.table.part(memory, from, copy)?;
        for (lengths, bytes) in copies {
            each(&bytes[..lengths.key], &bytes[lengths.value_at() - 8..]);
        }
        Ok(next)
    }

    /// Checks everything that holds of a map, on bytes that may be anything; no other thread may
    /// work. Gives what it found.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn check<M: Memory>(&self, memory: &M, heap: &Heap) -> Result<MapSize, Damage> {
        let mut live = Live::of(memory, heap).map_err(|error| Damage::Broken(error.to_string()))?;
        let keys = self.check_among(memory, &mut live)?;
        Ok(MapSize::of(keys, &live))
    }

    /// As [`check`](KvMap::check), beside other structures; gives the number of keys.
    pub(crate) fn check_among<M: Memory>(
        &self,
        memory: &M,
        live: &mut Live,
    ) -> Result<u64, Damage> {
        let mut same: Vec<Vec<u8>> = Vec::new();
        let mut last = 0;
        self.table.check(memory, live, |live, hash, word| {
            let record = Addr::from_bits(word);
            let what = || format!("the entry of hash {hash:#x}");
            live.reach(record, 8, what)?;
            let lengths = Lengths::of(memory.load(record));
            if !live.has(record, lengths.bytes() as u64) {
                let why = format!("the record at {record} is longer than its object");
                return Err(Damage::Broken(why));
            }
            let mut key = vec![0; lengths.key];
            memory.read(record.plus(8), &mut key);
            if self.hash(&key) != hash {
                let why = format!("the key at {record} has not the hash {hash:#x} of its entry");
                return Err(Damage::Broken(why));
            }
            if std::mem::replace(&mut last, hash) != hash {
                same.clear();
            }
            if same.contains(&key) {
                return Err(Damage::Broken(format!("the key at {record} is there twice")));
            }
            same.push(key);
            Ok(())
        })
    }
}
