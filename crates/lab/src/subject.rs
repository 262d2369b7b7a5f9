//! What runs at a point of a machine and a design: a workload, a kernel or a program, each planned
//! and run as by its own command, and what came of it in the terms that all three have.

use crate::LabError;
use crate::cell::{Cell, Point, run_recorded};
use crate::commands::compare::plan::{CompareOptions, Plan};
use crate::commands::kernels::point::{self, Extent, KernelPoint};
use crate::commands::kernels::{KernelCell, check_point, crash};
use crate::commands::program::{
    FenceChoice, FromChoice, PmChoice, ProgramCell, ProgramOptions, ProgramPlan,
};
use crate::engine::options::RequestOptions;
use crate::engine::spent::Spent;
use crate::engine::timeline::Recorded;
use seawall_report::command_line;
use seawall_sim::{Choice, Counters, Cycle, Machine, RunDetail};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Stands for the threads of a point in the command of a program.
const THREADS: &str = "{threads}";
/// The operations whose time is that of a workload, so that it is a whole number.
const OPERATIONS: f64 = 1e9;

/// What to run, as plain data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Asked {
    Kernel {
        name: String,
        size: u64,
        extent: Extent,
    },
    Workload {
        name: String,
        operations: u64,
        entries: Option<u64>,
    },
    /// The program of that number among several.
    Program {
        number: usize,
        of: AskedPrograms,
    },
}

/// Programs with their checks, as a user says them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AskedPrograms {
    pub(crate) programs: Vec<String>,
    pub(crate) checks: Vec<String>,
    pub(crate) pm: Option<PmChoice>,
    pub(crate) fence: Option<FenceChoice>,
    pub(crate) from: Option<FromChoice>,
}

/// On what it runs, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Setting {
    pub(crate) machine: Machine,
    /// The machine as a command line names it.
    pub(crate) machine_name: String,
    /// The design with its parameters.
    pub(crate) design: String,
    pub(crate) threads: usize,
    pub(crate) seed: u64,
    pub(crate) crashes: u64,
    /// Whether latencies, queues and cores are recorded.
    pub(crate) detail: bool,
}

/// What to run, checked.
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Kernel(KernelPoint),
    Workload(Box<Point>),
    /// With a hash of its code.
    Program {
        plan: Box<ProgramPlan>,
        image: String,
    },
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) cycles: u64,
    /// Cycles for a billion operations of a workload, all threads together.
    pub(crate) operation_cycles: Option<u64>,
    pub(crate) spent: Spent,
    pub(crate) counters: Counters,
    /// False if the result is wrong.
    pub(crate) is_right: bool,
    /// Crashes judged; none where the design promises nothing that could be.
    pub(crate) judged: Option<u64>,
    /// The size of a kernel that was crashed.
    pub(crate) crash_size: Option<u64>,
    /// Crashes that broke it.
    pub(crate) broken: u64,
    /// What is wrong with the result, and each crash that broke it.
    pub(crate) failures: Vec<String>,
    /// Latencies, queues and cores, if that was asked for.
    pub(crate) detail: Option<RunDetail>,
}

impl AskedPrograms {
    /// All of them, on a machine under a design.
    pub(crate) fn plan(&self, setting: &Setting) -> Result<ProgramPlan, LabError> {
        let with_threads =
            |command: &String| command.replace(THREADS, &setting.threads.to_string());
        let program = ProgramOptions {
            commands: self.programs.iter().map(with_threads).collect(),
            checks: self.checks.iter().map(with_threads).collect(),
            pm: self.pm,
            fence: self.fence,
            from: self.from,
            no_native: true,
            ..ProgramOptions::default()
        };
        let experiment = CompareOptions { program, ..setting.options() }.of_program();
        experiment.ok_or(LabError::NeedsProgram { option: "programs" })?.to_plan()
    }
}

impl Setting {
    /// What `compare` would be told of it.
    fn options(&self) -> CompareOptions {
        CompareOptions {
            designs: vec![self.design.clone()],
            baseline: Some(self.design.clone()),
            machine: self.machine_name.clone(),
            seed: self.seed,
            crashes: self.crashes,
            detail: self.detail,
            ..CompareOptions::default()
        }
    }
}

impl Asked {
    /// What runs on a machine under a design.
    ///
    /// # Errors
    /// Names that nobody knows, and numbers that it cannot run with.
    pub(crate) fn at(&self, setting: &Setting) -> Result<Subject, LabError> {
        match self {
            Asked::Kernel { name, size, extent } => {
                let point = KernelPoint {
                    kernel: name.clone(),
                    design: Choice::parse(&setting.design)?,
                    threads: setting.threads,
                    size: Some(*size),
                    seed: setting.seed,
                    extent: *extent,
                };
                check_point(&point)?;
                Ok(Subject::Kernel(point))
            }
            Asked::Workload { name, operations, entries } => {
                let options = CompareOptions {
                    workloads: vec![name.clone()],
                    threads: Some(setting.threads),
                    operations: *operations,
                    requests: RequestOptions { entries: *entries, ..RequestOptions::default() },
                    ..setting.options()
                };
                let mut plan = Plan::on(setting.machine.clone(), &options)?;
                Ok(Subject::Workload(Box::new(plan.points.swap_remove(0))))
            }
            Asked::Program { number, of } => {
                if Machine::load(&setting.machine_name)? != setting.machine {
                    return Err(LabError::Option {
                        option: "a machine for programs",
                        value: setting.machine_name.clone(),
                        valid: "one that a command line can name; vary other keys, or leave the \
                                programs out"
                            .into(),
                    });
                }
                let plan = of.plan(setting)?.only(*number);
                let plan = plan.ok_or(LabError::NeedsProgram { option: "programs" })?;
                Ok(Subject::Program { image: plan.image_hash()?, plan: Box::new(plan) })
            }
        }
    }
}

