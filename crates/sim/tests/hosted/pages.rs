//! Pages of the host become lines when they are mapped.

use super::{DRAM, PAGE, PM, alone, boxed, dram, host, map, pm, watched, words};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_memory::{Addr, Memory, MemoryExt};
use seawall_sim::{
    Choice, Crash, Cycle, DESIGNS, HostSpace, Machine, Observer, SimError, SimMemory, Simulation,
};
use std::cell::RefCell;
use std::rc::Rc;

#[test]
fn a_page_has_the_contents_that_it_came_with_and_its_place_in_the_order_of_mapping() {
    let outcome = host(
        "desktop",
        "clwb",
        vec![boxed(|memory| {
            memory.map(PM + 7 * PAGE, true, &[7; PAGE as usize]);
            memory.map(PM + 3 * PAGE, true, &[3; 100]);
            memory.map(DRAM, false, &[1, 2, 3, 4]);
            assert_eq!(memory.load::<u32>(dram(0)), 0x0403_0201);
            assert_eq!(memory.load::<u8>(pm(3 * PAGE + 99)), 3);
            assert_eq!(memory.load::<u8>(pm(3 * PAGE + 100)), 0, "zeros fill it");
            memory.store(pm(7 * PAGE + 8), 0u64);
        })],
    );
    let mut expected = vec![7; PAGE as usize];
    expected[8..16].fill(0);
    expected.extend([3; 100]);
    expected.resize(2 * PAGE as usize, 0);
    assert_eq!(outcome.unwrap().pm, expected);
}

#[test]
fn only_pages_that_were_mapped_are() {
    alone("volatile", |memory| {
        assert!(memory.is_mapped(pm(0)) && memory.is_mapped(pm(4 * PAGE - 1)));
        assert!(!memory.is_mapped(pm(4 * PAGE)) && !memory.is_mapped(Addr::from_bits(PM - 1)));
    });
}

#[test]
#[should_panic(expected = "no page is mapped at 0x100000004000")]
fn an_access_to_no_page_is_a_bug_of_the_front_end() {
    alone("volatile", |memory| _ = memory.load::<u64>(pm(4 * PAGE)));
}

#[test]
fn a_program_that_touches_more_than_there_is_ends_the_run() {
    for (is_pm, wanted) in [(true, "persistent"), (false, "volatile")] {
        let ended = host(
            "desktop",
            "clwb",
            vec![boxed(move |memory| {
                for page in 0..257 {
                    memory.map(PM + page * PAGE, is_pm, &[]);
                }
                unreachable!("there are 256 pages");
            })],
        );
        let bytes = 1 << 20;
        let is_wanted = matches!(&ended, Err(SimError::HostSpaceFull { kind, bytes: found })
            if *kind == wanted && *found == bytes);
        assert!(is_wanted, "{ended:?}");
    }
}

/// Random accesses of all kinds to eight pages, that `at` has put somewhere.
fn perform(memory: &SimMemory, seed: u64, at: fn(u64) -> u64) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    for _ in 0..400 {
        let page = rng.random_range(0..8);
        let place = Addr::from_bits(at(page));
        if !memory.is_mapped(place) {
            memory.map(place.bits(), page % 2 == 0, &[]);
        }
        // Values are no addresses.
        let (place, value) =
            (place.plus(8 * rng.random_range(0..512)), rng.random_range(0..4096u64));
        match rng.random_range(0..8) {
            0..2 => memory.store(place, value),
            2..5 => _ = memory.load::<u64>(place),
            5 => _ = memory.fetch_add(place, 1),
            6 => {
                memory.flush(place, 8);
                memory.drain();
            }
            _ => memory.write_nt(place, &value.to_le_bytes()),
        }
    }
}

#[test]
fn outcomes_do_not_depend_on_where_the_host_has_put_its_pages() {
    let run = |design, at: fn(u64) -> u64| {
        let programs = (0..4).map(|seed| boxed(move |memory| perform(memory, seed, at)));
        host("micro15", design, programs.collect()).unwrap()
    };
    for design in DESIGNS {
        let here = run(design.name, |page| 0x5555_5555_4000 + page * PAGE);
        let there = run(design.name, |page| 0x7fff_f7ff_0000 - page * (8 << 20));
        assert_eq!(here, there, "{}", design.name);
    }
}

