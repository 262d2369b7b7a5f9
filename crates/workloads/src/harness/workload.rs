//! The trait of a workload, and the parameters of a run.

use crate::harness::history::{Contents, History, tag};
use crate::harness::ycsb::{Accepts, Op, RequestMix, Requests};
use crate::shared::{Change, Inconsistency};
use crate::{Collect, Cost, Flaw};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use seawall_memory::Memory;
use seawall_runtime::defrag::{DefragCounts, DefragError};
use seawall_runtime::pool::HeaderError;
use seawall_runtime::{AccessError, Arena, Heap, HeapError, TxError};
use std::sync::Arc;

/// The parameters of a run; the same for every machine and every design.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// The number of hardware threads that run operations, 1 to 1024.
    pub threads: usize,
    /// The seed of all random choices of the workload.
    pub seed: u64,
    /// The number of entries of the structure at the start, at least 1.
    pub entries: u64,
    /// The share of operations that only search, in per cent (0 to 100).
    pub search_percent: u32,
    /// Requests instead of the workload's own operations, if it can answer them.
    pub mix: Option<RequestMix>,
    /// Which thread defragments during the run.
    pub collect: Collect,
    /// What transactions cost, of workloads that grow and shrink.
    pub cost: Cost,
    /// A planted bug, to prove that the checkers find it.
    pub flaw: Flaw,
}

/// The greatest number of threads of a pool.
pub(crate) const THREADS_MAX: u64 = 1024;
/// The greatest number of entries: 128 GiB of them.
pub(crate) const ENTRIES_MAX: u64 = 1 << 28;

/// A number of a [`Setup`] or an [`Input`](crate::Input) that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {value}; it must be {low} to {high}")]
pub struct BadSetup {
    what: &'static str,
    value: u64,
    low: u64,
    high: u64,
}

impl BadSetup {
    /// Returns an error for the first of (name, value, low, high) that is out of its range.
    pub(crate) fn find(numbers: &[(&'static str, u64, u64, u64)]) -> Result<(), BadSetup> {
        match numbers.iter().find(|(_, value, low, high)| !(low..=high).contains(&value)) {
            None => Ok(()),
            Some(&(what, value, low, high)) => Err(BadSetup { what, value, low, high }),
        }
    }
}

/// The memory that a workload needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Persistent bytes: the size of the pool.
    pub pm_bytes: u64,
    /// Volatile bytes.
    pub dram_bytes: u64,
}

/// Why a pool cannot be opened or an invariant does not hold; names the object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Damage(pub String);

macro_rules! damage_from {
    ($($Error:ty)+) => {
        $(impl From<$Error> for Damage {
            fn from(error: $Error) -> Damage {
                Damage(error.to_string())
            }
        })+
    };
}
damage_from! { HeaderError HeapError TxError AccessError Inconsistency }

impl From<seawall_collections::Damage> for Damage {
    fn from(damage: seawall_collections::Damage) -> Damage {
        Damage(damage.to_string())
    }
}

impl Layout {
    pub(crate) fn of(arena: &Arena) -> Layout {
        Layout { pm_bytes: arena.pm_bytes(), dram_bytes: arena.dram_bytes() }
    }

    /// Rejects a structure that needs more PM than there is.
    pub(crate) fn hold(self, arena: &Arena) -> Result<(), Damage> {
        let (wanted, actual) = (arena.pm_bytes(), self.pm_bytes);
        if wanted > actual {
            return Err(Inconsistency::Size { wanted, actual }.into());
        }
        self.hold_dram(arena)
    }

    /// Rejects a structure that needs more DRAM than there is.
    pub(crate) fn hold_dram(self, arena: &Arena) -> Result<(), Damage> {
        let (wanted, actual) = (arena.dram_bytes(), self.dram_bytes);
        if wanted > actual {
            return Err(Damage(format!(
                "the pool's structure takes {wanted} bytes of DRAM, there are {actual}; \
                 open it with more"
            )));
        }
        Ok(())
    }
}

/// The state of one thread of a run between operations.
#[derive(Clone)]
pub struct Worker {
    /// Index of the thread, from 0.
    pub thread: usize,
    /// The number of the next operation, from 0; the driver increments it.
    pub number: u64,
    /// The thread's own generator, split from the seed by thread index.
    pub rng: Xoshiro256PlusPlus,
    /// The history in which the operation records its effects, under its lock.
    pub history: Arc<History>,
    /// The planted bug, if any.
    pub flaw: Flaw,
    /// The share of operations that only search, in per cent.
    pub search_percent: u32,
    /// Why the thread cannot continue, on a machine where room can run out; elsewhere it panics.
    pub failure: Option<String>,
    fails: bool,
    /// The number of threads of the run.
    threads: usize,
    mix: Option<RequestMix>,
    /// The requests of the mix, once the number of keys is known.
    requests: Option<Requests>,
}

/// The kind of the next operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Search,
    Insert,
    Delete,
}

