//! What the definition of the flags is worth outside: completions of shells and manual pages.

use crate::args::Cli;
use crate::run::{Verdict, say};
use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;
use seawall_lab::Listing;
use std::path::Path;

/// Arguments whose values are names, most of them beside other things, such as paths: so parsers
/// know nothing of the names, and completions must be told.
const NAMES: &[(&str, Listing)] = &[
    ("workloads", Listing::Workloads),
    ("workload", Listing::Workloads),
    ("designs", Listing::Designs),
    ("baseline", Listing::Designs),
    ("machine", Listing::Machines),
    ("kernels", Listing::Kernels),
    ("experiment", Listing::Experiments),
    ("figures", Listing::Figures),
    ("model", Listing::Models),
    ("models", Listing::Models),
    ("mix", Listing::Mixes),
    ("cases", Listing::Corpus),
];

/// Prints the completions of a shell.
pub(crate) fn completions(shell: Shell) -> Result<Verdict> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut with_names(Cli::command()), "seawall", &mut text);
    say(&String::from_utf8(text)?)
}

/// The command with the names that its arguments can have.
fn with_names(command: Command) -> Command {
    let shown = match command.get_name() {
        "machine" => Some(Listing::Machines),
        "design" => Some(Listing::Designs),
        _ => None,
    };
    let named = move |argument: Arg| {
        let id = argument.get_id().as_str();
        let known = NAMES.iter().find(|(name, _)| *name == id).map(|(_, listing)| *listing);
        match known.or(shown.filter(|_| id == "name")) {
            Some(listing) => {
                // They are needed until the process ends, which is soon.
                let names = listing.names().into_iter().map(|name| &*name.leak());
                argument.value_parser(PossibleValuesParser::new(names))
            }
            None => argument,
        }
    };
    command.mut_args(named).mut_subcommands(with_names)
}

/// Writes a page for seawall and one for each command.
pub(crate) fn manual(folder: &Path) -> Result<Verdict> {
    let path = folder.display();
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {path}"))?;
    clap_mangen::generate_to(Cli::command(), folder)
        .with_context(|| format!("cannot write manual pages to {path}; choose another folder"))?;
    Ok(Verdict::Fine)
}
