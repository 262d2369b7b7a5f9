//! One run of a parallel kernel under a design on a simulated machine, and the check of its result.
//!
//! The input is written on the simplest machine, then all threads run the kernel to its end on the
//! simulated one, as the unannotated programs of MICRO'15 (section 7.2) do; when every dirty line
//! has been written back, the image must hold the result of the plain computation. A run takes one
//! host thread and depends on nothing but its point.

use crate::LabError;
use crate::cell::{BYTES_MAX, cpu_time};
use crate::engine::kept::Keep;
use crate::engine::timeline::{Recorded, recorded};
use seawall_any::AnyMemory;
use seawall_memory::{Image, Memory, MemoryExt};
use seawall_runtime::Arena;
use seawall_sim::{
    Choice, Counters, Cycle, Machine, Observer, Program, Reason, RunDetail, RunOutcome,
    RunTimeline, SimMemory, Simulation, Stalls,
};
use seawall_workloads::{Damage, Input, Kernel, KernelVisitor, Layout, Stacks, with_kernel};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::cell::RefCell;
use std::rc::Rc;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Which kernel to run, and how.
#[derive(Clone, Debug)]
pub struct KernelPoint {
    pub kernel: String,
    /// The design with its parameters.
    pub design: Choice,
    /// Threads, 1 to the machine's cores.
    pub threads: usize,
    /// How much there is to do; by default the kernel's own size.
    pub size: Option<u64>,
    /// Seed of the input.
    pub seed: u64,
    /// What of the program is run.
    pub extent: Extent,
}

impl KernelPoint {
    /// The command that runs it and the baseline, in words.
    pub(crate) fn words(&self, machine: &str, baseline: &str, crashes: u64) -> Vec<String> {
        let size = self.size.unwrap_or_default();
        let options = [
            ("--designs", self.design.text.clone()),
            ("--baseline", baseline.to_owned()),
            ("--machine", machine.to_owned()),
            ("--threads", self.threads.to_string()),
            ("--extent", self.extent.name().to_owned()),
            ("--seed", self.seed.to_string()),
            ("--crashes", crashes.to_string()),
        ];
        let mut words = vec!["seawall".into(), "kernels".into(), format!("{}:{size}", self.kernel)];
        words.extend(options.into_iter().flat_map(|(name, value)| [name.to_owned(), value]));
        words
    }
}

/// What of a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Extent {
    /// The heap accesses of its parallel part, and no others.
    Bare,
    /// Its parallel part, with the instructions and the stack of its
    /// [`Mix`](seawall_workloads::Mix).
    #[default]
    Parallel,
    /// As `Parallel`, and before it what one thread does first, where the mix has that.
    Whole,
}

impl Extent {
    const ALL: [Extent; 3] = [Extent::Bare, Extent::Parallel, Extent::Whole];

    /// What `--extent` and files call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Extent::Bare => "bare",
            Extent::Parallel => "parallel",
            Extent::Whole => "whole",
        }
    }

    /// What a table says of it.
    pub(crate) const fn in_words(self) -> &'static str {
        match self {
            Extent::Bare => "heap accesses alone",
            Extent::Parallel => "parallel part",
            Extent::Whole => "whole programs",
        }
    }
}

impl FromStr for Extent {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Extent, LabError> {
        let found = Extent::ALL.into_iter().find(|extent| extent.name() == text);
        found.ok_or_else(|| LabError::Option {
            option: "extent",
            value: text.into(),
            valid: "bare, parallel or whole".into(),
        })
    }
}

