//! Lanes: any number of threads work in a pool that has log space for a fixed number at once.
//!
//! A lane is a session of the heap, with its own logs and free space. A call takes one, and returns
//! it; a transaction keeps its lane to its end. Each thread prefers one of its own, so that threads
//! meet only when there are more of them than lanes. Some lanes are for calls only: they never wait
//! for a lock of the program, so a thread that holds one can always go on and release it.
//!
//! As many lanes as the pool has room for keep their free space from one use to the next. The
//! others serve when those are taken, and return it after each use: else each of hundreds of
//! threads would have a chunk of each size of its own, with few objects in it. Who finds no room
//! lets the lanes that keep some return it; each says whether it does.
//!
//! In the child of a fork lanes are the parent's. No call there takes one: who has the pool looks
//! before. One that the forking thread had is given up without an access to the pool.

mod numbers;

pub use numbers::ThreadNumbers;

use seawall_memory::{MemoryExt, Process};
use seawall_native::{NativeMemory, Pool};
use seawall_runtime::{CHUNK_BYTES, Heap, Session, SharedSpace, TxError};
use std::cell::UnsafeCell;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
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

/// How often a thread that finds no room looks for what others return, while none does, before it
/// sleeps, and then: 10 ms in all.
const LOOKS: usize = 100;
const SLEEPS: usize = 200;
const PAUSE: Duration = Duration::from_micros(50);
/// After so many calls of transactions that see a free chunk, a pool that had none is no longer
/// short of room.
const CALLS: usize = 1024;
/// How often others may take what was returned before there is no room.
const ROUNDS: usize = 8;

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
    /// The number of lanes of which one has been used.
    used: AtomicUsize,
    /// While that is not 0, the pool is short of room: a thread has found none, and no chunk was
    /// free then. The number of calls that have yet to see one.
    short_for: AtomicUsize,
    /// How often a lane has returned free space.
    returns: AtomicUsize,
    waiting: AtomicUsize,
    waiters: Mutex<()>,
    freed: Condvar,
}