#[test]
fn what_persists_is_decided_by_the_page_alone() {
    for design in ["clwb", "lbpp", "hops"] {
        let outcome = alone(design, |memory| {
            memory.store(dram(64), 5u64);
            memory.flush(dram(64), 8);
            memory.write_nt(dram(128), &[1; 64]);
            memory.drain();
            assert_eq!(memory.load::<u64>(dram(128)), 0x0101_0101_0101_0101);
        });
        let counters = &outcome.counters;
        assert_eq!((counters.line_writes, counters.stores_nt), (0, 0), "{design}");
        assert!(outcome.pm.iter().all(|byte| *byte == 0), "{design}");
    }
    let outcome = alone("clwb", |memory| {
        memory.store(pm(64), 5u64);
        memory.flush(pm(64), 8);
        memory.write_nt(pm(128), &[1; 64]);
        memory.drain();
    });
    assert_eq!((outcome.counters.line_writes, outcome.counters.stores_nt), (2, 8));
    assert_eq!(words(&outcome.pm)[8], 5);
}

#[test]
fn a_load_waits_for_the_loads_that_its_program_names_and_for_no_value() {
    let takes = |waits: bool| {
        alone("volatile", move |memory| {
            memory.map(PM + 4 * PAGE, true, &(PM + 64).to_le_bytes());
            memory.load::<u64>(pm(4 * PAGE));
            if waits {
                memory.wait_for_address(memory.arrived());
            }
            memory.load::<u64>(pm(64));
        })
        .cycles
    };
    let (through, beside) = (takes(true), takes(false));
    assert!(through > beside + beside / 2, "{through} cycles through it, {beside} beside it");
}

#[derive(Default)]
struct Crashes {
    mapped: Vec<(u64, Vec<u8>)>,
    images: Vec<Vec<u8>>,
}

impl Observer for Crashes {
    fn output(&mut self, _: usize, _: u64, now: Cycle) -> Option<Cycle> {
        Some(now)
    }
    fn crash(&mut self, _: Cycle, crash: Crash) {
        self.images.push(crash.pm);
    }
    fn mapped(&mut self, first_byte: u64, contents: &[u8]) {
        self.mapped.push((first_byte, contents.to_vec()));
    }
}

#[test]
fn images_of_crashes_have_the_pages_that_are_mapped() {
    for design in DESIGNS {
        let program = boxed(|memory| {
            map(memory);
            memory.store(pm(8), 1u64);
            memory.flush(pm(8), 8);
            memory.drain();
            memory.output(0);
            // The output takes effect behind stores.
            memory.full_fence();
            memory.work(1000);
            memory.map(PM + 9 * PAGE, true, &[9; PAGE as usize]);
            memory.output(1);
        });
        let machine = Machine::load("desktop").unwrap();
        let (_, seen) = watched((&machine, design.name), Crashes::default(), vec![program]);
        let seen = seen.borrow();
        let places: Vec<u64> = seen.mapped.iter().map(|(at, _)| *at).collect();
        assert_eq!(places, [0, 1, 2, 3, 4].map(|page| page * PAGE));
        assert_eq!(seen.mapped[4].1, [9; PAGE as usize]);
        let lengths: Vec<usize> = seen.images.iter().map(Vec::len).collect();
        assert_eq!(lengths, [4 * PAGE as usize, 5 * PAGE as usize], "{}", design.name);
        assert_eq!(seen.images[1][4 * PAGE as usize..], [9; PAGE as usize], "{}", design.name);
        let promises = !["volatile"].contains(&design.name) && !design.name.starts_with("bsp");
        assert!(!promises || words(&seen.images[1])[1] == 1, "{}", design.name);
    }
}

/// If what is not mapped cost anything, this would take minutes.
#[test]
fn memory_that_is_not_mapped_costs_nothing_at_the_start_and_at_crashes() {
    let space = HostSpace { pm_bytes: 4 << 30, dram_bytes: 4 << 30 };
    for design in ["eadr", "bsp-lbpp:records=8", "asap"] {
        let machine = Machine::load("desktop").unwrap();
        let crashes = Rc::new(RefCell::new(Crashes::default()));
        let choice = Choice::parse(design).unwrap();
        let program = boxed(|memory| {
            map(memory);
            (0..200).for_each(|number| {
                memory.store(pm(8), number);
                memory.output(number);
            });
        });
        let run = Simulation::of_host(&machine, &choice, space).watched_by(crashes.clone());
        let outcome = run.run(vec![program]).unwrap();
        assert_eq!(outcome.pm.len() as u64, 4 * PAGE);
        assert_eq!(crashes.borrow().images.len(), 200);
    }
}
