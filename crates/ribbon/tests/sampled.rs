//! Lines that are cleaned early because a counter of the thread sampled a store to them.

use super::explored::{ORDERED, scene};
use super::scene::{Program, options};
use super::simulated::{Run, simulate};
use seawall_explore::Model;
use seawall_memory::{Addr, Image, Memory, MemoryExt};
use seawall_ribbon::{
    EarlyStores, FlusherStep, Mode, Ribbon, RibbonFlaw, RibbonMemory, RibbonOptions, SAMPLE_EVERY,
    SAMPLE_EVERY_MAX,
};
use seawall_runtime::Arena;
use seawall_sim::{Machine, SimMemory};
use std::collections::BTreeSet;

const LINES: u64 = 2048;

fn sampling(every: u32, options: RibbonOptions) -> RibbonOptions {
    RibbonOptions { early: EarlyStores::Samples { every }, ..options }
}

fn place(every: u32) -> (Image, Ribbon, Addr) {
    let mut arena = Arena::new();
    let options = RibbonOptions { mode: Mode::Never, ..sampling(every, options(1, 1)) };
    let ribbon = Ribbon::place(&mut arena, &options).expect("good options");
    let data = arena.pm(64 * LINES);
    (Image::new(arena.pm_bytes(), arena.dram_bytes()), ribbon, data)
}

#[test]
fn sampled_lines_are_cleaned_and_no_flush_is_left_out() {
    let (image, ribbon, data) = place(1);
    let memory = ribbon.join(&image);
    let mut flusher = ribbon.flusher(&image, 0);
    memory.store(data, 1u64);
    memory.write(data.plus(64 + 60), &[2; 10]);
    memory.write_nt(data.plus(64 * 4), &[3; 128]);
    assert_eq!(flusher.step(), FlusherStep::Flushed(5), "lines 0, 1, 2, 4 and 5");
    memory.persist(data, 64 * 6);
    memory.leave();
    let counts = ribbon.counts(&image);
    assert_eq!((counts.handed_on, counts.cleaned), (5, 5));
    assert_eq!((counts.skipped, counts.inline, counts.asked()), (0, 6, 6));
}

/// Which lines of a loop of 16 stores are sampled, and how many stores of all.
fn sampled_of_a_loop(every: u32) -> (BTreeSet<u64>, u64) {
    let (image, ribbon, data) = place(every);
    let memory = ribbon.join(&image);
    let mut flusher = ribbon.flusher(&image, 0);
    let mut lines = BTreeSet::new();
    for round in 0..LINES {
        for line in 0..16 {
            let handed_on = || ribbon.counts(&image).handed_on;
            let before = handed_on();
            memory.store(data.plus(64 * line), round);
            if handed_on() > before {
                lines.insert(line);
            }
            flusher.step();
        }
        memory.persist(data, 16 * 64);
    }
    (lines, ribbon.counts(&image).handed_on)
}

#[test]
fn about_one_store_of_so_many_is_sampled_and_no_line_of_a_loop_is_hidden() {
    for every in [1, 2, 5, 16, 64] {
        let (lines, samples) = sampled_of_a_loop(every);
        let mean = 16 * LINES / u64::from(every);
        assert!(samples.abs_diff(mean) <= mean / 20, "{samples} of {mean}, every {every}");
        assert_eq!(lines.len(), 16, "every {every}");
    }
}

#[test]
fn lines_that_are_rewritten_before_a_fence_are_cleaned_ever_more_rarely() {
    let (image, ribbon, data) = place(2);
    let memory = ribbon.join(&image);
    let mut flusher = ribbon.flusher(&image, 0);
    for round in 0..2000 {
        memory.store(data.plus(64 * (round % 2)), round);
        flusher.step();
    }
    memory.leave();
    let counts = ribbon.counts(&image);
    assert!(counts.cleaned < 20 && counts.in_vain + 2 >= counts.cleaned, "{counts:?}");
}

#[test]
fn a_flusher_that_does_not_come_loses_samples_and_nothing_else() {
    let (image, ribbon, data) = place(1);
    let memory = ribbon.join(&image);
    (0..LINES).for_each(|line| memory.store(data.plus(64 * line), 1u64));
    memory.persist(data, 64 * LINES);
    memory.leave();
    let counts = ribbon.counts(&image);
    assert_eq!((counts.handed_on, counts.cleaned, counts.inline), (256, 0, LINES));
}

