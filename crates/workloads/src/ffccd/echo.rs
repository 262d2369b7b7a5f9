//! A store like Echo ("Exploring Storage Class Memory with Key Value Stores", Bailey et al.,
//! INFLOW'13, in WHISPER, ASPLOS'17), one of the programs of FFCCD (ISCA'22).
//!
//! A hash table of keys, each with a chain of versions, newest first. A put adds one and frees all
//! but two. Echo's clients keep a snapshot until they commit; here only the older version is kept.
//!
//! Its planted bug: a version is freed and still linked.

use super::buckets::{Buckets, Chained};
use super::value::Value128;
use super::{ChurnChange, ChurnStructure, Walk, spread};
use crate::Damage;
use seawall_memory::Memory;
use seawall_runtime::typed::{Field, Persist, Ptr, Session};
use seawall_runtime::{AccessError, TxError};

/// A store of versions.
pub struct Echo;

/// The number of versions kept per key.
const KEPT: usize = 2;

/// The store of a part.
#[derive(Clone, Copy, Persist)]
pub struct Store<'p> {
    table: Buckets<'p, Entry<'p>>,
}

/// A key.
#[derive(Clone, Copy, Persist)]
pub(crate) struct Entry<'p> {
    hash: u64,
    next: Option<Ptr<'p, Entry<'p>>>,
    key: u64,
    newest: Link<'p>,
}

/// A version of a key's value.
#[derive(Clone, Copy, Persist)]
pub(crate) struct Version<'p> {
    /// The number of earlier versions of the key.
    number: u64,
    older: Link<'p>,
    value: Value128,
}

type Link<'p> = Option<Ptr<'p, Version<'p>>>;

impl<'p> Chained<'p> for Entry<'p> {
    const HASH: Field<Self, u64> = Entry::HASH;
    const NEXT: Field<Self, Option<Ptr<'p, Self>>> = Entry::NEXT;
}

impl ChurnStructure for Echo {
    const NAME: &'static str = "c-echo";
    const ABOUT: &'static str = "a store of versions, like Echo, that grows and shrinks";
    const ENTRY_BYTES: u64 = 400;
    const TOUCHES: bool = true;
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
        let value = Value128::new(change.key, change.tag);
        change.lane.transaction(session, |tx| {
            let Some(entry) = Buckets::find(tx, table, hash)? else {
                let newest = Some(tx.alloc(Version { number: 0, older: None, value })?);
                let entry = tx.alloc(Entry { hash, next: None, key: change.key, newest })?;
                return Buckets::link(tx, table, entry, false);
            };
            let older = tx.get(entry.at(Entry::NEWEST))?;
            let before = older.map_or(Ok(0), |older| tx.get(older.at(Version::NUMBER)))?;
            let mut last = tx.alloc(Version { number: before + 1, older, value })?;
            tx.set(entry.at(Entry::NEWEST), Some(last))?;
            for _ in 1..KEPT {
                let Some(older) = tx.get(last.at(Version::OLDER))? else { return Ok(()) };
                last = older;
            }
            let mut gone = tx.get(last.at(Version::OLDER))?;
            if gone.is_some() && !change.slip {
                tx.set(last.at(Version::OLDER), None)?;
            }
            while let Some(version) = gone {
                gone = tx.get(version.at(Version::OLDER))?;
                tx.free(version)?;
            }
            Ok(())
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
            let mut gone = tx.get(entry.at(Entry::NEWEST))?;
            while let Some(version) = gone {
                gone = tx.get(version.at(Version::OLDER))?;
                tx.free(version)?;
            }
            tx.free(entry)
        })
    }

    fn get<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        store: Ptr<'p, Store<'p>>,
        key: u64,
    ) -> Result<Option<u64>, AccessError> {
        let entry = Buckets::find(session, store.at(Store::TABLE), spread(key))?;
        let newest = entry.map_or(Ok(None), |entry| session.get(entry.at(Entry::NEWEST)))?;
        let tag = |version: Ptr<'p, Version<'p>>| version.at(Version::VALUE).at(Value128::TAG);
        newest.map(|version| session.get(tag(version))).transpose()
    }

    /// Adds a version to an existing key.
    fn touch<'p, M: Memory>(
        session: &mut Session<'p, '_, M>,
        store: Ptr<'p, Store<'p>>,
        change: &mut ChurnChange<'_>,
    ) -> Result<(), TxError> {
        if Buckets::find(session, store.at(Store::TABLE), spread(change.key))?.is_none() {
            return Ok(());
        }
        (change.note)(change.key, change.tag);
        Echo::put(session, store, change)
    }

    fn check<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        store: Ptr<'p, Store<'p>>,
        walk: &mut Walk<'_>,
    ) -> Result<(), Damage> {
        Buckets::check(session, store.at(Store::TABLE), walk, |walk, entry, hash| {
            let key = entry.key;
            walk.ensure(spread(key) == hash, || format!("key {key} has another hash"))?;
            let (mut link, mut numbers, mut tag) = (entry.newest, Vec::new(), None);
            while let Some(version) = link {
                walk.object("version")?;
                let Version { number, older, value } = session.get(version)?;
                value.check()?;
                walk.ensure(value.key == key, || {
                    format!("key {key} has a version of key {}", value.key)
                })?;
                (link, tag) = (older, tag.or(Some(value.tag)));
                numbers.push(number);
            }
            let newest = numbers.first().copied().unwrap_or(0);
            let expected = (0..=newest).rev().take(KEPT);
            walk.ensure(numbers.iter().copied().eq(expected), || {
                format!("key {key} has the versions {numbers:?}")
            })?;
            walk.entry(key, tag.unwrap_or(0))
        })
    }
}
