//! What the program has counted on the page since its thread last called.
//!
//! The page has the counts of the thread that runs. They are taken at the head of a call: what
//! finishes the thread's last instruction may let other threads run, which count there too.

use seawall_cc::abi;

/// The counts of one thread between two calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) instructions: u64,
    /// Accesses to the frames of functions.
    pub(crate) loads: u64,
    pub(crate) stores: u64,
}

impl Counted {
    /// Reads the counts, and clears them.
    #[inline]
    pub(crate) fn take() -> Counted {
        Counted {
            instructions: take(abi::INSTRUCTIONS),
            loads: take(abi::STACK_LOADS),
            stores: take(abi::STACK_STORES),
        }
    }

    /// Leaves them on the page for the thread's next call. Other threads have run only within
    /// calls of theirs, and left nothing there.
    pub(crate) fn put_back(self) {
        put(abi::INSTRUCTIONS, self.instructions);
        put(abi::STACK_LOADS, self.loads);
        put(abi::STACK_STORES, self.stores);
    }
}

#[inline]
fn take(counter: u64) -> u64 {
    // SAFETY: the page is mapped before the program is loaded, and one OS thread uses it.
    unsafe { std::ptr::replace(counter as *mut u64, 0) }
}

fn put(counter: u64, count: u64) {
    // SAFETY: as above.
    unsafe { std::ptr::write(counter as *mut u64, count) };
}

/// The elements that a masked access selects, one bit each.
#[inline]
pub(crate) fn mask() -> u64 {
    // SAFETY: as above.
    unsafe { std::ptr::read(abi::MASK as *const u64) }
}

/// The flags before a string instruction of a function that sets the direction.
#[inline]
pub(crate) fn flags() -> u64 {
    // SAFETY: as above.
    unsafe { std::ptr::read(abi::FLAGS as *const u64) }
}
