//! A finished point of a sweep as its line says it: everything that it depends on, and what came
//! of it.
//!
//! Only whole numbers are read back for tables, so that a resumed sweep prints the same bytes.

use crate::commands::kernels::point::Extent;
use crate::commands::kernels::{counters_of, entry, log_share, parameters_of};
use crate::engine::detail::DetailRecord;
use crate::engine::spent::Spent;
use crate::subject::{Outcome, Setting, Subject};
use seawall_program::{Fences, From, Persistent};
use seawall_sim::{Reason, Stalls};
use seawall_workloads::{Kernel, KernelVisitor, with_kernel};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::fmt;

/// Everything that a point depends on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Described {
    Kernel(KernelDescribed),
    Workload(WorkloadDescribed),
    Program(ProgramDescribed),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct KernelDescribed {
    pub(super) kernel: String,
    size: u64,
    unit: String,
    threads: usize,
    seed: u64,
    extent: Extent,
    /// The instructions and the stack that it is run with; none if it is bare.
    pub(super) mix: Option<String>,
    #[serde(flatten)]
    on: On,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct WorkloadDescribed {
    workload: String,
    threads: usize,
    seed: u64,
    /// Measured operations of each thread, and those before.
    operations: u64,
    warmup: u64,
    /// Entries at the start; none: the workload's.
    entries: Option<u64>,
    #[serde(flatten)]
    on: On,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ProgramDescribed {
    /// What tables call it.
    name: String,
    /// The command.
    program: String,
    /// A hash of its code.
    image: String,
    seed: u64,
    check: Option<String>,
    persistent: Persistent,
    fences: Fences,
    from: From,
    #[serde(flatten)]
    on: On,
}

/// On what a point runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct On {
    /// Crashes asked for.
    crashes: u64,
    /// Whether the record has latencies, queues and cores.
    #[serde(default, skip_serializing_if = "is_false")]
    detailed: bool,
    design: String,
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
    /// Cycles for a billion operations of a workload, all threads together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operation_cycles: Option<u64>,
    /// `cycles`, or those of operations, over that of the baseline on the same machine.
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
        match self {
            Described::Kernel(KernelDescribed { kernel, size, threads, seed, .. }) => {
                write!(f, "{kernel}:{size} on {threads} threads with seed {seed}")?;
            }
            Described::Workload(WorkloadDescribed { workload, threads, seed, .. }) => {
                write!(f, "{workload} on {threads} threads with seed {seed}")?;
            }
            Described::Program(ProgramDescribed { program, seed, .. }) => {
                write!(f, "{program} with seed {seed}")?;
            }
        }
        let On { design, machine_parameters, .. } = self.on();
        let parameters = Value::from(self.on().parameters.clone());
        let cores = &machine_parameters["core"]["count"];
        write!(f, " under {design} with {parameters} on a machine of {cores} cores")
    }
}

impl Described {
    pub(super) fn new(setting: &Setting, subject: &Subject) -> Described {
        let design = subject.design();
        let on = On {
            crashes: setting.crashes,
            detailed: setting.detail,
            design: design.entry.name.to_owned(),
            parameters: parameters_of(design),
            machine_parameters: serde_json::to_value(&setting.machine).unwrap_or_default(),
        };
        match subject {
            Subject::Kernel(point) => Described::Kernel(KernelDescribed {
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
                on,
            }),
            Subject::Workload(point) => Described::Workload(WorkloadDescribed {
                workload: point.workload.clone(),
                threads: point.threads,
                seed: point.seed,
                operations: point.operations,
                warmup: point.warmup,
                entries: point.entries,
                on,
            }),
            Subject::Program { plan, image } => Described::Program(ProgramDescribed {
                name: plan.program().name().to_owned(),
                program: plan.program().text().to_owned(),
                image: image.clone(),
                seed: setting.seed,
                check: plan.program().check(),
                persistent: plan.persistent,
                fences: plan.fences,
                from: plan.from,
                on,
            }),
        }
    }

    fn on(&self) -> &On {
        match self {
            Described::Kernel(KernelDescribed { on, .. })
            | Described::Workload(WorkloadDescribed { on, .. })
            | Described::Program(ProgramDescribed { on, .. }) => on,
        }
    }

