//! One thread at work in a heap.

use super::Heap;
use super::layout::Layout;
use crate::alloc::block::Blocks;
use crate::alloc::chunk::Chunk;
use crate::alloc::coalesce::Placement;
use crate::defrag::forwarding_table::Move;
use crate::defrag::read_barrier::View;
use crate::locks::lock_set::Holds;
use crate::tx::recovery;
use crate::tx::redo_log::{Log, LogCounts, Wait};
use crate::tx::undo_log::Undo;
use crate::tx::{Buffers, Logging, Tx};
use crate::{HeapError, Route, RouteChoice, RouteCounts};
use seawall_memory::{Addr, LINE_BYTES, Memory, Seat, Word};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// A thread's handle on a heap: runs its transactions, one at a time.
///
/// What it keeps is volatile: dropping it loses nothing, but the free blocks that it had stay its
/// thread's until that joins again or the heap is opened again; [`leave`](Session::leave) gives
/// them to the others.
pub struct Session<'m, M: Memory> {
    pub(crate) memory: &'m M,
    pub(crate) heap: Heap,
    pub(crate) thread: u64,
    pub(crate) log: Log,
    pub(crate) undo: Undo,
    pub(crate) blocks: Blocks,
    pub(crate) placement: Placement,
    pub(crate) buffers: Buffers,
    pub(crate) holds: Holds,
    /// End of the chunks that were there when last looked.
    data_end: Cell<u64>,
    /// The chunk entry that was looked at last, and what it says.
    decoded: Cell<(Addr, u64, Chunk)>,
    /// Tells it from all other sessions of this process.
    number: u64,
    /// Where its memory keeps who works with it.
    seat: Option<Seat>,
    /// A transaction panicked and has not been cleaned up.
    broken: bool,
    /// How the scope that it is in calls objects that move.
    pub(crate) view: View,
    /// The object that it has just moved.
    pub(crate) moved: Cell<Option<Move>>,
    /// It is in a scope.
    pub(crate) is_scoped: bool,
}

/// A transaction that is visible and ordered, but perhaps not durable yet.
#[must_use = "nothing is promised until it is waited for"]
#[derive(Debug)]
pub struct Pending {
    session: u64,
}

static SESSIONS: AtomicU64 = AtomicU64::new(0);

/// Ends a transaction whose body panics.
struct Unwinding<'s, 'm, M: Memory> {
    session: &'s mut Session<'m, M>,
    is_scope: bool,
}

/// The seat of the thread that joins.
fn seated<M: Memory>(memory: &M, heap: &Heap) -> Option<Seat> {
    let (thread, threads) = (memory.thread() as u64, heap.threads());
    assert!(thread < threads, "thread {thread} in a heap for {threads} threads");
    heap.assert_on(memory);
    match memory.seats()?.take(memory.thread()) {
        Ok(seat) => Some(seat),
        Err(taken) => panic!("thread number {thread}: {taken}"),
    }
}

impl<M: Memory> Drop for Unwinding<'_, '_, M> {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        self.session.end_by_panic(self.is_scope);
    }
}

/// What a session has between two times at work: without its memory, and on no thread.
#[derive(Debug)]
pub(crate) struct Suspended {
    log: Log,
    undo: Undo,
    blocks: Blocks,
    placement: Placement,
    buffers: Buffers,
    holds: Holds,
    heap: Heap,
    number: u64,
    turn: u64,
}

