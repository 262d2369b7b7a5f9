//! Private second levels, and a machine whose only shared part is a directory.

use crate::hops::word;
use crate::persistency::{levels, tiny};
use crate::programs::run_on;
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_sim::validation::{Paths, Scene, line_at};
use seawall_sim::{Choice, L2Config, Machine, Program, Reason, RunOutcome, SimMemory, Simulation};

/// Lines that both private levels of the small machines hold together.
const LINES: u64 = 32;

fn run(machine: &Machine, design: &str, programs: Vec<Program>) -> RunOutcome {
    let design = Choice::parse(design).unwrap();
    let simulation = Simulation::new(machine, &design, vec![0; 1 << 14], vec![0; 64]);
    simulation.cold().run(programs).unwrap()
}

fn machines() -> [Machine; 2] {
    ["hops17", "asap22"].map(|name| Machine::load(name).unwrap())
}

#[test]
fn what_left_the_first_level_comes_back_from_the_second() {
    for machine in machines() {
        let scene = Scene::lone(&machine, "volatile");
        for line in [3, 77] {
            let expected = Paths::new(&machine).l2_load();
            assert_eq!(scene.load_far(1, line).unwrap(), expected, "line {line}");
        }
    }
}

#[test]
fn what_neither_level_has_is_asked_for_after_both_were_looked_through() {
    for machine in machines() {
        let scene = Scene::lone(&machine, "volatile").cold();
        let paths = Paths::new(&machine);
        for line in [1, 300, 901] {
            let expected = paths.memory_load(1, line, machine.memory.nvm.read);
            assert_eq!(scene.load(1, line_at(line)).unwrap(), expected, "line {line}");
            let expected = paths.transfer(0, line, 2);
            assert_eq!(scene.transfer(0, line, 2).unwrap(), expected, "line {line}");
        }
    }
    let machine = Machine::load("asap22").unwrap();
    let scene = Scene::lone(&machine, "volatile");
    assert_eq!(scene.load(3, line_at(9)).unwrap(), Paths::new(&machine).llc_load(3, 9));
}

/// Loads `lines` lines, one after the other, round after round.
fn rounds(lines: u64, rounds: u64) -> Program {
    Box::new(move |memory| {
        for number in 0..lines * rounds {
            memory.load::<u64>(line_at(number % lines));
            memory.drain();
        }
    })
}

#[test]
fn two_levels_hold_as_many_lines_as_both_together() {
    for directory_only in [false, true] {
        let outcome = run(&levels(directory_only), "volatile", vec![rounds(LINES, 8)]);
        assert_eq!(outcome.counters.l1_misses, LINES, "each line is asked for once");
        assert_eq!(outcome.counters.l2_hits, 7 * LINES, "in turn, none is in the first level");
        let more = run(&levels(directory_only), "volatile", vec![rounds(LINES + 8, 8)]);
        assert!(more.counters.l1_misses > LINES + 8, "{}", more.counters.l1_misses);
    }
    assert_eq!(run(&tiny(), "volatile", vec![rounds(LINES, 8)]).counters.l2_hits, 0);
}

#[test]
fn a_core_that_waits_for_its_second_level_says_so() {
    let mut slow = levels(false);
    slow.l2 = slow.l2.map(|l2| L2Config { latency: 900, ..l2 });
    let waits = |lines| {
        let program: Program = Box::new(move |memory| {
            for number in 0..8 * lines {
                memory.load::<u64>(line_at(number % lines));
                memory.work(400);
            }
        });
        run(&slow, "volatile", vec![program]).stalls[0].get(Reason::LoadL2)
    };
    assert_eq!(waits(8), 0, "all is in the first level");
    assert!(waits(LINES) > 7 * LINES * 500, "{}", waits(LINES));
}

#[test]
fn a_store_to_a_line_of_the_second_level_asks_nobody_unless_others_have_it() {
    let alone: Program = Box::new(|memory| {
        for line in (0..LINES).chain(0..LINES) {
            memory.store(line_at(line), 1u64);
            memory.drain();
        }
    });
    let counters = run(&levels(true), "volatile", vec![alone]).counters;
    assert_eq!((counters.l1_misses, counters.l2_hits), (LINES, LINES));
    let reader = |first: bool| -> Program {
        Box::new(move |memory| {
            memory.work(if first { 0 } else { 50_000 });
            memory.load::<u64>(line_at(0));
            if first {
                memory.work(100_000);
                for line in 1..LINES {
                    memory.load::<u64>(line_at(line));
                    memory.drain();
                }
                memory.store(line_at(0), 1u64);
            }
            memory.drain();
        })
    };
    let outcome = run(&levels(true), "volatile", vec![reader(true), reader(false)]);
    assert_eq!(outcome.counters.l2_hits, 1, "the line was in the second level");
    assert_eq!(outcome.counters.l1_misses, LINES + 2, "and was asked for again, to be written");
}

