//! Non-temporal stores: through the write-combining buffer, in whole lines if possible.

use crate::programs::run_on;
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_sim::validation::{Paths, Scene, line_at};
use seawall_sim::{Choice, Machine, Program, Reason, RunOutcome, SimMemory, Simulation};

const LINES: [u64; 4] = [1, 77, 300, 901];

/// Cycles from the first output to the last of a program of core 2 on a lone machine.
fn cycles(scene: &Scene, program: impl Fn(&SimMemory) + 'static) -> u64 {
    let program = move |memory: &SimMemory| {
        memory.output(1);
        program(memory);
        memory.output(2);
    };
    scene.between(2, vec![(2, Box::new(program) as Program)]).unwrap()
}

fn run_one(machine: &Machine, design: &str, program: impl Fn(&SimMemory) + 'static) -> RunOutcome {
    let design = Choice::parse(design).unwrap();
    let simulation = Simulation::new(machine, &design, vec![0; 1 << 16], vec![0; 64]).cold();
    simulation.run(vec![Box::new(program)]).unwrap()
}

#[test]
fn a_line_past_the_caches_takes_the_way_to_memory_and_back_and_no_read() {
    for machine in ["micro15", "desktop"].map(|name| Machine::load(name).unwrap()) {
        let paths = Paths::new(&machine);
        for (design, adr) in [("clwb", false), ("clwb:adr=true", true)] {
            let scene = Scene::lone(&machine, design).cold();
            for line in LINES {
                for bytes in [8, 64] {
                    let found = cycles(&scene, move |memory| {
                        memory.write_nt(line_at(line), &vec![1; bytes]);
                        memory.drain();
                    });
                    // A full line leaves at once, the rest with the fence one cycle later; with ADR
                    // the acknowledgement that frees the entry can be one cycle ahead on the same
                    // link.
                    let least = paths.persist(2, line, adr) + u64::from(bytes < 64);
                    let most = least + u64::from(adr);
                    let what = format!("{design}, line {line}, {bytes} bytes: {found}");
                    assert!((least..=most).contains(&found), "{what}, not {least} to {most}");
                }
            }
        }
    }
}

#[test]
fn a_partial_write_takes_the_slot_of_a_full_one() {
    let machine = Machine::load("micro15").unwrap();
    let write = |bytes: usize| {
        run_one(&machine, "clwb", move |memory| {
            for line in 1..400 {
                memory.write_nt(line_at(line), &vec![1; bytes]);
            }
            memory.drain();
        })
    };
    let (whole, part) = (write(64), write(8));
    assert_eq!((whole.counters.combined_lines, whole.counters.partial_lines), (399, 0));
    assert_eq!((part.counters.combined_lines, part.counters.partial_lines), (399, 399));
    assert_eq!(whole.counters.line_writes, part.counters.line_writes);
    assert_eq!(part.counters.stores_nt, 399);
}

#[test]
fn eight_stores_to_a_line_leave_as_one_write_and_a_fence_between_them_makes_two() {
    let write = |fence: bool| {
        let machine = Machine::load("desktop").unwrap();
        run_one(&machine, "clwb", move |memory| {
            for word in 0..8u64 {
                memory.write_nt(Addr::pm(64 + 8 * word), &word.to_le_bytes());
                if fence && word == 3 {
                    memory.order();
                }
            }
        })
    };
    assert_eq!(write(false).counters.combined_lines, 1);
    let two = write(true);
    assert_eq!((two.counters.combined_lines, two.counters.partial_lines), (2, 2));
    assert_eq!(two.pm[64 + 8 * 7], 7);
    assert_eq!(two.counters.llc_misses, 0, "no line was read");
}

#[test]
fn a_line_as_one_leaves_as_one_write_even_where_older_stores_fill_it() {
    let machine = Machine::load("desktop").unwrap();
    for older in [0, 7, 8] {
        let outcome = run_one(&machine, "clwb", move |memory| {
            let line = |number: u64| Addr::pm(64 * number);
            memory.write_nt(line(1).plus(64 - 8 * older), &vec![1; 8 * older as usize]);
            memory.write_line(line(1), [2; 8]);
            for number in 2..20 {
                memory.write_line(line(number), [number; 8]);
            }
            memory.drain();
        });
        // A line that is full leaves at once.
        let lines = 19 + u64::from(older == 8);
        let counters = &outcome.counters;
        assert_eq!((counters.combined_lines, counters.partial_lines), (lines, 0), "{older}");
        assert_eq!(counters.stores_nt, 19 + older);
        assert_eq!(outcome.pm[64..72], 2u64.to_le_bytes(), "{older}");
        assert_eq!(outcome.pm[120..128], 2u64.to_le_bytes(), "{older}");
    }
}

