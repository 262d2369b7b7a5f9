//! The threads of a native run: plain handles, or handles with a Ribbon around them, and a look at
//! its counters while they run.

use super::times::Times;
use super::{Limit, NativeError, NativeOptions, RibbonMode};
use seawall_any::{AnyMemory, AnyStructure, Joined};
use seawall_memory::Memory;
use seawall_native::{Counters, Pool, PoolOptions, Witness};
use seawall_report::Progress;
use seawall_ribbon::Dirtiness;
use seawall_ribbon::{Ribbon, RibbonCounters, RibbonOptions, RibbonPool};
use seawall_runtime::defrag::{DefragCounts, DefragError};
use seawall_workloads::{History, Setup, Worker};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// From one look at the counters to the next.
const LOOK: Duration = Duration::from_millis(200);
/// Bytes of a pool that is made to see whether it can have a Ribbon.
const SMALL_BYTES: u64 = 1 << 16;

/// The pool of a run.
pub(super) enum Host {
    Plain(Pool),
    Ribbon(RibbonPool<Pool>),
}

impl Host {
    /// Refuses a Ribbon that this machine cannot have, before a file is made and filled.
    pub(super) fn check(pool: &PoolOptions, options: &NativeOptions) -> Result<(), NativeError> {
        if options.ribbon.is_some() {
            Host::new(Pool::temporary(SMALL_BYTES, pool)?, options)?;
        }
        Ok(())
    }

    /// The pool with the Ribbon that the options ask for.
    pub(super) fn new(pool: Pool, options: &NativeOptions) -> Result<Host, NativeError> {
        let Some(mode) = options.ribbon else { return Ok(Host::Plain(pool)) };
        let auto = Ribbon::auto();
        let flushers = options.flushers.unwrap_or(auto.flushers);
        let threads = options.threads as u64 + u64::from(options.defragment.is_some());
        let flushers_min = flushers.min(1);
        let wanted = RibbonOptions { mode, threads, flushers, flushers_min, ..auto };
        let ribbon = match options.early {
            Some(source) => pool.flush(wanted.early(source))?,
            None => pool.flush(wanted)?,
        };
        match ribbon.off() {
            Some(why) if mode == RibbonMode::Always => {
                Err(NativeError::NothingToFlush { why: why.into() })
            }
            _ => Ok(Host::Ribbon(ribbon)),
        }
    }

    pub(super) fn pool(&self) -> &Pool {
        match self {
            Host::Plain(pool) => pool,
            Host::Ribbon(pool) => pool.below(),
        }
    }

    pub(super) fn ribbon(&self) -> Option<&RibbonPool<Pool>> {
        match self {
            Host::Plain(_) => None,
            Host::Ribbon(pool) => Some(pool),
        }
    }
}

/// What one thread did, and when.
pub(super) struct Done {
    pub(super) operations: u64,
    pub(super) counters: Counters,
    pub(super) times: Times,
    failure: Option<String>,
    started: Instant,
    ended: Instant,
}

/// Wall-clock seconds from the first thread's first operation to the last one's last.
pub(super) fn seconds_of(done: &[Done]) -> f64 {
    let started = done.iter().map(|thread| thread.started).min();
    let ended = done.iter().map(|thread| thread.ended).max();
    started.zip(ended).map_or(0.0, |(started, ended)| (ended - started).as_secs_f64())
}

/// What each thread runs.
struct Threads<'a> {
    workload: &'a dyn AnyStructure,
    dirtiness: Option<&'a Dirtiness>,
    measures: bool,
    setup: &'a Setup,
    operations_max: u64,
    stop: AtomicBool,
    /// True when all threads are ready; false if one is missing, and the others are to end.
    start: OnceLock<bool>,
}

