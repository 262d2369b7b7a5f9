//! An ordered map as a field: the concurrent B+tree, made at the first insertion.

use super::{Access, Entries, Item, MapField, bytes, field};
use crate::{BTree as Tree, BTreeError};
use seawall_memory::{Addr, Memory};
use seawall_runtime::typed::{Branded, Persist, Ptr, Tx, derived};
use seawall_runtime::{AccessError, Heap, Session as HeapSession, Tx as HeapTx, TxError};
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

/// Version words that all trees of a heap share.
const VERSIONS: u64 = 1 << 10;

/// Bytes of volatile memory behind those of the heap that fields of this kind need.
pub const DRAM_BYTES: u64 = Tree::dram_bytes(VERSIONS);

/// A key of a [`BTree`]: an integer of at most 8 bytes.
pub trait OrderedKey: Item<Owned = Self> + Copy {
    #[doc(hidden)]
    fn to_word(self) -> u64;
    #[doc(hidden)]
    fn of_word(word: u64) -> Self;
}

macro_rules! ordered {
    ($($Unsigned:ident)+; $($Signed:ident)+) => {
        $(impl OrderedKey for $Unsigned {
            fn to_word(self) -> u64 {
                u64::from(self)
            }

            fn of_word(word: u64) -> $Unsigned {
                word as $Unsigned
            }
        })+
        $(impl OrderedKey for $Signed {
            fn to_word(self) -> u64 {
                i64::from(self) as u64 ^ 1 << 63
            }

            fn of_word(word: u64) -> $Signed {
                (word ^ 1 << 63) as $Signed
            }
        })+
    };
}
ordered! { u8 u16 u32 u64; i8 i16 i32 i64 }

/// A map from `K` to `V` in the order of its keys: a field of a typed struct, 16 bytes.
/// Its methods are those of [`MapField`] and [`BTreeField`].
pub struct BTree<K: Item + ?Sized, V: Item + ?Sized> {
    parts: PhantomData<fn(&K, &V)>,
}

field!(BTree [K V], 2);

fn tx_error(error: BTreeError) -> TxError {
    match error {
        BTreeError::Heap(error) => error,
        damage => access_error(damage).into(),
    }
}

fn access_error(error: BTreeError) -> AccessError {
    match error {
        BTreeError::Heap(TxError::Access(error)) => error,
        BTreeError::Heap(other) => AccessError::Damaged { what: other.to_string() },
        BTreeError::Damage(damage) => AccessError::Damaged { what: format!("a tree: {damage}") },
    }
}

fn versions_of(heap: &Heap) -> Addr {
    Addr::dram(heap.dram_bytes())
}

fn inside<M: Memory>(at: Addr, tx: &mut HeapTx<'_, '_, M>) -> Result<Option<Tree>, TxError> {
    if tx.load::<u64>(at) == 0 {
        return Ok(None);
    }
    Tree::open_in(tx, at, versions_of(&tx.heap()), VERSIONS).map(Some).map_err(tx_error)
}

fn outside<M: Memory>(
    at: Addr,
    session: &mut HeapSession<'_, M>,
) -> Result<Option<Tree>, AccessError> {
    if session.load::<u64>(at) == 0 {
        return Ok(None);
    }
    let dram = versions_of(&session.heap());
    Tree::open(session, at, dram, VERSIONS).map(Some).map_err(access_error)
}

/// The word that stands for a value: itself if it is small, else the address of its bytes.
fn put<V: Item + ?Sized, M: Memory>(tx: &mut HeapTx<'_, '_, M>, value: &V) -> Result<u64, TxError> {
    value.with_bytes(|content| {
        if !V::IS_WORD {
            return Ok(bytes::put(tx, content)?.bits());
        }
        let mut word = [0; 8];
        word[..content.len()].copy_from_slice(content);
        Ok(u64::from_le_bytes(word))
    })
}

/// The value that a word stands for.
fn value<V: Item + ?Sized>(
    word: u64,
    bytes: impl FnOnce(Addr) -> Result<Vec<u8>, AccessError>,
) -> Result<V::Owned, AccessError> {
    if V::IS_WORD {
        return Ok(V::decode(word.to_le_bytes()[..].into()));
    }
    Ok(V::decode(bytes(Addr::from_bits(word))?.into()))
}

/// The value that a word stood for, whose bytes are freed.
fn taken<V: Item + ?Sized, M: Memory>(
    tx: &mut HeapTx<'_, '_, M>,
    word: u64,
) -> Result<V::Owned, TxError> {
    let value = value::<V>(word, |at| bytes::in_tx(tx, at))?;
    if !V::IS_WORD {
        tx.free(Addr::from_bits(word))?;
    }
    Ok(value)
}

