//! The number of a thread: the least that is free when the thread first calls, given back at its
//! end.
//!
//! It is in a variable of `shim.c`: those of Rust, in a shared library, are found by a function
//! that costs as much as a short call.

use seawall_lanes::ThreadNumbers;

unsafe extern "C" {
    /// Where this thread's number plus 1 is, or 0: in `shim.c`.
    safe fn seawall_thread_number() -> *mut usize;
}

/// The number of this thread.
#[inline]
pub(crate) fn number() -> usize {
    // SAFETY: the place is this thread's.
    match unsafe { *seawall_thread_number() } {
        0 => take(),
        number => number - 1,
    }
}

static NUMBERS: ThreadNumbers = ThreadNumbers::new();

#[cold]
fn take() -> usize {
    let number = NUMBERS.take();
    // SAFETY: as above.
    unsafe { *seawall_thread_number() = number + 1 };
    // A thread that calls when its variables have ended keeps its number.
    let _ = OWNER.try_with(|_| ());
    number
}

/// Gives the number back when the thread ends.
struct Owner;

thread_local! {
    static OWNER: Owner = const { Owner };
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: as above.
        let number = unsafe { std::mem::take(&mut *seawall_thread_number()) };
        if let Some(number) = number.checked_sub(1) {
            NUMBERS.give_back(number);
        }
    }
}
