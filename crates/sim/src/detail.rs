//! What counters do not say: how long single loads, persists and drains took, how full the queues
//! were, and what each core did.
//!
//! A [`Simulation`](crate::Simulation) keeps this if it is
//! [asked to](crate::Simulation::with_detail); that changes nothing else, and costs a look at
//! nothing where nobody asks. Latencies are kept as how often each value came, so that percentiles
//! are exact.

use crate::Cycle;
use crate::core::{Entry, Kind};
use crate::engine::counters::Stalls;
use crate::timeline::{QueueEntry, WriteQueue};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The detail of a run, or of the region that its programs mark.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunDetail {
    /// Loads that found their line neither in the first level nor on its way there: from when they
    /// could start until the line arrived.
    pub load_misses: Latencies,
    /// Writes of persistent lines: from when a cache or a buffer sent the line until no crash could
    /// lose it.
    pub persists: Latencies,
    /// Fences (orders, joins of strands, drains): from when the instruction retired until it took
    /// effect, behind all stores before it.
    pub fences: Latencies,
    /// Drains: from when the program asked until it went on.
    pub drains: Latencies,
    /// The write queues that had an entry.
    pub write_queues: Vec<(WriteQueue, Occupancy)>,
    /// The persist buffer of each core that ran a program; empty if the design has none.
    pub persist_buffers: Vec<Occupancy>,
    /// The cores that ran programs.
    pub cores: Vec<CoreDetail>,
}

/// How long something took, in cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latencies {
    /// How often it happened.
    pub count: u64,
    /// All of it together.
    pub sum: Cycle,
    /// The median.
    pub p50: Cycle,
    /// What nine of ten did not exceed.
    pub p90: Cycle,
    /// What 99 of 100 did not exceed.
    pub p99: Cycle,
    /// The longest.
    pub max: Cycle,
}

/// How many entries a queue had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupancy {
    /// The cycles that entries spent in it, all together: over the cycles of the run, the mean.
    pub entry_cycles: u64,
    /// The most at a time.
    pub max: u64,
}

/// What a core did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreDetail {
    /// When its program finished.
    pub cycles: Cycle,
    /// Stalled cycles by reason, idle time at the end included.
    pub stalls: Stalls,
    /// Instructions that it issued.
    pub instructions: u64,
    /// Its flush instructions.
    pub flushes: u64,
    /// Its fences: orders, joins of strands and drains.
    pub fences: u64,
}

/// What is kept during a run, if that is asked for.
#[derive(Default)]
pub(crate) struct Detail(Option<Box<Tally>>);

impl Detail {
    pub(crate) fn of_programs(programs: usize) -> Detail {
        let cores = vec![CoreTally::default(); programs];
        Detail(Some(Box::new(Tally { cores, ..Tally::default() })))
    }

    /// Lets `note` write it down, if it is kept.
    #[inline]
    pub(crate) fn note(&mut self, note: impl FnOnce(&mut Tally)) {
        if let Some(tally) = &mut self.0 {
            write(tally, note);
        }
    }

    /// What a run has come to whose cores are at these numbers of instructions, of `to` cycles.
    pub(crate) fn finish(&self, instructions: &[u64], to: Cycle) -> Option<RunDetail> {
        let tally = self.0.as_ref()?;
        Some(match &tally.done {
            Some(done) => done.clone(),
            None => tally.finish(instructions, to),
        })
    }
}

#[cold]
#[inline(never)]
fn write(tally: &mut Tally, note: impl FnOnce(&mut Tally)) {
    note(tally);
}

#[derive(Default)]
pub(crate) struct Tally {
    /// Where what is measured begins.
    from: Cycle,
    load_misses: Durations,
    persists: Durations,
    fences: Durations,
    drains: Durations,
    /// When each write that is not in a queue yet was sent, by its number.
    sent: FxHashMap<u64, Cycle>,
    queues: BTreeMap<WriteQueue, Entries>,
    cores: Vec<CoreTally>,
    /// When the last program finished.
    over: Option<Cycle>,
    /// What it had come to when what is measured ended.
    done: Option<RunDetail>,
}

#[derive(Clone, Default)]
struct CoreTally {
    /// When the load began that waits to ask for its line.
    load: Option<Cycle>,
    drain: Cycle,
    /// Instructions before what is measured.
    before: u64,
    flushes: u64,
    fences: u64,
    buffer: Option<Level>,
}

