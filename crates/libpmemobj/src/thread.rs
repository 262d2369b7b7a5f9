//! What the library keeps for each thread: its number, and its transaction.
//!
//! The calls are short, and the variable of a thread in a shared library is found by a function that
//! costs as much as some of them. So one pointer is in `shim.c`, in the kind of variable that is
//! found by one instruction, and the rest is behind it.

use crate::tx::ThreadTx;
use libc::c_void;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

/// What a thread has, from its first call to its end.
pub(crate) struct ThreadState {
    /// The least that is free when the thread first asks.
    pub(crate) number: usize,
    pub(crate) tx: RefCell<ThreadTx>,
}

unsafe extern "C" {
    /// Where the pointer of this thread is: in `shim.c`.
    safe fn seawall_thread_state() -> *mut *mut c_void;
}

/// The state of this thread.
#[inline]
pub(crate) fn state<'a>() -> &'a ThreadState {
    // SAFETY: the pointer is this thread's, and what it leads to lives as long as the thread; no
    // call keeps the reference.
    let found = unsafe { *seawall_thread_state() }.cast::<ThreadState>();
    if found.is_null() {
        return begin();
    }
    // SAFETY: as above.
    unsafe { &*found }
}

#[cold]
fn begin<'a>() -> &'a ThreadState {
    let state = ThreadState { number: take_number(), tx: RefCell::default() };
    let state = Box::into_raw(Box::new(state));
    // SAFETY: the place is this thread's.
    unsafe { *seawall_thread_state() = state.cast() };
    // What a thread does after its end, in the destructors of others, is not given back.
    let _ = OWNER.try_with(|owner| owner.0.set(state));
    // SAFETY: it has just been made.
    unsafe { &*state }
}

/// Frees the state when the thread ends.
struct Owner(Cell<*mut ThreadState>);

thread_local! {
    static OWNER: Owner = const { Owner(Cell::new(null_mut())) };
}

impl Drop for Owner {
    fn drop(&mut self) {
        let state = self.0.get();
        if state.is_null() {
            return;
        }
        // SAFETY: both are this thread's, and no call is in progress.
        let number = unsafe {
            *seawall_thread_state() = null_mut();
            Box::from_raw(state).number
        };
        FREE.lock().unwrap_or_else(PoisonError::into_inner).0.insert(number);
    }
}

static FREE: Mutex<(BTreeSet<usize>, usize)> = Mutex::new((BTreeSet::new(), 0));

fn take_number() -> usize {
    let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
    let (numbers, next) = &mut *free;
    numbers.pop_first().unwrap_or_else(|| {
        *next += 1;
        *next - 1
    })
}
