//! Transactions between the calls of a program: each is in the slot of its lane, paused.
//!
//! A `sw_tx` is a pool and a number: that of the slot, and how often a transaction has begun there.
//! So a call with one that is over, or that another thread has begun, is an error.

use crate::pool::{OpenPool, SwPool, opened, set_broken};
use crate::status::{Failure, Status, boundary_with};
use crate::thread;
use seawall_lanes::{LaneGuard, LanePurpose};
use seawall_native::NativeMemory;
use seawall_runtime::{Logging, Paused, Tx};
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// The low bits of a number, which say the lane: a heap has at most 1024.
const LANE_BITS: u32 = 10;

/// `struct sw_tx`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct SwTx {
    pool: *mut SwPool,
    number: u64,
}

/// The transaction of a lane.
#[derive(Default)]
pub(crate) struct TxSlot {
    /// That of the transaction that runs; 0 if there is none.
    number: AtomicU64,
    /// How many have begun.
    begun: AtomicU64,
    /// The thread that began it.
    owner: AtomicU64,
    /// Whether a call is in progress.
    is_busy: AtomicBool,
    running: UnsafeCell<Option<Running>>,
}

// SAFETY: what is in it is used only by the thread that began it, while `is_busy`, and ends where
// it began, or when that thread ends; its lane's session may be used by any thread in turn.
unsafe impl Sync for TxSlot {}
// SAFETY: as above.
unsafe impl Send for TxSlot {}

struct Running {
    lane: LaneGuard,
    paused: Option<Paused>,
    logging: Logging,
}

/// A transaction in a call.
pub(crate) type CallTx<'s> = Tx<'s, 'static, NativeMemory<'static>>;

