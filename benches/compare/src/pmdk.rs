//! The C side: safe names for the functions of `pmdk/pmdk.h`.
//!
//! The only file that may use unsafe code. A [`Pool`] may be used by several threads at once, as
//! libpmemobj promises, if each uses a thread number of its own.

#![allow(unsafe_code, reason = "calls into C")]

use anyhow::{Result, bail};
use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;

/// As `enum pmdk_operation`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Tx64,
    Tx256,
    Tx1024,
    Tx64K,
    TxMany,
    TxFour,
    TxAbort,
    AllocFree,
    TxAlloc,
    FreeLinked,
    AllocLost,
}

/// As `enum pmdk_map_kind`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) enum MapKind {
    HashTx,
    HashRp,
    Btree,
}

/// Objects that [`Operation::TxAlloc`] may allocate before [`Operation::FreeLinked`]; `PMDK_LINKS`.
pub(crate) const LINKS: u64 = 65_536;

#[repr(C)]
struct RawPool {
    _opaque: [u8; 0],
}

#[repr(C)]
struct RawMap {
    _opaque: [u8; 0],
}

#[repr(C)]
struct RawSlots {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn pmdk_create(path: *const c_char, bytes: u64) -> *mut RawPool;
    fn pmdk_open(path: *const c_char) -> *mut RawPool;
    fn pmdk_close(pool: *mut RawPool);
    fn pmdk_error() -> *const c_char;
    fn pmdk_counts(fences: *mut u64, lines: *mut u64) -> c_int;
    fn pmdk_run(pool: *mut RawPool, operation: Operation, thread: c_uint, count: u64) -> c_int;
    fn pmdk_die_in_transaction(path: *const c_char) -> c_int;
    fn pmdk_map_new(pool: *mut RawPool, kind: MapKind, is_shared: c_int) -> *mut RawMap;
    fn pmdk_map_delete(map: *mut RawMap) -> c_int;
    fn pmdk_map_insert(map: *mut RawMap, keys: *const u64, count: usize) -> c_int;
    fn pmdk_map_lookup(map: *mut RawMap, keys: *const u64, count: usize) -> usize;
    fn pmdk_map_remove(map: *mut RawMap, keys: *const u64, count: usize) -> c_int;
    fn pmdk_map_count(map: *mut RawMap) -> u64;
    fn pmdk_slots_new(path: *const c_char, bytes: u64, count: u64) -> *mut RawSlots;
    fn pmdk_slots_close(slots: *mut RawSlots);
    fn pmdk_slots_put(slots: *mut RawSlots, slot: u64) -> c_int;
    fn pmdk_slots_take(slots: *mut RawSlots, slot: u64);
    fn pmdk_slots_at(slots: *mut RawSlots, slot: u64) -> u64;
    fn pmdk_slots_value(slots: *mut RawSlots, slot: u64) -> u64;
    fn pmdk_slots_defrag(slots: *mut RawSlots) -> c_int;
}

fn text(from: *const c_char) -> String {
    if from.is_null() {
        return String::new();
    }
    // SAFETY: libpmemobj returns a terminated string that lives until the thread's next call.
    unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned()
}

fn failure<T>(what: &str) -> Result<T> {
    // SAFETY: takes nothing.
    let said = text(unsafe { pmdk_error() });
    bail!("libpmemobj cannot {what}: {said}; is there room on the file system of --dir?")
}

fn check(what: &str, status: c_int) -> Result<()> {
    if status == 0 { Ok(()) } else { failure(what) }
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}

/// The version of libpmemobj that this was built with.
pub(crate) const VERSION: &str = env!("LIBPMEMOBJ_VERSION");

/// Fences and flushed lines of libpmemobj so far, if the counting library is preloaded.
pub(crate) fn counts() -> Option<(u64, u64)> {
    let (mut fences, mut lines) = (0, 0);
    // SAFETY: both point to live words.
    let status = unsafe { pmdk_counts(&raw mut fences, &raw mut lines) };
    (status == 0).then_some((fences, lines))
}

/// Opens the pool at `path` and dies in the middle of a transaction; returns only on errors.
pub(crate) fn die_in_transaction(path: &Path) -> Result<()> {
    // SAFETY: the path is a terminated string.
    check("die in a transaction", unsafe { pmdk_die_in_transaction(c_path(path).as_ptr()) })
}

/// An open pool of libpmemobj.
pub(crate) struct Pool(NonNull<RawPool>);

