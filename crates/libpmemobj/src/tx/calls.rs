//! Objects in a transaction: allocation, freeing, copies of strings, prepared actions, and the logs
//! that a program may give.

use super::{AtCommit, ended, ended_with_errno, must_work, own_pool, pool, with, work};
use crate::action;
use crate::error::Failure;
use crate::object::{self, PoolTx, Wanted};
use crate::pool::ObjectPool;
use crate::types::{Action, Oid, flags, text_of};
use libc::{c_char, c_int, c_void, wchar_t};
use seawall_memory::Addr;

const KNOWN: u64 = flags::ZERO | flags::NO_FLUSH | flags::NO_ABORT | flags::CLASS | flags::ARENA;

/// Allocates an object that the commit flushes, unless the program asks for no flush.
fn allocate(pool: &ObjectPool, tx: &mut PoolTx<'_>, wanted: Wanted) -> Result<Addr, Failure> {
    let at = object::allocate(pool, tx, wanted)?;
    if wanted.flags & flags::NO_FLUSH == 0 {
        tx.flush_at_commit(at, wanted.bytes);
    }
    Ok(at)
}

fn alloc(wanted: Wanted) -> Result<Oid, Failure> {
    if wanted.flags & !KNOWN != 0 {
        return Err(Failure::invalid(format!("unknown flags {:#x}", wanted.flags)));
    }
    wanted.check()?;
    let in_class = wanted.in_class(own_pool()?);
    let wanted = in_class.map_err(|failure| Failure::new(libc::ENOMEM, failure.text))?;
    work(|pool, tx| Ok(pool.oid(allocate(pool, tx, wanted)?)))
}

/// The object of that OID, in the pool of the transaction.
fn found(oid: Oid) -> Result<object::Found, Failure> {
    let pool = own_pool()?;
    if oid.pool != pool.uuid {
        return Err(Failure::invalid("invalid pool uuid"));
    }
    object::find(pool, oid.offset)
}

fn free(oid: Oid) -> Result<(), Failure> {
    if oid.is_null() {
        return Ok(());
    }
    let object = found(oid)?;
    work(|_, tx| Ok(tx.free(object.block)?))
}

fn realloc(oid: Oid, wanted: Wanted) -> Result<Oid, Failure> {
    if oid.is_null() {
        return if wanted.bytes == 0 { Ok(Oid::NULL) } else { alloc(wanted) };
    }
    if wanted.bytes == 0 {
        return free(oid).map(|()| Oid::NULL);
    }
    wanted.check()?;
    let old = found(oid)?;
    work(|pool, tx| {
        let at = allocate(pool, tx, wanted)?;
        object::copy(pool, tx, old.at, at, old.usable.min(wanted.bytes));
        tx.free(old.block)?;
        Ok(pool.oid(at))
    })
}

