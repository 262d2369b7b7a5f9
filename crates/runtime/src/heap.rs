//! A heap in a pool: allocation, transactions, and recovery after a crash.
//!
//! [`Heap::create`] formats a pool, [`Heap::open`] opens one and recovers it; a thread then
//! [joins](Heap::join) with its own handle on memory and works through its [`Session`]. A `Heap` is
//! a few numbers, the same for all threads. Persistent state is in the pool, volatile state that
//! threads share is in the DRAM of the seam, so a heap runs on every machine.
//!
//! ```
//! use seawall_memory::Image;
//! use seawall_runtime::{Heap, HeapError, HeapOptions, TxError};
//!
//! let options = HeapOptions { threads: 1, ..HeapOptions::default() };
//! let memory = Image::new(options.pm_bytes(), options.dram_bytes());
//! let heap = Heap::create(&memory, "counter", 42, &options)?;
//! let mut session = heap.join(&memory);
//! let at = session.transaction(|tx| {
//!     let at = tx.alloc(16)?;
//!     tx.store(at, 7u64)?;
//!     tx.store(heap.root(), at)?; // a crash keeps object and link, or neither
//!     Ok::<_, TxError>(at)
//! })?; // durable here
//! assert_eq!(session.load::<u64>(at), 7);
//! # Ok::<(), HeapError>(())
//! ```

pub(crate) mod checked_word;
mod error;
pub(crate) mod extent;
#[cfg(test)]
mod format;
pub(crate) mod holes;
mod info;
pub(crate) mod layout;
mod open;
pub(crate) mod session;
pub(crate) mod type_table;
pub(crate) mod walk;

pub use error::{AccessError, HeapError, TxError};
pub use info::HeapInfo;

use crate::Stripes;
use crate::alloc::size_class::CHUNK_BYTES;
use crate::flaws::Planted;
use crate::pool::{self, HeaderError};
use layout::{
    CHUNKS_MAX, LOG_BYTES_MAX, LOG_BYTES_MIN, Layout, Numbers, ROOT_BYTES_MAX, THREADS_MAX,
};
use seawall_memory::{Addr, LINE_BYTES, Memory, ThreadSlots};

/// The kind of pool, in the first root word of its header.
const KIND: u64 = u64::from_le_bytes(*b"heap  v1");
/// The kind of pools that may have shelves, which earlier programs do not know.
const KIND_TOGETHER: u64 = u64::from_le_bytes(*b"heap  v2");

/// The kind of pools whose objects may move; the word behind the layout's numbers has flags.
const KIND_MOVING: u64 = u64::from_le_bytes(*b"heap  v3");
/// The kind of pools whose programs may store in place, with flags, too.
const KIND_IN_PLACE: u64 = u64::from_le_bytes(*b"heap  v4");
/// Flag in that word: the pool may have shelves.
const TOGETHER: u64 = 1;

/// Options of a new heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapOptions {
    /// Initial bytes for objects, rounded up to chunks of 64 KiB.
    pub bytes: u64,
    /// Maximum bytes for objects. One chunk of 64 is left for logs, so that a full pool has room
    /// for a transaction that frees many.
    pub bytes_max: u64,
    /// Threads that can use the heap at once, 1 to 1024; each takes three times `log_bytes`.
    pub threads: u64,
    /// Bytes of each half of a thread's log, 4 KiB to 1 GiB, rounded up to lines. A transaction
    /// that writes more takes chunks for its log, and returns them.
    pub log_bytes: u64,
    /// Bytes of the root object, zeroed at creation; up to 1 MiB.
    pub root_bytes: u64,
    /// A number for the type of the root object; [`Heap::root_shape`] returns it.
    pub root_shape: u64,
    /// Whether objects can be placed on shared lines ([`Tx::alloc_together`](crate::Tx)). Programs
    /// older than that option refuse such a pool. Without it, objects are placed one by one.
    pub together: bool,
    /// Whether objects of typed pools can be moved ([`defrag`](crate::defrag)). Programs older than
    /// that option refuse such a pool. Each scope, and each transaction outside of one, costs one
    /// more locked operation. Such a pool grows before it searches for empty chunks of one size to
    /// use for another: cycles of defragmentation return those.
    pub defragment: bool,
    /// Whether the program also stores to objects and the root outside of transactions, with plain
    /// stores that it flushes itself. In such a pool a committed value is never stored again after
    /// a crash; elsewhere it can be, hundreds of transactions later, so that bytes which
    /// transactions write must be written by transactions only. A transaction that stores something
    /// costs two more fences (undo: one). Not together with `defragment`.
    pub in_place: bool,
}

