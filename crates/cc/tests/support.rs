//! The C support library does what the C library does, under real threads.
//!
//! It is compiled as for a program, but not instrumented. For most tests its functions are then
//! renamed, so that a test can compare `t_memcpy` with `memcpy`; a C++ program is linked with it
//! under its own names, and loaded. Behind the page are real threads and the real clock: see
//! `support/harness.c`.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

const LIBRARY_FLAGS: [&str; 7] =
    ["-O2", "-fPIC", "-fno-builtin", "-std=gnu11", "-Wall", "-Wextra", "-Werror"];
const TEST_FLAGS: [&str; 7] =
    ["-O1", "-g", "-fno-builtin", "-std=gnu11", "-Wall", "-Wextra", "-Werror"];

/// Where the tests were built; nothing if there is no compiler.
struct Built {
    folder: tempfile::TempDir,
    has_cxx: bool,
}

fn output(program: &str, arguments: &[&OsStr], folder: &Path) -> Output {
    Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}"))
}

fn succeed(program: &str, arguments: &[&OsStr], folder: &Path) -> String {
    let output = output(program, arguments, folder);
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("names are ASCII")
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The C files of a folder, in order.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder is in the tree")
        .map(|entry| entry.expect("it can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "c"))
        .collect();
    files.sort();
    files
}

/// Compiles each file and returns the names of the objects.
fn compile(files: &[PathBuf], flags: &[&str], prefix: &str, folder: &Path) -> Vec<String> {
    files
        .iter()
        .map(|file| {
            let stem = file.file_stem().expect("it has a name").to_str().expect("ASCII");
            let object = format!("{prefix}{stem}.o");
            let mut arguments: Vec<&OsStr> = flags.iter().map(OsStr::new).collect();
            arguments.extend(["-c", "-o", &object].map(OsStr::new));
            arguments.push(file.as_os_str());
            succeed("gcc", &arguments, folder);
            object
        })
        .collect()
}

fn run(program: &str, arguments: &[&str], objects: &[String], folder: &Path) -> String {
    let arguments: Vec<&OsStr> = arguments
        .iter()
        .copied()
        .chain(objects.iter().map(String::as_str))
        .map(OsStr::new)
        .collect();
    succeed(program, &arguments, folder)
}

fn build() -> Option<Built> {
    if !["gcc", "ld", "nm", "objcopy"].into_iter().all(has) {
        eprintln!("skipped: gcc or binutils are missing");
        return None;
    }
    let tree = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tests = tree.join("tests/support");
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let folder = temporary.path();
    let library = compile(&sources(&tree.join("support")), &LIBRARY_FLAGS, "lib-", folder);
    run("ld", &["-r", "-o", "library.o"], &library, folder);
    let names = run("nm", &["-g", "--defined-only", "library.o"], &[], folder);
    let renamed: String = names
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .map(|name| format!("{name} t_{name}\n"))
        .collect();
    fs::write(folder.join("names"), renamed).expect("it can be written");
    run("objcopy", &["--redefine-syms=names", "library.o", "tested.o"], &[], folder);
    let objects = compile(&sources(&tests), &TEST_FLAGS, "", folder);
    run("gcc", &["-o", "tests", "tested.o", "-pthread", "-ldl"], &objects, folder);
    let has_cxx = has("g++");
    if has_cxx {
        let program = tests.join("program.cpp");
        let include = format!("-I{}", tree.join("include").display());
        let flags = ["-O2", "-fPIC", "-shared", "-std=c++20", "-Wall", "-Wextra", "-Werror"];
        let mut arguments = flags.to_vec();
        arguments.extend([
            "-Wl,-Bsymbolic",
            "-o",
            "program.so",
            &include,
            program.to_str().expect("ASCII"),
            "library.o",
            "-pthread",
        ]);
        run("g++", &arguments, &[], folder);
    }
    Some(Built { folder: temporary, has_cxx })
}

fn built() -> Option<&'static Built> {
    static BUILT: OnceLock<Option<Built>> = OnceLock::new();
    BUILT.get_or_init(build).as_ref()
}

/// Runs the tests of this name.
fn check(name: &str) {
    if let Some(built) = built() {
        let folder = built.folder.path();
        let tests = folder.join("tests");
        succeed(tests.to_str().expect("ASCII"), &[OsStr::new(name)], folder);
    }
}

#[test]
fn copies_are_those_of_the_c_library() {
    check("memory");
}

#[test]
fn strings_are_those_of_the_c_library() {
    check("strings");
}

#[test]
fn sorting_is_stable_and_searching_finds_the_same() {
    check("sort");
}

#[test]
fn the_heap_keeps_blocks_apart() {
    check("heap");
}

#[test]
fn locks_exclude() {
    check("locks");
}

#[test]
fn no_wakeup_is_lost() {
    check("conditions");
}

#[test]
fn threads_start_and_end() {
    check("threads");
}

#[test]
fn a_lock_by_futex_excludes() {
    check("futex");
}

#[test]
fn clocks_show_simulated_time() {
    check("time");
}

#[test]
fn files_are_read_and_written_through_copies() {
    check("files");
}

#[test]
fn programs_end_as_they_would() {
    check("exit");
}

#[test]
fn a_program_in_cxx_runs() {
    let Some(built) = built() else { return };
    if !built.has_cxx {
        eprintln!("skipped: g++ is missing");
        return;
    }
    let folder = built.folder.path();
    let tests = folder.join("tests");
    let arguments = ["run", "./program.so", "argument"].map(OsStr::new);
    let ended = output(tests.to_str().expect("ASCII"), &arguments, folder);
    assert_eq!(
        (ended.status.code(), String::from_utf8_lossy(&ended.stdout).as_ref()),
        (Some(7), "all is well\nend of statics\n"),
        "{}",
        String::from_utf8_lossy(&ended.stderr)
    );
}
