//! A thread that enters a typed pool for one scope at a time: its state is kept, pointers are not.

use super::types::Types;
use super::{Branded, Ptr, Session, changes};
use crate::defrag::{DefragError, Defragmenter, Step};
use crate::{Heap, HeapError};
use seawall_memory::Memory;
use std::marker::PhantomData;

/// A thread's place in a pool with a root of type `R`, between its [scopes](Thread::enter).
///
/// Where objects can move, a long-running program uses a pool in this way: it enters a scope for
/// each request, and memory that defragmentation has emptied is freed when the scopes that were
/// open have ended. Elsewhere [`Pool::join`](super::Pool::join) does as well.
///
/// ```
/// use seawall_memory::Image;
/// use seawall_runtime::defrag::{DefragOptions, Defragmenter};
/// use seawall_runtime::typed::{self, Persist, Ptr};
/// use seawall_runtime::{HeapError, HeapOptions};
///
/// #[derive(Clone, Copy, Persist)]
/// struct Stack<'p> {
///     top: Option<Ptr<'p, Plate<'p>>>,
/// }
///
/// #[derive(Clone, Copy, Persist)]
/// struct Plate<'p> {
///     number: u64,
///     below: Option<Ptr<'p, Plate<'p>>>,
/// }
///
/// let defragment = true;
/// let options = HeapOptions { threads: 1, defragment, ..typed::options::<Stack>() };
/// let memory = Image::new(options.pm_bytes(), options.dram_bytes());
/// let heap = typed::create::<Stack, _, HeapError>(&memory, "stack", 1, &options, |pool| {
///     Ok(pool.heap())
/// })?;
/// let mut thread = typed::Thread::<Stack, _>::join(heap, &memory)?;
/// let mut defragmenter = Defragmenter::of::<Stack>(DefragOptions::default())?;
/// for number in 0..1000 {
///     thread.enter(|session, root| {
///         session.transaction(|tx| {
///             let mut below = tx.get(root.at(Stack::TOP))?;
///             if let Some(plate) = below.filter(|_| number % 10 > 0) {
///                 below = tx.get(plate)?.below; // of ten plates the last one stays
///                 tx.free(plate)?;
///             }
///             let plate = tx.alloc(Plate { number, below })?;
///             tx.set(root.at(Stack::TOP), Some(plate))
///         })
///     })?;
///     thread.defragment(&mut defragmenter)?; // a small step, if there is anything to do
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Thread<'m, R, M: Memory> {
    parts: Option<(Box<crate::Session<'m, M>>, Types)>,
    root: PhantomData<fn() -> R>,
}

/// A [`Thread`] that is suspended.
pub struct Suspended<R> {
    session: crate::heap::session::Suspended,
    types: Types,
    root: PhantomData<fn() -> R>,
}

impl<R> std::fmt::Debug for Suspended<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Suspended").finish_non_exhaustive()
    }
}

impl<R, M: Memory> std::fmt::Debug for Thread<'_, R, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Thread").finish_non_exhaustive()
    }
}

impl<'m, R: Branded, M: Memory> Thread<'m, R, M> {
    /// Joins the heap as the calling thread, whose number is that of `memory`; see [`Heap::join`].
    ///
    /// # Errors
    /// [`HeapError::Shape`] when the root of the heap is no `R`.
    ///
    /// # Panics
    /// As [`Heap::join`].
    pub fn join(heap: Heap, memory: &'m M) -> Result<Self, HeapError> {
        changes::check::<R, _>(&heap, memory)?;
        Ok(Thread {
            parts: Some((Box::new(heap.join(memory)), Types::default())),
            root: PhantomData,
        })
    }

    /// Continues a thread that was suspended in this heap, on any OS thread; joins as a new one if
    /// another thread has joined under its number since.
    ///
    /// # Panics
    /// As [`join`](Thread::join).
    pub fn resume(heap: Heap, memory: &'m M, before: Suspended<R>) -> Self {
        let session = crate::Session::resume(memory, heap, before.session);
        Thread { parts: Some((Box::new(session), before.types)), root: PhantomData }
    }

    /// Detaches from the OS thread, to be [resumed](Thread::resume); `None` if another thread has
    /// joined under its number. Dropping the result is like dropping the thread.
    pub fn suspend(mut self) -> Option<Suspended<R>> {
        let (session, types) = self.parts.take().expect(THERE);
        Some(Suspended { session: session.suspend()?, types, root: PhantomData })
    }

    /// Runs `body` in a scope: pointers live no longer than the call.
    ///
    /// # Errors
    /// What `body` returns.
    pub fn enter<T, E>(
        &mut self,
        body: impl for<'p> FnOnce(&mut Session<'p, 'm, M>, Ptr<'p, R::In<'p>>) -> Result<T, E>,
    ) -> Result<T, E> {
        let (mut session, types) = self.parts.take().expect(THERE);
        session.begin_scope();
        let root = Ptr::new(session.heap.root());
        let session = Some(Session::new(session, types));
        let mut inside = Inside { thread: self, session };
        body(inside.session.as_mut().expect(THERE), root)
    }

    /// Runs a step of defragmentation on this thread, which is in no scope.
    ///
    /// # Errors
    /// As [`Defragmenter::step`].
    pub fn defragment(&mut self, defragmenter: &mut Defragmenter) -> Result<Step, DefragError> {
        defragmenter.step(self.untyped())
    }

    /// The untyped session.
    pub fn untyped(&mut self) -> &mut crate::Session<'m, M> {
        &mut self.parts.as_mut().expect(THERE).0
    }

    /// Ends the session and returns its free space to all threads.
    pub fn leave(mut self) {
        self.parts.take().expect(THERE).0.leave();
    }
}

const THERE: &str = "it is away only while its thread is in a scope";

/// A thread in a scope; dropping this ends the scope.
struct Inside<'t, 'p, 'm, R, M: Memory> {
    thread: &'t mut Thread<'m, R, M>,
    session: Option<Session<'p, 'm, M>>,
}

impl<R, M: Memory> Drop for Inside<'_, '_, '_, R, M> {
    fn drop(&mut self) {
        let (mut session, types) = self.session.take().expect(THERE).into_parts();
        // A machine that ends with this thread accepts no more accesses.
        if !std::thread::panicking() || session.memory.slots().is_some() {
            session.end_scope();
        }
        self.thread.parts = Some((session, types));
    }
}
