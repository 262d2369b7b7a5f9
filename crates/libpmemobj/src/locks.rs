//! Locks in the pool: the calls of `thread.h`.
//!
//! A lock is a word with the number of the run in which it was made, and a POSIX lock behind it.
//! One of an earlier run is free, whatever it was before: the first call of a run makes it anew.

use crate::error::Failure;
use crate::persist;
use crate::pool::ObjectPool;
use crate::registry::{by_pop, run_of};
use crate::types::Pop;
use libc::{c_int, c_void, pthread_cond_t, pthread_mutex_t, pthread_rwlock_t, timespec};
use std::hint::spin_loop;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// Bytes of each kind of lock.
pub(crate) const LOCK_BYTES: u64 = 64;

const _: () = assert!(size_of::<pthread_mutex_t>() + 8 <= LOCK_BYTES as usize);
const _: () = assert!(size_of::<pthread_rwlock_t>() + 8 <= LOCK_BYTES as usize);
const _: () = assert!(size_of::<pthread_cond_t>() + 8 <= LOCK_BYTES as usize);

/// Calls `make` if no thread has in this run, or the last one gave false; gives whether it is made.
#[inline(never)]
pub(crate) fn once_in_run(
    pool: &ObjectPool,
    word: &AtomicU64,
    make: impl FnOnce() -> bool,
) -> bool {
    let (made, in_making) = (pool.run, pool.run - 1);
    loop {
        match word.load(Acquire) {
            run if run == made => return true,
            run if run == in_making => spin_loop(),
            run => {
                if word.compare_exchange(run, in_making, AcqRel, Acquire).is_ok() {
                    break;
                }
            }
        }
    }
    let is_made = make();
    word.store(if is_made { made } else { 0 }, Release);
    is_made
}

/// The POSIX lock in the one at `lock`, if it has been made in this run.
#[inline]
fn made<T>(pop: Pop, lock: *mut c_void) -> Option<*mut T> {
    let run = run_of(pop)?;
    if lock.is_null() || !lock.cast::<u64>().is_aligned() {
        return None;
    }
    // SAFETY: the program vouches for the lock: 64 bytes that are used by these calls only.
    let is_made = unsafe { AtomicU64::from_ptr(lock.cast()) }.load(Acquire) == run;
    is_made.then(|| lock.cast::<u8>().wrapping_add(8).cast())
}

/// As [`made`]; if it has not been, `init` makes it.
#[cold]
fn inside<T>(
    pop: Pop,
    lock: *mut c_void,
    init: unsafe extern "C" fn(*mut T) -> c_int,
) -> Result<*mut T, c_int> {
    let pool = by_pop(pop).map_err(|failure| failure.report())?;
    inside_of(pool, lock, init)
}

#[inline]
fn inside_of<T>(
    pool: &ObjectPool,
    lock: *mut c_void,
    init: unsafe extern "C" fn(*mut T) -> c_int,
) -> Result<*mut T, c_int> {
    pool.check_process().map_err(|failure| failure.report())?;
    if lock.is_null() || !lock.cast::<u64>().is_aligned() {
        return Err(Failure::invalid("the lock is NULL, or not aligned").report());
    }
    // SAFETY: the program vouches for the lock: 64 bytes that are used by these calls only.
    let (run, inner) =
        unsafe { (AtomicU64::from_ptr(lock.cast()), lock.cast::<u8>().add(8).cast::<T>()) };
    if run.load(Acquire) == pool.run {
        return Ok(inner);
    }
    // SAFETY: one thread makes it, and nobody uses it before.
    let is_made = once_in_run(pool, run, || unsafe { init(inner) == 0 });
    if is_made { Ok(inner) } else { Err(libc::EINVAL) }
}

unsafe extern "C" fn new_mutex(place: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller vouches for the place.
    unsafe { libc::pthread_mutex_init(place, std::ptr::null()) }
}

unsafe extern "C" fn new_rwlock(place: *mut pthread_rwlock_t) -> c_int {
    // SAFETY: as above.
    unsafe { libc::pthread_rwlock_init(place, std::ptr::null()) }
}

unsafe extern "C" fn new_cond(place: *mut pthread_cond_t) -> c_int {
    // SAFETY: as above.
    unsafe { libc::pthread_cond_init(place, std::ptr::null()) }
}

fn zero(pop: Pop, lock: *mut c_void) {
    match by_pop(pop) {
        Ok(pool) => {
            // SAFETY: the program vouches for the lock.
            unsafe { AtomicU64::from_ptr(lock.cast()) }.store(0, Release);
            persist::persist(pool, lock.cast(), 8);
        }
        Err(failure) => drop(failure.report()),
    }
}

/// Locks the lock of a transaction, for writing.
pub(crate) fn lock_for_tx(pool: &ObjectPool, lock: TxLock) -> c_int {
    match lock {
        TxLock::Mutex(place) => inside_of(pool, place, new_mutex).map_or_else(
            |errno| errno,
            // SAFETY: it was made in this run.
            |lock| unsafe { libc::pthread_mutex_lock(lock) },
        ),
        TxLock::Rwlock(place) => inside_of(pool, place, new_rwlock).map_or_else(
            |errno| errno,
            // SAFETY: as above.
            |lock| unsafe { libc::pthread_rwlock_wrlock(lock) },
        ),
    }
}

