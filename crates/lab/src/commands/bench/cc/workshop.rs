//! Compiles the programs of the bench in a folder of their own, with `seawall cc` and without.

use crate::LabError;
use seawall_cc::Language;
use seawall_program::{ProgramError, ProgramFolder};
use std::cell::Cell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What the kernels share, and what they share with the programs that tests run.
const HEADERS: [(&str, &str); 2] = [
    ("bench.h", include_str!("../programs/bench.h")),
    ("kernel.h", include_str!("../../../../../program/tests/programs/kernel.h")),
];
const OPTIONS: [&str; 2] = ["-O2", "-pthread"];

/// A program that `seawall cc` has compiled.
pub(super) struct Built {
    /// The binary.
    pub(super) program: PathBuf,
    /// The instrumented image that it embeds.
    pub(super) image: PathBuf,
}

/// The folder of the sources, of what is made of them, and of the runs.
pub(super) struct Workshop {
    folder: ProgramFolder,
    /// The command line of seawall, which is this process.
    seawall: PathBuf,
    runs: Cell<usize>,
}

impl Workshop {
    /// Refuses a host without a compiler.
    pub(super) fn new() -> Result<Workshop, LabError> {
        seawall_cc::run_compiler(Language::C, ["--version"])?;
        let folder = ProgramFolder::new().map_err(no_folder)?;
        for (name, text) in HEADERS {
            fs::write(folder.path().join(name), text).map_err(no_folder)?;
        }
        let seawall = std::env::current_exe().map_err(no_folder)?;
        Ok(Workshop { folder, seawall, runs: Cell::new(0) })
    }

    /// The command that serves requests.
    pub(super) fn server(&self) -> Vec<PathBuf> {
        vec![self.seawall.clone(), "program-process".into()]
    }

    /// A new folder, for a run.
    pub(super) fn new_folder(&self) -> Result<PathBuf, LabError> {
        let number = self.runs.replace(self.runs.get() + 1);
        self.folder(&format!("run-{number}"))
    }

    fn folder(&self, name: &str) -> Result<PathBuf, LabError> {
        let folder = self.folder.path().join(name);
        fs::create_dir_all(&folder).map_err(no_folder)?;
        Ok(folder)
    }

    /// Compiles a source with `seawall cc`, unless that is done.
    pub(super) fn build(&self, name: &str, source: &str) -> Result<Built, LabError> {
        let folder = self.folder("seawall")?;
        let program = folder.join(name);
        if !program.exists() {
            fs::write(self.source(name), source).map_err(no_folder)?;
            let mut command = Command::new(&self.seawall);
            command.arg("cc").args(self.arguments(name, &program));
            let output = command.output().map_err(|error| io_failed("run `seawall cc`", error))?;
            succeeded(name, "seawall cc", &output)?;
        }
        let embedded = seawall_cc::embedded(&program)?;
        let image = embedded.write(&folder).map_err(no_folder)?;
        Ok(Built { program, image })
    }

    /// Compiles a source that is [built](Workshop::build) with the same compiler, without seawall.
    pub(super) fn build_plainly(&self, name: &str) -> Result<PathBuf, LabError> {
        let program = self.folder("plain")?.join(name);
        let arguments = self.arguments(name, &program);
        let output = seawall_cc::run_compiler(Language::C, arguments)?;
        succeeded(name, "the compiler", &output)?;
        Ok(program)
    }

    fn source(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.c"))
    }

    fn arguments(&self, name: &str, program: &Path) -> Vec<PathBuf> {
        let words = OPTIONS.map(PathBuf::from).into_iter();
        words.chain(["-o".into(), program.to_owned(), self.source(name)]).collect()
    }
}

fn no_folder(error: io::Error) -> LabError {
    LabError::Folder { error }
}

/// Something that cannot be done with a program of the bench.
pub(super) fn io_failed(what: &str, error: io::Error) -> LabError {
    ProgramError::Io { what: format!("cannot {what}"), error }.into()
}

/// Refuses what a command has left that did not end with 0.
pub(super) fn succeeded(name: &str, by: &str, output: &Output) -> Result<(), LabError> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().find(|line| line.contains("error")).or(said.lines().next());
    Err(ProgramError::Ended {
        program: format!("{name}, a program of the bench,"),
        how: format!("failed in {by}: {}", output.status),
        said: said.map(|line| format!(": {line}")).unwrap_or_default(),
    }
    .into())
}
