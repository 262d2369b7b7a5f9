//! Creating, opening and joining a heap.

use super::checked_word;
use super::holes::Holed;
use super::layout::Layout;
use super::session::Session;
use super::{
    Heap, HeapError, HeapOptions, KIND, KIND_IN_PLACE, KIND_MOVING, KIND_TOGETHER, Recovered,
    TOGETHER,
};
use crate::alloc::size_class::CHUNK_BYTES;
#[cfg(feature = "flaws")]
use crate::flaws::HeapFlaw;
use crate::flaws::Planted;
use crate::pool;
use crate::tx::recovery;
use seawall_memory::{Memory, MemoryExt, ThreadSlots};

impl Heap {
    /// Formats a zeroed pool of [`HeapOptions::pm_bytes`] bytes as an empty heap whose layout is
    /// called `name`. A crash before the return leaves a pool that [`open`](Heap::open) refuses as
    /// not made, or a whole heap; at the return the heap is durable.
    ///
    /// # Errors
    /// When an option is out of range; [`HeapError::Exists`] when the pool has a header, whole or
    /// not. Then no byte of the pool has changed.
    ///
    /// # Panics
    /// When the name is empty or longer than 16 bytes.
    pub fn create<M: Memory>(
        memory: &M,
        name: &str,
        uuid: u128,
        options: &HeapOptions,
    ) -> Result<Heap, HeapError> {
        Heap::create_for(memory, (name, uuid), options, 0, |_| {})
    }

    /// As [`create`](Heap::create), for a root that leads to types with the hash `reached_shape`;
    /// `fill` stores the initial content of the pool.
    pub(crate) fn create_for<M: Memory>(
        memory: &M,
        (name, uuid): (&str, u128),
        options: &HeapOptions,
        reached_shape: u64,
        fill: impl FnOnce(&Layout),
    ) -> Result<Heap, HeapError> {
        options.check()?;
        let layout = Layout::of(options.checked_numbers());
        if !pool::is_blank(memory) || memory.load::<u64>(layout.retired) != 0 {
            return Err(HeapError::Exists);
        }
        let chunks = options.bytes.div_ceil(CHUNK_BYTES);
        memory.store(layout.chunks, checked_word::encode(layout.chunks, chunks));
        memory.flush(layout.chunks, 8);
        fill(&layout);
        let numbers = layout.numbers;
        let kind = match options {
            HeapOptions { defragment: true, .. } => KIND_MOVING,
            HeapOptions { in_place: true, .. } => KIND_IN_PLACE,
            HeapOptions { together: true, .. } => KIND_TOGETHER,
            _ => KIND,
        };
        let has_flags = options.defragment || options.in_place;
        let flags = if has_flags && options.together { TOGETHER } else { 0 };
        let roots = [
            kind,
            numbers.threads,
            numbers.log_bytes,
            numbers.chunks_max,
            numbers.root_shape,
            numbers.root_bytes,
            flags,
            reached_shape,
        ];
        pool::create(memory, name, uuid, layout.pm_bytes(chunks), &roots);
        let flags = (options.together, options.in_place);
        let heap = Heap::of(layout, uuid, flags, reached_shape).on(memory);
        heap.start(memory, 0);
        Ok(heap)
    }

    /// Opens the heap called `name` in a pool of `bytes` bytes, and finishes or undoes what a crash
    /// interrupted. DRAM must be zeroed, and no other thread may run. The time grows with what was
    /// in flight, not with what the pool holds. After a crash before the return, a second call
    /// completes the recovery.
    ///
    /// # Errors
    /// When the pool is no heap of that name, or is damaged in a way that no crash causes. Bytes of
    /// a pool are untrusted: they can cause errors and nothing else. [`HeapError::Open`] when the
    /// heap is open on this memory. [`HeapError::NoRoom`] when the file is a sparse copy, whose
    /// disk has no room for what is in use.
    pub fn open<M: Memory>(
        memory: &M,
        name: &str,
        bytes: u64,
    ) -> Result<(Heap, Recovered), HeapError> {
        Heap::open_planted(memory, name, bytes, Planted::default())
    }

    /// As [`open`](Heap::open), with a planted bug if there is one.
    pub(crate) fn open_planted<M: Memory>(
        memory: &M,
        name: &str,
        bytes: u64,
        flaw: Planted,
    ) -> Result<(Heap, Recovered), HeapError> {
        let heap = Heap { flaw, ..Heap::described(memory, name, bytes)?.on(memory) };
        if memory.load::<u64>(heap.layout.generation) != 0 {
            return Err(HeapError::Open);
        }
        let holed = Holed::of(memory, &heap)?;
        let recovered = recovery::recover(&holed, &heap, bytes);
        // First: what there was no room for reads as zero.
        holed.check_room()?;
        let (retired, recovered) = recovered?;
        holed.settle(&heap)?;
        heap.start(memory, retired);
        Ok((heap, recovered))
    }

    /// The heap for sessions whose commits flush data early, under fences that they have or for
    /// one more, and not all of it when a log is full: the lines of the previous generation of the
    /// logs, in steps, and long ranges that an undo transaction has changed, of which
    /// the new values are then not logged. No transaction flushes what a whole log has changed.
    ///
    /// It says nothing of the pool: sessions with and without it work in one. A program that is to
    /// run on simulated hardware as it did before leaves it out, and so does one whose fences are
    /// `msync`.
    #[must_use]
    pub fn flushing_early(self) -> Heap {
        Heap { is_early: true, ..self }
    }

    /// The heap with a planted bug.
    #[cfg(feature = "flaws")]
    #[must_use]
    pub fn with_flaw(self, flaw: HeapFlaw) -> Heap {
        Heap { flaw: flaw.into(), ..self }
    }

    /// As [`open`](Heap::open), with a planted bug.
    ///
    /// # Errors
    /// As [`open`](Heap::open).
    #[cfg(feature = "flaws")]
    pub fn open_flawed<M: Memory>(
        memory: &M,
        name: &str,
        bytes: u64,
        flaw: HeapFlaw,
    ) -> Result<(Heap, Recovered), HeapError> {
        Heap::open_planted(memory, name, bytes, flaw.into())
    }

    /// Returns the session of the calling thread, whose number is that of `memory`. There is one
    /// session for each number: an earlier one of the same OS thread panics when it is used again.
    ///
    /// # Panics
    /// When the heap was made for fewer threads, `memory` is not the one that the heap was opened
    /// on, or a session of that number belongs to another OS thread or is in a transaction.
    pub fn join<'m, M: Memory>(&self, memory: &'m M) -> Session<'m, M> {
        Session::new(memory, *self)
    }

    /// Notes that a thread has joined, before it writes anything.
    pub(crate) fn note_joined<M: Memory>(&self, memory: &M, thread: u64) {
        if !self.in_place {
            return;
        }
        let mut joined: u64 = memory.load(self.layout.joined);
        while joined <= thread {
            match memory.compare_exchange(self.layout.joined, joined, thread + 1) {
                Ok(_) => return,
                Err(now) => joined = now,
            }
        }
    }

    fn on<M: Memory>(self, memory: &M) -> Heap {
        Heap { memory: memory.slots().map(ThreadSlots::memory), ..self }
    }

    fn start<M: Memory>(&self, memory: &M, retired: u64) {
        memory.store(self.layout.retired_now, retired);
        memory.store(self.layout.generation, retired + 1);
        memory.store(self.layout.stamps, 1u64);
    }
}
