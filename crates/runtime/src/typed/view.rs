//! What a read is lent: it reads as a [`Session`] does, and can do nothing else.

use super::{Persist, Ptr, Reach, Session};
use crate::AccessError;
use seawall_memory::{Addr, Memory};

/// A thread's view of what is committed in a pool. Whoever lends it decides what others may change
/// meanwhile.
pub struct View<'p, 's, 'm, M: Memory> {
    session: &'s mut Session<'p, 'm, M>,
}

impl<'p, 'm, M: Memory> View<'p, '_, 'm, M> {
    /// What this session reads.
    pub fn of<'s>(session: &'s mut Session<'p, 'm, M>) -> View<'p, 's, 'm, M> {
        View { session }
    }

    /// Returns a copy of what `ptr` leads to; see [`Session::get`].
    ///
    /// # Errors
    /// [`AccessError::NoData`] when it leads nowhere.
    #[inline]
    pub fn get<T: Persist<'p>>(&self, ptr: Ptr<'p, T>) -> Result<T, AccessError> {
        self.session.get(ptr)
    }

    /// Calls `each` for every live object that was allocated as a `T`; see [`Session::for_each`].
    ///
    /// # Errors
    /// As there.
    pub fn for_each<T: Persist<'p>>(
        &mut self,
        each: impl FnMut(Ptr<'p, T>, T),
    ) -> Result<(), AccessError> {
        self.session.for_each(each)
    }

    /// Follows all pointers from what `from` leads to; see [`Session::reach`].
    ///
    /// # Errors
    /// As there.
    pub fn reach<T: Persist<'p>>(&self, from: Ptr<'p, T>) -> Result<Reach, AccessError> {
        self.session.reach(from)
    }

    /// The current address of `ptr`, and the untyped session: for structures that are fields.
    ///
    /// # Errors
    /// As [`get`](View::get).
    #[doc(hidden)]
    pub fn place<T: Persist<'p>>(
        &mut self,
        ptr: Ptr<'p, T>,
    ) -> Result<(Addr, &mut crate::Session<'m, M>), AccessError> {
        self.session.place(ptr)
    }
}
