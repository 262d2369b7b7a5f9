//! Lanes: any number of threads work in a pool that has log space for a fixed number at once.
//!
//! A lane is a session of the heap, with its own logs and free space. A call takes one, and returns
//! it; a transaction keeps its lane to its end. Each thread prefers one of its own, so that threads
//! meet only when there are more of them than lanes. Some lanes are for calls only: they never wait
//! for a lock of the program, so a thread that holds one can always go on and release it.
//!
//! As many lanes as the pool has room for keep their free space from one use to the next. The
//! others serve when those are taken, and return it after each use: else each of hundreds of
//! threads would have a chunk of each size of its own, with few objects in it.
//!
//! In the child of a fork lanes are the parent's. No call there takes one: who has the pool looks
//! before. One that the forking thread had is given up without an access to the pool.

mod numbers;

pub use numbers::ThreadNumbers;

use seawall_memory::{MemoryExt, Process};
use seawall_native::{NativeMemory, Pool};
use seawall_runtime::{CHUNK_BYTES, Heap, Session, SharedSpace, TxError};
use std::cell::UnsafeCell;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The session of a lane.
pub type LaneSession = Session<'static, NativeMemory<'static>>;

/// The most lanes that no transaction takes, and the part of all that they are where there are few.
const FOR_CALLS: usize = 8;
const CALLS_SHARE: usize = 5;
/// One lane of those that keep their free space for so many chunks of the pool: more than it has of
/// its own, as few programs use so many sizes.
const CHUNKS_A_LANE: u64 = 16;

/// How often an action that finds no room is tried again while no other lane returns its free
/// space, and how long it waits each time: 10 ms in all.
const ATTEMPTS: usize = 200;
const PAUSE: Duration = Duration::from_micros(50);
/// How often all lanes return their free space before there is no room.
const ROUNDS: usize = 8;
/// For so many releases a pool that had no room is taken to be short of it.
const RELEASES: usize = 1024;

/// What a lane is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LanePurpose {
    /// One call.
    Call,
    /// A transaction, which can last.
    Transaction,
}

/// An error that can be for want of room.
pub trait NoRoom {
    /// Whether it is.
    fn is_no_room(&self) -> bool;
}

impl NoRoom for TxError {
    fn is_no_room(&self) -> bool {
        matches!(self, TxError::Full { .. })
    }
}

/// The lanes of an open pool.
pub struct Lanes {
    file: &'static Pool,
    process: Process,
    heap: Heap,
    space: SharedSpace,
    lanes: Box<[Lane]>,
    /// The number of lanes that keep their free space; threads prefer these.
    usual: usize,
    /// While that is not 0, the pool is short of room, and a lane that is released returns its free
    /// space; the number of releases that are left.
    short_for: AtomicUsize,
    waiting: AtomicUsize,
    waiters: Mutex<()>,
    freed: Condvar,
}

/// Lanes share no cache line, and no pair of lines that a CPU fetches together: each is another
/// thread's.
#[repr(align(128))]
struct Lane {
    is_taken: AtomicBool,
    /// How often its session was let return its free space.
    returns: AtomicUsize,
    /// From `Box::into_raw`.
    memory: *mut Apart<NativeMemory<'static>>,
    session: UnsafeCell<Option<LaneSession>>,
}

/// As for lanes.
#[repr(align(128))]
struct Apart<T>(T);

// SAFETY: a session is used only by the thread that has set `is_taken` of its lane, and each use is
// ordered behind the one before by that flag. It stays on no thread: it ends each use with nothing
// flushed and not fenced, and the slot that it holds in its memory compares no threads.
unsafe impl Sync for Lanes {}
// SAFETY: as above.
unsafe impl Send for Lanes {}

impl Lanes {
    /// As many lanes as the heap has threads.
    pub fn new(file: &'static Pool, heap: Heap) -> Lanes {
        let lane = |number| Lane {
            is_taken: AtomicBool::new(false),
            returns: AtomicUsize::new(0),
            memory: Box::into_raw(Box::new(Apart(file.memory(number)))),
            session: UnsafeCell::new(None),
        };
        let count = heap.threads() as usize;
        let for_space = heap.pm_bytes_max() / (CHUNK_BYTES * CHUNKS_A_LANE);
        Lanes {
            file,
            process: file.process(),
            heap,
            usual: (for_space as usize).clamp(1, for_all(count)),
            space: SharedSpace::default(),
            lanes: (0..count).map(lane).collect(),
            short_for: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            waiters: Mutex::new(()),
            freed: Condvar::new(),
        }
    }

