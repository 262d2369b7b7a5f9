//! A store like pmemkv with its engine cmap (Intel), one of the programs of FFCCD (ISCA'22): a hash
//! table of entries whose keys and values are separate objects.
//!
//! Its table grows and shrinks by one bucket at a time; that of cmap doubles, bucket by bucket on
//! demand, and never shrinks. A put of an existing key allocates a new value.
//!
//! Its planted bug: a bucket that is split keeps all its entries.

use super::buckets::{Buckets, Chained};
use super::value::Value128;
use super::{ChurnChange, ChurnStructure, Walk, spread};
use crate::Damage;
use seawall_memory::Memory;
use seawall_runtime::typed::{Bytes, Field, Persist, Ptr, Session};
use seawall_runtime::{AccessError, TxError};

/// A hash table of keys and values.
pub struct PmemKv;

/// The store of a part.
#[derive(Clone, Copy, Persist)]
pub struct Store<'p> {
    table: Buckets<'p, Entry<'p>>,
}

/// A key and its value.
#[derive(Clone, Copy, Persist)]
pub(crate) struct Entry<'p> {
    hash: u64,
    next: Option<Ptr<'p, Entry<'p>>>,
    key: Ptr<'p, Key>,
    value: Ptr<'p, Value128>,
}

/// A key: its number in digits.
pub(crate) type Key = Bytes<16>;

impl<'p> Chained<'p> for Entry<'p> {
    const HASH: Field<Self, u64> = Entry::HASH;
    const NEXT: Field<Self, Option<Ptr<'p, Self>>> = Entry::NEXT;
}

/// The bytes of a key.
pub(crate) fn key_of(number: u64) -> Key {
    let digits = |at: usize| b"0123456789abcdef"[(number >> (60 - 4 * at)) as usize % 16];
    Bytes(std::array::from_fn(digits))
}

impl ChurnStructure for PmemKv {
    const NAME: &'static str = "c-pmemkv";
    const ABOUT: &'static str = "a hash table of keys and values, like pmemkv";
    const ENTRY_BYTES: u64 = 224;
    type Part = Store<'static>;

    fn empty<'p>(_: u64) -> Store<'p> {
        Store { table: Buckets::empty() }
    }

    fn put<'p, M: Memory>(
        session: &mut Session<'p, '_, M>,
        store: Ptr<'p, Store<'p>>,
        change: &mut ChurnChange<'_>,
    ) -> Result<(), TxError> {
        let (table, hash) = (store.at(Store::TABLE), spread(change.key));
        change.lane.transaction(session, |tx| {
            let value = tx.alloc(Value128::new(change.key, change.tag))?;
            if let Some(entry) = Buckets::find(tx, table, hash)? {
                let old = tx.get(entry.at(Entry::VALUE))?;
                tx.free(old)?;
                return tx.set(entry.at(Entry::VALUE), value);
            }
            let key = tx.alloc(key_of(change.key))?;
            let entry = tx.alloc(Entry { hash, next: None, key, value })?;
            Buckets::link(tx, table, entry, change.slip)
        })
    }

    fn remove<'p, M: Memory>(
        session: &mut Session<'p, '_, M>,
        store: Ptr<'p, Store<'p>>,
        change: &mut ChurnChange<'_>,
    ) -> Result<(), TxError> {
        change.lane.transaction(session, |tx| {
            let entry = Buckets::unlink(tx, store.at(Store::TABLE), spread(change.key))?;
            let Some(entry) = entry else { return Ok(()) };
            let Entry { key, value, .. } = tx.get(entry)?;
            tx.free(key)?;
            tx.free(value)?;
            tx.free(entry)
        })
    }

    fn get<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        store: Ptr<'p, Store<'p>>,
        key: u64,
    ) -> Result<Option<u64>, AccessError> {
        let entry = Buckets::find(session, store.at(Store::TABLE), spread(key))?;
        let Some(entry) = entry else { return Ok(None) };
        let Entry { key: found, value, .. } = session.get(entry)?;
        let is_same = session.get(found)? == key_of(key);
        if is_same { session.get(value.at(Value128::TAG)).map(Some) } else { Ok(None) }
    }

    fn check<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        store: Ptr<'p, Store<'p>>,
        walk: &mut Walk<'_>,
    ) -> Result<(), Damage> {
        Buckets::check(session, store.at(Store::TABLE), walk, |walk, entry, hash| {
            walk.object("key")?;
            walk.object("value")?;
            let value = session.get(entry.value)?;
            value.check()?;
            let is_same = session.get(entry.key)? == key_of(value.key);
            walk.ensure(is_same, || format!("the value of key {} is at another key", value.key))?;
            let has_hash = spread(value.key) == hash;
            walk.ensure(has_hash, || format!("key {} has another hash", value.key))?;
            walk.entry(value.key, value.tag)
        })
    }
}
