//! Whether a machine's memory gives the bandwidth that its file states: that of the channels.
//!
//! Elsewhere a part is asked for what its formula says, whichever of its numbers is the smallest.
//! Here the channels' numbers are the expectation, as they are the published ones, and banks, mesh
//! and cores are held to it: reads, stores with a flush, and non-temporal stores, of each kind of
//! memory with a channel. DIMMs with a controller of their own are held to measurements of hardware
//! ([`hardware`](super::hardware)).

use super::paths::Paths;
use super::point::ValidationPoint;
use super::points::{bandwidth_scene, memory_lines};
use super::scenes::{Scene, Work};
use crate::{Machine, SimError};

/// How far from the stated bandwidth a memory may be, in per cent; and where the cores' lines are
/// the limit, which also wait for each other on their way.
const TOLERANCE: f64 = 6.0;
const CORES_TOLERANCE: f64 = 12.0;

/// The kinds of access.
const WORKS: [(Work, &str); 3] = [
    (Work::Load, "read"),
    (Work::Persist, "stored and flushed"),
    (Work::Stream, "stored past the caches"),
];

/// All points.
pub(super) fn points(machine: &Machine) -> Result<Vec<ValidationPoint>, SimError> {
    let mut points = Vec::new();
    for (kind, machine) in kinds(machine) {
        let lines = memory_lines(&machine, machine.memory.controllers);
        for (work, what) in WORKS {
            if matches!(work, Work::Stream) && machine.core.write_combining == 0 {
                continue;
            }
            let scene = scene(&machine, work);
            let pace = scene.pace(machine.core.count, &lines, work)?;
            let (stated, formula, tolerance) = stated(&machine, work);
            let point = ValidationPoint::new(
                "memory",
                "stated bandwidth",
                format!("GB/s of {kind} {what}"),
            );
            let gbs = |pace: f64| 64.0 * machine.ghz / pace;
            let point = point.expect(formula, gbs(stated)).found(gbs(pace), tolerance);
            points.push(if is_behind_links(&machine) { point.known_gap(LINKS) } else { point });
        }
    }
    Ok(points)
}

const LINKS: &str = "a controller that stands for several channels is at one tile, whose links are \
                     narrower than they";

/// Whether the channels of a controller move a line faster than a link of its tile does.
fn is_behind_links(machine: &Machine) -> bool {
    let memory = &machine.memory;
    memory.line_cycles.min(memory.nvm_write_line_cycles()) < Paths::new(machine).flits()
}

/// The kinds of memory with a channel, each as the persistent memory of a machine.
fn kinds(machine: &Machine) -> Vec<(&'static str, Machine)> {
    let mut kinds = Vec::new();
    if machine.memory.nvm.dimms.is_none() {
        kinds.push(("NVM", machine.clone()));
    }
    if let Some(dram) = machine.memory.dram {
        let mut other = machine.clone();
        other.memory.nvm = dram;
        kinds.push(("DRAM", other));
    }
    kinds
}

fn scene(machine: &Machine, work: Work) -> Scene {
    let scene = match work {
        Work::Load => return bandwidth_scene(machine, "volatile").cold(),
        Work::Persist => bandwidth_scene(machine, "clwb:adr=true"),
        Work::Stream => bandwidth_scene(machine, "clwb:adr=true").cold(),
    };
    let mut scene = scene;
    // Flushes must not be what is narrow.
    scene.machine.core.flushes = Some(512);
    scene
}

/// Cycles between two lines: what the channels state, or what the cores can have on their way.
fn stated(machine: &Machine, work: Work) -> (f64, &'static str, f64) {
    let (memory, paths) = (&machine.memory, Paths::new(machine));
    let cores = machine.core.count as f64;
    let mean = |latency: &dyn Fn(u64) -> u64| Paths::mean(4096, latency);
    let (line, path, places) = match work {
        Work::Load => {
            let path = mean(&|line| paths.memory_load(0, line, memory.nvm.read));
            (memory.line_cycles, path, machine.core.mshrs)
        }
        Work::Persist => (memory.nvm_write_line_cycles(), 0.0, 1),
        Work::Stream => {
            let path = mean(&|line| paths.persist(0, line, true));
            let path = path + machine.core.combining_leave as f64;
            (memory.nvm_write_line_cycles(), path, machine.core.write_combining)
        }
    };
    let channels = line as f64 / memory.controllers as f64;
    let asked = path / (cores * places as f64);
    match asked > channels {
        true => (asked, "the cores' lines on their way, a mean path each", CORES_TOLERANCE),
        false => {
            (channels, "64 B in line_cycles (or write_line_cycles), all controllers", TOLERANCE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MACHINES;

    #[test]
    fn every_machine_gives_the_bandwidth_that_its_file_states() {
        let mut failed = Vec::new();
        for (name, _) in MACHINES {
            let machine = Machine { cold: false, ..Machine::load(name).unwrap() };
            for point in points(&machine).unwrap() {
                println!(
                    "{name}: {}: {:.2} of {:.2} ({})",
                    point.what, point.measured, point.expected, point.formula
                );
                failed.extend(point.fails().then(|| format!("{name}: {}", point.what)));
            }
        }
        assert_eq!(failed, Vec::<String>::new());
    }
}
