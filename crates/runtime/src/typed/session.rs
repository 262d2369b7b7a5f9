//! One thread at work in a typed pool: reads, transactions, and walks over all objects of a type.

use super::access::{self, Seen};
use super::ptr::Brand;
use super::reach::{self, Reach};
use super::types::Types;
use super::{Persist, Ptr, Tx};
use crate::{AccessError, Logging, Pending, TxError};
use seawall_memory::{Addr, Memory};
use std::marker::PhantomData;

/// A thread's handle on a pool: reads, and runs transactions, one at a time. It cannot write
/// outside of a transaction.
pub struct Session<'p, 'm, M: Memory> {
    /// Boxed, as it is large, and comes and goes with the scopes of a [`Thread`](super::Thread).
    session: Box<crate::Session<'m, M>>,
    types: Types,
    brand: Brand<'p>,
}

impl<'p, 'm, M: Memory> Session<'p, 'm, M> {
    pub(super) fn new(session: Box<crate::Session<'m, M>>, types: Types) -> Session<'p, 'm, M> {
        Session { session, types, brand: PhantomData }
    }

    pub(super) fn into_parts(self) -> (Box<crate::Session<'m, M>>, Types) {
        (self.session, self.types)
    }

    /// The memory below.
    pub fn memory(&self) -> &'m M {
        self.session.memory()
    }

    /// Returns a copy of what `ptr` leads to. Objects that other threads write meanwhile can be
    /// seen half written; locking is up to the caller.
    ///
    /// # Errors
    /// [`AccessError::NoData`] when it leads nowhere.
    #[inline]
    pub fn get<T: Persist<'p>>(&self, ptr: Ptr<'p, T>) -> Result<T, AccessError> {
        let at = self.session.place_to_read(access::check(&self.session, ptr)?);
        Ok(T::load(&Seen(&self.session), at))
    }

    /// Runs `body` as a redo transaction; see
    /// [`Session::transaction`](crate::Session::transaction).
    ///
    /// # Errors
    /// What `body` returns; [`TxError::TooLarge`] when it wrote more than the log holds. Nothing
    /// has changed then.
    pub fn transaction<T, E: From<TxError>>(
        &mut self,
        body: impl FnOnce(&mut Tx<'p, '_, 'm, M>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.transaction_with(Logging::Redo, body)
    }

    /// As [`transaction`](Session::transaction), with a choice of logging; see
    /// [`Session::transaction_with`](crate::Session::transaction_with).
    ///
    /// # Errors
    /// As [`transaction`](Session::transaction).
    pub fn transaction_with<T, E: From<TxError>>(
        &mut self,
        logging: Logging,
        body: impl FnOnce(&mut Tx<'p, '_, 'm, M>) -> Result<T, E>,
    ) -> Result<T, E> {
        let types = &mut self.types;
        self.session.transaction_with(logging, |tx| body(&mut Tx::new(tx, types)))
    }

    /// As [`transaction_with`](Session::transaction_with), and again from the start while it fails
    /// with [`TxError::Busy`]; see [`Session::retry`](crate::Session::retry).
    ///
    /// # Errors
    /// As [`transaction`](Session::transaction).
    pub fn retry<T, E: From<TxError>>(
        &mut self,
        kind: Logging,
        mut body: impl FnMut(&mut Tx<'p, '_, 'm, M>) -> Result<T, E>,
    ) -> Result<T, E> {
        let types = &mut self.types;
        self.session.retry(kind, |tx| body(&mut Tx::new(tx, types)))
    }

    /// The current address of `ptr`, and the untyped session: for structures that are fields.
    ///
    /// # Errors
    /// [`AccessError::NoData`] when it leads nowhere.
    #[doc(hidden)]
    pub fn place<T: Persist<'p>>(
        &mut self,
        ptr: Ptr<'p, T>,
    ) -> Result<(Addr, &mut crate::Session<'m, M>), AccessError> {
        let at = self.session.place_to_read(access::check(&self.session, ptr)?);
        Ok((at, &mut self.session))
    }

    /// As [`transaction_with`](Session::transaction_with), but does not wait for the fence; see
    /// [`Session::begin`](crate::Session::begin).
    ///
    /// # Errors
    /// As [`transaction`](Session::transaction).
    pub fn begin<T, E: From<TxError>>(
        &mut self,
        kind: Logging,
        body: impl FnOnce(&mut Tx<'p, '_, 'm, M>) -> Result<T, E>,
    ) -> Result<(T, Pending), E> {
        let types = &mut self.types;
        self.session.begin(kind, |tx| body(&mut Tx::new(tx, types)))
    }

    /// Waits until the transaction, and all that this thread committed before it, is durable.
    pub fn wait(&self, pending: Pending) {
        self.session.wait(pending);
    }

    /// Calls `each` for every live object that was allocated as a `T`, by rising address. No
    /// transaction, and no step of a [`Defragmenter`](crate::defrag::Defragmenter), of any thread
    /// may be in progress.
    ///
    /// # Errors
    /// When the heap's tables are damaged.
    pub fn for_each<T: Persist<'p>>(
        &mut self,
        mut each: impl FnMut(Ptr<'p, T>, T),
    ) -> Result<(), AccessError> {
        let number = self.types.find::<T, M>(&mut self.session)?;
        if number.is_none() {
            return Ok(());
        }
        let session = &self.session;
        session.heap.objects(session.memory, |object| {
            if object.type_number == number && object.bytes >= T::SIZE {
                let at = session.place_of_found(object.at);
                each(Ptr::new(at), T::load(&Seen(session), at));
            }
        })
    }

    /// Follows all pointers from what `from` leads to, usually the root, and reports how many
    /// objects can be reached, which cannot, and which pointers lead nowhere. No transaction of any
    /// thread may be in progress. Changes nothing; takes time and volatile memory for all live
    /// objects.
    ///
    /// ```
    /// use seawall_memory::Image;
    /// use seawall_runtime::typed::{self, Persist, Ptr};
    /// use seawall_runtime::{HeapError, HeapOptions};
    ///
    /// #[derive(Clone, Copy, Persist)]
    /// struct Root<'p> {
    ///     first: Option<Ptr<'p, Node<'p>>>,
    /// }
    ///
    /// #[derive(Clone, Copy, Persist)]
    /// struct Node<'p> {
    ///     next: Option<Ptr<'p, Node<'p>>>,
    /// }
    ///
    /// let options = HeapOptions { threads: 1, ..typed::options::<Root>() };
    /// let memory = Image::new(options.pm_bytes(), options.dram_bytes());
    /// typed::create::<Root, _, _>(&memory, "reach", 7, &options, |pool| {
    ///     let mut session = pool.join(&memory);
    ///     session.transaction(|tx| {
    ///         let last = tx.alloc(Node { next: None })?;
    ///         let first = tx.alloc(Node { next: Some(last) })?;
    ///         tx.set(pool.root().at(Root::FIRST), Some(first))
    ///     })?;
    ///     // And frees neither.
    ///     session.transaction(|tx| tx.set(pool.root().at(Root::FIRST), None))?;
    ///     let found = session.reach(pool.root())?;
    ///     assert_eq!((found.reached, found.lost.len()), (0, 2));
    ///     Ok::<_, HeapError>(())
    /// })?;
    /// # Ok::<(), HeapError>(())
    /// ```
    ///
    /// # Errors
    /// When the heap's tables are damaged; [`AccessError::NoData`] when `from` leads nowhere.
    pub fn reach<T: Persist<'p>>(&self, from: Ptr<'p, T>) -> Result<Reach, AccessError> {
        access::check(&self.session, from)?;
        reach::reach(&self.session, from)
    }

    /// Truncates the logs of all threads; see [`Session::retire`](crate::Session::retire).
    pub fn retire(&mut self) {
        self.session.retire();
    }

    /// Ends the session and returns its free space to all threads.
    pub fn leave(self) {
        self.session.leave();
    }
}
