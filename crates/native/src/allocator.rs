//! What happens when the system has no memory: the command ends with a message and exit code 2, as
//! it does with any other limit of the system, and does not abort.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;

/// The exit code of a command that could not run.
const CANNOT_RUN: i32 = 2;
/// Room for what is said.
const TEXT_BYTES: usize = 256;

/// The system's allocator, for a program to make its own. Where that has no memory, the process
/// ends with exit code 2, as a kill would end it: a pool is as after a crash.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndWithoutMemory;

// SAFETY: each call is one of the system's allocator, which keeps the contract; a null pointer
// never reaches the caller.
unsafe impl GlobalAlloc for EndWithoutMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract.
        or_end(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        or_end(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as above.
        or_end(unsafe { System.realloc(old, layout, bytes) }, bytes)
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(old, layout) }
    }
}

#[inline]
fn or_end(memory: *mut u8, bytes: usize) -> *mut u8 {
    if memory.is_null() {
        end(bytes);
    }
    memory
}

#[cold]
fn end(bytes: usize) -> ! {
    // Neither memory nor a lock: the caller may hold the lock while it asks for memory.
    let mut text = [0; TEXT_BYTES];
    let mut rest = &mut text[..];
    let _ = writeln!(
        rest,
        "error: no memory for {bytes} bytes more; take fewer entries, threads or --jobs, end other \
         programs, or allow more memory (ulimit -v)"
    );
    let said = TEXT_BYTES - rest.len();
    // SAFETY: `said` bytes of the text are initialised. A failed write changes nothing.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), said) };
    // SAFETY: nothing runs after it; what is registered to run at the end could want memory.
    unsafe { libc::_exit(CANNOT_RUN) }
}
