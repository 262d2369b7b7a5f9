//! Programs in Rust, and on the libraries of this repository: what `seawall cc` compiles from the
//! assembly of rustc.

use super::{Place, root, without_gcc};
use seawall_clib::{LibraryCode, LibraryEntry, assembly};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// A place whose programs run on that library of ours; it is built once, and then again when a
/// source of it has changed.
fn with_library(name: &str) -> Place {
    static BUILDS: Mutex<()> = Mutex::new(());
    let _one = BUILDS.lock().unwrap_or_else(PoisonError::into_inner);
    let entry = LibraryEntry::named(name).expect("the table has it");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("machines");
    let file = assembly(entry, &root(), &target).expect("cargo builds it");
    let seawall = Path::new(env!("CARGO_BIN_EXE_seawall"));
    let code = LibraryCode::Assembly { file: &file, seawall };
    let folder = target.join("lib");
    entry.link(&root(), code, &folder).expect("it links");
    Place { library: Some(folder), ..Place::new() }
}

/// Compiles a program, and links it with the library of the place.
fn compile(place: &Place, file: &str, name: &str, more: &[&str]) {
    let folder = place.library.as_ref().expect("it has a library");
    let (folder, library) = (format!("-L{}", folder.display()), format!("-l{name}"));
    place.compile_with(file, &[more, &["-g", &folder, &library]].concat());
}

/// True if the header of Debian's libpmemobj is missing, which is said once for each test.
fn without_libpmemobj(test: &str) -> bool {
    let probe = ["-E", "-include", "libpmemobj.h", "-x", "c", "/dev/null"];
    let probed = Command::new("gcc").args(probe).output();
    let is_there = probed.is_ok_and(|done| done.status.success());
    if !is_there {
        println!("{test}: skipped, because there is no libpmemobj.h (apt install libpmemobj-dev)");
    }
    !is_there
}

/// The stack, compiled; nothing, which is said, where something for it is missing.
fn stack(test: &str) -> Option<Place> {
    if without_gcc(test) || without_libpmemobj(test) {
        return None;
    }
    let place = with_library("pmemobj");
    compile(&place, "stack.c", "pmemobj", &["-Wall", "-Wno-clobbered"]);
    Some(place)
}

#[test]
fn a_program_on_our_libpmemobj_runs_natively_and_survives_crashes_under_designs() {
    let test = "a_program_on_our_libpmemobj_runs_natively_and_survives_crashes_under_designs";
    let Some(place) = stack(test) else { return };
    let library = place.library.clone().expect("it has one");
    let native = |words: &[&str]| {
        let mut command = Command::new("./stack");
        command.current_dir(place.folder.path()).env("LD_LIBRARY_PATH", &library).args(words);
        command.status().expect("it runs").code()
    };
    assert_eq!(native(&["run", "pool", "3", "20", "0"]), Some(0));
    assert_eq!(native(&["check", "pool"]), Some(0));
    for design in ["clwb", "lb", "lbpp", "hops", "bsp-lb", "bsp-lbpp"] {
        let table = place.crash(0, ("stack", 0), design, &["--crashes", "12"]);
        assert!(table.contains("none broke") && !table.contains("unseen"), "{table}");
    }
}

#[test]
fn flaws_of_programs_on_our_libpmemobj_are_found_by_crashes() {
    let Some(place) = stack("flaws_of_programs_on_our_libpmemobj_are_found_by_crashes") else {
        return;
    };
    for flaw in [1, 2, 4] {
        let found = place.crash(1, ("stack", flaw), "clwb", &["--crashes", "40"]);
        assert!(found.contains("BROKEN under clwb"), "{found}");
    }
}

#[test]
fn flaws_of_programs_on_our_libpmemobj_are_found_by_explorations_with_their_lines() {
    let test = "flaws_of_programs_on_our_libpmemobj_are_found_by_explorations_with_their_lines";
    let Some(place) = stack(test) else { return };
    let prepare = ["--models", "px86", "--prepare", "./stack create {pool}"];
    let sound = place.explore(0, ("stack", "1 2", 0), &prepare);
    assert!(!sound.contains("reads nothing from persistent memory"), "{sound}");
    let found = |flaw, texts: &[&str]| {
        let found = place.explore(1, ("stack", "1 2", flaw), &prepare);
        for text in texts {
            assert!(found.contains(text), "{text}: {found}");
        }
    };
    let store = |text| format!("stack.c:{}", super::line_of("stack.c", text));
    found(1, &["nodes are lost", &store("top->count++;")]);
    found(2, &["note 1 is lost", &store("top->note[i] = value;"), "not flushed by then"]);
    found(3, &["note 1 is lost", &store("top->noted = value;")]);
    found(4, &["node 0 is wrong"]);
}

