//! The C boundary: mapping, flushing, draining, and what is asked about them.
//!
//! Each function is the call of its name in the manual; none of them keeps a reference to memory of
//! the program.

use crate::files::Wanted;
use crate::message::{self, CallError};
use crate::ranges::{mapped, mapped_mut};
use crate::ribbon;
use crate::setup::{Setup, forced, hint};
use crate::system;
use seawall_native::{FlushKind, page_bytes, raw_fence, raw_flush, raw_sync};
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// The version of the interface, as in `libpmem.h`.
const MAJOR: c_uint = 1;
const MINOR: c_uint = 1;

/// Runs a call that may fail: then `errno` and the message are set, and `failed` is the answer. A
/// panic is a failure, too.
fn guarded<T>(failed: T, call: impl FnOnce() -> Result<T, CallError>) -> T {
    let done = catch_unwind(AssertUnwindSafe(call));
    let panicked = || CallError::new(libc::EIO, "a bug in seawall: the call panicked");
    match done.unwrap_or_else(|_| Err(panicked())) {
        Ok(answer) => answer,
        Err(error) => {
            message::keep(&error.text);
            system::set_errno(error.number);
            failed
        }
    }
}

/// The addresses of the pages that hold these bytes, as far as there are addresses.
fn pages_of(addr: *const c_void, len: usize) -> Range<usize> {
    let page = page_bytes() as usize;
    let end = addr.addr().saturating_add(len);
    addr.addr() / page * page..end.checked_next_multiple_of(page).unwrap_or(usize::MAX)
}

/// `NULL` if a program made for that version runs with this one, else why not.
#[unsafe(no_mangle)]
pub extern "C" fn pmem_check_version(major: c_uint, minor: c_uint) -> *const c_char {
    if major == MAJOR && minor <= MINOR {
        return std::ptr::null();
    }
    let text =
        format!("the program needs libpmem {major}.{minor}; this is libpmem {MAJOR}.{MINOR}");
    message::keep(&text);
    message::kept()
}

/// The message of the last error of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn pmem_errormsg() -> *const c_char {
    message::kept()
}

/// Opens or creates a file and maps it.
///
/// # Safety
/// `path` is a string of C, and each of the last two is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem_map_file(
    path: *const c_char,
    len: usize,
    flags: c_int,
    mode: libc::mode_t,
    mapped_lenp: *mut usize,
    is_pmemp: *mut c_int,
) -> *mut c_void {
    guarded(std::ptr::null_mut(), || {
        if let Some(fault) = &Setup::of_process().fault {
            return Err(CallError::new(libc::EINVAL, fault.clone()));
        }
        if path.is_null() {
            return Err(CallError::new(libc::EFAULT, "the path is NULL"));
        }
        // SAFETY: the caller vouches for the string, which is not kept.
        let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes()));
        let wanted = Wanted { path, bytes: len, flags, mode };
        let (base, bytes) = wanted.open(|ready| {
            let made = system::map(ready.file, ready.bytes, hint());
            let failed = |error| CallError::system(format!("map {}", path.display()), &error);
            let made = made.map_err(failed)?;
            let pages = pages_of(made.base, ready.bytes);
            ribbon::add(&pages);
            if made.is_sync {
                mapped_mut().add(pages);
            }
            Ok((made.base, ready.bytes))
        })?;
        // SAFETY: the caller vouches for both pointers.
        unsafe {
            if !mapped_lenp.is_null() {
                mapped_lenp.write(bytes);
            }
            if !is_pmemp.is_null() {
                is_pmemp.write(pmem_is_pmem(base, bytes));
            }
        }
        Ok(base)
    })
}

/// Unmaps the pages of these bytes.
///
/// # Safety
/// `addr` is a mapping, or part of one, that the program uses no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem_unmap(addr: *mut c_void, len: usize) -> c_int {
    guarded(-1, || {
        // Held meanwhile, so that what another thread maps at this place afterwards stays known.
        let mut ranges = mapped_mut();
        let pages = pages_of(addr, len);
        // SAFETY: the caller vouches for the mapping.
        let done = ribbon::before(&pages, || unsafe { system::unmap(addr, len) });
        done.map_err(|error| CallError::system(format!("unmap {len} bytes"), &error))?;
        ranges.remove(pages);
        Ok(0)
    })
}

/// 1 if all of these bytes are persistent memory that `pmem_map_file` has mapped.
#[unsafe(no_mangle)]
pub extern "C" fn pmem_is_pmem(addr: *const c_void, len: usize) -> c_int {
    guarded(0, || {
        let is_pmem = len > 0
            && forced().unwrap_or_else(|| {
                let end = addr.addr().checked_add(len);
                end.is_some_and(|end| mapped().cover(addr.addr()..end))
            });
        Ok(is_pmem.into())
    })
}

