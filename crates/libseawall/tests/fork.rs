//! Forks: a child's calls on its parent's pool are errors, and the parent loses nothing.

use crate::support::{Linked, compile, pool_in, pools};

fn holds(test: &str, ways: &[&str]) {
    let Some(program) = compile(test, "tests/c/fork.c", Linked::Shared) else { return };
    let folder = pools();
    let pool = pool_in(&folder);
    let other = format!("{pool}2");
    for way in ways {
        program.printed(&[way, &pool, &other]);
    }
}

#[test]
fn a_parent_that_is_killed_has_lost_nothing_however_its_child_ended() {
    let ways = ["close", "exit", "exec", "return", "calls", "own", "again", "unseen", "pointer"];
    holds("a_parent_that_is_killed", &ways);
}

#[test]
fn a_transaction_in_which_the_process_forks_is_the_parents() {
    holds("a_transaction_in_which", &["tx-redo", "tx-undo", "tx-close", "tx-exit"]);
}

#[test]
fn a_child_waits_for_no_thread_of_its_parent() {
    holds("a_child_waits_for_no_thread", &["threads"]);
}

#[test]
fn a_daemon_is_told_to_open_its_pool_later_and_can() {
    holds("a_daemon_is_told", &["daemon"]);
}
