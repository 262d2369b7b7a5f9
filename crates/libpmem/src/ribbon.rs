//! Ribbon (PACT'20) by the environment: flushes of the program's threads by flusher threads.
//!
//! The Ribbon of `seawall-ribbon` runs on addresses of the process here ([`RawHandles`]). A thread
//! has a *part* in it, with a FIFO, from its first flush to its end; there are as many parts as the
//! Ribbon has FIFOs, and a thread without one flushes by itself. `pmem_drain` waits for what the
//! part's FIFO has.
//!
//! **Mappings.** A line that waits in a FIFO must stay mapped. Only lines of what `pmem_map_file`
//! has mapped are put there, and `pmem_unmap` first empties all FIFOs, on behalf of their threads:
//! therefore a lock is around each part ([`Biased`]). Threads wait for flushers as long as it
//! takes: one that was given up could come back to a line that is mapped no more.
//!
//! **Forks.** The child has no flushers. The thread that forks empties its FIFO before, and holds
//! the locks that its child could meet. All flushes of the child are made at once.
//!
//! **Signal handlers** may call what they may call without a Ribbon: while a handler has
//! interrupted a call of its thread, it flushes at once.

use crate::biased::{Biased, Owner};
use crate::ranges::{Ranges, mapped_mut};
use crate::setup::{RibbonWish, Setup};
use crate::system::{self, Hooks};
use seawall_memory::{Addr, Fence, FlushBy, Memory};
use seawall_native::{RawHandles, RawMemory};
use seawall_ribbon::{Ribbon, RibbonMemory, RibbonOptions, RibbonPool};
use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLockWriteGuard};

/// The Ribbon of this process, if the environment asks for one, from the first mapping on.
static RUNNING: OnceLock<Option<Running>> = OnceLock::new();

/// How often the end of the process looks whether a part that is in use is so no more.
const LAST_LOOKS: usize = 10_000;

struct Running {
    ribbon: RibbonPool<RawHandles>,
    wish: RibbonWish,
    parts: Box<[Biased<Option<Part>>]>,
    shared: Mutex<Shared>,
    /// All flushes are made at once: in the child of a fork, and at the end of the process.
    is_over: AtomicBool,
}

/// A thread's part.
struct Part {
    memory: RibbonMemory<'static, Box<RawMemory<'static>>>,
    /// Its own copy of what is mapped.
    mapped: Ranges,
}

/// Taken before the lock of a part, and after that of the mappings.
struct Shared {
    mapped: Ranges,
    /// Numbers of parts that no thread has.
    free: Vec<usize>,
}

thread_local! {
    static MINE: Mine = const { Mine { part: OnceCell::new(), is_busy: Cell::new(false) } };
    static FORKING: RefCell<Option<Forking>> = const { RefCell::new(None) };
}

/// With its number; `None` where all were taken.
type PartOfThread = Option<(usize, Owner<Option<Part>>)>;

/// What a thread knows of its part. Dropped at the thread's end, after which it flushes at once.
struct Mine {
    /// Empty before its first flush.
    part: OnceCell<PartOfThread>,
    /// A call holds locks, so that a handler which interrupts it must take none.
    is_busy: Cell<bool>,
}

type Forking = (RwLockWriteGuard<'static, Ranges>, MutexGuard<'static, Shared>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does `act`, which takes locks: a signal handler that interrupts it flushes at once.
fn busy<T>(act: impl FnOnce() -> T) -> T {
    let was_busy = MINE.try_with(|mine| mine.is_busy.replace(true));
    let done = act();
    if let Ok(was_busy) = was_busy {
        let _ = MINE.try_with(|mine| mine.is_busy.set(was_busy));
    }
    done
}

#[inline]
fn running() -> Option<&'static Running> {
    RUNNING.get()?.as_ref()
}

/// The same, before a fork or the end.
fn still_running() -> Option<&'static Running> {
    running().filter(|running| !running.is_over.load(SeqCst))
}

/// Leaves the flush of these bytes to the Ribbon; false if the caller has to make it.
#[inline]
pub(crate) fn flush(at: usize, len: usize) -> bool {
    running().is_some_and(|running| running.flush(at, len))
}

/// Drains what this thread has left to the Ribbon, and all that it has flushed itself; false if it
/// has no part, so that the caller has to fence.
#[inline]
pub(crate) fn drain() -> bool {
    running().is_some_and(|running| running.drain())
}

/// Lines of this new mapping may be left to the Ribbon, which starts with the first.
pub(crate) fn add(mapping: &Range<usize>) {
    let Some(wish) = Setup::of_process().ribbon else { return };
    let start = || {
        let started = system::without_signals(|| Running::start(wish));
        let failed = |error| system::say(&format!("no Ribbon, lines are flushed at once: {error}"));
        started.map_err(failed).ok()
    };
    if let Some(running) = RUNNING.get_or_init(start)
        && mapping.end <= RawHandles::END
    {
        running.change(|mapped| mapped.add(mapping.clone()));
    }
}

