//! A growing array as a field.

use super::item::bytes_of;
use super::{Access, Item, field};
use seawall_memory::{Addr, Memory};
use seawall_runtime::typed::{Branded, Persist, Ptr, Tx, derived};
use seawall_runtime::{HeapError, Tx as HeapTx};
use std::marker::PhantomData;

/// Elements that there is room for at first.
const FIRST: u64 = 4;
/// Offsets in the field.
const LENGTH: u64 = 8;
const ROOM: u64 = 16;

/// An array that grows: a field of a typed struct, 24 bytes. See [`VectorField`] for what it can
/// do.
pub struct Vector<T: Item + ?Sized> {
    parts: PhantomData<fn(&T)>,
}

field!(Vector[T], 3);

/// What a pointer to a [`Vector`] can do. Changes are part of the caller's transaction.
pub trait VectorField<'p, T: Item<Owned = T>>: Sized {
    /// How many elements there are.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn len<A: Access<'p>>(self, access: &mut A) -> Result<u64, HeapError>;

    /// The element at `index`; none behind the last.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn get<A: Access<'p>>(self, access: &mut A, index: u64) -> Result<Option<T>, HeapError>;

    /// All elements.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn to_vec<A: Access<'p>>(self, access: &mut A) -> Result<Vec<T>, HeapError>;

    /// Puts an element behind the last.
    ///
    /// # Errors
    /// [`HeapError::Full`] when there is no room, [`HeapError::TooLarge`] when the transaction does
    /// not fit its log.
    fn push<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>, value: T) -> Result<(), HeapError>;

    /// Takes the last element off.
    ///
    /// # Errors
    /// As [`push`](VectorField::push).
    fn pop<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>) -> Result<Option<T>, HeapError>;

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
    ) -> Result<Option<T>, HeapError>;

    /// Removes all elements and frees what they took.
    ///
    /// # Errors
    /// As [`push`](VectorField::push).
    fn clear<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>) -> Result<(), HeapError>;
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
) -> Result<Parts, HeapError> {
    let elements = Addr::from_bits(elements);
    if length == 0 || is_data(elements, length.saturating_mul(size).max(1)) {
        return Ok(Parts { elements, length });
    }
    Err(HeapError::Damaged { what: format!("{length} elements at {elements} are none") })
}

fn inside<M: Memory>(tx: &HeapTx<'_, '_, M>, at: Addr, size: u64) -> Result<Parts, HeapError> {
    let words = [0, LENGTH].map(|offset| tx.load(at.plus(offset)));
    checked(words, size, |at, bytes| tx.is_data(at, bytes))
}

impl<T: Item<Owned = T> + for<'q> Persist<'q>> Vector<T> {
    const BYTES: u64 = <T as Persist<'static>>::SIZE;

    fn some<'p, A: Access<'p>>(
        ptr: Ptr<'p, Self>,
        access: &mut A,
        pick: impl Fn(Parts) -> (u64, u64),
    ) -> Result<(Parts, Vec<u8>), HeapError> {
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
    fn len<A: Access<'p>>(self, access: &mut A) -> Result<u64, HeapError> {
        Vector::some(self, access, |_| (0, 0)).map(|(parts, _)| parts.length)
    }

    fn get<A: Access<'p>>(self, access: &mut A, index: u64) -> Result<Option<T>, HeapError> {
        let pick = |parts: Parts| if index < parts.length { (index, 1) } else { (0, 0) };
        let (parts, bytes) = Vector::some(self, access, pick)?;
        Ok((index < parts.length).then(|| T::decode(&bytes)))
    }

    fn to_vec<A: Access<'p>>(self, access: &mut A) -> Result<Vec<T>, HeapError> {
        let (_, bytes) = Vector::some(self, access, |parts| (0, parts.length))?;
        Ok(bytes.chunks(Vector::<T>::BYTES.max(1) as usize).map(T::decode).collect())
    }

    fn push<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>, value: T) -> Result<(), HeapError> {
        let (at, tx) = tx.place(self)?;
        let size = Vector::<T>::BYTES;
        let mut parts = inside(tx, at, size)?;
        let room: u64 = tx.load(at.plus(ROOM));
        if parts.length >= room {
            let room = (2 * parts.length).max(FIRST);
            let mut bytes = vec![0; (parts.length * size) as usize];
            tx.read(parts.elements, &mut bytes);
            let new = tx.alloc((room * size).max(8))?;
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
        tx.write(parts.elements.plus(parts.length * size), &bytes_of(&value))?;
        tx.store(at.plus(LENGTH), parts.length + 1)
    }

    fn pop<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>) -> Result<Option<T>, HeapError> {
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
    ) -> Result<Option<T>, HeapError> {
        let old = self.get(tx, index)?;
        if old.is_some() {
            let (at, tx) = tx.place(self)?;
            let parts = inside(tx, at, Vector::<T>::BYTES)?;
            tx.write(parts.elements.plus(index * Vector::<T>::BYTES), &bytes_of(&value))?;
        }
        Ok(old)
    }

    fn clear<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>) -> Result<(), HeapError> {
        let (at, tx) = tx.place(self)?;
        let elements = Addr::from_bits(tx.load(at));
        if !elements.is_null() {
            tx.free(elements)?;
        }
        tx.write(at, &[0; 24])
    }
}
