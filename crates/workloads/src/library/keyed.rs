//! The common part of workloads of keyed structures that live in a heap: programs of a user who
//! links seawall's runtime, whereas the other workloads are those of papers. Keys are uniform in
//! twice the entries, so that the population is stable.
//!
//! Each change holds the lock of a stripe of keys, only so that the history receives the changes of
//! one key in order; the structures themselves need no lock.

use crate::harness::history::{Contents, initial_tag, tag};
use crate::harness::workload::initial_keys;
use crate::harness::ycsb::{Accepts, Op};
use crate::{Damage, Flaw, Layout, Setup, Worker, Workload};
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_runtime::{Arena, CHUNK_BYTES, Heap, HeapOptions, Locks, Session};
use std::marker::PhantomData;

const STRIPES: u64 = 64;
/// In the root object: the structure's anchor, and the number of keys.
const ROOT_BYTES: u64 = 24;
const KEYS: u64 = 16;

/// A structure on a heap that maps keys to the tags of operations: a handle of one thread.
pub trait KeyedStructure: Sized + 'static {
    /// Name of the workload.
    const NAME: &'static str;
    /// One line for the list of workloads.
    const ABOUT: &'static str;
    /// Bytes of half a log.
    const LOG_BYTES: u64;
    /// The heap bytes of an entry, including fragmentation.
    const ENTRY_BYTES: u64 = 256;
    /// The chunks of each thread, beyond those of the entries.
    const CHUNKS_A_THREAD: u64;
    /// The bytes of DRAM that all its threads share.
    const DRAM_BYTES: u64;
    /// Whether inserting an existing key replaces its tag.
    const REPLACES: bool;

    /// Creates a structure for this number of entries at the anchor `link`, of two words.
    ///
    /// # Errors
    /// If the heap has no room.
    fn create<M: Memory>(
        session: &mut Session<'_, M>,
        link: Addr,
        dram: Addr,
        entries: u64,
    ) -> Result<Self, Damage>;

    /// Opens the structure at the anchor `link`.
    ///
    /// # Errors
    /// If there is none.
    fn open<M: Memory>(
        session: &mut Session<'_, M>,
        link: Addr,
        dram: Addr,
    ) -> Result<Self, Damage>;

    /// The tag of a key.
    ///
    /// # Errors
    /// If the structure is damaged.
    fn get<M: Memory>(&self, session: &mut Session<'_, M>, key: u64)
    -> Result<Option<u64>, Damage>;

    /// Sets the tag of a key.
    ///
    /// # Errors
    /// If the heap is full, or the structure is damaged.
    fn insert<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
        tag: u64,
    ) -> Result<(), Damage>;

    /// Removes a key.
    ///
    /// # Errors
    /// If the structure is damaged.
    fn remove<M: Memory>(&self, session: &mut Session<'_, M>, key: u64) -> Result<(), Damage>;

    /// Checks all invariants, and calls `each` with keys and tags.
    ///
    /// # Errors
    /// The invariant that does not hold.
    fn check<M: Memory>(
        &self,
        memory: &M,
        heap: &Heap,
        each: impl FnMut(u64, u64),
    ) -> Result<(), Damage>;
}

/// The benchmark of a structure.
pub struct Keyed<S> {
    heap: Heap,
    dram: Addr,
    stripes: Locks,
    keys: u64,
    structure: PhantomData<fn() -> S>,
}

impl<S> Clone for Keyed<S> {
    fn clone(&self) -> Keyed<S> {
        *self
    }
}

impl<S> Copy for Keyed<S> {}

/// The state of a thread: its session of the heap, and its handle of the structure.
pub struct Joined<'m, M: Memory, S> {
    session: Session<'m, M>,
    structure: S,
}

fn options<S: KeyedStructure>(setup: &Setup) -> HeapOptions {
    let chunks = (setup.entries * S::ENTRY_BYTES).div_ceil(CHUNK_BYTES)
        + S::CHUNKS_A_THREAD * setup.threads as u64
        + 8;
    HeapOptions {
        bytes: chunks * CHUNK_BYTES,
        bytes_max: chunks * CHUNK_BYTES,
        threads: setup.threads as u64,
        log_bytes: S::LOG_BYTES,
        root_bytes: ROOT_BYTES,
        ..HeapOptions::default()
    }
}

/// Places the data of the benchmark behind the DRAM of the heap.
fn place<S: KeyedStructure>(heap_dram: u64, threads: u64) -> (Arena, Addr, Locks) {
    let mut arena = Arena::new();
    arena.dram(heap_dram);
    let dram = arena.dram(S::DRAM_BYTES);
    let stripes = Locks::place(&mut arena, STRIPES, threads, 1);
    (arena, dram, stripes)
}

