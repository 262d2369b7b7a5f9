//! The questions whose answer is one number.

use super::paths::Paths;
use super::point::ValidationPoint;
use super::scenes::{Lines, Scene, Work, line_at};
use crate::{Cycle, DESIGNS, Machine, Program, SimError, SimMemory};
use seawall_memory::{Addr, Memory, MemoryExt};

type Points = Result<Vec<ValidationPoint>, SimError>;

/// Lines of the bandwidth runs, and the memory that they are chosen from.
pub(super) const BANDWIDTH_LINES: usize = 8192;
const MEMORY_LINES: u64 = 65536;
/// Cycles of the epoch designs to search a group of sets, their default.
const SEARCH_CYCLES: u64 = 8;

/// All points; `machine` has two cores or more.
pub(super) fn all(machine: &Machine) -> Points {
    let mut points = runs(machine)?;
    points.extend(loads(machine)?);
    points.extend(coherence(machine)?);
    points.extend(persists(machine)?);
    points.extend(ports_and_links(machine)?);
    points.extend(gem5_cases(machine)?);
    Ok(points)
}

/// The place of a part in the report.
pub(super) fn order(part: &str) -> usize {
    let parts = ["l1", "l2", "llc", "mesh", "coherence", "memory", "dimms"];
    let design = || DESIGNS.iter().position(|design| part.split(':').next() == Some(design.name));
    let place = parts.iter().position(|name| *name == part);
    place.or_else(|| design().map(|at| parts.len() + at)).unwrap_or(usize::MAX)
}

fn lone(part: &str, what: String) -> ValidationPoint {
    ValidationPoint::new(part, "lone latency", what)
}

/// Every core adds to shared lines under every design: no addition may be lost.
fn runs(machine: &Machine) -> Points {
    const ADDS: u64 = 50;
    const SHARED: u64 = 8;
    let mut points = Vec::new();
    for design in DESIGNS {
        let scene =
            Scene { machine: machine.clone(), design: design.name.into(), lines: 64, cold: false };
        let program = |memory: &SimMemory| {
            for number in 0..ADDS {
                let line = line_at(1 + (number + memory.thread() as u64) % SHARED);
                memory.fetch_add(line, 1);
                memory.store(line.plus(8), number);
                memory.persist(line, 16);
            }
        };
        let cores = machine.core.count;
        let programs = (0..cores).map(|core| (core, Box::new(program) as Program));
        let outcome = scene.run(programs.collect())?;
        let counted: u64 = (1..=SHARED)
            .filter_map(|line| outcome.pm.get(line as usize * 64..)?.first_chunk())
            .map(|word| u64::from_le_bytes(*word))
            .sum();
        let what = format!("{cores} cores add to shared lines and persist them: sum");
        let point = ValidationPoint::new(design.name, "runs", what);
        let expected = (cores as u64 * ADDS) as f64;
        points.push(point.expect("cores x additions", expected).found(counted as f64, 0.0));
    }
    Ok(points)
}

fn loads(machine: &Machine) -> Points {
    let paths = Paths::new(machine);
    let scene = Scene::lone(machine, "volatile");
    let cold = scene.clone().cold();
    let mut points = Vec::new();
    let found = scene.load_again(0, Addr::pm(64))?;
    let point = lone("l1", "load that hits".into());
    points.push(point.expect("l1.latency", paths.l1_load() as f64).found(found as f64, 0.0));
    if machine.l2.is_some() {
        let point = lone("l2", "load that hits".into());
        let point = point.expect("l1.latency + l2.latency", paths.l2_load() as f64);
        points.push(point.found(scene.load_far(0, 77)? as f64, 0.0));
    }
    for hops in [0, 1, 2, 5, 8] {
        let Some(line) = (1..scene.lines).find(|line| paths.hops(0, paths.home(*line)) == hops)
        else {
            continue;
        };
        if !machine.llc.directory_only {
            let expected = paths.llc_load(0, line) as f64;
            let formula =
                format!("{} + control message + llc.latency + data message", near(machine));
            let point = lone("llc", format!("load that hits {hops} hops away"));
            let found = scene.load(0, line_at(line))?;
            points.push(point.expect(&formula, expected).found(found as f64, 0.0));
        }
        let (read, formula) = cold_read(machine);
        let expected = paths.memory_load(0, line, read) as f64;
        let point = lone("memory", format!("load of NVM, bank {hops} hops away"));
        let found = cold.load(0, line_at(line))?;
        points.push(point.expect(formula, expected).found(found as f64, 0.0));
    }
    if let Some(dram) = machine.memory.dram {
        let expected = paths.memory_load(0, scene.lines + 7, dram.read) as f64;
        let formula = "as a hit + control message + memory.dram.read + data message";
        let found = cold.load(0, Addr::dram(7 * 64))?;
        let point = lone("memory", "load of DRAM".into());
        points.push(point.expect(formula, expected).found(found as f64, 0.0));
    }
    Ok(points)
}