#[test]
fn a_program_on_libseawall_is_crashed_and_explored() {
    if without_gcc("a_program_on_libseawall_is_crashed_and_explored") {
        return;
    }
    let place = with_library("seawall");
    let library = root().join("crates/libseawall");
    let header = format!("-I{}", library.join("include").display());
    let example: PathBuf = library.join("examples/phonebook.c");
    compile(&place, example.to_str().expect("a plain path"), "seawall", &[&header]);
    let check = ["--check", "./phonebook {pool} list"];
    let run =
        ["compare", "--program", "./phonebook {pool} fill 4 12", "--designs", "clwb,lbpp,hops"];
    let table = place.run(0, &[&run[..], &check, &["--crashes", "12"]].concat());
    assert!(table.contains("none broke"), "{table}");
    let run = ["explore", "--program", "./phonebook {pool} fill 1 2", "--seconds", "40"];
    let more = ["--prepare", "./phonebook {pool} list", "--models", "px86"];
    let sound = place.run(0, &[&run[..], &check, &more].concat());
    assert!(sound.contains("recovery handled every image"), "{sound}");
}

/// Threads of Rust's standard library, which add under a mutex of it: adds THREADS TIMES.
const ADDS: &str = r#"
use std::ffi::{CStr, c_char, c_int};
use std::sync::Mutex;

static SUM: Mutex<Vec<u64>> = Mutex::new(Vec::new());

#[unsafe(no_mangle)]
pub unsafe extern "C" fn main(count: c_int, words: *const *const c_char) -> c_int {
    // SAFETY: as for every main.
    let word = |n| unsafe { CStr::from_ptr(*words.add(n)) };
    let number = |n| word(n).to_str().ok()?.parse::<u64>().ok();
    let (Some(threads), Some(times)) = (number(1), number(2)) else { return count };
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for n in 0..times {
                    SUM.lock().unwrap().push(thread * n);
                }
            });
        }
    });
    println!("{}", SUM.lock().unwrap().iter().sum::<u64>());
    0
}
"#;

#[test]
fn a_program_in_rust_runs_with_its_standard_library() {
    if without_gcc("a_program_in_rust_runs_with_its_standard_library") {
        return;
    }
    let place = Place::new();
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    fs::write(place.folder.path().join("adds.rs"), ADDS).expect("a source");
    rustc.current_dir(place.folder.path()).arg("adds.rs");
    rustc.args(["--edition", "2024", "-O", "-g", "--crate-type", "staticlib"]);
    rustc.args(["-C", "codegen-units=1", "-C", "lto=fat", "-C", "dwarf-version=4"]);
    let status = rustc.args(["--emit", "asm=adds.s,link"]).status().expect("rustc runs");
    assert!(status.success());
    place.run(0, &["cc", "-Wa,-gdwarf-5", "adds.s", "-lgcc_s", "-o", "adds"]);
    let run = ["--program", "./adds 4 50", "--designs"];
    let table = place.run(0, &[&["compare"], &run[..], &["clwb,lbpp"]].concat());
    assert!(table.contains("5 cores") && !table.contains("WARNING"), "{table}");
    let crashes = ["bsp-lbpp", "--crashes", "5"];
    let cuts = place.run(0, &[&["kernels"], &run[..], &crashes].concat());
    assert!(cuts.contains("5 crashes, held to the recorded run: none broke"), "{cuts}");
}

#[test]
fn a_store_that_our_libpmem_makes_is_of_the_line_that_calls_it() {
    let test = "a_store_that_our_libpmem_makes_is_of_the_line_that_calls_it";
    if without_gcc(test) || without_libpmemobj(test) {
        return;
    }
    let place = with_library("pmem");
    compile(&place, "note.c", "pmem", &[]);
    let words = ["explore", "--models", "px86", "--program", "./note run {pool}"];
    let found = place.run(1, &[&words[..], &["--check", "./note check {pool}"]].concat());
    let lost = format!("note.c:{}; ", super::line_of("note.c", "/* copies */"));
    assert!(found.contains(&lost) && !found.contains(".rs:"), "{found}");
}
