//! One point of a comparison: a workload under a design on a simulated machine, with its crashes.
//!
//! The pool is filled on the simplest machine, then the threads run their operations on the
//! simulated one. Throughput is measured from the end of each thread's warm-up to its last output
//! and summed over the threads, so that the tail in which some have finished does not count.
//! A cell runs on one host thread and depends on nothing but its point.

use crate::LabError;
use crate::cell::crash::{Broken, Checked, CrashPlan, Watcher};
use crate::engine::jobs::Piece;
use crate::engine::spent::Spent;
use crate::engine::timeline::{Recorded, recorded};
use ribbon::Crew;
use rustix::time::{ClockId, clock_gettime};
use seawall_any::{Account, Accounted, AnyMemory, AnyStructure, AnyWorkload, workload};
use seawall_memory::{Image, Memory, Model};
use seawall_ribbon::{RibbonCounts, RibbonOptions};
use seawall_runtime::defrag::Purpose;
use seawall_runtime::defrag::{DefragOptions, Protocol};
use seawall_sim::{
    Choice, Counters, Cycle, Machine, Observer, Program, Reason, RunDetail, RunOutcome,
    RunTimeline, Simulation, Stalls,
};
use seawall_workloads::{Collect, Cost, Flaw, History, Layout, RequestMix, Setup, Worker};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

mod checkpointed;
pub(crate) mod crash;
mod kept;
mod ribbon;

pub(crate) use ribbon::check as check_ribbon;
pub use ribbon::{CellRibbon, Flushed};
pub(crate) use ribbon::{command as ribbon_flags, mode_parser, summary as ribbon_summary};
pub use seawall_ribbon::EarlyStores;

/// The most memory that a simulated program may have: the host keeps a few copies of it.
pub(crate) const BYTES_MAX: u64 = 4 << 30;

/// What is behind the name of a design where threads have a Ribbon.
pub(crate) const RIBBON_LABEL: &str = "+ribbon";

/// What to run, and how.
#[derive(Clone, Debug)]
pub struct Point {
    /// The workload's name; or that of a kernel with checkpoints, whose size the entries are, and
    /// which runs once, to its end.
    pub workload: String,
    /// The design with its parameters.
    pub design: Choice,
    /// Threads, 1 to the machine's cores.
    pub threads: usize,
    /// Seed of the operations and of the crash points.
    pub seed: u64,
    /// Measured operations of each thread, at least 1.
    pub operations: u64,
    /// Operations of each thread before those.
    pub warmup: u64,
    /// Entries at the start; by default the workload's.
    pub entries: Option<u64>,
    /// Per cent of operations that only search; by default the workload's.
    pub search_percent: Option<u32>,
    /// Requests to make instead of the workload's own operations.
    pub mix: Option<RequestMix>,
    /// Leave the threads' flushes to flushers, each on a core of its own; `threads` there is not
    /// read. Only under designs for which programs flush.
    pub ribbon: Option<RibbonOptions>,
    /// Defragments during the run, for workloads whose objects move.
    pub defragment: Option<DefragOptions>,
    /// What transactions cost, of workloads whose objects move.
    pub cost: Cost,
    /// Crashes to inject; none under a design that promises nothing.
    pub crashes: u64,
    /// A planted bug of the structure.
    pub flaw: Flaw,
    /// False to leave out all bookkeeping and checks, for timing the simulator.
    pub checked: bool,
}

impl Point {
    /// The design with its parameters, and a Ribbon or a way to defragment if there is one, as in
    /// `clwb+ribbon` and `clwb+sfccd`.
    pub fn label(&self) -> String {
        let ribbon = if self.ribbon.is_some() { RIBBON_LABEL } else { "" };
        let way = self.defragment.map_or_else(String::new, |way| format!("+{way}"));
        format!("{}{ribbon}{way}", self.design.text)
    }

    /// The workload under the design, in words.
    pub(crate) fn cell_name(&self) -> String {
        format!("{} under {}", self.workload, self.label())
    }