#[test]
fn a_shared_line_of_the_second_level_is_asked_for_as_soon_as_it_is_found_there() {
    for machine in machines() {
        let (sets, ways) = (machine.l1_sets() as u64, machine.l1.ways as u64);
        let scene = Scene::lone(&machine, "volatile").cold();
        let paths = Paths::new(&machine);
        let line = (1..512).find(|line| paths.home(*line) == 0).unwrap();
        let writer: Program = Box::new(move |memory| {
            memory.work(200_000);
            for way in 0..=ways {
                memory.load::<u64>(line_at(line + way * sets));
                memory.drain();
            }
            memory.output(1);
            memory.store(line_at(line), 1u64);
            memory.output(2);
        });
        let reader: Program = Box::new(move |memory| {
            memory.load::<u64>(line_at(line));
        });
        let found = scene.between(0, vec![(0, writer), (1, reader)]).unwrap();
        let own = paths.own_store();
        assert_eq!(found, paths.upgrade(0, line, &[1]) + machine.l2.unwrap().latency + own);
    }
}

#[test]
fn without_a_shared_cache_lines_come_from_a_core_that_has_them() {
    let program = |turn: u32| -> Program {
        Box::new(move |memory| {
            memory.work(turn * 40_000);
            for line in 0..8 {
                memory.load::<u64>(line_at(line));
                memory.drain();
            }
        })
    };
    let counters = |directory_only| {
        let programs = (0..3).map(program).collect();
        run(&levels(directory_only), "volatile", programs).counters
    };
    assert_eq!((counters(true).llc_misses, counters(true).cache_to_cache), (8, 16));
    assert_eq!((counters(false).llc_misses, counters(false).cache_to_cache), (8, 8));
}

/// Stores to more lines than the machine holds, without a flush.
fn overflow() -> Program {
    Box::new(|memory| {
        for line in 0..8 * LINES {
            memory.store(line_at(line), line + 1);
        }
        memory.drain();
    })
}

#[test]
fn without_a_shared_cache_the_last_copy_that_leaves_goes_to_memory() {
    let outcome = run(&levels(true), "volatile", vec![overflow()]);
    assert_eq!(outcome.counters.line_writes, 7 * LINES, "all but what is still there");
    for line in 0..8 * LINES {
        assert_eq!(word(&outcome.pm, Addr::pm(line * 64)), line + 1, "line {line}");
    }
    let outcome = run(&levels(true), "hops", vec![overflow()]);
    assert_eq!(outcome.counters.dropped_lines, 7 * LINES, "persist buffers write them");
}

/// Each of four threads stores to pages of its own, each store in its own epoch.
fn own_pages(memory: &SimMemory) {
    for line in 0..128 {
        memory.store(line_at(128 * memory.thread() as u64 + line), 1u64);
        memory.order();
    }
}

#[test]
fn a_line_that_starts_in_another_cores_cache_is_no_dependence() {
    for design in ["hops", "asap", "lb-idt"] {
        let counters = run_on("hops17", design, 4, own_pages).counters;
        assert!(counters.cache_to_cache > 128, "{design}: lines start elsewhere");
        assert_eq!((counters.dependences, counters.conflicts_inter), (0, 0), "{design}");
    }
}

#[test]
fn a_flush_of_a_line_that_others_have_read_takes_its_data_along() {
    let machine = Machine::load("hops17").unwrap();
    let paths = Paths::new(&machine);
    for (adr, design) in [(false, "clwb"), (true, "clwb:adr=true")] {
        for line in [5, 77] {
            let writer: Program = Box::new(move |memory| {
                memory.store(line_at(line), 1u64);
                memory.work(200_000);
                memory.output(1);
                memory.flush(line_at(line), 8);
                memory.drain();
                memory.output(2);
            });
            let reader: Program = Box::new(move |memory| {
                memory.work(100_000);
                memory.load::<u64>(line_at(line));
            });
            let scene = Scene::lone(&machine, design);
            let found = scene.between(0, vec![(0, writer), (1, reader)]).unwrap();
            assert_eq!(found, paths.persist(0, line, adr), "{design}, line {line}");
        }
    }
}

#[test]
fn one_line_at_a_time_is_made_free_for_what_leaves_the_first_level() {
    let conflicts =
        |machine: &Machine| run(machine, "lb", vec![overflow()]).counters.conflicts_replacement;
    assert!(conflicts(&levels(true)) > 0);
    assert!(conflicts(&levels(true)) < 2 * conflicts(&tiny()), "{}", conflicts(&levels(true)));
}
