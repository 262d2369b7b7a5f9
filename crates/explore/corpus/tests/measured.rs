//! The two correct programs to measure with: clean, and explored completely.

use seawall_corpus::{Case, CaseReport, Effort, Entry, FastFair, HashTable, explore};
use seawall_explore::{Kind, Model, Schedule};

fn clean(case: &dyn Case) -> CaseReport {
    let report = explore(case, true, Model::Px86, &Effort::default());
    assert_eq!(report.message, None, "{report:?}");
    report
}

#[test]
fn the_tree_is_clean_after_any_number_of_inserts() {
    for inserts in [1, 2, 5, 10, 20, 30] {
        let report = clean(&Entry(FastFair::new(inserts)));
        assert!(report.complete, "{report:?}");
    }
    for slots in [4, 8] {
        let report = clean(&Entry(FastFair { inserts: 60, slots }));
        assert!(report.complete, "{report:?}");
    }
}

#[test]
fn the_tree_has_more_states_with_more_inserts() {
    let states = [2, 10, 30].map(|inserts| clean(&Entry(FastFair::new(inserts))).states);
    assert!(states.is_sorted_by(|fewer, more| fewer < more), "{states:?}");
}

#[test]
fn the_hash_table_is_clean_after_a_hundred_inserts() {
    let report = clean(&Entry(HashTable::new(100)));
    assert!(report.complete, "{report:?}");
    // Slot, bit, done, for each insert; one less where two parts of the run meet.
    assert!((290..320).contains(&report.states), "{report:?}");
}

#[test]
fn an_insert_into_the_hash_table_is_three_stores_two_flushes_and_two_fences() {
    let run = Entry(HashTable::new(10)).record(true, &Schedule::default()).unwrap();
    let count = |is: fn(Kind) -> bool| run.events().iter().filter(|event| is(event.kind)).count();
    assert_eq!(count(|kind| matches!(kind, Kind::Store { .. })), 30);
    assert_eq!(count(|kind| matches!(kind, Kind::Flush { .. })), 20);
    assert_eq!(count(|kind| matches!(kind, Kind::Order | Kind::Drain)), 20);
}
