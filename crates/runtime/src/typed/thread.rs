//! A thread that is in a typed pool now and then: what it knows is kept, pointers are not.

use super::types::Types;
use super::{Branded, Ptr, Session, changes};
use crate::defrag::{DefragError, Defragmenter, Step};
use crate::{Heap, HeapError};
use seawall_memory::Memory;
use std::marker::PhantomData;

/// A thread's place in a pool with a root of type `R`, between its [scopes](Thread::enter).
///
/// Where objects may move, this is how a program that runs for long uses a pool: it enters for each
/// request, and what defragmentation has freed comes back when those scopes have ended that were
/// open. Elsewhere it is as good as [`Pool::join`](super::Pool::join).
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

/// A [`Thread`] between two times at work.
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
    /// The handle of the calling thread (its number is that of `memory`), which is the only one of
    /// that number; see [`Heap::join`].
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

    /// Goes on as a thread that was suspended in this heap, on any thread of the system; as a new
    /// one if another has joined under its number since.
    ///
    /// # Panics
    /// As [`join`](Thread::join).
    pub fn resume(heap: Heap, memory: &'m M, before: Suspended<R>) -> Self {
        let session = crate::Session::resume(memory, heap, before.session);
        Thread { parts: Some((Box::new(session), before.types)), root: PhantomData }
    }

    /// Leaves the thread of the system with all that it knows, to be [resumed](Thread::resume);
    /// none if another has joined under its number. Dropping what this returns is as dropping the
    /// thread.
    pub fn suspend(mut self) -> Option<Suspended<R>> {
        let (session, types) = self.parts.take().expect(THERE);
        Some(Suspended { session: session.suspend()?, types, root: PhantomData })
    }

    /// Runs `body` in a scope: pointers live no longer than the call.
    ///
    /// # Errors
    /// What `body` gives.
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

    /// Lets this thread, which is in no scope, take a step of defragmentation.
    ///
    /// # Errors
    /// As [`Defragmenter::step`].
    pub fn defragment(&mut self, defragmenter: &mut Defragmenter) -> Result<Step, DefragError> {
        defragmenter.step(self.untyped())
    }

    /// The session below, for what needs no types.
    pub fn untyped(&mut self) -> &mut crate::Session<'m, M> {
        &mut self.parts.as_mut().expect(THERE).0
    }

    /// Gives the free space that this thread had to the others.
    pub fn leave(mut self) {
        self.parts.take().expect(THERE).0.leave();
    }
}

const THERE: &str = "it is away only while its thread is in a scope";

/// A thread in a scope, which ends when this is dropped.
struct Inside<'t, 'p, 'm, R, M: Memory> {
    thread: &'t mut Thread<'m, R, M>,
    session: Option<Session<'p, 'm, M>>,
}

impl<R, M: Memory> Drop for Inside<'_, '_, '_, R, M> {
    fn drop(&mut self) {
        let (mut session, types) = self.session.take().expect(THERE).into_parts();
        // A machine that ends with this thread takes no more accesses.
        if !std::thread::panicking() || session.memory.slots().is_some() {
            session.end_scope();
        }
        self.thread.parts = Some((session, types));
    }
}