/// Starts to write these bytes back, or leaves that to the Ribbon.
///
/// # Safety
/// The bytes are mapped. What `pmem_map_file` mapped stays so until the thread drains, or until
/// `pmem_unmap`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem_flush(addr: *const c_void, len: usize) {
    // SAFETY: the caller vouches for the bytes.
    unsafe { flush(Setup::of_process(), addr, len) }
}

/// Waits until everything that was flushed has been written back.
#[unsafe(no_mangle)]
pub extern "C" fn pmem_drain() {
    if !ribbon::drain() {
        raw_fence(Setup::of_process().deep);
    }
}

/// [`pmem_flush`] and [`pmem_drain`].
///
/// # Safety
/// The bytes are mapped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem_persist(addr: *const c_void, len: usize) {
    // SAFETY: the caller vouches for the bytes.
    unsafe { pmem_flush(addr, len) };
    pmem_drain();
}

/// As [`pmem_flush`], also where caches need no flush.
///
/// # Safety
/// The bytes are mapped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem_deep_flush(addr: *const c_void, len: usize) {
    let setup = Setup::of_process();
    // SAFETY: the caller vouches for the bytes.
    unsafe { flush_by(setup, setup.deep, addr, len) }
}

/// Waits until these bytes, which were flushed, are as safe as the system can make them.
///
/// # Safety
/// The bytes are mapped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem_deep_drain(addr: *const c_void, len: usize) -> c_int {
    if len == 0 {
        return 0;
    }
    pmem_drain();
    // On a file system of persistent memory this also empties the queues of its controllers.
    // SAFETY: the caller vouches for the bytes.
    unsafe { pmem_msync(addr, len) }
}

/// [`pmem_deep_flush`] and [`pmem_deep_drain`].
///
/// # Safety
/// The bytes are mapped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem_deep_persist(addr: *const c_void, len: usize) -> c_int {
    // SAFETY: the caller vouches for the bytes.
    unsafe {
        pmem_deep_flush(addr, len);
        pmem_deep_drain(addr, len)
    }
}

/// Writes the pages of these bytes to their file.
///
/// # Safety
/// Those of the bytes that are mapped may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pmem_msync(addr: *const c_void, len: usize) -> c_int {
    guarded(-1, || {
        ribbon::drain();
        // SAFETY: the caller vouches for the bytes.
        let done = unsafe { raw_sync(addr.cast(), len) };
        done.map_err(|error| CallError::system(format!("write {len} bytes (msync)"), &error))?;
        Ok(0)
    })
}

/// 1 if the platform saves its caches when power fails.
#[unsafe(no_mangle)]
pub extern "C" fn pmem_has_auto_flush() -> c_int {
    guarded(-1, || Ok(seawall_native::caches_persist_here().into()))
}

/// 0: a drain is a fence, which every CPU has.
#[unsafe(no_mangle)]
pub extern "C" fn pmem_has_hw_drain() -> c_int {
    0
}

/// Flushes, or leaves it to the Ribbon.
///
/// # Safety
/// As for [`pmem_flush`].
#[inline]
pub(crate) unsafe fn flush(setup: &Setup, addr: *const c_void, len: usize) {
    if setup.ribbon.is_none() || !ribbon::flush(addr.addr(), len) {
        // SAFETY: the caller vouches for the bytes.
        unsafe { flush_by(setup, setup.flush, addr, len) }
    }
}

/// Flushes by `kind`, or by page where the domain says so.
///
/// # Safety
/// The bytes are mapped.
#[inline]
unsafe fn flush_by(setup: &Setup, kind: FlushKind, addr: *const c_void, len: usize) {
    if setup.by_page && len > 0 {
        // SAFETY: the caller vouches for the bytes.
        if let Err(error) = unsafe { raw_sync(addr.cast(), len) } {
            lost(&error);
        }
    } else {
        // SAFETY: the caller vouches for the bytes, and `Flush` chose the kind for this CPU.
        unsafe { raw_flush(kind, addr.cast(), len) };
    }
}

/// The disk did not take what a call promises to have written, and the call cannot say so.
#[cold]
fn lost(error: &std::io::Error) -> ! {
    system::say(&format!("pmem_flush by page cannot write to the disk: {error}; the program ends"));
    std::process::abort();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_does_not_leave_a_call_and_is_an_error() {
        let answer = guarded(-1, || -> Result<c_int, CallError> { panic!("planted") });
        assert_eq!(answer, -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EIO));
        // SAFETY: the message is a string of C.
        let text = unsafe { CStr::from_ptr(pmem_errormsg()) }.to_str().unwrap();
        assert!(text.contains("a bug in seawall"), "{text}");
    }

    #[test]
    fn the_pages_of_a_range_are_whole() {
        let at = std::ptr::without_provenance;
        let page = page_bytes() as usize;
        assert_eq!(pages_of(at(page + 5), 1), page..2 * page);
        assert_eq!(pages_of(at(page), page), page..2 * page);
        assert_eq!(pages_of(at(page), usize::MAX).end, usize::MAX);
    }
}
