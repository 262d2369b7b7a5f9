//! Ribbon as one option of a pool: the flushers start with it, and end when it is dropped.
//!
//! ```
//! use seawall_memory::{Addr, Memory, MemoryExt};
//! use seawall_native::{Pool, PoolOptions};
//! use seawall_ribbon::Ribbon;
//!
//! let pool = Pool::temporary(1 << 20, &PoolOptions::default())?.flush(Ribbon::auto())?;
//! std::thread::scope(|scope| {
//!     for thread in 0..2 {
//!         let pool = &pool;
//!         scope.spawn(move || {
//!             let memory = pool.memory(thread as usize);
//!             for line in 0..1000 {
//!                 let at = Addr::pm(4096 + thread * 64_000 + 64 * line);
//!                 memory.store(at, line);
//!                 memory.flush(at, 8);
//!             }
//!             memory.drain(); // all of it is durable, whoever flushed it
//!         });
//!     }
//! });
//! let counters = pool.counters();
//! assert_eq!(counters.lines, 2000);
//! println!("{} in queues, {} flushers, {:.0} lines/s, {} skipped", counters.depth,
//!     counters.flushers, counters.lines_per_second(), counters.skipped);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where no line is flushed in the first place (caches that persist, `msync` by page) there is
//! nothing to leave to anybody: no flusher starts, handles do what those below do, and
//! [`RibbonPool::off`] says why. Nothing is cleaned early then.
//!
//! `Ribbon::auto().early(EarlySource::Auto)` has lines cleaned before their flush is asked for.
//! Unless the source is the hook, one more thread does that, the cleaner.
//!
//! The child of a fork has none of the flushers, and the pool below can be its parent's
//! (`ThreadSlots::are_inherited`): it may drop handles and pool, which waits for nothing.

use super::cleaner::CleanerThread;
use super::source::{EarlyRibbon, EarlySource, Taken};
use super::threads::Crew;
use super::{
    CleanerCounters, EarlyStores, Mode, Ribbon, RibbonCounts, RibbonError, RibbonMemory,
    RibbonOptions, THREADS_MAX,
};
use seawall_memory::{FlushBy, Handles, Memory, StoreSource, ThreadSlots};
use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::{JoinHandle, available_parallelism};
use std::time::{Duration, Instant};

/// Threads that [`Ribbon::auto`] allows for on a small machine, and its flushers on a large one.
const THREADS: u64 = 16;
const FLUSHERS_MAX: u64 = 24;

/// Why a pool cannot have a Ribbon.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RibbonPoolError {
    /// An option is out of its range.
    #[error(transparent)]
    Options(#[from] RibbonError),
    /// There is no DRAM for its queues.
    #[error(
        "no {bytes} bytes of DRAM for the queues of a Ribbon: {source}; allow for fewer threads, \
         shorter FIFOs or fewer owner words"
    )]
    Dram {
        /// How many there should be.
        bytes: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The machine does not have the source of recent stores that was asked for.
    #[error("lines cannot be cleaned early by {asked}: {why}; here there are: {there}")]
    Source {
        /// The source.
        asked: StoreSource,
        /// Why it does not.
        why: String,
        /// The names of those that it has.
        there: String,
    },
}

/// A pool whose threads leave flushes to flushers: made by the option `flush` of a pool.
///
/// Dropping it ends the flushers. It makes nothing durable that was not drained.
pub struct RibbonPool<P: Handles + 'static> {
    below: Arc<P>,
    ribbon: Ribbon,
    crew: Arc<Crew>,
    flushers: Vec<JoinHandle<()>>,
    cleaner: Option<CleanerThread>,
    early: Option<Taken>,
    off: Option<String>,
    started: Instant,
}

/// What a [`RibbonPool`] has done since it was opened, and does now. Read while threads go on, so
/// numbers may be a few fences apart, and each is behind by what a thread does between two fences.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RibbonCounters {
    /// Time since the flushers started.
    pub at: Duration,
    /// Requests in the threads' FIFOs that are not done.
    pub depth: u64,
    /// Flushers that may work now: of those that are there, as many as bandwidth asks for.
    pub flushers: u64,
    /// Flushers that panicked, or that the system had no thread for.
    pub lost: u64,
    /// Lines flushed, by flushers and by the threads themselves, asked for or early.
    pub lines: u64,
    /// Lines whose flush was skipped, because they were known to be clean.
    pub skipped: u64,
    /// All that is counted.
    pub counts: RibbonCounts,
    /// What the cleaner has done, if there is one.
    pub cleaner: Option<CleanerCounters>,
}

impl RibbonCounters {
    /// The bandwidth since `earlier`, in lines of 64 bytes a second; 0 if no time has passed.
    pub fn lines_per_second_since(&self, earlier: &RibbonCounters) -> f64 {
        let seconds = self.at.saturating_sub(earlier.at).as_secs_f64();
        let lines = self.lines.saturating_sub(earlier.lines) as f64;
        if seconds > 0.0 { lines / seconds } else { 0.0 }
    }

    /// The mean bandwidth since the flushers started, in lines of 64 bytes a second.
    pub fn lines_per_second(&self) -> f64 {
        self.lines_per_second_since(&RibbonCounters::default())
    }
}

impl Ribbon {
    /// Options that suit this machine: up to twice as many threads as it has processors, or 16; a
    /// flusher fewer than processors, at least one and at most 24; each thread finds out by itself
    /// whether they pay ([`Mode::Auto`]). Every field may be changed.
    pub fn auto() -> RibbonOptions {
        let processors = available_parallelism().map_or(1, NonZero::get) as u64;
        let threads = (2 * processors).clamp(THREADS, THREADS_MAX);
        RibbonOptions::for_processors(threads, (processors - 1).clamp(1, FLUSHERS_MAX))
    }
}

