//! System calls on the file of a new pool. Of processes that make one in the same file at the same
//! moment, one has it, and works in it.

use crate::support::{pool_in, pools, trial};
use seawall_clib::{TrialProgram, Whose, told};
use std::fs::{self, File};
use std::path::Path;

/// A program whose system calls are its own, which lets another process come in before them.
fn program(test: &str) -> Option<TrialProgram> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/race.c");
    trial().compile(test, &source, &["-rdynamic"])
}

/// The second process comes at `moment`, while the first makes a pool of `bytes` bytes in the
/// folder, or in a file of zeros that is there; exactly one of them must have it.
/// (Before a call that the first one does not make, nobody comes in.)
fn one_has_it(program: &TrialProgram, moment: &str, bytes: &str, folder: &Path) {
    let pool = folder.join("pool");
    let _ = fs::remove_file(&pool);
    if bytes == "0" {
        File::create(&pool).unwrap().set_len(16 << 20).unwrap();
    }
    let mut command = program.command(Whose::Ours);
    let output = command.args([moment, bytes]).arg(&pool).output().unwrap();
    let text = told(&output);
    let first = text.contains("first: pool");
    let second = text.contains("second: pool");
    assert!(first != second, "{moment} {bytes}: {text}");
    let is_alone = !text.contains("second");
    assert!(is_alone || text.contains("second ends: status 0"), "{moment} {bytes}: {text}");
    assert!(text.contains("check: 1"), "{moment} {bytes}: {text}");
}

#[test]
fn of_two_processes_that_make_a_pool_in_one_file_exactly_one_has_it() {
    let Some(program) = program("of_two_processes_that_make_a_pool") else { return };
    let (memory, disk) = (pools(), tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    for folder in [memory.path(), disk.path()] {
        one_has_it(&program, "lock", "0", folder);
        one_has_it(&program, "truncate", "0", folder);
        one_has_it(&program, "lock", "16777216", folder);
        one_has_it(&program, "unlock", "16777216", folder);
    }
}

#[test]
fn the_name_of_a_new_pool_is_on_the_disk_when_it_is_made() {
    let Some(program) = program("the_name_of_a_new_pool_is_on_the_disk") else { return };
    let folder = pools();
    let mut command = program.command(Whose::Ours);
    let output = command.args(["never", "16777216"]).arg(pool_in(&folder, "pool")).output();
    let text = told(&output.unwrap());
    assert!(text.contains("first: pool, folders written to the disk: 1"), "{text}");
}
