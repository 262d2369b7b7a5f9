//! Crashes while the logs go from one generation to the next, again and again: what the halves say
//! of each other is never taken for damage, by one thread or two.

use crate::script::NAME;
use seawall_explore::{
    CrashImage, CrashPoint, Model, Schedule, Search, Trace, Traced, Turns, check, record, search,
};
use seawall_memory::{Addr, Image, Memory};
use seawall_runtime::{Heap, HeapError, HeapOptions};

const ROUNDS: u64 = 8;
/// Words that a transaction writes: three fit a half of the log.
const WORDS: u64 = 150;

fn options(threads: u64) -> HeapOptions {
    HeapOptions {
        bytes: 1 << 16,
        threads,
        log_bytes: 4096,
        root_bytes: 2 * 8 * WORDS,
        ..HeapOptions::default()
    }
}

fn part(heap: &Heap, thread: u64) -> Addr {
    heap.root().plus(8 * WORDS * thread)
}

/// Each round writes its number everywhere. Thread 1 joins anew each time, thread 0 only once.
fn program(memory: &Traced<'_>, heap: &Heap) {
    let part = part(heap, memory.thread() as u64);
    let mut session = heap.join(memory);
    for round in 1..=ROUNDS {
        if memory.thread() == 1 {
            session = heap.join(memory);
        }
        let bytes = round.to_le_bytes().repeat(WORDS as usize);
        let written = session.redo(|tx| tx.write(part, &bytes));
        written.unwrap_or_else(|error: HeapError| panic!("{error}"));
        memory.output(round - 1);
    }
}

fn run(threads: usize, schedule: &Schedule) -> Trace {
    let options = options(threads as u64);
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let heap = Heap::create(&image, NAME, 7, &options).expect("good options");
    let schedule = Schedule { threads, ..schedule.clone() };
    record(image, &schedule, move |memory| program(memory, &heap)).expect("it ends")
}

/// The first bad image of a run.
fn explore(threads: usize, trace: &Trace, how: &Search) -> Option<String> {
    let bytes = options(threads as u64).pm_bytes();
    let recover = |image: &CrashImage<'_>| {
        let (heap, _) = Heap::open(image, NAME, bytes).map_err(|error| error.to_string())?;
        (0..threads as u64).map(|thread| round_of(image, part(&heap, thread))).collect()
    };
    let judge = |rounds: &Vec<u64>, point: &CrashPoint| {
        let mut of_threads = rounds.iter().zip(&point.outputs);
        match of_threads.find(|(round, done)| !(**done..=**done + 1).contains(*round)) {
            None => Ok(()),
            Some((round, done)) => Err(format!("round {round} after {done}")),
        }
    };
    search(trace, how, &check(recover, judge)).finding.map(|finding| finding.to_string())
}

fn round_of(image: &CrashImage<'_>, part: Addr) -> Result<u64, String> {
    let words: Vec<u64> = (0..WORDS).map(|word| image.load(part.plus(8 * word))).collect();
    match words.iter().all(|word| *word == words[0]) {
        true => Ok(words[0]),
        false => Err("a transaction is torn".to_owned()),
    }
}

#[test]
fn no_crash_makes_the_halves_of_a_log_disagree() {
    let trace = run(1, &Schedule::default());
    for model in Model::all() {
        let how = Search { depth: 1, budget: 20_000, samples: 20, ..Search::new(model) };
        assert_eq!(explore(1, &trace, &how), None, "{model}");
    }
}

#[test]
fn no_crash_makes_the_halves_of_two_logs_disagree() {
    let how = Search { depth: 0, budget: 3_000, samples: 20, ..Search::new(Model::Px86) };
    for seed in 0..12 {
        let turns = if seed % 2 == 0 { Turns::Random } else { Turns::Priorities(3) };
        let trace = run(2, &Schedule { turns, seed, ..Schedule::default() });
        assert_eq!(explore(2, &trace, &how), None, "{seed}");
    }
}

#[test]
fn a_thread_that_joins_anew_goes_on_where_its_log_was() {
    let options = options(2);
    let image = Image::new(options.pm_bytes(), options.dram_bytes());
    let heap = Heap::create(&image, NAME, 7, &options).expect("good options");
    for round in 1..=10 * ROUNDS {
        let bytes = round.to_le_bytes().repeat(WORDS as usize);
        let written = heap.join(&image).redo(|tx| tx.write(part(&heap, 0), &bytes));
        written.unwrap_or_else(|error: HeapError| panic!("{error}"));
        let crashed = Image::from_pm(image.clone().into_pm(), options.dram_bytes());
        let (_, recovered) = Heap::open(&crashed, NAME, options.pm_bytes()).expect("whole");
        assert_eq!(recovered.replayed, if round <= 6 { round } else { 4 + (round - 7) % 3 });
    }
}
