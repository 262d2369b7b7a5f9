//! Types of objects that can move: `struct sw_type`.

use crate::status::Failure;
use libc::c_char;
use seawall_runtime::described::{Described, Description, DescriptionError};
use std::ffi::CStr;

/// `struct sw_type`
#[repr(C)]
pub(crate) struct SwType {
    name: *const c_char,
    bytes: u64,
    refs: *const u64,
    ref_count: usize,
}

/// The most types or refs that are read from a program.
const COUNT_MAX: usize = 1 << 21;

/// So many elements from there.
///
/// # Safety
/// It is null, or that many are there.
unsafe fn elements<'a, T>(at: *const T, count: usize, what: &str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if at.is_null() || !at.is_aligned() || count > COUNT_MAX {
        return Err(Failure::invalid(format!(
            "{what}: {count} at {at:p}; give as many as are there"
        )));
    }
    // SAFETY: the caller vouches for them.
    Ok(unsafe { std::slice::from_raw_parts(at, count) })
}

impl SwType {
    /// Bytes of an object.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// # Safety
    /// Its name is a C string or null, and as many refs are there as it says.
    unsafe fn description(&self) -> Result<Description, Failure> {
        if self.name.is_null() {
            return Err(Failure::null("the name of a type"));
        }
        // SAFETY: the caller vouches for it.
        let name = unsafe { CStr::from_ptr(self.name) }.to_string_lossy().into_owned();
        // SAFETY: as above.
        let refs = unsafe { elements(self.refs, self.ref_count, &format!("refs of type {name}"))? };
        Ok(Description { name, bytes: self.bytes, pointers: refs.to_vec() })
    }
}

/// What a program says of the objects in its pool; `None` if it says nothing, as nothing moves.
///
/// # Safety
/// The root is null or a type, and as many types are there; each is whole.
pub(crate) unsafe fn described(
    root: *const SwType,
    (types, count): (*const SwType, usize),
    root_bytes: u64,
) -> Result<Option<Described>, Failure> {
    // SAFETY: the caller vouches for it.
    let root = unsafe { root.as_ref() };
    if root.is_none() && count == 0 {
        return Ok(None);
    }
    let plain = Description { name: "root".to_owned(), bytes: root_bytes, pointers: Vec::new() };
    // SAFETY: as above.
    let root = root.map_or(Ok(plain), |root| unsafe { root.description() })?;
    // SAFETY: as above.
    let types = unsafe { elements(types, count, "options.types")? };
    // SAFETY: as above.
    let types = types.iter().map(|of| unsafe { of.description() });
    let types = types.collect::<Result<Vec<_>, _>>()?;
    Ok(Some(Described::new(&root, &types)?))
}

impl From<DescriptionError> for Failure {
    fn from(error: DescriptionError) -> Failure {
        Failure::invalid(error.to_string())
    }
}