pub(crate) fn unlock_for_tx(pool: &ObjectPool, lock: TxLock) {
    match lock {
        TxLock::Mutex(place) => {
            if let Ok(lock) = inside_of(pool, place, new_mutex) {
                // SAFETY: it was made in this run, and this thread holds it.
                unsafe { libc::pthread_mutex_unlock(lock) };
            }
        }
        TxLock::Rwlock(place) => {
            if let Ok(lock) = inside_of(pool, place, new_rwlock) {
                // SAFETY: as above.
                unsafe { libc::pthread_rwlock_unlock(lock) };
            }
        }
    }
}

/// A lock that a transaction holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TxLock {
    Mutex(*mut c_void),
    Rwlock(*mut c_void),
}

impl TxLock {
    /// Where it is.
    pub(crate) fn place(self) -> *const u8 {
        let (TxLock::Mutex(place) | TxLock::Rwlock(place)) = self;
        place.cast()
    }
}

/// Declares calls that hand a lock to the POSIX call of that name.
macro_rules! calls {
    ($($name:ident($init:ident) => $posix:ident($($more:ident: $type:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(pop: Pop, lock: *mut c_void $(, $more: $type)*) -> c_int {
            let lock = match made(pop, lock) {
                Some(lock) => lock,
                None => match inside(pop, lock, $init) {
                    Ok(lock) => lock,
                    Err(errno) => return errno,
                },
            };
            // SAFETY: it was made in this run; the program vouches for the rest.
            unsafe { libc::$posix(lock $(, $more)*) }
        }
    )*};
}

calls! {
    pmemobj_mutex_lock(new_mutex) => pthread_mutex_lock();
    pmemobj_mutex_timedlock(new_mutex) => pthread_mutex_timedlock(until: *const timespec);
    pmemobj_mutex_trylock(new_mutex) => pthread_mutex_trylock();
    pmemobj_mutex_unlock(new_mutex) => pthread_mutex_unlock();
    pmemobj_rwlock_rdlock(new_rwlock) => pthread_rwlock_rdlock();
    pmemobj_rwlock_wrlock(new_rwlock) => pthread_rwlock_wrlock();
    pmemobj_rwlock_tryrdlock(new_rwlock) => pthread_rwlock_tryrdlock();
    pmemobj_rwlock_trywrlock(new_rwlock) => pthread_rwlock_trywrlock();
    pmemobj_rwlock_unlock(new_rwlock) => pthread_rwlock_unlock();
    pmemobj_cond_broadcast(new_cond) => pthread_cond_broadcast();
    pmemobj_cond_signal(new_cond) => pthread_cond_signal();
}

unsafe extern "C" {
    fn pthread_rwlock_timedrdlock(lock: *mut pthread_rwlock_t, until: *const timespec) -> c_int;
    fn pthread_rwlock_timedwrlock(lock: *mut pthread_rwlock_t, until: *const timespec) -> c_int;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_rwlock_timedrdlock(
    pop: Pop,
    lock: *mut c_void,
    until: *const timespec,
) -> c_int {
    match inside(pop, lock, new_rwlock) {
        // SAFETY: as for the others.
        Ok(lock) => unsafe { pthread_rwlock_timedrdlock(lock, until) },
        Err(errno) => errno,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_rwlock_timedwrlock(
    pop: Pop,
    lock: *mut c_void,
    until: *const timespec,
) -> c_int {
    match inside(pop, lock, new_rwlock) {
        // SAFETY: as for the others.
        Ok(lock) => unsafe { pthread_rwlock_timedwrlock(lock, until) },
        Err(errno) => errno,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_cond_wait(pop: Pop, cond: *mut c_void, mutex: *mut c_void) -> c_int {
    match (inside(pop, cond, new_cond), inside(pop, mutex, new_mutex)) {
        // SAFETY: as for the others.
        (Ok(cond), Ok(mutex)) => unsafe { libc::pthread_cond_wait(cond, mutex) },
        (Err(errno), _) | (_, Err(errno)) => errno,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_cond_timedwait(
    pop: Pop,
    cond: *mut c_void,
    mutex: *mut c_void,
    until: *const timespec,
) -> c_int {
    match (inside(pop, cond, new_cond), inside(pop, mutex, new_mutex)) {
        // SAFETY: as for the others.
        (Ok(cond), Ok(mutex)) => unsafe { libc::pthread_cond_timedwait(cond, mutex, until) },
        (Err(errno), _) | (_, Err(errno)) => errno,
    }
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_mutex_zero(pop: Pop, lock: *mut c_void) {
    zero(pop, lock);
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_rwlock_zero(pop: Pop, lock: *mut c_void) {
    zero(pop, lock);
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_cond_zero(pop: Pop, lock: *mut c_void) {
    zero(pop, lock);
}
