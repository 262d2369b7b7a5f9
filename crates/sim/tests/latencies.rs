//! A lone request takes the sum of its path: every expectation is computed from the machine file.

use seawall_memory::{Addr, MemoryExt};
use seawall_sim::validation::{Lines, Paths, Scene};
use seawall_sim::{Machine, SimMemory};

fn machines() -> Vec<Machine> {
    ["micro15", "desktop"].map(|name| Machine::load(name).unwrap()).into()
}

/// A few lines whose banks and controllers are in different places.
const LINES: [u64; 6] = [1, 2, 77, 300, 555, 901];

#[test]
fn a_load_that_hits_in_the_l1_takes_its_latency() {
    for machine in machines() {
        let scene = Scene::lone(&machine, "volatile");
        let expected = Paths::new(&machine).l1_load();
        assert_eq!(scene.load_again(0, Addr::pm(64)).unwrap(), expected);
    }
}

#[test]
fn a_load_that_hits_in_the_shared_cache_takes_the_way_to_its_bank_and_back_from_every_tile() {
    for machine in machines() {
        let scene = Scene::lone(&machine, "volatile");
        let paths = Paths::new(&machine);
        let mut distances = Vec::new();
        for core in 0..machine.core.count {
            for line in [3, 1000] {
                let at = Addr::pm(line * 64);
                let found = scene.load(core, at).unwrap();
                assert_eq!(found, paths.llc_load(core, line), "core {core}, line {line}");
                distances.push(paths.hops(core, paths.home(line)));
            }
        }
        distances.sort_unstable();
        distances.dedup();
        assert!(distances.len() >= 3, "only distances {distances:?}");
    }
}

#[test]
fn a_load_that_misses_everywhere_takes_the_read_of_its_device_besides() {
    for machine in machines() {
        let scene = Scene::lone(&machine, "volatile").cold();
        let paths = Paths::new(&machine);
        for line in LINES {
            let expected = paths.memory_load(1, line, machine.memory.nvm.read);
            assert_eq!(scene.load(1, Addr::pm(line * 64)).unwrap(), expected, "line {line}");
            let dram = machine.memory.dram.unwrap_or(machine.memory.nvm).read;
            let expected = paths.memory_load(1, scene.lines + line, dram);
            assert_eq!(scene.load(1, Addr::dram(line * 64)).unwrap(), expected, "dram {line}");
        }
    }
}

#[test]
fn a_store_takes_its_own_time_once_its_line_is_there() {
    for machine in machines() {
        let scene = Scene::lone(&machine, "volatile");
        let paths = Paths::new(&machine);
        for line in LINES {
            assert_eq!(scene.store(0, line, true).unwrap(), paths.own_store(), "line {line}");
            let expected = paths.llc_load(0, line) + paths.own_store();
            assert_eq!(scene.store(0, line, false).unwrap(), expected, "line {line}");
        }
        let cold = scene.cold();
        let expected = paths.memory_load(0, 77, machine.memory.nvm.read) + paths.own_store();
        assert_eq!(cold.store(0, 77, false).unwrap(), expected);
    }
}

#[test]
fn with_one_store_in_flight_each_takes_the_first_level_and_none_is_fetched_ahead() {
    let single = Machine::load("micro15").unwrap();
    let mut usual = single.clone();
    usual.core.stores_in_flight = None;
    let paths = Paths::new(&usual);
    // Four stores to a line that the core owns, which usually take effect together.
    let there = |machine: &Machine| Scene::lone(machine, "volatile").stores(0, &[5; 4], true);
    assert!(there(&usual).unwrap() <= 2);
    assert_eq!(there(&single).unwrap(), 4 * usual.l1.latency);
    // Two lines in the shared cache.
    let missing = |machine: &Machine| Scene::lone(machine, "volatile").stores(0, &[5, 77], false);
    let [first, second] = [5, 77].map(|line| paths.llc_load(0, line));
    assert_eq!(missing(&single).unwrap(), first + second + 2 * usual.l1.latency);
    let overlapped = missing(&usual).unwrap();
    assert!(overlapped < first.max(second) + 10, "{overlapped} of {first}, {second}");
    // With two, the second line is fetched beside the first, and the third when that is there.
    let mut pair = usual.clone();
    pair.core.stores_in_flight = Some(2);
    assert_eq!(missing(&pair).unwrap(), overlapped);
    let three =
        |machine: &Machine| Scene::lone(machine, "volatile").stores(0, &[5, 77, 300], false);
    let (few, all) = (three(&pair).unwrap(), three(&usual).unwrap());
    assert!(few >= first + paths.llc_load(0, 300) && all < few, "{few}, {all}");
}

#[test]
fn a_line_that_another_core_has_written_comes_from_there() {
    for machine in machines() {
        let scene = Scene::lone(&machine, "volatile");
        let paths = Paths::new(&machine);
        for line in LINES {
            for (core, owner) in [(0, 1), (1, 3), (2, 0), (0, machine.core.count - 1)] {
                let found = scene.transfer(core, line, owner).unwrap();
                let expected = paths.transfer(core, line, owner);
                assert_eq!(found, expected, "core {core}, owner {owner}, line {line}");
            }
        }
    }
}