impl Threads<'_> {
    /// Operations until the limit, on the thread's handle; `counters` are read before it is left.
    fn run(
        &self,
        (thread, ready): (usize, Sender<()>),
        mut joined: Box<dyn Joined + '_>,
        output: &dyn Fn(u64),
        counters: &dyn Fn() -> Counters,
    ) -> Done {
        let worker = Worker::new(self.setup, thread, Arc::new(History::off()));
        let mut worker = worker.that_may_fail();
        let mut times = Times::new(self.measures);
        let _ = ready.send(());
        drop(ready);
        if !self.start.wait() {
            self.stop.store(true, Ordering::Relaxed);
        }
        let started = Instant::now();
        while worker.number < self.operations_max && !self.stop.load(Ordering::Relaxed) {
            times.time(|| joined.step(&mut worker));
            if worker.failure.is_some() {
                self.stop.store(true, Ordering::Relaxed);
                break;
            }
            worker.number += 1;
            output(worker.number);
        }
        let (operations, counters) = (worker.number, counters());
        let failure = worker.failure;
        Done { operations, counters, times, failure, started, ended: Instant::now() }
    }

    fn run_on(&self, host: &Host, ready: (usize, Sender<()>), witness: Option<&Witness>) -> Done {
        let memory = host.pool().memory(ready.0);
        let memory = match witness {
            Some(witness) => memory.with_witness(witness),
            None => memory,
        };
        let workload = self.workload;
        match (host, self.dirtiness) {
            (Host::Ribbon(pool), _) => {
                let ribbon = pool.wrap(memory);
                let counters = || ribbon.inner().counters();
                let output = |number| ribbon.output(number);
                self.run(ready, workload.join_ribbon(&ribbon), &output, &counters)
            }
            (Host::Plain(_), Some(dirtiness)) => {
                let counted = AnyMemory::dirtiness(dirtiness.join(&memory));
                let (output, counters) = (|number| counted.output(number), || memory.counters());
                self.run(ready, workload.join(&counted), &output, &counters)
            }
            (Host::Plain(_), None) => {
                let (output, counters) = (|number| memory.output(number), || memory.counters());
                self.run(ready, workload.join_native(&memory), &output, &counters)
            }
        }
    }
}

/// Runs `body` beside the thread that defragments, if there is to be one.
pub(super) fn run_beside<T>(
    host: &Host,
    workload: &dyn AnyStructure,
    setup: &Setup,
    body: impl FnOnce() -> T,
) -> (T, Result<DefragCounts, DefragError>) {
    let thread = setup.threads;
    let (mut body, mut done) = (Some(body), None);
    let mut body = || done = body.take().map(|body| body());
    let collected = match host {
        Host::Plain(pool) => workload.beside_native_collector((pool, thread), &mut body),
        Host::Ribbon(pool) => {
            let handle = || AnyMemory::native_ribbon(pool.wrap(pool.below().memory(thread)));
            workload.beside_collector(&handle, &mut body)
        }
    };
    (done.expect("it has run"), collected)
}

