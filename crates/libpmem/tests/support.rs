//! Compiles a program, and runs it with either library.

use seawall_clib::{LibraryEntry, Trial, TrialProgram, Whose, told};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tempfile::TempDir;

fn trial() -> &'static Trial {
    static TRIAL: OnceLock<Trial> = OnceLock::new();
    TRIAL.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        Trial::of("pmem", "libpmem-dev libpmemobj-dev", &root, target).unwrap()
    })
}

pub(crate) fn entry() -> &'static LibraryEntry {
    trial().entry()
}

/// The folder with our library.
pub(crate) fn ours() -> PathBuf {
    trial().library().parent().expect("a folder").to_path_buf()
}

/// A compiled program.
pub(crate) struct Program(TrialProgram);

impl Program {
    /// Compiles `tests/c/<name>.c`; `None`, which is said, where a compiler or Debian's library is
    /// missing.
    pub(crate) fn compile(test: &str, name: &str) -> Option<Program> {
        Program::compile_with(test, name, &[])
    }

    /// The same with further options.
    pub(crate) fn compile_with(test: &str, name: &str, options: &[&str]) -> Option<Program> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{name}.c"));
        trial().compile(test, &source, options).map(Program)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// A command that runs it on that library in a clean environment.
    pub(crate) fn command(&self, whose: Whose) -> Command {
        self.0.command(whose)
    }

    /// What it prints; it must succeed.
    pub(crate) fn run(&self, whose: Whose, arguments: &[&str], set: &[(&str, &str)]) -> String {
        let mut command = self.command(whose);
        command.args(arguments).envs(set.iter().copied());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{whose:?} {set:?}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What it prints on both libraries, which must be the same, line by line.
    pub(crate) fn run_both(&self, arguments: &[&str], set: &[(&str, &str)]) -> String {
        let debians = self.run(Whose::System, arguments, set);
        let ours = self.run(Whose::Ours, arguments, set);
        for (debians, ours) in debians.lines().zip(ours.lines()) {
            assert_eq!(ours, debians, "ours is on the left; {arguments:?} {set:?}");
        }
        assert_eq!(ours.lines().count(), debians.lines().count());
        ours
    }

    /// An empty folder for its files, under `parent`; removed when dropped.
    pub(crate) fn folder_in(parent: &Path) -> TempDir {
        tempfile::tempdir_in(parent).unwrap()
    }
}

/// Folders on file systems of different kinds, as far as they are here.
pub(crate) fn places() -> Vec<PathBuf> {
    let all = [PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from("/dev/shm")];
    all.into_iter().filter(|folder| folder.is_dir()).collect()
}
