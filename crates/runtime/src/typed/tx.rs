//! A typed transaction: the only way to change a pool.

use super::access;
use super::ptr::Brand;
use super::types::Types;
use super::{Persist, Ptr};
use crate::alloc::coalesce::Wanted;
use crate::tx::changed::Changed;
use crate::{Logging, TxError};
use seawall_memory::{Addr, Memory};
use std::marker::PhantomData;

/// A transaction in progress on the pool of brand `'p`.
///
/// Its changes, allocations and frees take effect atomically when it commits; it sees its own
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

    /// Which values the transaction logs.
    pub fn kind(&self) -> Logging {
        self.tx.kind()
    }

    /// What the transaction has changed so far.
    #[doc(hidden)]
    pub fn changed(&self) -> Changed {
        self.tx.changed()
    }

    /// The current address of `ptr`, and the untyped transaction: for structures that are fields.
    ///
    /// # Errors
    /// [`NoData`](crate::AccessError::NoData) when it leads nowhere.
    #[doc(hidden)]
    pub fn place<T: Persist<'p>>(
        &mut self,
        ptr: Ptr<'p, T>,
    ) -> Result<(Addr, &mut crate::Tx<'t, 'm, M>), TxError> {
        let at = self.tx.session.place_to_write(access::check(self.tx.session, ptr)?);
        Ok((at, &mut self.tx))
    }

    /// Returns a copy of what `ptr` leads to, as this transaction sees it.
    ///
    /// # Errors
    /// [`NoData`](crate::AccessError::NoData) when it leads nowhere.
    #[inline]
    pub fn get<T: Persist<'p>>(&self, ptr: Ptr<'p, T>) -> Result<T, TxError> {
        let at = self.tx.session.place_to_read(access::check(self.tx.session, ptr)?);
        Ok(T::load(&access::Within(&self.tx), at))
    }

    /// Stores `value` where `ptr` leads: a whole object, a field, an element. An undo transaction
    /// logs all of its old words with one fence.
    ///
    /// # Errors
    /// [`NoData`](crate::AccessError::NoData) when it leads nowhere; [`TxError::TooLarge`] when the
    /// undo log is full.
    #[inline]
    pub fn set<T: Persist<'p>>(&mut self, ptr: Ptr<'p, T>, value: T) -> Result<(), TxError> {
        let at = self.tx.session.place_to_write(access::check(self.tx.session, ptr)?);
        access::put(&mut self.tx, at, value)
    }

    /// Replaces what `ptr` leads to by the result of `change`.
    ///
    /// # Errors
    /// As [`set`](Tx::set).
    #[inline]
    pub fn update<T: Persist<'p>>(
        &mut self,
        ptr: Ptr<'p, T>,
        change: impl FnOnce(T) -> T,
    ) -> Result<(), TxError> {
        let value = change(self.get(ptr)?);
        self.set(ptr, value)
    }

    /// Allocates an object and fills it with `value`. The first object of a type in a heap costs a
    /// small transaction of its own, which numbers the type and stays if this one does not commit.
    ///
    /// # Errors
    /// [`TxError::Full`] when there is no room and the pool cannot grow; [`TxError::Types`] when
    /// the heap has 126 types already; [`TxError::Shape`] when a type of this shape has another
    /// size there.
    #[inline]
    pub fn alloc<T: Persist<'p>>(&mut self, value: T) -> Result<Ptr<'p, T>, TxError> {
        let Wanted { bytes, lines, tag } = self.wanted::<T>()?;
        let at = self.tx.alloc_tagged(bytes, lines, tag)?;
        access::fill(&mut self.tx, at, value)?;
        Ok(Ptr::new(at))
    }

    /// Allocates two objects back to back, on as few lines as possible, and fills them: what
    /// changes together is then flushed together. [`alloc_near`](Tx::alloc_near) adds more objects
    /// to them.
    ///
    /// The placement is best effort: in a heap that was made without
    /// [`HeapOptions::together`](crate::HeapOptions::together), for objects of more than
    /// [`TOGETHER_BYTES_MAX`](crate::TOGETHER_BYTES_MAX) bytes in all, and where one must start at
    /// a line, they are allocated one by one.
    ///
    /// # Errors
    /// As [`alloc`](Tx::alloc); then none was allocated.
    pub fn alloc_together<A: Persist<'p>, B: Persist<'p>>(
        &mut self,
        first: A,
        second: B,
    ) -> Result<(Ptr<'p, A>, Ptr<'p, B>), TxError> {
        let wanted = [self.wanted::<A>()?, self.wanted::<B>()?];
        let [at, behind] = self.tx.alloc_wanted_together(wanted)?;
        access::fill(&mut self.tx, at, first)?;
        access::fill(&mut self.tx, behind, second)?;
        Ok((Ptr::new(at), Ptr::new(behind)))
    }

    /// Allocates an object on the lines of the object at `near`, or right behind it, and fills it
    /// with `value`. It is an object of its own, freed by itself. There can be room near objects
    /// that were allocated in this way or [together](Tx::alloc_together), by this thread or by one
    /// that is no longer at work. Elsewhere this is [`alloc`](Tx::alloc).
    ///
    /// A value that is replaced stays on the line of the entry that points to it:
    ///
    /// ```
    /// use seawall_memory::Image;
    /// use seawall_runtime::typed::{self, Bytes, Persist, Ptr};
    /// use seawall_runtime::{HeapError, HeapOptions, TxError};
    ///
    /// #[derive(Clone, Copy, Persist)]
    /// struct Root<'p> {
    ///     entry: Option<Ptr<'p, Entry<'p>>>,
    /// }
    ///
    /// #[derive(Clone, Copy, Persist)]
    /// struct Entry<'p> {
    ///     value: Option<Ptr<'p, Bytes<16>>>,
    ///     changes: u64,
    /// }
    ///
    /// let options = HeapOptions { together: true, ..typed::options::<Root>() };
    /// let memory = Image::new(options.pm_bytes(), options.dram_bytes());
    /// typed::create::<Root, _, _>(&memory, "near", 7, &options, |pool| {
    ///     let mut session = pool.join(&memory);
    ///     let (entry, old) = session.transaction(|tx| {
    ///         let new = Entry { value: None, changes: 0 };
    ///         let (entry, value) = tx.alloc_together(new, Bytes(*b"the first value."))?;
    ///         tx.set(entry.at(Entry::VALUE), Some(value))?;
    ///         tx.set(pool.root().at(Root::ENTRY), Some(entry))?;
    ///         Ok::<_, TxError>((entry, value))
    ///     })?;
    ///     let value = session.transaction(|tx| {
    ///         let value = tx.alloc_near(entry, Bytes(*b"another value..."))?;
    ///         tx.set(entry, Entry { value: Some(value), changes: 1 })?;
    ///         tx.free(old)?;
    ///         Ok::<_, TxError>(value)
    ///     })?;
    ///     assert_eq!(value.addr().line(), entry.addr().line());
    ///     Ok::<_, HeapError>(())
    /// })?;
    /// # Ok::<(), HeapError>(())
    /// ```
    ///
    /// # Errors
    /// As [`alloc`](Tx::alloc), and [`TxError::NoObject`] when no object starts at `near`.
    pub fn alloc_near<T: Persist<'p>, N: Persist<'p>>(
        &mut self,
        near: Ptr<'p, N>,
        value: T,
    ) -> Result<Ptr<'p, T>, TxError> {
        let wanted = self.wanted::<T>()?;
        let near = self.tx.session.place_to_read(near.addr());
        let at = self.tx.alloc_wanted_near(near, wanted)?;
        access::fill(&mut self.tx, at, value)?;
        Ok(Ptr::new(at))
    }

    fn wanted<T: Persist<'p>>(&mut self) -> Result<Wanted, TxError> {
        let tag = self.types.number::<T, M>(self.tx.session)?;
        Ok(Wanted { bytes: T::SIZE, lines: T::ALIGN > 8, tag })
    }

    /// Frees the object that `ptr` leads to when the transaction commits. No pointer may lead to it
    /// then.
    ///
    /// # Errors
    /// [`TxError::NoObject`] when no object starts there, as in the middle of one, or it was freed
    /// before; [`TxError::Shape`] when it was allocated as another type.
    pub fn free<T: Persist<'p>>(&mut self, ptr: Ptr<'p, T>) -> Result<(), TxError> {
        self.tx.session.check_process()?;
        let at = self.tx.session.place_to_write(ptr.addr());
        let (block, number) = self.tx.object(at)?;
        if self.types.find::<T, M>(self.tx.session)? != Some(number) {
            return Err(TxError::Shape { what: format!("the object at {at}") });
        }
        self.tx.free_block(block);
        Ok(())
    }

    /// Whether `ptr` leads to the start of a live object that was allocated as a `T`.
    ///
    /// # Errors
    /// When the heap's tables are damaged.
    pub fn is_live<T: Persist<'p>>(&mut self, ptr: Ptr<'p, T>) -> Result<bool, TxError> {
        self.tx.session.check_process()?;
        match self.tx.object(self.tx.session.place_to_read(ptr.addr())) {
            Ok((_, number)) => Ok(self.types.find::<T, M>(self.tx.session)? == Some(number)),
            Err(TxError::NoObject { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Runs `inner` as a nested transaction: if it fails, its changes, allocations and frees are
    /// rolled back, and this transaction goes on.
    ///
    /// # Errors
    /// What `inner` returns.
    pub fn nested<T, E>(
        &mut self,
        inner: impl FnOnce(&mut Tx<'p, '_, 'm, M>) -> Result<T, E>,
    ) -> Result<T, E> {
        let types = &mut *self.types;
        self.tx.nested(|tx| inner(&mut Tx::new(tx, types)))
    }
}
