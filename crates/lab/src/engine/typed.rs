//! What is said about options that cannot be read: clap's words, but about numbers in those of
//! people, and with a tip where clap has none.

use crate::commands::list::Listing;
use crate::commands::similar::most_like;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};
use seawall_memory::UnknownModel;
use seawall_workloads::UnknownMix;
use std::error::Error as Cause;
use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

/// The error as it is said of a command with these options.
pub fn in_words(mut error: Error, options: &Command) -> Error {
    if let Some(remedy) = error.source().and_then(remedy) {
        let (option, value) = (argument(&error), text(&error, ContextKind::InvalidValue));
        let message = format!("invalid value '{value}' for '{option}': {remedy}\n");
        let mut said = Error::raw(error.kind(), message);
        said.insert(ContextKind::InvalidArg, ContextValue::String(option.to_owned()));
        return said;
    }
    if let Some(tip) = tip(&error, options) {
        let tips = ContextValue::StyledStrs(vec![StyledStr::from(tip)]);
        error.insert(ContextKind::Suggested, tips);
    }
    error
}

/// The option that an error is about, as clap shows it: `--ops <N>`.
fn argument(error: &Error) -> &str {
    text(error, ContextKind::InvalidArg)
}

fn text(error: &Error, kind: ContextKind) -> &str {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text,
        _ => "",
    }
}

/// What to give where a number could not be read.
fn remedy(cause: &(dyn Cause + 'static)) -> Option<&'static str> {
    if let Some(error) = cause.downcast_ref::<ParseIntError>() {
        let is_large = *error.kind() == IntErrorKind::PosOverflow;
        return Some(if is_large { "give a smaller number" } else { "give a whole number" });
    }
    cause.is::<ParseFloatError>().then_some("give a number")
}

fn tip(error: &Error, options: &Command) -> Option<String> {
    if let Some((name, listing)) = error.source().and_then(unknown) {
        let similar = most_like(name, listing.names())?;
        return Some(format!("a similar name exists: '{similar}'"));
    }
    let word = argument(error);
    let names_workloads = options.get_arguments().any(|it| it.get_long() == Some("workloads"));
    let is_word = error.kind() == ErrorKind::UnknownArgument && !word.starts_with('-');
    (is_word && names_workloads).then(|| format!("workloads are named with '--workloads {word}'"))
}

/// The name that there is not, and what it was to be a name of.
fn unknown<'a>(cause: &'a (dyn Cause + 'static)) -> Option<(&'a str, Listing)> {
    if let Some(UnknownMix(name)) = cause.downcast_ref() {
        return Some((name, Listing::Mixes));
    }
    cause.downcast_ref().map(|UnknownModel(name)| (&**name, Listing::Models))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CompareOptions;
    use clap::Args;

    fn refused(words: &[&str]) -> Error {
        let options = CompareOptions::augment_args(Command::new("compare")).no_binary_name(true);
        let error = options.clone().try_get_matches_from(words).unwrap_err();
        in_words(error, &options)
    }

    fn said(words: &[&str]) -> String {
        refused(words).to_string()
    }

    #[test]
    fn a_number_that_cannot_be_read_is_answered_with_what_to_give() {
        let message = "error: invalid value 'x' for '--ops <N>': give a whole number\n";
        assert_eq!(said(&["--ops", "x"]), message);
        assert_eq!(argument(&refused(&["--ops", "x"])), "--ops <N>");
        assert!(said(&["--ops=-1"]).contains("give a whole number"));
        assert!(said(&["--ops", "99999999999999999999"]).contains("give a smaller number"));
    }

    #[test]
    fn a_workload_without_its_option_and_a_mistyped_mix_get_a_tip() {
        let text = said(&["queue"]);
        assert!(text.contains("tip: workloads are named with '--workloads queue'"), "{text}");
        let text = said(&["--mix", "ycbs-a"]);
        assert!(text.contains("unknown mix `ycbs-a`") && text.contains("'ycsb-a'"), "{text}");
    }
}
