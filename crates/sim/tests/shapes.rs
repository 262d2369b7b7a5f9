//! The curves have the shape that their parts imply, and every cycle has the right reason.

use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_sim::validation::{Lines, Paths, Scene, line_at};
use seawall_sim::{Machine, Program, Reason, RunOutcome, SimMemory};
use std::cmp::Reverse;

/// micro15 with so little shared cache that a test can overflow it: 64 KiB in all.
fn small() -> Machine {
    let mut machine = Machine::load("micro15").unwrap();
    machine.core.width = 16;
    machine.llc.kib_per_bank = 2;
    machine
}

#[test]
fn a_pointer_chase_has_a_plateau_for_each_level_at_the_latency_of_its_path() {
    let machine = small();
    let paths = Paths::new(&machine);
    let scene = Scene { machine: machine.clone(), design: "volatile".into(), lines: 0, cold: true };
    let chase = |kib: u64| scene.chase(kib * 16, 1).unwrap();
    let l1 = paths.l1_load() as f64;
    for kib in [1, 8, 32] {
        assert_eq!(chase(kib), l1, "{kib} KiB");
    }
    let read = machine.memory.nvm.read;
    let memory = Paths::mean(4096 * 16, |line| paths.memory_load(0, line + 1, read));
    for kib in [1024, 4096] {
        let off = chase(kib) / memory - 1.0;
        assert!(off.abs() < 0.02, "{kib} KiB: {} cycles, not {memory:.1}", chase(kib));
    }
    let mut between = machine.clone();
    between.llc.kib_per_bank = 128;
    let scene = Scene { machine: between.clone(), ..scene };
    let paths = Paths::new(&between);
    for kib in [256, 1024] {
        let found = scene.chase(kib * 16, 1).unwrap();
        let cache = Paths::mean(kib * 16, |line| paths.llc_load(0, line + 1));
        assert!((found - cache).abs() < 0.01, "{kib} KiB: {found} cycles, not {cache:.1}");
    }
}

#[test]
fn a_longer_footprint_is_never_faster() {
    let machine = small();
    let scene = Scene { machine, design: "volatile".into(), lines: 0, cold: true };
    let found: Vec<f64> = (4..14).map(|power| scene.chase(1 << power, 3).unwrap()).collect();
    assert!(found.windows(2).all(|pair| pair[1] >= 0.99 * pair[0]), "{found:?}");
}

#[test]
fn the_more_lines_a_fence_waits_for_the_less_each_costs_down_to_the_pace_of_memory() {
    let machine = Machine::load("micro15").unwrap();
    let paths = Paths::new(&machine);
    for design in ["clwb", "clwb:adr=true", "lb", "lbpp", "epoch"] {
        let scene = Scene::lone(&machine, design);
        let mut lines = Lines::balanced(2048, 4, |line| Some(paths.controller(line)), 64).list;
        lines.sort_by_key(|line| Reverse(paths.persist(0, *line, false)));
        let each = |count: usize| scene.persist(0, &lines[..count]).unwrap() as f64 / count as f64;
        let found: Vec<f64> = [1, 2, 4, 8, 16, 32].into_iter().map(each).collect();
        assert!(found.windows(2).all(|pair| pair[1] < pair[0]), "{design}: {found:?}");
        assert!(found[5] < found[0] / 8.0, "{design}: {found:?}");
        if design != "clwb:adr=true" {
            let pace = paths.write_pace(4);
            assert!(found[5] > pace, "{design}: {found:?}");
        }
    }
}

#[test]
fn the_more_cores_share_a_line_the_slower_it_is_to_write() {
    let machine = Machine::load("micro15").unwrap();
    let scene = Scene::lone(&machine, "volatile");
    let time = |sharers: usize| {
        let others: Vec<usize> = (1..=sharers).collect();
        scene.upgrade(0, 7, &others).unwrap()
    };
    let found: Vec<u64> = [0, 1, 4, 12, 31].into_iter().map(time).collect();
    assert!(
        found.is_sorted() && found[0] == machine.l1.latency && found[4] > found[1],
        "{found:?}"
    );
}

fn run(design: &str, cold: bool, programs: Vec<fn(&SimMemory)>) -> RunOutcome {
    let machine = Machine::load("micro15").unwrap();
    let scene = Scene { machine, design: design.into(), lines: 4096, cold };
    let boxed = |(core, program): (usize, fn(&SimMemory))| (core, Box::new(program) as Program);
    scene.run(programs.into_iter().enumerate().map(boxed).collect()).unwrap()
}

