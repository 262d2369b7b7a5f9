//! A hash map as a field: the table of byte strings of [`KvMap`](crate::KvMap), made at the first
//! insertion.

use super::{Access, Entries, Item, MapField, field};
use crate::{KvMap, MapError, MapOptions};
use seawall_memory::{Addr, Memory};
use seawall_runtime::typed::{Branded, Persist, Ptr, Tx, derived};
use seawall_runtime::{AccessError, Session as HeapSession, Tx as HeapTx, TxError};
use std::marker::PhantomData;

/// Two segments of a KiB at the start: a map with a few entries is small.
const SMALL: MapOptions = MapOptions { segment_lines: 16, depth: 1 };

/// A hash map from `K` to `V`: a field of a typed struct, 8 bytes. Its methods are those of
/// [`MapField`].
pub struct Map<K: Item + ?Sized, V: Item + ?Sized> {
    parts: PhantomData<fn(&K, &V)>,
}

field!(Map [K V], 1);

fn tx_error(error: MapError) -> TxError {
    match error {
        MapError::Heap(error) => error,
        MapError::Long { what, bytes, most } => TxError::TooLong { what, bytes, most },
        damage => access_error(damage).into(),
    }
}

fn access_error(error: MapError) -> AccessError {
    match error {
        MapError::Heap(TxError::Access(error)) => error,
        MapError::NoMap { kind, link } => {
            AccessError::Damaged { what: format!("the word at {link} leads to no {kind}") }
        }
        other => AccessError::Damaged { what: other.to_string() },
    }
}

fn inside<M: Memory>(at: Addr, tx: &mut HeapTx<'_, '_, M>) -> Result<Option<KvMap>, TxError> {
    if tx.load::<u64>(at) == 0 {
        return Ok(None);
    }
    KvMap::open_in(tx, at).map(Some).map_err(tx_error)
}

fn outside<M: Memory>(
    at: Addr,
    session: &mut HeapSession<'_, M>,
) -> Result<Option<KvMap>, AccessError> {
    if session.load::<u64>(at) == 0 {
        return Ok(None);
    }
    KvMap::open(session, at).map(Some).map_err(access_error)
}

impl<'p, K: Item + ?Sized, V: Item + ?Sized> MapField<'p, K, V> for Ptr<'p, Map<K, V>> {
    fn get<A: Access<'p>>(self, access: &mut A, key: &K) -> Result<Option<V::Owned>, A::Error> {
        key.with_bytes(|key| {
            access.either(
                self,
                |at, tx| match inside(at, tx)? {
                    Some(map) => {
                        let found = map.get_in(tx, key).map_err(tx_error)?;
                        Ok(found.map(|bytes| V::decode(bytes.into())))
                    }
                    None => Ok(None),
                },
                |at, session| {
                    let map = outside(at, session)?;
                    let decode = |bytes: &[u8]| V::decode(bytes.into());
                    let found = map.map(|map| map.get_with(session.memory(), key, decode));
                    Ok(found.transpose().map_err(access_error)?.flatten())
                },
            )
        })
    }

    fn insert<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
        key: &K,
        value: &V,
    ) -> Result<Option<V::Owned>, TxError> {
        let (at, tx) = tx.place(self)?;
        let map = match inside(at, tx)? {
            Some(map) => map,
            None => KvMap::create(tx, at, &SMALL).map_err(tx_error)?,
        };
        let old = key.with_bytes(|key| value.with_bytes(|value| map.replace_in(tx, key, value)));
        Ok(old.map_err(tx_error)?.map(|bytes| V::decode(bytes.into())))
    }

    fn remove<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
        key: &K,
    ) -> Result<Option<V::Owned>, TxError> {
        let (at, tx) = tx.place(self)?;
        let Some(map) = inside(at, tx)? else { return Ok(None) };
        let old = key.with_bytes(|key| map.take_in(tx, key)).map_err(tx_error)?;
        Ok(old.map(|bytes| V::decode(bytes.into())))
    }

    fn len<A: Access<'p>>(self, access: &mut A) -> Result<u64, A::Error> {
        access.either(
            self,
            |at, tx| inside(at, tx)?.map_or(Ok(0), |map| map.len_in(tx)),
            |at, session| match outside(at, session)? {
                Some(map) => map.len(session.memory()).map_err(access_error),
                None => Ok(0),
            },
        )
    }

    fn iter<A: Access<'p>>(self, access: &mut A) -> Result<Entries<K, V>, A::Error> {
        let entry = |key: &[u8], value: &[u8]| (K::decode(key.into()), V::decode(value.into()));
        let entries = access.either(
            self,
            |at, tx| {
                let mut entries = Vec::new();
                if let Some(map) = inside(at, tx)? {
                    map.for_each_in(tx, |key, value| entries.push(entry(key, value)))?;
                }
                Ok(entries)
            },
            |at, session| {
                let mut entries = Vec::new();
                if let Some(map) = outside(at, session)? {
                    map.for_each(session.memory(), |key, value| entries.push(entry(key, value)))
                        .map_err(access_error)?;
                }
                Ok(entries)
            },
        )?;
        Ok(entries.into_iter())
    }

    fn clear<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>) -> Result<(), TxError> {
        let (at, tx) = tx.place(self)?;
        inside(at, tx)?.map_or(Ok(()), |map| map.free_in(tx, at))
    }
}