/// What became of it.
#[derive(Clone, Debug)]
pub struct KernelRun {
    pub input: Input,
    /// Bytes of memory that the program has.
    pub pm_bytes: u64,
    /// The cycle at which the last thread finished.
    pub cycles: Cycle,
    /// The cycle at which the parallel part began: 0 unless a start was run before.
    pub start: Cycle,
    /// Stalled cycles of all threads by reason, idle time at the end included.
    pub stalls: Stalls,
    pub counters: Counters,
    /// CPU time of this host that the simulation took; writing the input and the check not.
    pub host: Duration,
    /// Whether the result is that of the plain computation, and what differs.
    pub result: Result<(), Damage>,
    /// What happened when, if it was recorded.
    pub timeline: Option<RunTimeline>,
    /// Latencies, queues and cores, if that was asked for.
    pub detail: Option<RunDetail>,
}

/// A right run in a file of finished ones.
#[derive(Serialize, Deserialize)]
struct Line {
    size: u64,
    pm_bytes: u64,
    cycles: Cycle,
    start: Cycle,
    stalls: Stalls,
    counters: Counters,
    host: Duration,
}

impl Keep<KernelPoint> for KernelRun {
    fn to_line(&self) -> Option<Value> {
        let KernelRun { pm_bytes, cycles, start, stalls, host, .. } = *self;
        let (size, counters) = (self.input.size, self.counters.clone());
        let line = Line { size, pm_bytes, cycles, start, stalls, counters, host };
        self.result.is_ok().then(|| serde_json::to_value(line).ok())?
    }

    fn from_line(point: &KernelPoint, line: &Value) -> Option<KernelRun> {
        let line: Line = serde_json::from_value(line.clone()).ok()?;
        let Line { size, pm_bytes, cycles, start, stalls, counters, host } = line;
        let input = Input { threads: point.threads, size, seed: point.seed };
        let (result, timeline, detail) = (Ok(()), None, None);
        Some(KernelRun {
            input,
            pm_bytes,
            cycles,
            start,
            stalls,
            counters,
            host,
            result,
            timeline,
            detail,
        })
    }
}

/// Runs `point` on `machine`; stops soon after `stop` becomes true.
///
/// # Errors
/// An unknown kernel, numbers that it cannot run with, more threads than cores, a deadlock, or the
/// request to stop. A wrong result is none: it is in [`KernelRun::result`].
pub fn run_kernel(
    machine: &Machine,
    point: &KernelPoint,
    stop: &Arc<AtomicBool>,
) -> Result<KernelRun, LabError> {
    run_recorded(machine, point, Recorded::default(), stop)
}

/// As [`run_kernel`]; also records what is asked for.
pub(crate) fn run_recorded(
    machine: &Machine,
    point: &KernelPoint,
    recording: Recorded,
    stop: &Arc<AtomicBool>,
) -> Result<KernelRun, LabError> {
    with_kernel(&point.kernel, Run { machine, point, recording, stop })?
}

struct Run<'a> {
    machine: &'a Machine,
    point: &'a KernelPoint,
    recording: Recorded,
    stop: &'a Arc<AtomicBool>,
}

impl KernelVisitor for Run<'_> {
    type Output = Result<KernelRun, LabError>;

    fn visit<K: Kernel>(self) -> Self::Output {
        let Run { machine, point, recording, stop } = self;
        let simulated = simulate::<K>(machine, point, recording, stop, |_| None)?;
        let Simulated { kernel, input, layout, start, outcome, host } = simulated;
        let mut stalls = Stalls::default();
        for reason in Reason::ALL {
            stalls.add(reason, outcome.stalls.iter().map(|stalls| stalls.get(reason)).sum());
        }
        let end = Image::from_pm(outcome.pm, layout.dram_bytes);
        Ok(KernelRun {
            input,
            pm_bytes: layout.pm_bytes,
            cycles: outcome.cycles,
            start,
            stalls,
            counters: outcome.counters,
            host,
            result: kernel.check(&AnyMemory::image(&end)),
            timeline: outcome.timeline,
            detail: outcome.detail,
        })
    }
}

/// A kernel that has run to its end.
pub(crate) struct Simulated<K> {
    pub(crate) kernel: K,
    pub(crate) input: Input,
    pub(crate) layout: Layout,
    pub(crate) start: Cycle,
    pub(crate) outcome: RunOutcome,
    pub(crate) host: Duration,
}

