//! `pmem_map_file` and `pmem_unmap`, call by call, on disks and in memory.

use crate::support::{Program, places};
use seawall_clib::Whose;

#[test]
fn every_way_to_map_a_file_answers_as_debians_does() {
    let test = "every_way_to_map_a_file_answers_as_debians_does";
    let Some(program) = Program::compile(test, "files") else { return };
    for place in places() {
        let text = [Whose::System, Whose::Ours].map(|whose| {
            let folder = Program::folder_in(&place);
            program.run(whose, &[folder.path().to_str().unwrap()], &[])
        });
        for (debians, ours) in text[0].lines().zip(text[1].lines()) {
            assert_eq!(ours, debians, "ours is on the left; in {}", place.display());
        }
        assert!(text[1].lines().count() > 60, "{}", text[1]);
        assert_eq!(text[1].lines().count(), text[0].lines().count());
    }
}

#[test]
fn ranges_count_as_persistent_memory_as_the_variable_says() {
    let test = "ranges_count_as_persistent_memory_as_the_variable_says";
    let Some(program) = Program::compile(test, "ranges") else { return };
    for force in ["", "0", "1", "2", "yes"] {
        let set = [("PMEM_IS_PMEM_FORCE", force)];
        let text = program.run_both(&[], &set);
        assert_eq!(text.contains("whole 1"), force == "1", "{force}: {text}");
    }
    program.run_both(&[], &[]);
}

#[test]
fn a_file_is_mapped_where_the_hint_says() {
    let test = "a_file_is_mapped_where_the_hint_says";
    let Some(program) = Program::compile(test, "ranges") else { return };
    let text = program.run_both(&["hint"], &[("PMEM_MMAP_HINT", "0x10000000000")]);
    assert_eq!(text, "0x10000000000\n");
}

#[test]
fn a_domain_that_does_not_exist_is_an_error_that_names_it() {
    let test = "a_domain_that_does_not_exist_is_an_error_that_names_it";
    let Some(program) = Program::compile(test, "ranges") else { return };
    let mut command = program.command(Whose::Ours);
    let output = command.env("SEAWALL_DOMAIN", "disk").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    for line in [said.lines().next(), said.lines().last()] {
        assert!(line.is_some_and(|line| line.contains("SEAWALL_DOMAIN: no durability domain")));
    }
    assert_eq!(said.lines().count(), 2, "it is said once, and by the program: {said}");
}

#[test]
fn by_page_a_persist_is_an_msync_and_one_that_fails_ends_the_program() {
    let test = "by_page_a_persist_is_an_msync_and_one_that_fails_ends_the_program";
    let Some(program) = Program::compile(test, "ranges") else { return };
    let by_page = [("SEAWALL_DOMAIN", "page")];
    program.run(Whose::Ours, &[], &by_page);
    let mut command = program.command(Whose::Ours);
    let output = command.arg("lost").envs(by_page).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("cannot write to the disk"), "{said}");
}
