//! What the definition of the flags is worth outside: completions of shells and manual pages.
//!
//! A shell asks seawall itself what may stand where the cursor is (`SEAWALL_COMPLETE`), so that
//! names are those of this build, and what follows a comma or a colon is completed too.

mod bash;

use crate::args::Cli;
use anyhow::{Context, Result};
use clap::{Arg, Command, CommandFactory};
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter,
};
use clap_complete::env::{Elvish, Fish, Powershell, Shells, Zsh};
use clap_complete::{CompleteEnv, Shell};
use seawall_lab::explore::MEASURED;
use seawall_lab::{Choice, DefragOptions, Listing, Machine, litmus};
use std::ffi::OsStr;
use std::path::Path;

/// The variable that says for which shell to complete.
const VARIABLE: &str = "SEAWALL_COMPLETE";

const SHELLS: Shells<'_> = Shells(&[&bash::Bash, &Elvish, &Fish, &Powershell, &Zsh]);

/// What can stand for the value of an argument.
#[derive(Clone, Copy)]
enum Offer {
    Names(Listing),
    /// Names, or files.
    Files(Listing),
    /// Litmus tests, their families, or files.
    Litmus,
    Designs,
    Machines,
    Protocols,
    Costs,
    /// Programs that can be explored.
    Explored,
}

/// The arguments whose values are names. Their parsers do not know them: many take other things
/// too, and an unknown name is an error of the command.
const OFFERS: &[(&str, Offer)] = &[
    ("workloads", Offer::Names(Listing::Workloads)),
    ("workload", Offer::Names(Listing::Workloads)),
    ("designs", Offer::Designs),
    ("baseline", Offer::Designs),
    ("machine", Offer::Machines),
    ("kernels", Offer::Names(Listing::Kernels)),
    ("experiment", Offer::Files(Listing::Experiments)),
    ("figures", Offer::Names(Listing::Figures)),
    ("models", Offer::Names(Listing::Models)),
    ("mix", Offer::Names(Listing::Mixes)),
    ("cases", Offer::Names(Listing::Corpus)),
    ("tests", Offer::Litmus),
    ("applications", Offer::Names(Listing::Applications)),
    ("defragment", Offer::Protocols),
    ("cost", Offer::Costs),
];

/// Answers a shell that asks for completions; the process ends then.
pub(crate) fn complete() {
    CompleteEnv::with_factory(completed).var(VARIABLE).shells(SHELLS).complete();
}

/// What makes a shell ask.
pub(crate) fn completions(shell: Shell) -> Result<String> {
    let mut text = Vec::new();
    let known = SHELLS.completer(&shell.to_string()).context("seawall knows each of these")?;
    known.write_registration(VARIABLE, "seawall", "seawall", "seawall", &mut text)?;
    Ok(String::from_utf8(text)?)
}

/// The command with what its arguments can be.
fn completed() -> Command {
    with_offers(Cli::command())
}

fn with_offers(command: Command) -> Command {
    let name = command.get_name().to_owned();
    let offered = move |argument: Arg| match offer(&name, argument.get_id().as_str()) {
        Some(offer) => argument.add(ArgValueCompleter::new(offer)),
        None => argument,
    };
    command.mut_args(offered).mut_subcommands(with_offers)
}

fn offer(command: &str, argument: &str) -> Option<Offer> {
    match (command, argument) {
        ("machine", "name") => Some(Offer::Machines),
        ("design", "name") => Some(Offer::Designs),
        ("explore", "workload") => Some(Offer::Explored),
        _ => OFFERS.iter().find(|(name, _)| *name == argument).map(|(_, offer)| *offer),
    }
}

impl ValueCompleter for Offer {
    fn complete(&self, begun: &OsStr) -> Vec<CompletionCandidate> {
        let texts = begun.to_str().map(|begun| self.texts(begun)).unwrap_or_default();
        let files = match self {
            Offer::Files(_) | Offer::Litmus | Offer::Machines => {
                PathCompleter::file().complete(begun)
            }
            _ => Vec::new(),
        };
        texts.into_iter().map(CompletionCandidate::new).chain(files).collect()
    }
}

impl Offer {
    /// What begins like this.
    fn texts(self, begun: &str) -> Vec<String> {
        let names: Vec<String> = match self {
            Offer::Names(listing) | Offer::Files(listing) => listing.names(),
            Offer::Litmus => [Listing::Litmus.names(), litmus::families()].concat(),
            Offer::Protocols => DefragOptions::names(),
            Offer::Costs => ["lean", "libpmemobj"].map(str::to_owned).into(),
            Offer::Explored => {
                let own = MEASURED.map(str::to_owned);
                let listed = [Listing::Workloads, Listing::Corpus];
                listed.into_iter().flat_map(Listing::names).chain(own).collect()
            }
            Offer::Designs => with_settings(begun, Listing::Designs, parameters),
            Offer::Machines => with_settings(begun, Listing::Machines, numbers),
        };
        names.into_iter().filter(|name| name.starts_with(begun)).collect()
    }
}

/// Names, or, behind a colon, what can be set of the one before the first of them.
fn with_settings(begun: &str, names: Listing, of: fn(&str) -> Vec<String>) -> Vec<String> {
    let Some((before, _)) = begun.rsplit_once(':') else { return names.names() };
    let name = before.split(':').next().unwrap_or_default();
    let is_set = |key: &String| before.split(':').any(|set| set.split('=').next() == Some(key));
    let keys = of(name).into_iter().filter(|key| !is_set(key));
    keys.map(|key| format!("{before}:{key}=")).collect()
}

fn parameters(design: &str) -> Vec<String> {
    let docs = Choice::parse(design).map(|choice| choice.entry.docs).unwrap_or_default();
    docs.iter().map(|doc| doc.name.to_owned()).collect()
}

fn numbers(machine: &str) -> Vec<String> {
    Machine::load(machine).map(|machine| machine.numbers()).unwrap_or_default()
}

/// Writes a page for seawall and one for each command.
pub(crate) fn manual(folder: &Path) -> Result<()> {
    let path = folder.display();
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {path}"))?;
    clap_mangen::generate_to(Cli::command(), folder)
        .with_context(|| format!("cannot write manual pages to {path}; choose another folder"))
}
