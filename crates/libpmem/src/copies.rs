//! The C boundary: copying and filling persistent memory.
//!
//! A copy flushes what it has written and waits, unless its flags say otherwise. A large one stores
//! past the caches, which needs no flush; then only a few bytes at its two ends are flushed.

use crate::calls::{flush, pmem_drain};
use crate::setup::Setup;
use seawall_native::move_flags::{NO_DRAIN, NO_FLUSH};
use seawall_native::{RawEdges, raw_copy, raw_fill, raw_goes_past_caches};
use std::ffi::{c_int, c_uint, c_void};

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
    let edges = write(raw_goes_past_caches(flags, len, setup.past_caches_from));
    if flags & NO_FLUSH == 0 {
        // SAFETY: the caller vouches for the bytes; both edges are among them.
        unsafe {
            flush(setup, to, edges.head);
            let tail = to.byte_add(len - edges.tail);
            flush(setup, tail, edges.tail);
        }
        if flags & NO_DRAIN == 0 {
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
    pmem_memmove_nodrain = pmem_memmove(from: *const c_void, NO_DRAIN);
    pmem_memcpy_persist = pmem_memcpy(from: *const c_void, 0);
    pmem_memcpy_nodrain = pmem_memcpy(from: *const c_void, NO_DRAIN);
    pmem_memset_persist = pmem_memset(byte: c_int, 0);
    pmem_memset_nodrain = pmem_memset(byte: c_int, NO_DRAIN);
}
