//! Ordered maps of numbers to numbers, alone and in transactions: B+trees, each named by the 16
//! bytes that it is anchored in.

use crate::map::{alone, check_vacant};
use crate::pool::{OpenPool, SwPool, on_pool, tree_words};
use crate::status::{Failure, Status, check_bytes, give};
use crate::tx::{CallTx, SwTx, in_nested, on_tx};
use libc::c_int;
use seawall_collections::{BTree, BTreeError, Damage};
use seawall_lanes::LaneSession;
use seawall_memory::Addr;
use std::ops::Bound;

/// `struct sw_entry`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    key: u64,
    value: u64,
}

/// The most entries that one call copies; a program that wants more calls again.
const ENTRIES_MAX: usize = 4096;

fn anchor(pool: &OpenPool, at: u64) -> Result<Addr, Failure> {
    let address = pool.address(at, 0, BTree::ANCHOR_BYTES)?;
    if !at.is_multiple_of(8) {
        return Err(Failure::invalid(format!("ref {at:#x} of a map is no multiple of 8")));
    }
    pool.check_stays(address)?;
    Ok(address)
}

fn found(outcome: Result<BTree, BTreeError>, at: u64) -> Result<BTree, Failure> {
    outcome.map_err(|error| match error {
        BTreeError::Damage(Damage::Shape { .. }) => {
            let text = format!(
                "there is no ordered map at ref {at:#x}; give the ref that it was created with, or \
                 create it"
            );
            Failure::new(Status::NoMap, text)
        }
        other => other.into(),
    })
}

fn tree_of(pool: &OpenPool, session: &mut LaneSession, at: u64) -> Result<BTree, Failure> {
    let words = tree_words(&pool.heap);
    found(BTree::open(session, anchor(pool, at)?, words, BTree::VERSIONS), at)
}

fn tree_in(pool: &OpenPool, tx: &CallTx<'_>, at: u64) -> Result<BTree, Failure> {
    let words = tree_words(&pool.heap);
    found(BTree::open_in(tx, anchor(pool, at)?, words, BTree::VERSIONS), at)
}

fn create(pool: &OpenPool, tx: &mut CallTx<'_>, at: u64) -> Result<Status, Failure> {
    let anchor = anchor(pool, at)?;
    check_vacant(tx, anchor, BTree::ANCHOR_BYTES)?;
    BTree::create_in(tx, anchor, tree_words(&pool.heap), BTree::VERSIONS)?;
    Ok(Status::Ok)
}

fn destroy(pool: &OpenPool, tx: &mut CallTx<'_>, at: u64) -> Result<Status, Failure> {
    tree_in(pool, tx, at)?.free_in(tx)?;
    Ok(Status::Ok)
}

fn status_of<T>(value: &Option<T>) -> Status {
    if value.is_some() { Status::Ok } else { Status::NotFound }
}

#[unsafe(no_mangle)]
extern "C" fn sw_omap_create(handle: *const SwPool, at: u64) -> Status {
    on_pool(handle, |pool| alone(handle, pool, |pool, tx| create(pool, tx, at)))
}

#[unsafe(no_mangle)]
extern "C" fn sw_tx_omap_create(tx: SwTx, at: u64) -> Status {
    on_tx(tx, || in_nested(tx, |pool, tx| create(pool, tx, at)))
}

#[unsafe(no_mangle)]
extern "C" fn sw_omap_open(handle: *const SwPool, at: u64) -> Status {
    on_pool(handle, |pool| {
        pool.with_session(handle, |session| tree_of(pool, session, at).map(|_| Status::Ok))
    })
}

