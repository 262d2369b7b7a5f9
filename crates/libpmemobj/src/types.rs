//! The types of libpmemobj's header files, as C lays them out.

use libc::{c_char, c_int, c_void};

/// A pool, to programs: the address of its first byte.
pub(crate) type Pop = *mut c_void;

/// An object: the pool, and the offset in it. `PMEMoid`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Oid {
    pub(crate) pool: u64,
    pub(crate) offset: u64,
}

pub(crate) const OID_BYTES: u64 = size_of::<Oid>() as u64;

impl Oid {
    pub(crate) const NULL: Oid = Oid { pool: 0, offset: 0 };

    pub(crate) fn bytes(self) -> [u8; OID_BYTES as usize] {
        let mut bytes = [0; OID_BYTES as usize];
        bytes[..8].copy_from_slice(&self.pool.to_le_bytes());
        bytes[8..].copy_from_slice(&self.offset.to_le_bytes());
        bytes
    }

    pub(crate) fn is_null(self) -> bool {
        self.offset == 0
    }
}

/// `pmemobj_constr`: gives 0, or another number to refuse the object.
pub(crate) type Constructor = Option<unsafe extern "C" fn(Pop, *mut c_void, *mut c_void) -> c_int>;

/// `struct pobj_action`: prepared by a call, done by another.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Action {
    /// `POBJ_ACTION_TYPE_HEAP` or `_MEM`.
    pub(crate) kind: c_int,
    /// Ours: the first tells what is to be done.
    pub(crate) data: [u32; 3],
    /// Of an object: its offset and its usable bytes. Of a value: where it goes, and the value.
    pub(crate) words: [u64; 14],
}

pub(crate) const ACTION_HEAP: c_int = 0;
pub(crate) const ACTION_MEM: c_int = 1;

/// `POBJ_FLAG_*`.
pub(crate) mod flags {
    pub(crate) const ZERO: u64 = 1 << 0;
    pub(crate) const NO_FLUSH: u64 = 1 << 1;
    pub(crate) const NO_SNAPSHOT: u64 = 1 << 2;
    pub(crate) const ASSUME_INITIALIZED: u64 = 1 << 3;
    pub(crate) const NO_ABORT: u64 = 1 << 4;
    pub(crate) const CLASS: u64 = 0xffff << 48;
    pub(crate) const ARENA: u64 = 0xffff << 32;
}

/// `PMEMOBJ_MAX_ALLOC_SIZE`.
pub(crate) const BYTES_MAX: u64 = 0x3_FFDF_FFC0;
/// The greatest alignment of an object: blocks begin anywhere in a page.
pub(crate) const ALIGNMENT_MAX: u64 = 4096;
/// `PMEMOBJ_MIN_POOL`.
pub(crate) const POOL_BYTES_MIN: u64 = 8 << 20;
/// `PMEMOBJ_MAX_LAYOUT`: with the final zero.
pub(crate) const LAYOUT_BYTES: usize = 1024;

/// The bytes of a C string, without the final zero.
///
/// # Safety
/// `text` is a C string that stays as it is while the bytes are in use.
pub(crate) unsafe fn text_of<'a>(text: *const c_char) -> &'a [u8] {
    // SAFETY: the caller vouches for it.
    unsafe { std::ffi::CStr::from_ptr(text).to_bytes() }
}
