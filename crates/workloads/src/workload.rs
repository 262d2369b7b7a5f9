//! What a workload is, and what a run of one is told.

use crate::history::{Contents, History};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_memory::Memory;
use std::sync::Arc;

/// What a run is told; the same for every machine and every design.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Hardware threads that will run operations, at least 1.
    pub threads: usize,
    /// Seed of everything random in the workload.
    pub seed: u64,
    /// Entries that the structure has at the start.
    pub entries: u64,
    /// Share of operations that only search, in per cent (0 to 100).
    pub search_percent: u32,
    /// A deliberate mistake, to prove that the checkers find it.
    pub flaw: Flaw,
}

/// A deliberate mistake in how a structure orders its stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Flaw {
    /// None: the program as it should be.
    #[default]
    None,
    /// Leaves out the order between the step that makes an update recoverable (its log, or the
    /// copied entry) and the step that makes it visible.
    NoOrder,
    /// Leaves out the flush of that first step. Only x86-like machines can tell.
    NoFlush,
}

/// Memory that a workload needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Persistent bytes: the size of the pool.
    pub pm_bytes: u64,
    /// Volatile bytes.
    pub dram_bytes: u64,
}

/// Why a pool cannot be opened or an invariant does not hold; names the thing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Damage(pub String);

/// What one thread of a run carries from operation to operation.
#[derive(Clone)]
pub struct Worker {
    /// Index of the thread, from 0.
    pub thread: usize,
    /// Number of the operation about to run, from 0; the driver counts it up.
    pub number: u64,
    /// The thread's own generator, split from the seed by thread index.
    pub rng: Xoshiro256PlusPlus,
    /// Where the operation says what it did, under its lock.
    pub history: Arc<History>,
    /// The mistake to make, if any.
    pub flaw: Flaw,
}

/// A benchmark program above the seam.
///
/// The value itself is only a handful of addresses and sizes, the same for every thread.
pub trait Workload: Clone + Send + Sync + 'static {
    /// Name on the command line.
    const NAME: &'static str;
    /// One line for `seawall list workloads`.
    const ABOUT: &'static str;
    /// Entries at the start, unless told otherwise.
    const ENTRIES: u64;
    /// Per cent of operations that only search, unless told otherwise.
    const SEARCH_PERCENT: u32;

    /// Memory needed for `setup`.
    fn layout(setup: &Setup) -> Layout;

    /// Formats a zeroed pool and fills it, on one thread; durable when it returns.
    fn create<M: Memory>(memory: &M, setup: &Setup) -> Self;

    /// Recovers: finishes or undoes what a crash cut short, then rebuilds what lives in DRAM
    /// (which must be zeroed). Running it twice is the same as once.
    ///
    /// # Errors
    /// When the pool is not this workload's, or is damaged beyond what any crash could do. Pool
    /// bytes are untrusted: it never panics, loops or reads out of range because of them.
    fn open<M: Memory>(memory: &M, layout: Layout) -> Result<Self, Damage>;

    /// Runs operation `worker.number` of thread `worker.thread`, ending with an
    /// [`order`](Memory::order); does not call [`output`](Memory::output).
    fn step<M: Memory>(&self, memory: &M, worker: &mut Worker);

    /// Checks every invariant and gives what the structure holds.
    ///
    /// # Errors
    /// The invariant that does not hold.
    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage>;
}