/// The latency of memory for a line of NVM that has not been requested before, and the formula of
/// such a load.
fn cold_read(machine: &Machine) -> (Cycle, &'static str) {
    let nvm = machine.memory.nvm;
    match nvm.dimms {
        None => (nvm.read, "as a hit + control message + memory.nvm.read + data message"),
        Some(dimms) => (
            nvm.read + dimms.translate + dimms.media_read + dimms.fetch,
            "as a hit + control message + memory.nvm.read + translate, media_read, fetch of \
             memory.nvm.dimms + data message",
        ),
    }
}

/// The formula of the time until a request leaves for the home of its line.
fn near(machine: &Machine) -> &'static str {
    if machine.l2.is_some() { "l1.latency + l2.latency" } else { "l1.latency" }
}

fn coherence(machine: &Machine) -> Points {
    let paths = Paths::new(machine);
    let scene = Scene::lone(machine, "volatile");
    let mut points = Vec::new();
    let last = machine.core.count - 1;
    for (line, owner) in [(1, 1), (77, last)] {
        let near = near(machine);
        let formula = format!(
            "{near} + control to bank + llc.latency + control to owner + l1.latency + data message"
        );
        let point = lone("coherence", format!("load of a line that core {owner} has written"));
        let expected = paths.transfer(0, line, owner) as f64;
        let found = scene.transfer(0, line, owner)?;
        points.push(point.expect(&formula, expected).found(found as f64, 0.0));
    }
    // From a bank beside the core, no message delays the invalidation.
    let beside = (1..scene.lines).find(|line| paths.home(*line) == 0).unwrap_or(1);
    for other in [1, last] {
        let formula = "l1.latency + control to bank + llc.latency + control to the sharer + 1 + \
                       control from there, + a store of its own";
        let point = lone("coherence", format!("store to a line that core {other} shares"));
        let expected = (paths.upgrade(0, beside, &[other]) + paths.own_store()) as f64;
        let found = scene.upgrade(0, beside, &[other])?;
        points.push(point.expect(formula, expected).found(found as f64, 0.0));
    }
    let point = lone("coherence", "store to a line of its own".into());
    let found = scene.store(0, 77, true)?;
    let formula = "1 in the store buffer, or l1.latency with core.stores_in_flight = 1";
    points.push(point.expect(formula, paths.own_store() as f64).found(found as f64, 0.0));
    if machine.llc.directory_only {
        return Ok(points);
    }
    let point = lone("coherence", "store to a line in the shared cache".into());
    let expected = (paths.llc_load(0, 77) + paths.own_store()) as f64;
    let found = scene.store(0, 77, false)?;
    points.push(point.expect("as a load, + a store of its own", expected).found(found as f64, 0.0));
    Ok(points)
}

fn persists(machine: &Machine) -> Points {
    let paths = Paths::new(machine);
    let mut points = Vec::new();
    let line = 77;
    for (design, adr) in [("clwb", false), ("clwb:adr=true", true)] {
        let formula = if adr {
            "l1.latency + data to bank + llc.latency + data to controller + memory.post + \
             control back"
        } else {
            "as with ADR + memory.nvm.write"
        };
        let point = lone(design, "flush and fence of a written line".into());
        let expected = paths.persist(0, line, adr) as f64;
        let found = Scene::lone(machine, design).persist(0, &[line])?;
        points.push(point.expect(formula, expected).found(found as f64, 0.0));
        let mut one_by_one = Scene::lone(machine, design);
        one_by_one.machine.core.flushes = Some(1);
        let lines = [line, line + 1, line + 2, line + 3];
        let expected = lines.iter().map(|line| paths.persist(0, *line, adr)).sum::<u64>() as f64;
        let point = lone(design, "four flushes and a fence, one under way at most".into());
        let found = one_by_one.persist(0, &lines)? as f64;
        points.push(point.expect("the sum of their paths", expected).found(found, 0.0));
    }
    let point = lone("strict", "store to a line of its own".into());
    let expected = (paths.persist(0, line, false) + paths.own_store()) as f64;
    let found = Scene::lone(machine, "strict").store(0, line, true)?;
    points.push(
        point
            .expect("path of flush and fence, + a store of its own", expected)
            .found(found as f64, 0.0),
    );
    let formula = "searches + lines and FlushEpoch to the bank + llc.latency + data to controller \
                   + (lines - 1) x the slowest pace + memory.post + memory.nvm.write + \
                   control back";
    for design in ["lb", "lbpp"] {
        let scene = Scene { lines: 16384, ..Scene::lone(machine, design) };
        // Several lines go to DIMMs whose channels are not the banks of the formula.
        let counts = if machine.memory.nvm.dimms.is_none() { &[1, 4, 16][..] } else { &[1] };
        for count in counts.iter().copied() {
            let lines = one_way(&paths, scene.lines, count);
            let point = lone(design, format!("drain of an epoch of {} lines", lines.len()));
            let expected = paths.epoch_flush(0, &lines, SEARCH_CYCLES) as f64;
            let found = scene.persist(0, &lines)?;
            points.push(point.expect(formula, expected).found(found as f64, 0.0));
        }
    }
    Ok(points)
}