#[test]
fn more_lines_than_places_wait_for_the_oldest_to_be_taken() {
    let mut machine = Machine::load("micro15").unwrap();
    let mut waits = |places: usize, lines: u64| {
        machine.core.write_combining = places;
        let outcome = run_one(&machine, "clwb", move |memory| {
            for line in 1..=lines {
                memory.write_nt(line_at(line), &[1; 8]);
            }
            memory.drain();
        });
        let fence = outcome.stalls[0].get(Reason::WriteCombining);
        (outcome.counters.combined_lines, fence)
    };
    let (four, five, six) = (waits(4, 4), waits(4, 5), waits(6, 5));
    assert_eq!((four.0, five.0, six.0), (4, 5, 5));
    assert!(five.1 > six.1 + 50, "the fifth line waits: {five:?}, {six:?}");
}

#[test]
fn a_line_that_is_cached_anywhere_is_taken_out_and_its_dirty_bytes_go_along() {
    let machine = Machine::load("desktop").unwrap();
    let design = Choice::parse("clwb").unwrap();
    let at = Addr::pm(640);
    let owner: Program = Box::new(move |memory| {
        memory.store(at.plus(8), 5u64);
        memory.drain();
        memory.store(Addr::dram(0), 1u64);
        memory.spin_while(Addr::dram(64), 0);
        assert_eq!(memory.load::<u64>(at), 9, "its own copy is gone");
        assert_eq!(memory.load::<u64>(at.plus(8)), 5);
    });
    let writer: Program = Box::new(move |memory| {
        memory.spin_while(Addr::dram(0), 0);
        memory.write_nt(at, &9u64.to_le_bytes());
        memory.drain();
        memory.store(Addr::dram(64), 1u64);
    });
    let memory = || vec![0; 1 << 12];
    let outcome =
        Simulation::new(&machine, &design, memory(), memory()).run(vec![owner, writer]).unwrap();
    assert_eq!(outcome.counters.line_writes, 1, "one write has both");
    assert_eq!(outcome.counters.llc_misses, 1, "the owner reads it from memory again");
}

#[test]
fn a_core_sees_its_own_non_temporal_stores_and_orders_them_with_plain_ones() {
    for design in ["clwb", "volatile", "eadr", "lbpp", "strict"] {
        let outcome = run_on("desktop", design, 1, |memory| {
            let at = Addr::pm(128);
            memory.write_nt(at, &1u64.to_le_bytes());
            assert_eq!(memory.load::<u64>(at), 1);
            memory.write_nt(at, &2u64.to_le_bytes());
            memory.store(at.plus(8), 3u64);
            memory.write_nt(at.plus(8), &4u64.to_le_bytes());
            assert_eq!(memory.fetch_add(at, 10), 2);
            let mut words = [0; 16];
            memory.read(at, &mut words);
            assert_eq!((words[0], words[8]), (12, 4));
            memory.write_nt(at.plus(3), &[7; 6]);
        });
        assert_eq!(outcome.pm[128..144], [12, 0, 0, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0, 0, 0, 0]);
    }
}

#[test]
fn a_reader_that_waits_for_a_store_nobody_fences_sees_it_in_the_end() {
    let machine = Machine::load("desktop").unwrap();
    let design = Choice::parse("clwb").unwrap();
    let writer: Program = Box::new(|memory| {
        memory.write_nt(Addr::pm(64), &1u64.to_le_bytes());
        memory.spin_while(Addr::dram(0), 0);
    });
    let reader: Program = Box::new(|memory| {
        memory.spin_while(Addr::pm(64), 0);
        memory.store(Addr::dram(0), 1u64);
    });
    let memory = || vec![0; 1 << 12];
    let simulation = Simulation::new(&machine, &design, memory(), memory());
    simulation.run(vec![writer, reader]).unwrap();
}

#[test]
fn a_machine_without_the_buffer_stores_and_flushes() {
    let mut machine = Machine::load("desktop").unwrap();
    machine.core.write_combining = 0;
    let outcome = run_one(&machine, "clwb", |memory| {
        memory.write_nt(Addr::pm(64), &[1; 64]);
        memory.drain();
    });
    assert_eq!((outcome.counters.stores_nt, outcome.counters.combined_lines), (0, 0));
    assert_eq!((outcome.counters.flushes, outcome.counters.llc_misses), (1, 1));
}

#[test]
fn where_the_time_went_adds_up_with_non_temporal_stores_too() {
    let machine = Machine::load("micro15").unwrap();
    let outcome = run_one(&machine, "clwb", |memory| {
        for line in 1..200 {
            memory.write_nt(line_at(line), &[1; 72]);
            if line % 10 == 0 {
                memory.drain();
            }
        }
        memory.drain();
    });
    let stalls = outcome.stalls[0];
    assert!(stalls.get(Reason::WriteCombining) > 0 && stalls.get(Reason::Fence) > 0);
    assert!(stalls.total() < outcome.cycles, "{stalls:?} in {} cycles", outcome.cycles);
}