    /// The command that runs it; with a Ribbon, beside the one without.
    pub(crate) fn command(&self, machine: &str) -> String {
        let Point { workload, design, threads, seed, operations, crashes, .. } = self;
        let mut command = format!(
            "seawall compare --workloads {workload} --designs {} --machine {machine} \
             --threads {threads} --seed {seed} --ops {operations} --crashes {crashes}",
            design.text
        );
        if let Some(entries) = self.entries {
            command += &format!(" --entries {entries}");
        }
        if let Some(percent) = self.search_percent {
            command += &format!(" --search {percent}");
        }
        if let Some(mix) = self.mix {
            command += &format!(" --mix {mix}");
        }
        if let Some(ribbon) = &self.ribbon {
            command += &ribbon::command(ribbon);
        }
        if let Some(way) = &self.defragment {
            command += &format!(" --defragment {way}");
        }
        if self.cost != Cost::default() {
            command += &format!(" --cost {}", self.cost);
        }
        if let Some(name) = self.flaw.name() {
            command += &format!(" --flaw {name}");
        }
        command
    }
}

impl Piece for Point {
    fn program(&self) -> &str {
        &self.workload
    }

    fn design(&self) -> String {
        self.label()
    }
}

/// What became of a point.
#[derive(Clone, Debug)]
pub struct Cell {
    /// What was run; entries and search share are filled in.
    pub point: Point,
    /// Operations per cycle of all threads together.
    pub throughput: f64,
    /// The cycle at which the last thread finished, flushers included.
    pub cycles: Cycle,
    /// Stalled cycles of all threads by reason, idle time at the end included.
    pub stalls: Stalls,
    /// What was counted, warm-up included.
    pub counters: Counters,
    /// What the Ribbon did, if the point has one.
    pub ribbon: Option<RibbonCounts>,
    /// What moving objects took, if the point defragments.
    pub moving: Option<Moving>,
    /// Bytes of pages for each live byte at the end, if objects can be moved.
    pub pages_a_byte: Option<f64>,
    /// Crashes that were injected and checked.
    pub crashes: u64,
    /// Those that broke the structure.
    pub broken: Vec<Broken>,
    /// CPU time of this host that the simulation took, checks included, filling the pool not.
    pub host: Duration,
    /// What happened when, if it was recorded.
    pub timeline: Option<RunTimeline>,
    /// Latencies, queues and cores, if that was asked for.
    pub detail: Option<RunDetail>,
}

/// What threads spent on moving objects, in per cent of the rest of their time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moving {
    /// To find out where an object is.
    pub look_up: f64,
    /// To copy objects, and to say that they have moved.
    pub copy: f64,
    /// To see how full pages are.
    pub mark: f64,
    /// To decide where objects go.
    pub plan: f64,
    /// To reach the remaining objects, and to update pointers.
    pub heal: f64,
    /// To give pages back.
    pub release: f64,
}

impl Moving {
    fn of(account: &Account) -> Moving {
        let cycles = |purpose| account.cycles(purpose) as f64;
        let program = cycles(Purpose::Program).max(1.0);
        let share = |purpose| 100.0 * cycles(purpose) / program;
        Moving {
            look_up: share(Purpose::LookUp),
            copy: share(Purpose::Copy),
            mark: share(Purpose::Mark),
            plan: share(Purpose::Plan),
            heal: share(Purpose::Heal),
            release: share(Purpose::Release),
        }
    }

    /// All but look-ups and copies.
    pub fn rest(&self) -> f64 {
        self.mark + self.plan + self.heal + self.release
    }
}

impl Cell {
    /// Epochs that had to be flushed because of a conflict, in per cent of all; none if the design
    /// has no epochs.
    pub fn conflicting_epochs(&self) -> Option<f64> {
        let Counters { epochs, epochs_conflicting, .. } = self.counters;
        (epochs > 0).then(|| 100.0 * epochs_conflicting as f64 / epochs as f64)
    }

    /// Cycles of all threads from the start to the end of the run.
    pub fn core_cycles(&self) -> u64 {
        self.cycles * self.point.threads as u64
    }

    pub(crate) fn spent(&self) -> Spent {
        Spent { core_cycles: self.core_cycles(), stalls: self.stalls }
    }

    /// Cycles in which cores issued instructions.
    pub fn busy(&self) -> u64 {
        self.spent().busy()
    }

    /// Share of a thread's time until it finishes that went to `reason`, 0 to 1.
    pub fn share(&self, reason: Reason) -> f64 {
        self.spent().share(reason)
    }

    /// Share of a thread's time until it finishes in which it issued instructions, 0 to 1.
    pub fn busy_share(&self) -> f64 {
        self.spent().busy_share()
    }

