//! Under Valgrind, which has no `clwb`, no vDSO, and knows what memory may be touched.

use crate::support::{Program, ours};
use seawall_clib::{Whose, told};
use std::process::Command;

#[test]
fn valgrind_finds_nothing_in_our_calls() {
    let test = "valgrind_finds_nothing_in_our_calls";
    if let Err(error) = Command::new("valgrind").arg("--version").output() {
        println!("{test}: skipped, because valgrind cannot run: {error}");
        return;
    }
    let programs = [("version", None), ("messages", None), ("copies", Some("few"))];
    for (name, argument) in programs {
        let Some(program) = Program::compile(test, name) else { return };
        let mut command = Command::new("valgrind");
        command.args(["-q", "--error-exitcode=9"]).arg(program.path()).args(argument);
        command.env("LD_LIBRARY_PATH", ours()).current_dir(env!("CARGO_TARGET_TMPDIR"));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{name}: {}", told(&output));
        let plain = program.run(Whose::Ours, argument.as_slice(), &[]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), plain, "{name}");
    }
}