impl Default for HeapOptions {
    fn default() -> HeapOptions {
        HeapOptions {
            bytes: 1 << 20,
            bytes_max: 1 << 20,
            threads: 8,
            log_bytes: 64 << 10,
            root_bytes: 64,
            root_shape: 0,
            together: false,
            defragment: false,
            in_place: false,
        }
    }
}

impl HeapOptions {
    /// Initial bytes of the pool.
    ///
    /// # Panics
    /// When [`check`](HeapOptions::check) refuses the options.
    pub fn pm_bytes(&self) -> u64 {
        let layout = Layout::of(self.checked_numbers());
        layout.pm_bytes(self.bytes.div_ceil(CHUNK_BYTES).max(1))
    }

    /// Maximum bytes of the pool.
    ///
    /// # Panics
    /// When [`check`](HeapOptions::check) refuses the options.
    pub fn pm_bytes_max(&self) -> u64 {
        let numbers = self.checked_numbers();
        Layout::of(numbers).pm_bytes(numbers.chunks_max)
    }

    /// Bytes of volatile memory that the heap needs.
    ///
    /// # Panics
    /// When [`check`](HeapOptions::check) refuses the options.
    pub fn dram_bytes(&self) -> u64 {
        Layout::of(self.checked_numbers()).dram_bytes
    }

    /// Refuses options out of range.
    ///
    /// # Errors
    /// [`HeapError::Option`], which names the option.
    pub fn check(&self) -> Result<(), HeapError> {
        let most = CHUNKS_MAX * CHUNK_BYTES;
        let options = [
            ("bytes", self.bytes, 1, most),
            ("bytes_max", self.bytes_max, self.bytes, most),
            ("threads", self.threads, 1, THREADS_MAX),
            ("log_bytes", self.log_bytes, LOG_BYTES_MIN, LOG_BYTES_MAX),
            ("root_bytes", self.root_bytes, 0, ROOT_BYTES_MAX),
        ];
        if self.defragment && self.in_place {
            return Err(HeapError::Exclusive);
        }
        match options.into_iter().find(|(_, value, low, high)| !(low..=high).contains(&value)) {
            None => Ok(()),
            Some((what, value, low, high)) => Err(HeapError::Option { what, value, low, high }),
        }
    }

    fn checked_numbers(&self) -> Numbers {
        if let Err(error) = self.check() {
            panic!("{error}");
        }
        Numbers {
            threads: self.threads,
            log_bytes: self.log_bytes.next_multiple_of(LINE_BYTES),
            chunks_max: self.bytes_max.div_ceil(CHUNK_BYTES),
            root_shape: self.root_shape,
            root_bytes: self.root_bytes,
            moves: self.defragment,
        }
    }
}

/// What recovery did when a heap was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Recovered {
    /// Committed transactions whose log records were replayed.
    pub replayed: u64,
    /// Undo transactions that were rolled back.
    pub rolled_back: u64,
    /// Objects that a cycle of defragmentation was moving, or had planned to move.
    pub moved: u64,
}

/// An open heap: where everything in its pool is. The same value for all threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heap {
    pub(crate) layout: Layout,
    pub(crate) flaw: Planted,
    pub(crate) uuid: u128,
    /// Whether shelves can be made.
    pub(crate) together: bool,
    /// Whether programs store in place, too.
    pub(crate) in_place: bool,
    /// Whether commits flush data that otherwise waits for the truncation of the logs.
    pub(crate) is_early: bool,
    /// A hash of the types that the root leads to; 0 if the pool has none.
    pub(crate) reached_shape: u64,
    /// The memory that the heap was opened on, if that has thread slots.
    memory: Option<u64>,
}

impl Heap {
    pub(super) fn of(
        layout: Layout,
        uuid: u128,
        (together, in_place): (bool, bool),
        reached_shape: u64,
    ) -> Heap {
        let (flaw, is_early) = (Planted::default(), false);
        Heap { layout, flaw, uuid, together, in_place, is_early, reached_shape, memory: None }
    }