/// Does `unmap` when no line of these pages waits to be flushed.
pub(crate) fn before<T>(
    pages: &Range<usize>,
    unmap: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let Some(running) = still_running() else { return unmap() };
    busy(|| {
        // From before the wait: nobody joins with a copy that still has the pages.
        let mut shared = lock(&running.shared);
        running.each_part(|part| part.memory.fence(Fence::Drain));
        let unmapped = unmap()?;
        shared.mapped.remove(pages.clone());
        running.each_part(|part| part.mapped.remove(pages.clone()));
        Ok(unmapped)
    })
}

impl Running {
    fn start(wish: RibbonWish) -> Result<Running, String> {
        Running::with(wish, Ribbon::auto())
    }

    fn with(wish: RibbonWish, auto: RibbonOptions) -> Result<Running, String> {
        let flushers = wish.flushers.unwrap_or(auto.flushers);
        let options = RibbonOptions { mode: wish.mode, flushers, patience: None, ..auto };
        if !system::can_fence_everywhere() {
            return Err("the system has no membarrier".to_owned());
        }
        let parts: Box<[Biased<_>]> = (0..options.threads).map(|_| Biased::default()).collect();
        let free = (0..parts.len()).rev().collect();
        let handles = system::handles(Setup::of_process().flush);
        let handles = handles.map_err(|error| error.to_string())?;
        let ribbon = options.flush_for(handles).map_err(|error| error.to_string())?;
        let lost = ribbon.counters().lost;
        if lost > 0 {
            return Err(format!("the system has no thread for {lost} of {flushers} flushers"));
        }
        let hooks = Hooks { before_fork, in_parent, in_child, at_end };
        if !hooks.set() {
            return Err("the system has no memory to end it".to_owned());
        }
        let shared = Mutex::new(Shared { mapped: Ranges::default(), free });
        Ok(Running { ribbon, wish, parts, shared, is_over: AtomicBool::new(false) })
    }

    #[inline]
    fn flush(&'static self, at: usize, len: usize) -> bool {
        let range = at..at.saturating_add(len);
        let by_part = |part: &mut Option<Part>| {
            let part = part.as_ref().filter(|part| part.mapped.cover(range))?;
            let goes_on = !self.is_over.load(SeqCst);
            goes_on.then(|| part.memory.flush(Addr::pm(at as u64), len as u64))
        };
        let by_mine = |mine: &Mine| {
            if mine.is_busy.get() {
                return None;
            }
            let part = mine.part.get().or_else(|| self.join(mine));
            part?.as_ref()?.1.with(by_part)?
        };
        matches!(MINE.try_with(by_mine), Ok(Some(())))
    }

    #[inline]
    fn drain(&self) -> bool {
        let fence = |part: &Part| part.memory.fence(Fence::Drain);
        let by_mine = |mine: &Mine| match mine.part.get() {
            Some(Some((_, part))) if !mine.is_busy.get() => {
                part.with(|part| part.as_ref().map(fence))?
            }
            _ => None,
        };
        matches!(MINE.try_with(by_mine), Ok(Some(())))
    }

    /// Takes a part for this thread, which has asked for none.
    #[cold]
    fn join<'t>(&'static self, mine: &'t Mine) -> Option<&'t PartOfThread> {
        busy(|| {
            // A handler could have done it before the thread was busy.
            if mine.part.get().is_none() {
                let _ = mine.part.set(self.free_part());
            }
            mine.part.get()
        })
    }

    fn free_part(&'static self) -> PartOfThread {
        let mut shared = lock(&self.shared);
        if self.is_over.load(SeqCst) {
            return None;
        }
        let number = shared.free.pop()?;
        let owner = self.parts[number].own()?;
        let part = Part { memory: self.ribbon.memory(number), mapped: shared.mapped.clone() };
        owner.with(|place| *place = Some(part))?;
        Some((number, owner))
    }

    /// Changes what is mapped.
    fn change(&self, change: impl Fn(&mut Ranges)) {
        busy(|| {
            let mut shared = lock(&self.shared);
            if !self.is_over.load(SeqCst) {
                change(&mut shared.mapped);
                self.each_part(|part| change(&mut part.mapped));
            }
        });
    }

    fn each_part(&self, act: impl Fn(&mut Part)) {
        for place in &self.parts {
            place.by_other(|part| part.as_mut().into_iter().for_each(&act));
        }
    }

    fn say_counts(&self) {
        let counters = self.ribbon.counters();
        let counts = counters.counts;
        let at_once = counts.inline + counts.full;
        system::say(&format!(
            "ribbon {}, flushers {}: {} lines by flushers, {} at drains, {} at once",
            self.wish.mode.name(),
            self.ribbon.options().flushers,
            counts.by_flushers,
            counts.by_owners,
            at_once,
        ));
    }
}

/// The part drains when it is dropped. One stays that is in use: a signal handler ends the process.
impl Drop for Mine {
    fn drop(&mut self) {
        let (Some(running), Some(Some((number, owner)))) = (running(), self.part.take()) else {
            return;
        };
        if owner.with(|part| *part = None).is_some() {
            drop(owner);
            lock(&running.shared).free.push(number);
        } else {
            std::mem::forget(owner);
        }
    }
}

