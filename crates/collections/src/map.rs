//! A map from `u64` to `u64` in a heap, for many threads.
//!
//! A table (`table.rs`) whose hashes are the keys, mixed: the mixing can be undone, so the table
//! holds nothing else, and no two keys have one hash. It is keyed with the pool's uuid, which keeps
//! patterns in the keys from meeting patterns in the mixing. It is **not** proof against an
//! attacker who picks keys to fill one segment: the directory then doubles until the heap is full,
//! or an insertion returns [`MapError::Crowded`]. Keys from outside belong in a
//! [`KvMap`](crate::KvMap).

use crate::live::Live;
use crate::table::{Kind, Table, mix, unmix};
use crate::{Damage, MapError, MapOptions, MapSize};
use seawall_memory::{Addr, Memory};
use seawall_runtime::{Heap, Logging, Session, Tx};

const KIND: Kind = Kind { word: u64::from_le_bytes(*b"map64 v1"), name: "map from u64 to u64" };

/// A map from `u64` to `u64`: a few numbers, to be copied to every thread.
///
/// A change is one transaction of the heap: durable when it returns; after a crash before that, the
/// change is there as a whole or not. Or it is part of a caller's transaction (`..._in`), which may
/// change other structures too: all of it happens, or nothing. Now and then (one in some hundreds)
/// an insertion splits a segment, or a removal merges two. Readers take no lock and see durable
/// content only. The log of the heap is [truncated](Session::retire) now and then, which costs more
/// fences.
///
/// | operation | fences | holds |
/// |---|---|---|
/// | [`get`](Map::get) | 0 | |
/// | [`insert`](Map::insert), [`update`](Map::update) | 1 | a stripe |
/// | [`remove`](Map::remove) | 1, 0 if the key is not there | a stripe |
/// | ... with a split or a merge: for what it fills past the log | 1 more | and that of the map |
/// | `get_in`, `insert_in`, ... in a transaction | 0 | the same, until that is over |
///
/// A transaction releases its locks when it has committed, or failed. While it runs, its thread
/// must not use the plain operations: they would wait for it. A lock out of order that another
/// thread has makes an operation fail with [`Busy`](seawall_runtime::TxError::Busy);
/// [`Session::retry`] runs the transaction again then, so in a heap for several threads it is the
/// one to use.
///
/// ```
/// use seawall_collections::{Map, MapOptions};
/// use seawall_memory::Image;
/// use seawall_runtime::{Heap, HeapOptions, Logging};
///
/// let options = HeapOptions { threads: 1, ..HeapOptions::default() };
/// let memory = Image::new(options.pm_bytes(), options.dram_bytes());
/// let heap = Heap::create(&memory, "numbers", 42, &options)?;
/// let mut session = heap.join(&memory);
/// let map = session.transaction(|tx| Map::create(tx, heap.root(), &MapOptions::default()))?;
/// map.insert(&mut session, 7, 49)?; // durable here
/// let again = Map::open(&mut session, heap.root())?;
/// assert_eq!(again.get(&memory, 7)?, Some(49));
/// session.retry(Logging::Redo, |tx| {
///     let value = map.remove_in(tx, 7)?.unwrap_or(0);
///     map.insert_in(tx, 8, value) // a crash finds the value under 7 or under 8
/// })?;
/// assert_eq!((map.get(&memory, 7)?, map.get(&memory, 8)?), (None, Some(49)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    table: Table,
}

impl Map {
    /// Makes an empty map in a transaction, and stores its address in the word at `link`.
    ///
    /// # Errors
    /// When an option is out of range, the heap is full, or `link` is none of its data.
    pub fn create<M: Memory>(
        tx: &mut Tx<'_, '_, M>,
        link: Addr,
        options: &MapOptions,
    ) -> Result<Map, MapError> {
        Ok(Map { table: Table::create(tx, link, KIND, options)? })
    }

    /// The map that was created with that `link`. Takes no time worth speaking of, after a crash
    /// too. Only the root is looked at. What leads out of the heap is [`MapError::Damage`] to the
    /// operation that meets it; [`check`](Map::check) finds damage of any kind.
    ///
    /// # Errors
    /// [`MapError::NoMap`] when something else is there.
    pub fn open<M: Memory>(session: &mut Session<'_, M>, link: Addr) -> Result<Map, MapError> {
        Ok(Map { table: Table::open(session, link, KIND)? })
    }

    /// The map with a planted bug.
    #[cfg(feature = "flaws")]
    #[must_use]
    pub fn with_flaw(mut self, flaw: crate::MapFlaw) -> Map {
        self.table.flaw = flaw.into();
        self
    }

    #[inline]
    fn hash(&self, key: u64) -> u64 {
        mix(key ^ self.table.seed[0]) ^ self.table.seed[1]
    }

