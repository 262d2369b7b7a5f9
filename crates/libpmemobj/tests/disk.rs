//! Pools on an ordinary disk, where only `msync` makes anything durable.

use crate::support::{compile, pool_in};
use seawall_clib::{Whose, told};
use std::path::Path;

/// Kilobytes of logs and headers that may be dirty behind a call.
const REST: u64 = 64;

#[test]
fn what_is_persisted_on_a_disk_is_written_however_it_was_stored() {
    let test = "what_is_persisted_on_a_disk_is_written";
    let Some(program) = compile(test, "disk") else { return };
    let folder = tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    let pool = pool_in(&folder, "pool");
    // Without PMEM_IS_PMEM_FORCE: the library finds out where the pool is.
    let output = program.command(Whose::Ours).arg(&pool).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<(&str, u64)> = text
        .lines()
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, number)| (name, number.parse().unwrap()))
        .collect();
    let [(first, plain), ways @ ..] = &lines[..] else { panic!("{text}") };
    assert_eq!(*first, "plain");
    if *plain < 256 {
        println!("{test}: skipped, because this file system does not say what is dirty");
        return;
    }
    assert_eq!(ways.len(), 6, "{text}");
    for (name, kilobytes) in ways {
        assert!(*kilobytes <= REST, "{name}: {kilobytes} KB are not written; {text}");
    }
}
