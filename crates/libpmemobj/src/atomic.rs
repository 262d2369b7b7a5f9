//! Allocation without a transaction, each call atomic with respect to crashes: `atomic_base.h`.

use crate::error::Failure;
use crate::object::{self, Construct, Wanted};
use crate::pool::ObjectPool;
use crate::registry::{by_oid, by_pop};
use crate::types::{Constructor, Oid, Pop, flags, text_of};
use libc::{c_char, c_int, c_void, wchar_t};
use seawall_runtime::Logging;
use std::ptr::null_mut;

/// Allocates, and stores the OID in `place`: both or neither after a crash, if that is in the pool.
pub(crate) fn alloc(
    pool: &'static ObjectPool,
    place: *mut Oid,
    wanted: Wanted,
    construct: Construct,
) -> Result<Oid, Failure> {
    wanted.check()?;
    let wanted = wanted.in_class(pool)?;
    let (oid, is_stored) = pool.atomically(Logging::Undo, |tx| {
        let at = object::allocate(pool, tx, wanted)?;
        construct.call(pool, at)?;
        let oid = pool.oid(at);
        Ok((oid, object::store_oid(pool, tx, place, oid)?))
    })?;
    if !is_stored && !place.is_null() {
        // SAFETY: the program vouches for the place.
        unsafe { place.write(oid) };
    }
    Ok(oid)
}

/// Frees the object whose OID is in `place`, and stores the null OID there.
///
/// # Safety
/// `place` can be read and written.
unsafe fn free(place: *mut Oid) -> Result<(), Failure> {
    // SAFETY: the caller vouches for it.
    let oid = unsafe { place.read() };
    if oid.is_null() {
        return Ok(());
    }
    let pool = by_oid(oid)?;
    let object = object::find(pool, oid.offset)?;
    let is_stored = pool.atomically(Logging::Undo, |tx| {
        tx.free(object.block)?;
        object::store_oid(pool, tx, place, Oid::NULL)
    })?;
    if !is_stored {
        // SAFETY: as above.
        unsafe { place.write(Oid::NULL) };
    }
    Ok(())
}

/// # Safety
/// As [`free`].
unsafe fn realloc(
    pool: &'static ObjectPool,
    place: *mut Oid,
    wanted: Wanted,
) -> Result<(), Failure> {
    // SAFETY: the caller vouches for it.
    let oid = unsafe { place.read() };
    if oid.is_null() {
        if wanted.bytes == 0 {
            return Ok(());
        }
        return alloc(pool, place, wanted, Construct::NOTHING).map(|_| ());
    }
    if wanted.bytes == 0 {
        // SAFETY: as above.
        return unsafe { free(place) };
    }
    wanted.check()?;
    let old = object::find(pool, oid.offset)?;
    let (oid, is_stored) = pool.atomically(Logging::Undo, |tx| {
        let at = object::allocate(pool, tx, wanted)?;
        object::copy(pool, tx, old.at, at, old.usable.min(wanted.bytes));
        tx.free(old.block)?;
        let oid = pool.oid(at);
        Ok((oid, object::store_oid(pool, tx, place, oid)?))
    })?;
    if !is_stored {
        // SAFETY: as above.
        unsafe { place.write(oid) };
    }
    Ok(())
}

/// Gives 0, or -1 with `errno`.
fn ended<T>(outcome: Result<T, Failure>) -> c_int {
    match outcome {
        Ok(_) => 0,
        Err(failure) => {
            failure.report();
            -1
        }
    }
}

/// Bytes of a wide string, with the final zero.
///
/// # Safety
/// It is one.
pub(crate) unsafe fn wide_bytes(text: *const wchar_t) -> usize {
    let mut count = 0;
    // SAFETY: the caller vouches for it.
    while unsafe { *text.add(count) } != 0 {
        count += 1;
    }
    (count + 1) * size_of::<wchar_t>()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_xalloc(
    pop: Pop,
    place: *mut Oid,
    bytes: usize,
    type_number: u64,
    given: u64,
    constructor: Constructor,
    argument: *mut c_void,
) -> c_int {
    const KNOWN: u64 =
        flags::ZERO | flags::CLASS | flags::ARENA | flags::NO_FLUSH | flags::NO_ABORT;
    if given & !KNOWN != 0 {
        return ended::<()>(Err(Failure::invalid(format!("unknown flags {given:#x}"))));
    }
    let construct = Construct { with: constructor, argument };
    let wanted = Wanted::new(bytes, type_number, given);
    ended(by_pop(pop).and_then(|pool| alloc(pool, place, wanted, construct)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_alloc(
    pop: Pop,
    place: *mut Oid,
    bytes: usize,
    type_number: u64,
    constructor: Constructor,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: as there.
    unsafe { pmemobj_xalloc(pop, place, bytes, type_number, 0, constructor, argument) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_zalloc(
    pop: Pop,
    place: *mut Oid,
    bytes: usize,
    type_number: u64,
) -> c_int {
    // SAFETY: as there.
    unsafe { pmemobj_xalloc(pop, place, bytes, type_number, flags::ZERO, None, null_mut()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_realloc(
    pop: Pop,
    place: *mut Oid,
    bytes: usize,
    type_number: u64,
) -> c_int {
    let wanted = Wanted::new(bytes, type_number, 0);
    // SAFETY: the program vouches for the place.
    ended(by_pop(pop).and_then(|pool| unsafe { realloc(pool, place, wanted) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_zrealloc(
    pop: Pop,
    place: *mut Oid,
    bytes: usize,
    type_number: u64,
) -> c_int {
    let wanted = Wanted::new(bytes, type_number, flags::ZERO);
    // SAFETY: the program vouches for the place.
    ended(by_pop(pop).and_then(|pool| unsafe { realloc(pool, place, wanted) }))
}

/// # Safety
/// `from` is null, or can be read for so many bytes.
unsafe fn duplicate(pop: Pop, place: *mut Oid, from: *const u8, wanted: Wanted) -> c_int {
    ended(by_pop(pop).and_then(|pool| {
        if from.is_null() {
            return Err(Failure::invalid("cannot duplicate NULL string"));
        }
        let (oid, is_stored) = pool.atomically(Logging::Undo, |tx| {
            let at = object::allocate(pool, tx, wanted)?;
            // SAFETY: the caller vouches for the source.
            unsafe { object::fill(pool, tx, at, from, wanted.bytes) };
            let oid = pool.oid(at);
            Ok((oid, object::store_oid(pool, tx, place, oid)?))
        })?;
        if !is_stored && !place.is_null() {
            // SAFETY: the program vouches for the place.
            unsafe { place.write(oid) };
        }
        Ok(())
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_strdup(
    pop: Pop,
    place: *mut Oid,
    text: *const c_char,
    type_number: u64,
) -> c_int {
    // SAFETY: the program vouches for the string.
    let bytes = if text.is_null() { 1 } else { unsafe { text_of(text) }.len() + 1 };
    // SAFETY: as above.
    unsafe { duplicate(pop, place, text.cast(), Wanted::new(bytes, type_number, 0)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_wcsdup(
    pop: Pop,
    place: *mut Oid,
    text: *const wchar_t,
    type_number: u64,
) -> c_int {
    // SAFETY: the program vouches for the string.
    let bytes = if text.is_null() { 1 } else { unsafe { wide_bytes(text) } };
    // SAFETY: as above.
    unsafe { duplicate(pop, place, text.cast(), Wanted::new(bytes, type_number, 0)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_free(place: *mut Oid) {
    // SAFETY: the program vouches for the place.
    ended(unsafe { free(place) });
}
