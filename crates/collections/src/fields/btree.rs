//! An ordered map as a field: concurrent B+trees, made at the first insertion.

use super::layers::{End, KEY_BYTES_MAX, Layers, Reads, joined, slices_of};
use super::{Access, Entries, Item, KeyValue, MapField, bytes, field};
use seawall_memory::{Addr, Memory};
use seawall_runtime::typed::{Branded, Bytes, Persist, Ptr, Tx, derived};
use seawall_runtime::{Tx as HeapTx, TxError};
use std::borrow::Borrow;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

/// A key of a [`BTree`]: an integer of at most 8 bytes, [`Bytes`], `str`, or `[u8]`. Those of bytes
/// have the order of their bytes, and 1792 of them at most.
pub trait OrderedKey: Item {
    /// Whether keys are cut into slices that carry a mark.
    #[doc(hidden)]
    const HAS_MARKS: bool;
    #[doc(hidden)]
    fn with_slices<R>(&self, act: impl FnOnce(&[u64]) -> R) -> R;
    #[doc(hidden)]
    fn of_slices(slices: &[u64]) -> Self::Owned;
}

macro_rules! ordered {
    ($($Unsigned:ident)+; $($Signed:ident)+) => {
        $(impl OrderedKey for $Unsigned {
            const HAS_MARKS: bool = false;

            fn with_slices<R>(&self, act: impl FnOnce(&[u64]) -> R) -> R {
                act(&[u64::from(*self)])
            }

            fn of_slices(slices: &[u64]) -> $Unsigned {
                slices[0] as $Unsigned
            }
        })+
        $(impl OrderedKey for $Signed {
            const HAS_MARKS: bool = false;

            fn with_slices<R>(&self, act: impl FnOnce(&[u64]) -> R) -> R {
                act(&[i64::from(*self) as u64 ^ 1 << 63])
            }

            fn of_slices(slices: &[u64]) -> $Signed {
                (slices[0] ^ 1 << 63) as $Signed
            }
        })+
    };
}
ordered! { u8 u16 u32 u64; i8 i16 i32 i64 }

macro_rules! ordered_bytes {
    ($($(const $N:ident)? => $Bytes:ty;)+) => {
        $(impl$(<const $N: usize>)? OrderedKey for $Bytes {
            const HAS_MARKS: bool = true;

            fn with_slices<R>(&self, act: impl FnOnce(&[u64]) -> R) -> R {
                act(&self.with_bytes(slices_of))
            }

            fn of_slices(slices: &[u64]) -> Self::Owned {
                Self::decode(joined(slices).into())
            }
        })+
    };
}
ordered_bytes! { => str; => [u8]; const N => Bytes<N>; }

/// A map from `K` to `V` in the order of its keys: a field of a typed struct, 16 bytes.
/// Its methods are those of [`MapField`] and [`BTreeField`].
pub struct BTree<K: Item + ?Sized, V: Item + ?Sized> {
    parts: PhantomData<fn(&K, &V)>,
}

field!(BTree [K V], 2);

/// Bytes of a value that is read on the stack; a longer one is read where it stays.
const SHORT: usize = 256;

/// Values whose lengths are read together.
const AT_ONCE: usize = 32;

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
fn value<V: Item + ?Sized, R: Reads>(reads: &mut R, word: u64) -> Result<V::Owned, R::Error> {
    if V::IS_WORD {
        return Ok(V::decode(word.to_le_bytes()[..].into()));
    }
    let at = Addr::from_bits(word);
    let length = reads.length(at)?;
    Ok(decoded::<V, _>(reads, at, length))
}

/// The value in the object at `at`, which holds `length` bytes.
fn decoded<V: Item + ?Sized, R: Reads>(reads: &mut R, at: Addr, length: u64) -> V::Owned {
    let mut short = [0; SHORT];
    if let Some(bytes) = short.get_mut(..length as usize) {
        reads.content(at, bytes);
        return V::decode((&*bytes).into());
    }
    let mut long = vec![0; length as usize];
    reads.content(at, &mut long);
    V::decode(long.into())
}

