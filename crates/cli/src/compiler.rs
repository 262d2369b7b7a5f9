//! `seawall cc` and `seawall c++`, before anything else is read: all words after them are the
//! compiler's, `--help` and `--version` too.

use seawall_cc::Language;
use std::error::Error;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Runs the compiler if the command is one: by its first word, or by the name of the program, as
/// build systems may want one word (`seawallcc`, `seawallc++`).
pub(crate) fn run(mut words: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let program = words.next()?;
    if let Some(language) = Language::of_command(&program) {
        return Some(seawall_cc::run(language, words, instrument));
    }
    let language = match Path::new(&words.next()?).to_str()? {
        "cc" => Language::C,
        "c++" => Language::Cxx,
        _ => return None,
    };
    Some(seawall_cc::run(language, words, instrument))
}

fn instrument(assembly: &str) -> Result<String, Box<dyn Error + Send + Sync>> {
    Ok(seawall_cc::asm::instrument(assembly)?)
}
