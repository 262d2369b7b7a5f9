//! Detail changes nothing, and says the same as what is counted and what a timeline shows.

use crate::programs::{lock, unlock};
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_sim::validation::line_at;
use seawall_sim::{
    Choice, DESIGNS, HostSpace, Latencies, Machine, Program, RunDetail, RunOutcome, SimMemory,
    Simulation, Stalls, TimelineWindow, WriteQueue,
};
use std::collections::BTreeMap;

const LOCK: Addr = Addr::dram(0);
const DRAINS: u64 = 100;

/// Threads that flush and drain lines of their own and common ones.
fn program(memory: &SimMemory) {
    let thread = memory.thread() as u64;
    for n in 0..DRAINS {
        lock(memory, LOCK);
        memory.store(Addr::pm(64 * (n % 7)), n);
        memory.flush(Addr::pm(64 * (n % 7)), 8);
        memory.order();
        unlock(memory, LOCK);
        for line in 0..6 {
            let at = Addr::pm(4096 * (1 + (n * 7 + line + 50 * thread) % 251));
            memory.store(at, n);
            memory.flush(at, 8);
        }
        memory.drain();
        memory.load::<u64>(Addr::pm(4096 * (1 + n * 5 % 251) + 64));
        memory.work(40);
    }
}

fn simulation<'a>(machine: &'a Machine, design: &'a Choice) -> Simulation<'a> {
    Simulation::new(machine, design, vec![0; 1 << 21], vec![0; 4096]).cold()
}

fn programs() -> Vec<Program> {
    (0..3).map(|_| Box::new(program) as Program).collect()
}

fn detail(outcome: &RunOutcome) -> &RunDetail {
    outcome.detail.as_ref().expect("it was asked for")
}

/// The cycles that entries had their places in each queue, as the timeline has them.
fn entry_cycles(outcome: &RunOutcome) -> BTreeMap<WriteQueue, u64> {
    let mut sums = BTreeMap::new();
    for entry in &outcome.timeline.as_ref().expect("it was asked for").entries {
        let within = entry.left.min(outcome.cycles).saturating_sub(entry.accepted);
        *sums.entry(entry.queue).or_default() += within;
    }
    sums
}

#[test]
fn detail_changes_nothing_and_is_what_counters_and_timelines_say() {
    for machine in ["desktop", "optane24"].map(|name| Machine::load(name).unwrap()) {
        for entry in DESIGNS {
            let design = Choice::parse(entry.name).unwrap();
            let plain = simulation(&machine, &design).run(programs()).unwrap();
            let with = simulation(&machine, &design)
                .with_detail()
                .with_timeline(TimelineWindow::ALL, 64 << 20)
                .run(programs())
                .unwrap();
            let without = RunOutcome { timeline: None, detail: None, ..with.clone() };
            assert!(plain == without, "{}", entry.name);
            let found = detail(&with);
            let stalls: Vec<Stalls> = found.cores.iter().map(|core| core.stalls).collect();
            assert_eq!(stalls, with.stalls, "{}", entry.name);
            let cycles: Vec<u64> = found.cores.iter().map(|core| core.cycles).collect();
            assert_eq!(cycles, with.finished, "{}", entry.name);
            let issued: u64 = found.cores.iter().map(|core| core.instructions).sum();
            assert_eq!(issued, with.counters.instructions, "{}", entry.name);
            assert_eq!(found.drains.count, 3 * DRAINS, "{}", entry.name);
            assert_eq!(found.fences.count, 6 * DRAINS, "{}", entry.name);
            let flushes = if design.needs_flushes() { 7 * DRAINS } else { 0 };
            let fences = 2 * DRAINS;
            for core in &found.cores {
                assert_eq!((core.flushes, core.fences), (flushes, fences), "{}", entry.name);
            }
            let queues: BTreeMap<WriteQueue, u64> =
                found.write_queues.iter().map(|(name, it)| (*name, it.entry_cycles)).collect();
            let mut shown = entry_cycles(&with);
            shown.retain(|queue, cycles| *cycles > 0 || queues.contains_key(queue));
            assert_eq!(queues, shown, "{}", entry.name);
        }
    }
}

