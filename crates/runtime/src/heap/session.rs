//! A session: the handle of one thread on a heap, and its state in DRAM.

use super::Heap;
use super::extent::HeapExtent;
use super::layout::Layout;
use crate::alloc::block::Blocks;
use crate::alloc::chunk::Chunk;
use crate::alloc::reserve::SharedSpace;
use crate::alloc::shelf::Placement;
use crate::defrag::scope::Scope;
use crate::locks::holds::Holds;
use crate::tx::buffers::Buffers;
use crate::tx::recovery;
use crate::tx::redo_log::{Log, LogCounts};
use crate::tx::undo_log::Undo;
use crate::{AccessError, Route, RouteChoice, RouteCounts};
use seawall_memory::{Addr, Memory, MemoryExt, ThreadSlot, Word};
use std::cell::Cell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// A thread's handle on a heap: runs its transactions, one at a time.
///
/// Its state is volatile, so dropping a session loses no data. The free blocks that it had stay
/// reserved for its thread number until that joins again and finds no other room, or the heap is
/// opened again;
/// [`leave`](Session::leave) returns them to all threads.
pub struct Session<'m, M: Memory> {
    pub(crate) memory: &'m M,
    pub(crate) heap: Heap,
    pub(crate) thread: u64,
    /// Boxed, as they are large: a session moves when its thread comes and goes.
    pub(crate) log: Box<Log>,
    pub(crate) undo: Box<Undo>,
    pub(crate) blocks: Box<Blocks>,
    pub(crate) placement: Placement,
    pub(crate) buffers: Box<Buffers>,
    pub(crate) holds: Box<Holds>,
    /// Whether blocks are taken of the chunks that there are only.
    pub(crate) is_packing: bool,
    /// Whether it keeps the run of chunks that it freed last.
    pub(crate) keeps_run: bool,
    /// Space that any session has reserved, if this one shares that.
    pub(crate) shared: Option<SharedSpace>,
    /// The end of the chunks when their number was last read.
    data_end: Cell<u64>,
    /// The last chunk entry that was decoded: address, bits, meaning.
    decoded: Cell<(Addr, u64, Chunk)>,
    /// Structures that were found sound.
    known: KnownRoots,
    /// Identifies the session in this process.
    pub(crate) number: u64,
    /// The thread slot that the session has taken in its memory.
    pub(crate) seat: Option<ThreadSlot>,
    /// Whether a transaction has begun and not ended: it runs, or is to be rolled back.
    pub(crate) is_begun: bool,
    /// How many transactions have begun.
    pub(crate) begun: u64,
    /// The scope that the session is in, for defragmentation.
    pub(crate) scope: Scope,
}

/// Links whose roots were found sound, each in a place that its address gives, and those roots.
#[derive(Clone, Debug)]
struct KnownRoots([Cell<(Addr, Addr)>; 4]);

impl KnownRoots {
    fn new() -> KnownRoots {
        KnownRoots(std::array::from_fn(|_| Cell::new((Addr::NULL, Addr::NULL))))
    }

    fn of(&self, link: Addr) -> &Cell<(Addr, Addr)> {
        &self.0[(link.bits() / 8) as usize % self.0.len()]
    }
}

static SESSIONS: AtomicU64 = AtomicU64::new(0);

/// Takes the slot of the thread that joins.
fn seated<M: Memory>(memory: &M, heap: &Heap) -> Option<ThreadSlot> {
    let (thread, threads) = (memory.thread() as u64, heap.threads());
    assert!(thread < threads, "thread {thread} in a heap for {threads} threads");
    heap.assert_on(memory);
    let slots = memory.slots()?;
    assert!(!slots.are_inherited(), "{}", AccessError::Inherited);
    match slots.take(memory.thread()) {
        Ok(seat) => Some(seat),
        Err(taken) => panic!("thread number {thread}: {taken}"),
    }
}

/// A session that is suspended: without its memory, and on no thread.
#[derive(Debug)]
pub(crate) struct Suspended {
    log: Box<Log>,
    undo: Box<Undo>,
    blocks: Box<Blocks>,
    placement: Placement,
    buffers: Box<Buffers>,
    holds: Box<Holds>,
    heap: Heap,
    known: KnownRoots,
    number: u64,
    data_end: Cell<u64>,
    turn: u64,
}

