//! Fibers that may borrow from whoever drives them: they live no longer than the call.

use crate::{Pause, STACK_BYTES, keep_stack, take_stack};
use corosensei::{CoroutineResult, ScopedCoroutine, Yielder};
use std::io;

/// A fiber within [`with_fibers`].
pub struct ScopedFiber<'a> {
    resume: Box<dyn FnMut() -> bool + 'a>,
    is_done: bool,
}

impl ScopedFiber<'_> {
    /// Runs until the function pauses (true) or returns (false).
    ///
    /// # Panics
    /// If the function panics, or has already returned.
    pub fn resume(&mut self) -> bool {
        self.is_done = !(self.resume)();
        !self.is_done
    }

    /// True when the function has returned.
    pub fn is_done(&self) -> bool {
        self.is_done
    }
}

/// Calls `drive` with `count` fibers, of which number `n` runs `body(n, ..)`. Those that have not
/// returned when `drive` does are unwound.
///
/// # Errors
/// When the system has no memory for a stack; `drive` is not called then.
pub fn with_fibers<T>(
    count: usize,
    body: &dyn Fn(usize, &Pause<'_>),
    drive: impl FnOnce(&mut [ScopedFiber<'_>]) -> T,
) -> io::Result<T> {
    let mut result = None;
    let mut once = Some(drive);
    nest(count, body, Vec::new(), &mut |fibers| result = once.take().map(|drive| drive(fibers)))?;
    Ok(result.expect("the last level drives the fibers"))
}

/// One level for each fiber, as each may be used within its own scope only.
fn nest(
    count: usize,
    body: &dyn Fn(usize, &Pause<'_>),
    mut fibers: Vec<ScopedFiber<'_>>,
    drive: &mut dyn FnMut(&mut [ScopedFiber<'_>]),
) -> io::Result<()> {
    let number = fibers.len();
    if number == count {
        drive(&mut fibers);
        return Ok(());
    }
    let mut stack = take_stack(STACK_BYTES)?;
    let run = move |yielder: &Yielder<(), ()>, ()| body(number, &Pause { yielder });
    let fiber = ScopedCoroutine::with_stack(&mut stack, run);
    let nested = fiber.scope(|mut fiber| {
        let resume = move || matches!(fiber.resume(()), CoroutineResult::Yield(()));
        let mut fibers: Vec<ScopedFiber<'_>> = fibers;
        fibers.push(ScopedFiber { resume: Box::new(resume), is_done: false });
        nest(count, body, fibers, drive)
    });
    keep_stack(stack);
    nested
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn scoped_fibers_take_turns_on_what_they_borrow() {
        let log = RefCell::new(Vec::new());
        let body = |number: usize, pause: &Pause<'_>| {
            for turn in 0..2 {
                log.borrow_mut().push((number, turn));
                pause.pause();
            }
        };
        let turns = with_fibers(2, &body, |fibers| {
            let mut turns = 0;
            while fibers.iter().any(|fiber| !fiber.is_done()) {
                for fiber in fibers.iter_mut().filter(|fiber| !fiber.is_done()) {
                    fiber.resume();
                    turns += 1;
                }
            }
            turns
        });
        assert_eq!(turns.unwrap(), 6);
        assert_eq!(*log.borrow(), [(0, 0), (1, 0), (0, 1), (1, 1)]);
    }

    #[test]
    fn scoped_fibers_that_have_not_returned_are_unwound() {
        struct Count<'a>(&'a RefCell<u32>);
        impl Drop for Count<'_> {
            fn drop(&mut self) {
                *self.0.borrow_mut() += 1;
            }
        }
        let dropped = RefCell::new(0);
        let body = |_: usize, pause: &Pause<'_>| {
            let _count = Count(&dropped);
            pause.pause();
        };
        with_fibers(3, &body, |fibers| {
            assert!(fibers[0].resume());
            assert!(fibers[2].resume());
            assert_eq!(*dropped.borrow(), 0);
        })
        .unwrap();
        assert_eq!(*dropped.borrow(), 2);
    }
}
