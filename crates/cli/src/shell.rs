//! What the definition of the flags is worth outside: completions of shells and manual pages.

use crate::args::Cli;
use crate::run::{Verdict, say};
use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_complete::Shell;
use std::path::Path;

/// Prints the completions of a shell.
pub(crate) fn completions(shell: Shell) -> Result<Verdict> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "seawall", &mut text);
    say(&String::from_utf8(text)?)
}

/// Writes a page for seawall and one for each command.
pub(crate) fn manual(folder: &Path) -> Result<Verdict> {
    let path = folder.display();
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {path}"))?;
    clap_mangen::generate_to(Cli::command(), folder)
        .with_context(|| format!("cannot write manual pages to {path}; choose another folder"))?;
    Ok(Verdict::Fine)
}
