//! Crashes in the middle of a simulated run, and the check of what each leaves.
//!
//! A crash is an image that the simulator hands out while the run goes on. On each image recovery
//! runs twice and the invariants are checked; then the operations that had begun must explain what
//! the structure holds, with all of those that had completed if the design makes them durable.

use rand::RngExt;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use seawall_any::{AnyMemory, AnyWorkload};
use seawall_memory::Image;
use seawall_sim::{Crash, Cycle, Observer};
use seawall_workloads::{Contents, Explainer, Flaw, History, Layout};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A crash comes up to this many cycles after the output that it is attached to: longer than a
/// write to NVM takes, so that it falls before, in and after the flushes that the output caused.
const OFFSET_CYCLES_MAX: u64 = 3000;

/// Separates the crash points from everything else that a seed decides.
const CRASH_STREAM: u64 = 0x6372_6173_6865_7321;

/// A crash that broke a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The cycle of the crash; the end of the run if there was none.
    pub cycle: Cycle,
    pub what: String,
}

/// What a check needs to know about a run.
pub(crate) struct Checked {
    pub(crate) workload: &'static dyn AnyWorkload,
    pub(crate) layout: Layout,
    pub(crate) before: Contents,
    pub(crate) history: Arc<History>,
    pub(crate) flaw: Flaw,
}

impl Checked {
    fn recover(&self, image: &Image) -> Result<Contents, String> {
        let image = &AnyMemory::image(image);
        let opened = self.workload.open(image, self.layout, self.flaw);
        let opened = opened.map_err(|damage| format!("recovery refuses the pool: {damage}"))?;
        opened.contents(image).map_err(|damage| format!("an invariant is broken: {damage}"))
    }

    /// Whether the first `completed[t]` operations of each thread t, and any others that `index`
    /// holds, explain `pm`.
    pub(crate) fn check(
        &self,
        index: &Explainer,
        pm: Vec<u8>,
        completed: &[u64],
    ) -> Result<(), String> {
        let image = Image::from_pm(pm, self.layout.dram_bytes);
        let after = self.recover(&image)?;
        let image = Image::from_pm(image.into_pm(), self.layout.dram_bytes);
        if self.recover(&image)? != after {
            return Err("a second recovery changes what the first one gave".into());
        }
        index
            .explain(&self.before, &after, completed)
            .map(drop)
            .map_err(|violation| violation.to_string())
    }
}

/// Watches a run: notes when outputs happen, asks for crashes, checks what they leave.
pub(crate) struct Watcher {
    pub(crate) run: Checked,
    pub(crate) index: Explainer,
    /// Outputs of each thread so far.
    pub(crate) outputs: Vec<u64>,
    /// When each thread's warm-up ended.
    pub(crate) warm: Vec<Cycle>,
    /// When each thread's last output was.
    pub(crate) last: Vec<Cycle>,
    pub(crate) crashes: u64,
    pub(crate) broken: Vec<Broken>,
    warmup: u64,
    durable: bool,
    seen: u64,
    /// Crash points to come, the next one last: after how many outputs, and how much later.
    points: Vec<(u64, Cycle)>,
}

/// How often to crash, and what a crash may lose.
pub(crate) struct CrashPlan {
    pub(crate) threads: usize,
    pub(crate) warmup: u64,
    /// Operations of each thread, warm-up included.
    pub(crate) operations: u64,
    pub(crate) crashes: u64,
    pub(crate) durable: bool,
    pub(crate) seed: u64,
}

impl CrashPlan {
    /// Distinct numbers of outputs, spread over the whole run, each with its offset.
    fn points(&self) -> Vec<(u64, Cycle)> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(self.seed ^ CRASH_STREAM);
        let outputs = self.operations * self.threads as u64;
        let mut numbers = BTreeSet::new();
        while (numbers.len() as u64) < self.crashes.min(outputs) {
            numbers.insert(rng.random_range(1..=outputs));
        }
        let numbers = numbers.into_iter().rev();
        numbers.map(|number| (number, rng.random_range(0..OFFSET_CYCLES_MAX))).collect()
    }
}

impl Watcher {
    pub(crate) fn new(run: Checked, plan: &CrashPlan) -> Watcher {
        Watcher {
            run,
            index: Explainer::new(),
            outputs: vec![0; plan.threads],
            warm: vec![0; plan.threads],
            last: vec![0; plan.threads],
            crashes: 0,
            broken: Vec::new(),
            warmup: plan.warmup,
            durable: plan.durable,
            seen: 0,
            points: plan.points(),
        }
    }

    /// Checks the image in which the run ended, with every operation in it.
    pub(crate) fn check_end(&mut self, cycle: Cycle, pm: Vec<u8>) {
        self.index.extend(&self.run.history);
        if let Err(what) = self.run.check(&self.index, pm, &self.outputs) {
            let what = format!("after the run, without any crash: {what}");
            self.broken.push(Broken { cycle, what });
        }
    }
}

impl Observer for Watcher {
    fn output(&mut self, core: usize, number: u64, now: Cycle) -> Option<Cycle> {
        self.outputs[core] = number;
        self.last[core] = now;
        if number == self.warmup {
            self.warm[core] = now;
        }
        self.seen += 1;
        let (_, offset) = self.points.pop_if(|(number, _)| *number <= self.seen)?;
        Some(now + offset)
    }

