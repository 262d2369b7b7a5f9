//! Announcing what a transaction changes: `pmemobj_tx_add_range` and its kin.

use super::{ended_with_errno, must_work, own_pool, work};
use crate::error::Failure;
use crate::object::{HEADER_BYTES, PoolTx};
use crate::pool::ObjectPool;
use crate::types::{BYTES_MAX, Oid, flags};
use libc::{c_int, c_void};
use seawall_memory::Addr;

const KNOWN: u64 =
    flags::NO_FLUSH | flags::NO_SNAPSHOT | flags::ASSUME_INITIALIZED | flags::NO_ABORT;

/// Logs the old values of these bytes, unless the program asks for no snapshot. They are flushed by
/// the commit also if the program asks for no flush: it is always right, and costs little.
fn add(tx: &mut PoolTx<'_>, at: Addr, bytes: u64, given: u64) -> Result<(), Failure> {
    if given & flags::NO_SNAPSHOT != 0 {
        if given & flags::NO_FLUSH == 0 {
            tx.flush_at_commit(at, bytes);
        }
        return Ok(());
    }
    Ok(tx.add(&[(at, bytes)])?)
}

fn check(bytes: u64, given: u64) -> Result<(), Failure> {
    if given & !KNOWN != 0 {
        return Err(Failure::invalid(format!("unknown flags {given:#x}")));
    }
    if bytes > BYTES_MAX {
        return Err(Failure::invalid("snapshot size too large"));
    }
    Ok(())
}

fn add_object(oid: Oid, offset: u64, bytes: u64, given: u64) -> Result<(), Failure> {
    check(bytes, given)?;
    let pool = own_pool()?;
    if oid.pool != pool.uuid {
        return Err(Failure::invalid("invalid pool uuid"));
    }
    let start = oid.offset.checked_add(offset).filter(|_| oid.offset >= HEADER_BYTES);
    let start = start.ok_or_else(|| Failure::invalid("the object is not in the pool"))?;
    add_bytes(pool, Addr::pm(start), bytes, given)
}

fn add_bytes(pool: &ObjectPool, at: Addr, bytes: u64, given: u64) -> Result<(), Failure> {
    if at.offset() >= pool.bytes || bytes > pool.bytes - at.offset() {
        return Err(Failure::invalid("object outside of pool"));
    }
    if bytes == 0 {
        return Ok(());
    }
    work(|_, tx| add(tx, at, bytes, given))
}

fn add_direct(place: *const c_void, bytes: u64, given: u64) -> Result<(), Failure> {
    check(bytes, given)?;
    let pool = own_pool()?;
    let at = pool.address_of(place.cast(), bytes);
    let at = at.ok_or_else(|| Failure::invalid("object outside of pool"))?;
    add_bytes(pool, at, bytes, given)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_add_range(oid: Oid, offset: u64, bytes: usize) -> c_int {
    must_work("pmemobj_tx_add_range");
    let outcome = add_object(oid, offset, bytes as u64, 0);
    // SAFETY: this is a call of the program.
    unsafe { ended_with_errno(outcome, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_xadd_range(
    oid: Oid,
    offset: u64,
    bytes: usize,
    given: u64,
) -> c_int {
    must_work("pmemobj_tx_xadd_range");
    let outcome = add_object(oid, offset, bytes as u64, given);
    // SAFETY: this is a call of the program.
    unsafe { ended_with_errno(outcome, given) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_add_range_direct(place: *const c_void, bytes: usize) -> c_int {
    must_work("pmemobj_tx_add_range_direct");
    let outcome = add_direct(place, bytes as u64, 0);
    // SAFETY: this is a call of the program.
    unsafe { ended_with_errno(outcome, 0) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_xadd_range_direct(
    place: *const c_void,
    bytes: usize,
    given: u64,
) -> c_int {
    must_work("pmemobj_tx_xadd_range_direct");
    let outcome = add_direct(place, bytes as u64, given);
    // SAFETY: this is a call of the program.
    unsafe { ended_with_errno(outcome, given) }
}
