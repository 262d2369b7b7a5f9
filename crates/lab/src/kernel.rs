//! One run of a parallel kernel under a design on a simulated machine, and the check of its result.
//!
//! The input is written on the simplest machine, then all threads run the kernel to its end on the
//! simulated one, as the unannotated programs of MICRO'15 (section 7.2) do; when every dirty line
//! has been written back, the image must hold the result of the plain computation. A run takes one
//! host thread and depends on nothing but its point.

use crate::LabError;
use crate::cell::{BYTES_MAX, cpu_time};
use crate::progress::Progress;
use seawall_memory::{Image, Memory};
use seawall_runtime::Arena;
use seawall_sim::{
    Choice, Counters, Cycle, Machine, Program, Reason, SimError, SimMemory, Simulation, Stalls,
};
use seawall_workloads::{Atomic, Damage, Input, Kernel, KernelVisitor, Stacks, with_kernel};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Which kernel to run, and how.
#[derive(Clone, Debug)]
pub struct KernelPoint {
    /// The kernel's name.
    pub kernel: String,
    /// The design with its parameters.
    pub design: Choice,
    /// Threads, 1 to the machine's cores.
    pub threads: usize,
    /// How much there is to do; by default the kernel's own size.
    pub size: Option<u64>,
    /// Seed of the input.
    pub seed: u64,
    /// How atomic blocks are made.
    pub atomic: Atomic,
    /// What of the program is run.
    pub extent: Extent,
}

/// What of a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
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

/// What became of it.
#[derive(Clone, Debug)]
pub struct KernelRun {
    /// What was run.
    pub input: Input,
    /// Bytes of memory that the program has.
    pub pm_bytes: u64,
    /// The cycle at which the last thread finished.
    pub cycles: Cycle,
    /// The cycle at which the parallel part began.
    pub start: Cycle,
    /// Stalled cycles of all threads by reason, idle time at the end included.
    pub stalls: Stalls,
    /// What was counted.
    pub counters: Counters,
    /// CPU time of this host that the simulation took; writing the input and the check not.
    pub host: Duration,
    /// Whether the result is that of the plain computation, and what differs.
    pub result: Result<(), Damage>,
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
    with_kernel(&point.kernel, Run { machine, point, stop })?
}

struct Run<'a> {
    machine: &'a Machine,
    point: &'a KernelPoint,
    stop: &'a Arc<AtomicBool>,
}

impl KernelVisitor for Run<'_> {
    type Output = Result<KernelRun, LabError>;

    fn visit<K: Kernel>(self) -> Self::Output {
        let KernelPoint { design, threads, size, seed, atomic, extent, .. } = self.point;
        let input = Input {
            threads: *threads,
            size: size.unwrap_or(K::SIZE),
            seed: *seed,
            atomic: *atomic,
        };
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
        let is_whole = *extent == Extent::Whole && K::MIX.start.is_some();
        let image = Image::new(layout.pm_bytes, layout.dram_bytes);
        let kernel = match is_whole {
            true => K::place(&input, &mut Arena::new()),
            false => K::create(&image, &input),
        };
        let (pm, dram) = image.into_parts();
        let start = Arc::new(AtomicU64::new(0));
        let program = |thread| {
            let (kernel, start, extent) = (kernel.clone(), start.clone(), *extent);
            let run = move |memory: &SimMemory| {
                if is_whole && thread == 0 {
                    fill(&kernel, stacks, memory, &start);
                }
                if is_whole {
                    while memory.spin_while(stacks.word(), 0) == 0 {}
                }
                match extent {
                    Extent::Bare => kernel.run(memory),
                    Extent::Parallel | Extent::Whole => kernel.run(&stacks.run(memory)),
                }
            };
            Box::new(run) as Program
        };
        let programs = (0..input.threads).map(program).collect();
        let mut machine = self.machine.clone();
        if *extent != Extent::Bare && machine.core.parallelism.is_none() {
            machine.core.parallelism = Some(K::MIX.parallelism);
        }
        let host = cpu_time();
        let outcome = Simulation::new(&machine, design, pm, dram)
            .stopped_by(self.stop.clone())
            .run(programs)?;
        let host = cpu_time().saturating_sub(host);
        let mut stalls = Stalls::default();
        for reason in Reason::ALL {
            stalls.add(reason, outcome.stalls.iter().map(|stalls| stalls.get(reason)).sum());
        }
        Ok(KernelRun {
            input,
            pm_bytes: layout.pm_bytes,
            cycles: outcome.cycles,
            start: start.load(Ordering::Relaxed),
            stalls,
            counters: outcome.counters,
            host,
            result: kernel.check(&Image::from_pm(outcome.pm, layout.dram_bytes)),
        })
    }
}

/// Writes the input as the program's one thread does, then lets the others begin.
fn fill<K: Kernel>(kernel: &K, stacks: Stacks, memory: &SimMemory, start: &AtomicU64) {
    if let Some(memory) = stacks.start(memory) {
        kernel.fill(&memory);
    }
    start.store(memory.now(), Ordering::Relaxed);
    memory.store(stacks.word(), 1u64);
}

/// Runs `points` on `jobs` host threads; none stands for one that a request to stop cut short.
pub(crate) fn run_kernels(
    machine: &Machine,
    points: &[KernelPoint],
    jobs: Option<usize>,
    progress: &Progress,
    stop: &Arc<AtomicBool>,
) -> Result<Vec<Option<KernelRun>>, LabError> {
    progress.start(points.iter().map(|point| &*point.kernel));
    let run = |point: &KernelPoint| {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let run = run_kernel(machine, point, stop);
        progress.cell_done(&point.kernel, &point.design.text);
        match run {
            Err(LabError::Sim(SimError::Stopped)) => Ok(None),
            other => other.map(Some),
        }
    };
    let runs = crate::compare::in_parallel(points, jobs, run)?;
    progress.end();
    runs.into_iter().collect()
}
