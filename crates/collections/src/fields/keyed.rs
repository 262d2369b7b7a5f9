//! What maps of both kinds can do: the methods of `std`'s maps, with a transaction to write and a
//! view to read.

use super::{Access, Item};
use seawall_memory::Memory;
use seawall_runtime::TxError;
use seawall_runtime::typed::Tx;
use std::borrow::Borrow;
use std::vec;

/// Copies of a key and its value.
pub type KeyValue<K, V> = (<K as Item>::Owned, <V as Item>::Owned);

/// Copies of the entries of a map.
pub type Entries<K, V> = vec::IntoIter<KeyValue<K, V>>;

/// The methods of a pointer to a [`Map`](super::Map) or a [`BTree`](super::BTree), as those of
/// `std`'s maps. Changes are part of the caller's transaction: they happen when it commits, or not
/// at all.
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
///         books.entry(tx, "Emma")?.and_modify(|year| *year += 1)?.or_insert(&1815)?;
///         tx.update(pool.root().at(Library::COUNT), |count| count + 2)
///     })?; // all of it or nothing
///     assert_eq!(books.get(&mut session, "Middlemarch")?, Some(1871));
///     assert_eq!(books.get(&mut session, "Emma")?, Some(1815));
///     assert_eq!(books.iter(&mut session)?.map(|(_, year)| year).max(), Some(1871));
///     Ok::<_, HeapError>(())
/// })?;
/// # Ok::<(), HeapError>(())
/// ```
pub trait MapField<'p, K: Item + ?Sized, V: Item + ?Sized>: Copy {
    /// Returns the value of `key`.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn get<A: Access<'p>>(self, access: &mut A, key: &K) -> Result<Option<V::Owned>, A::Error>;

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn contains_key<A: Access<'p>>(self, access: &mut A, key: &K) -> Result<bool, A::Error> {
        self.get(access, key).map(|value| value.is_some())
    }

    /// Sets the value of `key`; returns the value before.
    ///
    /// # Errors
    /// [`TxError::Full`] when there is no room, [`TxError::TooLarge`] when the transaction does not
    /// fit its log.
    fn insert<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
        key: &K,
        value: &V,
    ) -> Result<Option<V::Owned>, TxError>;

    /// Inserts all `entries`.
    ///
    /// # Errors
    /// As [`insert`](MapField::insert).
    fn extend<M: Memory, A: Borrow<K>, B: Borrow<V>>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
        entries: impl IntoIterator<Item = (A, B)>,
    ) -> Result<(), TxError> {
        entries
            .into_iter()
            .try_for_each(|(key, value)| self.insert(tx, key.borrow(), value.borrow()).map(drop))
    }

    /// Changes the value of `key` by `change`, in place of `std`'s `get_mut`; returns whether it
    /// has one.
    ///
    /// # Errors
    /// As [`insert`](MapField::insert).
    fn update<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
        key: &K,
        change: impl FnOnce(&mut V::Owned),
    ) -> Result<bool, TxError> {
        Ok(self.entry(tx, key)?.and_modify(change)?.value.is_some())
    }

    /// Looks `key` up, to change its value or to insert one.
    ///
    /// # Errors
    /// As [`insert`](MapField::insert).
    fn entry<'e, 't, 'm, M: Memory>(
        self,
        tx: &'e mut Tx<'p, 't, 'm, M>,
        key: &'e K,
    ) -> Result<MapEntry<'e, 'p, 't, 'm, M, Self, K, V>, TxError> {
        let value = self.get(tx, key)?;
        Ok(MapEntry { field: self, tx, key, value })
    }

    /// Removes `key`; returns its value.
    ///
    /// # Errors
    /// As [`insert`](MapField::insert).
    fn remove<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
        key: &K,
    ) -> Result<Option<V::Owned>, TxError>;

    /// Returns the number of keys, which it counts: the time grows with the map.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn len<A: Access<'p>>(self, access: &mut A) -> Result<u64, A::Error>;

    /// Whether there is no key. Takes as long as [`len`](MapField::len).
    ///
    /// # Errors
    /// When the pool is damaged.
    fn is_empty<A: Access<'p>>(self, access: &mut A) -> Result<bool, A::Error> {
        self.len(access).map(|len| len == 0)
    }

    /// Returns a copy of all entries: of a [`BTree`](super::BTree) in the order of its keys, of a
    /// [`Map`](super::Map) in no particular order.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn iter<A: Access<'p>>(self, access: &mut A) -> Result<Entries<K, V>, A::Error>;

    /// Removes all keys and frees the space of the map.
    ///
    /// # Errors
    /// As [`insert`](MapField::insert).
    fn clear<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>) -> Result<(), TxError>;
}

/// A key of a map in a transaction, with its value if it has one ([`MapField::entry`]).
pub struct MapEntry<'e, 'p, 't, 'm, M: Memory, F, K: ?Sized, V: Item + ?Sized> {
    field: F,
    tx: &'e mut Tx<'p, 't, 'm, M>,
    key: &'e K,
    value: Option<V::Owned>,
}

impl<'p, M, F, K, V> MapEntry<'_, 'p, '_, '_, M, F, K, V>
where
    M: Memory,
    F: MapField<'p, K, V>,
    K: Item + ?Sized,
    V: Item + ?Sized,
{
    /// Changes the value, if there is one.
    ///
    /// # Errors
    /// As [`MapField::insert`].
    pub fn and_modify(mut self, change: impl FnOnce(&mut V::Owned)) -> Result<Self, TxError> {
        if let Some(value) = &mut self.value {
            change(value);
            self.field.insert(self.tx, self.key, (*value).borrow())?;
        }
        Ok(self)
    }

    /// Returns the value; inserts `value` first if there is none.
    ///
    /// # Errors
    /// As [`MapField::insert`].
    pub fn or_insert(self, value: &V) -> Result<V::Owned, TxError> {
        match self.value {
            Some(value) => Ok(value),
            None => {
                self.field.insert(self.tx, self.key, value)?;
                Ok(value.copied())
            }
        }
    }

    /// As [`or_insert`](MapEntry::or_insert), with a value that is made when it is needed.
    ///
    /// # Errors
    /// As [`MapField::insert`].
    pub fn or_insert_with(self, make: impl FnOnce() -> V::Owned) -> Result<V::Owned, TxError> {
        match self.value {
            Some(value) => Ok(value),
            None => {
                let value = make();
                self.field.insert(self.tx, self.key, value.borrow())?;
                Ok(value)
            }
        }
    }
}

impl<M: Memory, F, K: ?Sized, V: Item + ?Sized> std::fmt::Debug
    for MapEntry<'_, '_, '_, '_, M, F, K, V>
{
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MapEntry").field("has_value", &self.value.is_some()).finish_non_exhaustive()
    }
}