    /// True if the design promises something that crashes can test.
    pub fn is_crashed(&self) -> bool {
        self.point.design.model().is_some()
    }

    /// The command that runs it again; with a Ribbon, beside the one without.
    pub fn command(&self, machine: &str) -> String {
        self.point.command(machine)
    }
}

/// Runs `point` on `machine`; stops soon after `stop` becomes true.
///
/// # Errors
/// An unknown workload, numbers that it cannot run with, more threads and flushers than cores, a
/// Ribbon that has nothing to do, a deadlock, or the request to stop.
pub fn run_cell(
    machine: &Machine,
    point: &Point,
    stop: &Arc<AtomicBool>,
) -> Result<Cell, LabError> {
    run_recorded(machine, point, Recorded::default(), stop)
}

/// As [`run_cell`]; also records what is asked for.
pub(crate) fn run_recorded(
    machine: &Machine,
    point: &Point,
    recording: Recorded,
    stop: &Arc<AtomicBool>,
) -> Result<Cell, LabError> {
    check_ribbon(machine, point)?;
    let run = Run { machine, point, recording, stop };
    match checkpointed::run(&run) {
        Some(cell) => cell,
        None => run.cell(workload(&point.workload)?),
    }
}

/// Refuses numbers that the workload of `point` cannot run with.
pub(crate) fn check_point(point: &Point) -> Result<(), LabError> {
    match checkpointed::check(point) {
        Some(checked) => checked,
        None => fit(workload(&point.workload)?, point).map(drop),
    }
}

/// The setup of `point`, and the memory that it takes.
///
/// # Errors
/// Numbers that the workload cannot run with.
pub(crate) fn fit(workload: &dyn AnyWorkload, point: &Point) -> Result<(Setup, Layout), LabError> {
    workload.check_mix(point.mix)?;
    let usual = workload.setup(point.threads);
    let setup = Setup {
        threads: point.threads,
        seed: point.seed,
        entries: point.entries.unwrap_or(usual.entries),
        search_percent: point.search_percent.unwrap_or(usual.search_percent),
        mix: point.mix,
        collect: Collect::by_steps(point.defragment),
        cost: point.cost,
        flaw: point.flaw,
    };
    setup.check()?;
    workload.check_setup(&setup)?;
    workload.check_collect(setup.collect)?;
    workload.check_cost(setup.cost)?;
    workload.check_flaw(setup.flaw)?;
    let layout = workload.layout(&setup);
    if layout.pm_bytes + layout.dram_bytes > BYTES_MAX {
        return Err(LabError::Option {
            option: "--entries",
            value: setup.entries.to_string(),
            valid: format!("fewer: {} would take more than {BYTES_MAX} bytes", workload.name()),
        });
    }
    Ok((setup, layout))
}

struct Run<'a> {
    machine: &'a Machine,
    point: &'a Point,
    recording: Recorded,
    stop: &'a Arc<AtomicBool>,
}

impl<'a> Run<'a> {
    /// The simulation of the point on this memory.
    fn simulation(&self, pm: Vec<u8>, dram: Vec<u8>) -> Simulation<'a> {
        let Run { machine, point, .. } = *self;
        let simulation = Simulation::new(machine, &point.design, pm, dram);
        recorded(simulation, self.recording).stopped_by(self.stop.clone())
    }
}

/// What a thread does: the operations of `worker`.
fn operate(
    workload: &dyn AnyStructure,
    memory: &AnyMemory<'_, '_>,
    worker: &mut Worker,
    operations: u64,
) {
    let mut thread = workload.join(memory);
    while worker.number < operations {
        thread.step(worker);
        worker.number += 1;
        memory.output(worker.number);
    }
}

fn program(
    workload: &Arc<dyn AnyStructure>,
    mut worker: Worker,
    operations: u64,
    (crew, account): (Option<&Crew>, Option<&Account>),
) -> Program {
    let workload = workload.clone();
    match (crew.cloned(), account.cloned()) {
        (None, Some(account)) => Box::new(move |memory| {
            let memory = AnyMemory::accounted(Accounted::new(memory, account));
            operate(&*workload, &memory, &mut worker, operations);
        }),
        (None, None) => Box::new(move |memory| {
            operate(&*workload, &AnyMemory::simulated(memory), &mut worker, operations);
        }),
        (Some(crew), _) => Box::new(move |memory| {
            crew.run(memory, |memory| operate(&*workload, memory, &mut worker, operations));
        }),
    }
}