extern "C" fn before_fork() {
    let Some(running) = still_running() else { return };
    running.drain();
    // Taken as `pmem_unmap` takes them.
    let _ = MINE.try_with(|mine| mine.is_busy.set(true));
    let locks = (mapped_mut(), lock(&running.shared));
    let _ = FORKING.try_with(|forking| forking.replace(Some(locks)));
}

extern "C" fn in_parent() {
    let _ = FORKING.try_with(RefCell::take);
    let _ = MINE.try_with(|mine| mine.is_busy.set(false));
}

extern "C" fn in_child() {
    if let Some(running) = running() {
        running.is_over.store(true, SeqCst);
    }
    in_parent();
}

/// Other threads may still run, and find their parts gone.
extern "C" fn at_end() {
    let Some(running) = running().filter(|running| !running.is_over.swap(true, SeqCst)) else {
        return;
    };
    for place in &running.parts {
        // One that stays in use is that of a call which the end has interrupted.
        place.try_by_other(LAST_LOOKS, |part| *part = None);
    }
    if running.wish.counts {
        running.say_counts();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_ribbon::{Mode, RibbonFlaw};
    use std::time::{Duration, Instant};

    const LINES: usize = 4096;

    fn ribbon(mode: Mode, flaw: RibbonFlaw) -> &'static Running {
        let wish = RibbonWish { mode, flushers: Some(2), counts: false };
        let options = RibbonOptions { flaw, ..Ribbon::auto() };
        Box::leak(Box::new(Running::with(wish, options).unwrap()))
    }

    /// Memory that may be left to the Ribbon; never freed.
    fn mapping(running: &Running) -> usize {
        let bytes: &'static [u64] = vec![0; (LINES + 1) * 8].leak();
        let base = bytes.as_ptr().addr().next_multiple_of(64);
        running.change(|mapped| mapped.add(base..base + LINES * 64));
        base
    }

    /// Whether lines of a thread were not done when its drain returned, in any of many rounds.
    fn drain_returns_early(flaw: RibbonFlaw, for_seconds: u64) -> bool {
        let running = ribbon(Mode::Always, flaw);
        let base = mapping(running);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(for_seconds) {
            for line in 0..40 {
                assert!(running.flush(base + line * 64, 64));
            }
            assert!(running.drain());
            if running.ribbon.counters().depth > 0 {
                return true;
            }
        }
        false
    }

    #[test]
    fn a_drain_waits_for_what_flushers_have_taken_on() {
        assert!(!drain_returns_early(RibbonFlaw::None, 2));
    }

    #[test]
    fn a_drain_that_does_not_wait_is_found_out() {
        assert!(drain_returns_early(RibbonFlaw::WaitsForClaims, 60));
    }

    #[test]
    fn only_whole_ranges_of_mappings_are_taken_until_they_go() {
        let running = ribbon(Mode::Always, RibbonFlaw::None);
        let base = mapping(running);
        assert!(running.flush(base + 1, 1) && running.flush(base, LINES * 64));
        assert!(!running.flush(base + 64, LINES * 64), "longer than the mapping");
        assert!(!running.flush(base - 1, 1) && !running.flush(base, usize::MAX));
        let more = mapping(running);
        assert!(running.flush(more, 64), "mapped after the thread had joined");
        running.change(|mapped| mapped.remove(base..base + 4096));
        assert!(!running.flush(base, 1) && running.flush(base + 4096, 1));
        assert!(running.drain());
        running.is_over.store(true, SeqCst);
        assert!(!running.flush(more, 64), "all is flushed at once");
    }

    #[test]
    fn parts_are_used_again_and_who_has_none_flushes_by_itself() {
        let running = ribbon(Mode::Never, RibbonFlaw::None);
        let base = mapping(running);
        let free = lock(&running.shared).free.clone();
        lock(&running.shared).free.truncate(1);
        assert!(std::thread::spawn(|| !running.drain()).join().unwrap(), "nothing to drain");
        let both = std::thread::spawn(move || {
            let first = running.flush(base, 64);
            let second = std::thread::spawn(move || running.flush(base, 64)).join().unwrap();
            (first, second, running.drain())
        });
        assert_eq!(both.join().unwrap(), (true, false, true));
        assert_eq!(free.first(), Some(&(running.parts.len() - 1)));
    }

    #[test]
    fn a_call_inside_of_a_call_is_not_served() {
        let running = ribbon(Mode::Always, RibbonFlaw::None);
        let base = mapping(running);
        assert!(running.flush(base, 64));
        let inside = || (running.flush(base, 64), running.drain());
        assert_eq!(busy(inside), (false, false));
        let by_mine = |mine: &Mine| mine.part.get()?.as_ref()?.1.with(|_| inside());
        assert_eq!(MINE.with(by_mine), Some((false, false)));
        assert!(running.flush(base, 64) && running.drain());
    }
}
