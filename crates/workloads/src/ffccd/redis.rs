//! A cache like Redis (Intel's version, which keeps its objects in persistent memory), one of the
//! programs of FFCCD (ISCA'22): values of 240 to 492 bytes, and a limit on their total size.
//!
//! A put that exceeds the limit evicts, in the same transaction, the approximately least recently
//! used entries, as in Redis: of a sample of five. The time of use is stored in the entry, so a get
//! is a transaction, too. The limit is seven eighths of the size of all entries of a part.
//!
//! Its planted bug: the value of an evicted entry is not freed.

use super::buckets::{Buckets, Chained};
use super::pmemkv::{Key, key_of};
use super::value::Value;
use super::{ChurnChange, ChurnStructure, Read, Walk, broken, spread};
use crate::Damage;
use seawall_memory::Memory;
use seawall_runtime::typed::{Field, Persist, Ptr, Session, Tx};
use seawall_runtime::{AccessError, TxError};

/// A cache.
pub struct Redis;

/// The least and the greatest number of bytes of a value.
const BYTES_MIN: u64 = 240;
const BYTES_MAX: u64 = 492;
/// Bytes of an entry and its key.
const ENTRY_BYTES: u64 = 32 + 80;
/// The number of entries in the sample of an eviction.
const SAMPLES: usize = 5;

/// The cache of a part.
#[derive(Clone, Copy, Persist)]
pub struct Cache<'p> {
    /// The limit on the bytes of live objects, and their present number.
    limit: u64,
    live: u64,
    /// Counts uses.
    clock: u64,
    table: Buckets<'p, Entry<'p>>,
}

/// An entry of the dictionary.
#[derive(Clone, Copy, Persist)]
pub(crate) struct Entry<'p> {
    hash: u64,
    next: Option<Ptr<'p, Entry<'p>>>,
    /// The clock at its last use.
    used: u64,
    key: Ptr<'p, Key>,
    value: AnySize<'p>,
}

impl<'p> Chained<'p> for Entry<'p> {
    const HASH: Field<Self, u64> = Entry::HASH;
    const NEXT: Field<Self, Option<Ptr<'p, Self>>> = Entry::NEXT;
}

/// The length of the value of a key with this tag.
fn length(key: u64, tag: u64) -> u64 {
    BYTES_MIN + spread(tag ^ key.rotate_left(32)) % (BYTES_MAX - BYTES_MIN + 1)
}

/// A value as the cache sees it.
struct Known {
    key: u64,
    tag: u64,
    /// The bytes of its object.
    bytes: u64,
}

macro_rules! sizes {
    ($($field:ident: $bytes:literal;)*) => {
        /// A value of one of these sizes; the other fields are null.
        #[derive(Clone, Copy, Persist)]
        pub(crate) struct AnySize<'p> {
            $($field: Option<Ptr<'p, Value<{ $bytes - 16 }>>>,)*
        }

        impl<'p> AnySize<'p> {
            /// A new value, in the smallest object that holds it.
            fn alloc<M: Memory>(
                tx: &mut Tx<'p, '_, '_, M>,
                key: u64,
                tag: u64,
            ) -> Result<AnySize<'p>, TxError> {
                let (length, none) = (length(key, tag), AnySize { $($field: None,)* });
                $(if length <= $bytes {
                    let value = Value::of_length(key, tag, length as usize - 16);
                    return Ok(AnySize { $field: Some(tx.alloc(value)?), ..none });
                })*
                Err(broken("a value is too long").into())
            }

            fn free<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>) -> Result<(), TxError> {
                $(if let Some(value) = self.$field {
                    tx.free(value)?;
                })*
                Ok(())
            }

            fn known<R: Read<'p>>(self, reader: &R) -> Result<Known, R::Error> {
                $(if let Some(value) = self.$field {
                    let (key, tag) = (value.at(Value::KEY), value.at(Value::TAG));
                    let (key, tag) = (reader.get(key)?, reader.get(tag)?);
                    return Ok(Known { key, tag, bytes: $bytes });
                })*
                Err(broken("an entry has no value").into())
            }

            /// Rejects a value that is torn, is not alone, or has the wrong size.
            fn check<M: Memory>(
                self,
                session: &Session<'p, '_, M>,
                walk: &mut Walk<'_>,
            ) -> Result<Known, Damage> {
                let known = self.known(session)?;
                let length = length(known.key, known.tag);
                let (mut least, mut values) = (0, 0);
                $(if let Some(value) = self.$field {
                    walk.object("value")?;
                    session.get(value)?.check_length(length as usize - 16)?;
                    walk.ensure(least < length && length <= $bytes, || {
                        format!("the value of key {} has the wrong size", known.key)
                    })?;
                    values += 1;
                }
                least = $bytes;)*
                let _ = least;
                walk.ensure(values == 1, || format!("key {} has {values} values", known.key))?;
                Ok(known)
            }
        }
    };
}
sizes! {
    value_240: 240;
    value_304: 304;
    value_368: 368;
    value_432: 432;
    value_496: 496;
}