impl Subject {
    /// What tables call it.
    pub(crate) fn name(&self) -> &str {
        match self {
            Subject::Kernel(point) => &point.kernel,
            Subject::Workload(point) => &point.workload,
            Subject::Program { plan, .. } => plan.program().name(),
        }
    }

    /// The design with its parameters.
    pub(crate) fn design(&self) -> &Choice {
        match self {
            Subject::Kernel(point) => &point.design,
            Subject::Workload(point) => &point.design,
            Subject::Program { plan, .. } => &plan.point().design,
        }
    }

    /// Runs it, and again with crashes where they can be judged.
    ///
    /// # Errors
    /// As those of its command. A wrong result is none.
    pub(crate) fn run(
        &self,
        setting: &Setting,
        stop: &Arc<AtomicBool>,
    ) -> Result<Outcome, LabError> {
        let Setting { machine, crashes, .. } = setting;
        let recording = Recorded { window: None, detail: setting.detail };
        match self {
            Subject::Kernel(point) => {
                let run = point::run_recorded(machine, point, recording, stop)?;
                let cuts = crash(machine, point, &run, *crashes, stop)?;
                let point = point.clone();
                Ok(Outcome::of_kernel(KernelCell { point, run, cuts }))
            }
            Subject::Workload(point) => {
                let point = Point { crashes: *crashes, ..(**point).clone() };
                Ok(Outcome::of_workload(run_recorded(machine, &point, recording, stop)?))
            }
            Subject::Program { plan, .. } => {
                Ok(Outcome::of_program(plan.run_first(*crashes, stop)?))
            }
        }
    }

    /// The command that runs it again, with crashes, and with the baseline where its command wants
    /// one.
    pub(crate) fn command(&self, machine: &str, baseline: &str, crashes: u64) -> String {
        match self {
            Subject::Kernel(point) => command_line(point.words(machine, baseline, crashes)),
            Subject::Workload(point) => point.command(machine),
            Subject::Program { plan, .. } => plan.command(plan.point()),
        }
    }
}

impl Outcome {
    fn of_kernel(cell: KernelCell) -> Outcome {
        let spent = cell.spent();
        let KernelCell { run, cuts, .. } = cell;
        let wrong = run.result.as_ref().err().map(ToString::to_string);
        let broken = cuts.iter().flat_map(|cuts| &cuts.broken);
        let broken = broken.map(|it| broken_said(it.cycle, &it.what));
        Outcome {
            cycles: run.cycles,
            operation_cycles: None,
            spent,
            is_right: run.result.is_ok(),
            judged: cuts.as_ref().map(|cuts| cuts.crashes),
            crash_size: cuts.as_ref().map(|cuts| cuts.size),
            broken: cuts.as_ref().map_or(0, |cuts| cuts.broken.len() as u64),
            failures: wrong.into_iter().chain(broken).collect(),
            counters: run.counters,
            detail: run.detail,
        }
    }

    fn of_workload(cell: Cell) -> Outcome {
        let is_judged = cell.is_crashed() && cell.point.crashes > 0;
        Outcome {
            cycles: cell.cycles,
            operation_cycles: Some((OPERATIONS / cell.throughput).round() as u64),
            spent: cell.spent(),
            is_right: true,
            judged: is_judged.then_some(cell.crashes),
            crash_size: None,
            broken: cell.broken.len() as u64,
            failures: cell.broken.iter().map(|it| broken_said(it.cycle, &it.what)).collect(),
            counters: cell.counters,
            detail: cell.detail,
        }
    }

    fn of_program(cell: ProgramCell) -> Outcome {
        let spent = cell.spent();
        let ProgramCell { ran, crashed, wrong, .. } = cell;
        let broken = crashed.iter().flat_map(|ran| &ran.broken);
        let broken = broken.map(|it| broken_said(it.cycle, &it.what));
        Outcome {
            cycles: ran.cycles,
            operation_cycles: None,
            spent,
            is_right: wrong.is_none(),
            judged: crashed.as_ref().map(|ran| ran.crashes),
            crash_size: None,
            broken: crashed.as_ref().map_or(0, |ran| ran.broken.len() as u64),
            failures: wrong.iter().cloned().chain(broken).collect(),
            counters: ran.counters,
            detail: ran.detail,
        }
    }
}

fn broken_said(cycle: Cycle, what: &str) -> String {
    format!("crash at {cycle}: {what}")
}
