//! Beginning, ending and the stages between: `pmemobj_tx_begin` to `pmemobj_tx_end`.

use super::{
    AtCommit, Callback, Jump, Level, OnFailure, Running, Stage, must_be_inside, must_work,
    own_pool, pool, with,
};
use crate::error::{Failure, fatal, set_errno};
use crate::locks::{LOCK_BYTES, TxLock, lock_for_tx, unlock_for_tx};
use crate::pool::ObjectPool;
use crate::registry::by_pop;
use crate::types::{Pop, flags};
use libc::{c_int, c_void};
use seawall_lanes::{LaneGuard, LanePurpose};
use seawall_memory::Addr;
use seawall_runtime::Logging;

/// `enum pobj_tx_param`
const MUTEX: c_int = 1;
const RWLOCK: c_int = 2;
const CALLBACK: c_int = 3;

/// A parameter of `pmemobj_tx_begin`, as `shim.c` hands it over.
#[repr(C)]
#[derive(Clone, Copy)]
struct Parameter {
    kind: c_int,
    first: *mut c_void,
    second: *mut c_void,
}

unsafe extern "C" {
    fn longjmp(jump: *const Jump, value: c_int) -> !;
}

/// `pmemobj_tx_begin`, whose parameters `shim.c` has read.
///
/// # Safety
/// `jump` is null or a `jmp_buf` of `bytes` bytes; there are so many parameters.
#[unsafe(no_mangle)]
unsafe extern "C" fn seawall_tx_begin(
    pop: Pop,
    jump: *const u8,
    bytes: usize,
    parameters: *const Parameter,
    count: usize,
) -> c_int {
    // SAFETY: the caller vouches for it.
    let parameters = unsafe { slice(parameters, count) };
    match begin(pop) {
        // SAFETY: as above.
        Ok(on_failure) => with(|tx| unsafe {
            tx.errno = 0;
            Level::push(&mut tx.levels, jump, bytes, on_failure);
            tx.stage = Stage::Work;
        }),
        Err(Refused::Outside(failure)) => {
            let errno = failure.report();
            with(|tx| (tx.stage, tx.errno, tx.is_refused) = (Stage::OnAbort, errno, true));
            return errno;
        }
        Err(Refused::Inside(failure)) => {
            let errno = failure.report();
            drop(failure);
            // Whatever the program has set: it has begun no level that it could end.
            // SAFETY: no frame up to the program's holds anything that must be dropped.
            unsafe { abort_level(errno) };
            return errno;
        }
    }
    for parameter in parameters {
        let outcome = match parameter.kind {
            CALLBACK => {
                set_callback(parameter);
                Ok(())
            }
            MUTEX => add_lock(TxLock::Mutex(parameter.first)),
            RWLOCK => add_lock(TxLock::Rwlock(parameter.first)),
            other => Err(Failure::invalid(format!("unknown parameter of a transaction: {other}"))),
        };
        if let Err(failure) = outcome {
            let errno = failure.report();
            drop(failure);
            // SAFETY: as above.
            unsafe { abort_level(errno) };
            return errno;
        }
    }
    0
}

impl Level {
    /// Adds a level, which is large: it is made where it stays.
    ///
    /// # Safety
    /// `jump` is null or a `jmp_buf` of so many bytes.
    unsafe fn push(levels: &mut Vec<Level>, jump: *const u8, bytes: usize, on_failure: OnFailure) {
        let bytes = if jump.is_null() { 0 } else { bytes.min(size_of::<Jump>()) };
        levels.reserve(1);
        // SAFETY: there is room for one more, of which a `Jump` can be left undefined; the caller
        // vouches for the source.
        unsafe {
            let level = levels.as_mut_ptr().add(levels.len());
            let to = (&raw mut (*level).jump).cast::<u8>();
            std::ptr::copy_nonoverlapping(jump, to, bytes);
            (&raw mut (*level).has_jump).write(bytes > 0);
            (&raw mut (*level).on_failure).write(on_failure);
            levels.set_len(levels.len() + 1);
        }
    }
}

/// # Safety
/// There are so many.
unsafe fn slice<'a>(parameters: *const Parameter, count: usize) -> &'a [Parameter] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller vouches for it.
    unsafe { std::slice::from_raw_parts(parameters, count) }
}

enum Refused {
    /// No transaction was begun.
    Outside(Failure),
    /// In the transaction around it, which is aborted.
    Inside(Failure),
}

/// Begins a transaction, or goes on with the one that there is; gives what the new level does when
/// a call fails.
fn begin(pop: Pop) -> Result<OnFailure, Refused> {
    let (stage, on_failure) = with(|tx| (tx.stage, tx.levels.last().map(|it| it.on_failure)));
    match stage {
        Stage::None => {
            let pool = by_pop(pop).map_err(Refused::Outside)?;
            start(pool).map_err(Refused::Outside)?;
            Ok(OnFailure::Abort)
        }
        Stage::Work if pool().pop() != pop => {
            let text = "nested transaction for different pool";
            Err(Refused::Inside(Failure::invalid(text)))
        }
        Stage::Work => {
            own_pool().map_err(Refused::Inside)?;
            Ok(on_failure.unwrap_or(OnFailure::Abort))
        }
        other => fatal(&format!("Invalid stage {} to begin new transaction", other as c_int)),
    }
}

