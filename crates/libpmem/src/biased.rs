//! A lock that costs its owner two stores and a load.
//!
//! A locked instruction between flushes would wait for each of them, as a fence does. So the owner
//! of a value executes none: it notes that it is inside, and looks whether somebody else wants the
//! value. Somebody else notes that, has the system execute a fence on all processors where the
//! process runs (membarrier), and looks whether the owner is inside. The fence comes before the
//! owner's note, after its look, or between them: one of both sees what the other has noted.

use crate::system;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicBool, compiler_fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A value that one thread uses often, and others seldom. On lines of its own.
#[repr(align(128))]
#[derive(Default)]
pub(crate) struct Biased<T> {
    is_inside: AtomicBool,
    is_wanted: AtomicBool,
    /// Whether there is an owner. Held by whoever uses the value without being it.
    others: Mutex<bool>,
    value: UnsafeCell<T>,
}

// SAFETY: the owner uses the value only while nobody else does, as the head of the file says; the
// others exclude each other by the mutex.
unsafe impl<T: Send> Sync for Biased<T> {}

/// A thread's right to use the value as its owner; it stays on that thread.
pub(crate) struct Owner<T: 'static> {
    of: &'static Biased<T>,
    stays: PhantomData<*const ()>,
}

impl<T> Biased<T> {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes this thread the owner, if there is none.
    pub(crate) fn own(&'static self) -> Option<Owner<T>> {
        let has_owner = std::mem::replace(&mut *self.lock(), true);
        (!has_owner).then_some(Owner { of: self, stays: PhantomData })
    }

    /// Does `act` while the owner is outside, who must not be this thread, inside.
    pub(crate) fn by_other<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        let has_owner = self.lock();
        self.keep_out(*has_owner);
        while self.is_inside.load(Acquire) {
            std::thread::yield_now();
        }
        // SAFETY: the mutex is held, the owner outside, and kept out.
        let done = act(unsafe { &mut *self.value.get() });
        self.is_wanted.store(false, Release);
        done
    }

    /// The same, unless somebody does not come out within so many looks.
    pub(crate) fn try_by_other(&self, looks: usize, act: impl FnOnce(&mut T)) {
        let mut again = (0..looks).inspect(|_| std::thread::yield_now());
        let Some(has_owner) = again.find_map(|_| self.others.try_lock().ok()) else { return };
        self.keep_out(*has_owner);
        if again.any(|_| !self.is_inside.load(Acquire)) {
            // SAFETY: as above.
            act(unsafe { &mut *self.value.get() });
        }
        self.is_wanted.store(false, Release);
    }

    /// An owner who is outside does not come in from here on.
    fn keep_out(&self, has_owner: bool) {
        self.is_wanted.store(true, SeqCst);
        if has_owner {
            system::fence_everywhere();
        }
    }
}

impl<T> Owner<T> {
    /// Does `act`; not where that call has interrupted one that does.
    #[inline]
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> Option<R> {
        let Biased { is_inside, is_wanted, value, .. } = self.of;
        if is_inside.load(Relaxed) {
            return None;
        }
        loop {
            is_inside.store(true, Relaxed);
            compiler_fence(SeqCst);
            if !is_wanted.load(Acquire) {
                break;
            }
            is_inside.store(false, Release);
            drop(self.of.lock());
        }
        // SAFETY: this is the only owner, inside once, and nobody else comes in before it is out.
        let done = act(unsafe { &mut *value.get() });
        is_inside.store(false, Release);
        Some(done)
    }
}

impl<T> Drop for Owner<T> {
    fn drop(&mut self) {
        *self.of.lock() = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_increment_of_the_owner_or_of_another_is_lost() {
        const ROUNDS: u64 = 3000;
        assert!(system::can_fence_everywhere());
        let counter: &'static Biased<u64> = Box::leak(Box::default());
        let ends: &'static AtomicBool = Box::leak(Box::default());
        let owner = std::thread::spawn(move || {
            let owner = counter.own().unwrap();
            let mut rounds = 0;
            while !ends.load(Acquire) {
                owner.with(|value| *value += 1).unwrap();
                rounds += 1;
            }
            rounds
        });
        let other = || (0..ROUNDS).for_each(|_| counter.by_other(|value| *value += 1));
        std::thread::scope(|scope| {
            scope.spawn(other);
            scope.spawn(other);
        });
        ends.store(true, Release);
        let by_owner = owner.join().unwrap();
        assert_eq!(counter.by_other(|value| *value), by_owner + 2 * ROUNDS);
    }

    #[test]
    fn there_is_one_owner_at_a_time_who_is_inside_once() {
        let value: &'static Biased<u8> = Box::leak(Box::default());
        let owner = value.own().unwrap();
        assert!(value.own().is_none());
        assert_eq!(owner.with(|_| owner.with(|_| ()).is_none()), Some(true));
        drop(owner);
        assert!(value.own().is_some());
    }

    #[test]
    fn who_waits_only_for_a_while_leaves_an_owner_alone_that_stays() {
        assert!(system::can_fence_everywhere());
        let value: &'static Biased<u8> = Box::leak(Box::default());
        let owner = value.own().unwrap();
        let try_it = || std::thread::spawn(|| value.try_by_other(10, |value| *value += 1)).join();
        owner.with(|_| try_it().unwrap()).unwrap();
        assert_eq!(owner.with(|value| *value), Some(0));
        try_it().unwrap();
        assert_eq!(owner.with(|value| *value), Some(1));
    }
}
