//! Compiles a program, and runs it with either library.

use seawall_clib::{LibraryEntry, SharedLibrary, built_beside_this_test, compiler};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use tempfile::TempDir;

pub(crate) fn entry() -> &'static LibraryEntry {
    LibraryEntry::named("pmem").expect("the table has it")
}

/// The folder with our library, which is linked once.
pub(crate) fn ours() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libpmem/lib");
        let entry = entry();
        let archive = built_beside_this_test(&entry.archive(), entry.package).unwrap();
        let library = SharedLibrary {
            archive: &archive,
            sources: &[],
            soname: entry.soname,
            version: entry.version,
            symbols: include_str!("../symbols.txt"),
        };
        library.link(&folder).unwrap();
        folder
    })
}

/// A compiled program.
pub(crate) struct Program {
    folder: TempDir,
    path: PathBuf,
}

/// Which library a program runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whose {
    Debians,
    Ours,
}

impl Program {
    /// Compiles `tests/c/<name>.c`; `None`, which is said, where a compiler or Debian's library is
    /// missing.
    pub(crate) fn compile(test: &str, name: &str) -> Option<Program> {
        Program::compile_with(test, name, &["pmem"])
    }

    /// The same with several libraries of PMDK.
    pub(crate) fn compile_with(test: &str, name: &str, libraries: &[&str]) -> Option<Program> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{name}.c"));
        let skip = |why: &str| {
            println!("{test}: skipped, because {why}");
            None
        };
        let folder = tempfile::tempdir().unwrap();
        let probe = folder.path().join("probe.c");
        let headers = libraries.iter().map(|library| format!("#include <lib{library}.h>\n"));
        fs::write(&probe, headers.collect::<String>() + "int main(void) { return 0; }\n").unwrap();
        let path = folder.path().join(name);
        let compile = |source: &Path| {
            let mut command = Command::new(compiler());
            command.args(["-O1", "-Wall", "-Werror", "-pthread", "-o"]).arg(&path).arg(source);
            command.args(libraries.iter().map(|library| format!("-l{library}"))).output()
        };
        match compile(&probe) {
            Err(error) => return skip(&format!("there is no C compiler: {error}")),
            Ok(done) if !done.status.success() => {
                let packages = libraries.iter().map(|library| format!(" lib{library}-dev"));
                let packages = packages.collect::<String>();
                return skip(&format!("a library is missing (Debian: apt install{packages})"));
            }
            Ok(_) => {}
        }
        let done = compile(&source).unwrap();
        assert!(done.status.success(), "{name}.c: {}", String::from_utf8_lossy(&done.stderr));
        Some(Program { folder, path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A command that runs it on that library in a clean environment.
    pub(crate) fn command(&self, whose: Whose) -> Command {
        let mut command = Command::new(&self.path);
        command.env_clear().current_dir(self.folder.path());
        if whose == Whose::Ours {
            command.env("LD_LIBRARY_PATH", ours());
        }
        command
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
        let debians = self.run(Whose::Debians, arguments, set);
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

pub(crate) fn told(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    let (out, err) = (String::from_utf8_lossy(out), String::from_utf8_lossy(err));
    format!("{}\n{out}\n{err}", output.status)
}

/// Folders on file systems of different kinds, as far as they are here.
pub(crate) fn places() -> Vec<PathBuf> {
    let all = [PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from("/dev/shm")];
    all.into_iter().filter(|folder| folder.is_dir()).collect()
}
