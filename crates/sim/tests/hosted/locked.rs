//! Locked instructions that the host executes.

use super::{alone, boxed, dram, host, map, pm, words};
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_sim::{DESIGNS, Reason, SimMemory};

/// What `lock xadd` of `bytes` bytes does.
fn add(memory: &SimMemory, at: Addr, bytes: usize, by: u128) -> u128 {
    let shift = 8 * (at.bits() % 8);
    let mask = if bytes == 16 { u128::MAX } else { (1 << (8 * bytes)) - 1 };
    let [low, high] = memory.lock(at, bytes);
    let both = u128::from(low) | u128::from(high) << 64;
    let old = both >> shift & mask;
    let new = both & !(mask << shift) | (old.wrapping_add(by) & mask) << shift;
    memory.unlock(at, bytes, Some([new as u64, (new >> 64) as u64]));
    old
}

#[test]
fn locked_instructions_of_all_widths_are_atomic_under_any_design() {
    // A byte, a word across two words of a line, and two words.
    let counters = [(pm(3), 1), (pm(61 * 64 + 6), 4), (pm(128), 16), (pm(200), 8), (dram(2), 2)];
    for design in DESIGNS {
        let programs = (0..4).map(|_| {
            boxed(move |memory| {
                map(memory);
                for number in 0..60 {
                    let (at, bytes) = counters[number % counters.len()];
                    add(memory, at, bytes, if bytes == 16 { u64::MAX.into() } else { 1 });
                }
            })
        });
        let outcome = host("desktop", design.name, programs.collect()).unwrap();
        let found = words(&outcome.pm);
        assert_eq!(found[0], 48 << 24, "{}", design.name);
        assert_eq!((found[61 * 8], found[61 * 8 + 1]), (48 << 48, 0), "{}", design.name);
        let both = u128::from(found[16]) | u128::from(found[17]) << 64;
        assert_eq!(both, 48 * u128::from(u64::MAX), "{}", design.name);
        assert_eq!(found[25], 48, "{}", design.name);
        assert_eq!((outcome.counters.locked, outcome.counters.references), (240, 240));
    }
}

/// The same program, with the locked operations of the machine or of the host.
fn add_and_swap(memory: &SimMemory, by_host: bool) {
    map(memory);
    for number in 0..100 {
        let at = pm(8 * (number % 70));
        memory.store(pm(4096 + 8 * number), number);
        if by_host {
            add(memory, at, 8, 3);
        } else {
            memory.fetch_add(at, 3);
        }
    }
}

#[test]
fn the_host_and_the_machine_execute_a_locked_instruction_in_the_same_time() {
    for design in DESIGNS {
        let run = |by_host| {
            let programs = (0..4).map(|_| boxed(move |memory| add_and_swap(memory, by_host)));
            host("desktop", design.name, programs.collect()).unwrap()
        };
        assert_eq!(run(true), run(false), "{}", design.name);
    }
}

/// Compare-exchanges, of which all but the first of each word fail.
fn compare(memory: &SimMemory, by_host: bool) {
    map(memory);
    for number in 0..90 {
        let at = pm(64 * (number % 30));
        if !by_host {
            let _ = memory.compare_exchange(at, 0, 7);
            continue;
        }
        let [old, _] = memory.lock(at, 8);
        memory.unlock(at, 8, (old == 0).then_some([7, 0]));
    }
}

#[test]
fn a_comparison_that_fails_stores_nothing() {
    for design in DESIGNS {
        let run = |by_host| {
            let programs = (0..4).map(|_| boxed(move |memory| compare(memory, by_host)));
            host("desktop", design.name, programs.collect()).unwrap()
        };
        let (host, machine) = (run(true), run(false));
        assert_eq!(host.pm, machine.pm, "{}", design.name);
        let failed = host.counters.locked_failed;
        assert_eq!((failed, host.counters.locked), (330, 360), "{}", design.name);
        // What was not stored is not logged.
        assert_eq!(host.counters.log_lines, machine.counters.log_lines, "{}", design.name);
        // These two wait for what a store would wait for, before they know that there is none.
        if design.name != "strict" && !design.name.starts_with("bsp-lb") {
            assert_eq!(host, machine, "{}", design.name);
        }
    }
}

#[test]
fn nothing_passes_a_full_fence() {
    let outcome = alone("clwb", |memory| {
        memory.store(pm(0), 1u64);
        memory.full_fence();
        memory.load::<u64>(dram(0));
    });
    let overlapped = alone("clwb", |memory| {
        memory.store(pm(0), 1u64);
        memory.load::<u64>(dram(0));
    });
    let (cycles, fewer) = (outcome.cycles, overlapped.cycles);
    assert!(cycles > fewer + fewer / 2, "{cycles} with a fence, {fewer} without");
    assert!(outcome.stalls[0].get(Reason::StoreMiss) > fewer / 2, "{:?}", outcome.stalls);
}

#[test]
fn a_full_fence_forbids_what_a_store_buffer_allows() {
    let run = |fences: bool, delay: u32| {
        let seen = std::rc::Rc::new(std::cell::Cell::new([9; 2]));
        let programs = (0..2).map(|me: u64| {
            let seen = seen.clone();
            boxed(move |memory| {
                map(memory);
                (0..2).for_each(|line| _ = memory.load::<u64>(pm(64 * line)));
                memory.full_fence();
                memory.work(if me == 0 { 8000 } else { delay });
                // The store behind one that misses waits in the buffer.
                memory.store(pm(4096 * (1 + me)), 1u64);
                memory.store(pm(64 * me), 1u64);
                if fences {
                    memory.full_fence();
                }
                let other: u64 = memory.load(pm(64 * (1 - me)));
                let mut both = seen.get();
                both[me as usize] = other;
                seen.set(both);
            })
        });
        host("desktop", "clwb", programs.collect()).unwrap();
        seen.get()
    };
    let is_passed = |fences| (0..16_000).step_by(40).any(|delay| run(fences, delay) == [0, 0]);
    assert!(is_passed(false), "never");
    assert!(!is_passed(true), "in spite of the fence");
}

#[test]
#[should_panic(expected = "not within a line")]
fn a_locked_instruction_across_lines_is_refused() {
    alone("volatile", |memory| _ = memory.lock(pm(60), 8));
}
