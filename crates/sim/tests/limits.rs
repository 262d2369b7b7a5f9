//! Runs that do not end by themselves: a limit of simulated time, or a request to stop, ends them.

use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_sim::{Choice, DESIGNS, Machine, Program, SimError, SimMemory, Simulation};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn polls(memory: &SimMemory) {
    while memory.load::<u64>(Addr::dram(0)) == 0 {
        memory.work(1);
    }
}

fn simulation<'a>(machine: &'a Machine, design: &'a Choice) -> Simulation<'a> {
    Simulation::new(machine, design, vec![0; 4096], vec![0; 64])
}

#[test]
fn a_program_that_polls_for_ever_and_alone_ends_at_the_limit() {
    let machine = Machine::load("desktop").unwrap();
    for name in ["clwb", "hops", "lbpp"] {
        let design = Choice::parse(name).unwrap();
        let programs: Vec<Program> = vec![Box::new(polls)];
        let ended = simulation(&machine, &design).at_most(100_000).run(programs);
        assert!(matches!(ended, Err(SimError::TooLong { cycles: 100_000, .. })), "{name}");
    }
}

#[test]
fn a_program_that_polls_for_ever_and_alone_ends_when_asked_to() {
    let machine = Machine::load("desktop").unwrap();
    let design = Choice::parse("clwb").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let asks = stop.clone();
    let later = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        asks.store(true, Ordering::Relaxed);
    });
    let ended = simulation(&machine, &design).stopped_by(stop).run(vec![Box::new(polls)]);
    assert!(matches!(ended, Err(SimError::Stopped)));
    later.join().unwrap();
}

#[test]
fn a_run_within_the_limit_is_not_disturbed_by_what_the_machine_still_writes_then() {
    let machine = Machine::load("desktop").unwrap();
    for entry in DESIGNS {
        let design = Choice::parse(entry.name).unwrap();
        let store = |memory: &SimMemory| memory.store(Addr::pm(512), 1u64);
        let free = simulation(&machine, &design).run(vec![Box::new(store)]).unwrap();
        let limited = simulation(&machine, &design).at_most(free.cycles).run(vec![Box::new(store)]);
        assert_eq!(limited.unwrap(), free, "{}", entry.name);
    }
}

#[test]
fn each_core_of_a_run_without_an_end_is_named_with_its_call_and_what_it_waits_for() {
    let machine = Machine::load("desktop").unwrap();
    let ended = |design: &str, programs: Vec<Program>| {
        let design = Choice::parse(design).unwrap();
        simulation(&machine, &design).at_most(100_000).run(programs).unwrap_err().to_string()
    };
    let spins = line!() + 2;
    let two: Vec<Program> = vec![
        Box::new(|memory| assert_eq!(memory.spin_while(Addr::dram(8), 0), 1)),
        Box::new(|memory| memory.park()),
        Box::new(|_| {}),
    ];
    assert_eq!(
        ended("clwb", two).split_once('\n').unwrap().1,
        format!(
            "  core 0 waits until another core writes volatile line 64, at {0}:{1}\n  core 1 is \
             parked until another core unparks it, at {0}:{2}",
            file!(),
            spins,
            spins + 1
        )
    );
    let at = line!() + 2;
    let polls: Vec<Program> =
        vec![Box::new(|memory| while memory.load::<u64>(Addr::dram(0)) == 0 {})];
    let polled = ended("clwb", polls);
    assert!(polled.ends_with(&format!("finished\n  core 0 runs, at {}:{at}", file!())), "{polled}");
}
