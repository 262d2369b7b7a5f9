//! The command line of seawall, in three stages: what was typed (`args`), what it means
//! (`meaning`), doing it (`run`).

#![forbid(unsafe_code)]

mod args;
mod meaning;
mod run;
mod stop;

use clap::Parser;
use seawall_lab::EndWithoutMemory;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: EndWithoutMemory = EndWithoutMemory;

fn main() -> ExitCode {
    let outcome = meaning::mean(args::Cli::parse()).and_then(run::run);
    match outcome {
        Ok(verdict) => verdict.into(),
        Err(error) => {
            let mut said = error.to_string();
            eprintln!("error: {said}");
            for cause in error.chain().skip(1).map(|cause| cause.to_string()) {
                if !said.contains(&cause) {
                    eprintln!("  {cause}");
                }
                said = cause;
            }
            ExitCode::from(2)
        }
    }
}
