//! The machine `memsys17-i7` is checked against published measurements; its file names the sources.
//!
//! Three of its numbers are the rest of a published latency after the model's own path there and
//! back is subtracted, so a change of the model must not change the sum.

use crate::persists;
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_sim::validation::Scene;
use seawall_sim::{Choice, DESIGNS, Machine, RunOutcome, SimMemory, Simulation};

/// Cycles of 51 ns, and of 42 cycles more: a load that misses in all caches (7-cpu.com).
const MISS: f64 = 42.0 + 51.0 * 3.4;
/// Nanoseconds on DRAM by FAST'20, Figure 2: a random load; store, clwb and fence; non-temporal
/// store and fence.
const LOAD_THERE: f64 = 101.0;
const FLUSH_THERE: f64 = 57.0;
const STREAM_THERE: f64 = 86.0;

fn machine() -> Machine {
    Machine::load("memsys17-i7").unwrap()
}

/// The mean over cores and over lines of every neighbourhood.
fn mean(mut cycles: impl FnMut(usize, u64) -> u64) -> f64 {
    let places = (0..4).flat_map(|core| (1..1000).step_by(37).map(move |line| (core, line)));
    let all: Vec<u64> = places.map(|(core, line)| cycles(core, line)).collect();
    all.iter().sum::<u64>() as f64 / all.len() as f64
}

fn assert_close(found: f64, expected: f64) {
    assert!((found - expected).abs() <= 2.0, "{found:.1} cycles, {expected:.1} were published");
}

#[test]
fn loads_take_what_they_were_measured_to_take_on_an_i7_6700() {
    let machine = machine();
    let scene = Scene::lone(&machine, "volatile");
    let near = mean(|core, line| scene.load(core, Addr::pm(line * 64)).unwrap());
    assert_close(near, 42.0);
    let cold = Scene::lone(&machine, "volatile").cold();
    let far = mean(|core, line| cold.load(core, Addr::pm(line * 64)).unwrap());
    assert_close(far, MISS);
}

#[test]
fn fences_wait_in_proportion_to_loads_as_they_were_measured_to_on_dram() {
    let machine = machine();
    assert_close(
        mean(|core, line| persists::flush(&machine, core, line, 4000)),
        MISS * FLUSH_THERE / LOAD_THERE,
    );
    assert_close(
        mean(|core, line| persists::stream(&machine, core, line)),
        MISS * STREAM_THERE / LOAD_THERE,
    );
}

fn run_under(
    machine: &Machine,
    design: &str,
    program: impl Fn(&SimMemory) + 'static,
) -> RunOutcome {
    let design = Choice::parse(design).unwrap();
    let simulation = Simulation::new(machine, &design, vec![0; 1 << 23], vec![0; 64]).cold();
    simulation.run(vec![Box::new(program)]).unwrap()
}

fn run(machine: &Machine, program: impl Fn(&SimMemory) + 'static) -> RunOutcome {
    run_under(machine, "clwb:adr=true", program)
}

#[test]
fn stores_that_run_through_memory_find_their_lines_fetched_ahead_and_random_ones_do_not() {
    let with = machine();
    let without = Machine { prefetch: None, ..with.clone() };
    let walk = |step: u64| {
        move |memory: &SimMemory| {
            for number in 0..2048 {
                let line = number * step % 131_071;
                memory.store(Addr::pm(line * 64), number);
                memory.work(400);
            }
            memory.drain();
        }
    };
    let (ahead, alone) = (run(&with, walk(1)), run(&without, walk(1)));
    assert_eq!((alone.counters.llc_misses, alone.counters.prefetched_lines), (2048, 0));
    assert_eq!(ahead.counters.llc_misses, 2 * 32, "the first two of each page");
    assert_eq!(ahead.counters.llc_misses + ahead.counters.prefetched_lines, 2048);
    assert_eq!(ahead.pm, alone.pm);
    let (ahead, alone) = (run(&with, walk(52_711)), run(&without, walk(52_711)));
    assert!(ahead.counters.llc_misses * 10 > alone.counters.llc_misses * 9);
}

#[test]
fn what_is_fetched_ahead_never_displaces_what_a_design_still_needs() {
    let small = |prefetch| {
        let mut machine = Machine { prefetch, ..machine() };
        machine.llc.kib_per_bank = 16;
        machine
    };
    let (with, without) = (small(machine().prefetch), small(None));
    for design in DESIGNS {
        let walk = |memory: &SimMemory| {
            for number in 0..4096u64 {
                let line = number % 2048;
                memory.store(Addr::pm(line * 64), number);
                memory.flush(Addr::pm(line * 64), 8);
                if number % 16 == 0 {
                    memory.order();
                }
            }
            memory.drain();
        };
        let (ahead, alone) =
            (run_under(&with, design.name, walk), run_under(&without, design.name, walk));
        assert_eq!(ahead.pm, alone.pm, "{}", design.name);
        assert!(ahead.counters.prefetched_lines > 500, "{}", design.name);
        assert!(ahead.counters.llc_misses < alone.counters.llc_misses, "{}", design.name);
    }
}

#[test]
fn a_program_sees_the_counters_of_its_machine_grow() {
    let outcome = run(&machine(), |memory| {
        let before = memory.counters();
        memory.store(Addr::pm(64), 1u64);
        let since = memory.counters().since(&before);
        assert_eq!((since.stores, since.loads), (1, 0));
    });
    assert_eq!(outcome.counters.stores, 1);
}