/// Runs the threads until the limit, and shows the work of a Ribbon during the run.
///
/// # Errors
/// When the system has not that many threads.
///
/// # Panics
/// When one of them does.
pub(super) fn run_threads(
    host: &Host,
    (name, workload, dirtiness): (&'static str, &dyn AnyStructure, Option<&Dirtiness>),
    setup: &Setup,
    (witness, measures): (Option<&Witness>, bool),
    limit: Limit,
    progress: &Progress,
) -> Result<Vec<Done>, NativeError> {
    let (operations_max, seconds) = match limit {
        Limit::Seconds(seconds) => (u64::MAX, Some(Duration::from_secs_f64(seconds))),
        Limit::Operations(count) => (count, None),
    };
    let (stop, start) = (AtomicBool::new(false), OnceLock::new());
    let threads = Threads { workload, dirtiness, measures, setup, operations_max, stop, start };
    std::thread::scope(|scope| {
        let all = &threads;
        let (ready, are_ready) = channel();
        let mut missing = None;
        let start = |thread| {
            let ready = (thread, ready.clone());
            let run = move || all.run_on(host, ready, witness);
            Builder::new().spawn_scoped(scope, run).map_err(|error| missing = Some(error)).ok()
        };
        let running: Vec<_> = (0..setup.threads).map_while(start).collect();
        drop(ready);
        // Ends when each thread has said so, or panicked.
        let are_all_ready = are_ready.iter().count() == setup.threads;
        let _ = all.start.set(are_all_ready);
        let seconds = seconds.filter(|_| are_all_ready);
        let has_ended = || running.iter().all(|thread| thread.is_finished());
        match host.ribbon().filter(|_| progress.is_seen()) {
            Some(ribbon) => watch(ribbon, seconds, has_ended, progress),
            None => seconds.into_iter().for_each(std::thread::sleep),
        }
        if seconds.is_some() {
            all.stop.store(true, Ordering::Relaxed);
        }
        let started = running.len();
        let done = running.into_iter().map(|thread| match thread.join() {
            Ok(done) => done,
            Err(cause) => std::panic::resume_unwind(cause),
        });
        let done: Vec<Done> = done.collect();
        let failure = done.iter().find_map(|thread| thread.failure.clone());
        match (missing, failure) {
            (None, None) => Ok(done),
            (None, Some(why)) => Err(NativeError::NoRoom { workload: name, why }),
            (Some(source), _) => {
                Err(NativeError::Threads { started, wanted: setup.threads, source })
            }
        }
    })
}

/// Shows the counters until the time is over or the threads have ended.
fn watch(
    ribbon: &RibbonPool<Pool>,
    seconds: Option<Duration>,
    has_ended: impl Fn() -> bool,
    progress: &Progress,
) {
    let began = Instant::now();
    let left = || seconds.map_or(LOOK, |seconds| seconds.saturating_sub(began.elapsed()));
    progress.start_notes();
    let mut before = ribbon.counters();
    while !left().is_zero() && !has_ended() {
        std::thread::sleep(left().min(LOOK));
        let now = ribbon.counters();
        progress.note(describe(&now, &before));
        before = now;
    }
    progress.end();
}

/// The counters in a line.
pub(super) fn describe(now: &RibbonCounters, before: &RibbonCounters) -> String {
    let rate = now.lines_per_second_since(before) / 1e6;
    let waiting = match now.depth {
        1 => "1 flush waits".to_owned(),
        depth => format!("{depth} flushes wait"),
    };
    let flushers = match now.flushers {
        1 => "1 flusher".to_owned(),
        flushers => format!("{flushers} flushers"),
    };
    let skipped = now.skipped - before.skipped;
    let cleaner = now.cleaner.as_ref().map_or_else(String::new, |cleaner| {
        let before = before.cleaner.as_ref().map_or(0, |before| before.cleaned);
        format!(", {} cleaned early", cleaner.cleaned - before)
    });
    format!("ribbon: {waiting}, {flushers}, {rate:.2} M lines/s, {skipped} skipped{cleaner}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::run::{EarlySource, NativeReport, run_native};

    #[test]
    fn what_goes_on_is_said_in_a_line() {
        let before = RibbonCounters { lines: 500, skipped: 2, ..RibbonCounters::default() };
        let now = RibbonCounters {
            at: Duration::from_millis(500),
            depth: 1,
            flushers: 3,
            lines: 1_500_500,
            skipped: 9,
            ..RibbonCounters::default()
        };
        let line = describe(&now, &before);
        assert_eq!(line, "ribbon: 1 flush waits, 3 flushers, 3.00 M lines/s, 7 skipped");
    }

    #[test]
    fn a_run_says_what_told_of_its_stores_and_refuses_what_does_not_here() {
        let with = |early| NativeOptions {
            ribbon: Some(RibbonMode::Never),
            early: Some(early),
            ops: Some(20_000),
            ..NativeOptions::default()
        };
        let report = run_native("kv", &with(EarlySource::Auto)).unwrap();
        let (text, json) = (report.to_string(), serde_json::to_value(&report).unwrap());
        let early = &json["ribbon"]["early"];
        let taken = early["source"].as_str().expect("a name");
        assert!(text.contains(&format!("early       by {taken}")), "{text}");
        let refused = early["refused"].as_array().expect("a list").len();
        assert_eq!(EarlySource::ALL[1 + refused].name(), taken, "the first one that there is");
        assert_eq!(text.matches("; not by ").count(), refused, "{text}");
        for source in EarlySource::ALL {
            match run_native("hash", &with(source)) {
                Ok(NativeReport::Run(run)) => {
                    let ribbon = run.ribbon.expect("a Ribbon");
                    let early = ribbon.early.expect("a source");
                    assert!(early.source == "hook" || ribbon.skipped == 0, "{early}");
                    assert!(early.cleaner.is_none_or(|cleaner| cleaner.stopped.is_none()));
                }
                Ok(_) => panic!("no recovery"),
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains(source.name()) && text.contains("hook"), "{text}");
                }
            }
        }
    }
}
