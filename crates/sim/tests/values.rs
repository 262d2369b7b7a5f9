//! The simulated machine is a memory: programs read the right values under every design.

use crate::programs::{lock, run_on, unlock};
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_sim::{DESIGNS, SimMemory};

fn word(pm: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(pm[at..at + 8].try_into().unwrap())
}

fn increment_under_a_lock(memory: &SimMemory) {
    for _ in 0..50 {
        lock(memory, Addr::dram(0));
        let count: u64 = memory.load(Addr::pm(128));
        memory.work(3);
        memory.store(Addr::pm(128), count + 1);
        memory.flush(Addr::pm(128), 8);
        memory.order();
        unlock(memory, Addr::dram(0));
    }
}

#[test]
fn a_lock_excludes_and_no_increment_is_lost_under_any_design() {
    for design in DESIGNS {
        let outcome = run_on("micro15", design.name, 32, increment_under_a_lock);
        assert_eq!(word(&outcome.pm, 128), 32 * 50, "{}", design.name);
    }
}

fn add_and_store_own_slot(memory: &SimMemory) {
    let slot = Addr::pm(1024 + 512 * memory.thread() as u64);
    for number in 0..300u64 {
        memory.fetch_add(Addr::pm(64), 1);
        memory.store(slot.plus(8 * (number % 64)), number);
        memory.store(slot.plus(4), number as u32);
        assert_eq!(memory.load::<u32>(slot.plus(4)), number as u32);
        if number % 10 == 9 {
            memory.drain();
        }
    }
}

#[test]
fn locked_adds_and_stores_of_all_widths_hold_under_any_design() {
    for design in DESIGNS {
        let outcome = run_on("desktop", design.name, 4, add_and_store_own_slot);
        assert_eq!(word(&outcome.pm, 64), 4 * 300, "{}", design.name);
        assert_eq!(word(&outcome.pm, 1024 + 8 * 63), 255, "{}", design.name);
    }
}

#[test]
fn the_same_input_gives_the_same_outcome() {
    for design in DESIGNS {
        let run = || run_on("micro15", design.name, 8, increment_under_a_lock);
        assert_eq!(run(), run(), "{}", design.name);
    }
}

#[test]
fn stalled_cycles_never_exceed_the_run_time() {
    for design in DESIGNS {
        let outcome = run_on("micro15", design.name, 8, increment_under_a_lock);
        for stalls in &outcome.stalls {
            assert!(stalls.total() <= outcome.cycles, "{}", design.name);
        }
    }
}
