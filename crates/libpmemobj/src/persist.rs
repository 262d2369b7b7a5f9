//! Flushing and draining by address, and moving bytes into the pool.

use crate::error::{Failure, set_errno};
use crate::pool::ObjectPool;
use crate::registry::by_pop;
use crate::types::Pop;
use libc::{c_int, c_uint, c_void};
use seawall_native::move_flags::{NO_DRAIN, NO_FLUSH};
use seawall_native::{
    Domain, PAST_CACHES_BYTES, raw_copy, raw_fence, raw_fill, raw_flush, raw_goes_past_caches,
    raw_sync,
};

/// `PMEMOBJ_F_RELAXED`
const RELAXED: c_uint = 1 << 31;

/// Starts the write-back of these bytes.
#[inline]
pub(crate) fn flush(pool: &ObjectPool, at: *const u8, len: usize) {
    if pool.file.domain() == Domain::Page {
        return sync(at, len);
    }
    // SAFETY: the kind is that which was chosen for this CPU; the caller vouches for the bytes.
    unsafe { raw_flush(pool.flush, at, len) };
}

#[cold]
fn sync(at: *const u8, len: usize) {
    // SAFETY: the pool's own pages, all of which may reach the file.
    if let Err(error) = unsafe { raw_sync(at, len) } {
        Failure::new(libc::EIO, format!("msync of the pool failed: {error}")).report();
    }
}

/// Waits until all that this thread has flushed is durable.
pub(crate) fn drain(pool: &ObjectPool) {
    raw_fence(pool.flush);
}

pub(crate) fn persist(pool: &ObjectPool, at: *const u8, len: usize) {
    flush(pool, at, len);
    drain(pool);
}

/// The pool; a program that names one that is not open is ended.
#[inline]
fn open_pool(pop: Pop) -> &'static ObjectPool {
    by_pop(pop).unwrap_or_else(|failure| crate::error::fatal(&failure.text))
}

/// Moves bytes by `action`, which gives what went through the caches at both ends.
fn moved(
    pop: Pop,
    to: *mut c_void,
    len: usize,
    flags: c_uint,
    action: impl FnOnce(*mut u8, bool) -> seawall_native::RawEdges,
) -> *mut c_void {
    let pool = open_pool(pop);
    // In the domain `page` only `msync` makes the bytes durable, so all of them are flushed.
    let by_line = pool.file.domain() != Domain::Page;
    let least = by_line.then_some(PAST_CACHES_BYTES);
    let past_caches = raw_goes_past_caches(flags, len, least);
    let edges = action(to.cast(), past_caches);
    if flags & NO_FLUSH == 0 {
        let (at, head, tail) = (to.cast::<u8>(), edges.head, edges.tail);
        if head > 0 {
            flush(pool, at, head);
        }
        if tail > 0 {
            flush(pool, at.wrapping_add(len - tail), tail);
        }
    }
    if flags & (NO_DRAIN | NO_FLUSH) == 0 {
        drain(pool);
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_memmove(
    pop: Pop,
    to: *mut c_void,
    from: *const c_void,
    len: usize,
    flags: c_uint,
) -> *mut c_void {
    // SAFETY: the program vouches for both ranges.
    moved(pop, to, len, flags, |to, past| unsafe { raw_copy(to, from.cast(), len, past) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_memcpy(
    pop: Pop,
    to: *mut c_void,
    from: *const c_void,
    len: usize,
    flags: c_uint,
) -> *mut c_void {
    // SAFETY: as there.
    unsafe { pmemobj_memmove(pop, to, from, len, flags) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_memset(
    pop: Pop,
    to: *mut c_void,
    byte: c_int,
    len: usize,
    flags: c_uint,
) -> *mut c_void {
    // SAFETY: the program vouches for the range.
    moved(pop, to, len, flags, |to, past| unsafe { raw_fill(to, byte as u8, len, past) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_memcpy_persist(
    pop: Pop,
    to: *mut c_void,
    from: *const c_void,
    len: usize,
) -> *mut c_void {
    // SAFETY: as there.
    unsafe { pmemobj_memmove(pop, to, from, len, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_memset_persist(
    pop: Pop,
    to: *mut c_void,
    byte: c_int,
    len: usize,
) -> *mut c_void {
    // SAFETY: as there.
    unsafe { pmemobj_memset(pop, to, byte, len, 0) }
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_persist(pop: Pop, at: *const c_void, len: usize) {
    persist(open_pool(pop), at.cast(), len);
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_flush(pop: Pop, at: *const c_void, len: usize) {
    flush(open_pool(pop), at.cast(), len);
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_drain(pop: Pop) {
    drain(open_pool(pop));
}

fn are_known(flags: c_uint) -> bool {
    let is_known = flags & !RELAXED == 0;
    if !is_known {
        Failure::invalid(format!("invalid flags {flags:#x}")).report();
    }
    is_known
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_xpersist(pop: Pop, at: *const c_void, len: usize, flags: c_uint) -> c_int {
    if !are_known(flags) {
        set_errno(libc::EINVAL);
        return -1;
    }
    pmemobj_persist(pop, at, len);
    0
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_xflush(pop: Pop, at: *const c_void, len: usize, flags: c_uint) -> c_int {
    if !are_known(flags) {
        set_errno(libc::EINVAL);
        return -1;
    }
    pmemobj_flush(pop, at, len);
    0
}
