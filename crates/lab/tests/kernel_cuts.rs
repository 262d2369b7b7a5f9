//! Crashes of the parallel kernels under buffered strict persistency: each leaves a consistent cut.
//!
//! `SEAWALL_CUTS=1000` crashes each kernel a thousand times under each design.

use crate::is_long_run;
use seawall_lab::{Cuts, Extent, KernelPoint, crash_kernel, run_kernel};
use seawall_sim::{Choice, Machine};
use seawall_workloads::{KERNELS, KernelEntry};
use std::sync::Arc;

/// Stores of an epoch: few, so that the small programs have many.
const DESIGNS: [&str; 4] =
    ["bsp-lb:stores=200", "bsp-lb-idt:stores=200", "bsp-lb-pf:stores=200", "bsp-lbpp:stores=200"];

fn crash(entry: &KernelEntry, design: &str, crashes: u64) -> Cuts {
    let machine = Machine::load("desktop").expect("a machine that comes with us");
    let design = Choice::parse(design).expect("a design of the table");
    let (kernel, size) = (entry.name.into(), Some(entry.small));
    let point = KernelPoint { kernel, design, threads: 4, size, seed: 1, extent: Extent::Bare };
    crash_kernel(&machine, &point, crashes, &Arc::default()).expect("it comes to its end")
}

#[test]
fn every_crash_of_every_kernel_leaves_a_consistent_cut() {
    let wanted = std::env::var("SEAWALL_CUTS").map_or(8, |text| text.parse().expect("a number"));
    for entry in KERNELS {
        for design in DESIGNS {
            let cuts = crash(entry, design, wanted);
            assert_eq!(cuts.broken, [], "{} under {design}", entry.name);
            assert_eq!(cuts.crashes, wanted, "{} under {design}", entry.name);
            assert!(cuts.stores_in_cuts > 0, "{} under {design}", entry.name);
            eprintln!("{:9} {design:22} {:5} crashes", entry.name, cuts.crashes);
        }
    }
}

#[test]
fn without_the_log_some_crash_of_some_kernel_leaves_none() {
    let is_caught = |entry| !crash(entry, "bsp-lbpp:stores=200:log=false", 40).broken.is_empty();
    assert!(KERNELS.iter().any(is_caught));
}

#[test]
fn machines_of_one_core_and_of_sixty_four_run_kernels_right_and_leave_cuts() {
    let machine = Machine::load("micro15").expect("a machine that comes with us");
    for cores in [1usize, 64] {
        let settings = [("core.count".to_owned(), (cores as i64).into())];
        let machine = machine.with("a test", &settings).expect("a machine with other numbers");
        for (number, design) in ["bsp-lb:stores=200", "bsp-lbpp:stores=200"].iter().enumerate() {
            let design = Choice::parse(design).expect("a design of the table");
            let kernels = ["radix", "intruder"].into_iter().enumerate();
            for (_, kernel) in kernels.filter(|(at, _)| *at == number || is_long_run()) {
                let (design, threads) = (design.clone(), cores);
                let kernel = kernel.into();
                let point = KernelPoint {
                    kernel,
                    design,
                    threads,
                    size: Some(300),
                    seed: 1,
                    extent: Extent::Bare,
                };
                let run = run_kernel(&machine, &point, &Arc::default()).expect("it ends");
                assert_eq!(run.result, Ok(()), "{point:?}");
                let cuts = crash_kernel(&machine, &point, 5, &Arc::default()).expect("it ends");
                assert_eq!((cuts.crashes, cuts.broken), (5, Vec::new()), "{point:?}");
            }
        }
    }
}

#[test]
fn only_designs_with_a_log_and_saved_processors_are_judged() {
    for (design, is_judged) in [
        ("bsp-lbpp", true),
        ("bsp-lb:stores=300", true),
        ("bsp-lbpp:log=false", false),
        ("bsp-naive", false),
        ("lbpp", false),
        ("volatile", false),
    ] {
        let choice = Choice::parse(design).expect("a design of the table");
        assert_eq!(choice.promises_cuts(), is_judged, "{design}");
    }
}

#[test]
fn every_store_of_a_run_can_be_crashed_after_the_last_one_too() {
    let machine = Machine::load("desktop").expect("a machine that comes with us");
    for kernel in ["lu", "freqmine"] {
        let design = Choice::parse("bsp-lbpp:stores=20").expect("a design of the table");
        let (kernel, size) = (kernel.into(), Some(2));
        let point = KernelPoint { kernel, design, threads: 2, size, seed: 1, extent: Extent::Bare };
        let run = run_kernel(&machine, &point, &Arc::default()).expect("it ends");
        let (written, stores) = (run.counters.written(), run.counters.stores);
        assert!(stores < written && written < 20_000, "{written} stores");
        let cuts = crash_kernel(&machine, &point, u64::MAX, &Arc::default()).expect("it ends");
        assert_eq!((cuts.crashes, cuts.broken), (written, Vec::new()));
    }
}
