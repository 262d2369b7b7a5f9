//! Why something could not be done: the message that the command line prints, as an exception.

use clap::Command;
use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use seawall_lab::tip;

create_exception!(
    seawall,
    Error,
    PyException,
    "Something cannot be done; the message names the thing and the remedy."
);

/// The message of an error with its causes, as far as it does not contain them already.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Failure {
        Failure(message.into())
    }

    pub(crate) fn of(error: &(dyn std::error::Error + 'static)) -> Failure {
        let (mut said, mut text) = (error.to_string(), error.to_string());
        let mut cause = error.source();
        while let Some(error) = cause {
            let what = error.to_string();
            if !said.contains(&what) {
                text += &format!("\n  {what}");
            }
            (said, cause) = (what, error.source());
        }
        if let Some(tip) = tip(error) {
            text += &format!("\n  {tip}");
        }
        Failure(of_parameters(&text))
    }

    /// What is wrong with the options of a command, without the advice for a command line.
    pub(crate) fn of_options(error: &clap::Error, command: &Command) -> Failure {
        let text = error.to_string();
        let advice = |line: &&str| !line.starts_with("Usage:") && !line.starts_with("For more");
        let lines: Vec<&str> = text.lines().take_while(advice).collect();
        let mut text = lines.join("\n");
        let mut built = command.clone();
        built.build();
        for argument in built.get_arguments() {
            let (shown, name) = (argument.to_string(), argument.get_id().as_str());
            text = match argument.get_long() {
                Some(option) => text.replace(&shown, &option.replace('-', "_")),
                None => {
                    text.replace(&shown, name).replace(&format!("<{}>", name.to_uppercase()), name)
                }
            };
        }
        Failure(of_parameters(text.trim().trim_start_matches("error: ")))
    }
}

/// A message with parameters where it speaks of options, and with the functions of this package for
/// commands that have one; commands are between backticks.
pub(crate) fn of_parameters(message: &str) -> String {
    let parts = message.split('`').enumerate();
    let parts = parts.map(|(at, part)| match at % 2 {
        0 => part.split_inclusive(' ').map(of_word).collect(),
        _ => of_command(part),
    });
    parts.collect::<Vec<String>>().join("`")
}

/// `seawall list corpus` and `seawall sweep --help` as one asks for them here.
fn of_command(command: &str) -> String {
    match command.split(' ').collect::<Vec<_>>()[..] {
        ["seawall", "list", what] => format!("seawall.list('{what}')"),
        ["seawall", name, "--help"] => format!("help(seawall.{name})"),
        _ => command.to_owned(),
    }
}

/// `(--early-stores,` as `(early_stores,`.
fn of_word(word: &str) -> String {
    let Some((before, option)) = word.split_once("--") else { return word.to_owned() };
    let is_option = option.starts_with(|first: char| first.is_ascii_lowercase());
    if !is_option || before.contains(|it: char| it.is_alphanumeric()) {
        return word.to_owned();
    }
    let end = option.find(|it: char| !it.is_ascii_alphanumeric() && it != '-');
    let (name, behind) = option.split_at(end.unwrap_or(option.len()));
    format!("{before}{}{behind}", name.replace('-', "_"))
}

impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::of(&error)
    }
}

impl From<Failure> for PyErr {
    fn from(Failure(message): Failure) -> PyErr {
        Error::new_err(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_called_as_parameters_but_not_those_of_commands() {
        let said = "--early-stores is 3; give more --ops, (--seconds) or `seawall run --ops 3`";
        let meant = "early_stores is 3; give more ops, (seconds) or `seawall run --ops 3`";
        assert_eq!(of_parameters(said), meant);
        assert_eq!(of_parameters("see `seawall list corpus`"), "see `seawall.list('corpus')`");
        assert_eq!(of_parameters("a -- b, c--d and --"), "a -- b, c--d and --");
    }
}
