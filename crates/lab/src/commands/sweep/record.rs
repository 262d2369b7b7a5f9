//! A finished point of a sweep as its line says it: everything that it depends on, and what came
//! of it.
//!
//! Only whole numbers are read back for tables, so that a resumed sweep prints the same bytes.

use crate::Cuts;
use crate::commands::kernels::point::{Extent, KernelPoint, KernelRun};
use crate::commands::kernels::{counters_of, entry, log_share, parameters_of};
use crate::engine::detail::DetailRecord;
use crate::engine::spent::Spent;
use seawall_sim::{Machine, Reason, Stalls};
use seawall_workloads::{Kernel, KernelVisitor, with_kernel};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::fmt;

/// Everything that a point depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Described {
    pub(super) kernel: String,
    size: u64,
    unit: String,
    pub(super) threads: usize,
    seed: u64,
    extent: Extent,
    /// The instructions and the stack that it is run with; none if it is bare.
    mix: Option<String>,
    /// Crashes asked for.
    crashes: u64,
    /// Whether the record has latencies, queues and cores.
    #[serde(default, skip_serializing_if = "is_false")]
    detailed: bool,
    pub(super) design: String,
    /// Every parameter of the design.
    parameters: Map<String, Value>,
    /// Every number of the machine.
    machine_parameters: Value,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SweepRecord {
    experiment: String,
    #[serde(flatten)]
    pub(super) point: Described,
    /// The machine, as it was named, before anything was changed.
    machine: String,
    pub(super) cycles: u64,
    /// `cycles` over that of the baseline on the same machine.
    time: f64,
    baseline: String,
    /// Whether the result is that of the plain computation.
    pub(super) right: bool,
    /// Crashes judged; null where the design promises no consistent cut.
    pub(super) judged: Option<u64>,
    crash_size: Option<u64>,
    pub(super) broken: u64,
    failures: Vec<String>,
    /// Per cent of the lines written to memory.
    log_share: f64,
    /// Cycles of all threads by reason, `busy` and `idle` included.
    stall_cycles: Map<String, Value>,
    pub(super) counters: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    detail: Option<DetailRecord>,
    version: String,
}

/// The text of a kernel's [`Mix`](seawall_workloads::Mix): all of its numbers.
struct MixText;

impl KernelVisitor for MixText {
    type Output = String;

    fn visit<K: Kernel>(self) -> String {
        format!("{:?}", K::MIX)
    }
}

impl fmt::Display for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Described { kernel, size, threads, seed, design, .. } = self;
        write!(f, "{kernel}:{size} on {threads} threads with seed {seed} under {design}")?;
        let parameters = Value::from(self.parameters.clone());
        let cores = &self.machine_parameters["core"]["count"];
        write!(f, " with {parameters} on a machine of {cores} cores")
    }
}

impl Described {
    pub(super) fn new(
        machine: &Machine,
        point: &KernelPoint,
        (crashes, detailed): (u64, bool),
    ) -> Described {
        Described {
            kernel: point.kernel.clone(),
            size: point.size.unwrap_or_default(),
            unit: entry(&point.kernel).map_or("", |entry| entry.unit).to_owned(),
            threads: point.threads,
            seed: point.seed,
            extent: point.extent,
            mix: match point.extent {
                Extent::Bare => None,
                Extent::Parallel | Extent::Whole => with_kernel(&point.kernel, MixText).ok(),
            },
            crashes,
            detailed,
            design: point.design.entry.name.to_owned(),
            parameters: parameters_of(&point.design),
            machine_parameters: serde_json::to_value(machine).unwrap_or_default(),
        }
    }

    /// A text that is the same for the same point, whether made or read back.
    pub(super) fn key(&self) -> String {
        let text = |value: &Value| value.to_string();
        let once = text(&serde_json::to_value(self).unwrap_or_default());
        serde_json::from_str(&once).as_ref().map_or(once.clone(), text)
    }
}