impl Tally {
    /// What is measured begins, with the cores at these numbers of instructions.
    pub(crate) fn begins(&mut self, instructions: &[u64], now: Cycle) {
        (self.from, self.done) = (now, None);
        let Tally { load_misses, persists, fences, drains, .. } = self;
        for durations in [load_misses, persists, fences, drains] {
            durations.0.clear();
        }
        self.queues.values_mut().for_each(|queue| queue.begin(now));
        for (core, instructions) in self.cores.iter_mut().zip(instructions) {
            (core.before, core.flushes, core.fences) = (*instructions, 0, 0);
            core.buffer.iter_mut().for_each(|buffer| buffer.begin(now));
        }
    }

    /// What is measured has ended.
    pub(crate) fn ends(&mut self, instructions: &[u64], now: Cycle) {
        self.done = Some(self.finish(instructions, now));
    }

    /// The load of `core`, which could start at `start`, cannot ask for its line yet.
    pub(crate) fn load_waits(&mut self, core: usize, start: Cycle) {
        self.cores[core].load.get_or_insert(start);
    }

    /// It has asked, and the line arrives at `ready`.
    pub(crate) fn load_missed(&mut self, core: usize, start: Cycle, ready: Cycle) {
        let start = self.cores[core].load.take().unwrap_or(start);
        self.load_misses.add(ready - start);
    }

    /// Write `number`, of a persistent line, is sent.
    pub(crate) fn sent(&mut self, number: u64, now: Cycle) {
        self.sent.insert(number, now);
    }

    /// It will be durable.
    pub(crate) fn persists(&mut self, number: u64, durable: Cycle) {
        if let Some(sent) = self.sent.remove(&number) {
            self.persists.add(durable.saturating_sub(sent));
        }
    }

    /// The last program has finished: what comes to the queues later is not of the run.
    pub(crate) fn programs_end(&mut self, now: Cycle) {
        self.over = Some(now);
    }

    fn is_over(&self, now: Cycle) -> bool {
        self.over.is_some_and(|over| now >= over)
    }

    /// An entry has come to a write queue.
    pub(crate) fn enters(&mut self, entry: QueueEntry) {
        if !self.is_over(entry.arrived) {
            self.queues.entry(entry.queue).or_default().enters(&entry, self.from);
        }
    }

    /// The persist buffer of `core` has this number of entries.
    pub(crate) fn buffered(&mut self, core: usize, entries: usize, now: Cycle) {
        let (from, is_over) = (self.from, self.is_over(now));
        if let Some(core) = self.cores.get_mut(core).filter(|_| !is_over) {
            let level = core.buffer.get_or_insert(Level { since: from, ..Level::default() });
            level.set(entries as u64, now);
        }
    }

    /// The program of `core` asks for a drain.
    pub(crate) fn drain_begins(&mut self, core: usize, now: Cycle) {
        self.cores[core].drain = now;
    }

    /// It goes on.
    pub(crate) fn drained(&mut self, core: usize, now: Cycle) {
        self.drains.add(now - self.cores[core].drain);
    }

    /// An entry of `core`'s store buffer that is no store has taken effect.
    pub(crate) fn passed(&mut self, core: usize, entry: Entry, now: Cycle) {
        match entry.kind {
            Kind::Flush => self.cores[core].flushes += 1,
            Kind::Order | Kind::Join | Kind::Drain => {
                self.cores[core].fences += 1;
                self.fences.add(now - entry.from);
            }
            _ => {}
        }
    }

    fn finish(&self, instructions: &[u64], to: Cycle) -> RunDetail {
        let buffers = self.cores.iter().map(|core| core.buffer);
        let has_buffers = buffers.clone().any(|buffer| buffer.is_some());
        let buffers = buffers.map(|buffer| buffer.unwrap_or_default().until(to));
        let core = |(core, instructions): (&CoreTally, &u64)| CoreDetail {
            instructions: instructions - core.before,
            flushes: core.flushes,
            fences: core.fences,
            ..CoreDetail::default()
        };
        RunDetail {
            load_misses: self.load_misses.summary(),
            persists: self.persists.summary(),
            fences: self.fences.summary(),
            drains: self.drains.summary(),
            write_queues: self
                .queues
                .iter()
                .map(|(name, queue)| (*name, queue.until(to)))
                .collect(),
            persist_buffers: if has_buffers { buffers.collect() } else { Vec::new() },
            cores: self.cores.iter().zip(instructions).map(core).collect(),
        }
    }
}

/// How often something took each number of cycles.
#[derive(Default)]
struct Durations(BTreeMap<Cycle, u64>);

impl Durations {
    fn add(&mut self, cycles: Cycle) {
        *self.0.entry(cycles).or_insert(0) += 1;
    }

