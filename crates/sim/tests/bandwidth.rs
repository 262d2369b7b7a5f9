//! A saturated part has the throughput of its formula, and no more for any number of cores.

use seawall_sim::Machine;
use seawall_sim::validation::{Lines, Paths, Scene, Work};

fn assert_near(found: f64, expected: f64, percent: f64, what: &str) {
    let off = 100.0 * (found - expected) / expected;
    assert!(off.abs() <= percent, "{what}: {found:.2} cycles a line, not {expected:.2}");
}

const LINES: u64 = 131_072;
/// The number of lines moved; the first and the last path are negligible against it.
const COUNT: usize = 24_576;

fn scene(machine: &Machine, design: &str) -> Scene {
    Scene { machine: machine.clone(), design: design.into(), lines: LINES, cold: false }
}

/// Lines that use `controllers` controllers and all their banks evenly.
fn memory_lines(paths: &Paths, machine: &Machine, controllers: usize) -> Lines {
    let banks = machine.memory.banks;
    let key = |line| {
        let controller = paths.controller(line);
        (controller < controllers).then(|| paths.memory_bank(line) * controllers + controller)
    };
    let lines = Lines::balanced(LINES, banks * controllers, key, COUNT);
    assert_eq!(lines.list.len(), COUNT);
    lines
}

#[test]
fn controllers_take_lines_at_the_pace_of_their_channels_or_banks() {
    let machine = Machine::load("micro15").unwrap();
    let mut slow = machine.clone();
    (slow.memory.nvm.write, slow.memory.bank_cycles) = (1000, None);
    // Enough entries that no bank idles while others are waited for.
    slow.memory.write_queue = 1024;
    for machine in [machine, slow] {
        let paths = Paths::new(&machine);
        for controllers in [1, 4] {
            let lines = memory_lines(&paths, &machine, controllers);
            let expected = paths.write_pace(controllers);
            for cores in [16, 32] {
                let found = scene(&machine, "clwb").pace(cores, &lines, Work::Persist).unwrap();
                assert_near(found, expected, 3.0, &format!("{controllers} controllers, {cores}"));
            }
        }
    }
}

#[test]
fn controllers_give_lines_at_the_pace_of_their_channels_or_banks() {
    let machine = Machine::load("micro15").unwrap();
    let mut slow = machine.clone();
    (slow.memory.nvm.read, slow.memory.bank_cycles) = (1000, None);
    for machine in [machine, slow] {
        let paths = Paths::new(&machine);
        for controllers in [1, 4] {
            let lines = memory_lines(&paths, &machine, controllers);
            let expected = paths.read_pace(controllers);
            for cores in [8, 32] {
                let cold = scene(&machine, "volatile").cold();
                let found = cold.pace(cores, &lines, Work::Load).unwrap();
                assert_near(found, expected, 3.0, &format!("{controllers} controllers, {cores}"));
            }
        }
    }
}

#[test]
fn channels_are_never_faster_than_their_pace_however_uneven_the_load() {
    let machine = Machine::load("micro15").unwrap();
    let lines = Lines::balanced(LINES, 1, |_| Some(0), 16384);
    let peak = Paths::new(&machine).read_pace(4);
    for cores in [8, 32] {
        let cold = scene(&machine, "volatile").cold();
        let found = cold.pace(cores, &lines, Work::Load).unwrap();
        assert!(found > 0.99 * peak, "{cores} cores: {found:.2}, but the peak is {peak:.2}");
    }
}

#[test]
fn a_bank_answers_at_the_pace_of_its_port() {
    let mut machine = Machine::load("micro15").unwrap();
    machine.llc.port_cycles = 8;
    machine.core.mshrs = 4;
    let paths = Paths::new(&machine);
    let lines = Lines::balanced(LINES, 1, |line| (paths.bank(line) == 9).then_some(0), 2000);
    let pace = |cores| scene(&machine, "volatile").pace(cores, &lines, Work::Load).unwrap();
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
    let lines = Lines::balanced(LINES, 1, |line| (paths.home(line) == 7).then_some(0), 3000);
    for cores in [1, 2, 4, 7] {
        let found = scene(&machine, "volatile").pace(cores, &lines, Work::Load).unwrap();
        assert_near(found, paths.flits() as f64, 3.0, &format!("{cores} cores"));
    }
}