/// An entry as it is in the tree.
fn entry<K: OrderedKey, V: Item + ?Sized>(
    (key, word): (u64, u64),
    bytes: impl FnOnce(Addr) -> Result<Vec<u8>, AccessError>,
) -> Result<(K, V::Owned), AccessError> {
    Ok((K::of_word(key), value::<V>(word, bytes)?))
}

/// The methods that a pointer to a [`BTree`] has beside those of [`MapField`]: its keys have an
/// order.
///
/// ```
/// use seawall_collections::fields::{BTree, BTreeField, DRAM_BYTES, MapField};
/// use seawall_memory::Image;
/// use seawall_runtime::typed::{self, Persist};
/// use seawall_runtime::{HeapError, HeapOptions};
///
/// #[derive(Clone, Copy, Persist)]
/// struct Diary {
///     days: BTree<i32, str>,
/// }
///
/// let options = HeapOptions { threads: 1, ..typed::options::<Diary>() };
/// let memory = Image::new(options.pm_bytes(), options.dram_bytes() + DRAM_BYTES);
/// typed::create::<Diary, _, _>(&memory, "diary", 1, &options, |pool| {
///     let (mut session, days) = (pool.join(&memory), pool.root().at(Diary::DAYS));
///     session.transaction(|tx| days.extend(tx, [(3, "rain"), (-1, "sun"), (8, "fog")]))?;
///     let entries: Vec<_> = days.range(&mut session, ..=3)?.collect();
///     assert_eq!(entries, [(-1, "sun".to_owned()), (3, "rain".to_owned())]);
///     assert_eq!(days.last_key_value(&mut session)?, Some((8, "fog".to_owned())));
///     Ok::<_, HeapError>(())
/// })?;
/// # Ok::<(), HeapError>(())
/// ```
pub trait BTreeField<'p, K: OrderedKey, V: Item + ?Sized>: MapField<'p, K, V> {
    /// Returns a copy of the entries whose keys are in `range`, in order.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn range<A: Access<'p>>(
        self,
        access: &mut A,
        range: impl RangeBounds<K>,
    ) -> Result<Entries<K, V>, A::Error>;

    /// Returns the entry of the least key.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn first_key_value<A: Access<'p>>(
        self,
        access: &mut A,
    ) -> Result<Option<(K, V::Owned)>, A::Error>;

    /// Returns the entry of the greatest key.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn last_key_value<A: Access<'p>>(
        self,
        access: &mut A,
    ) -> Result<Option<(K, V::Owned)>, A::Error>;

    /// Removes the entry of the least key; returns it.
    ///
    /// # Errors
    /// As [`insert`](MapField::insert).
    fn pop_first<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
    ) -> Result<Option<(K, V::Owned)>, TxError> {
        let first = self.first_key_value(tx)?;
        first.iter().try_for_each(|(key, _)| self.remove(tx, key).map(drop))?;
        Ok(first)
    }

    /// Removes the entry of the greatest key; returns it.
    ///
    /// # Errors
    /// As [`insert`](MapField::insert).
    fn pop_last<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
    ) -> Result<Option<(K, V::Owned)>, TxError> {
        let last = self.last_key_value(tx)?;
        last.iter().try_for_each(|(key, _)| self.remove(tx, key).map(drop))?;
        Ok(last)
    }
}