    fn crash(&mut self, now: Cycle, crash: Crash) {
        self.crashes += 1;
        self.index.extend(&self.run.history);
        let none = vec![0; self.outputs.len()];
        let completed = if self.durable { &self.outputs } else { &none };
        if let Err(what) = self.run.check(&self.index, crash.pm, completed) {
            self.broken.push(Broken { cycle: now, what });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_memory::{Addr, Memory, MemoryExt};
    use seawall_workloads::{Damage, Hash, Setup, Worker, Workload};

    fn plan(crashes: u64, operations: u64) -> CrashPlan {
        CrashPlan { threads: 2, warmup: 0, operations, crashes, durable: true, seed: 1 }
    }

    #[test]
    fn crash_points_are_distinct_and_spread_over_the_whole_run() {
        let points = plan(40, 5000).points();
        assert_eq!(points.len(), 40);
        assert!(points.windows(2).all(|pair| pair[0].0 > pair[1].0), "the next one is last");
        assert!(points[0].0 > 8000 && points[39].0 < 2000, "{points:?}");
        assert!(points.iter().all(|(_, offset)| *offset < OFFSET_CYCLES_MAX));
        let distinct: BTreeSet<Cycle> = points.iter().map(|(_, offset)| *offset).collect();
        assert!(distinct.len() > 30, "{distinct:?}");
    }

    #[test]
    fn a_short_run_has_no_more_crashes_than_outputs() {
        assert_eq!(plan(40, 3).points().len(), 6);
        assert_eq!(plan(0, 3).points(), []);
    }

    /// A watcher of `W` after some operations of one thread, with the images before and after.
    fn watched<W: Workload>(durable: bool) -> (Watcher, Vec<u8>, Vec<u8>) {
        let setup = Setup { entries: 16, search_percent: 0, ..Setup::of::<W>(1) };
        let layout = W::layout(&setup);
        let image = Image::new(layout.pm_bytes, layout.dram_bytes);
        let workload = W::create(&image, &setup);
        let before_pm = image.clone().into_pm();
        let before = workload.contents(&image).unwrap();
        let history = Arc::new(History::new());
        let (workload_of, flaw) = (seawall_any::of::<W>(), setup.flaw);
        let run = Checked { workload: workload_of, layout, before, history: history.clone(), flaw };
        let plan =
            CrashPlan { threads: 1, warmup: 4, operations: 12, crashes: 12, durable, seed: 1 };
        let mut watcher = Watcher::new(run, &plan);
        let mut worker = Worker::new(&setup, 0, history);
        let mut local = workload.join(&image);
        while worker.number < 12 {
            workload.step(&image, &mut local, &mut worker);
            worker.number += 1;
            let now = 100 * worker.number;
            let (_, offset) = *watcher.points.last().expect("a crash for each output");
            assert_eq!(watcher.output(0, worker.number, now), Some(now + offset));
        }
        drop(local);
        (watcher, before_pm, image.into_pm())
    }

    #[test]
    fn time_is_taken_from_the_end_of_the_warm_up_to_the_last_output() {
        let (watcher, ..) = watched::<Hash>(true);
        assert_eq!((watcher.warm[0], watcher.last[0], watcher.outputs[0]), (400, 1200, 12));
    }

    #[test]
    fn losing_completed_operations_breaks_a_durable_design_only() {
        for durable in [true, false] {
            let (mut watcher, before, after) = watched::<Hash>(durable);
            watcher.crash(7, Crash { pm: after, stores: Vec::new() });
            assert_eq!(watcher.broken, []);
            watcher.crash(8, Crash { pm: before, stores: Vec::new() });
            let cycles: Vec<Cycle> = watcher.broken.iter().map(|broken| broken.cycle).collect();
            assert_eq!(cycles, if durable { vec![8] } else { vec![] });
            assert_eq!(watcher.crashes, 2);
        }
    }

    #[test]
    fn the_end_of_a_run_must_show_every_operation_under_every_design() {
        let (mut watcher, before, after) = watched::<Hash>(false);
        watcher.check_end(9, after);
        assert_eq!(watcher.broken, []);
        watcher.check_end(9, before);
        assert!(watcher.broken[0].what.starts_with("after the run"), "{:?}", watcher.broken);
    }

    /// Its recovery adds an entry each time.
    #[derive(Clone)]
    struct Growing;

    impl Workload for Growing {
        const NAME: &'static str = "growing";
        const ABOUT: &'static str = "";
        const ENTRIES: u64 = 1;
        const SEARCH_PERCENT: u32 = 0;

        fn layout(_: &Setup) -> Layout {
            Layout { pm_bytes: 64, dram_bytes: 0 }
        }

        fn create<M: Memory>(_: &M, _: &Setup) -> Growing {
            Growing
        }

        fn open<M: Memory>(memory: &M, _: Layout) -> Result<Growing, Damage> {
            memory.fetch_add(Addr::pm(0), 1);
            Ok(Growing)
        }

        type Local<'m, M: Memory + 'm> = ();

        fn join<M: Memory>(&self, _: &M) {}

        fn step<M: Memory>(&self, _: &M, (): &mut (), _: &mut Worker) {}

        fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage> {
            Ok(Contents::from([(0, memory.load(Addr::pm(0)))]))
        }
    }

    #[test]
    fn a_recovery_that_changes_something_when_it_runs_again_is_caught() {
        let (mut watcher, before, _) = watched::<Growing>(false);
        watcher.crash(1, Crash { pm: before, stores: Vec::new() });
        assert!(watcher.broken[0].what.contains("second recovery"), "{:?}", watcher.broken);
    }
}