/// A slot that a call is using.
struct Using(&'static TxSlot);

impl Drop for Using {
    fn drop(&mut self) {
        self.0.is_busy.store(false, Release);
    }
}

fn over() -> Failure {
    Failure::misuse("the transaction is over, or none; begin another with sw_tx_begin")
}

/// The slot of a transaction that the thread `id` has begun.
fn slot_of(pool: &'static OpenPool, number: u64, id: u64) -> Result<Using, Failure> {
    let lane = (number & ((1 << LANE_BITS) - 1)) as usize;
    let slot = pool.slots.get(lane).ok_or_else(over)?;
    if number == 0 || slot.number.load(Acquire) != number {
        return Err(over());
    }
    if slot.owner.load(Relaxed) != id {
        let text = "the transaction belongs to the thread that began it; end it there";
        return Err(Failure::misuse(text));
    }
    if slot.is_busy.swap(true, Acquire) {
        return Err(Failure::misuse("a call in this transaction is in progress; wait for it"));
    }
    Ok(Using(slot))
}

impl Using {
    fn running(&mut self) -> &mut Option<Running> {
        // SAFETY: `is_busy` is set by this.
        unsafe { &mut *self.0.running.get() }
    }

    /// Ends the transaction, by a commit or not.
    fn end(mut self, pool: usize, is_good: bool) -> Result<(), Failure> {
        let running = self.running().take();
        thread::note_over(pool, self.0.number.swap(0, Release));
        let Some(Running { mut lane, paused: Some(paused), .. }) = running else {
            return Err(over());
        };
        let tx = lane.session().take_up(paused);
        let outcome = if is_good { tx.commit() } else { tx.abort() };
        // The slot is the next thread's as soon as the lane is.
        drop(self);
        drop(lane);
        Ok(outcome?)
    }
}

fn thread_id() -> Result<u64, Failure> {
    thread::id().ok_or_else(|| Failure::misuse("the thread is ending; begin no transaction there"))
}

fn begin(handle: *mut SwPool, kind: libc::c_int) -> Result<SwTx, Failure> {
    let pool = opened(handle)?;
    let logging = match kind {
        0 => Logging::Redo,
        1 => Logging::Undo,
        other => {
            let text = format!("{other} is no kind of transaction; choose SW_REDO or SW_UNDO");
            return Err(Failure::invalid(text));
        }
    };
    let id = thread_id()?;
    if thread::has_open(handle as usize) {
        let text = "this thread has a transaction open in the pool; end that before it begins \
                    another";
        return Err(Failure::misuse(text));
    }
    let mut lane = LaneGuard::take(&pool.lanes, LanePurpose::Transaction, thread::number());
    let paused = Some(lane.session().start(logging)?.pause());
    let slot = &pool.slots[lane.number()];
    let number = (slot.begun.fetch_add(1, Relaxed) + 1) << LANE_BITS | lane.number() as u64;
    // SAFETY: this thread has the lane of the slot, and its number says that no other is in it.
    unsafe { *slot.running.get() = Some(Running { lane, paused, logging }) };
    slot.owner.store(id, Relaxed);
    slot.number.store(number, Release);
    thread::note_open(handle as usize, number);
    Ok(SwTx { pool: handle, number })
}

/// Rolls back a transaction whose thread ends.
pub(crate) fn leave_behind(handle: usize, number: u64, id: u64) {
    let handle = handle as *const SwPool;
    // Nothing is left half done that would be used again.
    let rolled_back = catch_unwind(AssertUnwindSafe(|| {
        if let Ok(pool) = opened(handle)
            && let Ok(using) = slot_of(pool, number, id)
        {
            let _ = using.end(handle as usize, false);
        }
    }));
    if let Err(cause) = rolled_back {
        std::mem::forget(cause);
        set_broken(handle);
    }
}

/// Does `action` in a transaction. What fails leaves nothing of itself: the transaction is as it
/// was before the call. Short of room, tries again with what other lanes return.
pub(crate) fn in_tx<T>(
    tx: SwTx,
    mut action: impl FnMut(&'static OpenPool, &mut CallTx<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let pool = opened(tx.pool)?;
    let mut using = slot_of(pool, tx.number, thread_id()?)?;
    let Some(Running { lane, paused, .. }) = using.running() else { return Err(over()) };
    lane.with_room(|session| {
        let mut held = session.take_up(paused.take().ok_or_else(over)?);
        let outcome = action(pool, &mut held);
        *paused = Some(held.pause());
        outcome
    })
}

/// As [`in_tx`], for an action of several steps: what it has done before it fails is rolled back.
pub(crate) fn in_nested<T>(
    tx: SwTx,
    mut action: impl FnMut(&'static OpenPool, &mut CallTx<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    in_tx(tx, |pool, tx| tx.nested(|tx| action(pool, tx)))
}

/// Which values a transaction logs.
pub(crate) fn logging(tx: SwTx) -> Result<Logging, Failure> {
    let mut using = slot_of(opened(tx.pool)?, tx.number, thread_id()?)?;
    using.running().as_ref().map(|running| running.logging).ok_or_else(over)
}

/// Runs a call on a transaction.
pub(crate) fn on_tx(tx: SwTx, call: impl FnOnce() -> Result<Status, Failure>) -> Status {
    boundary_with(|| set_broken(tx.pool), call)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sw_tx_begin(pool: *mut SwPool, kind: libc::c_int, into: *mut SwTx) -> Status {
    boundary_with(
        || set_broken(pool),
        || {
            if into.is_null() {
                return Err(Failure::null("the place for the transaction"));
            }
            // SAFETY: the program vouches for the place.
            unsafe { into.write(SwTx { pool: std::ptr::null_mut(), number: 0 }) };
            let tx = begin(pool, kind)?;
            // SAFETY: as above.
            unsafe { into.write(tx) };
            Ok(Status::Ok)
        },
    )
}

fn end(tx: SwTx, is_good: bool) -> Status {
    on_tx(tx, || {
        let using = slot_of(opened(tx.pool)?, tx.number, thread_id()?)?;
        using.end(tx.pool as usize, is_good).map(|()| Status::Ok)
    })
}

#[unsafe(no_mangle)]
extern "C" fn sw_tx_commit(tx: SwTx) -> Status {
    end(tx, true)
}

#[unsafe(no_mangle)]
extern "C" fn sw_tx_abort(tx: SwTx) -> Status {
    end(tx, false)
}
