//! Application threads and flushers under the explorer.

use seawall_explore::{
    CrashImage, CrashPoint, Model, Schedule, Schedules, Search, Trace, Traced, Turns, check,
    record, search,
};
use seawall_memory::{Addr, Image, Memory, MemoryExt};
use seawall_ribbon::{EarlyStores, Mode, Ribbon, RibbonMemory, RibbonOptions};
use seawall_runtime::Arena;

/// What an application thread runs; its data begins at the address, words for signals at the other.
pub(super) type Program = fn(&RibbonMemory<'_, &Traced<'_>>, Addr, Addr);

/// Of the words that recovery reads, what is wrong with them, given the outputs of each thread.
pub(super) type Judge = fn(&[u64], &[u64]) -> bool;

/// Each way to learn of stores.
pub(super) const EVERY_SOURCE: [EarlyStores; 3] =
    [EarlyStores::None, EarlyStores::Hook, EarlyStores::Samples { every: 2 }];

/// Lines of data.
pub(super) const LINES: u64 = 8;

pub(super) struct Scene {
    pub(super) options: RibbonOptions,
    pub(super) model: Model,
    pub(super) program: Program,
    /// For programs that are drawn at random: in the last line of the data.
    pub(super) seed: u64,
    /// Words of the data that recovery reads.
    pub(super) words: &'static [u64],
    pub(super) is_good: Judge,
    /// Interruptions, runs with them, and random runs.
    pub(super) bound: usize,
    pub(super) limit: usize,
    pub(super) random: u64,
}

pub(super) fn options(threads: u64, flushers: u64) -> RibbonOptions {
    RibbonOptions {
        threads,
        flushers,
        fifo_lines: 16,
        chunk: 1,
        mode: Mode::Always,
        owner_words: 16,
        polls: 0,
        ..RibbonOptions::default()
    }
}

fn run_thread(memory: &Traced<'_>, ribbon: &Ribbon, data: Addr, signals: Addr, program: Program) {
    let (thread, threads) = (memory.thread() as u64, ribbon.options().threads);
    if thread >= threads {
        return ribbon.serve(memory, thread - threads);
    }
    let joined = ribbon.join(memory);
    program(&joined, data, signals);
    joined.leave();
    if memory.fetch_add(signals.plus(56), 1) + 1 == threads {
        ribbon.close(memory);
    }
}

impl Scene {
    /// How many runs were explored, or the first image that is not good.
    pub(super) fn explore(&self) -> Result<usize, String> {
        let mut arena = Arena::new();
        let ribbon = Ribbon::place(&mut arena, &self.options).expect("good options");
        let (data, signals) = (arena.pm(64 * LINES), arena.dram(64));
        let (bytes, dram) = (arena.pm_bytes(), arena.dram_bytes());
        let program = self.program;
        let run = |schedule: &Schedule| {
            let ribbon = ribbon.clone();
            let image = Image::new(bytes, dram);
            image.store(data.plus(64 * (LINES - 1)), self.seed);
            record(image, schedule, move |memory| {
                run_thread(memory, &ribbon, data, signals, program);
            })
        };
        let threads = (self.options.threads + self.options.flushers) as usize;
        let base = Schedule { threads, ..Schedule::default() };
        let (bound, limit) = (self.bound, self.limit);
        let interrupted = Schedules { interruptions: bound, limit, ..Schedules::new(self.model) };
        let found = interrupted.all(&base, run).unwrap_or_else(|error| panic!("{error}"));
        let mut traces: Vec<Trace> = found.runs.into_iter().map(|(_, trace)| trace).collect();
        for seed in 0..self.random {
            let turns = if seed % 2 == 0 { Turns::Random } else { Turns::Priorities(4) };
            let schedule = Schedule { turns, seed, ..base.clone() };
            traces.push(run(&schedule).unwrap_or_else(|error| panic!("{error}")));
        }
        let words = self.words;
        let recover = |image: &CrashImage| {
            Ok(words.iter().map(|word| image.load(data.plus(*word))).collect::<Vec<u64>>())
        };
        let judge =
            |found: &Vec<u64>, point: &CrashPoint| match (self.is_good)(found, &point.outputs) {
                true => Ok(()),
                false => Err(format!("{found:?} after {:?} outputs", point.outputs)),
            };
        let how = Search { depth: 0, ..Search::new(self.model) };
        let bad = |trace: &Trace| search(trace, &how, &check(recover, judge)).finding;
        match traces.iter().find_map(bad) {
            None => Ok(traces.len()),
            Some(finding) => Err(finding.to_string()),
        }
    }
}
