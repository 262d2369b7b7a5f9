//! The command line of seawall, in three stages: what was typed (`args`), what it means
//! (`meaning`), doing it (`run`).

#![forbid(unsafe_code)]

mod args;
mod meaning;
mod run;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let outcome = meaning::mean(args::Cli::parse()).and_then(run::run);
    match outcome {
        Ok(verdict) => verdict.into(),
        Err(error) => {
            eprintln!("error: {error}");
            for cause in error.chain().skip(1) {
                eprintln!("  {cause}");
            }
            ExitCode::from(2)
        }
    }
}