    /// What it runs.
    fn name(&self) -> &str {
        match self {
            Described::Kernel(KernelDescribed { kernel: name, .. })
            | Described::Workload(WorkloadDescribed { workload: name, .. })
            | Described::Program(ProgramDescribed { name, .. }) => name,
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
    /// what the same subject took under it on the same machine; none for the baseline itself.
    pub(super) fn new(
        (experiment, machine): (&str, &str),
        point: Described,
        outcome: Outcome,
        (baseline, baseline_took): (&str, Option<u64>),
    ) -> SweepRecord {
        let Outcome { cycles, operation_cycles, spent, counters, detail, .. } = outcome;
        let stalled = Reason::ALL.into_iter().map(|r| (r.name(), spent.stalls.get(r)));
        let stall_cycles = std::iter::once(("busy", spent.busy())).chain(stalled);
        let took = operation_cycles.unwrap_or(cycles);
        SweepRecord {
            experiment: experiment.to_owned(),
            point,
            machine: machine.to_owned(),
            cycles,
            operation_cycles,
            time: took as f64 / baseline_took.unwrap_or(took) as f64,
            baseline: baseline.to_owned(),
            right: outcome.is_right,
            judged: outcome.judged,
            crash_size: outcome.crash_size,
            broken: outcome.broken,
            failures: outcome.failures,
            log_share: log_share(&counters),
            stall_cycles: stall_cycles.map(|(name, count)| (name.into(), json!(count))).collect(),
            counters: counters_of(&counters),
            detail: detail.as_ref().map(|detail| DetailRecord::new(detail, cycles)),
            version: seawall_report::version().to_owned(),
        }
    }

    /// What times are compared by.
    pub(super) fn took(&self) -> u64 {
        self.operation_cycles.unwrap_or(self.cycles)
    }

    /// Whether it is that of a kernel.
    pub(super) fn is_of_kernel(&self) -> bool {
        matches!(self.point, Described::Kernel(_))
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

    /// Whether `outcome` is what the record says.
    pub(super) fn is_of(&self, outcome: &Outcome) -> bool {
        self.cycles == outcome.cycles
            && self.operation_cycles == outcome.operation_cycles
            && self.counters == counters_of(&outcome.counters)
            && self.spent().stalls == outcome.spent.stalls
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
        Some(format!("{} under {}: {what}", self.point.name(), self.point.on().design))
    }

    #[cfg(test)]
    pub(super) fn kernel(&mut self) -> &mut KernelDescribed {
        match &mut self.point {
            Described::Kernel(kernel) => kernel,
            other => panic!("{other} is no kernel"),
        }
    }

    #[cfg(test)]
    pub(super) fn sample() -> SweepRecord {
        use crate::subject::Asked;
        use seawall_sim::Machine;
        let setting = Setting {
            machine: Machine::load("desktop").unwrap(),
            machine_name: "desktop".into(),
            design: "bsp-lb".into(),
            threads: 1,
            seed: 1,
            crashes: 0,
            detail: false,
        };
        let lu = Asked::Kernel { name: "lu".into(), size: 2, extent: Extent::default() };
        let subject = lu.at(&setting).unwrap();
        let outcome = subject.run(&setting, &Default::default()).unwrap();
        let described = Described::new(&setting, &subject);
        SweepRecord::new(("test", "desktop"), described, outcome, ("volatile", Some(8)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_kernel_has_the_keys_that_older_files_have_in_their_order() {
        let line = SweepRecord::sample().to_line();
        let keys = [
            "experiment",
            "kernel",
            "size",
            "unit",
            "threads",
            "seed",
            "extent",
            "mix",
            "crashes",
            "design",
            "parameters",
            "machine_parameters",
            "machine",
            "cycles",
            "time",
            "baseline",
            "right",
            "judged",
            "crash_size",
            "broken",
            "failures",
            "log_share",
            "stall_cycles",
            "counters",
            "version",
        ];
        let places = keys.map(|key| line.find(&format!("\"{key}\":")).unwrap());
        assert!(places.is_sorted(), "{line}");
        let value: Map<String, Value> = serde_json::from_str(&line).unwrap();
        assert_eq!(value.len(), keys.len(), "{line}");
        assert_eq!(SweepRecord::read(line.trim_end()).unwrap().to_line(), line);
    }
}
