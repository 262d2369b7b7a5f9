//! On a simulated machine: when flushers make a program faster, that they are left alone when they
//! do not, and that runs repeat exactly.
//!
//! Under `clwb` here a flush costs its thread nothing and only the fence waits, so pushing requests
//! through memory cannot win; what can is having lines clean before the program asks.

use super::scene::options;
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_ribbon::{EarlyStores, Mode, Ribbon, RibbonCounts, RibbonMemory, RibbonOptions};
use seawall_runtime::Arena;
use seawall_sim::{Choice, Machine, Program, SimError, SimMemory, Simulation};
use std::cell::Cell;
use std::rc::Rc;

/// Threads that compute and write lines, and make all of them durable at the end of a round.
#[derive(Clone, Copy)]
struct Checkpoint {
    threads: u64,
    lines: u64,
    rounds: u64,
    /// Instructions for each line.
    work: u32,
    /// Instructions before each thread's begin, times its number.
    skew: u32,
}

pub(super) struct Run {
    pub(super) cycles: u64,
    pub(super) counts: RibbonCounts,
    pub(super) pm: Vec<u8>,
}

/// Runs a program on the threads of a Ribbon on a machine under clwb. Its data is as long as said.
pub(super) fn simulate(
    machine: &Machine,
    options: &RibbonOptions,
    bytes: u64,
    cycles_max: u64,
    program: impl Fn(&RibbonMemory<'_, &SimMemory<'_>>, Addr) + Copy + 'static,
) -> Result<Run, SimError> {
    let design = Choice::parse("clwb").expect("it is there");
    let mut arena = Arena::new();
    let ribbon = Ribbon::place(&mut arena, options).expect("good options");
    let (data, left, threads) = (arena.pm(bytes), arena.dram(8), options.threads);
    let (pm, dram) = (arena.pm_bytes() as usize, arena.dram_bytes() as usize);
    let counts = Rc::new(Cell::new(RibbonCounts::default()));
    let thread = |thread: u64| -> Program {
        let (ribbon, counts) = (ribbon.clone(), counts.clone());
        Box::new(move |memory: &SimMemory<'_>| {
            if thread >= threads {
                return ribbon.serve(memory, thread - threads);
            }
            let joined = ribbon.join(memory);
            program(&joined, data);
            joined.leave();
            if memory.fetch_add(left, 1) + 1 == threads {
                counts.set(ribbon.counts(memory));
                ribbon.close(memory);
            }
        })
    };
    let programs = (0..threads + options.flushers).map(thread).collect();
    let simulation = Simulation::new(machine, &design, vec![0; pm], vec![0; dram]);
    let outcome = simulation.at_most(cycles_max).run(programs)?;
    let cycles = outcome.finished[..threads as usize].iter().copied().max().expect("threads");
    Ok(Run { cycles, counts: counts.get(), pm: outcome.pm })
}

impl Checkpoint {
    fn program(self, memory: &impl Memory, data: Addr) {
        let own = data.plus(memory.thread() as u64 * self.lines * 64);
        memory.work(self.skew * memory.thread() as u32);
        for round in 1..=self.rounds {
            for line in 0..self.lines {
                let at = own.plus(64 * line);
                (0..8).for_each(|word| memory.store(at.plus(8 * word), round));
                memory.work(self.work);
            }
            memory.persist(own, self.lines * 64);
            memory.output(round);
        }
    }

    fn run(self, options: &RibbonOptions, cycles_max: u64) -> Result<Run, SimError> {
        // Stores overlap, as on the cores that a Ribbon is for; with one in flight, as in the
        // machine's file, trials with hooks cost 2.5 %.
        let machine = Machine::load("micro15").expect("it is there");
        let machine = machine.with("overlapping", &[("core.stores_in_flight".into(), 32.into())]);
        let machine = machine.expect("stores may overlap");
        let bytes = self.threads * self.lines * 64;
        simulate(&machine, options, bytes, cycles_max, move |memory, data| {
            self.program(memory, data);
        })
    }

    fn with(self, mode: Mode, flushers: u64, early: EarlyStores) -> Run {
        let options = RibbonOptions {
            fifo_lines: 1024,
            chunk: 8,
            owner_words: 1 << 12,
            polls: 64,
            mode,
            early,
            ..options(self.threads, flushers)
        };
        self.run(&options, u64::MAX).expect("it ends")
    }
}

