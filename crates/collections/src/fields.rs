//! Structures that are fields of typed structs.
//!
//! A [`Map`], [`BTree`], [`Vector`], [`Text`] or [`Boxed`] is a field like any other; zeros are an
//! empty one, so a new object has empty ones and nothing has to be made first. Its methods are
//! those of a pointer to the field (`root.at(Root::NAMES).insert(tx, "ada", &1)?`), by the traits
//! [`MapField`] (maps of both kinds), [`BTreeField`], [`VectorField`], [`TextField`] and
//! [`BoxedField`]. What one transaction does to a struct, a map in it and a list in it happens
//! wholly or not at all.
//!
//! **A structure belongs to its place.** Copying the struct around it copies no content: storing a
//! struct leaves the structures that are in it there as they are. Freeing the object around one
//! does not free its content: [`clear`](MapField::clear) it first.
//!
//! Keys and values are [`Item`]s: persistent values without pointers, `str` or `[u8]`. A pointer in
//! a value would be invisible to [`reach`](seawall_runtime::typed::Session::reach) and to
//! defragmentation, so the compiler refuses it. To look up something large or linked, keep its
//! content in the map as a value, or link the objects from a field of pointers and keep their
//! numbers in the map.
//!
//! Outside of a transaction, by a [`View`] or a [`Session`], reading sees what is committed; in a
//! transaction it sees that one's changes, too, and what it has read holds until the end.

mod boxed;
mod btree;
mod bytes;
mod inspect;
mod item;
mod keyed;
mod layers;
mod map;
mod text;
mod texts;
mod vector;

pub use boxed::{Boxed, BoxedField};
pub use btree::{BTree, BTreeField, OrderedKey};
pub use inspect::{Inspected, inspect};
pub use item::Item;
pub use keyed::{Entries, KeyValue, MapEntry, MapField};
pub use layers::DRAM_BYTES;
pub use map::Map;
pub use text::{Text, TextField};
pub use vector::{Vector, VectorField};

use seawall_memory::{Addr, Memory};
use seawall_runtime::typed::{Persist, Ptr, Session, Tx, View};
use seawall_runtime::{AccessError, Session as HeapSession, Tx as HeapTx, TxError};

mod sealed {
    pub trait Sealed {}
}

impl<M: Memory> sealed::Sealed for Session<'_, '_, M> {}
impl<M: Memory> sealed::Sealed for View<'_, '_, '_, M> {}
impl<M: Memory> sealed::Sealed for Tx<'_, '_, '_, M> {}

/// What can read: a [`View`] or [`Session`], or a [`Tx`].
pub trait Access<'p>: sealed::Sealed {
    /// The machine.
    type Memory: Memory;
    /// What a read can fail with: [`AccessError`] outside of transactions, [`TxError`] in one.
    type Error: std::error::Error + From<AccessError> + 'static;

    /// A copy of what `ptr` leads to.
    ///
    /// # Errors
    /// [`AccessError::NoData`] when it leads nowhere.
    fn read<T: Persist<'p>>(&mut self, ptr: Ptr<'p, T>) -> Result<T, Self::Error>;

    /// Runs the one that is for this kind of access.
    #[doc(hidden)]
    fn either<T: Persist<'p>, R>(
        &mut self,
        ptr: Ptr<'p, T>,
        inside: impl FnOnce(Addr, &mut HeapTx<'_, '_, Self::Memory>) -> Result<R, TxError>,
        outside: impl FnOnce(Addr, &mut HeapSession<'_, Self::Memory>) -> Result<R, AccessError>,
    ) -> Result<R, Self::Error>;
}

/// What reads what is committed.
macro_rules! reads_committed {
    ($Reader:ty) => {
        impl<'p, M: Memory> Access<'p> for $Reader {
            type Memory = M;
            type Error = AccessError;

            fn read<T: Persist<'p>>(&mut self, ptr: Ptr<'p, T>) -> Result<T, AccessError> {
                self.get(ptr)
            }

            fn either<T: Persist<'p>, R>(
                &mut self,
                ptr: Ptr<'p, T>,
                _: impl FnOnce(Addr, &mut HeapTx<'_, '_, M>) -> Result<R, TxError>,
                outside: impl FnOnce(Addr, &mut HeapSession<'_, M>) -> Result<R, AccessError>,
            ) -> Result<R, AccessError> {
                let (at, session) = self.place(ptr)?;
                outside(at, session)
            }
        }
    };
}
reads_committed!(Session<'p, '_, M>);
reads_committed!(View<'p, '_, '_, M>);

impl<'p, M: Memory> Access<'p> for Tx<'p, '_, '_, M> {
    type Memory = M;
    type Error = TxError;

    fn read<T: Persist<'p>>(&mut self, ptr: Ptr<'p, T>) -> Result<T, TxError> {
        self.get(ptr)
    }

    fn either<T: Persist<'p>, R>(
        &mut self,
        ptr: Ptr<'p, T>,
        inside: impl FnOnce(Addr, &mut HeapTx<'_, '_, M>) -> Result<R, TxError>,
        _: impl FnOnce(Addr, &mut HeapSession<'_, M>) -> Result<R, AccessError>,
    ) -> Result<R, TxError> {
        let (at, tx) = self.place(ptr)?;
        inside(at, tx)
    }
}

/// Words of a structure's field: loaded with the struct around it, and left alone when that is
/// stored.
macro_rules! field {
    ($Type:ident [$($Part:ident)*], $words:literal) => {
        impl<$($Part: Item + ?Sized),*> Clone for $Type<$($Part),*> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<$($Part: Item + ?Sized),*> Copy for $Type<$($Part),*> {}

        impl<$($Part: Item + ?Sized),*> Default for $Type<$($Part),*> {
            fn default() -> Self {
                Self::EMPTY
            }
        }

        impl<$($Part: Item + ?Sized),*> std::fmt::Debug for $Type<$($Part),*> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($Type)).finish_non_exhaustive()
            }
        }

        impl<$($Part: Item + ?Sized),*> $Type<$($Part),*> {
            /// What a new object has: it stands for an empty one, whatever else is stored there.
            pub const EMPTY: Self = $Type { parts: std::marker::PhantomData };
        }

        impl<'p, $($Part: Item + ?Sized),*> Persist<'p> for $Type<$($Part),*> {
            const SIZE: u64 = 8 * $words;
            const ALIGN: u64 = 8;
            const NAME: u64 = derived::name(stringify!($Type), &[$($Part::NAME),*]);
            const SHAPE: u64 = derived::name(stringify!($Type), &[$($Part::SHAPE),*]);
            const IS_VALUE: bool = false;

            fn name_to(text: &mut String) {
                text.push_str(stringify!($Type));
                let parts: &[fn(&mut String)] = &[$($Part::name_to),*];
                for (number, part) in parts.iter().enumerate() {
                    text.push_str(if number == 0 { "<" } else { ", " });
                    part(text);
                }
                text.push_str(if parts.is_empty() { "" } else { ">" });
            }

            fn load<S: derived::Source>(_: &S, _: Addr) -> Self {
                Self::EMPTY
            }

            fn store<S: derived::Sink>(self, to: &mut S, at: Addr) {
                to.keep(at, Self::SIZE);
            }
        }

        impl<$($Part: Item + ?Sized + 'static),*> Branded for $Type<$($Part),*> {
            type In<'p> = Self;
        }
    };
}
use field;