/// The value that a word stood for, whose bytes are freed.
fn taken<V: Item + ?Sized, M: Memory>(
    tx: &mut HeapTx<'_, '_, M>,
    word: u64,
) -> Result<V::Owned, TxError> {
    let value = value::<V, _>(tx, word)?;
    if !V::IS_WORD {
        tx.free(Addr::from_bits(word))?;
    }
    Ok(value)
}

fn entry<K: OrderedKey + ?Sized, V: Item + ?Sized, R: Reads>(
    reads: &mut R,
    key: &[u64],
    word: u64,
) -> Result<KeyValue<K, V>, R::Error> {
    Ok((K::of_slices(key), value::<V, _>(reads, word)?))
}

fn layers<K: OrderedKey + ?Sized>(at: Addr) -> Layers {
    Layers::new(at, K::HAS_MARKS)
}

/// The value of a key.
fn found<K: OrderedKey + ?Sized, V: Item + ?Sized, R: Reads>(
    reads: &mut R,
    at: Addr,
    key: &[u64],
) -> Result<Option<V::Owned>, R::Error> {
    let word = layers::<K>(at).get(reads, key)?;
    word.map(|word| value::<V, _>(reads, word)).transpose()
}

fn entries<K: OrderedKey + ?Sized, V: Item + ?Sized, R: Reads>(
    reads: &mut R,
    at: Addr,
    range: (Bound<Vec<u64>>, Bound<Vec<u64>>),
) -> Result<Vec<KeyValue<K, V>>, R::Error> {
    let (mut keys, mut words) = (Vec::new(), Vec::new());
    layers::<K>(at).range(reads, &range, &mut |_: &mut R, key: &[u64], word| {
        keys.push(K::of_slices(key));
        words.push(word);
        Ok(())
    })?;
    Ok(keys.into_iter().zip(values::<V, _>(reads, &words)?).collect())
}

/// The values that words stand for. Where they are objects, the lengths of several are read first:
/// these reads do not depend on each other, so a CPU waits for memory once for many.
fn values<V: Item + ?Sized, R: Reads>(
    reads: &mut R,
    words: &[u64],
) -> Result<Vec<V::Owned>, R::Error> {
    if V::IS_WORD {
        return words.iter().map(|word| value::<V, _>(reads, *word)).collect();
    }
    let mut values = Vec::with_capacity(words.len());
    for words in words.chunks(AT_ONCE) {
        let mut lengths = [0; AT_ONCE];
        for (word, length) in words.iter().zip(&mut lengths) {
            *length = reads.length(Addr::from_bits(*word))?;
        }
        let objects = words.iter().map(|word| Addr::from_bits(*word)).zip(lengths);
        values.extend(objects.map(|(at, length)| decoded::<V, _>(reads, at, length)));
    }
    Ok(values)
}

fn entry_at<K: OrderedKey + ?Sized, V: Item + ?Sized, R: Reads>(
    reads: &mut R,
    at: Addr,
    end: End,
) -> Result<Option<KeyValue<K, V>>, R::Error> {
    let found = layers::<K>(at).end(reads, end)?;
    found.map(|(key, word)| entry::<K, V, _>(reads, &key, word)).transpose()
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
pub trait BTreeField<'p, K: OrderedKey + ?Sized, V: Item + ?Sized>: MapField<'p, K, V> {
    /// Returns a copy of the entries whose keys are in `range`, in order.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn range<A: Access<'p>>(
        self,
        access: &mut A,
        range: impl RangeBounds<K::Owned>,
    ) -> Result<Entries<K, V>, A::Error>;

    /// Returns the entry of the least key.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn first_key_value<A: Access<'p>>(
        self,
        access: &mut A,
    ) -> Result<Option<KeyValue<K, V>>, A::Error>;

    /// Returns the entry of the greatest key.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn last_key_value<A: Access<'p>>(
        self,
        access: &mut A,
    ) -> Result<Option<KeyValue<K, V>>, A::Error>;

    /// Removes the entry of the least key; returns it.
    ///
    /// # Errors
    /// As [`insert`](MapField::insert).
    fn pop_first<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
    ) -> Result<Option<KeyValue<K, V>>, TxError> {
        let first = self.first_key_value(tx)?;
        first.iter().try_for_each(|(key, _)| self.remove(tx, key.borrow()).map(drop))?;
        Ok(first)
    }

    /// Removes the entry of the greatest key; returns it.
    ///
    /// # Errors
    /// As [`insert`](MapField::insert).
    fn pop_last<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
    ) -> Result<Option<KeyValue<K, V>>, TxError> {
        let last = self.last_key_value(tx)?;
        last.iter().try_for_each(|(key, _)| self.remove(tx, key.borrow()).map(drop))?;
        Ok(last)
    }
}