#[unsafe(no_mangle)]
extern "C" fn sw_omap_check(handle: *const SwPool, at: u64) -> Status {
    on_pool(handle, |pool| {
        pool.with_session(handle, |session| {
            tree_of(pool, session, at)?.check(session.memory(), &pool.heap, |_, _| ())?;
            Ok(Status::Ok)
        })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_omap_get(
    handle: *const SwPool,
    at: u64,
    key: u64,
    into: *mut u64,
) -> Status {
    on_pool(handle, |pool| {
        let value = pool
            .with_session(handle, |session| Ok(tree_of(pool, session, at)?.get(session, key)?))?;
        // SAFETY: the program vouches for the place.
        unsafe { give(into, value.unwrap_or(0)) };
        Ok(status_of(&value))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_tx_omap_get(tx: SwTx, at: u64, key: u64, into: *mut u64) -> Status {
    on_tx(tx, || {
        let value = in_nested(tx, |pool, tx| Ok(tree_in(pool, tx, at)?.get_in(tx, key)?))?;
        // SAFETY: the program vouches for the place.
        unsafe { give(into, value.unwrap_or(0)) };
        Ok(status_of(&value))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_omap_put(
    handle: *const SwPool,
    at: u64,
    key: u64,
    value: u64,
    was_there: *mut c_int,
) -> Status {
    on_pool(handle, |pool| {
        let was = pool.with_session(handle, |session| {
            Ok(tree_of(pool, session, at)?.insert(session, key, value)?)
        })?;
        // SAFETY: the program vouches for the place.
        unsafe { give(was_there, c_int::from(was.is_some())) };
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_tx_omap_put(
    tx: SwTx,
    at: u64,
    key: u64,
    value: u64,
    was_there: *mut c_int,
) -> Status {
    on_tx(tx, || {
        let was = in_nested(tx, |pool, tx| Ok(tree_in(pool, tx, at)?.insert_in(tx, key, value)?))?;
        // SAFETY: the program vouches for the place.
        unsafe { give(was_there, c_int::from(was.is_some())) };
        Ok(Status::Ok)
    })
}

#[unsafe(no_mangle)]
extern "C" fn sw_omap_remove(handle: *const SwPool, at: u64, key: u64) -> Status {
    on_pool(handle, |pool| {
        let old = pool.with_session(handle, |session| {
            Ok(tree_of(pool, session, at)?.remove(session, key)?)
        })?;
        Ok(status_of(&old))
    })
}

#[unsafe(no_mangle)]
extern "C" fn sw_tx_omap_remove(tx: SwTx, at: u64, key: u64) -> Status {
    on_tx(tx, || {
        let old = in_nested(tx, |pool, tx| Ok(tree_in(pool, tx, at)?.remove_in(tx, key)?))?;
        Ok(status_of(&old))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_omap_count(handle: *const SwPool, at: u64, count: *mut u64) -> Status {
    on_pool(handle, |pool| {
        let found =
            pool.with_session(handle, |session| Ok(tree_of(pool, session, at)?.len(session)?))?;
        // SAFETY: the program vouches for the place.
        unsafe { give(count, found) };
        Ok(Status::Ok)
    })
}

/// Copies entries by `copy` to where the program wants them.
///
/// # Safety
/// The places are null, or can be written.
unsafe fn copy_out(
    (into, room, count): (*mut Entry, usize, *mut usize),
    copy: impl FnOnce(&mut [(u64, u64)]) -> Result<usize, Failure>,
) -> Result<Status, Failure> {
    check_bytes(into.cast(), room.saturating_mul(size_of::<Entry>()), "the place for entries")?;
    // SAFETY: the caller vouches for it.
    unsafe { give(count, 0) };
    let mut entries = vec![(0, 0); room.min(ENTRIES_MAX)];
    let copied = copy(&mut entries)?;
    for (place, (key, value)) in entries[..copied].iter().copied().enumerate() {
        // SAFETY: as above; there is room for that many.
        unsafe { into.add(place).write_unaligned(Entry { key, value }) };
    }
    // SAFETY: as above.
    unsafe { give(count, copied) };
    Ok(if copied == 0 { Status::NotFound } else { Status::Ok })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_omap_range(
    handle: *const SwPool,
    at: u64,
    first: u64,
    last: u64,
    into: *mut Entry,
    room: usize,
    count: *mut usize,
) -> Status {
    on_pool(handle, |pool| {
        let range = (Bound::Included(first), Bound::Included(last));
        // SAFETY: the program vouches for the places.
        unsafe {
            copy_out((into, room, count), |entries| {
                pool.with_session(handle, |session| {
                    Ok(tree_of(pool, session, at)?.copy_range(session, range, entries)?)
                })
            })
        }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_tx_omap_range(
    tx: SwTx,
    at: u64,
    first: u64,
    last: u64,
    into: *mut Entry,
    room: usize,
    count: *mut usize,
) -> Status {
    on_tx(tx, || {
        let range = (Bound::Included(first), Bound::Included(last));
        // SAFETY: the program vouches for the places.
        unsafe {
            copy_out((into, room, count), |entries| {
                in_nested(tx, |pool, tx| {
                    Ok(tree_in(pool, tx, at)?.copy_range_in(tx, range, entries)?)
                })
            })
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn sw_omap_destroy(handle: *const SwPool, at: u64) -> Status {
    on_pool(handle, |pool| alone(handle, pool, |pool, tx| destroy(pool, tx, at)))
}

#[unsafe(no_mangle)]
extern "C" fn sw_tx_omap_destroy(tx: SwTx, at: u64) -> Status {
    on_tx(tx, || in_nested(tx, |pool, tx| destroy(pool, tx, at)))
}
