//! Installs the library as programs find it, and compiles and runs programs on it.

use seawall_clib::{
    Installation, LibraryCode, LibraryEntry, built_beside_this_test, symbols, told,
};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The folder of this crate.
pub(crate) fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn entry() -> &'static LibraryEntry {
    LibraryEntry::named("seawall").unwrap()
}

/// The exported names.
pub(crate) fn names() -> Vec<String> {
    let list = fs::read_to_string(here().join("symbols.txt")).unwrap();
    symbols(&list).map(str::to_owned).collect()
}

/// The folder that the library is installed in; `None`, which is said once for each test, where
/// there is no C compiler.
pub(crate) fn installed(test: &str) -> Option<&'static Path> {
    static INSTALLED: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = INSTALLED.get_or_init(|| has(compiler("CC", "cc")).then(install)).as_deref();
    if folder.is_none() {
        println!("{test}: skipped, because there is no C compiler (Debian: apt install gcc)");
    }
    folder
}

fn install() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed");
    let (root, entry) = (here().join("../.."), entry());
    let archive = built_beside_this_test(&entry.archive(), entry.package).unwrap();
    entry.link(&root, LibraryCode::Archive(&archive), &folder.join("lib")).unwrap();
    let (root, archive) = (&root, &archive);
    Installation { entry, root, archive, folder: &folder, prefix: &folder }.install().unwrap();
    folder
}

fn has(tool: OsString) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|done| done.status.success())
}

fn compiler(variable: &str, usual: &str) -> OsString {
    std::env::var_os(variable).filter(|name| !name.is_empty()).unwrap_or_else(|| usual.into())
}

/// What the `.pc` file says after that key, with its variables replaced.
pub(crate) fn flags(folder: &Path, key: &str) -> Vec<String> {
    let text = fs::read_to_string(folder.join("lib/pkgconfig/seawall.pc")).unwrap();
    let mut variables: Vec<(String, String)> = Vec::new();
    let replaced = |text: &str, variables: &[(String, String)]| {
        variables.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
    };
    for line in text.lines() {
        if let Some((name, value)) = line.split_once('=').filter(|(name, _)| !name.contains(':')) {
            let value = replaced(value, &variables);
            variables.push((format!("${{{name}}}"), value));
        } else if let Some(value) = line.strip_prefix(key).and_then(|rest| rest.strip_prefix(':')) {
            let words = value.split_whitespace();
            return words.map(|word| replaced(word, &variables)).collect();
        }
    }
    panic!("no {key} in {text}");
}

/// How a program is linked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Linked {
    Shared,
    Static,
}

/// A compiled program.
pub(crate) struct Program {
    _folder: TempDir,
    path: PathBuf,
    library: PathBuf,
}

impl Program {
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.env_clear().env("LD_LIBRARY_PATH", &self.library);
        command
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of the library.
    pub(crate) fn library(&self) -> &Path {
        &self.library
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().unwrap()
    }

    /// What it prints; it must succeed.
    pub(crate) fn printed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Compiles a program, from the folder of this crate, in C or C++, with what pkg-config would say.
pub(crate) fn compile(test: &str, source: &str, linked: Linked) -> Option<Program> {
    let installed = installed(test)?;
    let is_c = source.ends_with(".c");
    let (tool, standard) = match is_c {
        true => (compiler("CC", "cc"), "-std=c11"),
        false => (compiler("CXX", "c++"), "-std=c++17"),
    };
    if !has(tool.clone()) {
        println!("{test}: skipped, because there is no C++ compiler (Debian: apt install g++)");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    let mut command = Command::new(&tool);
    command.args([standard, "-O1", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    command.args(["-pthread", "-o"]).arg(&path).arg(here().join(source));
    command.args(flags(installed, "Cflags"));
    match linked {
        Linked::Shared => command.args(flags(installed, "Libs")),
        Linked::Static => {
            command.arg(installed.join("lib/libseawall.a")).args(flags(installed, "Libs.private"))
        }
    };
    let done = command.output().unwrap();
    assert!(done.status.success(), "{source}: {}", told(&done));
    let library = installed.join("lib");
    Some(Program { _folder: folder, path, library })
}

/// A folder in memory, where flushes are quick.
pub(crate) fn pools() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

pub(crate) fn pool_in(folder: &TempDir) -> String {
    folder.path().join("pool").to_str().unwrap().to_owned()
}

/// The number that a variable has, or `usual`.
pub(crate) fn number_of(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().map_or(usual, |text| text.parse().expect("a number"))
}
