//! Pools and objects: the calls of `base.h` and `pool_base.h`.

use crate::error::{Failure, set_errno};
use crate::object;
use crate::pool::ObjectPool;
use crate::registry::{self, Missing, by_oid, by_place, by_pop};
use crate::types::{Oid, Pop, text_of};
use libc::{c_char, c_int, c_void, mode_t};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Acquire, Release};

/// # Safety
/// `path` is a C string.
unsafe fn path_of<'a>(path: *const c_char) -> &'a Path {
    // SAFETY: the caller vouches for it.
    Path::new(OsStr::from_bytes(unsafe { text_of(path) }))
}

/// # Safety
/// `layout` is null or a C string.
unsafe fn layout_of<'a>(layout: *const c_char) -> Option<&'a [u8]> {
    // SAFETY: the caller vouches for it.
    (!layout.is_null()).then(|| unsafe { text_of(layout) })
}

fn opened(outcome: Result<ObjectPool, Failure>) -> Pop {
    let added = outcome.and_then(|pool| {
        registry::add(pool).map_err(|copy| {
            copy.close();
            let text = "a pool with the same number is open: this one is a copy of it";
            Failure::new(libc::EEXIST, text)
        })
    });
    added.unwrap_or_else(|failure| failed(&failure, null_mut()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_create(
    path: *const c_char,
    layout: *const c_char,
    bytes: usize,
    mode: mode_t,
) -> Pop {
    // SAFETY: the program vouches for both strings.
    let (path, layout) = unsafe { (path_of(path), layout_of(layout)) };
    opened(ObjectPool::create(path, layout.unwrap_or_default(), bytes as u64, mode))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_open(path: *const c_char, layout: *const c_char) -> Pop {
    // SAFETY: as above.
    let (path, layout) = unsafe { (path_of(path), layout_of(layout)) };
    opened(ObjectPool::open(path, layout))
}

/// Gives 1 if the pool is whole, 0 if not, -1 if that cannot be found out.
#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_check(path: *const c_char, layout: *const c_char) -> c_int {
    // SAFETY: as above.
    let (path, layout) = unsafe { (path_of(path), layout_of(layout)) };
    match crate::check::check(path, layout) {
        Ok(true) => 1,
        Ok(false) => 0,
        Err(failure) => {
            failure.report();
            -1
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_close(pop: Pop) {
    if let Some(pool) = registry::remove(pop) {
        pool.close();
    } else if let Some(pool) = registry::remove_inherited(pop) {
        pool.give_up();
    } else {
        Failure::invalid(registry::NOT_OPEN).report();
    }
}

/// The pool that a program asks for. That there is none is an error only in the child of a fork.
fn asked(found: Result<&'static ObjectPool, Missing>) -> Option<&'static ObjectPool> {
    if let Err(missing @ Missing::Inherited) = found {
        Failure::from(missing).report();
    }
    found.ok()
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_pool_by_oid(oid: Oid) -> Pop {
    asked(by_oid(oid)).map_or(null_mut(), ObjectPool::pop)
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_pool_by_ptr(place: *const c_void) -> Pop {
    asked(by_place(place.cast())).map_or(null_mut(), ObjectPool::pop)
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_direct(oid: Oid) -> *mut c_void {
    if oid.is_null() || oid.pool == 0 {
        return null_mut();
    }
    let pool = asked(by_oid(oid));
    pool.map_or(null_mut(), |pool| (pool.base + oid.offset as usize) as *mut c_void)
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_oid(place: *const c_void) -> Oid {
    match asked(by_place(place.cast())) {
        Some(pool) => Oid { pool: pool.uuid, offset: (place as usize - pool.base) as u64 },
        None => Oid::NULL,
    }
}

fn found(oid: Oid) -> Result<object::Found, Failure> {
    object::find(by_oid(oid)?, oid.offset)
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_alloc_usable_size(oid: Oid) -> usize {
    if oid.is_null() {
        return 0;
    }
    match found(oid) {
        Ok(object) => object.usable as usize,
        Err(failure) => {
            failure.report();
            0
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_type_num(oid: Oid) -> u64 {
    match found(oid) {
        Ok(object) => object.type_number,
        Err(failure) => {
            failure.report();
            0
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_first(pop: Pop) -> Oid {
    match by_pop(pop) {
        Ok(pool) => object::next(pool, None),
        Err(failure) => {
            failure.report();
            Oid::NULL
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_next(oid: Oid) -> Oid {
    if oid.is_null() {
        return Oid::NULL;
    }
    match asked(by_oid(oid)) {
        Some(pool) => object::next(pool, Some(seawall_memory::Addr::pm(oid.offset))),
        None => Oid::NULL,
    }
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_set_user_data(pop: Pop, data: *mut c_void) {
    match by_pop(pop) {
        Ok(pool) => pool.user_data.store(data, Release),
        Err(failure) => drop(failure.report()),
    }
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_get_user_data(pop: Pop) -> *mut c_void {
    match by_pop(pop) {
        Ok(pool) => pool.user_data.load(Acquire),
        Err(failure) => failed(&failure, null_mut()),
    }
}

/// Memory of this library is its own: the functions are not used.
#[unsafe(no_mangle)]
extern "C" fn pmemobj_set_funcs(
    _malloc: *const c_void,
    _free: *const c_void,
    _realloc: *const c_void,
    _strdup: *const c_void,
) {
}

#[unsafe(no_mangle)]
extern "C" fn _pobj_debug_notice(_function: *const c_char, _file: *const c_char, _line: c_int) {}

/// The value behind `vlt`, made by `construct` once in each run.
#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_volatile(
    pop: Pop,
    vlt: *mut u64,
    value: *mut c_void,
    bytes: usize,
    construct: Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int>,
    argument: *mut c_void,
) -> *mut c_void {
    let Ok(pool) = by_pop(pop).map_err(|failure| failure.report()) else { return null_mut() };
    let make = || match construct {
        // SAFETY: the program vouches for its constructor and the value.
        Some(construct) => unsafe { construct(value, argument) == 0 },
        None => {
            // SAFETY: as above.
            unsafe { value.cast::<u8>().write_bytes(0, bytes) };
            true
        }
    };
    // SAFETY: the program vouches for the word, which is aligned.
    let run = unsafe { std::sync::atomic::AtomicU64::from_ptr(vlt) };
    if crate::locks::once_in_run(pool, run, make) { value } else { null_mut() }
}

/// Reports a failure and gives what the call gives then.
pub(crate) fn failed<T>(failure: &Failure, value: T) -> T {
    failure.report();
    set_errno(failure.errno);
    value
}
