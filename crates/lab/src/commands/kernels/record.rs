//! JSON Lines of kernels: one record per cell, with names that stay.
//!
//! A record holds no time of day and nothing of the host, so the same run writes the same bytes.

use super::{KernelCell, Kernels, entry};
use crate::commands::kernels::point::Extent;
use crate::engine::detail::DetailRecord;
use seawall_sim::{Choice, Counters};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A kernel under a design as `--json` writes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KernelRecord {
    pub kernel: String,
    /// The design with its parameters, as it was asked for.
    pub design: String,
    /// The machine, as it was asked for.
    pub machine: String,
    pub threads: usize,
    /// How much there was to do.
    pub size: u64,
    pub unit: &'static str,
    /// What of the program was run.
    pub extent: Extent,
    /// Bytes of memory that the program has.
    pub pm_bytes: u64,
    /// Cycles until the last thread finished.
    pub cycles: u64,
    /// `cycles` over that of `baseline`; null if that was not run.
    pub time: Option<f64>,
    /// The design that `time` is relative to.
    pub baseline: String,
    /// Whether the result is that of the plain computation.
    pub right: bool,
    /// Epochs flushed because of a conflict, in per cent; null if there are no epochs.
    pub conflicting_epochs: Option<f64>,
    /// Conflicts between threads, in per cent of all; null if there are none.
    pub conflicts_between_threads: Option<f64>,
    /// Lines of the hardware's log and of saved processor state, in per cent of those written to
    /// memory.
    pub log_share: f64,
    /// Crashes injected and judged; null where the design promises no consistent cut.
    pub crashes: Option<u64>,
    /// The size that was crashed.
    pub crash_size: Option<u64>,
    /// Stores that were in the cuts of all crashes together.
    pub stores_in_cuts: Option<u64>,
    /// Crashes that left no consistent cut.
    pub broken: usize,
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
    /// The command that repeats the cell.
    pub command: String,
    /// True if the run was stopped before all cells were done.
    pub partial: bool,
    pub version: &'static str,
}

impl KernelCell {
    /// Epochs that had to be flushed because of a conflict, in per cent of all; none if there are
    /// no epochs.
    pub fn conflicting_epochs(&self) -> Option<f64> {
        let Counters { epochs, epochs_conflicting, .. } = self.run.counters;
        per_cent(epochs_conflicting, epochs)
    }

    /// Conflicts between threads, in per cent of all; none if there are none.
    pub fn conflicts_between_threads(&self) -> Option<f64> {
        let counters = &self.run.counters;
        per_cent(counters.conflicts_inter, conflicts(counters))
    }

    /// The command that runs this cell again.
    pub fn command(&self, kernels: &Kernels) -> String {
        let plan = &kernels.plan;
        self.point.words(&plan.machine_name, &plan.baseline, plan.crashes).join(" ")
    }
}

/// Accesses and victims that met an epoch that was not durable.
pub(super) fn conflicts(counters: &Counters) -> u64 {
    counters.conflicts_inter + counters.conflicts_intra + counters.conflicts_replacement
}

/// `part` of `all` in per cent, if there are any.
pub(super) fn per_cent(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| 100.0 * part as f64 / all as f64)
}

/// Lines of the log and of processor state.
pub(super) fn own_lines(counters: &Counters) -> u64 {
    counters.log_lines + counters.log_records + counters.state_lines
}

/// Lines of the log and of processor state in per cent of the lines written to memory.
pub(crate) fn log_share(counters: &Counters) -> f64 {
    per_cent(own_lines(counters), counters.line_writes).unwrap_or(0.0)
}

/// Every counter by its name.
pub(crate) fn counters_of(counters: &Counters) -> Map<String, Value> {
    let rows = counters.rows().into_iter();
    rows.map(|(name, _, count)| (name.to_owned(), json!(count))).collect()
}

/// Every parameter of a design, the defaults included.
pub(crate) fn parameters_of(design: &Choice) -> Map<String, Value> {
    let all = design.all_parameters().into_iter();
    all.map(|(name, value)| (name, serde_json::to_value(value).unwrap_or_default())).collect()
}

impl Kernels {
    /// The record of each cell, in the order of the plan.
    pub fn records(&self) -> Vec<KernelRecord> {
        self.cells.iter().map(|cell| self.record(cell)).collect()
    }

    fn record(&self, cell: &KernelCell) -> KernelRecord {
        let KernelCell { point, run, cuts } = cell;
        let wrong = run.result.as_ref().err();
        let wrong = wrong.map(|damage| json!({"cycle": run.cycles, "what": damage.to_string()}));
        let broken = cuts.iter().flat_map(|cuts| &cuts.broken);
        let broken = broken.map(|broken| json!({"cycle": broken.cycle, "what": broken.what}));
        KernelRecord {
            kernel: point.kernel.clone(),
            design: point.design.text.clone(),
            machine: self.plan.machine_name.clone(),
            threads: point.threads,
            size: run.input.size,
            unit: entry(&point.kernel).map_or("", |entry| entry.unit),
            extent: point.extent,
            pm_bytes: run.pm_bytes,
            cycles: run.cycles,
            time: self.relative(cell),
            baseline: self.plan.baseline.clone(),
            right: run.result.is_ok(),
            conflicting_epochs: cell.conflicting_epochs(),
            conflicts_between_threads: cell.conflicts_between_threads(),
            log_share: log_share(&run.counters),
            crashes: cuts.as_ref().map(|cuts| cuts.crashes),
            crash_size: cuts.as_ref().map(|cuts| cuts.size),
            stores_in_cuts: cuts.as_ref().map(|cuts| cuts.stores_in_cuts),
            broken: cuts.as_ref().map_or(0, |cuts| cuts.broken.len()),
            stalls: cell.spent().to_json(),
            counters: counters_of(&run.counters),
            model: point.design.model_name(),
            parameters: parameters_of(&point.design),
            seed: point.seed,
            detail: run.detail.as_ref().map(|detail| DetailRecord::new(detail, run.cycles)),
            failures: wrong.into_iter().chain(broken).collect(),
            command: cell.command(self),
            partial: self.is_partial,
            version: seawall_report::version(),
        }
    }
}
