//! Runs kernels on a simulated machine and says how much they do: with it their sizes are chosen.
//!
//! `kernels MACHINE DESIGN THREADS [KERNEL[:SIZE]]...` prints a line a kernel: megabytes of memory,
//! references, stores of a thread; misses of its cache, of the shared one, and lines from another's
//! in per cent of the references; cycles, host time, and whether the result is right (exit code 1
//! if one is not).

use seawall_lab::{Extent, KernelPoint, run_kernel};
use seawall_sim::{Choice, Machine};
use seawall_workloads::{Atomic, KERNELS};
use std::process::ExitCode;
use std::sync::Arc;

fn run(arguments: &[String]) -> Result<bool, String> {
    let [machine, design, threads, kernels @ ..] = arguments else {
        return Err("usage: kernels MACHINE DESIGN THREADS [KERNEL[:SIZE]]...".into());
    };
    let machine = Machine::load(machine).map_err(|error| error.to_string())?;
    let design = Choice::parse(design).map_err(|error| error.to_string())?;
    let number = |text: &str| text.parse().map_err(|_| format!("{text} is no number"));
    let threads = number(threads)? as usize;
    let all: Vec<String> = KERNELS.iter().map(|entry| entry.name.into()).collect();
    let mut is_right = true;
    println!("kernel       size    MB   Mrefs  Kstores  L1 miss LLC miss      c2c  Mcycles host s");
    println!(
        "                               a thread        %        %        %         (Mrefs/s)"
    );
    for kernel in if kernels.is_empty() { &all } else { kernels } {
        let (name, size) = kernel
            .split_once(':')
            .map_or((kernel.as_str(), None), |(name, size)| (name, Some(size)));
        let size = size.map(number).transpose()?;
        let point = KernelPoint {
            kernel: name.into(),
            design: design.clone(),
            threads,
            size,
            seed: 1,
            atomic: Atomic::FineLocks,
            extent: Extent::Bare,
        };
        let run =
            run_kernel(&machine, &point, &Arc::default()).map_err(|error| error.to_string())?;
        let counters = &run.counters;
        let per_cent = |part: u64| 100.0 * part as f64 / counters.references as f64;
        println!(
            "{name:9} {:7} {:5.1} {:7.2} {:8} {:8.2} {:8.2} {:8.2} {:8.2} {:6.2} ({:.1}) {}",
            run.input.size,
            run.pm_bytes as f64 / 1e6,
            counters.references as f64 / 1e6,
            (counters.stores + counters.locked) / threads as u64 / 1000,
            per_cent(counters.l1_misses),
            per_cent(counters.llc_misses),
            per_cent(counters.cache_to_cache),
            run.cycles as f64 / 1e6,
            run.host.as_secs_f64(),
            counters.references as f64 / 1e6 / run.host.as_secs_f64(),
            run.result.as_ref().map_or_else(ToString::to_string, |()| "right".into()),
        );
        is_right &= run.result.is_ok();
    }
    Ok(is_right)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}
