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
        Failure(of_parameter(&text))
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

/// A message that begins with an option, but with the parameter in its place.
fn of_parameter(message: &str) -> String {
    match message.split_once(' ') {
        Some((option, rest)) => format!("{} {rest}", parameter(option)),
        None => message.to_owned(),
    }
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