impl<'m, M: Memory> Session<'m, M> {
    pub(crate) fn new(memory: &'m M, heap: Heap) -> Session<'m, M> {
        let seat = seated(memory, &heap);
        Session::seated_on(memory, heap, seat)
    }

    /// Continues a session that was suspended on this memory; starts a new one if another session
    /// has joined under its thread number since.
    pub(crate) fn resume(memory: &'m M, heap: Heap, before: Suspended) -> Session<'m, M> {
        let seat = seated(memory, &heap);
        if seat.as_ref().is_none_or(|seat| seat.turn() != before.turn + 1) || before.heap != heap {
            return Session::seated_on(memory, heap, seat);
        }
        let Suspended {
            log, undo, blocks, placement, buffers, holds, known, number, data_end, ..
        } = before;
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
            is_packing: false,
            keeps_run: false,
            shared: None,
            data_end,
            decoded: Cell::new((Addr::NULL, 0, Chunk::Clean)),
            known,
            number,
            seat,
            is_begun: false,
            begun: 0,
            scope: Scope::default(),
        }
    }

    /// Detaches the session from its thread, to be [resumed](Session::resume) on any; `None` if
    /// another session has replaced it, or a panicked transaction is still to be rolled back.
    pub(crate) fn suspend(self) -> Option<Suspended> {
        let turn = self.seat.as_ref().filter(|seat| seat.is_held())?.turn();
        let Session {
            log,
            undo,
            blocks,
            placement,
            buffers,
            holds,
            heap,
            known,
            number,
            data_end,
            ..
        } = self;
        let suspended = Suspended {
            log,
            undo,
            blocks,
            placement,
            buffers,
            holds,
            heap,
            known,
            number,
            data_end,
            turn,
        };
        (!self.is_begun).then_some(suspended)
    }

    fn seated_on(memory: &'m M, heap: Heap, seat: Option<ThreadSlot>) -> Session<'m, M> {
        let thread = memory.thread() as u64;
        heap.note_joined(memory, thread);
        let log = Box::new(Log::new(memory, &heap, thread));
        let left_open = recovery::left_open(memory, &heap, thread);
        let mut session = Session {
            memory,
            heap,
            thread,
            log,
            undo: Box::new(Undo::new(memory, &heap, thread)),
            blocks: Box::new(Blocks::new()),
            placement: Placement::Packed,
            buffers: Box::default(),
            holds: Box::default(),
            is_packing: false,
            keeps_run: false,
            shared: None,
            data_end: Cell::new(0),
            decoded: Cell::new((Addr::NULL, 0, Chunk::Clean)),
            known: KnownRoots::new(),
            number: SESSIONS.fetch_add(1, Relaxed),
            seat,
            is_begun: false,
            begun: 0,
            scope: Scope::default(),
        };
        session.buffers.clear();
        if let Some((number, parts)) = left_open {
            let mut is_back = false;
            session.in_scope(|session| is_back = session.put_back(number, parts).is_ok());
            if is_back {
                *session.undo = Undo::new(memory, &heap, thread);
            }
        }
        session
    }

    /// Runs an action in a scope: no page in which it can have an address is returned to the system
    /// meanwhile. A transaction is in one by itself, and truncation of logs, which flushes by
    /// address.
    pub fn in_scope<T>(&mut self, action: impl FnOnce(&mut Self) -> T) -> T {
        let is_scope = self.heap.layout.numbers.moves && !self.scope.is_open;
        if is_scope {
            self.begin_scope();
        }
        let outcome = action(self);
        if is_scope {
            self.end_scope();
        }
        outcome
    }

    /// The memory below. What a program stores there itself can be lost in a crash, if a
    /// transaction wrote the same bytes before, unless the heap
    /// [allows it](crate::HeapOptions::in_place).
    pub fn memory(&self) -> &'m M {
        self.memory
    }

    /// The heap.
    pub fn heap(&self) -> Heap {
        self.heap
    }

    /// The heap, not copied: it is large.
    #[doc(hidden)]
    pub fn heap_ref(&self) -> &Heap {
        &self.heap
    }

    pub(crate) fn layout(&self) -> Layout {
        self.heap.layout
    }

    /// Where the objects of the heap can be, by what the session has read of it so far.
    #[doc(hidden)]
    pub fn extent(&self) -> HeapExtent {
        HeapExtent::new(&self.heap, self.data_end.get())
    }

    /// Reads the number of chunks.
    pub(crate) fn chunks(&self) -> u64 {
        let layout = self.heap.layout;
        let chunks = self.heap.chunks(self.memory).unwrap_or(0);
        self.data_end.set(layout.pm_bytes(chunks));
        chunks
    }

    /// Whether a transaction can write there.
    #[inline]
    pub(crate) fn holds(&self, at: Addr, bytes: u64) -> bool {
        let layout = &self.heap.layout;
        let end = at.bits().saturating_add(bytes);
        (at >= layout.data && end <= self.data_end.get())
            || layout.is_root(at, bytes)
            || (at >= layout.data && layout.holds(at, bytes, self.chunks()))
    }

    /// Decodes the chunk entry that was found at `at`.
    #[inline]
    pub(crate) fn decode(&self, at: Addr, bits: u64) -> Result<Chunk, AccessError> {
        let (known_at, known_bits, known) = self.decoded.get();
        if (at, bits) == (known_at, known_bits) {
            return Ok(known);
        }
        let chunk = Chunk::decode(at, bits)?;
        self.decoded.set((at, bits, chunk));
        Ok(chunk)
    }

    /// Whether the heap has that chunk.
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

    /// The root that [`know`](Session::know) noted for `link`, if it is still noted. It saves work:
    /// what `link` and `root` hold can be something else by now, but they are places for data.
    #[doc(hidden)]
    #[inline]
    pub fn known_root(&self, link: Addr) -> Option<Addr> {
        let (known, root) = self.known.of(link).get();
        (known == link && !link.is_null()).then_some(root)
    }

    /// Notes that the word at `link` leads to `root`, where a sound structure is.
    #[doc(hidden)]
    pub fn know(&self, link: Addr, root: Addr) {
        self.known.of(link).set((link, root));
    }

    /// Panics unless this is the current session of its thread number.
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
        self.seat.as_ref().is_none_or(ThreadSlot::is_held)
    }

