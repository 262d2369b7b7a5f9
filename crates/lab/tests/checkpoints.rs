//! Kernels with checkpoints on this machine, and on simulated ones that crash: each crash leaves a
//! checkpoint that was complete, from which the run goes on to the plain result.

use crate::is_long_run;
use seawall_memory::Image;
use seawall_native::{Pool, PoolOptions};
use seawall_sim::{Choice, CoreAccess, Crash, Cycle, Machine, Observer, Program, Simulation};
use seawall_workloads::kernels::{Lu, Ocean, Radix};
use seawall_workloads::{Checkpointed, Flaw, Input, Kernel, Layout, Phased};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Barrier;

fn native<K: Phased>() {
    for threads in [4, 24] {
        let input = Input { threads, size: K::SMALL * 4, seed: 1 };
        let pm_bytes = Checkpointed::<K>::layout(&input).pm_bytes;
        let pool = Pool::temporary(pm_bytes, &PoolOptions::default()).expect("room for it");
        let kernel = Checkpointed::<K>::create(&pool.memory(0), &input);
        let start = Barrier::new(threads);
        let flushed: u64 = std::thread::scope(|scope| {
            let run = |thread| {
                let (pool, kernel, start) = (&pool, &kernel, &start);
                scope.spawn(move || {
                    let memory = pool.memory(thread);
                    start.wait();
                    kernel.run(&memory);
                    memory.counters().flushed_lines
                })
            };
            let threads: Vec<_> = (0..threads).map(run).collect();
            threads.into_iter().map(|thread| thread.join().expect("it ends")).sum()
        });
        assert!(flushed > 0, "{}", K::NAME);
        assert_eq!(kernel.check(&pool.memory(0)), Ok(()), "{} on {threads} threads", K::NAME);
        assert!(kernel.recover(&pool.memory(0)).is_ok_and(|phases| phases > 1));
        assert_eq!(kernel.check(&pool.memory(0)), Ok(()), "the last checkpoint");
    }
}

#[test]
fn kernels_with_checkpoints_give_the_plain_result_on_this_machine() {
    native::<Lu>();
    native::<Radix>();
    native::<Ocean>();
}

/// Crashes after every so many stores, and some time after each checkpoint.
struct Watcher {
    apart: u64,
    stores: u64,
    complete: u64,
    /// What crashes left, and how many phases a complete checkpoint had by then.
    images: Vec<(Vec<u8>, u64)>,
}

impl Observer for Watcher {
    fn output(&mut self, _: usize, number: u64, now: Cycle) -> Option<Cycle> {
        self.complete = number;
        Some(now + 100 * number)
    }

    fn crash(&mut self, _: Cycle, crash: Crash) {
        self.images.push((crash.pm, self.complete));
    }

    fn watches_accesses(&self) -> bool {
        true
    }

    fn stored(&mut self, _: CoreAccess, _: u64, now: Cycle) -> Option<Cycle> {
        self.stores += 1;
        self.stores.is_multiple_of(self.apart).then_some(now + self.stores % 1000)
    }
}

/// Runs all threads of a kernel on a machine; gives what is durable in the end.
fn simulate<K: Kernel>(
    machine: &str,
    design: &str,
    (kernel, pm, layout): (&K, Vec<u8>, Layout),
    threads: usize,
    watcher: Option<Rc<RefCell<Watcher>>>,
) -> Vec<u8> {
    let machine = Machine::load(machine).expect("a machine that comes with us");
    let design = Choice::parse(design).expect("a design of the table");
    let program = |_| {
        let kernel = kernel.clone();
        Box::new(move |memory: &seawall_sim::SimMemory| kernel.run(memory)) as Program
    };
    let dram = vec![0; layout.dram_bytes as usize];
    let mut simulation = Simulation::new(&machine, &design, pm, dram);
    if let Some(watcher) = watcher {
        simulation = simulation.watched_by(watcher);
    }
    simulation.run((0..threads).map(program).collect()).expect("it comes to its end").pm
}

/// Crashes a run under a design; gives how many crashes there were, and how many were broken.
fn crashed<K: Phased>(machine: &str, design: &str, threads: usize, flaw: Flaw) -> (usize, usize) {
    let input = Input { threads, size: K::SMALL, seed: 1 };
    let layout = Checkpointed::<K>::layout(&input);
    let image = Image::new(layout.pm_bytes, layout.dram_bytes);
    let kernel = Checkpointed::<K>::create(&image, &input);
    let pm = image.into_pm();
    let watcher = Watcher { apart: 1500, stores: 0, complete: 0, images: Vec::new() };
    let watcher = Rc::new(RefCell::new(watcher));
    let flawed = kernel.clone().with_flaw(flaw);
    simulate(machine, design, (&flawed, pm, layout), threads, Some(watcher.clone()));
    let images = std::mem::take(&mut watcher.borrow_mut().images);
    let goes_on = |(pm, complete): &(Vec<u8>, u64)| {
        let image = Image::from_pm(pm.clone(), layout.dram_bytes);
        if !kernel.recover(&image).is_ok_and(|phases| phases >= *complete) {
            return false;
        }
        let pm = simulate(machine, "volatile", (&kernel, image.into_pm(), layout), threads, None);
        kernel.check(&Image::from_pm(pm, layout.dram_bytes)).is_ok()
    };
    (images.len(), images.iter().filter(|image| !goes_on(image)).count())
}

#[test]
fn a_crash_of_a_simulated_kernel_leaves_a_checkpoint_to_go_on_from() {
    let kernels = [crashed::<Lu>, crashed::<Radix>, crashed::<Ocean>];
    for (number, design) in ["clwb", "hops", "lbpp"].into_iter().enumerate() {
        for (at, crashed) in kernels.iter().enumerate() {
            if at == number || is_long_run() {
                let (crashes, broken) = crashed("desktop", design, 4, Flaw::None);
                assert!(crashes >= 5 && broken == 0, "{design}: {broken} of {crashes}");
            }
        }
    }
}

#[test]
fn the_same_holds_with_twenty_four_threads() {
    for design in ["clwb", "hops"] {
        let (crashes, broken) = crashed::<Ocean>("optane24", design, 24, Flaw::None);
        assert!(crashes >= 5 && broken == 0, "{design}: {broken} of {crashes}");
    }
}

#[test]
fn a_checkpoint_without_its_flushes_is_caught() {
    let (crashes, broken) = crashed::<Lu>("desktop", "clwb", 4, Flaw::NoFlush);
    assert!(broken > 0, "of {crashes}");
}