/// Writes the input of `point`, lets `watch` see the persistent memory and name who watches, and
/// runs it, recording what is asked for: the one place where a kernel meets a simulated
/// machine.
pub(crate) fn simulate<K: Kernel>(
    machine: &Machine,
    point: &KernelPoint,
    recording: Recorded,
    stop: &Arc<AtomicBool>,
    watch: impl FnOnce(&[u8]) -> Option<Rc<RefCell<dyn Observer>>>,
) -> Result<Simulated<K>, LabError> {
    let Fit { input, layout, stacks } = fit::<K>(point)?;
    let extent = point.extent;
    let is_whole = extent == Extent::Whole && K::MIX.start.is_some();
    let image = Image::new(layout.pm_bytes, layout.dram_bytes);
    let kernel = match is_whole {
        true => K::place(&input, &mut Arena::new()),
        false => K::create(&AnyMemory::image(&image), &input),
    };
    let (pm, dram) = image.into_parts();
    let start = Arc::new(AtomicU64::new(0));
    let program = |_| {
        let (kernel, start) = (kernel.clone(), start.clone());
        let run = move |memory: &SimMemory| {
            let memory = &AnyMemory::simulated(memory);
            if is_whole {
                begin(&kernel, stacks, memory, &start);
            }
            match extent {
                Extent::Bare => kernel.run(memory),
                Extent::Parallel | Extent::Whole => kernel.run(&stacks.run(memory)),
            }
        };
        Box::new(run) as Program
    };
    let programs = (0..input.threads).map(program).collect();
    let mut machine = machine.clone();
    if extent != Extent::Bare && machine.core.parallelism.is_none() {
        machine.core.parallelism = Some(K::MIX.parallelism);
    }
    let host = cpu_time();
    let watcher = watch(&pm);
    let simulation = Simulation::new(&machine, &point.design, pm, dram).stopped_by(stop.clone());
    let mut simulation = recorded(simulation, recording);
    if let Some(watcher) = watcher {
        simulation = simulation.watched_by(watcher);
    }
    let outcome = simulation.run(programs)?;
    let host = cpu_time().saturating_sub(host);
    let start = start.load(Ordering::Relaxed);
    Ok(Simulated { kernel, input, layout, start, outcome, host })
}

/// The first thread writes the input as the program does; the others wait for that.
fn begin<K: Kernel>(kernel: &K, stacks: Stacks, memory: &AnyMemory, start: &AtomicU64) {
    if memory.thread() != 0 {
        while memory.spin_while(stacks.word(), 0) == 0 {}
        return;
    }
    if let Some(memory) = stacks.start(memory) {
        kernel.fill(&memory);
    }
    start.store(memory.now(), Ordering::Relaxed);
    memory.store(stacks.word(), 1u64);
}

/// What a point needs.
pub(crate) struct Fit {
    input: Input,
    layout: Layout,
    stacks: Stacks,
}

/// The input of `point` and the memory that it takes.
///
/// # Errors
/// Numbers that the kernel cannot run with.
pub(crate) fn fit<K: Kernel>(point: &KernelPoint) -> Result<Fit, LabError> {
    let KernelPoint { threads, size, seed, .. } = point;
    let input = Input { threads: *threads, size: size.unwrap_or(K::SIZE), seed: *seed };
    input.check::<K>()?;
    let mut layout = K::layout(&input);
    let stacks = Stacks::place(K::MIX, &input, &mut layout);
    if layout.pm_bytes + layout.dram_bytes > BYTES_MAX {
        return Err(LabError::Option {
            option: "size",
            value: input.size.to_string(),
            valid: format!("less: {} would take more than {BYTES_MAX} bytes", K::NAME),
        });
    }
    Ok(Fit { input, layout, stacks })
}