/// The reason with the most stalled cycles on core 0.
fn most(outcome: &RunOutcome) -> &'static str {
    let most = Reason::ALL.into_iter().max_by_key(|reason| outcome.stalls[0].get(*reason));
    most.unwrap().name()
}

fn loads(memory: &SimMemory) {
    for line in 0..1000 {
        memory.load::<u64>(line_at(line));
    }
}

fn stores(memory: &SimMemory) {
    for line in 0..1000 {
        memory.store(line_at(line), line);
    }
}

fn persists(memory: &SimMemory) {
    for line in 0..50 {
        memory.store(line_at(line), line);
        memory.persist(line_at(line), 8);
    }
}

fn adds(memory: &SimMemory) {
    for _ in 0..100 {
        memory.fetch_add(line_at(1), 1);
    }
}

fn waits_for_a_flag(memory: &SimMemory) {
    memory.spin_while(Addr::dram(0), 0);
}

fn works_and_sets_the_flag(memory: &SimMemory) {
    memory.work(40_000);
    memory.store(Addr::dram(0), 1u64);
}

fn writes_a_line_over_and_over(memory: &SimMemory) {
    for number in 0..50u64 {
        memory.store(line_at(3), number);
        memory.order();
    }
}

fn one_line_an_epoch(memory: &SimMemory) {
    for line in 0..200 {
        memory.store(line_at(line), line);
        memory.order();
    }
}

fn stores_and_works(memory: &SimMemory) {
    memory.store(line_at(9), 7u64);
    memory.order();
    memory.work(20_000);
}

fn reads_it_later(memory: &SimMemory) {
    memory.work(8_000);
    memory.load::<u64>(line_at(9));
}

#[test]
fn stalled_cycles_go_to_the_reason_that_caused_them() {
    let alone = |design, cold, program| most(&run(design, cold, vec![program]));
    assert_eq!(alone("volatile", false, loads), "load_llc");
    assert_eq!(alone("volatile", true, loads), "load_memory");
    assert_eq!(alone("volatile", false, stores), "store_miss");
    assert_eq!(alone("volatile", false, adds), "locked");
    assert_eq!(alone("clwb", false, persists), "fence");
    assert_eq!(alone("strict", false, stores), "write_through");
    assert_eq!(alone("lb", false, writes_a_line_over_and_over), "intra_conflict");
    assert_eq!(alone("lb", false, one_line_an_epoch), "epoch_ids");
    let waiting: Vec<fn(&SimMemory)> = vec![waits_for_a_flag, works_and_sets_the_flag];
    assert_eq!(most(&run("volatile", false, waiting)), "lock");
    let conflict: Vec<fn(&SimMemory)> = vec![reads_it_later, stores_and_works];
    let outcome = run("lb", false, conflict.clone());
    assert!(outcome.stalls[0].get(Reason::InterConflict) > 400, "{:?}", outcome.stalls[0]);
    let tracked = run("lb-idt", false, conflict);
    assert_eq!(tracked.stalls[0].get(Reason::InterConflict), 0, "the dependence is noted instead");
    let written: Vec<fn(&SimMemory)> = vec![|memory| memory.work(1000), loads];
    let idle = run("volatile", true, written);
    assert_eq!(most(&idle), "idle");
}

#[test]
fn busy_and_stalled_cycles_add_up_to_the_time_of_each_core() {
    // Cycles without a stall are issue cycles: instructions over the width, less slots lost at
    // stalls.
    type Case = (&'static str, fn(&SimMemory), u64);
    let cases: [Case; 4] = [
        ("volatile", loads, 1001),
        ("volatile", stores, 1001),
        ("clwb", persists, 151),
        ("strict", stores, 1001),
    ];
    for (design, program, instructions) in cases {
        let outcome = run(design, true, vec![program, program, stores_and_works]);
        for (core, stalls) in outcome.stalls.iter().enumerate() {
            assert_eq!(outcome.finished[core] + stalls.get(Reason::Idle), outcome.cycles);
            assert!(stalls.total() <= outcome.cycles, "{design}, core {core}");
        }
        for core in 0..2 {
            let busy = outcome.cycles - outcome.stalls[core].total();
            assert!(busy <= instructions / 4 + 1, "{design}, core {core}: {busy} busy");
        }
        let working = outcome.cycles - outcome.stalls[2].total();
        assert!(working.abs_diff(20_000 / 4) <= 2, "{design}: {working} busy");
    }
}
