//! Why something could not be done: the message that the command line prints, as an exception.

use pyo3::PyErr;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use seawall_lab::{argument, tip};

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

    /// What is wrong with options, without the advice for a command line.
    pub(crate) fn of_options(error: &clap::Error) -> Failure {
        let text = error.to_string();
        let advice = |line: &&str| !line.starts_with("Usage:") && !line.starts_with("For more");
        let lines: Vec<&str> = text.lines().take_while(advice).collect();
        let text = lines.join("\n");
        let option = argument(error);
        let text = text.replace(&format!("'{option}'"), &format!("'{}'", parameter(option)));
        Failure(text.trim().trim_start_matches("error: ").to_owned())
    }
}

/// The parameter of a function that is the option `--early-stores <N>`: `early_stores`.
fn parameter(option: &str) -> String {
    let flag = option.split([' ', '=', '[']).next().unwrap_or_default();
    match flag.strip_prefix("--") {
        Some(name) => name.replace('-', "_"),
        None => option.to_owned(),
    }
}

/// A message with parameters where it speaks of options, but for commands, which are between
/// backticks.
pub(crate) fn of_parameters(message: &str) -> String {
    let parts = message.split('`').enumerate();
    let parts = parts.map(|(at, part)| match at % 2 {
        0 => part.split_inclusive(' ').map(of_word).collect(),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<String>>().join("`")
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
        assert_eq!(of_parameters("a -- b, c--d and --"), "a -- b, c--d and --");
    }
}
