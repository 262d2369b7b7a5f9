//! A string of any length as a field.

use super::{Access, bytes, field};
use seawall_memory::{Addr, Memory};
use seawall_runtime::HeapError;
use seawall_runtime::typed::{Branded, Persist, Ptr, Tx, derived};
use std::marker::PhantomData;

/// A string: a field of a typed struct, 8 bytes. See [`TextField`] for what it can do.
pub struct Text {
    parts: PhantomData<fn()>,
}

field!(Text [], 1);

/// What a pointer to a [`Text`] can do.
pub trait TextField<'p>: Sized {
    /// The string.
    ///
    /// # Errors
    /// When the pool is damaged.
    fn get<A: Access<'p>>(self, access: &mut A) -> Result<String, HeapError>;

    /// Makes it this one, when the transaction commits.
    ///
    /// # Errors
    /// [`HeapError::Full`] when there is no room, [`HeapError::TooLarge`] when the transaction does
    /// not fit its log.
    fn set<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>, text: &str) -> Result<(), HeapError>;
}

impl<'p> TextField<'p> for Ptr<'p, Text> {
    fn get<A: Access<'p>>(self, access: &mut A) -> Result<String, HeapError> {
        let bytes = access.either(
            self,
            |at, tx| match Addr::from_bits(tx.load(at)) {
                Addr::NULL => Ok(Vec::new()),
                object => bytes::in_tx(tx, object),
            },
            |at, session| match Addr::from_bits(session.load(at)) {
                Addr::NULL => Ok(Vec::new()),
                object => bytes::outside(session, object),
            },
        )?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn set<M: Memory>(self, tx: &mut Tx<'p, '_, '_, M>, text: &str) -> Result<(), HeapError> {
        let (at, tx) = tx.place(self)?;
        let old = Addr::from_bits(tx.load(at));
        let new = if text.is_empty() { Addr::NULL } else { bytes::put(tx, text.as_bytes())? };
        tx.store(at, new)?;
        if old.is_null() { Ok(()) } else { tx.free(old) }
    }
}
