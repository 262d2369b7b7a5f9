//! Errors as C programs see them: `errno`, and a text for the thread.

use libc::{c_char, c_int};
use seawall_lanes::NoRoom;
use seawall_native::PoolError;
use seawall_runtime::{AccessError, HeapError, TxError};
use std::cell::RefCell;
use std::ffi::CString;
use std::io::Write;

/// Why a call fails.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) errno: c_int,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(errno: c_int, text: impl Into<String>) -> Failure {
        Failure { errno, text: text.into() }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Failure {
        Failure::new(libc::EINVAL, text)
    }

    /// The pool is that of the process from which this one was forked.
    #[cold]
    pub(crate) fn inherited() -> Failure {
        Failure::invalid(AccessError::Inherited.to_string())
    }

    /// Sets `errno` and the text of this thread.
    pub(crate) fn report(&self) -> c_int {
        set_text(&self.text);
        set_errno(self.errno);
        self.errno
    }
}

impl NoRoom for Failure {
    fn is_no_room(&self) -> bool {
        self.errno == libc::ENOMEM
    }
}

impl From<TxError> for Failure {
    fn from(error: TxError) -> Failure {
        let errno = match error {
            TxError::Full { .. } | TxError::TooLarge { .. } => libc::ENOMEM,
            _ => libc::EINVAL,
        };
        Failure::new(errno, error.to_string())
    }
}

impl From<HeapError> for Failure {
    fn from(error: HeapError) -> Failure {
        match error {
            HeapError::Tx(error) => error.into(),
            other => Failure::invalid(other.to_string()),
        }
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Failure {
        let errno = match &error {
            PoolError::Exists { .. } => libc::EEXIST,
            PoolError::NotFound { .. } => libc::ENOENT,
            PoolError::Permission { .. } => libc::EACCES,
            PoolError::InUse { .. } => libc::EWOULDBLOCK,
            PoolError::Full { .. } => libc::ENOSPC,
            PoolError::FileTooLarge { .. } => libc::EFBIG,
            PoolError::NoAddresses { .. } => libc::ENOMEM,
            PoolError::System { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
            _ => libc::EINVAL,
        };
        Failure::new(errno, error.to_string())
    }
}

thread_local! {
    static TEXT: RefCell<CString> = RefCell::new(CString::default());
}

fn set_text(text: &str) {
    let bytes: Vec<u8> = text.bytes().filter(|byte| *byte != 0).collect();
    // A thread that ends has no text any more.
    let _ = TEXT.try_with(|place| *place.borrow_mut() = CString::new(bytes).unwrap_or_default());
}

pub(crate) fn set_errno(errno: c_int) {
    // SAFETY: the address is that of this thread's `errno`.
    unsafe { *libc::__errno_location() = errno };
}

/// Ends the process, as libpmemobj does when a program calls what it may not call there.
pub(crate) fn fatal(text: &str) -> ! {
    let _ = writeln!(std::io::stderr(), "libpmemobj (seawall): {text}");
    std::process::abort()
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_errormsg() -> *const c_char {
    TEXT.try_with(|place| place.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Gives NULL if a program that was written for that version runs with this library.
#[unsafe(no_mangle)]
extern "C" fn pmemobj_check_version(major: u32, minor: u32) -> *const c_char {
    const MAJOR: u32 = 2;
    const MINOR: u32 = 4;
    if major == MAJOR && minor <= MINOR {
        return std::ptr::null();
    }
    let part = if major == MAJOR { "minor" } else { "major" };
    set_text(&format!(
        "libpmemobj {part} version mismatch (need {major}.{minor}, found {MAJOR}.{MINOR})"
    ));
    pmemobj_errormsg()
}
