//! A growing array as a field.

use super::{Access, Item, field};
use seawall_memory::{Addr, Memory};
use seawall_runtime::typed::{Branded, Persist, Ptr, Tx, derived};
use seawall_runtime::{AccessError, Tx as HeapTx, TxError};
use std::marker::PhantomData;
use std::vec;

/// Elements that there is room for at first.
const FIRST: u64 = 4;
/// Offsets in the field.
const LENGTH: u64 = 8;
const ROOM: u64 = 16;

/// An array that grows: a field of a typed struct, 24 bytes. Its methods are those of
/// [`VectorField`].
pub struct Vector<T: Item + ?Sized> {
    parts: PhantomData<fn(&T)>,
}

field!(Vector[T], 3);

/// The methods of a pointer to a [`Vector`]. Changes are part of the caller's transaction.
pub trait VectorField<'p, T: Item<Owned = T>>: Copy {
    /// Returns the number of elements, which is stored.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn len<A: Access<'p>>(self, access: &mut A) -> Result<u64, A::Error>;

    /// Whether there is no element.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn is_empty<A: Access<'p>>(self, access: &mut A) -> Result<bool, A::Error> {
        self.len(access).map(|len| len == 0)
    }

    /// Returns the element at `index`; none behind the last.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn get<A: Access<'p>>(self, access: &mut A, index: u64) -> Result<Option<T>, A::Error>;

    /// Returns the first element, if there is one.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn first<A: Access<'p>>(self, access: &mut A) -> Result<Option<T>, A::Error> {
        self.get(access, 0)
    }

    /// Returns the last element, if there is one.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn last<A: Access<'p>>(self, access: &mut A) -> Result<Option<T>, A::Error> {
        match self.len(access)? {
            0 => Ok(None),
            len => self.get(access, len - 1),
        }
    }

    /// Returns a copy of all elements.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn to_vec<A: Access<'p>>(self, access: &mut A) -> Result<Vec<T>, A::Error>;

    /// Returns a copy of all elements, to be gone through.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn iter<A: Access<'p>>(self, access: &mut A) -> Result<vec::IntoIter<T>, A::Error> {
        self.to_vec(access).map(Vec::into_iter)
    }

    /// Appends an element.
    ///
    /// # Errors
    /// [`TxError::Full`] when there is no room, [`TxError::TooLarge`] when the transaction does not
    /// fit its log.
    fn push<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>, value: T) -> Result<(), TxError>;

    /// Appends all `elements`.
    ///
    /// # Errors
    /// As [`push`](VectorField::push).
    fn extend<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
        elements: impl IntoIterator<Item = T>,
    ) -> Result<(), TxError> {
        elements.into_iter().try_for_each(|element| self.push(tx, element))
    }

    /// Removes the last element; returns it.
    ///
    /// # Errors
    /// As [`push`](VectorField::push).
    fn pop<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>) -> Result<Option<T>, TxError>;

    /// Replaces the element at `index`; returns the one before, or none and changes nothing behind
    /// the last.
    ///
    /// # Errors
    /// As [`push`](VectorField::push).
    fn set<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
        index: u64,
        value: T,
    ) -> Result<Option<T>, TxError>;

    /// Changes the element at `index` by `change`, in place of `std`'s `get_mut`; returns whether
    /// there is one.
    ///
    /// # Errors
    /// As [`push`](VectorField::push).
    fn update<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
        index: u64,
        change: impl FnOnce(&mut T),
    ) -> Result<bool, TxError> {
        let Some(mut value) = self.get(tx, index)? else { return Ok(false) };
        change(&mut value);
        self.set(tx, index, value).map(|old| old.is_some())
    }

    /// Removes all elements and frees their space.
    ///
    /// # Errors
    /// As [`push`](VectorField::push).
    fn clear<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>) -> Result<(), TxError>;
}

/// Where the elements are, and how many.
#[derive(Clone, Copy)]
struct Parts {
    elements: Addr,
    length: u64,
}

/// Bytes of `count` elements of `size` bytes at `parts`, if they are data of the heap.
fn checked(
    [elements, length]: [u64; 2],
    size: u64,
    is_data: impl Fn(Addr, u64) -> bool,
) -> Result<Parts, AccessError> {
    let elements = Addr::from_bits(elements);
    let has_none = length == 0 && elements.is_null();
    if has_none || is_data(elements, length.saturating_mul(size).max(1)) {
        return Ok(Parts { elements, length });
    }
    Err(AccessError::Damaged { what: format!("{length} elements at {elements} are none") })
}

