//! Runs the fuzz targets on random bytes from a seed: slower than a fuzzer guided by coverage, but
//! it needs nothing but Rust.
//!
//! `--runs N` runs of each target, from `--first N`, with `--seed N`; `--target NAME` runs one of
//! them; `--file PATH` runs a target on the bytes of a file instead. Exit codes: 0 nothing was
//! found, 1 something was found, 2 it could not run.

#![forbid(unsafe_code)]

use seawall_fuzz::{TARGETS, input};
use std::panic::catch_unwind;
use std::process::ExitCode;

struct Options {
    runs: u64,
    first: u64,
    seed: u64,
    target: Option<String>,
    file: Option<String>,
}

fn options() -> Result<Options, String> {
    let mut options = Options { runs: 10_000, first: 0, seed: 1, target: None, file: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let wrong = |_| format!("{word} is {value}; it must be a number");
        let number = || value.parse().map_err(wrong);
        match word.as_str() {
            "--runs" => options.runs = number()?,
            "--first" => options.first = number()?,
            "--seed" => options.seed = number()?,
            "--target" => options.target = Some(value),
            "--file" => options.file = Some(value),
            _ => {
                return Err(format!(
                    "{word} is unknown; there are --runs, --first, --seed, --target and --file"
                ));
            }
        }
    }
    let known: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    match &options.target {
        Some(target) if !known.contains(&target.as_str()) => {
            Err(format!("no target is called {target}; known: {}", known.join(", ")))
        }
        _ => Ok(options),
    }
}

/// Runs the selected targets; returns the number of inputs that broke something.
fn drive(options: &Options) -> Result<u64, String> {
    let read = |path: &String| {
        let why = |error| format!("{path}: {error}; give a file that can be read");
        std::fs::read(path).map_err(why)
    };
    let file = options.file.as_ref().map(read).transpose()?;
    let mut found = 0;
    let is_wanted = |name: &str| options.target.as_deref().is_none_or(|target| target == name);
    for (name, target) in TARGETS.iter().filter(|(name, _)| is_wanted(name)) {
        let runs = if file.is_some() { 0..1 } else { options.first..options.first + options.runs };
        let count = runs.end - runs.start;
        for run in runs {
            let bytes = file.clone().unwrap_or_else(|| input(options.seed, run));
            if catch_unwind(|| target(&bytes)).is_err() {
                found += 1;
                println!("{name} breaks: --target {name} --seed {} --first {run}", options.seed);
            }
        }
        println!("{name}: {count} runs");
    }
    Ok(found)
}

fn main() -> ExitCode {
    match options().and_then(|options| drive(&options)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}
