//! What placing objects better is worth: PACT'20 ("Ribbon"), flush coalescing.
//!
//! A dictionary of small objects, as Redis has it, runs on a simulated machine with its objects
//! packed, aligned, and together (`seawall_workloads::ribbon20::objects`). Counted are the lines of
//! objects and of their states that it flushes, how much of them was dirty, and cycles. Twice: with
//! the heap as it is, which flushes a data line once for hundreds of transactions, and with the
//! logs retired after each operation, as libraries do that flush a transaction's data at its
//! commit.
//!
//! Published are 47 % mean dirtiness of the lines that Redis flushes (YCSB load, A to F, TPC-C),
//! and a gain of 13.8 % on average, 33.3 % at most, for in-memory databases. Sizes of objects are
//! not published; those here are chosen, so the numbers show the mechanism and are no reproduction.

use crate::LabError;
use crate::engine::options::in_range;
use seawall_memory::{Addr, Image, LINE_BYTES, Memory, MemoryExt};
use seawall_ribbon::{Dirtiness, DirtyCounts};
use seawall_runtime::{HeapStats, RouteChoice, TxError};
use seawall_sim::{Choice, Cycle, Machine, Program, SimMemory, Simulation};
use seawall_workloads::Damage;
use seawall_workloads::ribbon20::objects::{
    ObjectChange, Objects, Placing, draw, key_of, numbers, options,
};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const DESIGN: &str = "clwb";
const PHASES: [ObjectChange; 3] =
    [ObjectChange::Insert, ObjectChange::Replace, ObjectChange::Count];
/// Before and after each phase.
const MEETINGS: u64 = 2 * PHASES.len() as u64;

/// What to run.
#[derive(Clone, Debug)]
pub struct CoalescingOptions {
    /// The machine, by name or as the path of a file.
    pub machine: String,
    /// Keys that each thread inserts, 1 to 2^20, and then replaces and counts as often.
    pub keys: u64,
    /// Threads, each with a dictionary of its own; at most the machine's cores.
    pub threads: usize,
    /// Seed of the choice of keys.
    pub seed: u64,
    /// Retire the logs after each operation.
    pub retires_each: bool,
}

impl Default for CoalescingOptions {
    fn default() -> CoalescingOptions {
        CoalescingOptions {
            machine: "micro15".into(),
            keys: 20_000,
            threads: 1,
            seed: 1,
            retires_each: false,
        }
    }
}

/// One kind of operation with objects placed in one way.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CoalescingRow {
    /// How objects are placed.
    pub placing: Placing,
    pub change: ObjectChange,
    /// Simulated cycles until the last thread has done all of it.
    pub cycles: Cycle,
    /// What was flushed of objects and their states. Straddling and direct ones are of all.
    pub counts: DirtyCounts,
    /// Lines of log records; of several threads as if each had as many as the first.
    pub log_lines: u64,
}

/// The dictionary with objects placed in every way.
#[derive(Clone, Debug)]
pub struct Coalescing {
    pub options: CoalescingOptions,
    /// Each kind of operation, with each placing.
    pub rows: Vec<CoalescingRow>,
    /// What the heap looks like at the end, for each placing in the order of [`Placing::ALL`].
    pub spaces: Vec<HeapStats>,
}

impl Coalescing {
    /// Runs the dictionaries once for each placing, the same numbers every time; stops soon after
    /// `stop` becomes true.
    ///
    /// # Errors
    /// An option out of range, or a machine that cannot be used; a run that ends in a dictionary
    /// that is not whole; the request to stop.
    pub fn run(
        options: &CoalescingOptions,
        stop: &Arc<AtomicBool>,
    ) -> Result<Coalescing, LabError> {
        in_range("keys", options.keys, 1, 1 << 20)?;
        let machine = Machine::load(&options.machine)?;
        in_range("threads", options.threads as u64, 1, machine.core.count as u64)?;
        let (mut rows, mut spaces) = (Vec::new(), Vec::new());
        for placing in Placing::ALL {
            let (of_placing, space) = run_placing(&machine, options, placing, stop)?;
            rows.extend(of_placing);
            spaces.push(space);
        }
        rows.sort_by_key(|row: &CoalescingRow| PHASES.iter().position(|it| *it == row.change));
        Ok(Coalescing { options: options.clone(), rows, spaces })
    }

    /// What the heap looks like at the end with objects placed so.
    pub fn space(&self, placing: Placing) -> Option<&HeapStats> {
        Placing::ALL.iter().zip(&self.spaces).find(|(it, _)| **it == placing).map(|(_, it)| it)
    }

    /// The row of that kind of operation with objects placed so.
    pub fn row(&self, change: ObjectChange, placing: Placing) -> Option<&CoalescingRow> {
        self.rows.iter().find(|row| row.change == change && row.placing == placing)
    }