    fn key(&self, hash: u64) -> u64 {
        unmix(hash ^ self.table.seed[1]) ^ self.table.seed[0]
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// When the map is damaged.
    #[inline]
    pub fn get<M: Memory>(&self, memory: &M, key: u64) -> Result<Option<u64>, MapError> {
        Ok(self.table.read(memory, self.hash(key), |value, _| Some(value))?)
    }

    /// Makes `value` that of `key`; returns the one before.
    ///
    /// # Errors
    /// When the heap is full, or the keys [crowd](MapError::Crowded) one segment; then nothing has
    /// changed.
    pub fn insert<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
        value: u64,
    ) -> Result<Option<u64>, MapError> {
        session.retry(Logging::Redo, |tx| self.insert_in(tx, key, value))
    }

    /// Replaces the value of `key` by what `change` returns for it; returns the value before. Other
    /// threads wait meanwhile: `change` must neither panic nor use the map. It may be called more
    /// than once.
    ///
    /// # Errors
    /// As [`insert`](Map::insert).
    pub fn update<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
        mut change: impl FnMut(Option<u64>) -> u64,
    ) -> Result<Option<u64>, MapError> {
        session.retry(Logging::Redo, |tx| self.update_in(tx, key, &mut change))
    }

    /// Removes `key`; returns its value.
    ///
    /// # Errors
    /// When the heap is damaged.
    pub fn remove<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
    ) -> Result<Option<u64>, MapError> {
        session.retry(Logging::Redo, |tx| self.remove_in(tx, key))
    }

    /// As [`get`](Map::get), in a transaction: sees what that has stored, and holds until it is
    /// over.
    ///
    /// # Errors
    /// [`TxError::Busy`](seawall_runtime::TxError::Busy).
    pub fn get_in<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: u64,
    ) -> Result<Option<u64>, MapError> {
        self.table.look_up(tx, self.hash(key), |_, _| Ok(true))
    }

    /// As [`insert`](Map::insert), as part of a transaction.
    ///
    /// # Errors
    /// As [`insert`](Map::insert), and [`TxError::Busy`](seawall_runtime::TxError::Busy).
    #[inline]
    pub fn insert_in<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: u64,
        value: u64,
    ) -> Result<Option<u64>, MapError> {
        self.table.put(tx, self.hash(key), |_, _| Ok(true), |_, _| Ok(value))
    }

    /// As [`update`](Map::update), as part of a transaction.
    ///
    /// # Errors
    /// As [`insert_in`](Map::insert_in).
    #[inline]
    pub fn update_in<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: u64,
        change: impl FnOnce(Option<u64>) -> u64,
    ) -> Result<Option<u64>, MapError> {
        self.table.put(tx, self.hash(key), |_, _| Ok(true), |_, old| Ok(change(old)))
    }

    /// As [`remove`](Map::remove), as part of a transaction.
    ///
    /// # Errors
    /// As [`remove`](Map::remove), and [`TxError::Busy`](seawall_runtime::TxError::Busy).
    #[inline]
    pub fn remove_in<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: u64,
    ) -> Result<Option<u64>, MapError> {
        self.table.take(tx, self.hash(key), |_, _| Ok(true))
    }

    /// How many keys there are. Counts them, in time that grows with the map: nothing is kept that
    /// every change would have to pay for.
    ///
    /// # Errors
    /// When the map is damaged.
    pub fn len<M: Memory>(&self, memory: &M) -> Result<u64, MapError> {
        Ok(self.table.count(memory)?)
    }

    /// True if there is no key. Looks at the whole map, as [`len`](Map::len).
    ///
    /// # Errors
    /// When the map is damaged.
    pub fn is_empty<M: Memory>(&self, memory: &M) -> Result<bool, MapError> {
        Ok(self.len(memory)? == 0)
    }

    /// Shows keys and values to `each`, in an order that is the same every time. Those that are
    /// there all the while are shown once, those that come or go meanwhile perhaps; parts of some
    /// hundred are as they were at one moment. `each` may use the map.
    ///
    /// # Errors
    /// When the map is damaged; entries may have been shown before.
    pub fn for_each<M: Memory>(
        &self,
        memory: &M,
        mut each: impl FnMut(u64, u64),
    ) -> Result<(), MapError> {
        let copy = |hash, value| Ok((self.key(hash), value));
        Ok(self.table.each(memory, copy, |(key, value)| each(key, value))?)
    }

    /// Checks everything that holds of a map, on bytes that may be anything; no other thread may
    /// work. Gives what it found.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn check<M: Memory>(&self, memory: &M, heap: &Heap) -> Result<MapSize, Damage> {
        let mut last = None;
        let mut live = Live::of(memory, heap).map_err(|error| Damage::Broken(error.to_string()))?;
        let keys = self.table.check(memory, &mut live, |_, hash, _| {
            let key = self.key(hash);
            match last.replace(hash) == Some(hash) {
                true => Err(Damage::Broken(format!("key {key} is there twice"))),
                false => Ok(()),
            }
        })?;
        Ok(MapSize::of(keys, &live))
    }
}