impl<S: KeyedStructure> Keyed<S> {
    fn at(heap: Heap, keys: u64) -> Keyed<S> {
        let (_, dram, stripes) = place::<S>(heap.dram_bytes(), heap.threads());
        Keyed { heap, dram, stripes, keys, structure: PhantomData }
    }

    fn joined<'m, M: Memory>(&self, memory: &'m M) -> Result<Joined<'m, M, S>, Damage> {
        let mut session = self.heap.join(memory);
        let structure = S::open(&mut session, self.heap.root(), self.dram)?;
        Ok(Joined { session, structure })
    }
}

impl<S: KeyedStructure> Workload for Keyed<S> {
    const NAME: &'static str = S::NAME;
    const ABOUT: &'static str = S::ABOUT;
    const ENTRIES: u64 = 4096;
    const SEARCH_PERCENT: u32 = 33;
    const IN_HEAP: bool = true;
    const ACCEPTS: Accepts = if S::REPLACES { Accepts::Keys } else { Accepts::Own };

    fn layout(setup: &Setup) -> Layout {
        let options = options::<S>(setup);
        let (arena, ..) = place::<S>(options.dram_bytes(), options.threads);
        Layout { pm_bytes: options.pm_bytes(), dram_bytes: arena.dram_bytes() }
    }

    fn create<M: Memory>(memory: &M, setup: &Setup) -> Keyed<S> {
        let heap = Heap::create(memory, S::NAME, setup.uuid(), &options::<S>(setup));
        let heap = heap.expect("options made from a setup that was checked");
        let this = Keyed::<S>::at(heap, 2 * setup.entries);
        let mut session = heap.join(memory);
        let root = heap.root();
        let structure = S::create(&mut session, root, this.dram, setup.entries);
        let structure = structure.expect("room for an empty structure");
        for (number, key) in (0..).zip(initial_keys(setup)) {
            let inserted = structure.insert(&mut session, key, initial_tag(number));
            inserted.expect("room for the initial entries");
        }
        let noted = session.transaction(|tx| tx.store(root.plus(KEYS), this.keys));
        noted.expect("a word of the root");
        session.retire();
        session.leave();
        Keyed { heap: heap.with_flaw(setup.flaw.of_heap()), ..this }
    }

    fn open<M: Memory>(memory: &M, layout: Layout) -> Result<Keyed<S>, Damage> {
        Keyed::open_flawed(memory, layout, Flaw::None)
    }

    fn open_flawed<M: Memory>(memory: &M, layout: Layout, flaw: Flaw) -> Result<Keyed<S>, Damage> {
        let heap = Heap::read(memory, S::NAME, layout.pm_bytes)?;
        let (arena, ..) = place::<S>(heap.dram_bytes(), heap.threads());
        layout.hold_dram(&arena)?;
        let (heap, _) = Heap::open_flawed(memory, S::NAME, layout.pm_bytes, flaw.of_heap())?;
        if heap.root_bytes() != ROOT_BYTES {
            return Err(Damage(format!("the root of the heap is not that of a {}", S::NAME)));
        }
        let keys = memory.load(heap.root().plus(KEYS));
        let this = Keyed::<S>::at(heap, keys);
        this.joined(memory)?;
        Ok(this)
    }

    type Local<'m, M: Memory + 'm> = Joined<'m, M, S>;

    fn join<'m, M: Memory>(&self, memory: &'m M) -> Joined<'m, M, S> {
        self.joined(memory).expect("a structure that was made or opened")
    }

    fn step<M: Memory>(&self, memory: &M, local: &mut Joined<'_, M, S>, worker: &mut Worker) {
        let Joined { session, structure } = local;
        let (op, key) = worker.request(self.keys);
        let sound = "a structure that was made or opened, with room for its keys";
        memory.work(20);
        if matches!(op, Op::Read | Op::ReadModifyWrite) {
            structure.get(session, key).expect(sound);
        }
        if op == Op::Read {
            return;
        }
        let guard = self.stripes.acquire(memory, key % STRIPES, 0);
        let there = structure.get(session, key).expect(sound).is_some();
        let effect = |tag| worker.history.effect(worker.thread, worker.number, key, tag);
        let is_put = match op {
            Op::Insert => S::REPLACES || !there,
            Op::Put => true,
            Op::Update | Op::ReadModifyWrite => there,
            Op::Read | Op::Delete | Op::Scan(_) => false,
        };
        if is_put {
            let tag = tag(worker.thread, worker.number);
            effect(tag);
            structure.insert(session, key, tag).expect(sound);
        } else if op == Op::Delete && there {
            effect(0);
            structure.remove(session, key).expect(sound);
        }
        self.stripes.release(memory, guard);
    }

    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage> {
        let mut contents = Contents::new();
        let joined = self.joined(memory)?;
        joined.structure.check(memory, &self.heap, |key, tag| {
            contents.insert(key, tag);
        })?;
        Ok(contents)
    }
}
