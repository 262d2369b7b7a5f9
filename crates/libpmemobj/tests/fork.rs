//! Forks: a child's calls on its parent's pool are errors, and the parent loses nothing.

use crate::support::{compile, pool_in, pools, printed};
use seawall_clib::Whose;

fn holds(test: &str, ways: &[&str]) {
    let Some(program) = compile(test, "fork") else { return };
    let folder = pools();
    let (pool, other) = (pool_in(&folder, "pool"), pool_in(&folder, "other"));
    for way in ways {
        let arguments = [way, pool.to_str().unwrap(), other.to_str().unwrap()];
        printed(&program, Whose::Ours, &arguments);
    }
}

#[test]
fn a_parent_that_is_killed_has_lost_nothing_however_its_child_ended() {
    holds("a_parent_that_is_killed", &["close", "exit", "exec", "return", "calls", "own", "again"]);
}

#[test]
fn a_pointer_of_a_child_into_its_parents_pool_leads_nowhere() {
    holds("a_pointer_of_a_child", &["pointers", "unseen"]);
}

#[test]
fn a_transaction_in_which_the_process_forks_is_the_parents() {
    let ways =
        ["tx-commit", "tx-abort", "tx-calls", "tx-nested", "tx-close", "tx-exit", "constructor"];
    holds("a_transaction_in_which", &ways);
}

#[test]
fn a_child_waits_for_no_thread_of_its_parent() {
    holds("a_child_waits_for_no_thread", &["threads"]);
}

#[test]
fn a_daemon_is_told_to_open_its_pool_later_and_can() {
    holds("a_daemon_is_told", &["daemon"]);
}
