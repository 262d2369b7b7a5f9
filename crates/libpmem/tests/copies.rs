//! Copies and fills: contents, with all lengths, at odd places, overlapping, on all paths.

use crate::support::Program;
use seawall_clib::Whose;

#[test]
fn copies_and_fills_leave_what_those_of_c_leave_on_every_path() {
    let test = "copies_and_fills_leave_what_those_of_c_leave_on_every_path";
    let Some(program) = Program::compile(test, "copies") else { return };
    let expected = program.run(Whose::System, &[], &[]);
    assert_eq!(expected.lines().last(), Some("wrong: 0"), "{expected}");
    let paths: &[&[(&str, &str)]] = &[
        &[],
        &[("PMEM_MOVNT_THRESHOLD", "0")],
        &[("PMEM_MOVNT_THRESHOLD", "65536")],
        &[("PMEM_NO_MOVNT", "1")],
        &[("PMEM_NO_FLUSH", "1")],
        &[("SEAWALL_FLUSH", "clflush")],
        &[("SEAWALL_DOMAIN", "none")],
    ];
    for path in paths {
        assert_eq!(program.run(Whose::Ours, &[], path), expected, "{path:?}");
    }
}

#[test]
fn by_page_copies_are_right_and_written() {
    let test = "by_page_copies_are_right_and_written";
    let Some(program) = Program::compile(test, "copies") else { return };
    let text = program.run(Whose::Ours, &["few"], &[("SEAWALL_DOMAIN", "page")]);
    assert_eq!(text.lines().last(), Some("wrong: 0"), "{text}");
}
