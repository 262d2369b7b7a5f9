//! A contender runs one round of a group of operations, on a number of threads.
//!
//! Time is the wall time of the slowest thread over the operations of one thread, so two threads
//! that do not hinder each other have the same time as one. The time in which another process had a
//! thread's CPU is subtracted (Linux counts it for each thread); waits for a lock, a disk or memory
//! are not.

use anyhow::{Result, anyhow};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::cell::Cell;
use std::sync::Barrier;
use std::time::Duration;

/// Bytes of the pools that are created and reopened.
pub(crate) const POOL_BYTES: u64 = 1 << 30;

/// Fences and flushed lines of some operations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) fences: u64,
    pub(crate) lines: u64,
}

impl Counts {
    /// The increase since `before`.
    pub(crate) fn since(self, before: Counts) -> Counts {
        Counts { fences: self.fences - before.fences, lines: self.lines - before.lines }
    }
}

/// One operation of one round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// Nanoseconds per operation.
    pub(crate) ns: f64,
    /// Fences per operation, if they were counted.
    pub(crate) fences: Option<f64>,
    /// Flushed lines per operation, if they were counted.
    pub(crate) lines: Option<f64>,
}

/// Runs the operations of a group.
pub(crate) trait Contender {
    /// Runs one round on `threads` threads; returns a sample for each operation of the group, in
    /// order.
    ///
    /// # Errors
    /// If the library fails, or returns a result that the round knows to be wrong.
    fn round(&mut self, threads: usize) -> Result<Vec<Sample>>;
}

/// The start line of one thread.
pub(crate) struct Gate<'a> {
    start: &'a Barrier,
    time: Cell<Option<Duration>>,
}

impl Gate<'_> {
    /// Waits for the other threads, then runs and times `work`.
    pub(crate) fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        self.start.wait();
        let (done, time) = seawall_bench_common::timed(work);
        self.time.set(Some(time));
        done
    }
}

type Ran = (Result<Option<Counts>>, Option<Duration>);

/// Runs `work` on `threads` pinned threads. Each runs `operations` inside its gate's
/// [`time`](Gate::time), which it calls exactly once, even if it fails.
///
/// # Errors
/// The first error of a thread.
pub(crate) fn timed(
    threads: usize,
    operations: u64,
    work: impl Fn(usize, &Gate<'_>) -> Result<Option<Counts>> + Sync,
) -> Result<Sample> {
    let start = Barrier::new(threads);
    let runs: Vec<Ran> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let (start, work) = (&start, &work);
                scope.spawn(move || {
                    pin(thread);
                    let gate = Gate { start, time: Cell::new(None) };
                    (work(thread, &gate), gate.time.get())
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().expect("a measured thread")).collect()
    });
    let mut counts = Some(Counts::default());
    let mut slowest = Duration::ZERO;
    for (counted, time) in runs {
        let counted = counted?;
        counts = counts.zip(counted).map(|(sum, one)| Counts {
            fences: sum.fences + one.fences,
            lines: sum.lines + one.lines,
        });
        slowest = slowest.max(time.ok_or_else(|| anyhow!("a contender measured nothing"))?);
    }
    let all = (operations * threads as u64) as f64;
    Ok(Sample {
        ns: slowest.as_nanos() as f64 / operations as f64,
        fences: counts.map(|counts| counts.fences as f64 / all),
        lines: counts.map(|counts| counts.lines as f64 / all),
    })
}

/// Best effort: where threads cannot be pinned, they run unpinned.
fn pin(thread: usize) {
    let mut cpus = CpuSet::new();
    cpus.set(thread % std::thread::available_parallelism().map_or(1, |cpus| cpus.get()));
    let _unpinned = sched_setaffinity(None, &cpus);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_that_of_the_slowest_thread_over_the_operations_of_one() {
        let sample = timed(2, 10, |thread, gate| {
            gate.time(|| std::thread::sleep(Duration::from_millis(20 * thread as u64)));
            Ok(Some(Counts { fences: 30, lines: 10 }))
        });
        let sample = sample.unwrap();
        assert!(sample.ns >= 2e6, "{sample:?}");
        assert_eq!((sample.fences, sample.lines), (Some(3.0), Some(1.0)));
    }

    #[test]
    fn a_thread_that_did_not_count_leaves_no_counts() {
        let sample = timed(2, 1, |thread, gate| {
            gate.time(|| ());
            Ok((thread == 0).then(Counts::default))
        });
        assert_eq!(sample.unwrap().fences, None);
    }

    #[test]
    fn the_error_of_a_thread_is_the_error_of_the_round() {
        let failed = timed(1, 1, |_, gate| gate.time(|| Err(anyhow!("no room"))));
        assert_eq!(failed.unwrap_err().to_string(), "no room");
    }
}
