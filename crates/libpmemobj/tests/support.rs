//! Runs the programs of `tests/c`, each with pools of its own in memory.

use seawall_clib::{Trial, TrialProgram, Whose, told};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use tempfile::TempDir;

pub(crate) fn trial() -> &'static Trial {
    static TRIAL: OnceLock<Trial> = OnceLock::new();
    TRIAL.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        Trial::of("pmemobj", "libpmemobj-dev", &root, target).unwrap()
    })
}

/// Compiles `tests/c/<name>.c`.
pub(crate) fn compile(test: &str, name: &str) -> Option<TrialProgram> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{name}.c"));
    // A transaction is a setjmp.
    trial().compile(test, &source, &["-Wno-clobbered", "-lpmem"])
}

/// A folder in memory, as flushes of both libraries reach it at the same cost.
pub(crate) fn pools() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

pub(crate) fn pool_in(folder: &TempDir, name: &str) -> PathBuf {
    folder.path().join(name)
}

/// A command that treats the pool as persistent memory, whichever library runs.
pub(crate) fn command(program: &TrialProgram, whose: Whose) -> Command {
    let mut command = program.command(whose);
    command.env("PMEM_IS_PMEM_FORCE", "1").env("PMEMOBJ_CONF", "sds.at_create=0");
    command
}

pub(crate) fn run(program: &TrialProgram, whose: Whose, arguments: &[&str]) -> Output {
    command(program, whose).args(arguments).output().unwrap()
}

/// What it prints; it must succeed.
pub(crate) fn printed(program: &TrialProgram, whose: Whose, arguments: &[&str]) -> String {
    let output = run(program, whose, arguments);
    assert!(output.status.success(), "{whose:?} {arguments:?}: {}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The number that a variable has, or `usual`.
pub(crate) fn number_of(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().map_or(usual, |text| text.parse().expect("a number"))
}
