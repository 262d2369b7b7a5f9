//! After a crash and the hardware's recovery, buffered strict persistency leaves a consistent cut
//! of the run, for programs without persistency instructions.

use crate::persistency::{levels, one_by_one, tiny};
use crate::programs::{lock, unlock};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_sim::{Choice, Machine, Program, Recording, SimMemory, Simulation};
use std::cell::RefCell;
use std::rc::Rc;

const THREADS: usize = 4;
const PM_BYTES: usize = 1 << 14;

/// Stores and loads of all widths, shared counters, and transfers between accounts behind a lock.
fn perform(memory: &SimMemory, mut rng: Xoshiro256PlusPlus, steps: u32) {
    let any = |rng: &mut Xoshiro256PlusPlus| Addr::pm(2048 + rng.random_range(0..1500) * 8);
    for _ in 0..steps {
        match rng.random_range(0..100) {
            0..40 => memory.store(any(&mut rng), rng.random::<u64>()),
            40..45 => memory.store(any(&mut rng).plus(rng.random_range(0..8)), rng.random::<u8>()),
            45..50 => memory.store(any(&mut rng).plus(4), rng.random::<u32>()),
            50..75 => drop(memory.load::<u64>(any(&mut rng))),
            75..85 => drop(memory.fetch_add(Addr::pm(64 * rng.random_range(1..5)), 1)),
            85..90 => memory.work(rng.random_range(1..400)),
            _ => {
                lock(memory, Addr::pm(0));
                let [from, to] = [0, 1].map(|_| Addr::pm(512 + 8 * rng.random_range(0..64)));
                memory.store(from, memory.load::<u64>(from).wrapping_sub(1));
                memory.store(to, memory.load::<u64>(to).wrapping_add(1));
                unlock(memory, Addr::pm(0));
            }
        }
    }
}

/// Returns the number of crashes, or the violation of the first inconsistent one.
fn run(design: &str, machine: &Machine, seed: u64) -> Result<u64, String> {
    let design = Choice::parse(design).unwrap();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let pm: Vec<u8> = (0..PM_BYTES).map(|_| rng.random()).collect();
    let pm = [vec![0; 512], pm[512..].to_vec()].concat();
    let recording = Recording::new(pm.clone(), THREADS, 25.0, 4000, seed);
    let recording = Rc::new(RefCell::new(recording));
    let program = |_| {
        let rng = Xoshiro256PlusPlus::seed_from_u64(rng.random());
        Box::new(move |memory: &SimMemory| perform(memory, rng, 300)) as Program
    };
    let programs = (0..THREADS).map(program).collect();
    Simulation::new(machine, &design, pm, vec![0; 64])
        .watched_by(recording.clone())
        .run(programs)
        .map_err(|error| error.to_string())?;
    let recording = recording.borrow();
    assert!(recording.stores_in_cuts() > 0, "{}: nothing was ever durable", design.text);
    match recording.broken().first() {
        None => Ok(recording.crashes()),
        Some((cycle, what)) => Err(format!("{}, seed {seed}, {cycle}: {what}", design.text)),
    }
}

#[test]
fn every_crash_leaves_a_consistent_cut_and_the_state_of_each_processor_at_it() {
    let desktop = Machine::load("desktop").unwrap();
    for design in [
        "bsp-lb:stores=30",
        "bsp-lb-idt:stores=30",
        "bsp-lb-pf:stores=30",
        "bsp-lbpp:stores=7",
        "bsp-lbpp:stores=30:flaw='names-slowly'",
        "bsp-lbpp:stores=100",
        "bsp-lbpp:stores=30:records=3:buffers=2",
        "bsp-lbpp:stores=30:adr=true",
    ] {
        for machine in [tiny(), one_by_one(), desktop.clone(), levels(false), levels(true)] {
            let crashes =
                |seed| run(design, &machine, seed).unwrap_or_else(|what| panic!("{what}"));
            let crashes: u64 = (0..crate::persistency::runs() / 5).map(crashes).sum();
            assert!(crashes > 50, "{design}: only {crashes} crashes");
        }
    }
}

#[test]
fn each_broken_mechanism_leaves_no_cut() {
    for design in [
        "bsp-lbpp:stores=30:flaw='flushes-before-log'",
        "bsp-lbpp:stores=30:flaw='sends-headers-early'",
        "bsp-lbpp:stores=30:flaw='names-early'",
        "bsp-lbpp:stores=30:flaw='undoes-all'",
        "bsp-lbpp:stores=30:flaw='drops-dependences'",
        "bsp-lbpp:stores=30:flaw='logs-once'",
        "bsp-lbpp:stores=30:records=3:flaw='truncates-early'",
        "bsp-lbpp:stores=30:flaw='saves-states-late'",
        "bsp-lbpp:stores=30:flaw='names-in-parts'",
        "bsp-lbpp:stores=30:flaw='names-before-state'",
        "bsp-lbpp:stores=30:flaw='trusts-unnamed'",
        "bsp-lbpp:stores=30:flaw='forgets-tags'",
        "bsp-lbpp:stores=30:log=false",
    ] {
        let caught = (0..100).find_map(|seed| run(design, &tiny(), seed).err());
        println!("{caught:?}");
        assert!(caught.is_some_and(|what| !what.contains("deadlock")), "{design} was not caught");
    }
}
