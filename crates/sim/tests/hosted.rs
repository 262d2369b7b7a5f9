//! Programs that are compiled code, as a front end drives the machine for them.

use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_sim::{
    Choice, HostSpace, Machine, Observer, Program, RunOutcome, SimError, SimMemory, Simulation,
};
use std::cell::RefCell;
use std::rc::Rc;

mod accesses;
mod cuts;
mod locked;
mod pages;
mod region;
mod threads;

const SPACE: HostSpace = HostSpace { pm_bytes: 1 << 20, dram_bytes: 1 << 20 };
const PAGE: u64 = 4096;
/// Where these tests have pages of the host.
const PM: u64 = 0x1000_0000_0000;
const DRAM: u64 = 0x7f12_3456_7000;

/// The address that is `offset` bytes into the persistent pages.
fn pm(offset: u64) -> Addr {
    Addr::from_bits(PM + offset)
}

/// The address that is `offset` bytes into the volatile pages.
fn dram(offset: u64) -> Addr {
    Addr::from_bits(DRAM + offset)
}

/// Maps four pages of each kind, unless they are mapped.
fn map(memory: &SimMemory) {
    if !memory.is_mapped(pm(0)) {
        for page in 0..4 {
            memory.map(PM + page * PAGE, true, &[]);
            memory.map(DRAM + page * PAGE, false, &[]);
        }
    }
}

fn boxed(program: impl FnOnce(&SimMemory) + 'static) -> Program {
    Box::new(program)
}

/// The program of a core that no thread runs on.
fn idle() -> Program {
    Box::new(|memory| memory.park())
}

/// Runs `programs` in host addresses.
fn host(machine: &str, design: &str, programs: Vec<Program>) -> Result<RunOutcome, SimError> {
    let (machine, design) = (Machine::load(machine).unwrap(), Choice::parse(design).unwrap());
    Simulation::of_host(&machine, &design, SPACE).at_most(100_000_000).run(programs)
}

/// Runs one program on the desktop machine.
fn alone(design: &str, program: impl FnOnce(&SimMemory) + 'static) -> RunOutcome {
    let program = boxed(move |memory| {
        map(memory);
        program(memory);
    });
    host("desktop", design, vec![program]).unwrap()
}

/// Words of an image.
fn words(pm: &[u8]) -> Vec<u64> {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    pm.chunks_exact(8).map(word).collect()
}

/// As [`host`], under an observer.
fn watched<T: Observer + 'static>(
    (machine, design): (&Machine, &str),
    observer: T,
    programs: Vec<Program>,
) -> (RunOutcome, Rc<RefCell<T>>) {
    let (design, observer) = (Choice::parse(design).unwrap(), Rc::new(RefCell::new(observer)));
    let outcome = Simulation::of_host(machine, &design, SPACE)
        .watched_by(observer.clone())
        .at_most(100_000_000)
        .run(programs);
    (outcome.unwrap(), observer)
}

#[test]
fn a_program_of_the_host_and_one_of_the_machine_take_the_same_time() {
    let steps = |memory: &SimMemory, at: fn(u64) -> Addr| {
        let base = 512 * memory.thread() as u64;
        for number in 0..200 {
            memory.store(at(base + 8 * (number % 64)), number);
            memory.load::<u32>(at(64 * (number % 100)));
            memory.fetch_add(at(8192), 1);
            memory.flush(at(base + 8 * (number % 64)), 8);
            memory.order();
        }
    };
    let space = HostSpace { pm_bytes: 4 * PAGE, dram_bytes: 4 * PAGE };
    let machine = Machine::load("desktop").unwrap();
    for entry in seawall_sim::DESIGNS {
        let design = Choice::parse(entry.name).unwrap();
        let hosted = (0..4).map(|_| {
            boxed(move |memory| {
                map(memory);
                steps(memory, pm);
            })
        });
        let hosted = Simulation::of_host(&machine, &design, space).run(hosted.collect()).unwrap();
        let ordinary = (0..4).map(|_| boxed(move |memory| steps(memory, Addr::pm)));
        // The pages are mapped when the caches have been filled.
        let run = Simulation::new(&machine, &design, vec![0; 4 * PAGE as usize], vec![]).cold();
        assert!(hosted == run.run(ordinary.collect()).unwrap(), "{}", entry.name);
    }
}
