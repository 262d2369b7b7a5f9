//! The same program on both libraries: Debian's says what is right.

use crate::support::{command, compile, number_of, pool_in, pools, printed, run};
use seawall_clib::{TrialProgram, Whose, told};

/// Compares line by line, so that a failure names the line.
fn assert_same(theirs: &str, ours: &str, what: &str) {
    for (theirs, ours) in theirs.lines().zip(ours.lines()) {
        assert_eq!(ours, theirs, "ours is on the left; {what}");
    }
    assert_eq!(ours.lines().count(), theirs.lines().count(), "{what}");
}

#[test]
fn bad_input_has_the_same_results_and_error_numbers() {
    let Some(program) = compile("bad_input_has_the_same_results", "errors") else { return };
    let of = |whose| {
        let folder = pools();
        printed(&program, whose, &[folder.path().to_str().unwrap()])
    };
    let (theirs, ours) = (of(Whose::System), of(Whose::Ours));
    assert_same(&theirs, &ours, "errors");
    assert!(ours.lines().count() > 100, "{ours}");
}

#[test]
fn corners_of_the_contract_are_the_same() {
    let Some(program) = compile("corners_of_the_contract_are_the_same", "corners") else { return };
    let of = |whose| {
        let folder = pools();
        printed(&program, whose, &[folder.path().to_str().unwrap()])
    };
    assert_same(&of(Whose::System), &of(Whose::Ours), "corners");
}

#[test]
fn many_threads_leave_what_they_did() {
    let Some(program) = compile("many_threads_leave_what_they_did", "threads") else { return };
    for threads in ["1", "64", "200"] {
        let of = |whose| {
            let folder = pools();
            let pool = pool_in(&folder, "pool");
            printed(&program, whose, &[pool.to_str().unwrap(), threads, "100"])
        };
        assert_same(&of(Whose::System), &of(Whose::Ours), threads);
    }
}

/// A chunk of each size for each thread would take four times the pool.
#[test]
fn many_threads_share_the_chunks_of_a_small_pool() {
    let test = "many_threads_share_the_chunks_of_a_small_pool";
    let Some(program) = compile(test, "threads") else { return };
    let folder = pools();
    let pool = pool_in(&folder, "pool");
    printed(&program, Whose::Ours, &[pool.to_str().unwrap(), "200", "100", "16"]);
}

#[test]
fn in_a_full_pool_one_is_freed_for_each_new_one_and_all_by_one_transaction() {
    let test = "in_a_full_pool_one_is_freed_for_each_new_one_and_all_by_one_transaction";
    let Some(program) = compile(test, "full") else { return };
    let folder = pools();
    printed(&program, Whose::Ours, &[pool_in(&folder, "pool").to_str().unwrap()]);
}

#[test]
fn a_pool_of_two_lanes_serves_as_many_threads_and_one_of_none_is_refused() {
    let test = "a_pool_of_two_lanes_serves_as_many_threads_and_one_of_none_is_refused";
    let Some(program) = compile(test, "threads") else { return };
    let folder = pools();
    let run = |lanes: &str| {
        let mut run = command(&program, Whose::Ours);
        let pool = pool_in(&folder, lanes);
        let output = run.env("PMEMOBJ_NLANES", lanes).arg(&pool).args(["16", "50"]).output();
        (output.unwrap(), std::fs::metadata(pool).is_ok())
    };
    let (few, usual) = (run("2"), run("1024"));
    assert!(few.0.status.success() && few.0.stdout == usual.0.stdout, "{}", told(&few.0));
    for wrong in ["0", "two"] {
        let (output, is_there) = run(wrong);
        assert!(!output.status.success() && !is_there, "{}", told(&output));
        assert!(told(&output).contains("PMEMOBJ_NLANES"), "{}", told(&output));
    }
}

#[test]
fn as_many_threads_as_there_are_lanes_are_in_transactions() {
    let test = "as_many_threads_as_there_are_lanes_are_in_transactions";
    let Some(program) = compile(test, "lanes") else { return };
    for lanes in ["1", "2", "4", "9", "40"] {
        let of = |whose| {
            let folder = pools();
            let mut run = command(&program, whose);
            run.env("PMEMOBJ_NLANES", lanes).arg(pool_in(&folder, "pool")).arg(lanes);
            let output = run.output().unwrap();
            assert!(output.status.success(), "{lanes}: {}", told(&output));
            String::from_utf8(output.stdout).unwrap()
        };
        // The other library serves a call beside a transaction from the lane of that.
        assert_same(&of(Whose::System), &of(Whose::Ours), lanes);
    }
}

/// What a script leaves, and the steps that it has announced.
fn script(program: &TrialProgram, whose: Whose, seed: u64, kill: u64) -> (String, String) {
    let folder = pools();
    let pool = pool_in(&folder, "pool");
    let pool = pool.to_str().unwrap();
    let (seed, kill) = (seed.to_string(), kill.to_string());
    let output = run(program, whose, &["run", pool, &seed, "200", &kill]);
    assert!(output.status.success() || kill != "0", "{whose:?} {seed}: {}", told(&output));
    let steps = String::from_utf8(output.stdout).unwrap();
    (steps, printed(program, whose, &["dump", pool]))
}

/// `SEAWALL_SCRIPTS` runs more.
#[test]
fn a_random_script_leaves_the_same_also_when_it_kills_itself_half_way_through_a_step() {
    let Some(program) = compile("a_random_script_leaves_the_same", "script") else { return };
    for seed in 1..=number_of("SEAWALL_SCRIPTS", 30) {
        let kill = if seed % 3 == 0 { 0 } else { seed * 7 % 150 + 1 };
        let theirs = script(&program, Whose::System, seed, kill);
        let ours = script(&program, Whose::Ours, seed, kill);
        assert_same(&theirs.0, &ours.0, &format!("steps of seed {seed}, killed in {kill}"));
        assert_same(&theirs.1, &ours.1, &format!("pool of seed {seed}, killed in {kill}"));
    }
}

#[test]
fn each_library_refuses_the_pools_of_the_other_by_a_text() {
    let Some(program) = compile("each_library_refuses_the_others", "script") else { return };
    for (makes, opens) in [(Whose::System, Whose::Ours), (Whose::Ours, Whose::System)] {
        let folder = pools();
        let pool = pool_in(&folder, "pool");
        let pool = pool.to_str().unwrap();
        printed(&program, makes, &["run", pool, "1", "5"]);
        let before = std::fs::read(pool).unwrap();
        let output = command(&program, opens).args(["dump", pool]).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", told(&output));
        assert!(output.stderr.len() > 10, "{}", told(&output));
        assert!(std::fs::read(pool).unwrap() == before, "{opens:?} has changed it");
        printed(&program, makes, &["dump", pool]);
    }
}

#[test]
fn calls_on_a_pool_that_is_not_open_are_errors() {
    let Some(program) = compile("calls_on_a_pool_that_is_not_open", "closed") else { return };
    let folder = pools();
    let pool = pool_in(&folder, "pool");
    let text = printed(&program, Whose::Ours, &[pool.to_str().unwrap()]);
    let fails = |line: &&str| line.ends_with("errno 1");
    let works = ["user data", "direct", "works"];
    for line in text.lines() {
        let is_known = works.iter().any(|name| line.starts_with(name));
        assert!(is_known || fails(&line), "{text}");
    }
    assert_eq!(text.lines().filter(|line| *line == "transaction: stages 110, errno 1").count(), 2);
    assert!(text.contains("works: 0, 1"), "{text}");
}
