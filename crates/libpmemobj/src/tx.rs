//! Transactions as the manual has them: stages, nesting, jumps, locks and callbacks.
//!
//! A thread has at most one, in one pool; those begun inside it are levels of it, and nothing is
//! durable before the outermost commits. An error aborts the level that it happens in: the whole
//! transaction is rolled back when that is the outermost, and the program continues where that
//! level was begun (`longjmp`). Stages go `WORK`, then `ONCOMMIT` or `ONABORT`, then `FINALLY`.
//!
//! Below is an undo transaction of a lane's session, which is [taken
//! up](seawall_runtime::Session::take_up) for each call and paused again.

mod calls;
mod ranges;
mod stages;

use crate::error::{Failure, fatal};
use crate::locks::TxLock;
use crate::object::PoolTx;
use crate::pool::ObjectPool;
use crate::types::{Pop, flags};
use libc::{c_int, c_void};
use seawall_lanes::LaneGuard;
use seawall_memory::Addr;
use seawall_runtime::Paused;
use std::cell::RefCell;
use std::mem::MaybeUninit;

/// `enum pobj_tx_stage`
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    None,
    Work,
    OnCommit,
    OnAbort,
    Finally,
}

/// `enum pobj_tx_failure_behavior`: what a call that fails does.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    Abort,
    Return,
}

type Callback = unsafe extern "C" fn(Pop, Stage, *mut c_void);

/// The most words of a `jmp_buf`, of all kinds of CPU.
const JUMP_WORDS: usize = 40;

/// Where a level was begun: a `jmp_buf`.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Jump([MaybeUninit<u64>; JUMP_WORDS]);

struct Level {
    jump: Jump,
    has_jump: bool,
    on_failure: OnFailure,
}

/// What the commit does, besides what the transaction has done at once.
#[derive(Clone, Copy)]
pub(crate) enum AtCommit {
    Store {
        at: Addr,
        value: u64,
    },
    /// When it has committed, in memory of the program.
    StoreOutside {
        place: *mut u64,
        value: u64,
    },
    Free {
        block: Addr,
    },
}

impl AtCommit {
    /// What it stores in the pool.
    fn stored(&self) -> Option<(Addr, [u8; 8])> {
        match *self {
            AtCommit::Store { at, value } => Some((at, value.to_le_bytes())),
            AtCommit::StoreOutside { .. } | AtCommit::Free { .. } => None,
        }
    }
}

/// The transaction of a thread.
struct ThreadTx {
    stage: Stage,
    levels: Vec<Level>,
    pool: Option<&'static ObjectPool>,
    running: Option<Running>,
    locks: Vec<TxLock>,
    errno: c_int,
    callback: Option<(Callback, *mut c_void)>,
    user_data: *mut c_void,
    at_commit: Vec<AtCommit>,
    /// Whether a transaction could not be begun, and goes through the stages of one that aborts.
    is_refused: bool,
}

/// The transaction below.
struct Running {
    lane: LaneGuard,
    paused: Option<Paused>,
}

impl Default for ThreadTx {
    fn default() -> ThreadTx {
        ThreadTx {
            stage: Stage::None,
            levels: Vec::new(),
            pool: None,
            running: None,
            locks: Vec::new(),
            errno: 0,
            callback: None,
            user_data: std::ptr::null_mut(),
            at_commit: Vec::new(),
            is_refused: false,
        }
    }
}

unsafe extern "C" {
    /// Where the pointer to this thread's transaction is: in `shim.c`, as the thread's number.
    safe fn seawall_thread_tx() -> *mut *mut c_void;
}

/// The transaction of this thread. No code of the program runs inside `action`.
#[inline]
fn with<T>(action: impl FnOnce(&mut ThreadTx) -> T) -> T {
    // SAFETY: the place is this thread's.
    let found = unsafe { *seawall_thread_tx() }.cast::<RefCell<ThreadTx>>();
    let place = if found.is_null() { make() } else { found };
    // SAFETY: it lives as long as the thread, and `RefCell` sees to it that it is used once.
    match unsafe { &*place }.try_borrow_mut() {
        Ok(mut tx) => action(&mut tx),
        Err(_) => fatal("a handler of a signal that has interrupted a transaction's call uses it"),
    }
}

