//! Errors as C programs see them: a status, and a text for the thread.

use libc::{c_char, c_int};
use seawall_collections::{BTreeError, MapError};
use seawall_lanes::NoRoom;
use seawall_native::PoolError;
use seawall_runtime::defrag::DefragError;
use seawall_runtime::{AccessError, HeapError, TxError, pool::HeaderError};
use std::cell::RefCell;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// `enum sw_status`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Ok = 0,
    NotFound = 1,
    Small = 2,
    Invalid = 3,
    Misuse = 4,
    Exists = 5,
    Missing = 6,
    InUse = 7,
    Permission = 8,
    NoRoom = 9,
    NotAPool = 10,
    OtherLayout = 11,
    Damaged = 12,
    Busy = 13,
    TooLarge = 14,
    NoMap = 15,
    System = 16,
}

/// Why a call fails.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(status: Status, text: impl Into<String>) -> Failure {
        Failure { status, text: text.into() }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Failure {
        Failure::new(Status::Invalid, text)
    }

    pub(crate) fn misuse(text: impl Into<String>) -> Failure {
        Failure::new(Status::Misuse, text)
    }

    pub(crate) fn null(what: &str) -> Failure {
        Failure::invalid(format!("{what} is NULL; give the address of one"))
    }

    /// An object of a type that the program has not described.
    pub(crate) fn unknown_type(name: &str) -> Failure {
        let text = format!(
            "there are objects of type {name}, which options.types does not name; open the pool \
             with all types of its objects"
        );
        Failure::new(Status::OtherLayout, text)
    }

    /// With the name of the file in front.
    pub(crate) fn of_file(self, path: &str) -> Failure {
        Failure { text: format!("{path}: {}", self.text), ..self }
    }
}

impl NoRoom for Failure {
    fn is_no_room(&self) -> bool {
        self.status == Status::NoRoom
    }
}

impl From<AccessError> for Failure {
    fn from(error: AccessError) -> Failure {
        TxError::from(error).into()
    }
}

impl From<TxError> for Failure {
    fn from(error: TxError) -> Failure {
        let status = match &error {
            TxError::Access(AccessError::Inherited) => Status::Misuse,
            TxError::Access(AccessError::Damaged { .. }) => Status::Damaged,
            TxError::Full { .. } => Status::NoRoom,
            TxError::TooLarge { .. } | TxError::TooLong { .. } => Status::TooLarge,
            TxError::Busy => {
                let text = "another thread has changed what this transaction needs, or is about \
                            to; abort it and run it again";
                return Failure::new(Status::Busy, text);
            }
            TxError::Types | TxError::Shape { .. } => Status::OtherLayout,
            _ => Status::Invalid,
        };
        Failure::new(status, error.to_string())
    }
}