    fn summary(&self) -> Latencies {
        let count = self.0.values().sum::<u64>();
        let at = |percent: u64| {
            let rank = (count * percent).div_ceil(100);
            let mut seen = 0;
            let mut all = self.0.iter();
            let found = all.find(|(_, times)| {
                seen += **times;
                seen >= rank
            });
            found.map_or(0, |(cycles, _)| *cycles)
        };
        Latencies {
            count,
            sum: self.0.iter().map(|(cycles, times)| cycles * times).sum(),
            p50: at(50),
            p90: at(90),
            p99: at(99),
            max: at(100),
        }
    }
}

/// The entries of a write queue, whose ends are known when they come.
#[derive(Default)]
struct Entries {
    of: Occupancy,
    /// From when to when each of the last ones has its place.
    last: Vec<(Cycle, Cycle)>,
}

impl Entries {
    fn enters(&mut self, entry: &QueueEntry, from: Cycle) {
        let (accepted, left) = (entry.accepted.max(from), entry.left.max(from));
        self.last.retain(|(_, left)| *left > entry.arrived);
        self.last.push((accepted, left));
        self.of.entry_cycles += left.saturating_sub(accepted);
        self.of.max = self.of.max.max(self.at(accepted));
    }

    /// The entries that have a place at a cycle.
    fn at(&self, cycle: Cycle) -> u64 {
        self.last.iter().filter(|(from, to)| *from <= cycle && *to > cycle).count() as u64
    }

    fn begin(&mut self, now: Cycle) {
        let last = std::mem::take(&mut self.last).into_iter().filter(|(_, left)| *left > now);
        self.last = last.map(|(accepted, left)| (accepted.max(now), left)).collect();
        let entry_cycles = self.last.iter().map(|(accepted, left)| left - accepted).sum();
        self.of = Occupancy { entry_cycles, max: self.at(now) };
    }

    /// Without what comes after `to`.
    fn until(&self, to: Cycle) -> Occupancy {
        let after = |(accepted, left): &(Cycle, Cycle)| left.saturating_sub(to.max(*accepted));
        let after: u64 = self.last.iter().map(after).sum();
        Occupancy { entry_cycles: self.of.entry_cycles - after, ..self.of }
    }
}

/// The entries of a persist buffer.
#[derive(Clone, Copy, Default)]
struct Level {
    of: Occupancy,
    entries: u64,
    since: Cycle,
}

impl Level {
    fn set(&mut self, entries: u64, now: Cycle) {
        self.of.entry_cycles += self.entries * now.saturating_sub(self.since);
        self.of.max = self.of.max.max(entries);
        (self.entries, self.since) = (entries, self.since.max(now));
    }

    fn begin(&mut self, now: Cycle) {
        self.of = Occupancy { entry_cycles: 0, max: self.entries };
        self.since = now;
    }

    fn until(&self, to: Cycle) -> Occupancy {
        let entry_cycles = self.of.entry_cycles + self.entries * to.saturating_sub(self.since);
        Occupancy { entry_cycles, ..self.of }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_came() {
        let mut durations = Durations::default();
        (1..=200).for_each(|cycles| durations.add(10 * cycles));
        let found = durations.summary();
        let expected =
            Latencies { count: 200, sum: 201_000, p50: 1000, p90: 1800, p99: 1980, max: 2000 };
        assert_eq!(found, expected);
        assert_eq!(Durations::default().summary(), Latencies::default());
    }

    #[test]
    fn entries_of_a_queue_count_from_their_place_to_their_end_within_what_is_measured() {
        let mut queue = Entries::default();
        let enters = |queue: &mut Entries, arrived, accepted, left| {
            let (name, line, core) = (WriteQueue::Controller(0), None, None);
            queue.enters(&QueueEntry { queue: name, line, core, arrived, accepted, left }, 0);
        };
        enters(&mut queue, 0, 0, 100);
        enters(&mut queue, 10, 10, 60);
        enters(&mut queue, 20, 60, 120);
        assert_eq!(queue.until(1000), Occupancy { entry_cycles: 210, max: 2 });
        assert_eq!(queue.until(100), Occupancy { entry_cycles: 190, max: 2 });
        queue.begin(70);
        assert_eq!(queue.until(100), Occupancy { entry_cycles: 60, max: 2 });
    }

    #[test]
    fn a_persist_buffer_has_the_entries_that_it_had_last_until_it_is_said_otherwise() {
        let mut buffer = Level::default();
        for (entries, at) in [(1, 10), (2, 20), (0, 50)] {
            buffer.set(entries, at);
        }
        assert_eq!(buffer.until(100), Occupancy { entry_cycles: 70, max: 2 });
        buffer.set(3, 100);
        buffer.begin(200);
        assert_eq!(buffer.until(210), Occupancy { entry_cycles: 30, max: 3 });
    }
}