    /// Ends all sessions, when no thread uses the pool any more; its logs are empty then.
    pub fn end(self) {
        let Lanes { file, heap, lanes, .. } = self;
        for Lane { memory, session, .. } in lanes {
            if let Some(session) = session.into_inner() {
                session.leave();
            }
            // SAFETY: it is from `Box::into_raw`, and the session that borrowed it has ended.
            drop(unsafe { Box::from_raw(memory) });
        }
        let memory = file.memory(0);
        heap.join(&memory).retire();
    }

    /// Takes all lanes for good, before the pool ends; takes none, and is false, if one is in use.
    pub fn take_all(&self) -> bool {
        let taken = (0..self.lanes.len()).take_while(|number| self.try_take(*number)).count();
        if taken < self.lanes.len() {
            (0..taken).for_each(|number| self.release(number));
        }
        taken == self.lanes.len()
    }

    /// The session of a lane that the caller has.
    fn join(&self, number: usize) -> LaneSession {
        // SAFETY: the memory lives as long as the lanes, and this session alone uses it.
        let memory: &'static NativeMemory<'static> = unsafe { &(*self.lanes[number].memory).0 };
        let mut session = self.heap.join(memory);
        session.share(&self.space);
        session.keep_freed_run(true);
        session
    }

    fn try_take(&self, number: usize) -> bool {
        let lane = &self.lanes[number].is_taken;
        !lane.load(SeqCst) && !lane.swap(true, SeqCst)
    }

    #[inline]
    fn take(
        &self,
        purpose: LanePurpose,
        mut preferred: usize,
        before_waiting: impl FnOnce(),
    ) -> usize {
        if preferred >= self.usual {
            preferred %= self.usual;
        }
        if self.try_take(preferred) {
            preferred
        } else {
            self.take_other(purpose, preferred, before_waiting)
        }
    }

    fn try_any(&self, purpose: LanePurpose, preferred: usize) -> Option<usize> {
        let end = match purpose {
            LanePurpose::Call => self.lanes.len(),
            LanePurpose::Transaction => for_all(self.lanes.len()),
        };
        let usual = (preferred..self.usual).chain(0..preferred);
        usual.chain(self.usual..end).find(|lane| self.try_take(*lane))
    }

    #[cold]
    fn take_other(
        &self,
        purpose: LanePurpose,
        preferred: usize,
        before_waiting: impl FnOnce(),
    ) -> usize {
        if let Some(lane) = self.try_any(purpose, preferred) {
            return lane;
        }
        before_waiting();
        let mut guard = self.lock();
        self.waiting.fetch_add(1, SeqCst);
        let lane = loop {
            if let Some(lane) = self.try_any(purpose, preferred) {
                break lane;
            }
            guard = self.freed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        };
        self.waiting.fetch_sub(1, SeqCst);
        lane
    }

    /// Lets the session of a lane that the caller has return its free space.
    fn give_up_space(&self, number: usize) {
        if !self.process.is_this() {
            return;
        }
        // SAFETY: the caller has the lane.
        if let Some(session) = unsafe { &mut *self.lanes[number].session.get() } {
            session.give_up_space();
        }
        self.lanes[number].returns.fetch_add(1, SeqCst);
    }

    /// Whether a lane keeps its free space from one use to the next.
    fn keeps_space(&self, number: usize) -> bool {
        number < self.usual && self.short_for.load(SeqCst) == 0
    }

    #[cold]
    fn give_up_at_release(&self, number: usize) {
        self.give_up_space(number);
        let less = |left: usize| left.checked_sub(1);
        let _ = self.short_for.fetch_update(SeqCst, SeqCst, less);
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self, number: usize) {
        self.lanes[number].is_taken.swap(false, SeqCst);
        if self.waiting.load(SeqCst) > 0 {
            let _guard = self.lock();
            // A lane for calls is of no use to a transaction that is woken, so all look.
            self.freed.notify_all();
        }
    }
}

/// Of so many lanes, the number of those that transactions take: all, if there is only one.
fn for_all(lanes: usize) -> usize {
    lanes - (lanes / CALLS_SHARE).clamp(1, FOR_CALLS).min(lanes / 2)
}

/// The number of lanes with which so many transactions can be in progress, and calls beside them.
pub fn lanes_for(transactions: usize) -> usize {
    (transactions + 1..).find(|lanes| for_all(*lanes) >= transactions).expect("there is one")
}

/// A lane that this thread has, until it is dropped.
pub struct LaneGuard {
    lanes: &'static Lanes,
    purpose: LanePurpose,
    number: usize,
}

impl LaneGuard {
    /// Takes a lane: that of this number, which is the thread's own, unless there are fewer lanes
    /// or another thread has it. Waits while all are taken.
    #[inline]
    pub fn take(lanes: &'static Lanes, purpose: LanePurpose, preferred: usize) -> LaneGuard {
        LaneGuard { lanes, purpose, number: lanes.take(purpose, preferred, || ()) }
    }

