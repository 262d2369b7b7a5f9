//! One point of a logging figure, simulated and on this host.
//!
//! Both begin as slide 6 does, with the structure written from its one end to the other and the log
//! in no cache, and measure only what comes after.
//!
//! On the host the logs of a point take turns, forth and back, so that what disturbs one disturbs
//! all, and every ratio is the median of ratios of neighbouring runs. Time is the thread's own:
//! what other programs take from it is left out. Before each run the log is put out of the caches,
//! as it is written once, to lines that are not in use.

use crate::LabError;
use rustix::time::{ClockId, clock_gettime};
use seawall_memory::MemoryExt;
use seawall_native::{Pool, PoolOptions};
use seawall_runtime::RouteCounts;
use seawall_sim::{Choice, Counters, Machine, Program, SimMemory, Simulation};
use seawall_workloads::memsys17::{Input, Log, Structure};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Structure and string size: what the logs are compared for.
pub(crate) type Place = (Structure, u64);

/// A run in the simulator.
#[derive(Clone, Debug)]
pub(crate) struct Simulated {
    pub(crate) records: u64,
    pub(crate) cycles: u64,
    pub(crate) counters: Counters,
    pub(crate) route: RouteCounts,
}

impl Simulated {
    pub(crate) fn run(
        machine: &Machine,
        design: &Choice,
        input: &Input,
        stop: &Arc<AtomicBool>,
    ) -> Result<Simulated, LabError> {
        let told = Rc::new(RefCell::new((0, Counters::default(), RouteCounts::default())));
        let (tell, input_of_run) = (told.clone(), *input);
        let program: Program = Box::new(move |memory: &SimMemory<'_>| {
            input_of_run.initialise(memory);
            let (began, before) = (memory.now(), memory.counters());
            *tell.borrow_mut() = (began, before, input_of_run.run(memory));
        });
        let pm = vec![0; input.pm_bytes() as usize];
        let outcome = Simulation::new(machine, design, pm, vec![0; 64])
            .cold()
            .stopped_by(stop.clone())
            .run(vec![program])?;
        let (began, before, route) = &*told.borrow();
        Ok(Simulated {
            records: input.records,
            cycles: outcome.cycles - began,
            counters: outcome.counters.since(before),
            route: *route,
        })
    }

    pub(crate) fn cycles_per_record(&self) -> f64 {
        self.cycles as f64 / self.records as f64
    }

    /// Lines that memory had to give to the last-level cache, those fetched ahead included, for
    /// each that it was asked for by the cores.
    pub(crate) fn miss_rate(&self) -> f64 {
        let given = self.counters.llc_misses + self.counters.prefetched_lines;
        given as f64 / self.counters.l1_misses.max(1) as f64
    }

    /// Lines that left a write-combining buffer partly filled.
    pub(crate) fn partial_lines(&self) -> u64 {
        self.counters.partial_lines
    }
}

/// Runs on this host: nanoseconds a record of every round, for each log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Host {
    rounds: BTreeMap<Log, Vec<f64>>,
}

impl Host {
    /// Runs every log `rounds` times, in turns.
    pub(crate) fn run(inputs: &[Input], rounds: usize) -> Result<Host, LabError> {
        let bytes = inputs.iter().map(Input::pm_bytes).max().unwrap_or(0).max(1 << 16);
        let pool = Pool::temporary(bytes, &PoolOptions::default())?;
        let memory = pool.memory(0);
        let mut host = Host::default();
        for round in 0..rounds {
            for turn in 0..inputs.len() {
                let turn = if round % 2 == 0 { turn } else { inputs.len() - 1 - turn };
                let input = &inputs[turn];
                input.prepare(&memory);
                let started = own_nanoseconds();
                input.run(&memory);
                memory.drain();
                let time = (own_nanoseconds() - started) / input.records as f64;
                host.rounds.entry(input.log).or_default().push(time);
            }
        }
        Ok(host)
    }

    /// Median nanoseconds a record.
    pub(crate) fn nanoseconds(&self, log: Log) -> Option<f64> {
        self.rounds.get(&log).map(|rounds| median(rounds.clone()))
    }

    /// One log's time over another's, round by round, sorted.
    fn ratios(&self, log: Log, over: Log) -> Option<Vec<f64>> {
        let pairs = self.rounds.get(&log)?.iter().zip(self.rounds.get(&over)?);
        let mut ratios: Vec<f64> = pairs.map(|(time, other)| time / other).collect();
        ratios.sort_by(f64::total_cmp);
        Some(ratios)
    }

    /// The median over the rounds of one log's time over another's.
    pub(crate) fn ratio(&self, log: Log, over: Log) -> Option<f64> {
        self.ratios(log, over).map(median)
    }

    /// The lower quartile of the same.
    pub(crate) fn low_ratio(&self, log: Log, over: Log) -> Option<f64> {
        let ratios = self.ratios(log, over)?;
        ratios.get(ratios.len() / 4).copied()
    }

    /// The one of `logs` with the least median. It is chosen once for all rounds: the lesser one of
    /// each round would make noise look like a loss.
    pub(crate) fn best(&self, logs: &[Log]) -> Option<Log> {
        let time = |log: &Log| self.nanoseconds(*log).unwrap_or(f64::MAX);
        logs.iter().min_by(|left, right| time(left).total_cmp(&time(right))).copied()
    }
}

/// CPU time of this thread.
fn own_nanoseconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 if middle > 0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values.get(middle).copied().unwrap_or(f64::NAN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_the_median_of_neighbouring_runs() {
        let rounds =
            [(Log::Uncached, vec![10.0, 20.0, 90.0]), (Log::CachedFlushed, vec![5.0, 10.0, 30.0])];
        let host = Host { rounds: rounds.into() };
        assert_eq!(host.nanoseconds(Log::Uncached), Some(20.0));
        assert_eq!(host.ratio(Log::Uncached, Log::CachedFlushed), Some(2.0));
        let others = [Log::Uncached, Log::CachedFlushed];
        assert_eq!(host.best(&others), Some(Log::CachedFlushed));
        assert_eq!(host.low_ratio(Log::Uncached, Log::CachedFlushed), Some(2.0));
        assert_eq!(host.ratio(Log::Uncached, Log::CachedUnflushed), None);
        assert_eq!(median(vec![4.0, 1.0]), 2.5);
    }
}
