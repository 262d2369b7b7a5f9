//! Crashes of programs of the host leave consistent cuts, whatever their instructions.

use super::{DRAM, PAGE, PM, boxed, pm, watched};
use crate::persistency::{levels, runs, tiny};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_memory::MemoryExt;
use seawall_sim::{Machine, Recording, SimMemory};

const THREADS: usize = 4;

/// Stores, loads and locked instructions of all kinds, on pages that are mapped when one touches
/// them.
fn perform(memory: &SimMemory, seed: u64) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    for _ in 0..250 {
        let (page, line) = (rng.random_range(0..4), rng.random_range(0..12));
        let start = PAGE * page + 64 * line;
        if !memory.is_mapped(pm(start)) {
            let contents: Vec<u8> = (0..PAGE).map(|_| rng.random()).collect();
            memory.map(PM + PAGE * page, true, &contents);
            memory.map(DRAM + PAGE * page, false, &contents);
        }
        let at = pm(start + rng.random_range(0..49));
        let aligned = pm(start + 8 * rng.random_range(0..7));
        match rng.random_range(0..100) {
            0..25 => memory.store(aligned, rng.random::<u64>()),
            25..35 => memory.store_bytes(at, rng.random_range(1..9), rng.random()),
            35..45 => memory.store_words(pm(start), &[rng.random(); 8], &[u64::MAX; 8]),
            45..50 => memory.frame(aligned, 1, rng.random_range(1..9), rng.random()),
            50..65 => _ = memory.load_bytes(at, rng.random_range(1..9)),
            65..70 => memory.load_words(pm(start), &mut [0; 8]),
            70..80 => {
                let [old, _] = memory.lock(aligned, 8);
                memory.unlock(aligned, 8, Some([old + 1, 0]));
            }
            80..85 => {
                memory.lock(aligned, 16);
                memory.unlock(aligned, 16, Some([rng.random(), rng.random()]));
            }
            85..95 => {
                memory.lock(at, 4);
                memory.unlock(at, 4, None);
            }
            _ => memory.full_fence(),
        }
    }
}

/// Returns the number of crashes, or the violation of the first inconsistent one.
fn run(design: &str, machine: &Machine, seed: u64) -> Result<u64, String> {
    let recording = Recording::new(vec![], THREADS, 25.0, 4000, seed);
    let program = |thread| boxed(move |memory| perform(memory, 100 * seed + thread));
    let programs = (0..THREADS as u64).map(program).collect();
    let (_, recording) = watched((machine, design), recording, programs);
    let recording = recording.borrow();
    assert!(recording.stores_in_cuts() > 0, "{design}: nothing was ever durable");
    match recording.broken().first() {
        None => Ok(recording.crashes()),
        Some((cycle, what)) => Err(format!("{design}, seed {seed}, {cycle}: {what}")),
    }
}

#[test]
fn every_crash_of_a_program_of_the_host_leaves_a_consistent_cut() {
    let desktop = Machine::load("desktop").unwrap();
    for design in [
        "bsp-lb:stores=30",
        "bsp-lb-idt:stores=30",
        "bsp-lbpp:stores=7",
        "bsp-lbpp:stores=30",
        "bsp-lbpp:stores=30:records=3:buffers=2",
    ] {
        for machine in [tiny(), desktop.clone(), levels(false), levels(true)] {
            let crashes =
                |seed| run(design, &machine, seed).unwrap_or_else(|what| panic!("{what}"));
            let crashes: u64 = (0..runs() / 5).map(crashes).sum();
            assert!(crashes > 50, "{design}: only {crashes} crashes");
        }
    }
}

#[test]
fn a_broken_mechanism_leaves_no_cut_of_a_program_of_the_host() {
    for flaw in ["names-early", "logs-once", "drops-dependences", "flushes-before-log"] {
        let design = format!("bsp-lbpp:stores=30:flaw='{flaw}'");
        let caught = (0..100).find_map(|seed| run(&design, &tiny(), seed).err());
        assert!(caught.is_some(), "{design} was not caught");
    }
}
