//! Stackful fibers behind one small interface.
//!
//! Simulated hardware threads and explored program threads are ordinary Rust functions that must
//! stop in the middle of a load and go on later. Each runs on a stack of its own; all of them
//! share one OS thread, so nothing here is `Send`, and a lock or a thread-local that is held
//! across [`Pause::pause`] is a bug of the caller.
//!
//! It is not a scheduler: the holder of the fibers decides which one runs next.

#![forbid(unsafe_code)]

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::RefCell;
use std::io;

mod scoped;

pub use scoped::{ScopedFiber, with_fibers};

/// Bytes of stack that a fiber gets by default; untouched pages cost nothing.
pub const STACK_BYTES: usize = 256 * 1024;

/// Stacks of fibers that have ended, kept by each OS thread: an exploration starts some 100,000
/// fibers a second, and the system takes longer for a stack than a short run.
const STACKS_KEPT: usize = 64;

thread_local! {
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

/// A function that can be paused and resumed.
pub struct Fiber {
    /// Always there, until it is dropped.
    coroutine: Option<Coroutine<(), (), ()>>,
    /// Whether the stack is of [`STACK_BYTES`].
    is_usual: bool,
}

/// Given to a fiber's function, so that it can pause itself.
pub struct Pause<'a> {
    yielder: &'a Yielder<(), ()>,
}

impl Pause<'_> {
    /// Stops here; returns when the fiber is resumed.
    #[inline]
    pub fn pause(&self) {
        self.yielder.suspend(());
    }
}

impl Fiber {
    /// A fiber that will run `body` when first resumed.
    ///
    /// # Errors
    /// When the system has no memory for the stack.
    pub fn new(body: impl FnOnce(&Pause<'_>) + 'static) -> io::Result<Fiber> {
        Fiber::with_stack(STACK_BYTES, body)
    }

    /// The same with a stack of `bytes`.
    ///
    /// # Errors
    /// As there.
    pub fn with_stack(bytes: usize, body: impl FnOnce(&Pause<'_>) + 'static) -> io::Result<Fiber> {
        let run = move |yielder: &Yielder<(), ()>, ()| body(&Pause { yielder });
        let coroutine = Coroutine::with_stack(take_stack(bytes)?, run);
        Ok(Fiber { coroutine: Some(coroutine), is_usual: bytes == STACK_BYTES })
    }

    /// Runs until the function pauses (true) or returns (false).
    ///
    /// # Panics
    /// If the function panics, or has already returned.
    #[inline]
    pub fn resume(&mut self) -> bool {
        let coroutine = self.coroutine.as_mut().expect(THERE);
        matches!(coroutine.resume(()), CoroutineResult::Yield(()))
    }

    /// True when the function has returned.
    pub fn is_done(&self) -> bool {
        self.coroutine.as_ref().expect(THERE).done()
    }
}

const THERE: &str = "a fiber has a coroutine until it is dropped";

/// Unwinds the function if it has not returned, and keeps the stack for another fiber.
impl Drop for Fiber {
    fn drop(&mut self) {
        let Some(mut coroutine) = self.coroutine.take() else { return };
        coroutine.force_unwind();
        if self.is_usual {
            keep_stack(coroutine.into_stack());
        }
    }
}

/// Makes stacks for so many fibers of this OS thread, as far as they are kept and the system has
/// memory for them; a copy of this process has them, too.
pub fn prepare(fibers: usize) {
    let stacks = (0..fibers.min(STACKS_KEPT)).map_while(|_| take_stack(STACK_BYTES).ok());
    stacks.collect::<Vec<_>>().into_iter().for_each(keep_stack);
}

/// A stack that an earlier fiber has left, or a new one.
fn take_stack(bytes: usize) -> io::Result<DefaultStack> {
    let is_usual = bytes == STACK_BYTES;
    let kept = STACKS.with_borrow_mut(|stacks| is_usual.then(|| stacks.pop()).flatten());
    kept.map_or_else(|| DefaultStack::new(bytes), Ok)
}

/// Keeps a stack of the usual size for another fiber.
fn keep_stack(stack: DefaultStack) {
    let keep = |stacks: &RefCell<Vec<DefaultStack>>| {
        let mut stacks = stacks.borrow_mut();
        if stacks.len() < STACKS_KEPT {
            stacks.push(stack);
        }
    };
    // At the end of the OS thread there may be nothing left to keep it in.
    let _ = STACKS.try_with(keep);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    #[test]
    fn fibers_take_turns_and_finish() {
        let log = Rc::new(RefCell::new(Vec::new()));
        let mut fibers: Vec<Fiber> = (0..2)
            .map(|id| {
                let log = log.clone();
                Fiber::new(move |pause| {
                    for turn in 0..2 {
                        log.borrow_mut().push((id, turn));
                        pause.pause();
                    }
                })
                .unwrap()
            })
            .collect();
        while fibers.iter().any(|fiber| !fiber.is_done()) {
            for fiber in fibers.iter_mut().filter(|fiber| !fiber.is_done()) {
                fiber.resume();
            }
        }
        assert_eq!(*log.borrow(), [(0, 0), (1, 0), (0, 1), (1, 1)]);
    }

    #[test]
    fn a_fiber_that_is_dropped_in_the_middle_unwinds_its_stack() {
        let dropped = Rc::new(RefCell::new(false));
        struct Flag(Rc<RefCell<bool>>);
        impl Drop for Flag {
            fn drop(&mut self) {
                *self.0.borrow_mut() = true;
            }
        }
        let flag = Flag(dropped.clone());
        let mut fiber = Fiber::new(move |pause| {
            let _flag = flag;
            pause.pause();
        })
        .unwrap();
        assert!(fiber.resume());
        drop(fiber);
        assert!(*dropped.borrow());
    }

    #[test]
    #[should_panic(expected = "from inside")]
    fn a_panic_inside_reaches_whoever_resumed() {
        Fiber::new(|_| panic!("from inside")).unwrap().resume();
    }

    #[test]
    fn a_stack_that_the_system_has_no_memory_for_is_an_error() {
        let fiber = Fiber::with_stack(1 << 60, |_| {});
        assert_eq!(fiber.err().map(|error| error.kind()), Some(io::ErrorKind::OutOfMemory));
    }
}