fn inside<M: Memory>(tx: &HeapTx<'_, '_, M>, at: Addr, size: u64) -> Result<Parts, AccessError> {
    let words = [0, LENGTH].map(|offset| tx.load(at.plus(offset)));
    checked(words, size, |at, bytes| tx.is_data(at, bytes))
}

impl<T: Item<Owned = T> + for<'q> Persist<'q>> Vector<T> {
    const BYTES: u64 = <T as Persist<'static>>::SIZE;

    fn some<'p, A: Access<'p>>(
        ptr: Ptr<'p, Self>,
        access: &mut A,
        pick: impl Fn(Parts) -> (u64, u64),
    ) -> Result<(Parts, Vec<u8>), A::Error> {
        access.either(
            ptr,
            |at, tx| {
                let parts = inside(tx, at, Self::BYTES)?;
                let (from, count) = pick(parts);
                let mut bytes = vec![0; (count * Self::BYTES) as usize];
                tx.read(parts.elements.plus(from * Self::BYTES), &mut bytes);
                Ok((parts, bytes))
            },
            |at, session| {
                let words = [0, LENGTH].map(|offset| session.load(at.plus(offset)));
                let is_data = |at, bytes| session.is_data(at, bytes);
                let parts = checked(words, Self::BYTES, is_data)?;
                let (from, count) = pick(parts);
                let mut bytes = vec![0; (count * Self::BYTES) as usize];
                session.memory().read(parts.elements.plus(from * Self::BYTES), &mut bytes);
                Ok((parts, bytes))
            },
        )
    }
}

impl<'p, T: Item<Owned = T> + for<'q> Persist<'q>> VectorField<'p, T> for Ptr<'p, Vector<T>> {
    fn len<A: Access<'p>>(self, access: &mut A) -> Result<u64, A::Error> {
        Vector::some(self, access, |_| (0, 0)).map(|(parts, _)| parts.length)
    }

    fn get<A: Access<'p>>(self, access: &mut A, index: u64) -> Result<Option<T>, A::Error> {
        let pick = |parts: Parts| if index < parts.length { (index, 1) } else { (0, 0) };
        let (parts, bytes) = Vector::some(self, access, pick)?;
        Ok((index < parts.length).then(|| T::decode(bytes.into())))
    }

    fn to_vec<A: Access<'p>>(self, access: &mut A) -> Result<Vec<T>, A::Error> {
        let (_, bytes) = Vector::some(self, access, |parts| (0, parts.length))?;
        Ok(bytes
            .chunks(Vector::<T>::BYTES.max(1) as usize)
            .map(|bytes| T::decode(bytes.into()))
            .collect())
    }

    fn push<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>, value: T) -> Result<(), TxError> {
        let (at, tx) = tx.place(self)?;
        let size = Vector::<T>::BYTES;
        let mut parts = inside(tx, at, size)?;
        let room: u64 = tx.load(at.plus(ROOM));
        if parts.length >= room {
            let room = parts.length.saturating_mul(2).max(FIRST);
            let mut bytes = vec![0; (parts.length * size) as usize];
            tx.read(parts.elements, &mut bytes);
            let new = tx.alloc(room.saturating_mul(size).max(8))?;
            if !bytes.is_empty() {
                tx.fill(new, &bytes)?;
                tx.free(parts.elements)?;
            } else if !parts.elements.is_null() {
                tx.free(parts.elements)?;
            }
            parts.elements = new;
            tx.store(at, new)?;
            tx.store(at.plus(ROOM), room)?;
        }
        value.with_bytes(|bytes| tx.write(parts.elements.plus(parts.length * size), bytes))?;
        tx.store(at.plus(LENGTH), parts.length.saturating_add(1))
    }

    fn pop<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>) -> Result<Option<T>, TxError> {
        let length = self.len(tx)?;
        let Some(last) = length.checked_sub(1) else { return Ok(None) };
        let value = self.get(tx, last)?;
        let (at, tx) = tx.place(self)?;
        tx.store(at.plus(LENGTH), last)?;
        Ok(value)
    }

    fn set<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
        index: u64,
        value: T,
    ) -> Result<Option<T>, TxError> {
        let old = self.get(tx, index)?;
        if old.is_some() {
            let (at, tx) = tx.place(self)?;
            let parts = inside(tx, at, Vector::<T>::BYTES)?;
            let element = parts.elements.plus(index * Vector::<T>::BYTES);
            value.with_bytes(|bytes| tx.write(element, bytes))?;
        }
        Ok(old)
    }

    fn clear<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>) -> Result<(), TxError> {
        let (at, tx) = tx.place(self)?;
        let elements = Addr::from_bits(tx.load(at));
        if !elements.is_null() {
            tx.free(elements)?;
        }
        tx.write(at, &[0; 24])
    }
}
