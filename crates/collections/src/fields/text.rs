//! A string of any length as a field.

use super::{Access, Item, bytes, field};
use seawall_memory::{Addr, Memory};
use seawall_runtime::TxError;
use seawall_runtime::typed::{Branded, Persist, Ptr, Tx, derived};
use std::marker::PhantomData;

/// A string: a field of a typed struct, 8 bytes. Its methods are those of [`TextField`].
pub struct Text {
    parts: PhantomData<fn()>,
}

field!(Text [], 1);

/// The methods of a pointer to a [`Text`]. Changes are part of the caller's transaction.
pub trait TextField<'p>: Copy {
    /// Returns the string.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn get<A: Access<'p>>(self, access: &mut A) -> Result<String, A::Error>;

    /// Sets the string.
    ///
    /// # Errors
    /// [`TxError::Full`] when there is no room, [`TxError::TooLarge`] when the transaction does not
    /// fit its log.
    fn set<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>, text: &str) -> Result<(), TxError>;

    /// Changes the string by `change`, which may be any method of `String`:
    /// `name.update(tx, |name| name.push_str(" the second"))`.
    ///
    /// # Errors
    /// As [`set`](TextField::set).
    fn update<M: Memory>(
        self,
        tx: &mut Tx<'p, '_, '_, M>,
        change: impl FnOnce(&mut String),
    ) -> Result<(), TxError> {
        let mut text = self.get(tx)?;
        change(&mut text);
        self.set(tx, &text)
    }
}

impl<'p> TextField<'p> for Ptr<'p, Text> {
    fn get<A: Access<'p>>(self, access: &mut A) -> Result<String, A::Error> {
        Ok(str::decode(bytes::of_field(access, self)?.unwrap_or_default().into()))
    }

    fn set<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>, text: &str) -> Result<(), TxError> {
        bytes::set_field(tx, self, (!text.is_empty()).then_some(text.as_bytes()))
    }
}
