//! Messages of errors: one for each thread, and errno with each.

use crate::support::Program;
use seawall_clib::Whose;

#[test]
fn each_thread_has_its_own_message_and_keeps_it() {
    let test = "each_thread_has_its_own_message_and_keeps_it";
    let Some(program) = Program::compile(test, "messages") else { return };
    program.run_both(&[], &[]);
    let text = program.run(Whose::Ours, &["show"], &[]);
    assert!(text.contains("cannot open /none/\u{e4}: No such file or directory"), "{text}");
}
