//! A thread that defragments while a program runs, on machines with OS threads.

use super::cycle::{Defragmenter, Step};
use super::options::{DefragCounts, DefragError, Manner};
use crate::{Heap, Session, TxError};
use seawall_memory::Memory;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread::{Builder, Thread};
use std::time::{Duration, Instant};

/// Sleep when there was nothing to do.
const REST: Duration = Duration::from_millis(5);
/// Sleep when scopes must end first, or there is no room.
const WAIT: Duration = Duration::from_micros(200);
/// Longest time of work without a sleep.
const STRETCH: Duration = Duration::from_micros(100);

/// The handle of a thread that defragments a heap.
#[derive(Debug, Default)]
pub struct Collector {
    counts: Mutex<DefragCounts>,
    ends: AtomicBool,
    /// Set when the program panicked: a scope may be open that never ends.
    panics: AtomicBool,
}

impl Collector {
    /// What it has done so far.
    pub fn counts(&self) -> DefragCounts {
        *self.counts.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn run<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        defragmenter: &mut Defragmenter,
    ) -> Result<(), DefragError> {
        while !self.ends.load(Acquire) {
            let begun = Instant::now();
            let mut outcome = Ok(Step::Worked);
            while outcome == Ok(Step::Worked) && begun.elapsed() < STRETCH {
                outcome = defragmenter.step(session);
            }
            self.note(defragmenter);
            if !matches!(outcome, Ok(Step::Worked | Step::Waits)) {
                // It allocates nothing: the chunks that it adopted are released to others.
                session.disown();
            }
            match outcome {
                Ok(Step::Worked) => std::thread::yield_now(),
                Ok(Step::Waits) => std::thread::park_timeout(WAIT),
                Ok(Step::Rest | Step::Done) => std::thread::park_timeout(REST),
                Err(DefragError::Heap(TxError::Full { .. })) => std::thread::park_timeout(REST),
                Err(error) => return Err(error),
            }
        }
        if self.panics.load(Acquire) {
            return Ok(());
        }
        let outcome = defragmenter.finish(session);
        self.note(defragmenter);
        outcome
    }

    fn note(&self, defragmenter: &Defragmenter) {
        let mut counts = self.counts.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *counts = defragmenter.counts();
    }
}

/// Stops the thread when the body has ended, with a panic or without.
struct Ending<'c>(&'c Collector, Thread);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.panics.store(std::thread::panicking(), Release);
        self.0.ends.store(true, Release);
        self.1.unpark();
    }
}

/// Runs `body` beside a thread that defragments the heap on the memory that `handle` returns, which
/// has a thread number of its own. When `body` has ended, the current cycle is completed; then this
/// returns the result of `body`, and what the thread has done, or why it had to stop. While the
/// heap has no room for copies, it is left as it is.
///
/// A scope that never ends keeps a cycle from ending and this from returning.
///
/// ```
/// use seawall_native::{Pool, PoolOptions};
/// use seawall_runtime::{HeapError, HeapOptions};
/// use seawall_runtime::defrag::{DefragOptions, Defragmenter, with_collector};
/// use seawall_runtime::typed::{self, Persist, Ptr};
///
/// #[derive(Clone, Copy, Persist)]
/// struct Stack<'p> {
///     top: Option<Ptr<'p, Stack<'p>>>,
/// }
///
/// let defragment = true; // one thread works, one collects
/// let options = HeapOptions { threads: 2, defragment, ..typed::options::<Stack>() };
/// let pool = PoolOptions { dram_bytes: options.dram_bytes(), ..PoolOptions::default() };
/// let pool = Pool::temporary(options.pm_bytes(), &pool)?;
/// let heap = typed::create::<Stack, _, HeapError>(
///     &pool.memory(0), "stack", 1, &options, |pool| Ok(pool.heap()),
/// )?;
/// let defragmenter = Defragmenter::of::<Stack>(DefragOptions::default())?;
/// let (result, counts) = with_collector(heap, || pool.memory(1), defragmenter, |_| {
///     let memory = pool.memory(0);
///     let mut thread = typed::Thread::<Stack, _>::join(heap, &memory)?;
///     thread.enter(|session, root| {
///         session.transaction(|tx| {
///             let top = tx.alloc(Stack { top: None })?;
///             tx.set(root.at(Stack::TOP), Some(top))
///         })
///     })?;
///     Ok::<_, HeapError>(())
/// });
/// result?;
/// assert_eq!(counts?.emptied, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// When the system cannot start a thread, `body` runs all the same, and the counts are that error.
///
/// # Panics
/// When `body` or the thread panics.
pub fn with_collector<M: Memory, T>(
    heap: Heap,
    handle: impl FnOnce() -> M + Send,
    mut defragmenter: Defragmenter,
    body: impl FnOnce(&Collector) -> T,
) -> (T, Result<DefragCounts, DefragError>) {
    let collector = &Collector::default();
    let way = defragmenter.options;
    if way.form == Manner::Published {
        let protocol = way.protocol;
        return (body(collector), Err(DefragError::Unlocked { way, protocol }));
    }
    std::thread::scope(|scope| {
        let work = move || {
            let memory = handle();
            let mut session = heap.join(&memory);
            let outcome = collector.run(&mut session, &mut defragmenter);
            session.leave();
            outcome
        };
        let named = Builder::new().name("collector".to_owned());
        let thread = match named.spawn_scoped(scope, work) {
            Ok(thread) => thread,
            Err(error) => {
                return (body(collector), Err(DefragError::NoThread { why: error.to_string() }));
            }
        };
        let ending = Ending(collector, thread.thread().clone());
        let result = body(collector);
        drop(ending);
        let outcome = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (result, outcome.map(|()| collector.counts()))
    })
}
