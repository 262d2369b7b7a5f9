//! A typed transaction: the only way to change a pool.

use super::access;
use super::ptr::Brand;
use super::types::Types;
use super::{Persist, Ptr};
use crate::{HeapError, TxKind};
use seawall_memory::Memory;
use std::marker::PhantomData;

/// A transaction in progress on the pool of brand `'p`.
///
/// What it changes, allocates and frees happens when it commits, all or none; it sees its own
/// changes at once.
pub struct Tx<'p, 't, 'm, M: Memory> {
    tx: crate::Tx<'t, 'm, M>,
    types: &'t mut Types,
    brand: Brand<'p>,
}

impl<'p, 't, 'm, M: Memory> Tx<'p, 't, 'm, M> {
    pub(crate) fn new(tx: &'t mut crate::Tx<'_, 'm, M>, types: &'t mut Types) -> Self {
        let kind = tx.kind;
        Tx { tx: crate::Tx { session: &mut *tx.session, kind }, types, brand: PhantomData }
    }

    /// Which values it logs.
    pub fn kind(&self) -> TxKind {
        self.tx.kind()
    }

    /// The memory below.
    pub fn memory(&self) -> &M {
        self.tx.memory()
    }

    /// A copy of what `ptr` leads to, as this transaction sees it.
    ///
    /// # Errors
    /// [`HeapError::NoData`] when it leads nowhere.
    #[inline]
    pub fn get<T: Persist<'p>>(&self, ptr: Ptr<'p, T>) -> Result<T, HeapError> {
        let at = access::check(self.tx.session, ptr)?;
        Ok(T::load(&access::Within(&self.tx), at))
    }

    /// Stores `value` where `ptr` leads: a whole object, a field, an element. An undo transaction
    /// logs all of its old words with one fence.
    ///
    /// # Errors
    /// [`HeapError::NoData`] when it leads nowhere; [`HeapError::TooLarge`] when the log of old
    /// values is full.
    #[inline]
    pub fn set<T: Persist<'p>>(&mut self, ptr: Ptr<'p, T>, value: T) -> Result<(), HeapError> {
        let at = access::check(self.tx.session, ptr)?;
        access::put(&mut self.tx, at, value)
    }

    /// Replaces what `ptr` leads to by what `change` makes of it.
    ///
    /// # Errors
    /// As [`set`](Tx::set).
    #[inline]
    pub fn update<T: Persist<'p>>(
        &mut self,
        ptr: Ptr<'p, T>,
        change: impl FnOnce(T) -> T,
    ) -> Result<(), HeapError> {
        let value = change(self.get(ptr)?);
        self.set(ptr, value)
    }

    /// Allocates an object and fills it with `value`. The first of its type in a heap costs a small
    /// transaction of its own, which names the type and stays if this one does not commit.
    ///
    /// # Errors
    /// [`HeapError::Full`] when there is no room and the pool cannot grow; [`HeapError::Types`]
    /// when the heap has 126 types already; [`HeapError::Shape`] when a type of this shape has
    /// another size there.
    #[inline]
    pub fn alloc<T: Persist<'p>>(&mut self, value: T) -> Result<Ptr<'p, T>, HeapError> {
        let number = self.types.number::<T, M>(self.tx.session)?;
        let at = self.tx.alloc_tagged(T::SIZE, T::ALIGN > 8, number)?;
        access::fill(&mut self.tx, at, value)?;
        Ok(Ptr::new(at))
    }

    /// Frees the object that `ptr` leads to, when the transaction commits. Nothing may point to it
    /// then.
    ///
    /// # Errors
    /// [`HeapError::NoObject`] when no object starts there, as in the middle of one, or it was
    /// freed before; [`HeapError::Shape`] when it was allocated as another type.
    pub fn free<T: Persist<'p>>(&mut self, ptr: Ptr<'p, T>) -> Result<(), HeapError> {
        let at = ptr.addr();
        let (block, number) = self.tx.object(at)?;
        if self.types.find::<T, M>(self.tx.session)? != Some(number) {
            return Err(HeapError::Shape { what: format!("the object at {at}") });
        }
        self.tx.free_block(block);
        Ok(())
    }

    /// True if `ptr` leads to the start of a live object that was allocated as a `T`.
    ///
    /// # Errors
    /// When the heap's tables are damaged.
    pub fn is_live<T: Persist<'p>>(&mut self, ptr: Ptr<'p, T>) -> Result<bool, HeapError> {
        match self.tx.object(ptr.addr()) {
            Ok((_, number)) => Ok(self.types.find::<T, M>(self.tx.session)? == Some(number)),
            Err(HeapError::NoObject { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Runs `inner` as a transaction within this one: if it fails, what it changed, allocated and
    /// freed is as before, and this one goes on.
    ///
    /// # Errors
    /// What `inner` gives.
    pub fn nested<T, E>(
        &mut self,
        inner: impl FnOnce(&mut Tx<'p, '_, 'm, M>) -> Result<T, E>,
    ) -> Result<T, E> {
        let types = &mut *self.types;
        self.tx.nested(|tx| inner(&mut Tx::new(tx, types)))
    }
}