/// Lanes share no cache line, and no pair of lines that a CPU fetches together: each is another
/// thread's.
#[repr(align(128))]
struct Lane {
    is_taken: AtomicBool,
    /// Whether its session may have free space.
    keeps: AtomicBool,
    /// Whether another thread wants that.
    is_asked: AtomicBool,
    /// Whether one has waited for it in vain.
    is_deaf: AtomicBool,
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
            keeps: AtomicBool::new(false),
            is_asked: AtomicBool::new(false),
            is_deaf: AtomicBool::new(false),
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
            used: AtomicUsize::new(0),
            short_for: AtomicUsize::new(0),
            returns: AtomicUsize::new(0),
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
    #[cold]
    #[inline(never)]
    fn join(&self, number: usize) -> LaneSession {
        self.used.fetch_max(number + 1, SeqCst);
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

    /// Lets the session of a lane that the caller has return its free space; whether it has any, or
    /// has returned some by itself.
    #[cold]
    #[inline(never)]
    fn give_up_space(&self, number: usize) -> bool {
        if !self.process.is_this() {
            return false;
        }
        let lane = &self.lanes[number];
        // SAFETY: the caller has the lane.
        let session = unsafe { &mut *lane.session.get() };
        let has_some = session.as_mut().is_some_and(Session::give_up_space);
        self.returns.fetch_add(usize::from(has_some), SeqCst);
        for is_so in [&lane.keeps, &lane.is_asked, &lane.is_deaf] {
            is_so.store(false, SeqCst);
        }
        has_some
    }

    /// Whether a lane keeps its free space from one use to the next.
    #[inline]
    fn keeps_space(&self, number: usize) -> bool {
        number < self.usual && !self.lanes[number].is_asked.load(Relaxed)
    }

    /// The lanes but this one that may have free space.
    fn keepers(&self, but: usize) -> impl Iterator<Item = usize> {
        let used = self.used.load(SeqCst);
        (0..used).filter(move |number| *number != but && self.lanes[*number].keeps.load(SeqCst))
    }

    /// Lets a lane return its free space; false if it is in use.
    fn gather_from(&self, number: usize) -> bool {
        let is_idle = self.try_take(number);
        if is_idle {
            self.give_up_space(number);
            self.release(number);
        }
        is_idle
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
        let lane = &self.lanes.lanes[self.number];
        lane.keeps.store(true, Relaxed);
        // SAFETY: this guard alone has the lane, and is borrowed for as long as the session.
        let session = unsafe { &mut *lane.session.get() };
        session.get_or_insert_with(|| self.lanes.join(self.number))
    }

    /// Does `action`. If there is no room for it, this lane returns its free space, and so does
    /// each other one that has some: at once if it is not in use, else at the end of the call that
    /// is in progress, or of the next one. Then it tries again, unless none has returned any. It
    /// waits for a lane that is in use up to 10 ms: a transaction that has some may wait for this
    /// thread. It does not wait for the same lane once more before that has done something.
    ///
    /// # Errors
    /// What `action` returns.
    pub fn with_room<T, E: NoRoom>(
        &mut self,
        mut action: impl FnMut(&mut LaneSession) -> Result<T, E>,
    ) -> Result<T, E> {
        let before = self.lanes.returns.load(SeqCst);
        let mut outcome = action(self.session());
        if outcome.as_ref().is_err_and(E::is_no_room) {
            outcome = self.gathering(before, outcome, action);
        }
        // A transaction goes on, and may wait long, for a lane or for a lock of the program.
        if self.purpose == LanePurpose::Transaction
            && (!self.lanes.keeps_space(self.number) || self.is_short())
        {
            self.lanes.give_up_space(self.number);
        }
        outcome
    }

    /// Whether the pool is short of room that other threads may want.
    #[inline]
    fn is_short(&mut self) -> bool {
        let lanes = self.lanes;
        let is_short = lanes.short_for.load(Relaxed) > 0 && lanes.used.load(Relaxed) > 1;
        if is_short {
            self.look_at_room();
        }
        is_short
    }

    #[cold]
    #[inline(never)]
    fn look_at_room(&mut self) {
        if self.session().has_free_chunk() {
            let less = |left: usize| left.checked_sub(1);
            let _ = self.lanes.short_for.fetch_update(SeqCst, SeqCst, less);
        }
    }

    /// Tries the action again, whose last outcome was for want of room, and began when there had
    /// been that many returns.
    #[cold]
    fn gathering<T, E: NoRoom>(
        &mut self,
        mut before: usize,
        mut outcome: Result<T, E>,
        mut action: impl FnMut(&mut LaneSession) -> Result<T, E>,
    ) -> Result<T, E> {
        if !self.session().has_free_chunk() {
            self.lanes.short_for.store(CALLS, SeqCst);
        }
        for _ in 0..ROUNDS {
            before += usize::from(self.lanes.give_up_space(self.number));
            let now = self.gather(before);
            if now == before || !outcome.as_ref().is_err_and(E::is_no_room) {
                break;
            }
            before = now;
            outcome = action(self.session());
        }
        outcome
    }

    /// Lets the other lanes return their free space; waits for those in use until there have been
    /// more than `before` returns. Gives how many there have been.
    fn gather(&self, before: usize) -> usize {
        let lanes = self.lanes;
        let mut awaited: Vec<usize> = lanes.keepers(self.number).collect();
        awaited.retain(|number| !lanes.gather_from(*number));
        for number in &awaited {
            lanes.lanes[*number].is_asked.store(true, SeqCst);
        }
        let is_deaf = |number: &usize| lanes.lanes[*number].is_deaf.load(SeqCst);
        awaited.retain(|number| !is_deaf(number));
        for look in 0..LOOKS + SLEEPS {
            let now = lanes.returns.load(SeqCst);
            let keeps = |number: &usize| lanes.lanes[*number].keeps.load(SeqCst);
            awaited.retain(|number| keeps(number) && !lanes.gather_from(*number));
            if now != before || awaited.is_empty() {
                break;
            }
            if look < LOOKS { std::thread::yield_now() } else { std::thread::sleep(PAUSE) }
        }
        let now = lanes.returns.load(SeqCst);
        for number in awaited.iter().filter(|_| now == before) {
            lanes.lanes[*number].is_deaf.store(true, SeqCst);
        }
        now
    }

    /// Does `action` with a session that takes free blocks from the front of the pool, also those
    /// of the lanes that are not in use.
    pub fn packing<T>(&mut self, action: impl FnOnce(&mut LaneGuard) -> T) -> T {
        for number in self.lanes.keepers(self.number) {
            self.lanes.gather_from(number);
        }
        self.lanes.give_up_space(self.number);
        self.session().set_packing(true);
        let outcome = action(self);
        self.session().set_packing(false);
        outcome
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
            self.lanes.give_up_space(self.number);
        }
        self.lanes.release(self.number);
    }
}
