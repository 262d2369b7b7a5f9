//! The program of the gem5 measurements on the machine that stands for gem5's, beside what gem5
//! itself took for it (validation/gem5.md).
//!
//! Ruby drops the program's clwb, so it runs where flushes do nothing and fences wait for stores.

use crate::LabError;
use crate::cell::{Cell, run_cell};
use crate::commands::compare::plan::{CompareOptions, Plan};
use crate::engine::gem5::{Gem5, Gem5Run, Gem5Value, Quantity};
use seawall_memory::LINE_BYTES;
use seawall_sim::Machine;
use seawall_sim::validation::ValidationPoint;
use std::sync::Arc;

/// The machine that stands for gem5's.
const MACHINE: &str = "gem5-ruby";
const WORKLOAD: &str = "ht";
const DESIGN: &str = "eadr";
/// The part of these points in the report.
const PART: &str = "gem5";
/// The goal of a comparison with another simulator, in per cent.
const TOLERANCE: f64 = 15.0;

/// The points of the machine called `name`: none if it does not stand for gem5's.
pub(super) fn points(name: &str, seed: u64) -> Result<Vec<ValidationPoint>, LabError> {
    let mut points = Vec::new();
    if Machine::base(name) != MACHINE {
        return Ok(points);
    }
    for run in Gem5::read().run {
        let (cell, ghz) = simulate(&run, seed)?;
        points.extend(run.value.iter().map(|value| point(value, &run, &cell, ghz)));
    }
    Ok(points)
}

/// Runs the program as `run` says; with the clock of the machine.
fn simulate(run: &Gem5Run, seed: u64) -> Result<(Cell, f64), LabError> {
    let plan = Plan::new(&CompareOptions {
        workloads: vec![WORKLOAD.into()],
        designs: vec![DESIGN.into()],
        machine: run.machine.clone(),
        threads: Some(run.cores),
        operations: run.operations,
        crashes: 0,
        seed,
        ..CompareOptions::default()
    })?;
    Ok((run_cell(&plan.machine, &plan.points[0], &Arc::default())?, plan.machine.ghz))
}

fn point(value: &Gem5Value, run: &Gem5Run, cell: &Cell, ghz: f64) -> ValidationPoint {
    let cores = if run.cores == 1 { "core" } else { "cores" };
    let what = format!("{WORKLOAD} on {} {cores}: {}", run.cores, value.of.name());
    let point = ValidationPoint::new(PART, "other simulator", what)
        .expect(&value.from, value.expected)
        .found(measured(value.of, run, cell, ghz), TOLERANCE);
    match &value.gap {
        Some(why) => point.known_gap(why),
        None => point,
    }
}

fn measured(of: Quantity, run: &Gem5Run, cell: &Cell, ghz: f64) -> f64 {
    let operations = run.operations as f64 * run.cores as f64;
    let each = |count: u64| count as f64 / operations;
    let cycles = run.cores as f64 / cell.throughput;
    let counters = &cell.counters;
    match of {
        Quantity::Cycles => cycles,
        Quantity::InstructionsPerCycle => each(counters.instructions) / cycles,
        Quantity::L1Misses => each(counters.l1_misses),
        Quantity::LlcMisses => each(counters.llc_misses),
        Quantity::Bandwidth => {
            each(counters.llc_misses) * LINE_BYTES as f64 * cell.throughput * ghz
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_machine_of_gem5_is_compared_with_it() {
        assert!(points("micro15", 1).unwrap().is_empty());
        let points = points("gem5-ruby:core.rob=100", 1).unwrap();
        let values: usize = Gem5::read().run.iter().map(|run| run.value.len()).sum();
        assert!(points.len() == values && values > 0);
        let failed: Vec<_> = points.iter().filter(|point| point.fails()).collect();
        assert!(failed.is_empty(), "{failed:?}");
    }

    #[test]
    fn a_slower_memory_makes_the_program_slower_and_misses_no_more() {
        let mut run = Gem5::read().run.swap_remove(0);
        run.operations = 1000;
        let (usual, ghz) = simulate(&run, 1).unwrap();
        run.machine += ":memory.nvm.read=342";
        let (slow, _) = simulate(&run, 1).unwrap();
        let of = |of, cell| measured(of, &run, cell, ghz);
        let twice = of(Quantity::Cycles, &slow) / of(Quantity::Cycles, &usual);
        assert!((1.5..2.5).contains(&twice), "{twice}");
        assert_eq!(of(Quantity::LlcMisses, &slow), of(Quantity::LlcMisses, &usual));
        assert!(of(Quantity::Bandwidth, &slow) < of(Quantity::Bandwidth, &usual));
    }
}
