//! Files of a run, wherever they are: a check gets all of them as a crash has left them, and the
//! user's stay as they are.

use super::{Place, line_of, without_gcc};
use std::fs;

/// What a user has where the program has its pool.
const OWN: &[u8] = b"\0\0\0\0\0\0\0\0the user's own";

fn words(command: &str, program: &str) -> Vec<String> {
    let check = program.replace(" run", " check");
    let more: &[&str] = match command {
        "explore" => &["--models", "px86"],
        _ => &["--designs", "clwb", "--crashes", "20"],
    };
    let words = [&[command, "--program", program, "--check", &check], more].concat();
    words.into_iter().map(String::from).collect()
}

/// Runs a command on a program; what it says must be right.
fn try_one(place: &Place, command: &str, program: &str) {
    let is_right = program.contains(" right ");
    let code = if is_right { 0 } else { 1 };
    let words = words(command, program);
    let said = place.run(code, &words.iter().map(String::as_str).collect::<Vec<_>>());
    let expected = match (command, is_right) {
        ("explore", true) => "complete: every image",
        ("explore", false) => "FAILS under px86: the check returned 1: data 0, mark 1",
        (_, true) => "none broke",
        (_, false) => "BROKEN under clwb",
    };
    assert!(said.contains(expected), "{command} {program}: {said}");
}

#[test]
fn a_check_gets_all_files_that_a_run_has_made_under_their_own_names() {
    if without_gcc("a_check_gets_all_files_that_a_run_has_made_under_their_own_names") {
        return;
    }
    let place = Place::new();
    place.compile("elsewhere.c");
    for where_it_is in ["path", "beside", "named", "linked", "folder", "renamed", "again", "stream"]
    {
        for right in ["right", "wrong"] {
            for command in ["explore", "compare"] {
                let program = format!("./elsewhere {where_it_is} {right} {{pool}} run");
                try_one(&place, command, &program);
            }
        }
    }
}

#[test]
fn files_at_fixed_paths_are_the_runs_own_and_the_users_stay_as_they_are() {
    if without_gcc("files_at_fixed_paths_are_the_runs_own_and_the_users_stay_as_they_are") {
        return;
    }
    let place = Place::new();
    place.compile("elsewhere.c");
    let folder = place.folder.path();
    let absolute = folder.join("absolute").display().to_string();
    fs::create_dir(folder.join("sub")).unwrap();
    let is_there = || {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.extend(fs::read_dir(folder.join("sub")).unwrap().map(|it| it.unwrap().file_name()));
        names.sort();
        names
    };
    let before = is_there();
    for (where_it_is, path) in [
        ("path", "relative"),
        ("path", &*absolute),
        ("path", "sub/../sub/pool"),
        ("beside", "sub/pool"),
        ("renamed", "relative"),
        ("again", "relative"),
        ("stream", "relative"),
        ("folder", "new"),
        ("shared", "-"),
    ] {
        for right in ["right", "wrong"] {
            for command in ["explore", "compare"] {
                let program = format!("./elsewhere {where_it_is} {right} {path} run");
                try_one(&place, command, &program);
                assert_eq!(is_there(), before, "{command} {program}");
            }
        }
    }
    // A user's file is where the run begins, and stays.
    for name in ["relative", "absolute"] {
        fs::write(folder.join(name), OWN).unwrap();
    }
    for (where_it_is, path) in
        [("path", "relative"), ("path", &*absolute), ("again", "relative"), ("renamed", "relative")]
    {
        for command in ["explore", "compare"] {
            try_one(&place, command, &format!("./elsewhere {where_it_is} wrong {path} run"));
            assert_eq!(fs::read(folder.join("relative")).unwrap(), OWN, "{command} {where_it_is}");
            assert_eq!(fs::read(&absolute).unwrap(), OWN, "{command} {where_it_is}");
        }
    }
}

#[test]
fn a_path_of_the_environment_is_fixed_too() {
    if without_gcc("a_path_of_the_environment_is_fixed_too") {
        return;
    }
    let place = Place::new();
    place.compile("elsewhere.c");
    let pool = place.folder.path().join("pool");
    for command in ["explore", "compare"] {
        let words = words(command, "./elsewhere path wrong variable run");
        let output = place.seawall().args(words).env("FILES_POOL", &pool).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{command}: {said}");
        assert!(!pool.exists());
    }
}

#[test]
fn a_run_begins_with_the_files_that_were_prepared_wherever_they_are() {
    if without_gcc("a_run_begins_with_the_files_that_were_prepared_wherever_they_are") {
        return;
    }
    let place = Place::new();
    place.compile("elsewhere.c");
    let program = "./elsewhere path right fixed run";
    let words = words("explore", program);
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    words.extend(["--expect-exit", "6", "--prepare", program]);
    // It finds the mark of the run before.
    let said = place.run(2, &words);
    assert!(said.contains("stores nothing to persistent memory"), "{said}");
    assert!(!place.folder.path().join("fixed").exists());
}

#[test]
fn a_file_that_nothing_finds_after_a_crash_is_refused_by_name() {
    if without_gcc("a_file_that_nothing_finds_after_a_crash_is_refused_by_name") {
        return;
    }
    let place = Place::new();
    place.compile_with("elsewhere.c", &["-g"]);
    let line = line_of("elsewhere.c", "void *at = mmap");
    for (where_it_is, path, name) in [
        ("nameless", "-", "/memfd:nameless (deleted)"),
        ("temporary", ".", ""),
        ("unlinked", "{pool}", "pool (deleted)"),
    ] {
        for command in ["explore", "compare"] {
            let words = words(command, &format!("./elsewhere {where_it_is} right {path} run"));
            let said = place.run(2, &words.iter().map(String::as_str).collect::<Vec<_>>());
            let what = format!("maps the file {name}");
            assert!(said.contains(&what) && said.contains("which has no name"), "{said}");
            assert!(said.contains(&format!("elsewhere.c:{line}")), "{said}");
        }
    }
}
