//! Types of objects that can move: `struct sw_type`, and how objects of such pools are accessed.

use crate::pool::OpenPool;
use crate::status::{Failure, Status};
use crate::tx::CallTx;
use libc::c_char;
use seawall_memory::Addr;
use seawall_runtime::described::{Described, DescribedError, Description, DescriptionError};
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

impl From<DescribedError> for Failure {
    fn from(error: DescribedError) -> Failure {
        match error {
            DescribedError::Tx(error) => error.into(),
            DescribedError::Unknown { name, .. } => {
                let text = format!(
                    "the object is of type {name}, which options.types does not name; open the \
                     pool with all types of its objects"
                );
                Failure::new(Status::OtherLayout, text)
            }
            DescribedError::Outside { at, offset, bytes, size } => {
                let text = no_data(at.offset(), offset, bytes).text;
                Failure::invalid(format!("{text}, which has {size}"))
            }
            DescribedError::Moves { at } => Failure::invalid(format!(
                "what is at ref {:#x} can move, or has refs that the library must see: use \
                 sw_tx_read and sw_tx_write",
                at.offset()
            )),
            other => Failure::invalid(other.to_string()),
        }
    }
}

fn no_data(at: u64, offset: u64, bytes: u64) -> Failure {
    Failure::invalid(format!(
        "{bytes} bytes at {offset} behind ref {at:#x} are no data of this pool; use a ref that it \
         gave, and stay inside its object"
    ))
}

/// Bytes of an object: its ref, and where they begin in it.
pub(crate) type Place = (u64, u64);

impl OpenPool {
    /// The address of bytes that the program may use, in a pool where nothing moves.
    fn data(&self, tx: &CallTx<'_>, (at, offset): Place, bytes: u64) -> Result<Addr, Failure> {
        let address = self.address(at, offset, bytes)?;
        if bytes > 0 && !tx.is_data(address, bytes) {
            return Err(no_data(at, offset, bytes));
        }
        Ok(address)
    }

    /// The address of an object, bytes of which are data, if they are within it.
    fn object(&self, tx: &CallTx<'_>, (at, offset): Place, bytes: u64) -> Result<Addr, Failure> {
        self.address(at, offset, bytes)?;
        let object = self.address(at, 0, 1)?;
        if !tx.is_data(object, 1) {
            return Err(no_data(at, offset, bytes));
        }
        Ok(object)
    }

    /// The types, and the bytes of an object of the one at that place.
    pub(crate) fn type_at(&self, of: usize) -> Result<(&Described, u64), Failure> {
        let none = || {
            let text = format!("options.types has no type {of}; the first one is 0");
            Failure::invalid(text)
        };
        let described = self.described.as_ref().ok_or_else(none)?;
        Ok((described, described.bytes_of(of).ok_or_else(none)?))
    }

    /// Refuses more bytes than the pool has, before there is memory for them.
    pub(crate) fn check_length(&self, bytes: u64) -> Result<(), Failure> {
        if bytes <= self.bytes() { Ok(()) } else { Err(no_data(0, 0, bytes)) }
    }

    /// Reads bytes of an object.
    pub(crate) fn read(
        &self,
        tx: &mut CallTx<'_>,
        (at, offset): Place,
        into: &mut [u8],
    ) -> Result<(), Failure> {
        match &self.described {
            Some(described) => {
                let object = self.object(tx, (at, offset), into.len() as u64)?;
                Ok(described.read(tx, object, offset, into)?)
            }
            None => {
                let from = self.data(tx, (at, offset), into.len() as u64)?;
                tx.read(from, into);
                Ok(())
            }
        }
    }

    /// Writes bytes of an object.
    pub(crate) fn write(
        &self,
        tx: &mut CallTx<'_>,
        (at, offset): Place,
        from: &[u8],
    ) -> Result<(), Failure> {
        match &self.described {
            Some(described) => {
                let object = self.object(tx, (at, offset), from.len() as u64)?;
                Ok(described.write(tx, object, offset, from)?)
            }
            None => {
                let to = self.data(tx, (at, offset), from.len() as u64)?;
                Ok(tx.write(to, from)?)
            }
        }
    }

    /// Frees an object.
    pub(crate) fn free(&self, tx: &mut CallTx<'_>, at: u64) -> Result<(), Failure> {
        let address = self.address(at, 0, 1)?;
        match &self.described {
            Some(described) => Ok(described.free(tx, address)?),
            None => Ok(tx.free(address)?),
        }
    }

    /// The address of bytes that the program may store to by itself.
    pub(crate) fn fixed(
        &self,
        tx: &mut CallTx<'_>,
        (at, offset): Place,
        bytes: u64,
    ) -> Result<Addr, Failure> {
        match &self.described {
            Some(described) => {
                let object = self.object(tx, (at, offset), bytes)?;
                Ok(described.fixed(tx, object, offset, bytes)?)
            }
            None => self.data(tx, (at, offset), bytes),
        }
    }

    /// Refuses an address of what can move.
    pub(crate) fn check_stays(&self, address: Addr) -> Result<(), Failure> {
        let Some(described) = &self.described else { return Ok(()) };
        let stays = described.stays(&self.heap, &self.memory(), address);
        if stays.map_err(seawall_runtime::TxError::from)? {
            return Ok(());
        }
        Err(Failure::from(DescribedError::Moves { at: address }))
    }
}