impl From<HeapError> for Failure {
    fn from(error: HeapError) -> Failure {
        let status = match error {
            HeapError::Tx(error) => return error.into(),
            HeapError::Pool(HeaderError::NotAPool(_)) => Status::NotAPool,
            HeapError::Pool(HeaderError::Version { .. } | HeaderError::Name { .. })
            | HeapError::Changed { .. }
            | HeapError::Shape { .. } => Status::OtherLayout,
            HeapError::Pool(_) => Status::Damaged,
            HeapError::NoRoom { .. } => Status::NoRoom,
            HeapError::Exists => Status::Exists,
            HeapError::Open => Status::InUse,
            _ => Status::Invalid,
        };
        Failure::new(status, error.to_string())
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Failure {
        let status = match &error {
            PoolError::Exists { .. } => Status::Exists,
            PoolError::NotFound { .. } => Status::Missing,
            PoolError::InUse { .. } => Status::InUse,
            PoolError::Permission { .. } => Status::Permission,
            PoolError::Full { .. }
            | PoolError::FileTooLarge { .. }
            | PoolError::BeyondMax { .. }
            | PoolError::NoAddresses { .. } => Status::NoRoom,
            PoolError::NotAFile { .. }
            | PoolError::TooSmall { .. }
            | PoolError::Rejected { .. } => Status::NotAPool,
            PoolError::Truncated { .. } => Status::Damaged,
            PoolError::Inherited { .. } => Status::Misuse,
            PoolError::System { .. } => Status::System,
            _ => Status::Invalid,
        };
        Failure::new(status, error.to_string())
    }
}

impl From<DefragError> for Failure {
    fn from(error: DefragError) -> Failure {
        match error {
            DefragError::Heap(error) => error.into(),
            DefragError::UnknownType { name } => Failure::unknown_type(&name),
            DefragError::Ratios { trigger, target } => Failure::invalid(format!(
                "options.defragment_at is {trigger} and defragment_to {target}; the first must be \
                 more than 1, and the second 1 to the first"
            )),
            other => Failure::invalid(other.to_string()),
        }
    }
}

impl From<MapError> for Failure {
    fn from(error: MapError) -> Failure {
        let status = match error {
            MapError::Heap(error) => return error.into(),
            MapError::NoMap { .. } => Status::NoMap,
            MapError::Damage(_) => Status::Damaged,
            MapError::Crowded => Status::NoRoom,
            _ => Status::Invalid,
        };
        Failure::new(status, error.to_string())
    }
}

impl From<BTreeError> for Failure {
    fn from(error: BTreeError) -> Failure {
        match error {
            BTreeError::Heap(error) => error.into(),
            other => Failure::new(Status::Damaged, other.to_string()),
        }
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

/// The text of the last call of this thread that failed.
#[unsafe(no_mangle)]
extern "C" fn sw_error_text() -> *const c_char {
    TEXT.try_with(|place| place.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// What a status is called.
#[unsafe(no_mangle)]
extern "C" fn sw_status_name(status: c_int) -> *const c_char {
    const NAMES: [&std::ffi::CStr; 17] = [
        c"SW_OK",
        c"SW_NOT_FOUND",
        c"SW_SMALL",
        c"SW_INVALID",
        c"SW_MISUSE",
        c"SW_EXISTS",
        c"SW_MISSING",
        c"SW_IN_USE",
        c"SW_PERMISSION",
        c"SW_NO_ROOM",
        c"SW_NOT_A_POOL",
        c"SW_OTHER_LAYOUT",
        c"SW_DAMAGED",
        c"SW_BUSY",
        c"SW_TOO_LARGE",
        c"SW_NO_MAP",
        c"SW_SYSTEM",
    ];
    let name = usize::try_from(status).ok().and_then(|place| NAMES.get(place));
    name.map_or(c"(no status of libseawall)".as_ptr(), |name| name.as_ptr())
}

/// Runs a call. A panic ends it, and not the program: `broken` is called then, so that what the
/// panic left half done is not used again.
pub(crate) fn boundary_with(
    broken: impl FnOnce(),
    call: impl FnOnce() -> Result<Status, Failure>,
) -> Status {
    let outcome = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|cause| {
        broken();
        let why = cause.downcast_ref::<String>().map(String::as_str);
        let why = why.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("a panic");
        let text = format!(
            "{why}; the file is damaged, its disk fails, or libseawall has a bug: close the pool, \
             and open it again, or a copy"
        );
        // What was thrown may throw again when it is dropped.
        std::mem::forget(cause);
        Err(Failure::new(Status::Damaged, text))
    });
    outcome.unwrap_or_else(|failure| {
        set_text(&failure.text);
        failure.status
    })
}

/// As [`boundary_with`], for a call that leaves nothing half done.
pub(crate) fn boundary(call: impl FnOnce() -> Result<Status, Failure>) -> Status {
    boundary_with(|| (), call)
}

/// The bytes that a program gives.
///
/// # Safety
/// They can be read, unless the address is null, as long as the result is used.
pub(crate) unsafe fn bytes_of<'a>(
    at: *const u8,
    len: usize,
    what: &str,
) -> Result<&'a [u8], Failure> {
    check_bytes(at, len, what)?;
    // SAFETY: the caller vouches for them, and there is at least one.
    Ok(if len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(at, len) } })
}

/// Refuses a place for so many bytes that can be none.
pub(crate) fn check_bytes(at: *const u8, len: usize, what: &str) -> Result<(), Failure> {
    if len > 0 && at.is_null() {
        return Err(Failure::invalid(format!("{what} is NULL, and its length {len}")));
    }
    if isize::try_from(len).is_err() {
        return Err(Failure::invalid(format!("{what} has {len} bytes, more than memory has")));
    }
    Ok(())
}

/// Stores what a call gives, if the program wants it.
///
/// # Safety
/// The place is null, or can be written.
pub(crate) unsafe fn give<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller vouches for it.
        unsafe { place.write_unaligned(value) };
    }
}