#[test]
fn a_checkpoint_is_faster_when_lines_are_cleaned_while_it_computes() {
    let checkpoint = Checkpoint { threads: 4, lines: 256, rounds: 20, work: 400, skew: 0 };
    let (plain, early) = (
        checkpoint.with(Mode::Never, 0, EarlyStores::None),
        checkpoint.with(Mode::Never, 1, EarlyStores::Hook),
    );
    assert_eq!(plain.pm, early.pm);
    assert!(early.cycles < plain.cycles, "{} against {}", early.cycles, plain.cycles);
    let all = checkpoint.threads * checkpoint.lines * checkpoint.rounds;
    assert_eq!(early.counts.skipped + early.counts.inline, all);
    assert!(early.counts.skipped > all / 2, "{:?}", early.counts);
}

/// What auto costs against doing without a Ribbon, given that it tries another way and keeps its
/// own; then what the other way costs if `mode` insists on it. Threads that begin together run in
/// step, and a few cycles between them decide whether their flushes meet: 2 % for the whole run,
/// with a Ribbon and without. So the first is the median of runs whose threads begin one after the
/// other.
fn price_of_auto(flushers: u64, early: EarlyStores, mode: Mode) -> (f64, f64) {
    let checkpoint = |skew| Checkpoint { threads: 4, lines: 16, rounds: 6_000, work: 100, skew };
    let plain = |skew| checkpoint(skew).with(Mode::Never, 0, EarlyStores::None).cycles as f64;
    let mut ratios = [0, 333, 700, 1_000, 5_000].map(|skew| {
        let Run { cycles, counts, .. } = checkpoint(skew).with(Mode::Auto, flushers, early);
        let tried = if early == EarlyStores::None { counts.pushed } else { counts.handed_on };
        assert!(tried > 0 && tried < counts.inline / 10, "{counts:?}");
        assert_eq!(counts.switches, 0, "{counts:?}");
        cycles as f64 / plain(skew)
    });
    ratios.sort_by(f64::total_cmp);
    (ratios[2], checkpoint(0).with(mode, flushers, early).cycles as f64 / plain(0))
}

#[test]
fn flushers_that_do_not_pay_are_left_alone() {
    let (auto, always) = price_of_auto(4, EarlyStores::None, Mode::Always);
    assert!(auto < 1.02, "{auto}");
    assert!(always > 1.0, "else this shows nothing");
}

#[test]
fn skipping_that_does_not_pay_is_left_alone_and_stores_cost_nothing_then() {
    let (auto, always) = price_of_auto(4, EarlyStores::Hook, Mode::Always);
    assert!(auto < 1.02, "{auto}");
    assert!(always > 1.02, "else this shows nothing: {always}");
}

/// A record costs far more than what a clean line saves.
#[test]
fn samples_that_do_not_pay_are_left_alone() {
    let (auto, always) = price_of_auto(1, EarlyStores::Samples { every: 64 }, Mode::Never);
    assert!(auto < 1.02, "{auto}");
    assert!(always > 1.1, "else this shows nothing: {always}");
}

#[test]
fn runs_with_flushers_repeat_exactly_and_leave_the_same_memory() {
    let checkpoint = Checkpoint { threads: 2, lines: 64, rounds: 100, work: 20, skew: 0 };
    let (first, again) = (
        checkpoint.with(Mode::Always, 3, EarlyStores::Hook),
        checkpoint.with(Mode::Always, 3, EarlyStores::Hook),
    );
    assert_eq!((first.cycles, first.counts), (again.cycles, again.counts));
    assert_eq!(first.pm, checkpoint.with(Mode::Never, 0, EarlyStores::None).pm);
    assert!(first.counts.pushed > 0 && first.counts.cleaned > 0, "{:?}", first.counts);
}

#[test]
fn the_number_of_flushers_is_estimated_again_and_again_and_exactly_so() {
    let checkpoint = Checkpoint { threads: 4, lines: 64, rounds: 200, work: 100, skew: 0 };
    let options = RibbonOptions {
        fifo_lines: 1024,
        chunk: 8,
        polls: 64,
        period: 40_000,
        window: 5_000,
        ..options(4, 6)
    };
    let run = || checkpoint.run(&options, u64::MAX).expect("it ends");
    let (first, again) = (run(), run());
    assert_eq!((first.cycles, first.counts), (again.cycles, again.counts));
    assert!(first.counts.rate > 0, "{:?}", first.counts);
    assert!((1..=6).contains(&first.counts.active), "{:?}", first.counts);
}

#[test]
fn a_run_that_is_given_up_ends_though_requests_are_pending() {
    let checkpoint = Checkpoint { threads: 2, lines: 64, rounds: 1_000, work: 20, skew: 0 };
    let outcome = checkpoint.run(&options(2, 2), 50_000);
    assert!(
        matches!(outcome, Err(SimError::TooLong { .. })),
        "{:?}",
        outcome.map(|run| run.cycles)
    );
}