impl<P: Handles + 'static> FlushBy<P> for RibbonOptions {
    type Pool = RibbonPool<P>;
    type Error = RibbonPoolError;

    fn flush_for(self, pool: P) -> Result<RibbonPool<P>, RibbonPoolError> {
        RibbonPool::new(pool, self, None)
    }
}

impl<P: Handles + 'static> FlushBy<P> for EarlyRibbon {
    type Pool = RibbonPool<P>;
    type Error = RibbonPoolError;

    fn flush_for(self, pool: P) -> Result<RibbonPool<P>, RibbonPoolError> {
        RibbonPool::new(pool, self.options, Some(self.source))
    }
}

impl<P: Handles + 'static> RibbonPool<P> {
    fn new(
        mut pool: P,
        mut options: RibbonOptions,
        source: Option<EarlySource>,
    ) -> Result<RibbonPool<P>, RibbonPoolError> {
        let off = pool.flushes_nothing();
        let source = source.filter(|_| off.is_none());
        let early = source.map(|source| Taken::of(source, &pool)).transpose()?;
        let taken = early.as_ref().map(|early| early.source);
        if taken == Some(EarlySource::Hook) {
            options.early = EarlyStores::Hook;
        }
        if off.is_some() {
            (options.mode, options.flushers, options.flushers_min) = (Mode::Never, 0, 0);
            options.early = EarlyStores::None;
        }
        let ribbon = Ribbon::placed(&options, |bytes| {
            let error = |source| RibbonPoolError::Dram { bytes, source };
            pool.add_dram(bytes).map_err(error)
        })?;
        let crew = Arc::new(Crew::new(&ribbon));
        let below = Arc::new(pool);
        let mut flushers = Vec::new();
        crew.start(|index, thread| {
            let (crew, below) = (crew.clone(), below.clone());
            let work = move || crew.run(index, &|thread| below.handle(thread));
            let started = thread.spawn(work).ok()?;
            let thread = started.thread().clone();
            flushers.push(started);
            Some(thread)
        });
        let (started, cleaner) = (Instant::now(), None);
        let mut pool = RibbonPool { below, ribbon, crew, flushers, cleaner, early, off, started };
        if let Some(EarlySource::Machine(asked)) = taken {
            let cleaner = CleanerThread::start(&pool.below, &pool.ribbon, asked);
            let fail =
                |why| RibbonPoolError::Source { asked, why, there: EarlySource::Hook.to_string() };
            pool.cleaner = Some(cleaner.map_err(fail)?);
        }
        Ok(pool)
    }

    /// The handle of hardware thread `thread`; take one in each thread, and one at a time.
    ///
    /// # Panics
    /// When the thread is none of those that [`RibbonOptions::threads`] allows for.
    pub fn memory(&self, thread: usize) -> RibbonMemory<'_, Box<P::Handle<'_>>> {
        self.wrap(self.below.handle(thread))
    }

    /// The same around a handle of the pool below, for what is only set there.
    ///
    /// # Panics
    /// As [`memory`](RibbonPool::memory).
    pub fn wrap<'p>(&'p self, handle: P::Handle<'p>) -> RibbonMemory<'p, Box<P::Handle<'p>>> {
        RibbonMemory::new(self.ribbon.clone(), Box::new(handle)).with_waker(&*self.crew)
    }

    /// The pool below. Handles of it flush by themselves; with [`RibbonOptions::early`] they must
    /// not store to persistent memory.
    pub fn below(&self) -> &P {
        &self.below
    }

    /// The options in use: the caller's, or those of an idle Ribbon where it is [`off`](Self::off).
    pub fn options(&self) -> &RibbonOptions {
        self.ribbon.options()
    }

    /// Why there are no flushers, if the pool needs none.
    pub fn off(&self) -> Option<&str> {
        self.off.as_deref()
    }

    /// Where early cleaning learns of stores, if lines are cleaned early by a
    /// [`EarlySource`] that was asked for.
    pub fn early(&self) -> Option<&Taken> {
        self.early.as_ref()
    }

    /// What has been done, and what is going on; any thread may ask at any time. In the child of a
    /// fork all of it is 0.
    pub fn counters(&self) -> RibbonCounters {
        if self.is_inherited() {
            return RibbonCounters::default();
        }
        let counts = self.ribbon.counts(&self.below.handle(0));
        let lost = self.crew.lost();
        let cleaner = self.cleaner.as_ref().map(CleanerThread::counters);
        let flushers = counts.active.saturating_sub(lost);
        RibbonCounters {
            at: self.started.elapsed(),
            depth: counts.depth,
            flushers,
            lost,
            lines: counts.lines() + cleaner.as_ref().map_or(0, |cleaner| cleaner.cleaned),
            skipped: counts.skipped,
            counts,
            cleaner,
        }
    }

    /// True in the child of a fork, where no other thread came along.
    fn is_inherited(&self) -> bool {
        self.below.handle(0).slots().is_some_and(ThreadSlots::are_inherited)
    }
}

impl<P: Handles + 'static> Drop for RibbonPool<P> {
    fn drop(&mut self) {
        let (flushers, cleaner) = (std::mem::take(&mut self.flushers), self.cleaner.take());
        if self.is_inherited() {
            return std::mem::forget((flushers, cleaner));
        }
        self.crew.end();
        cleaner.into_iter().for_each(CleanerThread::end);
        for flusher in flushers {
            let _ = flusher.join();
        }
    }
}
