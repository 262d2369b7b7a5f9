//! Crashes of the parallel kernels under buffered strict persistency: each leaves a consistent cut.
//!
//! The programs say nothing about persistency, their locks and barriers are in persistent memory,
//! and the hardware cuts them where it likes. `SEAWALL_CUTS=1000` crashes each kernel about a
//! thousand times under each design.

use seawall_memory::Image;
use seawall_sim::{Choice, Machine, Program, Recording, SimMemory, Simulation};
use seawall_workloads::{Input, KERNELS, Kernel, KernelEntry, KernelVisitor, with_kernel};
use std::cell::RefCell;
use std::rc::Rc;

const THREADS: usize = 4;
/// Stores of an epoch: few, so that the small programs have many.
const DESIGNS: [&str; 4] =
    ["bsp-lb:stores=200", "bsp-lb-idt:stores=200", "bsp-lb-pf:stores=200", "bsp-lbpp:stores=200"];

struct Crashed<'a> {
    entry: &'a KernelEntry,
    design: &'a str,
    crashes: u64,
}

impl KernelVisitor for Crashed<'_> {
    /// Crashes, and stores in their cuts; or what is wrong.
    type Output = Result<(u64, u64), String>;

    fn visit<K: Kernel>(self) -> Self::Output {
        let machine = Machine::load("desktop").expect("a machine that comes with us");
        let design = Choice::parse(self.design).expect("a design of the table");
        let input = Input { size: self.entry.small, ..Input::of::<K>(THREADS) };
        let layout = K::layout(&input);
        let start = Image::new(layout.pm_bytes, layout.dram_bytes);
        let kernel = K::create(&start, &input);
        let (pm, dram) = start.into_parts();
        let run = |stores_per_crash: f64| {
            let recording = Recording::new(pm.clone(), THREADS, stores_per_crash, 20_000, 1);
            let recording = Rc::new(RefCell::new(recording));
            let program = |_| {
                let kernel = kernel.clone();
                Box::new(move |memory: &SimMemory| kernel.run(memory)) as Program
            };
            let outcome = Simulation::new(&machine, &design, pm.clone(), dram.clone())
                .watched_by(recording.clone())
                .run((0..THREADS).map(program).collect())
                .map_err(|error| error.to_string())?;
            let recording = Rc::into_inner(recording).expect("the run is over").into_inner();
            Ok::<_, String>((outcome.counters.stores + outcome.counters.locked, recording))
        };
        let (stores, _) = run(1e12)?;
        let (_, recording) = run(stores as f64 / self.crashes as f64)?;
        match recording.broken().first() {
            None => Ok((recording.crashes(), recording.stores_in_cuts())),
            Some((cycle, what)) => Err(format!("crash at {cycle}: {what}")),
        }
    }
}

fn crash(entry: &KernelEntry, design: &str, crashes: u64) -> Result<(u64, u64), String> {
    with_kernel(entry.name, Crashed { entry, design, crashes }).expect("a kernel of the table")
}

#[test]
fn every_crash_of_every_kernel_leaves_a_consistent_cut() {
    let wanted = std::env::var("SEAWALL_CUTS").map_or(8, |text| text.parse().expect("a number"));
    for entry in KERNELS {
        for design in DESIGNS {
            let (crashes, stores) = crash(entry, design, wanted)
                .unwrap_or_else(|what| panic!("{} under {design}: {what}", entry.name));
            assert!(crashes > 0 && stores > 0, "{} under {design}: {crashes}", entry.name);
            eprintln!("{:9} {design:22} {crashes:5} crashes", entry.name);
        }
    }
}

#[test]
fn without_the_log_some_crash_of_some_kernel_leaves_none() {
    let caught =
        KERNELS.iter().any(|entry| crash(entry, "bsp-lbpp:stores=200:log=false", 40).is_err());
    assert!(caught);
}