#[test]
fn names_of_stores_read_as_they_are_written() {
    for text in ["none", "hook", "samples", "samples:1", "samples:1000"] {
        assert_eq!(text.parse::<EarlyStores>().unwrap().to_string(), text);
    }
    let every = SAMPLE_EVERY;
    assert_eq!(format!("samples:{every}").parse(), Ok(EarlyStores::Samples { every }));
    let most = SAMPLE_EVERY_MAX + 1;
    for text in ["", "true", "samples:", "samples:0", &format!("samples:{most}")] {
        let why = text.parse::<EarlyStores>().unwrap_err().to_string();
        assert!(why.contains(&format!("'{text}'")) && why.contains("samples:1 to "), "{why}");
    }
}

#[test]
fn whatever_is_cleaned_early_the_program_keeps_its_promises() {
    for model in [Model::Px86, Model::Bep] {
        for (every, threads) in [(1, 1), (2, 1), (1, 2)] {
            let outcome = scene(sampling(every, options(threads, 1)), model, ORDERED).explore();
            let runs = outcome.unwrap_or_else(|bad| panic!("{model} {every} {threads}: {bad}"));
            assert!(runs > 200, "{runs}");
        }
    }
}

/// The second of two lines is never flushed.
const FORGETFUL: Program = |memory, data, _| {
    memory.store(data, 1u64);
    memory.store(data.plus(64), 1u64);
    memory.persist(data, 8);
    memory.output(1);
};

#[test]
fn a_flush_that_is_missing_and_a_flusher_that_is_wrong_are_found_all_the_same() {
    let wrong = [
        (RibbonFlaw::None, FORGETFUL),
        (RibbonFlaw::DoneBeforeFence, ORDERED),
        (RibbonFlaw::WaitsForClaims, ORDERED),
    ];
    for (flaw, program) in wrong {
        let options = RibbonOptions { flaw, ..sampling(1, options(1, 1)) };
        let outcome = scene(options, Model::Px86, program).explore();
        assert!(outcome.is_err(), "{flaw:?} was not caught in {outcome:?} runs");
    }
}

/// Threads that compute and store a word to each of many lines, and make all of them durable at the
/// end of a round, on DIMMs that take long to write: each line is on an XPLine of its own.
#[derive(Clone, Copy)]
struct Scattered {
    lines: u64,
    rounds: u64,
    /// Instructions for each line.
    work: u32,
    skew: u32,
    /// Says for itself that nothing is to be sampled.
    is_off: bool,
}

const THREADS: u64 = 4;

impl Scattered {
    fn program(self, memory: &RibbonMemory<'_, &SimMemory<'_>>, data: Addr) {
        if self.is_off {
            memory.set_early(false);
        }
        let own = data.plus(memory.thread() as u64 * self.lines * 256);
        memory.work(self.skew * memory.thread() as u32);
        for round in 1..=self.rounds {
            for line in 0..self.lines {
                memory.store(own.plus(256 * line), round);
                memory.work(self.work);
            }
            (0..self.lines).for_each(|line| memory.flush(own.plus(256 * line), 8));
            memory.drain();
        }
    }

    fn run(self, mode: Mode, early: EarlyStores) -> Run {
        let mut machine = Machine::load("optane24").expect("it is there");
        machine.memory.nvm.dimms.as_mut().expect("DIMMs").count = 1;
        let options = RibbonOptions {
            fifo_lines: 1024,
            chunk: 8,
            owner_words: 1 << 12,
            polls: 64,
            mode,
            early,
            ..options(THREADS, 1)
        };
        let bytes = THREADS * self.lines * 256;
        simulate(&machine, &options, bytes, u64::MAX, move |memory, data| {
            self.program(memory, data);
        })
        .expect("it ends")
    }
}

#[test]
fn rounds_are_shorter_when_samples_have_lines_cleaned_while_threads_compute() {
    let scattered = Scattered { lines: 256, rounds: 20, work: 2000, skew: 0, is_off: false };
    let samples = EarlyStores::Samples { every: 1 };
    let plain = scattered.run(Mode::Never, EarlyStores::None);
    let sampled = scattered.run(Mode::Never, samples);
    assert_eq!(plain.pm, sampled.pm);
    let all = THREADS * scattered.lines * scattered.rounds;
    let counts = sampled.counts;
    assert_eq!((counts.skipped, counts.inline), (0, all), "no flush is left out");
    assert!(counts.cleaned > all * 9 / 10, "{counts:?}");
    let gain = plain.cycles as f64 / sampled.cycles as f64;
    assert!(gain > 1.15, "{gain}");
    let again = scattered.run(Mode::Never, samples);
    assert_eq!((again.cycles, again.counts), (sampled.cycles, sampled.counts));
    let off = Scattered { is_off: true, ..scattered }.run(Mode::Never, samples);
    // An idle flusher looks at a word more, which may move others by a cycle.
    let change = off.cycles.abs_diff(plain.cycles);
    assert!(off.counts.handed_on == 0 && change < plain.cycles / 10_000, "{change}");
}
