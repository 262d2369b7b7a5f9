//! The two correct programs to measure with: clean, and explored completely.

use seawall_corpus::{Case, Effort, Entry, FastFair, HashTable, Report, explore};
use seawall_explore::Model;

fn clean(case: &dyn Case) -> Report {
    let report = explore(case, true, Model::Px86, &Effort::default());
    assert_eq!(report.message, None, "{report:?}");
    report
}

#[test]
fn the_tree_is_clean_after_any_number_of_inserts() {
    for inserts in [1, 2, 5, 10, 20, 30] {
        clean(&Entry(FastFair::new(inserts)));
    }
    for slots in [4, 8] {
        let report = clean(&Entry(FastFair { inserts: 60, slots }));
        assert!(report.complete, "{report:?}");
    }
}

#[test]
fn the_tree_has_more_images_with_more_inserts() {
    let images = [2, 10, 30].map(|inserts| clean(&Entry(FastFair::new(inserts))).images);
    assert!(images.is_sorted_by(|fewer, more| fewer < more), "{images:?}");
}

#[test]
fn the_hash_table_is_clean_after_a_hundred_inserts() {
    let report = clean(&Entry(HashTable::new(100)));
    assert!(report.complete, "{report:?}");
    assert!(report.images >= 400, "key, both words, bit, done, for each insert: {report:?}");
}
