//! Flushers as threads of the operating system, for a Ribbon on real processors.
//!
//! A flusher that has had nothing to do for a while sleeps, and an owner that has work wakes it: an
//! idle Ribbon takes no processor. Threads end with the body that they are started for, however it
//! ends. One that panics is counted, and its work is done by the owners, given that the options
//! have a patience. A forked child has none of the threads, and must end inside the body, behind
//! which they are waited for; a [`RibbonPool`](super::RibbonPool) knows that they are not there.
//!
//! ```
//! use seawall_memory::{Addr, Memory, MemoryExt};
//! use seawall_native::{Pool, PoolOptions};
//! use seawall_runtime::Arena;
//! use seawall_ribbon::threads::with_flushers;
//! use seawall_ribbon::{Ribbon, RibbonOptions};
//!
//! let mut arena = Arena::new();
//! let ribbon = Ribbon::place(&mut arena, &RibbonOptions::for_processors(1, 1))?;
//! let options = PoolOptions { dram_bytes: arena.dram_bytes(), ..PoolOptions::default() };
//! let pool = Pool::temporary(1 << 16, &options)?;
//! with_flushers(&ribbon, |thread| pool.memory(thread), |crew| {
//!     let memory = pool.memory(0);
//!     let memory = crew.join(&memory);
//!     for line in 0..64 {
//!         memory.store(Addr::pm(64 * line), line);
//!     }
//!     memory.persist(Addr::pm(0), 64 * 64);
//! });
//! assert!(ribbon.counts(&pool.memory(0)).inline >= 64);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use super::{Flusher, FlusherStep, Ribbon, RibbonMemory, RibbonOptions};
use seawall_memory::Memory;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread::{Builder, Thread};
use std::time::Duration;

/// A flusher looks again after this, whether it was woken or not.
const NAP: Duration = Duration::from_millis(10);

/// Looks for work, and at lines that do not get done, on a processor: tens of microseconds.
const POLLS: u32 = 2_000;
const PATIENCE: u32 = 20_000;
/// A period and a window in ticks of a clock of a few GHz: about a second, about 10 ms.
const PERIOD: u64 = 1 << 31;
const WINDOW: u64 = 1 << 25;

/// Called to wake flushers.
pub trait Waker: Sync {
    /// Wakes all flushers that sleep.
    fn wake(&self);
}

impl RibbonOptions {
    /// Options for real processors: flushers sleep, owners have patience, and the number of
    /// flushers is estimated about once a second.
    pub fn for_processors(threads: u64, flushers: u64) -> RibbonOptions {
        RibbonOptions {
            threads,
            flushers,
            patience: Some(PATIENCE),
            polls: POLLS,
            flushers_min: flushers.min(1),
            period: PERIOD,
            window: WINDOW,
            ..RibbonOptions::default()
        }
    }
}

/// The flusher threads of a Ribbon, while they run.
pub struct Crew {
    ribbon: Ribbon,
    ends: AtomicBool,
    lost: AtomicU64,
    /// The flushers, once all have been started.
    sleepers: OnceLock<Vec<Thread>>,
}

impl Waker for Crew {
    fn wake(&self) {
        self.sleepers.get().into_iter().flatten().for_each(Thread::unpark);
    }
}

/// Ends the flushers when the body has ended, with a panic or without.
struct Ending<'c>(&'c Crew);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Runs `body` beside all flushers of the Ribbon, each on a thread with the handle that `handle`
/// returns for it: flusher 0 has the number after the last application thread, and so on. Returns
/// the result of `body`, once the flushers have ended.
///
/// The Ribbon must be in DRAM of that memory, and no other flushers may run on it.
pub fn with_flushers<M: Memory, T>(
    ribbon: &Ribbon,
    handle: impl Fn(usize) -> M + Sync,
    body: impl FnOnce(&Crew) -> T,
) -> T {
    let crew = Crew::new(ribbon);
    std::thread::scope(|scope| {
        let ending = Ending(&crew);
        let (crew, handle) = (&crew, &handle);
        let start = |index, thread: Builder| {
            let started = thread.spawn_scoped(scope, move || crew.run(index, handle)).ok()?;
            Some(started.thread().clone())
        };
        crew.start(start);
        let result = body(crew);
        drop(ending);
        result
    })
}

impl Crew {
    pub(super) fn new(ribbon: &Ribbon) -> Crew {
        Crew {
            ribbon: ribbon.clone(),
            ends: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            sleepers: OnceLock::new(),
        }
    }

    /// Starts all flushers; `start` returns `None` where the system has no thread.
    pub(super) fn start(&self, mut start: impl FnMut(u64, Builder) -> Option<Thread>) {
        let flushers = 0..self.ribbon.options.flushers;
        let threads = flushers.filter_map(|index| {
            let started = start(index, Builder::new().name(format!("flusher {index}")));
            if started.is_none() {
                self.lost.fetch_add(1, Relaxed);
            }
            started
        });
        let _ = self.sleepers.set(threads.collect());
    }

    /// Lets all flushers end.
    pub(super) fn end(&self) {
        self.ends.store(true, Release);
        self.wake();
    }

    /// As [`Ribbon::join`], with a handle that wakes the flushers.
    ///
    /// # Panics
    /// As there.
    pub fn join<'m, M: Memory>(&'m self, memory: &'m M) -> RibbonMemory<'m, &'m M> {
        self.ribbon.join(memory).with_waker(self)
    }

    /// Flushers that panicked, or that the system had no thread for.
    pub fn lost(&self) -> u64 {
        self.lost.load(Acquire)
    }

    pub(super) fn run<M: Memory>(&self, index: u64, handle: &(impl Fn(usize) -> M + Sync)) {
        let options = &self.ribbon.options;
        let its_handle = || handle((options.threads + index) as usize);
        let work = || self.work(self.ribbon.flusher(&its_handle(), index));
        if catch_unwind(AssertUnwindSafe(work)).is_ok() {
            return;
        }
        if index == 0 {
            // No flusher estimates any more how many should work.
            let all = || self.ribbon.set_active(&its_handle(), options.flushers);
            let _ = catch_unwind(AssertUnwindSafe(all));
        }
        self.lost.fetch_add(1, Release);
    }

    /// A flusher that got up for nothing looks once and lies down again.
    fn work<M: Memory>(&self, mut flusher: Flusher<'_, M>) {
        let (mut idle, mut active) = (0, flusher.active());
        while !self.ends.load(Acquire) {
            let step = flusher.step();
            let before = std::mem::replace(&mut active, flusher.active());
            if flusher.is_first() && active > before {
                self.wake();
            }
            match step {
                FlusherStep::Closed => return,
                FlusherStep::Flushed(_) => idle = 0,
                FlusherStep::Surplus => self.sleep(|| true),
                FlusherStep::Idle if idle < self.ribbon.options.polls => {
                    idle += 1;
                    std::hint::spin_loop();
                }
                FlusherStep::Idle => {
                    if let Some(bell) = flusher.lie_down() {
                        self.sleep(|| flusher.bell() == bell);
                    }
                }
            }
        }
    }

    fn sleep(&self, rests: impl Fn() -> bool) {
        if rests() && !self.ends.load(Acquire) {
            std::thread::park_timeout(NAP);
        }
    }
}
