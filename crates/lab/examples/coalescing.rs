//! Prints what placing objects that change together on the same lines is worth: lines flushed, how
//! dirty they were, and simulated cycles. The same numbers every time.
//!
//! `cargo run --release -p seawall-lab --example coalescing -- [MACHINE [KEYS]]`; without a
//! machine, the one of MICRO'15 and the one with Optane-like DIMMs. With logs retired as the heap
//! does it, on 1, 4 and 24 threads; and retired after each operation, on 1.

use seawall_lab::{Coalescing, CoalescingOptions, LabError};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let machine = arguments.next();
    let defaults = CoalescingOptions::default();
    let keys = match arguments.next().map(|keys| keys.parse()) {
        None => defaults.keys,
        Some(Ok(keys)) => keys,
        Some(Err(error)) => {
            eprintln!("KEYS: {error}; give a number");
            return ExitCode::from(2);
        }
    };
    let machines = match machine {
        Some(machine) => vec![machine],
        None => ["micro15", "optane24"].map(String::from).into(),
    };
    match print(machines, keys) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn print(machines: Vec<String>, keys: u64) -> Result<(), LabError> {
    for machine in machines {
        for (threads, retires_each) in [(1, false), (4, false), (24, false), (1, true)] {
            let (machine, defaults) = (machine.clone(), CoalescingOptions::default());
            let options = CoalescingOptions { machine, keys, threads, retires_each, ..defaults };
            println!("{}", Coalescing::run(&options)?.to_text());
        }
    }
    Ok(())
}
