//! Small programs that several tests run.

use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_sim::{Choice, Machine, Program, RunOutcome, Simulation};

/// Runs `threads` copies of `program` on a machine with 64 KiB of each memory.
pub(crate) fn run_on(
    machine: &str,
    design: &str,
    threads: usize,
    program: fn(&seawall_sim::SimMemory),
) -> RunOutcome {
    let machine = Machine::load(machine).unwrap();
    let design = Choice::parse(design).unwrap();
    let programs = (0..threads).map(|_| Box::new(program) as Program).collect();
    let memory = || vec![0; 1 << 16];
    Simulation::new(&machine, &design, memory(), memory()).run(programs).unwrap()
}

/// Takes a test-and-set lock in DRAM.
pub(crate) fn lock(memory: &impl Memory, at: Addr) {
    while memory.swap(at, 1) != 0 {
        memory.spin_while(at, 1);
    }
}

/// Releases it.
pub(crate) fn unlock(memory: &impl Memory, at: Addr) {
    memory.store(at, 0u64);
}
