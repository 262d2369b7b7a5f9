//! What happens when the system has no memory: the command ends with a message and exit code 2, as
//! it does with any other limit of the system, and does not abort.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt;
use std::io::Write;
use std::panic::{set_hook, take_hook};

/// The exit code of a command that could not run.
const CANNOT_RUN: i32 = 2;
/// Room for what is said.
const TEXT_BYTES: usize = 256;

/// The system's allocator, for a program to make its own. Where that has no memory, the process
/// ends with exit code 2, as a kill would end it: a pool is as after a crash.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndWithoutMemory;

/// How the messages begin with which the standard library panics while a thread starts, or because
/// it does not: it maps more than the thread's stack, and asks no allocator for that.
const NO_THREAD: [&str; 3] = [
    "failed to allocate an alternative stack",
    "failed to set up alternative stack guard page",
    "failed to spawn thread",
];

impl EndWithoutMemory {
    /// Ends the process likewise where the standard library panics because a thread cannot start.
    /// All other panics go to the hook that is there now.
    pub fn hook_panics() {
        let others = take_hook();
        set_hook(Box::new(move |panic| {
            if panic.payload_as_str().is_some_and(is_want_of_memory) {
                end(format_args!("to start a thread"));
            }
            others(panic);
        }));
    }
}

fn is_want_of_memory(message: &str) -> bool {
    NO_THREAD.iter().any(|start| message.starts_with(start))
}

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
        end(format_args!("for {bytes} bytes more"));
    }
    memory
}

#[cold]
fn end(what: fmt::Arguments<'_>) -> ! {
    // Neither memory nor a lock: the caller may hold the lock while it asks for memory.
    let mut text = [0; TEXT_BYTES];
    let mut rest = &mut text[..];
    let _ = writeln!(
        rest,
        "error: no memory {what}; take fewer entries, threads or --jobs, end other \
         programs, or allow more memory (ulimit -v)"
    );
    let said = TEXT_BYTES - rest.len();
    // SAFETY: `said` bytes of the text are initialised. A failed write changes nothing.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), said) };
    // SAFETY: nothing runs after it; what is registered to run at the end could want memory.
    unsafe { libc::_exit(CANNOT_RUN) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_panics_of_a_thread_that_starts_are_want_of_memory() {
        assert!(is_want_of_memory(
            "failed to allocate an alternative stack: no memory (os error 12)"
        ));
        assert!(is_want_of_memory("failed to spawn thread: Os { code: 11 }"));
        assert!(!is_want_of_memory("index out of bounds"));
        assert!(!is_want_of_memory("the child: failed to spawn thread"));
    }

    /// A second thread gets the stack that the C library has kept of the first, and nothing else.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn a_thread_that_gets_a_stack_and_no_more_ends_the_process_with_a_message() {
        const LIMITED: &str = "SEAWALL_TEST_STACK_ALONE";
        if std::env::var_os(LIMITED).is_some() {
            EndWithoutMemory::hook_panics();
            std::thread::spawn(|| {}).join().unwrap();
            let none = libc::rlimit { rlim_cur: 1, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: the limit is read, and holds for this process alone, which ends.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const none) }, 0);
            let _ = std::thread::spawn(|| {}).join();
            panic!("a thread started without memory");
        }
        let name = "a_thread_that_gets_a_stack_and_no_more_ends_the_process_with_a_message";
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args(["--nocapture", "--test-threads", "1", name]);
        let output = again.env(LIMITED, "yes").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(CANNOT_RUN), "{output:?}");
        assert!(said.contains("error: no memory to start a thread"), "{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}