    /// Refuses to work in the pool of another process, from which this one was forked: before
    /// anything is waited for, or touched.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<(), AccessError> {
        if self.is_inherited() { Err(AccessError::Inherited) } else { Ok(()) }
    }

    #[inline]
    pub(crate) fn is_inherited(&self) -> bool {
        self.seat.as_ref().is_some_and(ThreadSlot::is_inherited)
    }

    pub(crate) fn set_busy(&self, is_busy: bool) {
        if let Some(seat) = &self.seat {
            seat.set_busy(is_busy);
        }
    }

    /// Sets the route of this thread's log records: fixed, or (the default) the one that is
    /// measured to be cheaper. Discards what was measured so far.
    pub fn set_log_route(&mut self, choice: RouteChoice) {
        self.log.route = Route::new(choice);
        self.undo.route = Route::new(choice);
    }

    /// The routes that this thread's redo records have taken.
    pub fn log_route(&self) -> RouteCounts {
        self.log.route.counts()
    }

    /// What this thread's log has done since the thread joined.
    pub fn log_counts(&self) -> LogCounts {
        self.log.counts
    }

    /// Truncates the logs of all threads. Afterwards all that was committed before the call is
    /// durable in place, and opening is quickest, if no thread has written meanwhile. In the child
    /// of a fork it does nothing.
    ///
    /// # Panics
    /// When another session of this thread number has joined since.
    pub fn retire(&mut self) {
        if self.is_inherited() {
            return;
        }
        self.sit();
        self.in_scope(|session| session.log.truncate_all(session.memory));
        self.release_extensions();
    }

    /// Ends the session and returns its free space to all threads, unless another session of its
    /// number has joined since.
    pub fn leave(mut self) {
        if self.is_seated() && !self.is_inherited() {
            if self.log.is_extended() {
                self.retire();
            }
            self.disown();
        }
    }
}
