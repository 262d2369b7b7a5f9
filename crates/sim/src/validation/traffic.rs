//! Threads that load and store on DIMMs alone, like the benchmarks on the hardware.
//!
//! A thread has the limits of a core in the machine file: its outstanding lines, its places for
//! non-temporal stores, and the mean path to a controller and back, computed by [`Paths`]. The rest
//! of the measured time is that of the DIMMs.

use super::paths::Paths;
use crate::{Cycle, Machine, XpDimms};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const LINE: u64 = 64;
const PAGE_LINES: u64 = 64;
/// Lines that are used before a measurement, and about the number during it.
const VISITS: u64 = 1 << 17;
/// Lines of each thread of a bandwidth run, and the distance between threads.
const STREAM_LINES: u64 = 8192;
const STREAM_APART: u64 = 1 << 22;

/// The mean path latencies of a machine's cores, in cycles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    /// From a load to its controller, and from there back to the core with the line.
    asked: Cycle,
    answered: Cycle,
    /// From a non-temporal store to its controller, and the acknowledgement from there.
    sent: Cycle,
    told: Cycle,
    loads: usize,
    stores: usize,
}

/// Some DIMMs and their users.
pub(super) struct Traffic {
    host: Host,
    ghz: f64,
    dimms: XpDimms,
    seed: u64,
}

/// Slots, each free from a cycle on: the lines that a thread can have outstanding.
struct Slots(Vec<Cycle>);

impl Slots {
    /// The first cycle, not before `now`, in which a slot is free; the slot is then taken up to the
    /// cycle that `until` returns.
    fn take(&mut self, now: Cycle, until: impl FnOnce(Cycle) -> Cycle) -> Cycle {
        let first = (0..self.0.len()).min_by_key(|slot| self.0[*slot]).unwrap_or(0);
        let at = now.max(self.0[first]);
        self.0[first] = until(at);
        at
    }

    fn all(&self) -> Cycle {
        self.0.iter().copied().max().unwrap_or(0)
    }
}

impl Host {
    pub(super) fn new(machine: &Machine) -> Host {
        let paths = Paths::new(machine);
        let (cores, l1, llc) = (machine.core.count, machine.l1.latency, machine.llc.latency);
        let mean = |way: &dyn Fn(usize, usize, usize) -> Cycle| {
            let all = (0..cores).map(|core| {
                Paths::mean(4096, |line| way(core, paths.home(line), paths.corner(line)))
            });
            (all.sum::<f64>() / cores as f64).round() as Cycle
        };
        let (control, data) = (|a, b| paths.control(a, b), |a, b| paths.data(a, b));
        let leave = machine.core.combining_leave;
        Host {
            asked: mean(&|core, home, to| l1 + control(core, home) + llc + control(home, to)),
            answered: mean(&|core, home, from| data(from, home) + data(home, core)),
            sent: mean(&|core, home, to| l1 + leave + data(core, home) + llc + data(home, to)),
            told: mean(&|core, home, from| control(from, home) + control(home, core)),
            loads: machine.core.mshrs,
            stores: machine.core.write_combining,
        }
    }
}

impl Traffic {
    /// `count` DIMMs of the machine's kind; `None` if it has none.
    pub(super) fn new(machine: &Machine, count: usize, seed: u64) -> Option<Traffic> {
        let mut memory = machine.memory.clone();
        memory.nvm.dimms.as_mut()?.count = count;
        let dimms = XpDimms::new(&memory)?;
        Some(Traffic { host: Host::new(machine), ghz: machine.ghz, dimms, seed })
    }