impl<'p, K: OrderedKey, V: Item + ?Sized> MapField<'p, K, V> for Ptr<'p, BTree<K, V>> {
    fn get<A: Access<'p>>(self, access: &mut A, key: &K) -> Result<Option<V::Owned>, A::Error> {
        let key = key.to_word();
        access.either(
            self,
            |at, tx| {
                let Some(tree) = inside(at, tx)? else { return Ok(None) };
                let word = tree.get_in(tx, key).map_err(tx_error)?;
                Ok(word.map(|word| value::<V>(word, |at| bytes::in_tx(tx, at))).transpose()?)
            },
            |at, session| {
                let Some(tree) = outside(at, session)? else { return Ok(None) };
                let word = tree.get(session, key).map_err(access_error)?;
                word.map(|word| value::<V>(word, |at| bytes::outside(session, at))).transpose()
            },
        )
    }

    fn insert<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
        key: &K,
        value: &V,
    ) -> Result<Option<V::Owned>, TxError> {
        let (at, tx) = tx.place(self)?;
        let tree = match inside(at, tx)? {
            Some(tree) => tree,
            None => {
                let dram = versions_of(&tx.heap());
                Tree::create_in(tx, at, dram, VERSIONS).map_err(tx_error)?
            }
        };
        let word = put(tx, value)?;
        let old = tree.insert_in(tx, key.to_word(), word).map_err(tx_error)?;
        old.map(|word| taken::<V, _>(tx, word)).transpose()
    }

    fn remove<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
        key: &K,
    ) -> Result<Option<V::Owned>, TxError> {
        let (at, tx) = tx.place(self)?;
        let Some(tree) = inside(at, tx)? else { return Ok(None) };
        let old = tree.remove_in(tx, key.to_word()).map_err(tx_error)?;
        old.map(|word| taken::<V, _>(tx, word)).transpose()
    }

    fn len<A: Access<'p>>(self, access: &mut A) -> Result<u64, A::Error> {
        access.either(
            self,
            |at, tx| match inside(at, tx)? {
                Some(tree) => tree.len_in(tx).map_err(tx_error),
                None => Ok(0),
            },
            |at, session| match outside(at, session)? {
                Some(tree) => tree.len(session).map_err(access_error),
                None => Ok(0),
            },
        )
    }

    fn is_empty<A: Access<'p>>(self, access: &mut A) -> Result<bool, A::Error> {
        self.first_key_value(access).map(|first| first.is_none())
    }

    fn iter<A: Access<'p>>(self, access: &mut A) -> Result<Entries<K, V>, A::Error> {
        self.range(access, ..)
    }

    fn clear<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>) -> Result<(), TxError> {
        let (at, tx) = tx.place(self)?;
        let Some(tree) = inside(at, tx)? else { return Ok(()) };
        let mut values = Vec::new();
        if !V::IS_WORD {
            tree.range_in(tx, .., |_, word| values.push(word)).map_err(tx_error)?;
        }
        values.into_iter().try_for_each(|word| tx.free(Addr::from_bits(word)))?;
        tree.free_in(tx).map_err(tx_error)
    }
}

impl<'p, K: OrderedKey, V: Item + ?Sized> BTreeField<'p, K, V> for Ptr<'p, BTree<K, V>> {
    fn range<A: Access<'p>>(
        self,
        access: &mut A,
        range: impl RangeBounds<K>,
    ) -> Result<Entries<K, V>, A::Error> {
        let word_of = |bound: Bound<&K>| bound.map(|key| key.to_word());
        let range = (word_of(range.start_bound()), word_of(range.end_bound()));
        let entries: Result<Vec<_>, _> = access.either(
            self,
            |at, tx| {
                let mut found = Vec::new();
                if let Some(tree) = inside(at, tx)? {
                    let each = |key, word| found.push((key, word));
                    tree.range_in(tx, range, each).map_err(tx_error)?;
                }
                let bytes = |at| bytes::in_tx(tx, at);
                Ok(found.into_iter().map(|found| entry::<K, V>(found, bytes)).collect())
            },
            |at, session| {
                let mut found = Vec::new();
                if let Some(tree) = outside(at, session)? {
                    let each = |key, word| found.push((key, word));
                    tree.range(session, range, each).map_err(access_error)?;
                }
                let bytes = |at| bytes::outside(session, at);
                Ok(found.into_iter().map(|found| entry::<K, V>(found, bytes)).collect())
            },
        )?;
        Ok(entries?.into_iter())
    }

    fn first_key_value<A: Access<'p>>(
        self,
        access: &mut A,
    ) -> Result<Option<(K, V::Owned)>, A::Error> {
        entry_at(self, access, End::First)
    }

    fn last_key_value<A: Access<'p>>(
        self,
        access: &mut A,
    ) -> Result<Option<(K, V::Owned)>, A::Error> {
        entry_at(self, access, End::Last)
    }
}

/// An end of the order of keys.
enum End {
    First,
    Last,
}

/// The entry at an end of the map.
fn entry_at<'p, A: Access<'p>, K: OrderedKey, V: Item + ?Sized>(
    map: Ptr<'p, BTree<K, V>>,
    access: &mut A,
    end: End,
) -> Result<Option<(K, V::Owned)>, A::Error> {
    access.either(
        map,
        |at, tx| {
            let Some(tree) = inside(at, tx)? else { return Ok(None) };
            let found = match end {
                End::First => tree.first_in(tx),
                End::Last => tree.last_in(tx),
            };
            let bytes = |at| bytes::in_tx(tx, at);
            Ok(found.map_err(tx_error)?.map(|found| entry::<K, V>(found, bytes)).transpose()?)
        },
        |at, session| {
            let Some(tree) = outside(at, session)? else { return Ok(None) };
            let found = match end {
                End::First => tree.first(session),
                End::Last => tree.last(session),
            };
            let bytes = |at| bytes::outside(session, at);
            found.map_err(access_error)?.map(|found| entry::<K, V>(found, bytes)).transpose()
        },
    )
}