    /// As [`take`](LaneGuard::take), for a call beside a transaction of this thread;
    /// `before_waiting` lets the lane of that [return its free space](LaneGuard::give_up_space),
    /// which may be what the thread that it waits for is short of.
    #[inline]
    pub fn take_beside(
        lanes: &'static Lanes,
        preferred: usize,
        before_waiting: impl FnOnce(),
    ) -> LaneGuard {
        let purpose = LanePurpose::Call;
        LaneGuard { lanes, purpose, number: lanes.take(purpose, preferred, before_waiting) }
    }

    /// Returns the lane's free space to all.
    pub fn give_up_space(&mut self) {
        self.lanes.give_up_space(self.number);
    }

    /// The number of the lane.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The session of the lane.
    pub fn session(&mut self) -> &mut LaneSession {
        let place = self.lanes.lanes[self.number].session.get();
        // SAFETY: this guard alone has the lane, and is borrowed for as long as the session.
        unsafe { &mut *place }.get_or_insert_with(|| self.lanes.join(self.number))
    }

    /// Does `action`. If there is no room for it, this lane returns its free space, and each other
    /// one does when it is not in use, is released, or finds no room either. Then it tries again,
    /// until all have and none is in use; or none has for 10 ms, as a transaction that holds some
    /// may wait for this thread; or all have, several times, and others took it.
    ///
    /// # Errors
    /// What `action` returns.
    pub fn with_room<T, E: NoRoom>(
        &mut self,
        mut action: impl FnMut(&mut LaneSession) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut outcome = action(self.session());
        if outcome.as_ref().is_err_and(E::is_no_room) {
            outcome = self.gathering(action);
        }
        // A transaction goes on, and may wait long, for a lane or for a lock of the program.
        if self.purpose == LanePurpose::Transaction && !self.lanes.keeps_space(self.number) {
            self.lanes.give_up_space(self.number);
        }
        outcome
    }

    #[cold]
    fn gathering<T, E: NoRoom>(
        &mut self,
        mut action: impl FnMut(&mut LaneSession) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut holding = self.others();
        let (mut attempts, mut rounds) = (ATTEMPTS, ROUNDS);
        loop {
            self.lanes.short_for.store(RELEASES, SeqCst);
            self.lanes.give_up_space(self.number);
            let before = holding.len();
            holding.retain(|(number, returns)| !self.has_returned(*number, *returns));
            attempts = if holding.len() < before { ATTEMPTS } else { attempts - 1 };
            if holding.is_empty() {
                rounds = if self.is_alone() { 0 } else { rounds - 1 };
                holding = self.others();
            }
            let outcome = action(self.session());
            let is_last = rounds == 0 || attempts == 0;
            if is_last || !outcome.as_ref().is_err_and(E::is_no_room) {
                return outcome;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Whether no other lane is in use.
    fn is_alone(&self) -> bool {
        let mut all = self.lanes.lanes.iter().enumerate();
        all.all(|(number, lane)| number == self.number || !lane.is_taken.load(SeqCst))
    }

    /// Does `action` with a session that takes free blocks from the front of the pool, also those
    /// of the lanes that are not in use.
    pub fn packing<T>(&mut self, action: impl FnOnce(&mut LaneGuard) -> T) -> T {
        self.gather_space();
        self.lanes.give_up_space(self.number);
        self.session().set_packing(true);
        let outcome = action(self);
        self.session().set_packing(false);
        outcome
    }

    /// Lets the lanes that are not in use return their free space.
    fn gather_space(&self) {
        for (number, returns) in self.others() {
            self.has_returned(number, returns);
        }
    }

    /// The other lanes, each with how often it has returned its free space.
    fn others(&self) -> Vec<(usize, usize)> {
        let returns = |lane: &Lane| lane.returns.load(SeqCst);
        let all = self.lanes.lanes.iter().map(returns).enumerate();
        all.filter(|(number, _)| *number != self.number).collect()
    }

    /// Whether a lane has returned its free space since it had done so `returns` times; lets it if
    /// it is not in use.
    fn has_returned(&self, number: usize, returns: usize) -> bool {
        let lanes = self.lanes;
        if lanes.try_take(number) {
            lanes.give_up_space(number);
            lanes.release(number);
        }
        lanes.lanes[number].returns.load(SeqCst) != returns
    }
}

impl Drop for LaneGuard {
    fn drop(&mut self) {
        if !self.lanes.process.is_this() {
            return;
        }
        let place = self.lanes.lanes[self.number].session.get();
        // SAFETY: this guard alone has the lane.
        if let Some(session) = unsafe { &*place } {
            // The fence of another thread would not wait for what this one has flushed.
            session.memory().drain();
        }
        if !self.lanes.keeps_space(self.number) {
            self.lanes.give_up_at_release(self.number);
        }
        self.lanes.release(self.number);
    }
}
