//! Cores that compete for a few lines: each access gets the line fetched for it, so all progress.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_sim::{Choice, DESIGNS, Machine, Program, RunOutcome, SimMemory, Simulation};

/// The address of the contended line.
const WANTED: u64 = 8192;
const POINTER: u64 = 0;

fn run(machine: &Machine, design: &str, programs: Vec<Program>) -> RunOutcome {
    let design = Choice::parse(design).unwrap();
    let mut pm = vec![0; 1 << 14];
    pm[POINTER as usize..][..8].copy_from_slice(&WANTED.to_le_bytes());
    Simulation::new(machine, &design, pm, vec![0; 64])
        .at_most(20_000_000)
        .run(programs)
        .unwrap_or_else(|error| panic!("{}: {error}", design.text))
}

/// Lines fetched when core 1 stores to a line that core 0 accesses `instructions` later.
fn fetched(core_0: fn(&SimMemory), instructions: u32) -> u64 {
    let later = move |memory: &SimMemory| {
        memory.work(instructions);
        core_0(memory);
    };
    let stores = |memory: &SimMemory| memory.store(Addr::pm(WANTED), 1u64);
    let machine = Machine::load("desktop").unwrap();
    run(&machine, "volatile", vec![Box::new(later), Box::new(stores)]).counters.l1_misses
}

#[test]
fn a_line_stays_until_the_store_that_it_was_fetched_for_is_done() {
    for instructions in 0..800 {
        let store = |memory: &SimMemory| memory.store(Addr::pm(WANTED), 2u64);
        assert_eq!(fetched(store, instructions), 2, "a store {instructions} instructions later");
        let chase = |memory: &SimMemory| {
            let wanted: u64 = memory.load(Addr::pm(POINTER));
            let _: u64 = memory.load(Addr::pm(wanted));
        };
        assert_eq!(fetched(chase, instructions), 3, "a load {instructions} instructions later");
    }
}

/// 64 cores and a shared cache of 16 lines.
fn crowded() -> Machine {
    let text = seawall_sim::MACHINES[0].1.replace("count = 32", "count = 64");
    let text = text.replace("kib = 32\n", "kib = 1\n").replace("banks = 32", "banks = 1");
    Machine::parse("crowded", &text.replace("kib_per_bank = 1024", "kib_per_bank = 1")).unwrap()
}

#[test]
fn a_shared_cache_with_fewer_lines_than_cores_is_slow_but_serves_all() {
    let machine = crowded();
    for design in DESIGNS {
        let program = |core: u64| -> Program {
            Box::new(move |memory| {
                let mut rng = Xoshiro256PlusPlus::seed_from_u64(core);
                for number in 0..12u64 {
                    let line = Addr::pm(64 * (1 + rng.next_u64() % 200));
                    memory.store(line.plus(8 * (core % 8)), number);
                    memory.fetch_add(Addr::pm(WANTED * 2 - 64), 1);
                    memory.flush(line, 8);
                    memory.order();
                }
            })
        };
        let outcome = run(&machine, design.name, (0..64).map(program).collect());
        let sum =
            u64::from_le_bytes(outcome.pm[(WANTED * 2 - 64) as usize..][..8].try_into().unwrap());
        assert_eq!(sum, 64 * 12, "{}", design.name);
    }
}
