//! The toy against which the simulator's speed is measured runs the same programs, in the same
//! order each time.

use seawall_memory::{Addr, Memory, MemoryExt, Width};
use seawall_sim::{Choice, DESIGNS, Machine, Program, RunOutcome, Simulation};

const LOCK: Addr = Addr::dram(0);
const COUNT: Addr = Addr::pm(64);
const LAST: Addr = Addr::pm(128);

/// Each of `threads` threads adds to a word under a lock, and notes who came last.
fn run(threads: usize) -> RunOutcome {
    let machine = Machine::load("desktop").unwrap();
    let program = |_| -> Program {
        Box::new(|memory| {
            for _ in 0..100 {
                while memory.compare_exchange(LOCK, 0, 1).is_err() {
                    memory.spin_while(LOCK, 1);
                }
                let count: u64 = memory.load(COUNT);
                memory.store(COUNT, count + 1);
                memory.store_bits(LAST.plus(3), Width::B1, memory.thread() as u64);
                memory.swap(LOCK, 0);
                memory.work(10);
            }
        })
    };
    let toy = Choice::toy();
    let simulation = Simulation::new(&machine, &toy, vec![0; 256], vec![0; 64]);
    simulation.run((0..threads).map(program).collect()).unwrap()
}

#[test]
fn the_toy_runs_programs_in_one_exact_order() {
    let outcome = run(4);
    assert_eq!(outcome.pm[64..72], 400u64.to_le_bytes());
    assert!(outcome.pm[131] < 4 && outcome.pm[132] == 0);
    assert!(outcome.counters.references > 4 * 100 * 5);
    assert_eq!(outcome, run(4));
    assert_eq!(run(1).counters.references, 100 * 5, "alone, nothing is tried twice");
}

#[test]
fn the_toy_is_no_design() {
    assert!(Choice::parse("toy").is_err() && DESIGNS.iter().all(|entry| entry.name != "toy"));
}
