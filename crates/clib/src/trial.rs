//! A program in C, compiled against another's library, to be run on that and on ours: for tests
//! that compare what it prints.

use crate::{ClibError, LibraryCode, LibraryEntry, built_beside_this_test, compiler};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Which library a program runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// The one that the system has.
    System,
    /// The one that is built here.
    Ours,
}

/// A library of ours that stands in for one of the system.
#[derive(Clone, Debug)]
pub struct Trial {
    entry: &'static LibraryEntry,
    /// The folder with our library.
    folder: PathBuf,
    /// The package of Debian that has the other.
    debian: &'static str,
}

impl Trial {
    /// Links the library that the table calls `name`, from the static one that cargo has built for
    /// this test and the sources under `root`, the workspace, in a folder of `target`.
    ///
    /// # Errors
    /// As [`LibraryEntry::link`].
    pub fn of(
        name: &str,
        debian: &'static str,
        root: &Path,
        target: &Path,
    ) -> Result<Trial, ClibError> {
        let entry = LibraryEntry::named(name).expect("the table has it");
        let folder = target.join(format!("lib{name}/lib"));
        let archive = built_beside_this_test(&entry.archive(), entry.package)?;
        entry.link(root, LibraryCode::Archive(&archive), &folder)?;
        Ok(Trial { entry, folder, debian })
    }

    /// Our library.
    pub fn library(&self) -> PathBuf {
        self.folder.join(self.entry.soname)
    }

    /// Its line in the table.
    pub fn entry(&self) -> &'static LibraryEntry {
        self.entry
    }

    /// Compiles a program, with these further options; `None`, which is said, where a compiler or
    /// the other library is missing.
    ///
    /// # Panics
    /// When the compiler refuses the program.
    pub fn compile(&self, test: &str, source: &Path, options: &[&str]) -> Option<TrialProgram> {
        let skip = |why: &str| {
            println!("{test}: skipped, because {why}");
            None
        };
        let folder = tempfile::tempdir().expect("a folder for the program");
        let probe = folder.path().join("probe.c");
        let (name, header) = (self.entry.name, format!("lib{}.h", self.entry.name));
        let text = format!("#include <{header}>\nint main(void) {{ return 0; }}\n");
        fs::write(&probe, text).expect("a probe");
        let path = folder.path().join("program");
        let compile = |source: &Path| {
            let mut command = Command::new(compiler());
            command.args(["-O1", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]);
            command.arg(&path).arg(source).args(options).arg(format!("-l{name}")).output()
        };
        match compile(&probe) {
            Err(error) => return skip(&format!("there is no C compiler: {error}")),
            Ok(done) if !done.status.success() => {
                let debian = self.debian;
                return skip(&format!("there is no lib{name} here (Debian: apt install {debian})"));
            }
            Ok(_) => {}
        }
        let done = compile(source).expect("the compiler runs");
        assert!(done.status.success(), "{}: {}", source.display(), told(&done));
        Some(TrialProgram { folder, path, library: self.folder.clone() })
    }
}

/// A compiled program.
#[derive(Debug)]
pub struct TrialProgram {
    folder: TempDir,
    path: PathBuf,
    library: PathBuf,
}

impl TrialProgram {
    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A command that runs it on that library, in a clean environment.
    pub fn command(&self, whose: Whose) -> Command {
        let mut command = Command::new(&self.path);
        command.env_clear().current_dir(self.folder.path());
        if whose == Whose::Ours {
            command.env("LD_LIBRARY_PATH", &self.library);
        }
        command
    }
}

/// A text with all that a command has given.
pub fn told(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    let (out, err) = (String::from_utf8_lossy(out), String::from_utf8_lossy(err));
    format!("{}\n{out}\n{err}", output.status)
}