impl<'m, M: Memory> Session<'m, M> {
    pub(crate) fn new(memory: &'m M, heap: Heap) -> Session<'m, M> {
        let seat = seated(memory, &heap);
        Session::seated_on(memory, heap, seat)
    }

    /// Goes on as a session that was suspended on this memory; as a new one if another has joined
    /// under its thread number since.
    pub(crate) fn resume(memory: &'m M, heap: Heap, before: Suspended) -> Session<'m, M> {
        let seat = seated(memory, &heap);
        if seat.as_ref().is_none_or(|seat| seat.turn() != before.turn + 1) || before.heap != heap {
            return Session::seated_on(memory, heap, seat);
        }
        let Suspended { log, undo, blocks, placement, buffers, holds, number, .. } = before;
        Session {
            memory,
            heap,
            thread: memory.thread() as u64,
            log,
            undo,
            blocks,
            placement,
            buffers,
            holds,
            data_end: Cell::new(0),
            decoded: Cell::new((Addr::NULL, 0, Chunk::Clean)),
            number,
            seat,
            broken: false,
            view: View::Plain,
            moved: Cell::new(None),
            is_scoped: false,
        }
    }

    /// Leaves its thread, to be [resumed](Session::resume) on any; none if it has been replaced, or
    /// is to be cleaned up.
    pub(crate) fn suspend(self) -> Option<Suspended> {
        let turn = self.seat.as_ref().filter(|seat| seat.is_held())?.turn();
        let Session { log, undo, blocks, placement, buffers, holds, heap, number, .. } = self;
        let suspended =
            Suspended { log, undo, blocks, placement, buffers, holds, heap, number, turn };
        (!self.broken).then_some(suspended)
    }

    fn seated_on(memory: &'m M, heap: Heap, seat: Option<Seat>) -> Session<'m, M> {
        let thread = memory.thread() as u64;
        let log = Log::new(memory, &heap, thread);
        let left_open = recovery::undo_left_open(memory, &heap, thread);
        let mut session = Session {
            memory,
            heap,
            thread,
            log,
            undo: Undo::new(memory, &heap, thread),
            blocks: Blocks::new(),
            placement: Placement::Packed,
            buffers: Buffers::default(),
            holds: Holds::default(),
            data_end: Cell::new(0),
            decoded: Cell::new((Addr::NULL, 0, Chunk::Clean)),
            number: SESSIONS.fetch_add(1, Relaxed),
            seat,
            broken: false,
            view: View::Plain,
            moved: Cell::new(None),
            is_scoped: false,
        };
        session.buffers.clear();
        if let Some(mut record) = left_open {
            session.in_scope(|session| {
                let done = session.log.commit(memory, &mut record, Wait::Durable);
                done.expect("old values fit the log of new ones");
            });
            session.undo = Undo::new(memory, &heap, thread);
        }
        session
    }

    /// Runs what may retire logs, whose lines it flushes: in a scope, as all that has addresses.
    fn in_scope(&mut self, action: impl FnOnce(&mut Self)) {
        let is_scope = self.heap.layout.numbers.moves && !self.is_scoped;
        if is_scope {
            self.begin_scope();
        }
        action(self);
        if is_scope {
            self.end_scope();
        }
    }

    /// The memory below.
    pub fn memory(&self) -> &'m M {
        self.memory
    }

    /// The heap.
    pub fn heap(&self) -> Heap {
        self.heap
    }

    pub(crate) fn layout(&self) -> Layout {
        self.heap.layout
    }

    /// Chunks that there are.
    pub(crate) fn chunks(&self) -> u64 {
        let layout = self.heap.layout;
        let chunks = self.heap.chunks(self.memory).unwrap_or(0);
        self.data_end.set(layout.pm_bytes(chunks));
        chunks
    }

    /// True for addresses that a transaction may write.
    #[inline]
    pub(crate) fn holds(&self, at: Addr, bytes: u64) -> bool {
        let layout = &self.heap.layout;
        let end = at.bits().saturating_add(bytes);
        (at >= layout.data && end <= self.data_end.get())
            || layout.is_root(at, bytes)
            || (at >= layout.data && layout.holds(at, bytes, self.chunks()))
    }

    /// What the chunk entry found at `at` says.
    #[inline]
    pub(crate) fn decode(&self, at: Addr, bits: u64) -> Result<Chunk, HeapError> {
        let (known_at, known_bits, known) = self.decoded.get();
        if (at, bits) == (known_at, known_bits) {
            return Ok(known);
        }
        let chunk = Chunk::decode(at, bits)?;
        self.decoded.set((at, bits, chunk));
        Ok(chunk)
    }

    /// True if there is such a chunk.
    #[inline]
    pub(crate) fn has_chunk(&self, chunk: u64) -> bool {
        self.heap.layout.pm_bytes(chunk + 1) <= self.data_end.get() || chunk < self.chunks()
    }

    /// The value at `at`, outside any transaction.
    #[inline]
    #[track_caller]
    pub fn load<W: Word>(&self, at: Addr) -> W {
        self.memory.load(at)
    }

    /// Runs `body` as a transaction that logs new values, and commits if it returns `Ok`. A crash
    /// before the return keeps all that it stored, allocated and freed, or nothing; one after the
    /// return keeps all. One fence.
    ///
    /// # Errors
    /// What `body` returns; then nothing has changed. [`HeapError::TooLarge`] when it wrote more
    /// than the log holds.
    pub fn transaction<T, E: From<HeapError>>(
        &mut self,
        body: impl FnOnce(&mut Tx<'_, 'm, M>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(Logging::Redo, Wait::Durable, body)
    }

    /// As [`transaction`](Session::transaction), with a choice: [`Logging::Undo`] logs old values
    /// and stores in place. A fence for each first store, or set of ranges [added](Tx::add), and
    /// one at the end.
    ///
    /// # Errors
    /// As [`transaction`](Session::transaction).
    pub fn transaction_with<T, E: From<HeapError>>(
        &mut self,
        logging: Logging,
        body: impl FnOnce(&mut Tx<'_, 'm, M>) -> Result<T, E>,
    ) -> Result<T, E> {
        self.run(logging, Wait::Durable, body)
    }

    /// As [`transaction_with`](Session::transaction_with), but begins the fence and does not wait
    /// for it: what the thread does next overlaps with it. The transaction is visible to all
    /// threads and ordered before anything later; it is promised only when [`wait`](Session::wait)
    /// returns.
    ///
    /// # Errors
    /// As [`transaction`](Session::transaction).
    pub fn begin<T, E: From<HeapError>>(
        &mut self,
        kind: Logging,
        body: impl FnOnce(&mut Tx<'_, 'm, M>) -> Result<T, E>,
    ) -> Result<(T, Pending), E> {
        self.run(kind, Wait::Ordered, body).map(|value| (value, Pending { session: self.number }))
    }

    /// Returns when the transaction, and all that this session committed before it, is durable.
    ///
    /// # Panics
    /// When another session began the transaction.
    pub fn wait(&self, pending: Pending) {
        assert_eq!(pending.session, self.number, "what another session began is waited for there");
        self.memory.drain();
    }

    #[inline]
    fn run<T, E: From<HeapError>>(
        &mut self,
        kind: Logging,
        wait: Wait,
        body: impl FnOnce(&mut Tx<'_, 'm, M>) -> Result<T, E>,
    ) -> Result<T, E> {
        let is_scope = self.enter()?;
        // The outcome stays where it is: a copy that is made behind the fence, of halves that were
        // stored behind it, would wait for the fence, and all that follows with it.
        let unwinding = Unwinding { session: self, is_scope };
        let mut outcome = body(&mut Tx { session: &mut *unwinding.session, kind });
        std::mem::forget(unwinding);
        match self.leave_with(outcome.is_ok(), wait, is_scope) {
            Ok(None) => {}
            Ok(Some(error)) => outcome = Err(error.into()),
            Err(error) => return Err(error.into()),
        }
        outcome
    }

    /// A transaction begins; true if a scope does, too.
    #[inline(never)]
    fn enter(&mut self) -> Result<bool, HeapError> {
        self.sit();
        if std::mem::replace(&mut self.broken, true) {
            self.abort()?;
            self.hold_no_more();
        }
        self.hold_first();
        let is_scope = self.heap.layout.numbers.moves && !self.is_scoped;
        if is_scope {
            self.begin_scope();
        }
        self.set_busy(true);
        Ok(is_scope)
    }

    /// Whoever changes anything has to be the session that its thread number has now.
    #[inline]
    pub(crate) fn sit(&self) {
        if !self.is_seated() {
            panic!(
                "another session of thread number {} has joined since; use that one",
                self.thread
            );
        }
    }

    fn is_seated(&self) -> bool {
        self.seat.as_ref().is_none_or(Seat::is_held)
    }

    fn set_busy(&self, is_busy: bool) {
        if let Some(seat) = &self.seat {
            seat.set_busy(is_busy);
        }
    }

    /// The body of a transaction has panicked: nothing of it remains, before anybody else sees it.
    /// A thread that ends with its machine leaves all as it is.
    fn end_by_panic(&mut self, is_scope: bool) {
        if self.seat.is_some() {
            // A second panic, of a memory that fails, must not end the process. What could not be
            // put back is tried again when the next transaction begins.
            let end = AssertUnwindSafe(|| self.leave_with(false, Wait::Durable, is_scope));
            let _ = catch_unwind(end);
        }
    }

    /// It ends: commits if its body has gone well, else, and when that fails, is rolled back. Gives
    /// why it could not commit; an error if it could not be rolled back.
    #[inline(never)]
    fn leave_with(
        &mut self,
        is_good: bool,
        wait: Wait,
        is_scope: bool,
    ) -> Result<Option<HeapError>, HeapError> {
        self.set_busy(false);
        let error = if is_good { self.commit(wait).err() } else { None };
        if !is_good || error.is_some() {
            self.abort()?;
        }
        if is_scope {
            self.end_scope();
        }
        self.hold_no_more();
        self.broken = false;
        Ok(error)
    }

    fn commit(&mut self, wait: Wait) -> Result<(), HeapError> {
        if !self.buffers.saved.is_empty() || self.undo.is_open() {
            self.log_saved();
        }
        if !self.buffers.new.is_empty() {
            if self.buffers.direct {
                self.memory.order();
            }
            self.log.commit(self.memory, &mut self.buffers.new, wait)?;
        }
        self.undo.close();
        if !self.buffers.freed.is_empty() {
            let freed = std::mem::take(&mut self.buffers.freed);
            self.give_back(&freed);
            self.buffers.freed = freed;
        }
        self.buffers.clear();
        Ok(())
    }

    /// Undo: what the words hold now goes into the record.
    #[inline(never)]
    fn log_saved(&mut self) {
        let mut line = [0; LINE_BYTES as usize];
        for (at, words) in self.buffers.saved.runs() {
            self.memory.read(at, &mut line[..8 * words]);
            self.buffers.new.push_words(at, &line[..8 * words]);
        }
        if self.undo.is_open() {
            self.buffers.new.push_end(self.undo.number());
        }
    }

    /// Puts everything back as it was before the transaction.
    fn abort(&mut self) -> Result<(), HeapError> {
        if self.undo.is_open() {
            self.log.commit(self.memory, self.undo.put_back(), Wait::Durable)?;
        }
        self.undo.close();
        let taken = std::mem::take(&mut self.buffers.taken);
        self.give_back(&taken);
        self.buffers.clear();
        Ok(())
    }

    /// Allocates `bytes` bytes, fills them with `content` (the rest is anything), and stores the
    /// address in the word at `link`: all three or none, with one fence.
    ///
    /// # Errors
    /// As [`transaction`](Session::transaction).
    pub fn alloc_into(
        &mut self,
        link: Addr,
        bytes: u64,
        content: &[u8],
    ) -> Result<Addr, HeapError> {
        self.transaction(|tx| {
            let at = tx.alloc(bytes.max(content.len() as u64))?;
            if !content.is_empty() {
                tx.fill(at, content)?;
            }
            tx.store(link, at)?;
            Ok(at)
        })
    }

    /// Frees the object whose address is in the word at `link`, and stores zero there: both or
    /// neither, with one fence. Nothing happens if the word is zero.
    ///
    /// # Errors
    /// As [`transaction`](Session::transaction), and [`HeapError::NoObject`].
    pub fn free_from(&mut self, link: Addr) -> Result<(), HeapError> {
        self.transaction(|tx| {
            let at: Addr = tx.load(link);
            if at.is_null() {
                return Ok(());
            }
            tx.free(at)?;
            tx.store(link, Addr::NULL)
        })
    }

    /// Lets this thread's log records take a fixed way, or (as at first) the one that is measured
    /// to be cheaper. What it has measured so far is forgotten.
    pub fn set_log_route(&mut self, choice: RouteChoice) {
        self.log.route = Route::new(choice);
        self.undo.route = Route::new(choice);
    }

    /// Which ways its records of new values have taken.
    pub fn log_route(&self) -> RouteCounts {
        self.log.route.counts()
    }

    /// What its log has done since the thread joined.
    pub fn log_counts(&self) -> LogCounts {
        self.log.counts
    }

    /// Retires the logs of all threads, as far as none of them writes meanwhile: all that was
    /// committed is in place and durable. Opening is quickest after it.
    ///
    /// # Panics
    /// When another session of this thread number has joined since.
    pub fn retire(&mut self) {
        self.sit();
        self.in_scope(|session| session.log.truncate_all(session.memory));
    }

    /// Gives the free space that this thread had to the others, unless another session of its
    /// number has joined since.
    pub fn leave(mut self) {
        if self.is_seated() {
            self.disown();
        }
    }
}
