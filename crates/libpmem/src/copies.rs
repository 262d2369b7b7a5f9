//! The C boundary: copying and filling persistent memory.
//!
//! A copy flushes what it has written and waits, unless its flags say otherwise. A large one stores
//! past the caches, which needs no flush; then only a few bytes at its two ends are flushed.

use crate::calls::{flush_by, pmem_drain};
use crate::setup::Setup;
use seawall_native::{RawEdges, raw_copy, raw_fill};
use std::ffi::{c_int, c_uint, c_void};

const NODRAIN: c_uint = 1 << 0;
const NONTEMPORAL: c_uint = 1 << 1;
const TEMPORAL: c_uint = 1 << 2;
const WC: c_uint = 1 << 3;
const WB: c_uint = 1 << 4;
const NOFLUSH: c_uint = 1 << 5;

/// True if a write of `len` bytes goes past the caches. What must not be flushed does not leave
/// them either; of hints that contradict each other the one to leave them counts.
#[inline]
fn past_caches(setup: &Setup, len: usize, flags: c_uint) -> bool {
    match setup.past_caches_from {
        None => false,
        Some(_) if flags & NOFLUSH != 0 => false,
        Some(_) if flags & (NONTEMPORAL | WC) != 0 => true,
        Some(_) if flags & (TEMPORAL | WB) != 0 => false,
        Some(from) => len >= from,
    }
}

/// Flushes and drains what `write` has written, as `flags` say; gives `to`.
///
/// # Safety
/// `len` bytes are mapped at `to`.
#[inline]
unsafe fn written(
    to: *mut c_void,
    len: usize,
    flags: c_uint,
    write: impl FnOnce(bool) -> RawEdges,
) -> *mut c_void {
    let setup = Setup::of_process();
    let edges = write(past_caches(setup, len, flags));
    if flags & NOFLUSH == 0 {
        // SAFETY: the caller vouches for the bytes; both edges are among them.
        unsafe {
            flush_by(setup, setup.flush, to, edges.head);
            let tail = to.byte_add(len - edges.tail);
            flush_by(setup, setup.flush, tail, edges.tail);
        }
        if flags & NODRAIN == 0 {
            pmem_drain();
        }
    }
    to
}

/// `memmove`, then flushed and drained as `flags` say.
///
/// # Safety
/// As for `memmove`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem_memmove(
    to: *mut c_void,
    from: *const c_void,
    len: usize,
    flags: c_uint,
) -> *mut c_void {
    // SAFETY: the caller vouches for both ranges.
    unsafe { written(to, len, flags, |past| raw_copy(to.cast(), from.cast(), len, past)) }
}

/// As [`pmem_memmove`]: the ranges may overlap here, too.
///
/// # Safety
/// As for `memmove`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem_memcpy(
    to: *mut c_void,
    from: *const c_void,
    len: usize,
    flags: c_uint,
) -> *mut c_void {
    // SAFETY: the caller vouches for both ranges.
    unsafe { pmem_memmove(to, from, len, flags) }
}

/// `memset`, then flushed and drained as `flags` say.
///
/// # Safety
/// As for `memset`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem_memset(
    to: *mut c_void,
    byte: c_int,
    len: usize,
    flags: c_uint,
) -> *mut c_void {
    // SAFETY: the caller vouches for the range.
    unsafe { written(to, len, flags, |past| raw_fill(to.cast(), byte as u8, len, past)) }
}

/// A call that is another one with certain flags, which have the same contract.
macro_rules! with_flags {
    ($($name:ident = $call:ident($second:ident: $kind:ty, $flags:expr);)*) => {$(
        /// The call of the name before the last underscore, with certain flags.
        ///
        /// # Safety
        /// As there.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(to: *mut c_void, $second: $kind, len: usize) -> *mut c_void {
            // SAFETY: the caller vouches for the same.
            unsafe { $call(to, $second, len, $flags) }
        }
    )*};
}

with_flags! {
    pmem_memmove_persist = pmem_memmove(from: *const c_void, 0);
    pmem_memmove_nodrain = pmem_memmove(from: *const c_void, NODRAIN);
    pmem_memcpy_persist = pmem_memcpy(from: *const c_void, 0);
    pmem_memcpy_nodrain = pmem_memcpy(from: *const c_void, NODRAIN);
    pmem_memset_persist = pmem_memset(byte: c_int, 0);
    pmem_memset_nodrain = pmem_memset(byte: c_int, NODRAIN);
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_native::FlushKind;

    fn setup(past_caches_from: Option<usize>) -> Setup {
        let flush = FlushKind::None;
        Setup { flush, deep: flush, by_page: false, past_caches_from, fault: None }
    }

    #[test]
    fn hints_decide_before_the_length_and_the_environment_before_both() {
        let usual = setup(Some(256));
        assert!(!past_caches(&usual, 255, 0) && past_caches(&usual, 256, 0));
        assert!(past_caches(&usual, 1, NONTEMPORAL) && past_caches(&usual, 1, WC));
        assert!(!past_caches(&usual, 1 << 20, TEMPORAL) && !past_caches(&usual, 1 << 20, WB));
        assert!(!past_caches(&usual, 1 << 20, NOFLUSH));
        assert!(!past_caches(&setup(None), 1 << 20, NONTEMPORAL));
        assert!(past_caches(&setup(Some(0)), 1, NODRAIN));
    }
}
