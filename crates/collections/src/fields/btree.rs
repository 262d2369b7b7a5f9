//! An ordered map as a field: the concurrent B+tree, made when something is inserted first.

use super::item::bytes_of;
use super::{Access, Item, bytes, field};
use crate::{BTree as Tree, BTreeError};
use seawall_memory::{Addr, Memory};
use seawall_runtime::typed::{Branded, Persist, Ptr, Tx, derived};
use seawall_runtime::{Heap, HeapError, Session as HeapSession, Tx as HeapTx};
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

/// Version words that all trees of a heap share.
const VERSIONS: u64 = 1 << 10;

/// Bytes of volatile memory behind those of the heap that fields of this kind need.
pub const DRAM_BYTES: u64 = Tree::dram_bytes(VERSIONS);

/// A key whose order is that of a word.
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

/// A map from `K` to `V` in the order of its keys: a field of a typed struct, 16 bytes. See
/// [`BTreeField`] for what it can do.
pub struct BTree<K: Item + ?Sized, V: Item + ?Sized> {
    parts: PhantomData<fn(&K, &V)>,
}

field!(BTree [K V], 2);

fn heap_error(error: BTreeError) -> HeapError {
    match error {
        BTreeError::Heap(error) => error,
        other => HeapError::Damaged { what: other.to_string() },
    }
}

fn versions_of(heap: &Heap) -> Addr {
    Addr::dram(heap.dram_bytes())
}

fn inside<M: Memory>(at: Addr, tx: &mut HeapTx<'_, '_, M>) -> Result<Option<Tree>, HeapError> {
    if tx.load::<u64>(at) == 0 {
        return Ok(None);
    }
    Tree::open_in(tx, at, versions_of(&tx.heap()), VERSIONS).map(Some).map_err(heap_error)
}

fn outside<M: Memory>(
    at: Addr,
    session: &mut HeapSession<'_, M>,
) -> Result<Option<Tree>, HeapError> {
    if session.load::<u64>(at) == 0 {
        return Ok(None);
    }
    let dram = versions_of(&session.heap());
    Tree::open(session, at, dram, VERSIONS).map(Some).map_err(heap_error)
}

/// The word that stands for a value: itself if it is small, else where its bytes are.
fn put<V: Item + ?Sized, M: Memory>(
    tx: &mut HeapTx<'_, '_, M>,
    value: &V,
) -> Result<u64, HeapError> {
    let content = bytes_of(value);
    if !V::IS_WORD {
        return Ok(bytes::put(tx, &content)?.bits());
    }
    let mut word = [0; 8];
    word[..content.len()].copy_from_slice(&content);
    Ok(u64::from_le_bytes(word))
}

fn taken<V: Item + ?Sized, M: Memory>(
    tx: &mut HeapTx<'_, '_, M>,
    word: u64,
) -> Result<V::Owned, HeapError> {
    if V::IS_WORD {
        return Ok(V::decode(&word.to_le_bytes()));
    }
    let value = V::decode(&bytes::in_tx(tx, Addr::from_bits(word))?);
    tx.free(Addr::from_bits(word))?;
    Ok(value)
}

/// What a pointer to a [`BTree`] can do. Changes are part of the caller's transaction.
///
/// ```
/// use seawall_collections::fields::{BTree, BTreeField, DRAM_BYTES};
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
///     session.transaction(|tx| {
///         days.insert(tx, 3, "rain")?;
///         days.insert(tx, -1, "sun")
///     })?;
///     let entries = days.range(&mut session, ..=3)?;
///     assert_eq!(entries, [(-1, "sun".to_owned()), (3, "rain".to_owned())]);
///     Ok::<_, HeapError>(())
/// })?;
/// # Ok::<(), HeapError>(())
/// ```
pub trait BTreeField<'p, K: OrderedKey, V: Item + ?Sized>: Sized {
    /// The value of `key`.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn get<A: Access<'p>>(self, access: &mut A, key: K) -> Result<Option<V::Owned>, HeapError>;

    /// Makes `value` that of `key`; returns the value before.
    ///
    /// # Errors
    /// [`HeapError::Full`] when there is no room, [`HeapError::TooLarge`] when the transaction does
    /// not fit its log.
    fn insert<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
        key: K,
        value: &V,
    ) -> Result<Option<V::Owned>, HeapError>;

    /// Removes `key`; returns its value.
    ///
    /// # Errors
    /// As [`insert`](BTreeField::insert).
    fn remove<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
        key: K,
    ) -> Result<Option<V::Owned>, HeapError>;

    /// The entries whose keys are in `range`, in order.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn range<A: Access<'p>>(
        self,
        access: &mut A,
        range: impl RangeBounds<K>,
    ) -> Result<Vec<(K, V::Owned)>, HeapError>;

    /// How many keys there are; counts them.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn len<A: Access<'p>>(self, access: &mut A) -> Result<u64, HeapError>;

    /// Removes all keys and frees what the tree has taken.
    ///
    /// # Errors
    /// As [`insert`](BTreeField::insert).
    fn clear<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>) -> Result<(), HeapError>;
}