impl From<Action> for Op {
    fn from(action: Action) -> Op {
        match action {
            Action::Search => Op::Read,
            Action::Insert => Op::Insert,
            Action::Delete => Op::Delete,
        }
    }
}

impl Worker {
    /// The worker of `thread` at its first operation.
    pub fn new(setup: &Setup, thread: usize, history: Arc<History>) -> Worker {
        Worker {
            thread,
            number: 0,
            rng: stream(setup.seed, thread as u64 + 1),
            history,
            flaw: setup.flaw,
            search_percent: setup.search_percent,
            failure: None,
            fails: false,
            threads: setup.threads,
            mix: setup.mix,
            requests: None,
        }
    }

    /// The same on a machine where room can run out: the driver reads [`failure`](Worker::failure)
    /// after each operation, and ends the run.
    #[must_use]
    pub fn that_may_fail(self) -> Worker {
        Worker { fails: true, ..self }
    }

    /// Records that the operation could not be performed and changed nothing.
    ///
    /// # Panics
    /// On a machine where room cannot run out.
    pub(crate) fn fail(&mut self, why: impl std::fmt::Display) {
        assert!(
            self.fails,
            "a structure that was made or opened, with room for its entries: {why}"
        );
        self.failure = Some(why.to_string());
    }

    /// A number below `n`, with nearly equal probabilities.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        below(&mut self.rng, n)
    }

    /// This thread's number among the threads of the run, and the number of threads.
    pub(crate) fn place(&self) -> (u64, u64) {
        (self.thread as u64, self.threads as u64)
    }

    /// A search with the configured share; of the others half insert and half delete.
    pub(crate) fn action(&mut self) -> Action {
        if self.below(100) < u64::from(self.search_percent) {
            return Action::Search;
        }
        if self.below(2) == 0 { Action::Insert } else { Action::Delete }
    }

    /// The next request for the numbers below `keys`, which all threads share: a request of the
    /// mix, or without a mix an [`action`](Worker::action) with a uniform key.
    pub(crate) fn request(&mut self, keys: u64) -> (Op, u64) {
        match self.request_of_mix(keys, self.place()) {
            Some(request) => request,
            None => (self.action().into(), self.below(keys)),
        }
    }

    /// The next request of the mix, if there is one, for the numbers below `keys`, which several
    /// threads share; `place` is this thread's number and the number of threads.
    pub(crate) fn request_of_mix(&mut self, keys: u64, place: (u64, u64)) -> Option<(Op, u64)> {
        let mix = self.mix?;
        let requests = self.requests.get_or_insert_with(|| Requests::new(mix, keys, place));
        Some(requests.next(&mut self.rng))
    }

    /// The parameters of the next operation, for the structure that it changes.
    pub(crate) fn change(&self) -> Change<impl FnMut(u64, u64) + '_> {
        let note = |key, tag| self.history.effect(self.thread, self.number, key, tag);
        Change { tag: tag(self.thread, self.number), flaw: self.flaw.of_epochs(), note }
    }
}

/// Random generator `index` of a seed: 0 fills the pool, the others belong to the threads.
pub(crate) fn stream(seed: u64, index: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

pub(crate) fn below(rng: &mut Xoshiro256PlusPlus, n: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(n)) >> 64) as u64
}

/// The numbers below `2 * entries` that are keys at the start: `entries` of them, shuffled; or the
/// initial keys of the mix.
pub(crate) fn initial_keys(setup: &Setup) -> Vec<u64> {
    initial_keys_in(setup, 1)
}

/// As [`initial_keys`], for keys that are partitioned between the threads, modulo the number of
/// parts.
pub(crate) fn initial_keys_in(setup: &Setup, parts: u64) -> Vec<u64> {
    if let Some(mix) = setup.mix {
        return mix.initial_keys(setup, parts);
    }
    let mut rng = stream(setup.seed, 0);
    let mut keys: Vec<u64> = (0..2 * setup.entries).collect();
    for place in (1..keys.len()).rev() {
        keys.swap(place, below(&mut rng, place as u64 + 1) as usize);
    }
    keys.truncate(setup.entries as usize);
    keys
}

impl Setup {
    /// Rejects numbers with which no workload can run; [`Workload::layout`] and
    /// [`Workload::create`] rely on it.
    ///
    /// # Errors
    /// The number, and its valid range.
    pub fn check(&self) -> Result<(), BadSetup> {
        let numbers = [
            ("threads", self.threads as u64, 1, THREADS_MAX),
            ("entries", self.entries, 1, ENTRIES_MAX),
            ("search_percent", u64::from(self.search_percent), 0, 100),
        ];
        BadSetup::find(&numbers)
    }

