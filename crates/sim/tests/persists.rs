//! The latency of a lone write to persistence in cycles, for comparison with published
//! measurements.

use seawall_memory::{Memory, MemoryExt};
use seawall_sim::validation::{Scene, line_at};
use seawall_sim::{Machine, Program, SimMemory};

fn time(machine: &Machine, core: usize, program: Program) -> u64 {
    let scene = Scene::lone(machine, "clwb:adr=true").cold();
    scene.between(core, vec![(core, program)]).unwrap()
}

/// Flush and fence of a line that was stored to `work` instructions ago.
pub(crate) fn flush(machine: &Machine, core: usize, line: u64, work: u32) -> u64 {
    let program = move |memory: &SimMemory| {
        memory.store(line_at(line), 1u64);
        memory.load::<u64>(line_at(line));
        memory.work(work);
        memory.output(1);
        memory.persist(line_at(line), 8);
        memory.output(2);
    };
    time(machine, core, Box::new(program))
}

/// A non-temporal store of a line, and a fence.
pub(crate) fn stream(machine: &Machine, core: usize, line: u64) -> u64 {
    let program = move |memory: &SimMemory| {
        memory.output(1);
        memory.write_nt(line_at(line), &[1; 64]);
        memory.drain();
        memory.output(2);
    };
    time(machine, core, Box::new(program))
}
