//! Chores of the workspace: `cargo run -p seawall-xtask -- tidy`.
//!
//! `tidy` holds the tree to the rules of CONTRIBUTING.md that neither the formatter nor the
//! compiler knows. It prints each problem with its place and exits with 1 if there is one.

#![forbid(unsafe_code)]

mod tidy;

use anyhow::{Result, bail};
use std::process::ExitCode;

fn main() -> ExitCode {
    match chore() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn chore() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments != ["tidy"] {
        bail!("usage: cargo run -p seawall-xtask -- tidy");
    }
    let (files, problems) = tidy::check_workspace()?;
    for problem in &problems {
        println!("{problem}");
    }
    println!("tidy: {files} files, {} problems", problems.len());
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
