//! The pools that are open in this process, by address and by number.
//!
//! A program hands a pool over with each call, and its header files keep the last pool by number in
//! a variable of each thread (`_pobj_cached_pool`), which is void when `_pobj_cache_invalidate`
//! changes: at each close, and at each opening, as the variable can hold another pool of that
//! number, which the process has that this one was forked from.

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

/// What calls look for is beside the pool, which another thread may be closing: only the pool that
/// a call is about is open for as long as the call takes.
#[derive(Default)]
struct Slot {
    /// As in the pool. 0 is no pool; it is set last, and taken back first.
    base: AtomicUsize,
    bytes: AtomicU64,
    uuid: AtomicU64,
    /// 0 is no run.
    run: AtomicU64,
    pool: AtomicPtr<ObjectPool>,
}

impl Slot {
    fn set(&self, pool: &'static ObjectPool) {
        self.pool.store(std::ptr::from_ref(pool).cast_mut(), Release);
        self.run.store(pool.run, Release);
        self.uuid.store(pool.uuid, Release);
        self.bytes.store(pool.bytes, Release);
        self.base.store(pool.base, Release);
    }

    fn clear(&self) {
        self.base.store(0, Release);
        self.uuid.store(0, Release);
        self.run.store(0, Release);
        self.pool.store(null_mut(), Release);
    }

    /// The pool, if it is the one that `is_it` finds by its base, bytes and number.
    #[inline]
    fn get(&self, is_it: impl Fn(usize, u64, u64) -> bool) -> Option<&'static ObjectPool> {
        let base = self.base.load(Acquire);
        let (bytes, uuid) = (self.bytes.load(Acquire), self.uuid.load(Acquire));
        if base == 0 || !is_it(base, bytes, uuid) {
            return None;
        }
        let pool = self.pool.load(Acquire);
        if self.base.load(Acquire) != base {
            return None; // It has become the slot of another pool meanwhile.
        }
        // SAFETY: it is null, or the pool that the call is about, which is open.
        unsafe { pool.as_ref() }
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

/// Adds a pool, and gives its address; gives it back if one of its number is open.
pub(crate) fn add(pool: ObjectPool) -> Result<Pop, Box<ObjectPool>> {
    let pools = POOLS.get_or_make(Pools::default);
    let mut all = pools.all.write().unwrap_or_else(PoisonError::into_inner);
    if all.iter().any(|other| other.uuid == pool.uuid) {
        return Err(Box::new(pool));
    }
    let pool: &'static ObjectPool = Box::leak(Box::new(pool));
    all.push(pool);
    if let Some(slot) = pools.first.iter().find(|slot| slot.base.load(Acquire) == 0) {
        slot.set(pool);
    }
    _pobj_cache_invalidate.fetch_add(1, SeqCst);
    Ok(pool.pop())
}

/// Removes the pool at that address.
pub(crate) fn remove(pop: Pop) -> Option<ObjectPool> {
    let pools = POOLS.get()?;
    let mut all = pools.all.write().unwrap_or_else(PoisonError::into_inner);
    let place = all.iter().position(|pool| pool.pop() == pop)?;
    let pool = all.remove(place);
    for slot in pools.first.iter().filter(|slot| slot.base.load(Acquire) == pool.base) {
        slot.clear();
    }
    _pobj_cache_invalidate.fetch_add(1, SeqCst);
    // SAFETY: it is from `Box::leak`, and no thread may use a pool that is being closed.
    Some(*unsafe { Box::from_raw(std::ptr::from_ref(pool).cast_mut()) })
}

/// Removes the parent's pool at that address, which stays open for the parent. Here nothing leads
/// to it any more but a transaction that was open at the fork.
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
    let wanted = pop as usize;
    by(|base, _, _| base == wanted).map_err(|missing| match missing {
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
    by(|_, _, uuid| uuid == oid.pool)
}

/// The pool that has that byte.
pub(crate) fn by_place(place: *const u8) -> Result<&'static ObjectPool, Missing> {
    by(|base, bytes, _| (place as usize).wrapping_sub(base) < bytes as usize)
}

/// The pool that `is_it` finds by its base, bytes and number.
#[inline]
fn by(is_it: impl Fn(usize, u64, u64) -> bool) -> Result<&'static ObjectPool, Missing> {
    let first = POOLS.get().map_or(&[][..], |pools| &pools.first);
    match first.iter().find_map(|slot| slot.get(&is_it)) {
        Some(pool) => Ok(pool),
        None => find(|pool| is_it(pool.base, pool.bytes, pool.uuid)),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::NonNull;

    /// A slot of a pool that is closed: whoever follows its pointer is caught by the sanitizers.
    fn of_a_closed_pool() -> Slot {
        let slot = Slot::default();
        slot.pool.store(NonNull::dangling().as_ptr(), Release);
        slot.uuid.store(7, Release);
        slot.bytes.store(4096, Release);
        slot.base.store(8192, Release);
        slot
    }

    #[test]
    fn a_look_for_one_pool_follows_no_pointer_to_another() {
        let slot = of_a_closed_pool();
        assert!(slot.get(|_, _, uuid| uuid == 8).is_none());
        assert!(
            slot.get(|base, bytes, _| 12288_usize.wrapping_sub(base) < bytes as usize).is_none()
        );
    }

    #[test]
    fn a_slot_that_becomes_that_of_another_pool_during_a_look_gives_none() {
        let slot = of_a_closed_pool();
        let found = slot.get(|_, _, uuid| {
            slot.clear();
            slot.base.store(16384, Release);
            uuid == 7
        });
        assert!(found.is_none());
    }
}