/// Removes the entry of a hash, if there is one. With `slip` its value is not freed.
fn remove<'p, M: Memory>(
    tx: &mut Tx<'p, '_, '_, M>,
    cache: Ptr<'p, Cache<'p>>,
    hash: u64,
    slip: bool,
) -> Result<(), TxError> {
    let entry = Buckets::unlink(tx, cache.at(Cache::TABLE), hash)?;
    let Some(entry) = entry else { return Ok(()) };
    let Entry { key, value, .. } = tx.get(entry)?;
    let bytes = value.known(tx)?.bytes + ENTRY_BYTES;
    tx.free(key)?;
    tx.free(entry)?;
    if !slip {
        value.free(tx)?;
    }
    tx.update(cache.at(Cache::LIVE), |live| live.saturating_sub(bytes))
}

/// The entry to evict: the least recently used of a sample from a random bucket on; never `kept`.
fn victim<'p, M: Memory>(
    tx: &Tx<'p, '_, '_, M>,
    cache: Ptr<'p, Cache<'p>>,
    dice: u64,
    kept: u64,
) -> Result<Option<Entry<'p>>, TxError> {
    let table = cache.at(Cache::TABLE);
    let buckets = Buckets::count(tx, table)?;
    let (mut seen, mut first) = (0, None::<Entry<'p>>);
    for at in 0..buckets {
        let mut link = Buckets::head(tx, table, dice % buckets + at)?;
        while let Some(entry) = link {
            let entry = tx.get(entry)?;
            link = entry.next;
            if entry.hash != kept {
                seen += 1;
                if first.is_none_or(|first| entry.used < first.used) {
                    first = Some(entry);
                }
            }
        }
        if seen >= SAMPLES {
            break;
        }
    }
    Ok(first)
}

fn put<'p, M: Memory>(
    tx: &mut Tx<'p, '_, '_, M>,
    cache: Ptr<'p, Cache<'p>>,
    change: &mut ChurnChange<'_>,
) -> Result<(), TxError> {
    let (table, hash) = (cache.at(Cache::TABLE), spread(change.key));
    let value = AnySize::alloc(tx, change.key, change.tag)?;
    let (used, bytes) = (tx.get(cache.at(Cache::CLOCK))? + 1, value.known(tx)?.bytes);
    tx.set(cache.at(Cache::CLOCK), used)?;
    let mut live = tx.get(cache.at(Cache::LIVE))? + bytes;
    if let Some(entry) = Buckets::find(tx, table, hash)? {
        let old = tx.get(entry.at(Entry::VALUE))?;
        live = live.saturating_sub(old.known(tx)?.bytes);
        old.free(tx)?;
        tx.set(entry.at(Entry::VALUE), value)?;
        tx.set(entry.at(Entry::USED), used)?;
    } else {
        let key = tx.alloc(key_of(change.key))?;
        let entry = tx.alloc(Entry { hash, next: None, used, key, value })?;
        live += ENTRY_BYTES;
        Buckets::link(tx, table, entry, false)?;
    }
    tx.set(cache.at(Cache::LIVE), live)?;
    let limit = tx.get(cache.at(Cache::LIMIT))?;
    let mut dice = change.dice;
    while tx.get(cache.at(Cache::LIVE))? > limit {
        let Some(victim) = victim(tx, cache, dice, hash)? else { return Ok(()) };
        (change.note)(victim.value.known(tx)?.key, 0);
        remove(tx, cache, victim.hash, change.slip)?;
        dice = spread(dice);
    }
    Ok(())
}