    pub(super) fn described<M: Memory>(
        memory: &M,
        name: &str,
        bytes: u64,
    ) -> Result<Heap, HeapError> {
        let header = pool::read(memory, bytes)?;
        if header.name != name {
            return Err(HeaderError::Name { found: header.name, wanted: name.to_owned() }.into());
        }
        let [
            kind,
            threads,
            log_bytes,
            chunks_max,
            root_shape,
            root_bytes,
            flags,
            reached_shape,
            ..,
        ] = header.roots;
        let moves = kind == KIND_MOVING;
        let numbers = Numbers { threads, log_bytes, chunks_max, root_shape, root_bytes, moves };
        let in_place = kind == KIND_IN_PLACE;
        let has_flags = moves || in_place;
        let is_known = !has_flags || flags & !TOGETHER == 0;
        if !Heap::is_described_by(&header) || !is_known || !numbers.are_sound() {
            return Err(AccessError::damaged("its header describes no heap").into());
        }
        let layout = Layout::of(numbers);
        let together = kind == KIND_TOGETHER || has_flags && flags & TOGETHER != 0;
        let heap = Heap::of(layout, header.uuid, (together, in_place), reached_shape);
        if layout.pm_bytes(0) > bytes {
            let header = layout.pm_bytes(0);
            return Err(HeaderError::Truncated { header, actual: bytes }.into());
        }
        let needed = layout.pm_bytes(heap.chunks(memory)?);
        if needed > bytes {
            return Err(HeaderError::Truncated { header: needed, actual: bytes }.into());
        }
        Ok(heap)
    }

    /// Returns how many bytes of a pool of `bytes` bytes are in use, by its first 4 KiB: those that
    /// it was made with; of a heap, those of its chunks. The file can be longer.
    ///
    /// # Errors
    /// As [`read`](Heap::read), except that any name will do.
    pub fn bytes_used<M: Memory>(memory: &M, bytes: u64) -> Result<u64, HeapError> {
        let header = pool::read(memory, bytes)?;
        if !Heap::is_described_by(&header) {
            return Ok(header.bytes);
        }
        let heap = Heap::described(memory, &header.name, bytes)?;
        Ok(heap.layout.pm_bytes(heap.chunks(memory)?).max(header.bytes))
    }

    /// Whether the header is that of a heap, not of another kind of pool.
    pub fn is_described_by(header: &pool::Header) -> bool {
        [KIND, KIND_TOGETHER, KIND_MOVING, KIND_IN_PLACE].contains(&header.roots[0])
    }

    /// Whether objects can be moved ([`HeapOptions::defragment`]).
    pub fn moves(&self) -> bool {
        self.layout.numbers.moves
    }

    /// Whether programs may also store in place, outside of transactions
    /// ([`HeapOptions::in_place`]).
    pub fn stores_in_place(&self) -> bool {
        self.in_place
    }

    /// Panics if `memory` is known not to be the one that the heap was opened on.
    pub(crate) fn assert_on<M: Memory>(&self, memory: &M) {
        let here = memory.slots().map(ThreadSlots::memory);
        let is_other = self.memory.zip(here).is_some_and(|(there, here)| there != here);
        let is_same = !is_other && pool::uuid(memory) == self.uuid;
        assert!(is_same, "the memory is that of another pool");
    }

    pub(crate) fn chunks<M: Memory>(&self, memory: &M) -> Result<u64, AccessError> {
        let chunks = crate::heap::checked_word::load(memory, self.layout.chunks)
            .map_err(|_| AccessError::damaged("the number of its chunks does not add up"))?;
        if chunks == 0 || chunks > self.layout.numbers.chunks_max {
            return Err(AccessError::damaged(format!("it says that it has {chunks} chunks")));
        }
        Ok(chunks)
    }

    /// The address of the root object, from which every reachable object is reached.
    pub const fn root(&self) -> Addr {
        self.layout.root
    }

    /// The address of the first chunk. Chunks hold the objects and their states, and reach to the
    /// end of the pool.
    pub const fn data(&self) -> Addr {
        self.layout.data
    }

    /// Bytes of the root object.
    pub const fn root_bytes(&self) -> u64 {
        self.layout.numbers.root_bytes
    }

    /// The number for the type of the root object that was given at creation.
    pub const fn root_shape(&self) -> u64 {
        self.layout.numbers.root_shape
    }

    /// A hash of all types that the root leads to; 0 if the pool has none, because it has no typed
    /// objects or was made by an earlier program.
    pub const fn reached_shape(&self) -> u64 {
        self.reached_shape
    }

    /// The number that identifies this pool.
    pub const fn uuid(&self) -> u128 {
        self.uuid
    }

    /// Locks for structures in the heap, free after every crash.
    pub const fn stripes(&self) -> Stripes {
        self.layout.stripes
    }

    /// The number of threads that can use the heap at once.
    pub const fn threads(&self) -> u64 {
        self.layout.numbers.threads
    }

    /// Bytes of each half of a thread's log.
    pub const fn log_bytes(&self) -> u64 {
        self.layout.numbers.log_bytes
    }

    /// Bytes of volatile memory that the heap needs when it is opened.
    pub const fn dram_bytes(&self) -> u64 {
        self.layout.dram_bytes
    }

    /// Maximum bytes of the pool.
    pub fn pm_bytes_max(&self) -> u64 {
        self.layout.pm_bytes(self.layout.numbers.chunks_max)
    }
}
