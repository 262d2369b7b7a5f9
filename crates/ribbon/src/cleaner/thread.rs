//! The thread of a pool's cleaner: it looks, rests, and ends with the pool.
//!
//! The watch begins and ends in this thread, which holds on to the pool below until it has ended:
//! no address is touched after the mapping is gone. A forked child has no such thread.

use super::super::Ribbon;
use super::super::ab_tests::AbTests;
use super::{Cleaner, INTERVAL, Look, Pace};
use seawall_memory::{Handles, MemoryExt, StoreSource};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle, park_timeout};
use std::time::{Duration, Instant};

/// What the cleaner of a pool has done since the pool was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CleanerCounters {
    /// Its source of recent stores.
    pub source: StoreSource,
    /// Times that it asked.
    pub looks: u64,
    /// Lines that were found, once for each look that found them.
    pub found: u64,
    /// Of those, lines that it flushed.
    pub cleaned: u64,
    /// Of those found, lines that it had cleaned at the look before: in vain.
    pub in_vain: u64,
    /// Fences: one for each look that cleaned something.
    pub fences: u64,
    /// Why it does not work any more, if that is so.
    pub stopped: Option<String>,
}

#[derive(Default)]
struct State {
    ends: AtomicBool,
    looks: AtomicU64,
    found: AtomicU64,
    cleaned: AtomicU64,
    in_vain: AtomicU64,
    fences: AtomicU64,
    stopped: OnceLock<String>,
}

impl State {
    /// The number of looks comes last, and is read first: so the others are at least as new.
    fn count(&self, look: Look) {
        let add = |count: &AtomicU64, by: u64| count.fetch_add(by, Release);
        add(&self.found, look.found);
        add(&self.cleaned, look.cleaned);
        add(&self.in_vain, look.in_vain);
        add(&self.fences, u64::from(look.cleaned > 0));
        add(&self.looks, 1);
    }

    /// False if it was time to end.
    fn rest(&self, time: Duration) -> bool {
        if !self.ends.load(Acquire) {
            park_timeout(time);
        }
        !self.ends.load(Acquire)
    }
}

pub(in super::super) struct CleanerThread {
    source: StoreSource,
    state: Arc<State>,
    thread: JoinHandle<()>,
}

impl CleanerThread {
    /// When it returns, stores to the pool are watched.
    pub(in super::super) fn start<P: Handles + 'static>(
        pool: &Arc<P>,
        ribbon: &Ribbon,
        source: StoreSource,
    ) -> Result<CleanerThread, String> {
        let state = Arc::new(State::default());
        let (says, said) = channel();
        let (pool, ribbon, its_state) = (pool.clone(), ribbon.clone(), state.clone());
        let work = move || {
            let work = AssertUnwindSafe(|| run(&*pool, &ribbon, source, &its_state, &says));
            if catch_unwind(work).is_err() {
                let _ = its_state.stopped.set("it panicked".to_string());
            }
        };
        let thread = Builder::new().name("cleaner".into()).spawn(work);
        let thread = thread.map_err(|error| format!("no thread for it: {error}"))?;
        said.recv().unwrap_or_else(|_| Err("it panicked".to_string()))?;
        Ok(CleanerThread { source, state, thread })
    }

    pub(in super::super) fn counters(&self) -> CleanerCounters {
        let State { looks, found, cleaned, in_vain, fences, stopped, .. } = &*self.state;
        let [looks, found, cleaned, in_vain, fences] =
            [looks, found, cleaned, in_vain, fences].map(|count| count.load(Acquire));
        let stopped = stopped.get().cloned();
        CleanerCounters { source: self.source, looks, found, cleaned, in_vain, fences, stopped }
    }

    pub(in super::super) fn end(self) {
        self.state.ends.store(true, Release);
        self.thread.thread().unpark();
        let _ = self.thread.join();
    }
}

fn run<P: Handles>(
    pool: &P,
    ribbon: &Ribbon,
    source: StoreSource,
    state: &State,
    says: &Sender<Result<(), String>>,
) {
    let options = ribbon.options();
    let memory = pool.handle((options.threads + options.flushers) as usize);
    let source = pool.recent_stores(source);
    let mut source = match source {
        Ok(source) => source,
        Err(why) => return drop(says.send(Err(why))),
    };
    let (mut cleaner, mut pace) = (Cleaner::new(&memory), Pace { interval: INTERVAL });
    let (mut tests, mut variant) = AbTests::of_cleaner(options.mode);
    let _ = says.send(Ok(()));
    loop {
        if !variant.early {
            source.rest();
            if !state.rest(INTERVAL * variant.fences.min(1 << 24) as u32) {
                return;
            }
        }
        for _ in 0..if variant.early { variant.fences } else { 0 } {
            let began = Instant::now();
            let rest = match cleaner.look(&mut *source) {
                Err(error) => return drop(state.stopped.set(error.to_string())),
                Ok(look) => {
                    state.count(look);
                    pace.after(look, began.elapsed())
                }
            };
            if !state.rest(rest) {
                return;
            }
        }
        variant = tests.next(memory.now(), ribbon.counts(&memory).asked());
    }
}