impl ChurnStructure for Redis {
    const NAME: &'static str = "c-redis";
    const ABOUT: &'static str = "a cache with a limit, like Redis, that grows and shrinks";
    const ENTRY_BYTES: u64 = 512;
    const TOUCHES: bool = true;
    type Part = Cache<'static>;

    fn empty<'p>(keys: u64) -> Cache<'p> {
        let limit = keys * (ENTRY_BYTES + (BYTES_MIN + BYTES_MAX) / 2) * 7 / 8;
        Cache { limit, live: 0, clock: 0, table: Buckets::empty() }
    }

    fn put<'p, M: Memory>(
        session: &mut Session<'p, '_, M>,
        cache: Ptr<'p, Cache<'p>>,
        change: &mut ChurnChange<'_>,
    ) -> Result<(), TxError> {
        change.lane.transaction(session, |tx| put(tx, cache, change))
    }

    fn remove<'p, M: Memory>(
        session: &mut Session<'p, '_, M>,
        cache: Ptr<'p, Cache<'p>>,
        change: &mut ChurnChange<'_>,
    ) -> Result<(), TxError> {
        change.lane.transaction(session, |tx| remove(tx, cache, spread(change.key), false))
    }

    fn get<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        cache: Ptr<'p, Cache<'p>>,
        key: u64,
    ) -> Result<Option<u64>, AccessError> {
        let entry = Buckets::find(session, cache.at(Cache::TABLE), spread(key))?;
        let Some(entry) = entry else { return Ok(None) };
        let Entry { key: found, value, .. } = session.get(entry)?;
        let is_same = session.get(found)? == key_of(key);
        Ok(if is_same { Some(value.known(session)?.tag) } else { None })
    }

    /// A get, which stores the time of use.
    fn touch<'p, M: Memory>(
        session: &mut Session<'p, '_, M>,
        cache: Ptr<'p, Cache<'p>>,
        change: &mut ChurnChange<'_>,
    ) -> Result<(), TxError> {
        change.lane.transaction(session, |tx| {
            let entry = Buckets::find(tx, cache.at(Cache::TABLE), spread(change.key))?;
            let Some(entry) = entry else { return Ok(()) };
            let used = tx.get(cache.at(Cache::CLOCK))? + 1;
            tx.set(cache.at(Cache::CLOCK), used)?;
            tx.set(entry.at(Entry::USED), used)
        })
    }

    fn check<'p, M: Memory>(
        session: &Session<'p, '_, M>,
        cache: Ptr<'p, Cache<'p>>,
        walk: &mut Walk<'_>,
    ) -> Result<(), Damage> {
        let clock = session.get(cache.at(Cache::CLOCK))?;
        let (mut live, mut entries) = (0, 0);
        Buckets::check(session, cache.at(Cache::TABLE), walk, |walk, entry, hash| {
            walk.object("key")?;
            let Known { key, tag, bytes } = entry.value.check(session, walk)?;
            let is_same = session.get(entry.key)? == key_of(key);
            walk.ensure(is_same, || format!("the value of key {key} is at another key"))?;
            walk.ensure(spread(key) == hash, || format!("key {key} has another hash"))?;
            walk.ensure(entry.used <= clock, || format!("key {key} is used in the future"))?;
            (live, entries) = (live + bytes + ENTRY_BYTES, entries + 1);
            walk.entry(key, tag)
        })?;
        let counted = session.get(cache.at(Cache::LIVE))?;
        walk.ensure(live == counted, || format!("{live} bytes are live, {counted} are counted"))?;
        let limit = session.get(cache.at(Cache::LIMIT))?;
        walk.ensure(live <= limit || entries == 1, || {
            format!("{live} bytes are live, beyond the limit of {limit}")
        })
    }
}
