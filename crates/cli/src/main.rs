//! The command line of seawall: what can be typed (`args`), and doing it (`run`).

#![forbid(unsafe_code)]
// They panic when standard error is closed.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod args;
mod compiler;
mod dask;
#[cfg(test)]
mod pages;
mod run;
mod shell;
mod stop;
mod terminal;

use seawall_lab::{EndWithoutMemory, ignore_size_limit, tip};
use seawall_report::{name_build, tell};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: EndWithoutMemory = EndWithoutMemory;

fn main() -> ExitCode {
    EndWithoutMemory::hook_panics();
    if let Some(code) = compiler::run(std::env::args_os()) {
        return code;
    }
    shell::complete();
    name_build(args::VERSION);
    ignore_size_limit();
    let outcome = run::run(args::Cli::typed().command);
    match outcome {
        Ok(verdict) => verdict.into(),
        Err(error) => {
            let mut said = error.to_string();
            tell(format_args!("error: {said}"));
            for cause in error.chain().skip(1).map(|cause| cause.to_string()) {
                if !said.contains(&cause) {
                    tell(format_args!("  {cause}"));
                }
                said = cause;
            }
            if let Some(tip) = tip(error.as_ref()) {
                tell(format_args!("\n  {tip}"));
            }
            ExitCode::from(2)
        }
    }
}
