//! Making, opening and joining a heap: where a pool becomes one that threads work in.

use super::checked_word;
use super::layout::Layout;
use super::session::Session;
use super::{Heap, HeapError, HeapOptions, KIND, KIND_MOVING, KIND_TOGETHER, Recovered, TOGETHER};
use crate::alloc::size_class::CHUNK_BYTES;
#[cfg(feature = "flaws")]
use crate::flaws::HeapFlaw;
use crate::flaws::Planted;
use crate::pool;
use crate::tx::recovery;
use seawall_memory::{Memory, Seats};

impl Heap {
    /// Formats a zeroed pool of [`HeapOptions::pm_bytes`] bytes as an empty heap whose layout is
    /// called `name`. A crash before it returns leaves a pool that [`open`](Heap::open) refuses as
    /// not made, or a whole heap; when it returns it is durable.
    ///
    /// # Errors
    /// When an option is out of range; [`HeapError::Exists`] when the pool has a header, whole or
    /// not: no byte of it has changed then.
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

    /// As [`create`](Heap::create), for a root that leads to types of that shape; `fill` stores
    /// what is to be in the pool from the start.
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
        let kind = match (options.defragment, options.together) {
            (true, _) => KIND_MOVING,
            (false, true) => KIND_TOGETHER,
            (false, false) => KIND,
        };
        let flags = if options.defragment && options.together { TOGETHER } else { 0 };
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
        let together = options.together;
        let flaw = Planted::default();
        let heap = Heap { layout, flaw, uuid, together, reached_shape, memory: None };
        let heap = heap.on(memory);
        heap.start(memory, 0);
        Ok(heap)
    }

    /// Opens the heap called `name` in a pool of `bytes` bytes, and finishes or undoes what a crash
    /// cut short. DRAM must be zeroed; one thread runs. Takes time for what was in flight, not for
    /// what the pool holds. A crash before it returns changes nothing that a second call does not
    /// finish.
    ///
    /// # Errors
    /// When it is no heap of that name, or is damaged beyond what a crash does. Bytes of a pool are
    /// untrusted: no other thing happens because of them. [`HeapError::Open`] when it is open on
    /// this memory.
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
        let (retired, recovered) = recovery::recover(memory, &heap, bytes)?;
        heap.start(memory, retired);
        Ok((heap, recovered))
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

    /// The handle of the calling thread (its number is that of `memory`), which is the only one of
    /// that number: an earlier one of the same thread of the system panics when it is used again.
    ///
    /// # Panics
    /// When the heap was made for fewer threads, `memory` is not that on which it was opened, a
    /// session of that number is another thread's, or one is in a transaction.
    pub fn join<'m, M: Memory>(&self, memory: &'m M) -> Session<'m, M> {
        Session::new(memory, *self)
    }

    fn on<M: Memory>(self, memory: &M) -> Heap {
        Heap { memory: memory.seats().map(Seats::memory), ..self }
    }

    fn start<M: Memory>(&self, memory: &M, retired: u64) {
        memory.store(self.layout.retired_now, retired);
        memory.store(self.layout.generation, retired + 1);
        memory.store(self.layout.stamps, 1u64);
    }
}
