//! JSON Lines: one record per cell, with names that stay.
//!
//! A record holds no time of day and nothing of the host, so the same run writes the same bytes.

use crate::cell::{Cell, CellRibbon, Flushed, Moving};
use crate::commands::compare::Comparison;
use crate::engine::detail::DetailRecord;
use seawall_memory::Model;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A cell of a comparison as `--json` writes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Record {
    pub workload: String,
    /// The design with its parameters, as it was asked for; with a Ribbon as in `clwb+ribbon`.
    pub design: String,
    /// The machine, as it was asked for.
    pub machine: String,
    pub threads: usize,
    /// Operations per cycle of all threads together.
    pub throughput: f64,
    /// `throughput` over that of `baseline`; null if that was not run.
    pub relative: Option<f64>,
    /// Epochs flushed because of a conflict, in per cent; null if there are no epochs.
    pub conflicting_epochs: Option<f64>,
    pub crashes: u64,
    /// Of those, and of the end of the run, how many broke the structure.
    pub broken: usize,
    /// Share of all threads' cycles by reason, `busy` and `idle` included; adds up to 1.
    pub stalls: Map<String, Value>,
    /// The design that `relative` is relative to.
    pub baseline: String,
    /// `throughput` in millions of operations per simulated second.
    pub million_operations_per_second: f64,
    /// The persistency model that the design promises.
    pub model: &'static str,
    /// Whether an ordered operation is durable when it completes.
    pub order_is_durable: bool,
    pub seed: u64,
    /// Measured operations of each thread.
    pub operations: u64,
    /// Operations of each thread before those.
    pub warmup: u64,
    /// Entries at the start.
    pub entries: Option<u64>,
    /// Per cent of operations that only search.
    pub search_percent: Option<u32>,
    /// The mix of requests, if it is not the workload's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mix: Option<String>,
    /// The Ribbon around the threads, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ribbon: Option<CellRibbon>,
    /// How objects were moved, if they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub defragment: Option<String>,
    /// What that took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moving: Option<Moving>,
    /// Bytes of pages for each live byte at the end, if objects can be moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages_a_byte: Option<f64>,
    /// How the lines were flushed that the threads asked for, if there is a Ribbon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flushed: Option<Flushed>,
    /// The planted bug, if any.
    pub flaw: Option<&'static str>,
    /// Cycles until the last thread finished.
    pub cycles: u64,
    /// Everything that was counted.
    pub counters: Map<String, Value>,
    /// Latencies, queues and cores, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<DetailRecord>,
    /// Cycle and message of each broken crash.
    pub failures: Vec<Value>,
    /// The command that repeats the cell.
    pub command: String,
    /// True if the comparison was stopped before all cells were done.
    pub partial: bool,
    pub version: &'static str,
}

impl Comparison {
    /// The record of each cell, in the order of the plan.
    pub fn records(&self) -> Vec<Record> {
        self.cells.iter().map(|cell| self.record(cell)).collect()
    }

    fn record(&self, cell: &Cell) -> Record {
        let point = &cell.point;
        let counters = cell.counters.rows().into_iter();
        let failure = |broken: &crate::Broken| json!({"cycle": broken.cycle, "what": broken.what});
        Record {
            workload: point.workload.clone(),
            design: point.label(),
            machine: self.plan.machine_name.clone(),
            threads: point.threads,
            throughput: cell.throughput,
            relative: self.relative(cell),
            conflicting_epochs: cell.conflicting_epochs(),
            crashes: cell.crashes,
            broken: cell.broken.len(),
            stalls: cell.spent().to_json(),
            baseline: self.plan.baseline.clone(),
            million_operations_per_second: cell.throughput * self.plan.machine.ghz * 1000.0,
            model: point.design.model_name(),
            order_is_durable: point.design.model().is_some_and(Model::order_is_durable),
            seed: point.seed,
            operations: point.operations,
            warmup: point.warmup,
            entries: point.entries,
            search_percent: point.search_percent,
            mix: point.mix.map(|mix| mix.to_string()),
            ribbon: self.plan.ribbon.clone().filter(|_| point.ribbon.is_some()),
            defragment: point.defragment.map(|way| way.to_string()),
            moving: cell.moving,
            pages_a_byte: cell.pages_a_byte,
            flushed: Flushed::of(cell),
            flaw: point.flaw.name(),
            cycles: cell.cycles,
            counters: counters.map(|(name, _, count)| (name.to_owned(), json!(count))).collect(),
            detail: cell.detail.as_ref().map(|detail| DetailRecord::new(detail, cell.cycles)),
            failures: cell.broken.iter().map(failure).collect(),
            command: cell.command(&self.plan.machine_name),
            partial: self.is_partial,
            version: seawall_report::version(),
        }
    }
}