impl Run<'_> {
    /// Runs a workload.
    fn cell(self, kind: &'static dyn AnyWorkload) -> Result<Cell, LabError> {
        let mut point = self.point.clone();
        let (setup, layout) = fit(kind, &point)?;
        point.entries = Some(setup.entries);
        point.search_percent = setup.mix.is_none().then_some(setup.search_percent);
        let start = Image::new(layout.pm_bytes, layout.dram_bytes);
        let workload = kind.create(&AnyMemory::image(&start), &setup);
        let before = workload.contents(&AnyMemory::image(&start));
        let before = before.map_err(|damage| LabError::Damage { workload: kind.name(), damage })?;
        let (pm, mut dram) = start.into_parts();
        let crew = Crew::place(&point, &mut dram)?;

        let model = point.design.model();
        let operations = point.warmup + point.operations;
        let history = Arc::new(if point.checked { History::new() } else { History::off() });
        let plan = CrashPlan {
            threads: point.threads,
            warmup: point.warmup,
            operations,
            crashes: if model.is_none() { 0 } else { point.crashes },
            durable: model.is_some_and(Model::order_is_durable),
            seed: point.seed,
        };
        let run =
            Checked { workload: kind, layout, before, history: history.clone(), flaw: setup.flaw };
        let watcher = Rc::new(RefCell::new(Watcher::new(run, &plan)));
        let worker = |thread| Worker::new(&setup, thread, history.clone());
        let account = point.defragment.map(|_| Account::default());
        let beside = (crew.as_ref(), account.as_ref());
        let program = |thread| program(&workload, worker(thread), operations, beside);
        let threads = (0..point.threads).map(program);
        let programs = threads.chain(crew.iter().flat_map(Crew::flushers)).collect();
        let host = cpu_time();
        let observer: Rc<RefCell<dyn Observer>> = watcher.clone();
        let outcome = self.simulation(pm, dram).watched_by(observer).run(programs)?;
        let mut watcher = watcher.borrow_mut();
        let checked = point.checked;
        let protocol = point.defragment.map(|way| way.protocol);
        let mut cell = measure(point, &watcher, &outcome);
        cell.moving = account.map(|account| Moving::of(&account));
        if let Some(heap) = workload.heap() {
            let image = Image::from_pm(outcome.pm.clone(), layout.dram_bytes);
            let stats = heap.stats(&AnyMemory::image(&image));
            cell.pages_a_byte = stats.ok().map(|stats| stats.fragmentation());
        }
        // What the caches hold at the end is no image of a crash: the bits of copies are missing.
        let is_image = protocol != Some(Protocol::Ffccd);
        if checked && is_image {
            watcher.check_end(outcome.cycles, outcome.pm);
        }
        cell.ribbon = crew.map(|crew| crew.counts());
        cell.broken = std::mem::take(&mut watcher.broken);
        cell.host = cpu_time().saturating_sub(host);
        Ok(cell)
    }
}

fn measure(point: Point, watcher: &Watcher, outcome: &RunOutcome) -> Cell {
    let time = |(last, warm): (&Cycle, &Cycle)| (last - warm).max(1) as f64;
    let times = watcher.last.iter().zip(&watcher.warm).map(time);
    let throughput = times.map(|cycles| point.operations as f64 / cycles).sum();
    let stalls = stalls_of(&outcome.stalls[..point.threads]);
    Cell {
        point,
        throughput,
        cycles: outcome.cycles,
        stalls,
        counters: outcome.counters.clone(),
        ribbon: None,
        moving: None,
        pages_a_byte: None,
        crashes: watcher.crashes,
        broken: Vec::new(),
        host: Duration::ZERO,
        timeline: outcome.timeline.clone(),
        detail: outcome.detail.clone(),
    }
}

/// The stalls of several threads together.
fn stalls_of(threads: &[Stalls]) -> Stalls {
    let mut all = Stalls::default();
    for reason in Reason::ALL {
        all.add(reason, threads.iter().map(|stalls| stalls.get(reason)).sum());
    }
    all
}

/// CPU time that this host thread has used.
pub(crate) fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
