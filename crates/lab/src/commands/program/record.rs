//! JSON Lines of a program: one record per design, with names that stay.
//!
//! A record holds no time of day and nothing of the host, so the same run writes the same bytes.

use super::profile::ProfileRecord;
use super::{ProgramCell, Programs};
use crate::cell::{CellRibbon, Flushed};
use crate::commands::kernels::{counters_of, parameters_of};
use crate::engine::detail::DetailRecord;
use seawall_program::{Asks, Fences, From, Persistent};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A program under a design as `--json` writes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ProgramRecord {
    /// The command, as it was typed.
    pub program: String,
    /// What it is called among several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The design with its parameters, as it was asked for; with a Ribbon as in `clwb+ribbon`.
    pub design: String,
    /// The machine, as it was asked for.
    pub machine: String,
    /// The Ribbon around the threads, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ribbon: Option<CellRibbon>,
    /// How the lines were flushed that the threads asked for, if there is a Ribbon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flushed: Option<Flushed>,
    /// Cores that ran a thread.
    pub cores: usize,
    /// Threads that the program started, `main` included.
    pub threads: u64,
    /// Instructions that it ran, of all threads.
    pub instructions: u64,
    /// What of its memory is persistent.
    pub persistent: Persistent,
    /// What its fences ask for.
    pub fences: Fences,
    /// When measuring begins.
    pub from: From,
    /// Bytes of pages of persistent memory that it touched.
    pub pm_bytes: u64,
    /// Bytes of pages of other memory that it touched.
    pub dram_bytes: u64,
    /// Words that it stored to persistent memory.
    pub pm_stores: u64,
    /// Cycles of the region that was measured.
    pub cycles: u64,
    /// `cycles` over that of `baseline`.
    pub time: Option<f64>,
    /// `cycles` over those of the first of several programs under the same design.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_first: Option<f64>,
    /// The design that `time` is relative to.
    pub baseline: String,
    /// What it returned.
    pub exit_code: i32,
    /// Whether it returned what it returns when all is well.
    pub right: bool,
    /// Epochs flushed because of a conflict, in per cent; null if there are no epochs.
    pub conflicting_epochs: Option<f64>,
    /// Crashes injected and judged; null where none are.
    pub crashes: Option<u64>,
    /// The command that judged them; null if that was the recording of the run.
    pub check: Option<String>,
    /// Crashes that broke it.
    pub broken: usize,
    /// Parts of the program that were not compiled with `seawall cc`.
    pub not_compiled: Vec<String>,
    /// Lines of persistent memory that it flushed, and its fences, whatever the design makes of
    /// them.
    pub asked: Asks,
    /// Words of persistent memory that changed without a store that was seen.
    pub unseen_stores: u64,
    /// Loads that were shown an older value than the newest store, as the machine's order has it.
    pub raced_loads: u64,
    /// Share of all threads' cycles by reason, `busy` and `idle` included; adds up to 1.
    pub stalls: Map<String, Value>,
    /// Everything that was counted.
    pub counters: Map<String, Value>,
    /// The persistency model that the design promises.
    pub model: &'static str,
    /// Every parameter of the design.
    pub parameters: Map<String, Value>,
    pub seed: u64,
    /// Latencies, queues and cores, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<DetailRecord>,
    /// What is wrong with the result, and cycle and message of each broken crash.
    pub failures: Vec<Value>,
    /// The places with the most cycles, 100 at most, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<Vec<ProfileRecord>>,
    /// The command that repeats the cell.
    pub command: String,
    /// True if the run was stopped before all cells were done.
    pub partial: bool,
    pub version: &'static str,
}

impl Programs {
    /// The record of each cell, in the order of the plan.
    pub(super) fn records(&self) -> Vec<ProgramRecord> {
        self.cells.iter().map(|cell| self.record(cell)).collect()
    }

    fn record(&self, cell: &ProgramCell) -> ProgramRecord {
        let (plan, ran, program) = (&self.plan, &cell.ran, &cell.point.program);
        let crashed = cell.crashed.as_ref();
        let wrong = cell.wrong.iter().map(|what| json!({ "what": what }));
        let broken = crashed.into_iter().flat_map(|ran| &ran.broken);
        let broken = broken.map(|broken| json!({"cycle": broken.cycle, "what": broken.what}));
        ProgramRecord {
            program: program.command.text.clone(),
            name: program.has_others.then(|| program.name.clone()),
            design: cell.point.label(),
            machine: plan.machine_name.clone(),
            ribbon: cell.point.ribbon.clone(),
            flushed: ran.ribbon.map(Flushed::of_counts),
            cores: ran.cores,
            threads: ran.threads,
            instructions: ran.instructions,
            persistent: plan.persistent,
            fences: plan.fences,
            from: plan.from,
            pm_bytes: ran.touched[0],
            dram_bytes: ran.touched[1],
            pm_stores: ran.stored[1],
            cycles: ran.cycles,
            time: self.relative(cell),
            over_first: self.over_first(cell),
            baseline: plan.baseline.clone(),
            exit_code: ran.exit_code,
            right: cell.wrong.is_none(),
            conflicting_epochs: cell.conflicting_epochs(),
            crashes: crashed.map(|ran| ran.crashes),
            check: program.check(),
            broken: cell.broken(),
            not_compiled: self.facts[program.number].opaque.clone(),
            asked: ran.asked,
            unseen_stores: ran.unseen,
            raced_loads: ran.raced,
            stalls: cell.spent().to_json(),
            counters: counters_of(&ran.counters),
            model: cell.point.design.model_name(),
            parameters: parameters_of(&cell.point.design),
            seed: plan.seed,
            detail: ran.detail.as_ref().map(|detail| DetailRecord::new(detail, ran.cycles)),
            failures: wrong.chain(broken).collect(),
            profile: cell.profile_records(),
            command: plan.command(&cell.point),
            partial: self.is_partial,
            version: seawall_report::version(),
        }
    }
}