#[test]
fn a_shared_line_may_be_written_when_the_last_sharer_has_given_it_up() {
    let machine = Machine::load("micro15").unwrap();
    let scene = Scene::lone(&machine, "volatile");
    let paths = Paths::new(&machine);
    // The bank of the line is beside the core, and the sharers are in four directions from it, so
    // that no two messages collide.
    let core = 10;
    let line = (1..2048).find(|line| paths.home(*line) == core).unwrap();
    for others in [&[14usize][..], &[14, 9], &[14, 9, 2], &[14, 9, 2, 26]] {
        let expected = paths.upgrade(core, line, others) + paths.own_store();
        assert_eq!(scene.upgrade(core, line, others).unwrap(), expected, "{others:?}");
    }
    let all: Vec<usize> = (0..32).filter(|other| *other != core).collect();
    let alone = paths.upgrade(core, line, &all) + paths.own_store();
    let found = scene.upgrade(core, line, &all).unwrap();
    assert!((alone..alone + 31).contains(&found), "{found} with 31 sharers, {alone} alone");
}

#[test]
fn a_flush_and_a_fence_take_the_way_to_memory_and_back_with_the_write_only_without_adr() {
    for machine in machines() {
        let paths = Paths::new(&machine);
        for (design, adr) in [("clwb", false), ("clwb:adr=true", true)] {
            let scene = Scene::lone(&machine, design);
            for line in LINES {
                let expected = paths.persist(2, line, adr);
                assert_eq!(scene.persist(2, &[line]).unwrap(), expected, "{design}, line {line}");
            }
        }
    }
}

#[test]
fn a_serial_flush_begins_when_the_one_before_it_is_durable() {
    for machine in machines() {
        let paths = Paths::new(&machine);
        let path = |line: &u64| paths.persist(0, *line, false);
        let [sum, longest] =
            [LINES.iter().map(path).sum::<u64>(), LINES.iter().map(path).max().unwrap()];
        let of = |design| Scene::lone(&machine, design).persist(0, &LINES).unwrap();
        assert!(of("clwb:serial=true") >= sum, "{} of {sum}", of("clwb:serial=true"));
        assert!(of("clwb") < 2 * longest, "{} of {longest}", of("clwb"));
        let both = of("clwb:serial=true:invalidating=true");
        assert!(both >= sum, "{both} of {sum}");
    }
}

#[test]
fn stores_that_are_written_through_are_on_their_way_together_and_each_behind_the_one_before() {
    let machine = Machine::load("micro15").unwrap();
    let paths = Paths::new(&machine);
    let all: Vec<u64> = (1..17).collect();
    let alone = all.iter().map(|line| paths.persist(0, *line, false)).max().unwrap();
    // The second time the core owns the lines, and its stores follow each other at once.
    let run = |design: &str| {
        let after = |rounds: u64| {
            let lines = all.clone();
            let program = move |memory: &SimMemory| {
                for round in 0..rounds {
                    lines.iter().for_each(|line| memory.store(Addr::pm(line * 64), round));
                    memory.drain();
                }
            };
            let scene = Scene::lone(&machine, design);
            scene.run(vec![(0, Box::new(program))]).unwrap().cycles
        };
        after(2) - after(1)
    };
    let (ordered, unordered) = (run("bsp-naive"), run("bsp-naive:flaw='ignores-order'"));
    assert!(ordered > unordered, "a change of the controller costs a message: {ordered}");
    // One after the other they would take as long as sixteen writes.
    assert!(ordered < 3 * alone, "{ordered}, {alone} for one");
}

#[test]
fn a_strict_store_is_visible_when_it_is_durable() {
    for machine in machines() {
        let paths = Paths::new(&machine);
        for (design, adr) in [("strict", false), ("strict:adr=true", true)] {
            let scene = Scene::lone(&machine, design);
            for line in LINES {
                let expected = paths.persist(1, line, adr) + paths.own_store();
                assert_eq!(scene.store(1, line, true).unwrap(), expected, "{design}, line {line}");
            }
        }
    }
}

/// Lines of one bank and one controller that do not share a memory bank.
pub(crate) fn one_way(paths: &Paths, home: usize, count: usize) -> Vec<u64> {
    let corner = paths.corner((1..4096).find(|line| paths.home(*line) == home).unwrap());
    let mut banks = Vec::new();
    let fits = |line: &u64| {
        let way = paths.home(*line) == home && paths.corner(*line) == corner;
        let fits = way && !banks.contains(&paths.memory_bank(*line));
        banks.extend(fits.then(|| paths.memory_bank(*line)));
        fits
    };
    (1..2048).filter(fits).take(count).collect()
}

#[test]
fn an_epoch_flush_takes_its_searches_its_lines_and_the_way_of_the_last() {
    for machine in machines() {
        let paths = Paths::new(&machine);
        for design in ["lb", "lbpp"] {
            let scene = Scene::lone(&machine, design);
            for home in 0..machine.core.count.min(8) {
                let lines = one_way(&paths, home, 8);
                assert!(lines.len() >= 5, "too few lines at {home}");
                for count in 1..=lines.len() {
                    let lines = &lines[..count];
                    let found = scene.persist(0, lines).unwrap();
                    let expected = paths.epoch_flush(0, lines, 8);
                    assert_eq!(found, expected, "{design}, home {home}, {count} lines");
                }
            }
        }
    }
}

#[test]
fn an_epoch_with_lines_in_all_banks_takes_no_less_than_any_of_its_parts() {
    let machine = Machine::load("micro15").unwrap();
    let paths = Paths::new(&machine);
    let lines = Lines::balanced(2048, 32, |line| Some(paths.home(line)), 64).list;
    let scene = Scene::lone(&machine, "lb");
    let found = scene.persist(0, &lines).unwrap();
    let least = lines.iter().map(|line| paths.epoch_flush(0, &[*line], 8)).max().unwrap();
    let sum = least + 64 * (1 + paths.flits() + machine.memory.line_cycles);
    assert!((least..sum).contains(&found), "{found}, not in {least}..{sum}");
}
