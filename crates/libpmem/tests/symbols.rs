//! What the two libraries export, and that the loader takes ours.

use crate::support::{Program, entry, ours};
use seawall_clib::{Whose, exports, symbols, told};
use std::path::{Path, PathBuf};

#[test]
fn both_export_the_same_symbols_of_the_same_versions() {
    let test = "both_export_the_same_symbols_of_the_same_versions";
    let Some(program) = Program::compile(test, "version") else { return };
    let ours = exports(&ours().join(entry().soname)).unwrap();
    let debians = exports(&loaded(&program, Whose::System)).unwrap();
    assert_eq!(ours, debians);
    assert_eq!(ours.len(), 23);
    let listed: Vec<&str> = symbols(include_str!("../symbols.txt")).collect();
    assert_eq!(ours.iter().map(|symbol| symbol.name.as_str()).collect::<Vec<_>>(), listed);
}

#[test]
fn a_program_is_started_with_our_library_by_the_path_alone() {
    let test = "a_program_is_started_with_our_library_by_the_path_alone";
    let Some(program) = Program::compile(test, "version") else { return };
    assert!(loaded(&program, Whose::Ours).starts_with(ours()));
    assert!(!loaded(&program, Whose::System).starts_with(ours()));
    program.run_both(&[], &[]);
}

/// The library that the loader takes.
fn loaded(program: &Program, whose: Whose) -> PathBuf {
    let output = program.command(whose).env("LD_TRACE_LOADED_OBJECTS", "1").output().unwrap();
    let text = told(&output);
    let line = text.lines().find(|line| line.contains(entry().soname)).expect("it needs it");
    let path = line.split("=>").nth(1).and_then(|rest| rest.split_whitespace().next());
    Path::new(path.expect("it is found")).to_path_buf()
}