/// Begins the outermost level.
fn start(pool: &'static ObjectPool) -> Result<(), Failure> {
    let mut lane = LaneGuard::take(&pool.lanes, LanePurpose::Transaction, crate::thread::number());
    let paused = lane.session().start(Logging::Undo)?.pause();
    with(|tx| {
        tx.pool = Some(pool);
        tx.running = Some(Running { lane, paused: Some(paused) });
        tx.user_data = std::ptr::null_mut();
        tx.at_commit.clear();
    });
    Ok(())
}

fn set_callback(parameter: &Parameter) {
    if parameter.first.is_null() {
        return;
    }
    // SAFETY: the program hands a function over; it is called as one of that type.
    let callback = unsafe { std::mem::transmute::<*mut c_void, Callback>(parameter.first) };
    let is_other = with(|tx| match tx.callback {
        Some((before, argument)) => {
            before as usize != callback as usize || argument != parameter.second
        }
        None => {
            tx.callback = Some((callback, parameter.second));
            false
        }
    });
    if is_other {
        fatal("transaction callback is already set");
    }
}

/// Calls the callback in the stage that the outermost level is in; whether there is one to call.
fn call_back() -> bool {
    let call = with(|tx| {
        let is_outermost = tx.levels.len() == 1;
        tx.callback.filter(|_| is_outermost).map(|call| (call, tx.stage))
    });
    let Some(((callback, argument), stage)) = call else { return false };
    // SAFETY: the program vouches for its callback.
    unsafe { callback(pool().pop(), stage, argument) };
    true
}

fn add_lock(lock: TxLock) -> Result<(), Failure> {
    let pool = own_pool()?;
    if with(|tx| tx.locks.contains(&lock)) {
        return Ok(());
    }
    let errno = lock_for_tx(pool, lock);
    if errno != 0 {
        return Err(Failure::new(errno, "a lock of the transaction cannot be taken"));
    }
    with(|tx| tx.locks.push(lock));
    Ok(())
}

/// Aborts the level that works: rolls back if it is the outermost, and jumps to where the level was
/// begun, if the program has given that.
///
/// # Safety
/// The frames from here to the program's hold nothing that must be dropped.
pub(super) unsafe fn abort_level(errno: c_int) {
    let errno = if errno == 0 { libc::ECANCELED } else { errno };
    if with(|tx| tx.stage != Stage::Work) {
        fatal("a transaction is aborted that does not work");
    }
    with(|tx| tx.stage = Stage::OnAbort);
    if with(|tx| tx.levels.len() == 1) {
        roll_back();
    }
    with(|tx| tx.errno = errno);
    set_errno(errno);
    call_back();
    let jump = with(|tx| {
        let level = tx.levels.last().filter(|level| level.has_jump);
        level.map(|level| &raw const level.jump)
    });
    if let Some(jump) = jump {
        // SAFETY: the level was begun there, and its function has not returned; the level keeps the
        // buffer.
        unsafe { longjmp(jump, errno) };
    }
}