    /// How many more operations a cycle had than with packed objects, in per cent.
    pub fn gain(&self, row: &CoalescingRow) -> f64 {
        let packed = self.row(row.change, Placing::Packed).map_or(row.cycles, |row| row.cycles);
        100.0 * (packed as f64 / row.cycles.max(1) as f64 - 1.0)
    }
}

impl CoalescingRow {
    /// The kind of operation, in a word.
    pub fn operation(&self) -> &'static str {
        match self.change {
            ObjectChange::Insert => "insert",
            ObjectChange::Replace => "replace",
            ObjectChange::Count => "count",
            ObjectChange::Remove => "remove",
        }
    }
}

/// Runs all phases, a program a core.
fn run_placing(
    machine: &Machine,
    run: &CoalescingOptions,
    placing: Placing,
    stop: &Arc<AtomicBool>,
) -> Result<(Vec<CoalescingRow>, HeapStats), LabError> {
    let broken = |damage: Damage| LabError::Damage { workload: "objects", damage };
    let threads = run.threads as u64;
    let heap = options(run.keys, threads, placing);
    let meetings = heap.dram_bytes().next_multiple_of(LINE_BYTES);
    let image = Image::new(heap.pm_bytes(), meetings + LINE_BYTES * MEETINGS);
    let objects = Objects::create(&image, run.keys, threads, placing);
    let objects = objects.map_err(|error| broken(error.into()))?;
    let data_bytes = heap.pm_bytes() - objects.heap().data().offset();
    let dirtiness = Dirtiness::within(objects.heap().data(), data_bytes);
    let rows = Rc::new(RefCell::new(Ok(Vec::new())));
    let program = |thread: u64| -> Program {
        let (rows, run, dirtiness) = (rows.clone(), run.clone(), dirtiness.clone());
        Box::new(move |memory| {
            let crew = Crew { objects, placing, run, dirtiness, meetings: Addr::dram(meetings) };
            let outcome = crew.phases(memory, thread);
            if thread == 0 || outcome.is_err() {
                *rows.borrow_mut() = outcome;
            }
        })
    };
    let programs = (0..threads).map(program).collect();
    let (pm, dram) = image.into_parts();
    let design = Choice::parse(DESIGN)?;
    let simulation = Simulation::new(machine, &design, pm, dram).stopped_by(stop.clone());
    let outcome = simulation.run(programs)?;
    let rows = rows.replace(Ok(Vec::new())).map_err(|error| broken(error.into()))?;
    let bytes = outcome.pm.len() as u64;
    let after = Image::from_pm(outcome.pm, heap.dram_bytes());
    let opened = Objects::open(&after, bytes, placing).map_err(broken)?;
    let found = opened.contents(&after).map_err(broken)?.len();
    if found as u64 != run.keys * threads {
        return Err(broken(Damage(format!("{found} keys are left of {}", run.keys * threads))));
    }
    let space = opened.heap().stats(&after).map_err(|error| broken(error.into()))?;
    Ok((rows, space))
}

/// What the threads share.
struct Crew {
    objects: Objects,
    placing: Placing,
    run: CoalescingOptions,
    dirtiness: Dirtiness,
    /// In DRAM, a line each: how many threads have come to a meeting.
    meetings: Addr,
}

impl Crew {
    fn meet(&self, memory: &SimMemory, meeting: u64) {
        let at = self.meetings.plus(LINE_BYTES * meeting);
        let mut here = memory.fetch_add(at, 1) + 1;
        while here < self.run.threads as u64 {
            here = memory.spin_while(at, here);
        }
    }

    /// A thread's part of all phases; what all threads did, as this one sees it.
    fn phases(&self, below: &SimMemory, thread: u64) -> Result<Vec<CoalescingRow>, TxError> {
        let Crew { objects, placing, run, dirtiness, .. } = self;
        let memory = dirtiness.join(below);
        let mut session = objects.join(&memory);
        session.set_log_route(RouteChoice::Uncached);
        let (mut rng, mut rows, mut number) = (numbers(run.seed, thread), Vec::new(), 0);
        for (meeting, change) in (0..).step_by(2).zip(PHASES) {
            let log_lines = session.log_counts().lines;
            let counts = dirtiness.counts();
            self.meet(below, meeting);
            let start = memory.now();
            for key in 0..run.keys {
                number += 1;
                let key =
                    if change == ObjectChange::Insert { key } else { draw(&mut rng, run.keys) };
                objects.change(&mut session, change, key_of(thread, key), number)?;
                if run.retires_each {
                    session.retire();
                }
            }
            session.retire();
            self.meet(below, meeting + 1);
            rows.push(CoalescingRow {
                placing: *placing,
                change,
                cycles: memory.now() - start,
                counts: dirtiness.counts() - counts,
                log_lines: (session.log_counts().lines - log_lines) * run.threads as u64,
            });
        }
        Ok(rows)
    }
}
