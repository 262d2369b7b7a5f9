//! What the two libraries export.

use crate::support::{compile, trial};
use seawall_clib::{Whose, exports, told};
use std::path::PathBuf;

#[test]
fn both_export_the_same_symbols_of_the_same_versions() {
    let test = "both_export_the_same_symbols_of_the_same_versions";
    let Some(program) = compile(test, "threads") else { return };
    let soname = trial().entry().soname;
    let mut command = program.command(Whose::System);
    let output = command.env("LD_TRACE_LOADED_OBJECTS", "1").output().unwrap();
    let text = told(&output);
    let line = text.lines().find(|line| line.contains(soname)).expect("it needs it");
    let path = line.split("=>").nth(1).and_then(|rest| rest.split_whitespace().next());
    let theirs = exports(&PathBuf::from(path.expect("it is found"))).unwrap();
    assert_eq!(exports(&trial().library()).unwrap(), theirs);
    assert_eq!(theirs.len(), 109);
}