fn roll_back() {
    let Some(mut running) = with(|tx| tx.running.take()) else { return };
    with(|tx| tx.at_commit.clear());
    let paused = running.paused.take().expect("a transaction that runs");
    // Other threads wait for the locks, which is noted in their words.
    let Ok(pool) = own_pool() else { return };
    let locks = with(|tx| tx.locks.clone());
    let places = locks.iter().filter_map(|lock| pool.address_of(lock.place(), LOCK_BYTES));
    let kept: Vec<(Addr, u64)> = places.map(|at| (at, LOCK_BYTES)).collect();
    if let Err(error) = running.lane.session().take_up(paused).abort_but(&kept) {
        fatal(&format!("a transaction cannot be rolled back: {error}"));
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_abort(errno: c_int) {
    must_be_inside("pmemobj_tx_abort");
    must_work("pmemobj_tx_abort");
    Failure::new(errno, "explicit transaction abort").report();
    // SAFETY: this is a call of the program.
    unsafe { abort_level(errno) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_commit() {
    must_work("pmemobj_tx_commit");
    if call_back() {
        must_work("pmemobj_tx_commit");
    }
    if with(|tx| tx.levels.len() == 1) {
        let outcome = commit();
        if outcome.is_err() {
            // SAFETY: as above.
            return unsafe { super::ended(outcome, 0, ()) };
        }
    }
    with(|tx| tx.stage = Stage::OnCommit);
    call_back();
}

/// Commits the transaction below. If that fails, it has been rolled back.
fn commit() -> Result<(), Failure> {
    own_pool()?;
    let at_commit = with(|tx| std::mem::take(&mut tx.at_commit));
    if !at_commit.is_empty() {
        super::work(|_, tx| {
            tx.write_all(at_commit.iter().filter_map(AtCommit::stored))?;
            for action in &at_commit {
                if let AtCommit::Free { block } = *action {
                    tx.free(block)?;
                }
            }
            Ok(())
        })?;
    }
    let mut running = with(|tx| tx.running.take()).expect("a transaction that runs");
    let paused = running.paused.take().expect("a transaction that runs");
    running.lane.session().take_up(paused).commit()?;
    for action in at_commit {
        if let AtCommit::StoreOutside { place, value } = action {
            // SAFETY: the program vouches for the place that it has given.
            unsafe { place.write_unaligned(value) };
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_end() -> c_int {
    let (stage, errno, is_refused) =
        with(|tx| (tx.stage, tx.errno, std::mem::take(&mut tx.is_refused)));
    match stage {
        _ if is_refused => {
            with(|tx| tx.stage = Stage::None);
            return errno;
        }
        Stage::Work => fatal("pmemobj_tx_end called without pmemobj_tx_commit"),
        Stage::None if with(|tx| tx.pool.is_none() && tx.levels.is_empty()) => {
            fatal("pmemobj_tx_end called without pmemobj_tx_begin")
        }
        Stage::OnCommit | Stage::OnAbort => finish(),
        Stage::None | Stage::Finally => {}
    }
    let is_outermost = with(|tx| {
        tx.levels.truncate(tx.levels.len().saturating_sub(1));
        tx.levels.is_empty()
    });
    if is_outermost {
        end_outermost();
    } else {
        with(|tx| tx.stage = Stage::Work);
        if errno != 0 {
            // SAFETY: this is a call of the program.
            unsafe { abort_level(errno) };
        }
    }
    errno
}

/// Goes from the stage that tells the outcome to the last one.
fn finish() {
    with(|tx| tx.stage = Stage::Finally);
    call_back();
}

fn end_outermost() {
    let (pool, locks, callback) = with(|tx| {
        tx.stage = Stage::None;
        (tx.pool.take(), std::mem::take(&mut tx.locks), tx.callback.take())
    });
    let Some(pool) = pool else { fatal("no transaction") };
    for lock in locks.iter().rev() {
        unlock_for_tx(pool, *lock);
    }
    if let Some((callback, argument)) = callback {
        // SAFETY: the program vouches for its callback.
        unsafe { callback(pool.pop(), Stage::None, argument) };
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_process() {
    match with(|tx| tx.stage) {
        Stage::None => fatal("pmemobj_tx_process called outside of transaction"),
        // SAFETY: this is a call of the program.
        Stage::Work => unsafe { pmemobj_tx_commit() },
        Stage::OnCommit | Stage::OnAbort => finish(),
        Stage::Finally => with(|tx| tx.stage = Stage::None),
    }
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_tx_stage() -> Stage {
    with(|tx| tx.stage)
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_tx_errno() -> c_int {
    with(|tx| tx.errno)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_xlock(kind: c_int, lock: *mut c_void, given: u64) -> c_int {
    must_work("pmemobj_tx_xlock");
    let outcome = if given & !flags::NO_ABORT != 0 {
        Err(Failure::invalid(format!("unknown flags {given:#x}")))
    } else {
        match kind {
            MUTEX => add_lock(TxLock::Mutex(lock)),
            RWLOCK => add_lock(TxLock::Rwlock(lock)),
            _ => Err(Failure::invalid("Unrecognized lock type")),
        }
    };
    // SAFETY: this is a call of the program.
    unsafe { super::ended_with_errno(outcome, given) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pmemobj_tx_lock(kind: c_int, lock: *mut c_void) -> c_int {
    // SAFETY: as there.
    unsafe { pmemobj_tx_xlock(kind, lock, flags::NO_ABORT) }
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_tx_set_user_data(data: *mut c_void) {
    must_be_inside("pmemobj_tx_set_user_data");
    with(|tx| tx.user_data = data);
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_tx_get_user_data() -> *mut c_void {
    must_be_inside("pmemobj_tx_get_user_data");
    with(|tx| tx.user_data)
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_tx_set_failure_behavior(behaviour: c_int) {
    must_work("pmemobj_tx_set_failure_behavior");
    let on_failure = if behaviour == 0 { OnFailure::Abort } else { OnFailure::Return };
    with(|tx| {
        if let Some(level) = tx.levels.last_mut() {
            level.on_failure = on_failure;
        }
    });
}

#[unsafe(no_mangle)]
extern "C" fn pmemobj_tx_get_failure_behavior() -> OnFailure {
    must_work("pmemobj_tx_get_failure_behavior");
    with(|tx| tx.levels.last().map_or(OnFailure::Abort, |level| level.on_failure))
}
