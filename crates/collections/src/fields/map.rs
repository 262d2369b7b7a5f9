//! A hash map as a field: the table of byte strings of [`KvMap`](crate::KvMap), made when something
//! is inserted first.

use super::item::bytes_of;
use super::{Access, Item, field};
use crate::{KvMap, MapError, MapOptions};
use seawall_memory::{Addr, Memory};
use seawall_runtime::HeapError;
use seawall_runtime::typed::{Branded, Persist, Ptr, Tx, derived};
use std::marker::PhantomData;

/// Two segments of a KiB at the start: a map with a few entries is small.
const SMALL: MapOptions = MapOptions { segment_lines: 16, depth: 1 };

/// A hash map from `K` to `V`: a field of a typed struct, 8 bytes. See [`MapField`] for what it can
/// do.
pub struct Map<K: Item + ?Sized, V: Item + ?Sized> {
    parts: PhantomData<fn(&K, &V)>,
}

field!(Map [K V], 1);

/// Keys with their values.
pub type Entries<K, V> = Vec<(<K as Item>::Owned, <V as Item>::Owned)>;

fn heap_error(error: MapError) -> HeapError {
    match error {
        MapError::Heap(error) => error,
        MapError::Long { bytes, most, .. } => {
            HeapError::TooLarge { bytes: bytes as u64, room: most as u64 }
        }
        other => HeapError::Damaged { what: other.to_string() },
    }
}

fn opened<M: Memory>(
    at: Addr,
    tx: &mut seawall_runtime::Tx<'_, '_, M>,
) -> Result<Option<KvMap>, HeapError> {
    if tx.load::<u64>(at) == 0 {
        return Ok(None);
    }
    KvMap::open_in(tx, at).map(Some).map_err(heap_error)
}

/// What a pointer to a [`Map`] can do. Changes are part of the caller's transaction: they happen
/// when that commits, or not at all.
///
/// ```
/// use seawall_collections::fields::{Map, MapField};
/// use seawall_memory::Image;
/// use seawall_runtime::typed::{self, Persist};
/// use seawall_runtime::{HeapError, HeapOptions};
///
/// #[derive(Clone, Copy, Persist)]
/// struct Library {
///     books: Map<str, u64>,
///     count: u64,
/// }
///
/// let options = HeapOptions { threads: 1, ..typed::options::<Library>() };
/// let memory = Image::new(options.pm_bytes(), options.dram_bytes());
/// typed::create::<Library, _, _>(&memory, "library", 1, &options, |pool| {
///     let (mut session, books) = (pool.join(&memory), pool.root().at(Library::BOOKS));
///     session.transaction(|tx| {
///         books.insert(tx, "Middlemarch", &1871)?;
///         tx.update(pool.root().at(Library::COUNT), |count| count + 1)
///     })?; // both or neither
///     assert_eq!(books.get(&mut session, "Middlemarch")?, Some(1871));
///     assert_eq!(books.get(&mut session, "Emma")?, None);
///     Ok::<_, HeapError>(())
/// })?;
/// # Ok::<(), HeapError>(())
/// ```
pub trait MapField<'p, K: Item + ?Sized, V: Item + ?Sized>: Sized {
    /// The value of `key`.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn get<A: Access<'p>>(self, access: &mut A, key: &K) -> Result<Option<V::Owned>, HeapError>;

    /// True if `key` has a value.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn contains_key<A: Access<'p>>(self, access: &mut A, key: &K) -> Result<bool, HeapError> {
        self.get(access, key).map(|value| value.is_some())
    }

    /// Makes `value` that of `key`; returns the value before.
    ///
    /// # Errors
    /// [`HeapError::Full`] when there is no room, [`HeapError::TooLarge`] when the transaction does
    /// not fit its log.
    fn insert<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
        key: &K,
        value: &V,
    ) -> Result<Option<V::Owned>, HeapError>;

    /// Removes `key`; returns its value.
    ///
    /// # Errors
    /// As [`insert`](MapField::insert).
    fn remove<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
        key: &K,
    ) -> Result<Option<V::Owned>, HeapError>;

    /// How many keys there are; counts them.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn len<A: Access<'p>>(self, access: &mut A) -> Result<u64, HeapError>;

    /// All keys and values, in no order that means anything.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn entries<A: Access<'p>>(self, access: &mut A) -> Result<Entries<K, V>, HeapError>;

    /// Removes all keys and frees what the map has taken.
    ///
    /// # Errors
    /// As [`insert`](MapField::insert).
    fn clear<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>) -> Result<(), HeapError>;
}

impl<'p, K: Item + ?Sized, V: Item + ?Sized> MapField<'p, K, V> for Ptr<'p, Map<K, V>> {
    fn get<A: Access<'p>>(self, access: &mut A, key: &K) -> Result<Option<V::Owned>, HeapError> {
        let key = bytes_of(key);
        let found = access.either(
            self,
            |at, tx| match opened(at, tx)? {
                Some(map) => map.get_in(tx, &key).map_err(heap_error),
                None => Ok(None),
            },
            |at, session| match session.load::<u64>(at) {
                0 => Ok(None),
                _ => {
                    let map = KvMap::open(session, at).map_err(heap_error)?;
                    Ok(map.get(session.memory(), &key))
                }
            },
        )?;
        Ok(found.map(|bytes| V::decode(&bytes)))
    }

    fn insert<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
        key: &K,
        value: &V,
    ) -> Result<Option<V::Owned>, HeapError> {
        let (key, value) = (bytes_of(key), bytes_of(value));
        let (at, tx) = tx.place(self)?;
        let map = match opened(at, tx)? {
            Some(map) => map,
            None => KvMap::create(tx, at, &SMALL).map_err(heap_error)?,
        };
        let old = map.get_in(tx, &key).map_err(heap_error)?;
        map.insert_in(tx, &key, &value).map_err(heap_error)?;
        Ok(old.map(|bytes| V::decode(&bytes)))
    }

    fn remove<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
        key: &K,
    ) -> Result<Option<V::Owned>, HeapError> {
        let key = bytes_of(key);
        let (at, tx) = tx.place(self)?;
        let Some(map) = opened(at, tx)? else { return Ok(None) };
        let old = map.get_in(tx, &key).map_err(heap_error)?;
        map.remove_in(tx, &key).map_err(heap_error)?;
        Ok(old.map(|bytes| V::decode(&bytes)))
    }

    fn len<A: Access<'p>>(self, access: &mut A) -> Result<u64, HeapError> {
        self.entries(access).map(|entries| entries.len() as u64)
    }

    fn entries<A: Access<'p>>(self, access: &mut A) -> Result<Entries<K, V>, HeapError> {
        let entry = |key: &[u8], value: &[u8]| (K::decode(key), V::decode(value));
        access.either(
            self,
            |at, tx| {
                let mut entries = Vec::new();
                if let Some(map) = opened(at, tx)? {
                    map.for_each_in(tx, |key, value| entries.push(entry(key, value)))?;
                }
                Ok(entries)
            },
            |at, session| {
                let mut entries = Vec::new();
                if session.load::<u64>(at) != 0 {
                    let map = KvMap::open(session, at).map_err(heap_error)?;
                    map.for_each(session.memory(), |key, value| entries.push(entry(key, value)));
                }
                Ok(entries)
            },
        )
    }

    fn clear<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>) -> Result<(), HeapError> {
        let (at, tx) = tx.place(self)?;
        match opened(at, tx)? {
            Some(map) => map.free_in(tx, at),
            None => Ok(()),
        }
    }
}
