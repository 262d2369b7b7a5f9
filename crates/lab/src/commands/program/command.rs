//! The words of a command that a user has typed as one, and the program that it names.

use crate::LabError;
use seawall_cc::Embedded;
use std::path::{Path, PathBuf};

/// Stands for the file of a run in a command.
pub(crate) const POOL: &str = "{pool}";

/// A command of a program that exists.
#[derive(Clone, Debug)]
pub(crate) struct ProgramCommand {
    /// As it was typed.
    pub(crate) text: String,
    pub(crate) words: Vec<String>,
    /// The file of the program.
    pub(crate) path: PathBuf,
}

impl ProgramCommand {
    pub(crate) fn parse(option: &'static str, text: &str) -> Result<ProgramCommand, LabError> {
        let words = words(option, text)?;
        let path = find(&words[0]).ok_or_else(|| LabError::Option {
            option,
            value: text.into(),
            valid: format!("the command of a program; there is none called '{}'", words[0]),
        })?;
        Ok(ProgramCommand { text: text.into(), words, path })
    }

    /// The name of the program, without its folder.
    pub(super) fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or(&self.words[0])
    }

    /// The words, with the path of a pool in place of `{pool}`.
    pub(super) fn with_pool(&self, pool: &Path) -> Vec<String> {
        let pool = pool.display().to_string();
        self.words.iter().map(|word| word.replace(POOL, &pool)).collect()
    }
}

/// An error unless the program has this function.
pub(crate) fn check_entry(embedded: &Embedded, entry: &str) -> Result<(), LabError> {
    if embedded.defines(entry) {
        return Ok(());
    }
    let valid = format!(
        "a function of the program that is not static: int {entry}(const char *pool), in C++ as \
         extern \"C\""
    );
    Err(LabError::Option { option: "--check-entry", value: entry.into(), valid })
}

/// A command, and the name before it, as in `new=./hash run {pool}`, if it has one.
pub(super) fn named(text: &str) -> (Option<&str>, &str) {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.+-".contains(c);
    match text.split_once('=') {
        Some((name, command)) if !name.is_empty() && name.chars().all(is_plain) => {
            (Some(name), command)
        }
        _ => (None, text),
    }
}

/// Splits a command into words, as a shell does.
pub(super) fn words(option: &'static str, text: &str) -> Result<Vec<String>, LabError> {
    shlex::split(text).filter(|words| !words.is_empty()).ok_or_else(|| LabError::Option {
        option,
        value: text.into(),
        valid: "the words of a command; quotes must be closed".into(),
    })
}

/// The file of a program: a path, or a name in one of the folders of `PATH`.
fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_file());
    }
    let folders = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&folders).map(|folder| folder.join(name));
    files.find(|path| path.is_file())
}