    fn random(&self) -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(self.seed)
    }

    /// The blocks of a region in the order of a pass: a permutation, or random draws if they are
    /// too many for a pass.
    fn blocks(&self, region: u64, block: u64) -> Vec<u64> {
        let (count, mut random) = ((region / block).max(1), self.random());
        let most = 4 * VISITS * LINE / block;
        if count > most {
            return (0..most).map(|_| random.random_range(0..count)).collect();
        }
        let mut order: Vec<u64> = (0..count).collect();
        order.shuffle(&mut random);
        order
    }

    /// Nanoseconds per 64 bytes of blocks that are loaded in random order, each block after the one
    /// before it has arrived.
    pub(super) fn read(&mut self, region: u64, block: u64) -> f64 {
        let (order, lines) = (self.blocks(region, block), block / LINE);
        let visits = 2 * (VISITS / lines).max(order.len() as u64);
        let (mut now, mut from) = (0, 0);
        for visit in 0..visits {
            if visit == visits / 2 {
                from = now;
            }
            let first = order[visit as usize % order.len()] * lines;
            let mut slots = Slots(vec![now; self.host.loads]);
            for line in first..first + lines {
                slots.take(now, |at| self.load(line, at));
                now += 1;
            }
            now = slots.all();
        }
        self.nanoseconds(now - from) / ((visits - visits / 2) * lines) as f64
    }

    fn load(&mut self, line: u64, at: Cycle) -> Cycle {
        self.dimms.read(line, at + self.host.asked) + self.host.answered
    }

    /// Nanoseconds per 64 bytes of blocks that are stored in random order, with a fence after each
    /// pass through the region.
    pub(super) fn write(&mut self, region: u64, block: u64) -> f64 {
        let (order, lines) = (self.blocks(region, block), block / LINE);
        let passes = (2 * VISITS / (order.len() as u64 * lines)).max(2);
        let (mut now, mut from) = (0, 0);
        let mut slots = Slots(vec![0; self.host.stores]);
        for pass in 0..passes {
            if pass == passes / 2 {
                from = now;
            }
            for first in order.iter().map(|block| block * lines) {
                for line in first..first + lines {
                    now = slots.take(now + 1, |at| self.store(line, at));
                }
            }
            now = slots.all();
        }
        let stored = (passes - passes / 2) * order.len() as u64 * lines;
        self.nanoseconds(now - from) / stored as f64
    }

    fn store(&mut self, line: u64, at: Cycle) -> Cycle {
        self.dimms.write(line, at + self.host.sent).accepted + self.host.told
    }

    /// GB/s of `threads` that each load or store lines of their own sequentially.
    pub(super) fn stream(&mut self, threads: usize, stores: bool) -> f64 {
        let (mut random, count) =
            (self.random(), if stores { self.host.stores } else { self.host.loads });
        let pages = STREAM_APART / 2 / PAGE_LINES;
        let first =
            |thread| thread as u64 * STREAM_APART + random.random_range(0..pages) * PAGE_LINES;
        let first: Vec<u64> = (0..threads).map(first).collect();
        let mut slots: Vec<Slots> = (0..threads).map(|_| Slots(vec![0; count])).collect();
        let (mut next, mut done) = (vec![(0, 0); threads], vec![0; threads]);
        // The thread with the earliest next line, while all are active.
        while next.iter().all(|(_, number)| *number < STREAM_LINES) {
            let thread = (0..threads).min_by_key(|thread| next[*thread].0).unwrap_or(0);
            let (now, number) = next[thread];
            let line = first[thread] + number;
            let access = |at| if stores { self.store(line, at) } else { self.load(line, at) };
            let started = slots[thread].take(now, access);
            done[thread] = slots[thread].all();
            let free = slots[thread].0.iter().copied().min().unwrap_or(0);
            next[thread] = (free.max(started + 1), number + 1);
        }
        let lines: u64 = next.iter().map(|(_, number)| number).sum();
        let end = done.into_iter().max().unwrap_or(1);
        (lines * LINE) as f64 / self.nanoseconds(end)
    }

    /// Rewrites one XPLine, with a fence each time. Returns the number of rewrites between two
    /// stalls, the length of a stall in microseconds, and the median rewrite in nanoseconds.
    pub(super) fn rewrite(&mut self) -> [f64; 3] {
        let mut took = Vec::new();
        let mut now = 0;
        for _ in 0..VISITS {
            let mut slots = Slots(vec![now; self.host.stores]);
            for line in 0..4 {
                slots.take(now + line, |at| self.store(line, at));
            }
            took.push(slots.all() - now);
            now = slots.all();
        }
        let mut sorted = took.clone();
        sorted.sort_unstable();
        let median = sorted[sorted.len() / 2];
        let stalls: Vec<usize> = (0..took.len()).filter(|at| took[*at] > 20 * median).collect();
        let Some((first, last)) = stalls.first().zip(stalls.last()).filter(|(a, b)| a < b) else {
            return [f64::INFINITY, 0.0, self.nanoseconds(median)];
        };
        let mean: Cycle = stalls.iter().map(|at| took[*at]).sum::<Cycle>() / stalls.len() as u64;
        let apart = (last - first) as f64 / (stalls.len() - 1) as f64;
        [apart, self.nanoseconds(mean) / 1000.0, self.nanoseconds(median)]
    }

    /// Bytes stored per byte written to the media so far.
    pub(super) fn write_ratio(&self) -> f64 {
        self.dimms.traffic().write_ratio()
    }

    fn nanoseconds(&self, cycles: Cycle) -> f64 {
        cycles as f64 / self.ghz
    }
}