/// Allocates an object with these bytes.
///
/// # Safety
/// They can be read.
unsafe fn duplicate(from: *const u8, wanted: Wanted) -> Result<Oid, Failure> {
    if wanted.flags & !KNOWN != 0 {
        return Err(Failure::invalid(format!("unknown flags {:#x}", wanted.flags)));
    }
    if from.is_null() {
        return Err(Failure::invalid("cannot duplicate NULL string"));
    }
    work(|pool, tx| {
        let at = allocate(pool, tx, wanted)?;
        // SAFETY: the caller vouches for the source.
        unsafe { object::fill(pool, tx, at, from, wanted.bytes) };
        Ok(pool.oid(at))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_alloc(bytes: usize, type_number: u64) -> Oid {
    must_work("pmemobj_tx_alloc");
    let outcome = alloc(Wanted::new(bytes, type_number, 0));
    // SAFETY: this is a call of the program.
    unsafe { ended(outcome, 0, Oid::NULL) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_zalloc(bytes: usize, type_number: u64) -> Oid {
    must_work("pmemobj_tx_zalloc");
    let outcome = alloc(Wanted::new(bytes, type_number, flags::ZERO));
    // SAFETY: as above.
    unsafe { ended(outcome, 0, Oid::NULL) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_xalloc(bytes: usize, type_number: u64, given: u64) -> Oid {
    must_work("pmemobj_tx_xalloc");
    let outcome = alloc(Wanted::new(bytes, type_number, given));
    // SAFETY: as above.
    unsafe { ended(outcome, given, Oid::NULL) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_realloc(oid: Oid, bytes: usize, type_number: u64) -> Oid {
    must_work("pmemobj_tx_realloc");
    let outcome = realloc(oid, Wanted::new(bytes, type_number, 0));
    // SAFETY: as above.
    unsafe { ended(outcome, 0, Oid::NULL) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_zrealloc(oid: Oid, bytes: usize, type_number: u64) -> Oid {
    must_work("pmemobj_tx_zrealloc");
    let outcome = realloc(oid, Wanted::new(bytes, type_number, flags::ZERO));
    // SAFETY: as above.
    unsafe { ended(outcome, 0, Oid::NULL) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_xstrdup(text: *const c_char, type_number: u64, given: u64) -> Oid {
    must_work("pmemobj_tx_xstrdup");
    // SAFETY: the program vouches for the string.
    let bytes = if text.is_null() { 1 } else { unsafe { text_of(text) }.len() + 1 };
    // SAFETY: as above.
    let outcome = unsafe { duplicate(text.cast(), Wanted::new(bytes, type_number, given)) };
    // SAFETY: this is a call of the program.
    unsafe { ended(outcome, given, Oid::NULL) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_strdup(text: *const c_char, type_number: u64) -> Oid {
    // SAFETY: as there.
    unsafe { pmemobj_tx_xstrdup(text, type_number, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_xwcsdup(text: *const wchar_t, type_number: u64, given: u64) -> Oid {
    must_work("pmemobj_tx_xwcsdup");
    // SAFETY: the program vouches for the string.
    let bytes = if text.is_null() { 1 } else { unsafe { crate::atomic::wide_bytes(text) } };
    // SAFETY: as above.
    let outcome = unsafe { duplicate(text.cast(), Wanted::new(bytes, type_number, given)) };
    // SAFETY: this is a call of the program.
    unsafe { ended(outcome, given, Oid::NULL) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_wcsdup(text: *const wchar_t, type_number: u64) -> Oid {
    // SAFETY: as there.
    unsafe { pmemobj_tx_xwcsdup(text, type_number, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_xfree(oid: Oid, given: u64) -> c_int {
    must_work("pmemobj_tx_xfree");
    let outcome = if given & !flags::NO_ABORT != 0 {
        Err(Failure::invalid(format!("unknown flags {given:#x}")))
    } else {
        free(oid)
    };
    // SAFETY: this is a call of the program.
    unsafe { ended_with_errno(outcome, given) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_free(oid: Oid) -> c_int {
    // SAFETY: as there.
    unsafe { pmemobj_tx_xfree(oid, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_xpublish(actions: *mut Action, count: usize, given: u64) -> c_int {
    must_work("pmemobj_tx_xpublish");
    let outcome = if given & !flags::NO_ABORT != 0 {
        Err(Failure::invalid(format!("unknown flags {given:#x}")))
    } else {
        // SAFETY: the program vouches for its actions.
        publish(unsafe { action::slice(actions, count) })
    };
    // SAFETY: this is a call of the program.
    unsafe { ended_with_errno(outcome, given) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_publish(actions: *mut Action, count: usize) -> c_int {
    // SAFETY: as there.
    unsafe { pmemobj_tx_xpublish(actions, count, 0) }
}

/// Objects are published at once, for this transaction; the rest is done when it commits.
fn publish(actions: &[Action]) -> Result<(), Failure> {
    let pool = own_pool()?;
    for action in actions {
        match action::meaning(pool, action)? {
            action::Meaning::Publish { block, before } => work(|_, tx| {
                tx.publish(block)?;
                tx.flush_at_commit(block, before);
                Ok(())
            })?,
            action::Meaning::Free { block } => later(AtCommit::Free { block }),
            action::Meaning::Store { at, value } => later(AtCommit::Store { at, value }),
            action::Meaning::StoreOutside { place, value } => {
                later(AtCommit::StoreOutside { place, value });
            }
        }
    }
    Ok(())
}

fn later(action: AtCommit) {
    with(|tx| tx.at_commit.push(action));
}

/// `enum pobj_log_type`
const LOG_TYPES: std::ops::Range<c_int> = 0..2;

/// A log that the program gives is not needed: logs grow by themselves.
#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_xlog_append_buffer(
    kind: c_int,
    place: *mut c_void,
    bytes: usize,
    given: u64,
) -> c_int {
    must_work("pmemobj_tx_xlog_append_buffer");
    let outcome = if given & !flags::NO_ABORT != 0 {
        Err(Failure::invalid(format!("unknown flags {given:#x}")))
    } else if let Err(failure) = own_pool() {
        Err(failure)
    } else if !LOG_TYPES.contains(&kind) {
        Err(Failure::invalid(format!("invalid type of log: {kind}")))
    } else if bytes < seawall_memory::LINE_BYTES as usize {
        Err(Failure::invalid("the log is too small"))
    } else if pool().address_of(place.cast(), bytes as u64).is_none() {
        Err(Failure::invalid("the log is not in the pool"))
    } else {
        Ok(())
    };
    // SAFETY: this is a call of the program.
    unsafe { ended_with_errno(outcome, given) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_log_append_buffer(
    kind: c_int,
    place: *mut c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: as there.
    unsafe { pmemobj_tx_xlog_append_buffer(kind, place, bytes, 0) }
}

/// Logs grow by themselves, whatever the program asks for.
#[unsafe(no_mangle)]
extern "C" fn pmemobj_tx_log_auto_alloc(kind: c_int, _is_on: c_int) -> c_int {
    must_work("pmemobj_tx_log_auto_alloc");
    if LOG_TYPES.contains(&kind) {
        return 0;
    }
    Failure::invalid(format!("invalid type of log: {kind}")).report();
    0
}

/// Bytes of a log of snapshots of these sizes: more than this library takes.
#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_log_snapshots_max_size(sizes: *const usize, count: usize) -> usize {
    const LINE: usize = 64;
    let sizes: &[usize] = if count == 0 {
        &[]
    } else {
        // SAFETY: the program vouches for its sizes.
        unsafe { std::slice::from_raw_parts(sizes, count) }
    };
    let sum = sizes.iter().try_fold(LINE, |sum: usize, size| {
        sum.checked_add(size.checked_next_multiple_of(LINE)?)?.checked_add(LINE)
    });
    too_large(sum)
}

/// Bytes of a log of so many intents: more than this library takes.
#[unsafe(no_mangle)]
extern "C" fn pmemobj_tx_log_intents_max_size(count: usize) -> usize {
    too_large(count.checked_add(1).and_then(|count| count.checked_mul(64)))
}

fn too_large(bytes: Option<usize>) -> usize {
    match bytes.filter(|bytes| *bytes as u64 <= crate::types::BYTES_MAX) {
        Some(bytes) => bytes,
        None => {
            Failure::new(libc::ERANGE, "the log would be larger than any object").report();
            usize::MAX
        }
    }
}