// SAFETY: libpmemobj's functions may be called by any thread; what the C side keeps beside them is
// either constant or belongs to one thread number.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    pub(crate) fn create(path: &Path, bytes: u64) -> Result<Pool> {
        // SAFETY: the path is a terminated string.
        let raw = unsafe { pmdk_create(c_path(path).as_ptr(), bytes) };
        NonNull::new(raw).map_or_else(|| failure("create a pool"), |raw| Ok(Pool(raw)))
    }

    pub(crate) fn open(path: &Path) -> Result<Pool> {
        // SAFETY: the path is a terminated string.
        let raw = unsafe { pmdk_open(c_path(path).as_ptr()) };
        NonNull::new(raw).map_or_else(|| failure("open a pool"), |raw| Ok(Pool(raw)))
    }

    /// Does `operation` `count` times as thread number `thread`, which is below 8 and no other
    /// thread's.
    pub(crate) fn run(&self, operation: Operation, thread: usize, count: u64) -> Result<()> {
        // SAFETY: the pool is open, and callers give each thread its own number.
        let status = unsafe { pmdk_run(self.0.as_ptr(), operation, thread as c_uint, count) };
        check("run an operation", status)
    }

    /// A new map; `is_shared` if several threads will use it.
    pub(crate) fn map(&self, kind: MapKind, is_shared: bool) -> Result<Map<'_>> {
        // SAFETY: the pool is open.
        let raw = unsafe { pmdk_map_new(self.0.as_ptr(), kind, c_int::from(is_shared)) };
        let raw = NonNull::new(raw).map_or_else(|| failure("make a map"), Ok)?;
        Ok(Map { raw, _pool: self })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the pool is open, and nothing that borrows it is left.
        unsafe { pmdk_close(self.0.as_ptr()) }
    }
}

/// A map in a pool.
pub(crate) struct Map<'a> {
    raw: NonNull<RawMap>,
    _pool: &'a Pool,
}

// SAFETY: a shared map takes its lock in every call; one that is not shared is used by one thread
// at a time, because the harness asks for sharing when it runs more than one.
unsafe impl Send for Map<'_> {}
// SAFETY: as above.
unsafe impl Sync for Map<'_> {}

impl Map<'_> {
    pub(crate) fn insert(&self, keys: &[u64]) -> Result<()> {
        // SAFETY: the map is live, and the keys are as many as said.
        let status = unsafe { pmdk_map_insert(self.raw.as_ptr(), keys.as_ptr(), keys.len()) };
        check("insert", status)
    }

    /// Number of `keys` in the map.
    pub(crate) fn lookup(&self, keys: &[u64]) -> usize {
        // SAFETY: the map is live, and the keys are as many as said.
        unsafe { pmdk_map_lookup(self.raw.as_ptr(), keys.as_ptr(), keys.len()) }
    }

    pub(crate) fn remove(&self, keys: &[u64]) -> Result<()> {
        // SAFETY: the map is live, and the keys are as many as said.
        let status = unsafe { pmdk_map_remove(self.raw.as_ptr(), keys.as_ptr(), keys.len()) };
        check("remove", status)
    }

    pub(crate) fn count(&self) -> u64 {
        // SAFETY: the map is live.
        unsafe { pmdk_map_count(self.raw.as_ptr()) }
    }

    /// Frees the map, which must be empty.
    pub(crate) fn delete(self) -> Result<()> {
        // SAFETY: the map is live and not used after this.
        check("free a map", unsafe { pmdk_map_delete(self.raw.as_ptr()) })
    }
}

/// A pool with a table of slots for objects of 128 bytes.
pub(crate) struct Slots {
    raw: NonNull<RawSlots>,
    count: u64,
}

impl Slots {
    pub(crate) fn create(path: &Path, bytes: u64, count: u64) -> Result<Slots> {
        // SAFETY: the path is a terminated string.
        let raw = unsafe { pmdk_slots_new(c_path(path).as_ptr(), bytes, count) };
        let raw = NonNull::new(raw).map_or_else(|| failure("create a pool"), Ok)?;
        Ok(Slots { raw, count })
    }

    /// The slot, once it is known to be one.
    fn slot(&self, slot: u64) -> u64 {
        assert!(slot < self.count, "slot {slot} of {}", self.count);
        slot
    }

    /// Fills an empty slot.
    pub(crate) fn put(&self, slot: u64) -> Result<()> {
        // SAFETY: the pool is open, and the slot is in the table.
        let status = unsafe { pmdk_slots_put(self.raw.as_ptr(), self.slot(slot)) };
        check("allocate an object", status)
    }

    /// Empties a slot.
    pub(crate) fn take(&self, slot: u64) {
        // SAFETY: the pool is open, and the slot is in the table.
        unsafe { pmdk_slots_take(self.raw.as_ptr(), self.slot(slot)) }
    }

    /// Where the object of a slot is in the pool, and its first word; none if the slot is empty.
    pub(crate) fn object(&self, slot: u64) -> Option<(u64, u64)> {
        let (raw, slot) = (self.raw.as_ptr(), self.slot(slot));
        // SAFETY: the pool is open, and the slot is in the table and not empty when it is read.
        unsafe {
            let at = pmdk_slots_at(raw, slot);
            (at != 0).then(|| (at, pmdk_slots_value(raw, slot)))
        }
    }

    /// One call of `pmemobj_defrag` for all slots.
    pub(crate) fn defrag(&self) -> Result<()> {
        // SAFETY: the pool is open.
        check("defragment", unsafe { pmdk_slots_defrag(self.raw.as_ptr()) })
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: the pool is open, and nothing that borrows it is left.
        unsafe { pmdk_slots_close(self.raw.as_ptr()) }
    }
}