impl<'p, K: OrderedKey + ?Sized, V: Item + ?Sized> MapField<'p, K, V> for Ptr<'p, BTree<K, V>> {
    fn get<A: Access<'p>>(self, access: &mut A, key: &K) -> Result<Option<V::Owned>, A::Error> {
        key.with_slices(|key| {
            access.either(
                self,
                |at, tx| found::<K, V, _>(tx, at, key),
                |at, session| found::<K, V, _>(session, at, key),
            )
        })
    }

    fn insert<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
        key: &K,
        value: &V,
    ) -> Result<Option<V::Owned>, TxError> {
        let bytes = key.with_bytes(<[u8]>::len);
        if bytes > KEY_BYTES_MAX {
            return Err(TxError::TooLong { what: "key", bytes, most: KEY_BYTES_MAX });
        }
        let (at, tx) = tx.place(self)?;
        let word = put(tx, value)?;
        let old = key.with_slices(|key| layers::<K>(at).insert(tx, key, word))?;
        old.map(|word| taken::<V, _>(tx, word)).transpose()
    }

    fn remove<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
        key: &K,
    ) -> Result<Option<V::Owned>, TxError> {
        let (at, tx) = tx.place(self)?;
        let old = key.with_slices(|key| layers::<K>(at).remove(tx, key))?;
        old.map(|word| taken::<V, _>(tx, word)).transpose()
    }

    fn len<A: Access<'p>>(self, access: &mut A) -> Result<u64, A::Error> {
        access.either(
            self,
            |at, tx| layers::<K>(at).len(tx),
            |at, session| layers::<K>(at).len(session),
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
        layers::<K>(at).clear(tx, |tx, word| match V::IS_WORD {
            true => Ok(()),
            false => tx.free(Addr::from_bits(word)),
        })
    }
}

impl<'p, K: OrderedKey + ?Sized, V: Item + ?Sized> BTreeField<'p, K, V> for Ptr<'p, BTree<K, V>> {
    fn range<A: Access<'p>>(
        self,
        access: &mut A,
        range: impl RangeBounds<K::Owned>,
    ) -> Result<Entries<K, V>, A::Error> {
        let slices =
            |bound: Bound<&K::Owned>| bound.map(|key| key.borrow().with_slices(<[u64]>::to_vec));
        let range = || (slices(range.start_bound()), slices(range.end_bound()));
        let found = access.either(
            self,
            |at, tx| entries::<K, V, _>(tx, at, range()),
            |at, session| entries::<K, V, _>(session, at, range()),
        )?;
        Ok(found.into_iter())
    }

    fn first_key_value<A: Access<'p>>(
        self,
        access: &mut A,
    ) -> Result<Option<KeyValue<K, V>>, A::Error> {
        access.either(
            self,
            |at, tx| entry_at::<K, V, _>(tx, at, End::First),
            |at, session| entry_at::<K, V, _>(session, at, End::First),
        )
    }

    fn last_key_value<A: Access<'p>>(
        self,
        access: &mut A,
    ) -> Result<Option<KeyValue<K, V>>, A::Error> {
        access.either(
            self,
            |at, tx| entry_at::<K, V, _>(tx, at, End::Last),
            |at, session| entry_at::<K, V, _>(session, at, End::Last),
        )
    }
}