#[test]
fn no_queue_has_more_than_its_entries_and_persist_buffers_fill_up() {
    let machine = Machine::load("desktop").unwrap();
    for (design, entries) in [
        ("hops:entries=4:flush_from=4", Some(4)),
        ("asap:entries=4", Some(4)),
        ("dpo:entries=4", Some(4)),
        ("bbb:entries=4", Some(4)),
        ("clwb", None),
        ("lbpp", None),
    ] {
        let design = Choice::parse(design).unwrap();
        let run = simulation(&machine, &design).with_detail().run(programs()).unwrap();
        let found = detail(&run);
        let most = found.write_queues.iter().map(|(_, queue)| queue.max).max().unwrap();
        let room = machine.memory.write_queue as u64;
        assert!((2..=room).contains(&most), "{}: {most} of {room}", design.text);
        let buffers = found.persist_buffers.iter().map(|buffer| buffer.max);
        assert_eq!(found.persist_buffers.len(), entries.map_or(0, |_| 3), "{}", design.text);
        assert_eq!(buffers.max(), entries, "{}", design.text);
        for buffer in &found.persist_buffers {
            let mean = buffer.entry_cycles as f64 / run.cycles as f64;
            assert!(mean > 0.0 && mean < 4.0, "{}: {mean}", design.text);
        }
    }
}

#[test]
fn a_lone_load_persist_and_drain_take_what_the_run_takes() {
    let machine = Machine::load("micro15").unwrap();
    let design = Choice::parse("clwb").unwrap();
    let run = |program: fn(&SimMemory)| {
        let programs: Vec<Program> = vec![Box::new(program)];
        simulation(&machine, &design).with_detail().run(programs).unwrap()
    };
    let once = |cycles| Latencies {
        count: 1,
        sum: cycles,
        p50: cycles,
        p90: cycles,
        p99: cycles,
        max: cycles,
    };
    let load = run(|memory| assert_eq!(memory.load::<u64>(line_at(77)), 0));
    assert_eq!(detail(&load).load_misses, once(load.cycles));
    let store = run(|memory| {
        memory.store(line_at(77), 1u64);
        memory.flush(line_at(77), 8);
        memory.drain();
    });
    let found = detail(&store);
    assert_eq!(found.drains, once(store.cycles), "it waits for the store, too");
    assert_eq!((found.persists.count, found.load_misses.count), (1, 0));
    // The flush follows the store, and the drain hears of the write when it is durable.
    let persist = found.persists.max;
    assert!(persist > machine.memory.nvm.write && persist < store.cycles, "{persist}");
}

#[test]
fn detail_is_of_the_region_that_programs_mark() {
    let machine = Machine::load("desktop").unwrap();
    let design = Choice::parse("hops").unwrap();
    let drains = |memory: &SimMemory, count: u64| {
        for n in 0..count {
            memory.store(Addr::from_bits(0x1000_0000 + 64 * (n % 50)), n);
            memory.drain();
        }
    };
    let program: Program = Box::new(move |memory| {
        memory.map(0x1000_0000, true, &[]);
        drains(memory, 30);
        memory.roi_begin();
        drains(memory, 7);
        memory.roi_end();
        drains(memory, 20);
    });
    let space = HostSpace { pm_bytes: 1 << 20, dram_bytes: 1 << 20 };
    let run = Simulation::of_host(&machine, &design, space).with_detail().run(vec![program]);
    let run = run.unwrap();
    let found = detail(&run);
    assert_eq!((found.drains.count, found.fences.count, found.persists.count), (7, 7, 7));
    assert_eq!(found.cores[0].fences, 7);
    assert_eq!(found.cores[0].instructions, run.counters.instructions);
    assert!(found.persist_buffers[0].entry_cycles <= run.cycles, "{found:?} {}", run.cycles);
    assert!(found.drains.sum <= run.cycles, "{found:?} {}", run.cycles);
}