impl<'p, K: OrderedKey, V: Item + ?Sized> BTreeField<'p, K, V> for Ptr<'p, BTree<K, V>> {
    fn get<A: Access<'p>>(self, access: &mut A, key: K) -> Result<Option<V::Owned>, HeapError> {
        let key = key.to_word();
        access.either(
            self,
            |at, tx| {
                let Some(tree) = inside(at, tx)? else { return Ok(None) };
                match tree.get_in(tx, key).map_err(heap_error)? {
                    None => Ok(None),
                    Some(word) if V::IS_WORD => Ok(Some(V::decode(&word.to_le_bytes()))),
                    Some(word) => Ok(Some(V::decode(&bytes::in_tx(tx, Addr::from_bits(word))?))),
                }
            },
            |at, session| {
                let Some(tree) = outside(at, session)? else { return Ok(None) };
                match tree.get(session, key).map_err(heap_error)? {
                    None => Ok(None),
                    Some(word) if V::IS_WORD => Ok(Some(V::decode(&word.to_le_bytes()))),
                    Some(word) => {
                        Ok(Some(V::decode(&bytes::outside(session, Addr::from_bits(word))?)))
                    }
                }
            },
        )
    }

    fn insert<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
        key: K,
        value: &V,
    ) -> Result<Option<V::Owned>, HeapError> {
        let (at, tx) = tx.place(self)?;
        let tree = match inside(at, tx)? {
            Some(tree) => tree,
            None => {
                let dram = versions_of(&tx.heap());
                Tree::create_in(tx, at, dram, VERSIONS).map_err(heap_error)?
            }
        };
        let word = put(tx, value)?;
        let old = tree.insert_in(tx, key.to_word(), word).map_err(heap_error)?;
        old.map(|word| taken::<V, _>(tx, word)).transpose()
    }

    fn remove<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
        key: K,
    ) -> Result<Option<V::Owned>, HeapError> {
        let (at, tx) = tx.place(self)?;
        let Some(tree) = inside(at, tx)? else { return Ok(None) };
        let old = tree.remove_in(tx, key.to_word()).map_err(heap_error)?;
        old.map(|word| taken::<V, _>(tx, word)).transpose()
    }

    fn range<A: Access<'p>>(
        self,
        access: &mut A,
        range: impl RangeBounds<K>,
    ) -> Result<Vec<(K, V::Owned)>, HeapError> {
        let range = (word_of(range.start_bound()), word_of(range.end_bound()));
        access.either(
            self,
            |at, tx| {
                let mut found = Vec::new();
                if let Some(tree) = inside(at, tx)? {
                    let each = |key, word| found.push((key, word));
                    tree.range_in(tx, range, each).map_err(heap_error)?;
                }
                entries::<K, V>(found, |at| bytes::in_tx(tx, at))
            },
            |at, session| {
                let mut found = Vec::new();
                if let Some(tree) = outside(at, session)? {
                    let each = |key, word| found.push((key, word));
                    tree.range(session, range, each).map_err(heap_error)?;
                }
                entries::<K, V>(found, |at| bytes::outside(session, at))
            },
        )
    }

    fn len<A: Access<'p>>(self, access: &mut A) -> Result<u64, HeapError> {
        self.range(access, ..).map(|entries| entries.len() as u64)
    }

    fn clear<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>) -> Result<(), HeapError> {
        let (at, tx) = tx.place(self)?;
        let Some(tree) = inside(at, tx)? else { return Ok(()) };
        let mut values = Vec::new();
        if !V::IS_WORD {
            tree.range_in(tx, .., |_, word| values.push(word)).map_err(heap_error)?;
        }
        values.into_iter().try_for_each(|word| tx.free(Addr::from_bits(word)))?;
        tree.free_in(tx).map_err(heap_error)
    }
}

fn word_of<K: OrderedKey>(bound: Bound<&K>) -> Bound<u64> {
    bound.map(|key| key.to_word())
}

fn entries<K: OrderedKey, V: Item + ?Sized>(
    found: Vec<(u64, u64)>,
    bytes: impl Fn(Addr) -> Result<Vec<u8>, HeapError>,
) -> Result<Vec<(K, V::Owned)>, HeapError> {
    let entry = |(key, word): (u64, u64)| {
        let value = if V::IS_WORD {
            V::decode(&word.to_le_bytes())
        } else {
            V::decode(&bytes(Addr::from_bits(word))?)
        };
        Ok((K::of_word(key), value))
    };
    found.into_iter().map(entry).collect()
}
