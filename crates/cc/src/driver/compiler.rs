//! The user's compiler: which one it is, and running it.

use super::Language;
use super::error::CcError;
use super::header;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};

/// Set while a compiler runs, so that a driver that runs itself is noticed.
const RUNNING: &str = "SEAWALL_CC_RUNNING";

/// What compilers write besides their output, if these are set.
const SIDE_OUTPUTS: [&str; 3] = ["DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES", "CC_PRINT_OPTIONS"];

/// A compiler with its first arguments, as in `ccache gcc`.
#[derive(Debug)]
pub(super) struct Compiler {
    words: Vec<String>,
    variable: &'static str,
    pub(super) language: Language,
}

/// What has to be known about it before options are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Brand {
    Gcc {
        /// The first number of its version.
        major: u32,
    },
    Clang,
}

impl Compiler {
    /// The compiler that the environment names.
    pub(super) fn find(language: Language) -> Result<Self, CcError> {
        CcError::of_this_host()?;
        let (variable, usual) = match language {
            Language::C => ("SEAWALL_CC", "gcc"),
            Language::Cxx => ("SEAWALL_CXX", "g++"),
        };
        if env::var_os(RUNNING).is_some() {
            return Err(CcError::Circle { variable });
        }
        let named = env::var(variable).unwrap_or_default();
        let mut words: Vec<String> = named.split_whitespace().map(String::from).collect();
        if words.is_empty() {
            words.push(usual.into());
        }
        Ok(Compiler { words, variable, language })
    }

    /// Gcc or clang, which are told apart by what they say about themselves.
    pub(super) fn brand(&self) -> Result<Brand, CcError> {
        let output = self.quietly(["--version"])?;
        Ok(brand_in(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Whether its programs use glibc, and not musl or another C library.
    pub(super) fn is_for_glibc(&self) -> Result<bool, CcError> {
        let output = self.quietly(["-E", "-dM", "-include", "features.h", "-xc", "/dev/null"])?;
        Ok(String::from_utf8_lossy(&output.stdout).contains("#define __GLIBC__ "))
    }

    /// Why programs of another C library have no code for the machines of seawall.
    pub(super) fn refuse_other_library(&self) -> String {
        format!(
            "`{}` builds for another C library than glibc, whose parts the machines of seawall \
             stand for: name a compiler for glibc in {}",
            self.words.join(" "),
            self.variable
        )
    }

    /// Its program, and its first arguments.
    pub(super) fn words(&self) -> &[String] {
        &self.words
    }

    /// Runs it as the user would; what it reads as its standard input may come from a file.
    pub(super) fn run(
        &self,
        arguments: &[OsString],
        input: Option<&Path>,
    ) -> Result<ExitStatus, CcError> {
        let mut command = self.command();
        command.args(arguments).stdin(standard_input(input)?);
        command.status().map_err(|source| self.no_program(source))
    }

    /// Runs it for ourselves: it prints nothing, and what it would print is in the result.
    pub(super) fn quietly(
        &self,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<Output, CcError> {
        self.quietly_with(arguments, None)
    }

    /// As above, with a file as its standard input.
    pub(super) fn quietly_with(
        &self,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        input: Option<&Path>,
    ) -> Result<Output, CcError> {
        let mut command = self.command();
        for name in SIDE_OUTPUTS {
            command.env_remove(name);
        }
        let stdin = match input {
            Some(_) => standard_input(input)?,
            None => Stdio::null(),
        };
        command.args(arguments).stdin(stdin);
        command.output().map_err(|source| self.no_program(source))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).env(RUNNING, "1");
        if let Some(path) = header::path() {
            command.env(header::VARIABLE, path);
        }
        command
    }

    fn no_program(&self, source: std::io::Error) -> CcError {
        CcError::NoProgram { program: self.words[0].clone(), source, variable: self.variable }
    }
}

fn standard_input(file: Option<&Path>) -> Result<Stdio, CcError> {
    match file {
        None => Ok(Stdio::inherit()),
        Some(path) => Ok(File::open(path).map_err(CcError::file(path))?.into()),
    }
}

/// Read from `gcc (Debian 12.2.0-14) 12.2.0`, or `Debian clang version 14.0.6`.
fn brand_in(text: &str) -> Brand {
    let line = text.lines().next().unwrap_or_default();
    if line.contains("clang") {
        return Brand::Clang;
    }
    let outside: String =
        line.split('(').map(|part| part.rsplit(')').next().unwrap_or(part)).collect();
    let version = outside.split_whitespace().find(|word| word.starts_with(char::is_numeric));
    let major = version.and_then(|version| version.split('.').next()?.parse().ok());
    Brand::Gcc { major: major.unwrap_or(0) }
}

/// The exit code that a shell would give.
pub(super) fn code(status: ExitStatus) -> u8 {
    let killed = || 128 + status.signal().unwrap_or(0);
    status.code().unwrap_or_else(killed).clamp(0, 255) as u8
}

/// The last lines that a failed run has printed, as one reason.
pub(super) fn reason(output: &Output) -> String {
    const LINES_MAX: usize = 12;
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let errors: Vec<&str> = lines.iter().copied().filter(|line| is_error(line)).collect();
    let told = if errors.is_empty() { lines } else { errors };
    match told.is_empty() {
        true => format!("it ended with {}", output.status),
        false => told[..told.len().min(LINES_MAX)].join("\n"),
    }
}

fn is_error(line: &str) -> bool {
    line.contains("rror:") || line.contains("undefined reference") || line.contains("relocation")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_are_known_by_their_first_line() {
        let gcc = |major| Brand::Gcc { major };
        assert_eq!(brand_in("gcc (Debian 12.2.0-14+deb12u1) 12.2.0\nx"), gcc(12));
        assert_eq!(brand_in("g++ (GCC) 13.2.1 20230801 (Red Hat 13.2.1-7)"), gcc(13));
        assert_eq!(brand_in("gcc-9 (Ubuntu 9.4.0) 9.4.0"), gcc(9));
        assert_eq!(brand_in("Debian clang version 14.0.6"), Brand::Clang);
    }
}
