//! The pools that are open in this process, by address and by number.
//!
//! A program hands a pool over with each call, and its header files keep the last pool by number in
//! a variable of each thread (`_pobj_cached_pool`), which is void when `_pobj_cache_invalidate`
//! changes: at each close.

use crate::error::Failure;
use crate::pool::ObjectPool;
use crate::types::{Oid, Pop};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, AtomicUsize};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

static POOLS: RwLock<Vec<&'static ObjectPool>> = RwLock::new(Vec::new());

/// Changes when a pool is closed.
#[unsafe(no_mangle)]
static _pobj_cache_invalidate: AtomicI32 = AtomicI32::new(0);

/// The pools that were opened first: their addresses, and what is known of them. A call finds its
/// pool here without a lock.
static FIRST: [Slot; 4] = [const { Slot::new() }; 4];

struct Slot {
    base: AtomicUsize,
    /// As in the pool; 0 is no run.
    run: AtomicU64,
    pool: AtomicPtr<ObjectPool>,
}

impl Slot {
    const fn new() -> Slot {
        Slot { base: AtomicUsize::new(0), run: AtomicU64::new(0), pool: AtomicPtr::new(null_mut()) }
    }

    #[inline]
    fn get(&self) -> Option<&'static ObjectPool> {
        // SAFETY: it is null, or a pool that is open; no thread uses one that is being closed.
        unsafe { self.pool.load(Acquire).as_ref() }
    }
}

fn pools() -> RwLockReadGuard<'static, Vec<&'static ObjectPool>> {
    POOLS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a pool; gives its address.
pub(crate) fn add(pool: ObjectPool) -> Pop {
    let pool: &'static ObjectPool = Box::leak(Box::new(pool));
    let mut pools = POOLS.write().unwrap_or_else(PoisonError::into_inner);
    pools.push(pool);
    if let Some(slot) = FIRST.iter().find(|slot| slot.get().is_none()) {
        slot.pool.store(std::ptr::from_ref(pool).cast_mut(), Release);
        slot.run.store(pool.run, Release);
        slot.base.store(pool.base, Release);
    }
    pool.pop()
}

/// Removes the pool at that address.
pub(crate) fn remove(pop: Pop) -> Option<ObjectPool> {
    let mut pools = POOLS.write().unwrap_or_else(PoisonError::into_inner);
    let place = pools.iter().position(|pool| pool.pop() == pop)?;
    let pool = pools.remove(place);
    for slot in FIRST.iter().filter(|slot| slot.base.load(Acquire) == pool.base) {
        slot.base.store(0, Release);
        slot.run.store(0, Release);
        slot.pool.store(null_mut(), Release);
    }
    _pobj_cache_invalidate.fetch_add(1, SeqCst);
    // SAFETY: it is from `Box::leak`, and no thread may use a pool that is being closed.
    Some(*unsafe { Box::from_raw(std::ptr::from_ref(pool).cast_mut()) })
}

/// The pool at that address.
#[inline]
pub(crate) fn by_pop(pop: Pop) -> Result<&'static ObjectPool, Failure> {
    let base = pop as usize;
    for slot in &FIRST {
        if slot.base.load(Acquire) == base
            && let Some(pool) = slot.get()
        {
            return Ok(pool);
        }
    }
    find(|pool| pool.base == base)
        .ok_or_else(|| Failure::invalid("the pool is not open: it was closed, or never opened"))
}

/// The number of the run of the pool at that address, if it is among those that were opened first.
#[inline]
pub(crate) fn run_of(pop: Pop) -> Option<u64> {
    let base = pop as usize;
    let slot = FIRST.iter().find(|slot| slot.base.load(Acquire) == base)?;
    let run = slot.run.load(Acquire);
    (run != 0).then_some(run)
}

/// The pool of that number.
pub(crate) fn by_oid(oid: Oid) -> Option<&'static ObjectPool> {
    let mut first = FIRST.iter().filter_map(Slot::get);
    first.find(|pool| pool.uuid == oid.pool).or_else(|| find(|pool| pool.uuid == oid.pool))
}

/// The pool that has that byte.
pub(crate) fn by_place(place: *const u8) -> Option<&'static ObjectPool> {
    let mut first = FIRST.iter().filter_map(Slot::get);
    first.find(|pool| pool.holds(place)).or_else(|| find(|pool| pool.holds(place)))
}

#[cold]
fn find(is_it: impl Fn(&ObjectPool) -> bool) -> Option<&'static ObjectPool> {
    pools().iter().find(|pool| is_it(pool)).copied()
}

/// Whether a pool of that number is open.
pub(crate) fn has(uuid: u64) -> bool {
    pools().iter().any(|pool| pool.uuid == uuid)
}
