//! Chores of the workspace: `cargo run -p seawall-xtask -- tidy`.
//!
//! `tidy` holds the tree to the rules of CONTRIBUTING.md that neither the formatter nor the
//! compiler knows. It prints each problem with its place and exits with 1 if there is one.
//! `sanitize` with `address`, `thread` or `miri` runs the tests that such a tool can run. `package`
//! packages the crates that are published, in order, and looks for what they lack. `docs` runs the
//! commands that the pages show, and compares the output; `gallery` draws the plots of that page.
//! `c-libraries` makes the shared objects that C programs load. `python` builds the Python package
//! and runs its tests, `wheel` makes what is distributed of it. `counts` holds the instructions of
//! the hot paths, and `regress` times two commits in turns.

#![forbid(unsafe_code)]

mod clib;
mod counts;
mod docs;
mod gallery;
mod hot;
mod package;
mod python;
mod regress;
mod sanitize;
#[cfg(test)]
mod surface;
mod tidy;
mod wheel;
mod workspace;

use anyhow::{Result, bail};
use clib::Made;
use python::Build;
use sanitize::Tool;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p seawall-xtask -- \
                     tidy | docs | gallery | package | counts [--write] | regress OLD [NEW] | \
                     python --prepare | python [--as-tested] [--more] [WORD-FOR-PYTEST ..] | \
                     wheel DIR [--source | --target T] | \
                     sanitize address|thread|miri | \
                     c-libraries DIR [--prefix PREFIX] [--machines]";

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
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["tidy"] => tidy(),
        ["docs"] => Ok(if docs::run()? { ExitCode::SUCCESS } else { ExitCode::from(1) }),
        ["gallery"] => {
            gallery::write()?;
            Ok(ExitCode::SUCCESS)
        }
        ["c-libraries", folder, ref options @ ..] if !folder.starts_with('-') => {
            let Some(made) = Made::of(folder, options) else { bail!("{USAGE}") };
            made.run()?;
            Ok(ExitCode::SUCCESS)
        }
        ["package"] => Ok(if package::run()? { ExitCode::SUCCESS } else { ExitCode::from(1) }),
        ["counts", ref options @ ..] if matches!(options, [] | ["--write"]) => {
            Ok(if counts::run(!options.is_empty())? {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(1)
            })
        }
        ["regress", old] => regress::run(old, None).map(|()| ExitCode::SUCCESS),
        ["regress", old, new] => regress::run(old, Some(new)).map(|()| ExitCode::SUCCESS),
        ["python", "--prepare"] => {
            python::prepare()?;
            Ok(ExitCode::SUCCESS)
        }
        ["python", ref words @ ..] => python(words),
        ["wheel", folder, ref options @ ..] if !folder.starts_with('-') => {
            if !wheel::run(folder, options)? {
                bail!("{USAGE}");
            }
            Ok(ExitCode::SUCCESS)
        }
        ["sanitize", name] => match Tool::of_name(name) {
            Some(tool) => {
                Ok(if sanitize::run(tool)? { ExitCode::SUCCESS } else { ExitCode::from(1) })
            }
            None => bail!("{USAGE}"),
        },
        _ => bail!("{USAGE}"),
    }
}

/// `python`: options in front, words for pytest behind them.
fn python(words: &[&str]) -> Result<ExitCode> {
    let (mut build, mut more, mut rest) = (Build::Alone, false, words);
    while let [first, others @ ..] = rest {
        match *first {
            "--as-tested" => build = Build::AsTested,
            "--more" => more = true,
            _ => break,
        }
        rest = others;
    }
    Ok(if python::run(build, more, rest)? { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn tidy() -> Result<ExitCode> {
    let (files, problems) = tidy::check_workspace()?;
    for problem in &problems {
        println!("{problem}");
    }
    println!("tidy: {files} files, {} problems", problems.len());
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
