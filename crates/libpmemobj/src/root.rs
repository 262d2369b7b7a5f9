//! The root object of a program: made by the first call, and grown by one that asks for more.

use crate::error::Failure;
use crate::object::{self, Construct, Found, PoolTx, Wanted};
use crate::pool::{ObjectPool, root_words};
use crate::registry::by_pop;
use crate::types::{Constructor, Oid, Pop};
use libc::c_void;
use seawall_memory::Addr;
use seawall_runtime::Logging;
use std::ptr::null_mut;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Acquire;

/// The offset of the root object, and the bytes that it was asked for with.
fn now(pool: &ObjectPool) -> (u64, u64) {
    let root = pool.heap.root();
    let word = |word| {
        let place = pool.place(root_words::at(root, word)).cast();
        // SAFETY: the heap has the words, which only atomics access while it is open.
        unsafe { AtomicU64::from_ptr(place) }.load(Acquire)
    };
    let bytes = word(root_words::ROOT_BYTES);
    (word(root_words::ROOT), bytes)
}

/// The root object, with at least `bytes` bytes: atomic with respect to crashes. What is new of it
/// is zero, before the constructor is called.
fn root(pool: &'static ObjectPool, bytes: u64, construct: Construct) -> Result<Oid, Failure> {
    // A root that grows moves, and its bytes are stored behind its offset.
    let (offset, before) = now(pool);
    if offset != 0 && bytes <= before {
        return Ok(pool.oid(Addr::pm(offset)));
    }
    let _one = pool.root_lock.lock().unwrap_or_else(PoisonError::into_inner);
    let (offset, before) = now(pool);
    if offset != 0 && bytes <= before {
        return Ok(pool.oid(Addr::pm(offset)));
    }
    if bytes == 0 {
        return Err(Failure::invalid("requested size of the root cannot be zero"));
    }
    let old = if offset == 0 { None } else { Some(object::find(pool, offset)?) };
    pool.atomically(Logging::Redo, |tx| grown(pool, tx, old, bytes, construct))
}

fn grown(
    pool: &'static ObjectPool,
    tx: &mut PoolTx<'_>,
    old: Option<Found>,
    bytes: u64,
    construct: Construct,
) -> Result<Oid, Failure> {
    let wanted = Wanted::root(bytes);
    let at = object::allocate(pool, tx, wanted)?;
    if let Some(old) = old {
        object::copy(pool, tx, old.at, at, old.usable.min(bytes));
        tx.free(old.block)?;
    }
    construct.call(pool, at)?;
    let root = pool.heap.root();
    tx.store(root_words::at(root, root_words::ROOT), at.offset())?;
    tx.store(root_words::at(root, root_words::ROOT_BYTES), bytes)?;
    Ok(pool.oid(at))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_root_construct(
    pop: Pop,
    bytes: usize,
    constructor: Constructor,
    argument: *mut c_void,
) -> Oid {
    let construct = Construct { with: constructor, argument };
    match by_pop(pop).and_then(|pool| root(pool, bytes as u64, construct)) {
        Ok(oid) => oid,
        Err(failure) => crate::base::failed(&failure, Oid::NULL),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_root(pop: Pop, bytes: usize) -> Oid {
    // SAFETY: as there.
    unsafe { pmemobj_root_construct(pop, bytes, None, null_mut()) }
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_root_size(pop: Pop) -> usize {
    match by_pop(pop) {
        Ok(pool) => now(pool).1 as usize,
        Err(failure) => crate::base::failed(&failure, 0),
    }
}
