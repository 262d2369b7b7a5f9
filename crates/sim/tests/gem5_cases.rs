//! The four cases of persistency in which a stock full-system simulator (gem5 24.0) drops a write,
//! aborts, or answers alike for every device; see `validation/gem5.md`.

use seawall_memory::{Memory, MemoryExt};
use seawall_sim::validation::{Paths, Scene, line_at};
use seawall_sim::{Choice, Machine, Program, RunOutcome, SimMemory, Simulation};

const BUCKETS: u64 = 256;
const UPDATES: u64 = 200;

/// A racy table of one-line buckets: each update is two stores, each made durable if `flushes`.
fn update_buckets(memory: &SimMemory, flushes: bool) {
    let mut random = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(memory.thread() as u64 + 1);
    for number in 0..UPDATES {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let bucket = line_at(1 + (random >> 20) % BUCKETS);
        for field in [8, 0] {
            memory.store(bucket.plus(field), number);
            if flushes {
                memory.flush(bucket, 64);
            }
            memory.drain();
        }
    }
}

fn table(threads: usize, flushes: bool) -> RunOutcome {
    let machine = Machine::load("micro15").unwrap();
    let scene = Scene { machine, design: "clwb".into(), lines: BUCKETS + 1, cold: false };
    let program = move |memory: &SimMemory| update_buckets(memory, flushes);
    scene.run((0..threads).map(|core| (core, Box::new(program) as Program)).collect()).unwrap()
}

#[test]
fn clwb_is_not_dropped() {
    for threads in [1, 4] {
        let (with, without) = (table(threads, true), table(threads, false));
        assert!(with.cycles > 2 * without.cycles, "{} and {}", with.cycles, without.cycles);
        assert_eq!(without.counters.flushes, 0);
        assert!(with.counters.line_writes > threads as u64 * UPDATES);
    }
}

#[test]
fn one_core_that_flushes_runs_and_pays_for_the_path_of_each_flush() {
    let machine = Machine::load("micro15").unwrap();
    let line = 5;
    let program = move |memory: &SimMemory| {
        for number in 0..100u64 {
            memory.store(line_at(line), number);
            memory.flush(line_at(line), 8);
            memory.drain();
        }
    };
    let scene = Scene::lone(&machine, "clwb");
    let outcome = scene.run(vec![(0, Box::new(program))]).unwrap();
    let paths = Paths::new(&machine);
    // The first store must fetch its line.
    let expected =
        paths.llc_load(0, line) + 100 * (paths.own_store() + paths.persist(0, line, false));
    let off = outcome.cycles.abs_diff(expected);
    assert!(off <= 100, "{} cycles, the paths add up to {expected}", outcome.cycles);
    assert_eq!(outcome.counters.flushes, 100);
}

#[test]
fn many_threads_that_flush_shared_lines_run_to_the_end_with_the_right_values() {
    const SHARED: u64 = 8;
    const ADDS: u64 = 40;
    let machine = Machine::load("micro15").unwrap();
    for design in ["clwb", "clwb:adr=true"] {
        for threads in [4, 32] {
            let program = |memory: &SimMemory| {
                let own = 8 * (1 + memory.thread() as u64 % 7);
                for number in 1..=ADDS {
                    let line = line_at(1 + (number + memory.thread() as u64) % SHARED);
                    memory.fetch_add(line, 1);
                    memory.store(line.plus(own), number);
                    memory.persist(line, 64);
                }
            };
            let choice = Choice::parse(design).unwrap();
            let programs = (0..threads).map(|_| Box::new(program) as Program).collect();
            let outcome = Simulation::new(&machine, &choice, vec![0; 4096], vec![0; 64])
                .at_most(10_000_000)
                .run(programs)
                .unwrap();
            let word = |line: u64| {
                let at = (line * 64) as usize;
                u64::from_le_bytes(outcome.pm[at..at + 8].try_into().unwrap())
            };
            let sum: u64 = (1..=SHARED).map(word).sum();
            assert_eq!(sum, threads as u64 * ADDS, "{design}, {threads} threads");
        }
    }
}

#[test]
fn the_latency_of_a_persist_is_that_of_the_device_unless_the_queue_is_safe() {
    let machine = Machine::load("micro15").unwrap();
    let mut slow = machine.clone();
    slow.memory.nvm.write += 1000;
    let persist = |machine, design| Scene::lone(machine, design).persist(0, &[9]).unwrap();
    let (device, slower) = (persist(&machine, "clwb"), persist(&slow, "clwb"));
    assert_eq!(slower, device + 1000);
    let adr = persist(&machine, "clwb:adr=true");
    assert_eq!(adr + machine.memory.nvm.write, device);
    assert_eq!(persist(&slow, "clwb:adr=true"), adr);
}
