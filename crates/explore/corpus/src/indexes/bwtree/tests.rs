//! The tree holds what a map holds, its records are well-formed, and its bug is found.

use super::*;
use crate::indexes::tests::holds_what_a_map_holds;
use crate::indexes::{Threads, value_of};
use crate::program::Entry;
use crate::run::{CaseReport, Effort, explore};
use seawall_explore::Model;
use seawall_memory::Image;

fn explored(fixed: bool, model: Model, effort: Effort) -> CaseReport {
    explore(&Entry(Threads(BwTree)), fixed, model, &effort)
}

#[test]
fn the_tree_holds_what_a_map_holds() {
    holds_what_a_map_holds(BwTree, 90, 700);
}

/// Adds keys in an order that goes to all places.
fn tree_of(keys: u64) -> Image {
    let memory = Image::new(POOL_BYTES, 0);
    BwTree.create(&memory);
    for number in 0..keys {
        let key = 1 + number * 379 % 1009;
        BwTree.insert(&memory, key, value_of(key), true);
    }
    memory
}

#[test]
fn pages_of_all_levels_split_and_the_root_grows() {
    let levels = levels(&tree_of(300)).unwrap();
    assert!(levels.len() >= 4, "{}", levels.len());
    assert!(all_are_known(&levels));
    assert!(levels[levels.len() - 1].len() > 40);
}

#[test]
fn recovery_completes_a_split_that_the_parent_does_not_know() {
    let memory = tree_of(60);
    let before = BwTree.entries(&memory).unwrap();
    let half_done = [leaf_for(&memory, 500, true), visit(&memory, memory.get(ROOT))];
    for page in half_done {
        split(&memory, &page);
    }
    assert!(!all_are_known(&levels(&memory).unwrap()));
    assert_eq!(BwTree.entries(&memory).unwrap(), before);
    assert!(before.iter().all(|(key, value)| BwTree.get(&memory, *key, true) == Some(*value)));
    BwTree.recover(&memory).unwrap();
    assert!(all_are_known(&levels(&memory).unwrap()));
    assert_eq!(BwTree.entries(&memory).unwrap(), before);
}

#[test]
fn an_index_term_without_its_split_is_no_sound_tree() {
    let memory = tree_of(60);
    let leaf = leaf_for(&memory, 500, true);
    split(&memory, &leaf);
    leaf_for(&memory, 500, true);
    memory.put(entry(leaf.id), leaf.record.bits());
    let message = BwTree.recover(&memory).unwrap_err();
    assert_eq!(message, "a parent knows a split that its child does not");
}

#[test]
fn the_explorer_finds_the_index_term_of_a_lost_split() {
    for depth in [0, 1] {
        let report = explored(false, Model::Px86, Effort { depth, ..Effort::default() });
        let message = report.message.unwrap();
        assert_eq!(message, "a parent knows a split that its child does not");
    }
}

#[test]
fn the_explorer_finds_nothing_in_the_fixed_tree() {
    let report = explored(true, Model::Px86, Effort::default());
    assert_eq!(report.message, None);
}

#[test]
fn all_that_one_interruption_and_a_crash_of_recovery_can_show_is_right_in_the_fixed_tree() {
    let effort = Effort { preemptions: 1, depth: 1, ..Effort::default() };
    let report = explored(true, Model::Px86, effort);
    assert_eq!(report.message, None);
    assert!(report.complete, "{report:?}");
}

#[test]
fn the_fixed_tree_is_right_under_every_model() {
    for model in Model::all() {
        let effort = Effort { schedules: 150, ..Effort::default() };
        assert_eq!(explored(true, model, effort).message, None, "{model}");
    }
}