impl SweepRecord {
    /// What came of a point. `baseline` is the name of the design that time is relative to, and
    /// its cycles with the same kernel on the same machine; none for the baseline itself.
    pub(super) fn new(
        (experiment, machine): (&str, &str),
        point: Described,
        run: &KernelRun,
        cuts: Option<&Cuts>,
        (baseline, baseline_cycles): (&str, Option<u64>),
    ) -> SweepRecord {
        let core_cycles = run.cycles * point.threads as u64;
        let spent = Spent { core_cycles, stalls: run.stalls };
        let stalled = Reason::ALL.into_iter().map(|r| (r.name(), run.stalls.get(r)));
        let cycles = std::iter::once(("busy", spent.busy())).chain(stalled);
        let wrong = run.result.as_ref().err().map(ToString::to_string);
        let broken = cuts.iter().flat_map(|cuts| &cuts.broken);
        let broken = broken.map(|broken| format!("crash at {}: {}", broken.cycle, broken.what));
        SweepRecord {
            experiment: experiment.to_owned(),
            point,
            machine: machine.to_owned(),
            cycles: run.cycles,
            time: run.cycles as f64 / baseline_cycles.unwrap_or(run.cycles) as f64,
            baseline: baseline.to_owned(),
            right: run.result.is_ok(),
            judged: cuts.map(|cuts| cuts.crashes),
            crash_size: cuts.map(|cuts| cuts.size),
            broken: cuts.map_or(0, |cuts| cuts.broken.len() as u64),
            failures: wrong.into_iter().chain(broken).collect(),
            log_share: log_share(&run.counters),
            stall_cycles: cycles.map(|(name, count)| (name.to_owned(), json!(count))).collect(),
            counters: counters_of(&run.counters),
            detail: run.detail.as_ref().map(|detail| DetailRecord::new(detail, run.cycles)),
            version: seawall_report::version().to_owned(),
        }
    }

    /// Reads a line; or what is wrong with it.
    pub(super) fn read(line: &str) -> Result<SweepRecord, String> {
        let record: SweepRecord =
            serde_json::from_str(line).map_err(|error| format!("it is no record: {error}"))?;
        if !seawall_report::is_of_release(&record.version) {
            return Err(format!("it was written by version {}", record.version));
        }
        let mut cycles = record.stall_cycles.values().filter_map(Value::as_u64);
        match cycles.try_fold(0, u64::checked_add) {
            Some(_) => Ok(record),
            None => Err("it has more cycles than 64 bits hold".to_owned()),
        }
    }

    /// Whether `run` is what the record says.
    pub(super) fn is_of(&self, run: &KernelRun) -> bool {
        self.cycles == run.cycles
            && self.counters == counters_of(&run.counters)
            && self.spent().stalls == run.stalls
    }

    pub(super) fn to_line(&self) -> String {
        serde_json::to_string(self).expect("plain data") + "\n"
    }

    pub(super) fn key(&self) -> String {
        self.point.key()
    }

    pub(super) fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).and_then(Value::as_u64).unwrap_or(0)
    }

    pub(super) fn spent(&self) -> Spent {
        let mut stalls = Stalls::default();
        let cycles = |name: &str| self.stall_cycles.get(name).and_then(Value::as_u64).unwrap_or(0);
        Reason::ALL.into_iter().for_each(|reason| stalls.add(reason, cycles(reason.name())));
        Spent { core_cycles: stalls.total() + cycles("busy"), stalls }
    }

    /// What was wrong with it, if anything.
    pub(super) fn failure(&self) -> Option<String> {
        let what = self.failures.first()?;
        Some(format!("{} under {}: {what}", self.point.kernel, self.point.design))
    }

    #[cfg(test)]
    pub(super) fn mix(&mut self) -> &mut Option<String> {
        &mut self.point.mix
    }

    #[cfg(test)]
    pub(super) fn sample() -> SweepRecord {
        use crate::{KernelSize, run_kernel};
        let machine = Machine::load("desktop").unwrap();
        let sizes = crate::commands::kernels::sizes(&["lu".into()], KernelSize::Of(2)).unwrap();
        let point = KernelPoint {
            kernel: "lu".into(),
            design: seawall_sim::Choice::parse("bsp-lb").unwrap(),
            threads: 1,
            size: Some(sizes[0].1),
            seed: 1,
            extent: Extent::default(),
        };
        let run = run_kernel(&machine, &point, &Default::default()).unwrap();
        let described = Described::new(&machine, &point, (0, false));
        SweepRecord::new(("test", "desktop"), described, &run, None, ("volatile", Some(8)))
    }
}