    /// Rejects a setup for which a pool of `W` has no room.
    ///
    /// # Errors
    /// See [`check`](Setup::check).
    pub fn check_for<W: Workload>(&self) -> Result<(), BadSetup> {
        BadSetup::find(&[("entries", self.entries, 1, W::ENTRIES_MAX)])
    }

    /// The identity of its pool: the same for the same parameters.
    pub(crate) fn uuid(&self) -> u128 {
        u128::from(self.seed) << 64 | u128::from(self.entries) << 16 | self.threads as u128
    }

    /// The workload's defaults for `threads` threads: seed 1, no planted bug.
    pub fn of<W: Workload>(threads: usize) -> Setup {
        Setup {
            threads,
            seed: 1,
            entries: W::ENTRIES,
            search_percent: W::SEARCH_PERCENT,
            mix: None,
            collect: Collect::Nobody,
            cost: Cost::Lean,
            flaw: Flaw::None,
        }
    }
}

/// A benchmark program above the seam.
///
/// The value itself is a few addresses and sizes, the same for every thread.
pub trait Workload: Clone + Send + Sync + 'static {
    /// Name on the command line.
    const NAME: &'static str;
    /// One line for `seawall list workloads`.
    const ABOUT: &'static str;
    /// The default number of entries at the start.
    const ENTRIES: u64;
    /// The greatest number of entries for which its pool has room.
    const ENTRIES_MAX: u64 = u64::MAX;
    /// The default share of operations that only search, in per cent.
    const SEARCH_PERCENT: u32;
    /// Whether it lives in a heap, and can have the planted bugs of a heap.
    const IN_HEAP: bool = false;
    /// Whether its objects can be moved ([`Setup::collect`]).
    const MOVES: bool = false;
    /// Whether it has a planted bug of its own.
    const SLIPS: bool = false;
    /// The requests of a mix that it can answer.
    const ACCEPTS: Accepts = Accepts::Own;

    /// The memory needed for `setup`.
    fn layout(setup: &Setup) -> Layout;

    /// The number of steps in the first `phases` phases of a thread, if the workload has phases.
    fn steps(_setup: &Setup, _thread: usize, _phases: u64) -> Option<u64> {
        None
    }

    /// Formats a zeroed pool and fills it, on one thread; durable when it returns.
    fn create<M: Memory>(memory: &M, setup: &Setup) -> Self;

    /// Its heap, if that is a heap of typed objects.
    fn heap(&self) -> Option<Heap> {
        None
    }

    /// Recovers: finishes or undoes what a crash interrupted, then rebuilds the structures in DRAM
    /// (which must be zeroed). It is idempotent.
    ///
    /// # Errors
    /// If the pool belongs to another workload, or is damaged beyond what any crash can
    /// do. Pool bytes are untrusted: it never panics, loops or reads out of range because of them.
    fn open<M: Memory>(memory: &M, layout: Layout) -> Result<Self, Damage>;

    /// As [`open`](Workload::open), with a planted bug if recovery can have it.
    ///
    /// # Errors
    /// See [`open`](Workload::open).
    fn open_flawed<M: Memory>(memory: &M, layout: Layout, _flaw: Flaw) -> Result<Self, Damage> {
        Self::open(memory, layout)
    }

    /// This workload for another run, on a copy of the memory as it is: shares nothing with a run
    /// that there was.
    #[must_use]
    fn again(&self) -> Self {
        self.clone()
    }

    /// The volatile state of a thread between operations.
    type Local<'m, M: Memory + 'm>;

    /// The initial state of the thread of `memory`.
    fn join<'m, M: Memory>(&self, memory: &'m M) -> Self::Local<'m, M>;

    /// Runs operation `worker.number` of thread `worker.thread`. An operation that changed
    /// something ends with an [`order`](seawall_memory::MemoryExt::order); none calls
    /// [`output`](Memory::output).
    fn step<M: Memory>(&self, memory: &M, local: &mut Self::Local<'_, M>, worker: &mut Worker);

    /// Runs `body` beside the thread of [`Collect::Thread`], on the handle that `handle` returns.
    /// When the running cycle has ended, also returns the counts of that thread. Without such a
    /// thread in the setup it only runs `body`.
    ///
    /// # Errors
    /// Why defragmentation stopped. The moves until then remain valid.
    fn beside_collector<M: Memory, T>(
        &self,
        _handle: impl FnOnce() -> M + Send,
        body: impl FnOnce() -> T,
    ) -> (T, Result<DefragCounts, DefragError>) {
        (body(), Ok(DefragCounts::default()))
    }

    /// The counts of all threads' steps so far ([`Collect::Steps`]).
    fn moved<M: Memory>(_local: &Self::Local<'_, M>) -> DefragCounts {
        DefragCounts::default()
    }

    /// Checks every invariant and returns the content of the structure.
    ///
    /// # Errors
    /// The invariant that does not hold.
    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage>;
}
