//! The commands on the pages of the repository are commands: each is parsed as if it was typed.
//!
//! `cargo run -p seawall-xtask -- docs` runs those that show their output, and compares it.

use crate::args::Cli;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use std::path::{Path, PathBuf};

/// The pages with commands: those of `docs` and these.
const PAGES: [&str; 4] =
    ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "validation/README.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(root().join("docs")).expect("the folder of pages");
    let docs = docs.map(|entry| entry.expect("a page").path());
    let docs = docs.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    docs.chain(PAGES.map(|page| root().join(page))).collect()
}

/// Each `seawall ..` of a page, in blocks and in running text; of alternatives (`a|b`) each.
fn commands(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, part) in page.split("```").enumerate() {
        if number % 2 == 1 {
            let joined = part.replace("\\\n", " ");
            for line in joined.lines().skip(1) {
                let typed = line.strip_prefix("$ ").unwrap_or(line);
                let typed = typed.split(" #").next().unwrap_or(typed);
                found.extend(typed.split(['&', ';']).filter_map(command));
            }
        } else {
            for paragraph in part.split("\n\n") {
                let spans = paragraph.split('`').skip(1).step_by(2);
                found.extend(spans.filter_map(command));
            }
        }
    }
    found.into_iter().flat_map(|command| alternatives(&command)).collect()
}

fn command(text: &str) -> Option<String> {
    let text = text.split('>').next().unwrap_or(text);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let starts = ["seawall ", "cargo run --release -- "];
    let rest = starts.iter().find_map(|start| text.strip_prefix(start))?;
    let is_command = rest.starts_with(|c: char| c.is_ascii_lowercase());
    is_command.then(|| rest.to_owned())
}

fn alternatives(command: &str) -> Vec<String> {
    let Some(word) = command.split(' ').find(|word| word.contains('|')) else {
        return vec![command.to_owned()];
    };
    word.split('|').map(|one| command.replacen(word, one, 1)).collect()
}

/// Why `command` cannot be typed, if it cannot. The name of a command alone may be mentioned.
fn refusal(command: &str) -> Option<String> {
    let words = shlex::split(command)?;
    let (root, mut names) = (Cli::command(), words.iter());
    if names.try_fold(&root, |command, name| command.find_subcommand(name)).is_some() {
        return None;
    }
    match Cli::try_parse_from(["seawall".to_owned()].into_iter().chain(words)) {
        Ok(_) => None,
        Err(error) if error.kind() == ErrorKind::DisplayHelp => None,
        Err(error) => Some(error.to_string()),
    }
}

#[test]
fn every_command_on_the_pages_can_be_typed() {
    let (mut count, mut refused) = (0, Vec::new());
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page");
        for command in commands(&text) {
            count += 1;
            let refusal = refusal(&command);
            refused.extend(refusal.map(|why| format!("{}: {command}: {why}", page.display())));
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert!(count > 60, "{count} commands");
}

#[test]
fn commands_are_found_in_blocks_and_in_running_text() {
    let page = "Say `seawall list\na|b` and `seawall`.\n\n```\n$ seawall run x &  sleep 2\n\
                output\n```\n\n```sh\ncargo run --release -- compare     # all\n```\n";
    assert_eq!(commands(page), ["list a", "list b", "run x", "compare"]);
}

#[test]
fn an_option_or_a_command_that_does_not_exist_is_refused() {
    assert!(refusal("compare --desings lbpp").is_some());
    assert!(refusal("compar").is_some());
    assert_eq!(refusal("compare --designs lbpp"), None);
    assert_eq!(refusal("litmus --help"), None);
}