/// Lines of one bank and one controller that share no memory bank, up to `count`.
pub(super) fn one_way(paths: &Paths, lines: u64, count: usize) -> Vec<u64> {
    let mut banks = Vec::new();
    let fits = |line: &u64| {
        let way = paths.bank(*line) == paths.bank(1) && paths.corner(*line) == paths.corner(1);
        let fits = way && !banks.contains(&paths.memory_bank(*line));
        banks.extend(fits.then(|| paths.memory_bank(*line)));
        fits
    };
    (1..lines).filter(fits).take(count).collect()
}

/// Lines that use `controllers` controllers and all their banks evenly.
pub(super) fn memory_lines(machine: &Machine, controllers: usize) -> Lines {
    let (paths, banks) = (Paths::new(machine), machine.memory.banks);
    let key = |line| {
        let controller = paths.controller(line);
        (controller < controllers).then(|| paths.memory_bank(line) * controllers + controller)
    };
    Lines::balanced(MEMORY_LINES, banks * controllers, key, BANDWIDTH_LINES)
}

/// A machine, design and memory for bandwidth runs. Its cores ask for as much as a part can give:
/// some machines' own do not.
pub(super) fn bandwidth_scene(machine: &Machine, design: &str) -> Scene {
    let mut machine = machine.clone();
    machine.core.stores_in_flight = None;
    machine.core.rob = machine.core.rob.max(192);
    Scene { machine, design: design.into(), lines: MEMORY_LINES, cold: false }
}

/// The shared cache's port and a link, each made the narrowest part of a machine.
fn ports_and_links(machine: &Machine) -> Points {
    let peak = |part: &str, what: String| ValidationPoint::new(part, "peak bandwidth", what);
    // A directory has no data: without the caches of other cores, they come from memory.
    let scene_of = |machine: &Machine| Scene {
        cold: machine.llc.directory_only,
        ..bandwidth_scene(machine, "volatile")
    };
    let mut points = Vec::new();
    let mut slow = machine.clone();
    slow.llc.port_cycles = 20;
    let paths = Paths::new(&slow);
    let lines = Lines::balanced(MEMORY_LINES, 1, |line| (paths.bank(line) == 0).then_some(0), 1500);
    let cores = machine.core.count;
    for cores in [2, cores] {
        let point = peak("llc", format!("cycles a line, one bank of a slow port, {cores} cores"));
        let found = scene_of(&slow).pace(cores, &lines, Work::Load)?;
        points.push(point.expect("llc.port_cycles (20)", 20.0).found(found, 5.0));
    }
    let mut row = machine.clone();
    (row.core.count, row.mesh.rows, row.llc.banks) = (8, 1, 8);
    (row.memory.controllers, row.mesh.flit_bytes, row.llc.port_cycles) = (1, 8, 1);
    if row.llc.directory_only {
        // Memory answers, which must not be narrower than the link; requests use the same link.
        (row.memory.line_cycles, row.memory.nvm.read, row.core.mshrs) = (1, 16, 64);
        row.memory.bank_cycles = None;
    }
    let paths = Paths::new(&row);
    let lines = Lines::balanced(MEMORY_LINES, 1, |line| (paths.home(line) == 7).then_some(0), 3000);
    for cores in [2, 7] {
        let point = peak("mesh", format!("cycles a line over one link, {cores} cores behind it"));
        let found = scene_of(&row).pace(cores, &lines, Work::Load)?;
        let (expected, formula) = if row.llc.directory_only {
            (paths.flits() + 1, "flits of a line and its head, and a request to memory")
        } else {
            (paths.flits(), "flits of a line and its head")
        };
        points.push(point.expect(formula, expected as f64).found(found, 5.0));
    }
    Ok(points)
}

/// The cases in which a stock full-system simulator drops a write, aborts, or answers alike for
/// every device: see `validation/gem5.md`.
fn gem5_cases(machine: &Machine) -> Points {
    let scene = Scene::lone(machine, "clwb");
    let persists = |flushes: bool| {
        move |memory: &SimMemory| {
            for number in 0..200 {
                let line = line_at(1 + number % 50);
                memory.store(line, number);
                if flushes {
                    memory.flush(line, 8);
                }
                memory.drain();
            }
        }
    };
    let shape = |what: &str| ValidationPoint::new("clwb", "shape", what.into());
    let mut points = Vec::new();
    let with = scene.run(vec![(0, Box::new(persists(true)))])?;
    let without = scene.run(vec![(0, Box::new(persists(false)))])?;
    let slower = f64::from(u8::from(with.cycles > 2 * without.cycles));
    let point = shape("flushes make a program slower: 1 for yes");
    points.push(point.expect("a flush is not dropped", 1.0).found(slower, 0.0));
    let mut slow = machine.clone();
    slow.memory.nvm.write += 1000;
    for (design, more) in [("clwb", 1000.0), ("clwb:adr=true", 0.0)] {
        let persist = |machine| Scene::lone(machine, design).persist(0, &[9]);
        let grown = persist(&slow)? as f64 - persist(machine)? as f64;
        let what = "what a persist takes more if memory.nvm.write is 1000 more".into();
        let point = ValidationPoint::new(design, "shape", what);
        points.push(point.expect("the device counts, except under ADR", more).found(grown, 0.0));
    }
    Ok(points)
}
