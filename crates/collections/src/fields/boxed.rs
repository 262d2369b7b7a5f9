//! An optional value in an object of its own, as a field.

use super::{Access, Item, bytes, field};
use seawall_memory::{Addr, Memory};
use seawall_runtime::TxError;
use seawall_runtime::typed::{Branded, Persist, Ptr, Tx, derived};
use std::marker::PhantomData;

/// A value that the struct around it owns, or none: a field of a typed struct, 8 bytes, as `std`'s
/// `Option<Box<T>>`. Its methods are those of [`BoxedField`].
///
/// It holds large structs and byte strings of any length (`Boxed<[u8]>`). What pointers of others
/// lead to is an object that [`Tx::alloc`] makes.
pub struct Boxed<T: Item + ?Sized> {
    parts: PhantomData<fn(&T)>,
}

field!(Boxed[T], 1);

/// The methods of a pointer to a [`Boxed`]. Changes are part of the caller's transaction.
pub trait BoxedField<'p, T: Item + ?Sized>: Copy {
    /// Returns a copy of the value, if there is one.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn get<A: Access<'p>>(self, access: &mut A) -> Result<Option<T::Owned>, A::Error>;

    /// Sets the value; frees the one before.
    ///
    /// # Errors
    /// [`TxError::Full`] when there is no room, [`TxError::TooLarge`] when the transaction does not
    /// fit its log.
    fn set<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>, value: &T) -> Result<(), TxError>;

    /// Removes the value and frees its space; returns it.
    ///
    /// # Errors
    /// As [`set`](BoxedField::set).
    fn take<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>) -> Result<Option<T::Owned>, TxError>;
}

impl<'p, T: Item + ?Sized> BoxedField<'p, T> for Ptr<'p, Boxed<T>> {
    fn get<A: Access<'p>>(self, access: &mut A) -> Result<Option<T::Owned>, A::Error> {
        Ok(bytes::of_field(access, self)?.map(|bytes| T::decode(bytes.into())))
    }

    fn set<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>, value: &T) -> Result<(), TxError> {
        value.with_bytes(|bytes| bytes::set_field(tx, self, Some(bytes)))
    }

    fn take<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>) -> Result<Option<T::Owned>, TxError> {
        let value = self.get(tx)?;
        bytes::set_field(tx, self, None)?;
        Ok(value)
    }
}
