//! On a simulated machine: when flushers make a program faster, and that runs repeat exactly.

use super::scene::options;
use seawall_memory::{Addr, Memory};
use seawall_runtime::Arena;
use seawall_runtime::ribbon::{Mode, Ribbon, RibbonCounts, RibbonOptions};
use seawall_sim::{Choice, Machine, Program, SimError, SimMemory, Simulation};
use std::cell::Cell;
use std::rc::Rc;

const APPLICATIONS: u64 = 4;
const LINES: u64 = 64;

struct Run {
    cycles: u64,
    counts: RibbonCounts,
    pm: Vec<u8>,
}

/// Each thread writes its lines and makes them durable, so many times.
fn checkpoint(memory: &impl Memory, data: Addr, rounds: u64) {
    let own = data.plus(memory.thread() as u64 * LINES * 64);
    for round in 1..=rounds {
        for line in 0..LINES {
            let at = own.plus(64 * line);
            (0..8).for_each(|word| memory.store(at.plus(8 * word), round));
            memory.flush(at, 64);
        }
        memory.drain();
        memory.output(round);
    }
}

fn run(options: &RibbonOptions, rounds: u64, cycles_max: u64) -> Result<Run, SimError> {
    let machine = Machine::load("micro15").expect("it is there");
    let design = Choice::parse("clwb").expect("it is there");
    let mut arena = Arena::new();
    let ribbon = Ribbon::place(&mut arena, options).expect("good options");
    let (data, left) = (arena.pm(APPLICATIONS * LINES * 64), arena.dram(8));
    let (pm, dram) = (arena.pm_bytes() as usize, arena.dram_bytes() as usize);
    let (threads, flushers) = (options.threads, options.flushers);
    let counts = Rc::new(Cell::new(RibbonCounts::default()));
    let program = |thread: u64| -> Program {
        let (ribbon, counts) = (ribbon.clone(), counts.clone());
        Box::new(move |memory: &SimMemory<'_>| {
            if thread >= threads {
                return ribbon.serve(memory, thread - threads);
            }
            let joined = ribbon.join(memory);
            checkpoint(&joined, data, rounds);
            joined.leave();
            if memory.fetch_add(left, 1) + 1 == threads {
                counts.set(ribbon.counts(memory));
                ribbon.close(memory);
            }
        })
    };
    let programs = (0..threads + flushers).map(program).collect();
    let simulation = Simulation::new(&machine, &design, vec![0; pm], vec![0; dram]);
    let outcome = simulation.at_most(cycles_max).run(programs)?;
    let cycles = outcome.finished[..threads as usize].iter().copied().max().expect("threads");
    Ok(Run { cycles, counts: counts.get(), pm: outcome.pm })
}

fn sim_options(mode: Mode, flushers: u64) -> RibbonOptions {
    RibbonOptions { mode, fifo_lines: 1024, polls: 64, ..options(APPLICATIONS, flushers) }
}

#[test]
fn flushers_make_a_checkpoint_faster_and_the_run_repeats_exactly() {
    let with = |mode, flushers| run(&sim_options(mode, flushers), 20, u64::MAX).expect("it ends");
    let (without, first, again) =
        (with(Mode::Never, 0), with(Mode::Always, 4), with(Mode::Always, 4));
    assert_eq!((first.cycles, first.counts), (again.cycles, again.counts));
    assert_eq!(first.pm, without.pm);
    assert_eq!(first.counts.by_flushers + first.counts.by_owners, APPLICATIONS * LINES * 20);
    println!("{} {} {:?}", without.cycles, first.cycles, first.counts);
    assert!(first.cycles < without.cycles, "{} {}", first.cycles, without.cycles);
}

#[test]
fn a_run_that_is_given_up_ends_though_requests_are_pending() {
    let outcome = run(&sim_options(Mode::Always, 2), 20, 3_000);
    assert!(matches!(outcome, Err(SimError::TooLong { .. })));
}
