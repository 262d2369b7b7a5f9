//! The pools that are open in this process, by address and by number.
//!
//! A program hands a pool over with each call, and its header files keep the last pool by number in
//! a variable of each thread (`_pobj_cached_pool`), which is void when `_pobj_cache_invalidate`
//! changes: at each close. It changes at each opening, too, as the variable can have another pool of
//! that number: that of the process from which this one was forked.

use crate::error::Failure;
use crate::pool::ObjectPool;
use crate::types::{Oid, Pop};
use seawall_native::OfProcess;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, AtomicUsize};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, TryLockError};

/// Those of this process. In the child of a fork, pools that were open before are the parent's: no
/// call finds them, whatever threads of the parent have locked.
static POOLS: OfProcess<Pools> = OfProcess::new();

pub(crate) const NOT_OPEN: &str = "the pool is not open: it was closed, or never opened";

#[derive(Default)]
struct Pools {
    all: RwLock<Vec<&'static ObjectPool>>,
    /// The pools that were opened first: their addresses, and what is known of them. A call finds
    /// its pool here without a lock.
    first: [Slot; 4],
}

/// Changes when a pool is opened or closed.
#[unsafe(no_mangle)]
static _pobj_cache_invalidate: AtomicI32 = AtomicI32::new(0);

#[derive(Default)]
struct Slot {
    base: AtomicUsize,
    /// As in the pool; 0 is no run.
    run: AtomicU64,
    pool: AtomicPtr<ObjectPool>,
}

impl Slot {
    #[inline]
    fn get(&self) -> Option<&'static ObjectPool> {
        // SAFETY: it is null, or a pool that is open; no thread uses one that is being closed.
        unsafe { self.pool.load(Acquire).as_ref() }
    }
}

impl Pools {
    fn read(&self) -> RwLockReadGuard<'_, Vec<&'static ObjectPool>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the parent had such a pool open when it forked. If it was opening or closing one,
    /// this is taken to be that.
    fn had(&self, is_it: impl Fn(&ObjectPool) -> bool) -> bool {
        match self.all.try_read() {
            Ok(all) => all.iter().any(|pool| is_it(pool)),
            Err(TryLockError::Poisoned(all)) => all.get_ref().iter().any(|pool| is_it(pool)),
            Err(TryLockError::WouldBlock) => true,
        }
    }
}

/// Adds a pool; gives its address.
pub(crate) fn add(pool: ObjectPool) -> Pop {
    let pool: &'static ObjectPool = Box::leak(Box::new(pool));
    let pools = POOLS.get_or_make(Pools::default);
    let mut all = pools.all.write().unwrap_or_else(PoisonError::into_inner);
    all.push(pool);
    if let Some(slot) = pools.first.iter().find(|slot| slot.get().is_none()) {
        slot.pool.store(std::ptr::from_ref(pool).cast_mut(), Release);
        slot.run.store(pool.run, Release);
        slot.base.store(pool.base, Release);
    }
    _pobj_cache_invalidate.fetch_add(1, SeqCst);
    pool.pop()
}

/// Removes the pool at that address.
pub(crate) fn remove(pop: Pop) -> Option<ObjectPool> {
    let pools = POOLS.get()?;
    let mut all = pools.all.write().unwrap_or_else(PoisonError::into_inner);
    let place = all.iter().position(|pool| pool.pop() == pop)?;
    let pool = all.remove(place);
    for slot in pools.first.iter().filter(|slot| slot.base.load(Acquire) == pool.base) {
        slot.base.store(0, Release);
        slot.run.store(0, Release);
        slot.pool.store(null_mut(), Release);
    }
    _pobj_cache_invalidate.fetch_add(1, SeqCst);
    // SAFETY: it is from `Box::leak`, and no thread may use a pool that is being closed.
    Some(*unsafe { Box::from_raw(std::ptr::from_ref(pool).cast_mut()) })
}

/// Removes the parent's pool at that address, which stays open for the parent. Here nothing leads to
/// it any more but a transaction that was open at the fork.
pub(crate) fn remove_inherited(pop: Pop) -> Option<&'static ObjectPool> {
    let mut found = POOLS.inherited().filter_map(|pools| {
        let mut all = pools.all.try_write().ok()?;
        let place = all.iter().position(|pool| pool.pop() == pop)?;
        Some(all.remove(place))
    });
    _pobj_cache_invalidate.fetch_add(1, SeqCst);
    found.next()
}

/// The pool at that address.
#[inline]
pub(crate) fn by_pop(pop: Pop) -> Result<&'static ObjectPool, Failure> {
    let base = pop as usize;
    if let Some(pools) = POOLS.get() {
        for slot in &pools.first {
            if slot.base.load(Acquire) == base
                && let Some(pool) = slot.get()
            {
                return Ok(pool);
            }
        }
    }
    find(|pool| pool.base == base).map_err(|missing| match missing {
        Missing::NotOpen => Failure::invalid(NOT_OPEN),
        Missing::Inherited => missing.into(),
    })
}

/// The number of the run of the pool at that address, if it is among those that were opened first.
#[inline]
pub(crate) fn run_of(pop: Pop) -> Option<u64> {
    let base = pop as usize;
    let slot = POOLS.get()?.first.iter().find(|slot| slot.base.load(Acquire) == base)?;
    let run = slot.run.load(Acquire);
    (run != 0).then_some(run)
}

/// Why there is no such pool.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Missing {
    NotOpen,
    /// It is the parent's of this process.
    Inherited,
}

impl From<Missing> for Failure {
    fn from(missing: Missing) -> Failure {
        match missing {
            Missing::NotOpen => Failure::invalid("the object's pool is not open"),
            Missing::Inherited => Failure::inherited(),
        }
    }
}

/// The pool of that number.
pub(crate) fn by_oid(oid: Oid) -> Result<&'static ObjectPool, Missing> {
    by(|pool| pool.uuid == oid.pool)
}

/// The pool that has that byte.
pub(crate) fn by_place(place: *const u8) -> Result<&'static ObjectPool, Missing> {
    by(|pool| pool.holds(place))
}

#[inline]
fn by(is_it: impl Fn(&ObjectPool) -> bool) -> Result<&'static ObjectPool, Missing> {
    if let Some(pools) = POOLS.get() {
        for pool in pools.first.iter().filter_map(Slot::get) {
            if is_it(pool) {
                return Ok(pool);
            }
        }
    }
    find(is_it)
}

/// Looks among all.
#[cold]
fn find(is_it: impl Fn(&ObjectPool) -> bool) -> Result<&'static ObjectPool, Missing> {
    let here = POOLS.get().and_then(|pools| pools.read().iter().find(|pool| is_it(pool)).copied());
    here.ok_or_else(|| match POOLS.inherited().any(|pools| pools.had(&is_it)) {
        true => Missing::Inherited,
        false => Missing::NotOpen,
    })
}

/// Whether a pool of that number is open.
pub(crate) fn has(uuid: u64) -> bool {
    POOLS.get().is_some_and(|pools| pools.read().iter().any(|pool| pool.uuid == uuid))
}
