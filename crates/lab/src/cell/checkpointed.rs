//! A parallel kernel with checkpoints as a cell: in the place of PARSEC's programs in PACT'20.
//!
//! All threads run the kernel once, from its input to its end; that is one operation. Its result is
//! checked against the plain computation. Crashes, and going on from the last checkpoint, are the
//! business of `crates/lab/tests/checkpoints.rs`.

use super::ribbon::Crew;
use super::{BYTES_MAX, Cell, Point, cpu_time, stalls_of};
use crate::LabError;
use crate::cell::crash::Broken;
use seawall_any::AnyMemory;
use seawall_memory::{Image, MemoryExt};
use seawall_sim::{Program, SimMemory};
use seawall_workloads::{Input, Kernel, KernelVisitor, with_checkpointed};
use std::rc::Rc;

/// Runs `point`, if it is one of a kernel with checkpoints.
pub(super) fn run(run: &super::Run<'_>) -> Option<Result<Cell, LabError>> {
    with_checkpointed(&run.point.workload, Run(run)).ok()
}

/// Refuses numbers that the kernel of `point` cannot run with, if it is one with checkpoints.
pub(super) fn check(point: &Point) -> Option<Result<(), LabError>> {
    with_checkpointed(&point.workload, Fit { point }).ok()
}

struct Fit<'a> {
    point: &'a Point,
}

impl KernelVisitor for Fit<'_> {
    type Output = Result<(), LabError>;

    fn visit<K: Kernel>(self) -> Self::Output {
        input::<K>(self.point).map(drop)
    }
}

fn input<K: Kernel>(point: &Point) -> Result<Input, LabError> {
    let size = point.entries.unwrap_or(K::QUICK);
    let input = Input { threads: point.threads, size, seed: point.seed };
    input.check::<K>()?;
    let layout = K::layout(&input);
    if layout.pm_bytes + layout.dram_bytes > BYTES_MAX {
        return Err(LabError::Option {
            option: "size",
            value: size.to_string(),
            valid: format!("less: {} would take more than {BYTES_MAX} bytes", K::NAME),
        });
    }
    Ok(input)
}

struct Run<'a>(&'a super::Run<'a>);

impl KernelVisitor for Run<'_> {
    type Output = Result<Cell, LabError>;

    fn visit<K: Kernel>(self) -> Self::Output {
        let mut point = self.0.point.clone();
        let input = input::<K>(&point)?;
        (point.entries, point.operations, point.warmup) = (Some(input.size), 1, 0);
        let layout = K::layout(&input);
        let image = Image::new(layout.pm_bytes, layout.dram_bytes);
        let kernel = K::create(&AnyMemory::image(&image), &input);
        let (pm, mut dram) = image.into_parts();
        let crew = Crew::place(&point, &mut dram)?;
        let ended = Rc::new(std::cell::Cell::new(0));
        let program = |_| -> Program {
            let (kernel, crew, ended) = (kernel.clone(), crew.clone(), ended.clone());
            Box::new(move |memory: &SimMemory| {
                match &crew {
                    None => kernel.run(&AnyMemory::simulated(memory)),
                    Some(crew) => crew.run(memory, |memory| kernel.run(memory)),
                }
                ended.set(memory.now().max(ended.get()));
            })
        };
        let threads = (0..point.threads).map(program);
        let programs = threads.chain(crew.iter().flat_map(Crew::flushers)).collect();
        let host = cpu_time();
        let outcome = self.0.simulation(pm, dram).run(programs)?;
        let host = cpu_time().saturating_sub(host);
        let image = Image::from_pm(outcome.pm, layout.dram_bytes);
        let result = kernel.check(&AnyMemory::image(&image));
        let broken =
            |damage| Broken { cycle: outcome.cycles, what: format!("at the end: {damage}") };
        Ok(Cell {
            throughput: 1.0 / ended.get().max(1) as f64,
            cycles: outcome.cycles,
            stalls: stalls_of(&outcome.stalls[..point.threads]),
            counters: outcome.counters,
            ribbon: crew.map(|crew| crew.counts()),
            moving: None,
            pages_a_byte: None,
            crashes: 0,
            broken: result.err().map(broken).into_iter().collect(),
            host,
            timeline: outcome.timeline,
            detail: outcome.detail,
            point,
        })
    }
}