#[cold]
fn make() -> *mut RefCell<ThreadTx> {
    let place = Box::into_raw(Box::<RefCell<ThreadTx>>::default());
    // SAFETY: the place is this thread's.
    unsafe { *seawall_thread_tx() = place.cast() };
    // A thread that calls when its variables have ended keeps it.
    let _ = OWNER.try_with(|_| ());
    place
}

/// Frees the transaction when the thread ends: one in progress is rolled back, by the next that its
/// lane begins.
struct Owner;

thread_local! {
    static OWNER: Owner = const { Owner };
}

impl Drop for Owner {
    fn drop(&mut self) {
        // SAFETY: the place is this thread's, and no call is in progress.
        unsafe {
            let place = std::mem::replace(&mut *seawall_thread_tx(), std::ptr::null_mut());
            if !place.is_null() {
                drop(Box::from_raw(place.cast::<RefCell<ThreadTx>>()));
            }
        }
    }
}

impl Running {
    /// Does `action` in the transaction; short of room, tries again with what other lanes return.
    fn work<T>(
        &mut self,
        mut action: impl FnMut(&mut PoolTx<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Running { lane, paused } = self;
        lane.with_room(|session| {
            let mut tx = session.take_up(paused.take().expect("a transaction that runs"));
            let outcome = action(&mut tx);
            *paused = Some(tx.pause());
            outcome
        })
    }
}

/// Lets the transaction of this thread return the free space that it keeps, if there is one.
#[cold]
pub(crate) fn give_up_space() {
    with(|tx| {
        if let Some(running) = &mut tx.running {
            running.lane.give_up_space();
        }
    });
}

/// Ends the process unless the thread is in a transaction that works.
fn must_work(call: &str) {
    match with(|tx| tx.stage) {
        Stage::Work => {}
        Stage::None => fatal(&format!("{call} called outside of transaction")),
        stage => fatal(&format!("{call} called in invalid stage {}", stage as c_int)),
    }
}

/// Ends the process unless the thread is in a transaction.
fn must_be_inside(call: &str) {
    if with(|tx| tx.stage) == Stage::None {
        fatal(&format!("{call} called outside of transaction"));
    }
}

/// The pool of the transaction.
#[inline]
fn pool() -> &'static ObjectPool {
    with(|tx| tx.pool).unwrap_or_else(|| fatal("no transaction"))
}

/// The same, unless the transaction is one that the parent of this process has in its pool.
#[inline]
fn own_pool() -> Result<&'static ObjectPool, Failure> {
    let pool = pool();
    pool.check_process().map(|()| pool)
}

/// Does `action` in the transaction, in its pool.
fn work<T>(
    mut action: impl FnMut(&'static ObjectPool, &mut PoolTx<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let pool = own_pool()?;
    with(|tx| {
        let running = tx.running.as_mut().expect("a transaction that works");
        running.work(|tx| action(pool, tx))
    })
}

/// Ends a call of a transaction: gives its value, or what it gives when it fails. A failure aborts
/// the level, unless the program has asked for no such thing.
///
/// # Safety
/// The frames from here to the program's hold nothing that must be dropped: a failure can jump past
/// them.
unsafe fn ended<T>(outcome: Result<T, Failure>, given: u64, failed: T) -> T {
    let failure = match outcome {
        Ok(value) => return value,
        Err(failure) => failure,
    };
    let errno = failure.report();
    drop(failure);
    let returns = given & flags::NO_ABORT != 0
        || with(|tx| tx.levels.last().is_some_and(|level| level.on_failure == OnFailure::Return));
    if !returns {
        // SAFETY: the caller vouches for the frames.
        unsafe { stages::abort_level(errno) };
    }
    crate::error::set_errno(errno);
    failed
}

/// As [`ended`], for a call that gives 0 or the number of the error.
///
/// # Safety
/// As there.
unsafe fn ended_with_errno(outcome: Result<(), Failure>, given: u64) -> c_int {
    let errno = outcome.as_ref().err().map_or(0, |failure| failure.errno);
    // SAFETY: the caller vouches for the frames.
    unsafe { ended(outcome.map(|()| 0), given, errno) }
}
