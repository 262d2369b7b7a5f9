//! The two correct programs to measure with: clean, and explored completely.

use seawall_corpus::{Case, Effort, Entry, FastFair, HashTable, explore};
use seawall_explore::Model;

fn clean(case: &dyn Case, nested: bool) -> u64 {
    let effort = Effort { nested, ..Effort::default() };
    let report = explore(case, true, Model::Px86, &effort);
    assert_eq!(report.message, None, "{report:?}");
    assert!(report.complete, "{report:?}");
    println!("{} images in {:?}", report.images, report.time);
    report.images
}

#[test]
fn the_tree_is_clean_after_any_number_of_inserts() {
    for inserts in [1, 2, 5, 10, 20, 30] {
        clean(&Entry(FastFair::new(inserts)), false);
    }
    for slots in [4, 8, 12] {
        clean(&Entry(FastFair { inserts: 30, slots }), false);
    }
}

#[test]
fn the_tree_has_more_images_with_more_inserts() {
    let images = [2, 10, 30].map(|inserts| clean(&Entry(FastFair::new(inserts)), false));
    assert!(images.is_sorted_by(|fewer, more| fewer < more), "{images:?}");
}

#[test]
fn the_hash_table_is_clean_after_a_hundred_inserts() {
    let images = clean(&Entry(HashTable::new(100)), false);
    assert!(images >= 400, "{images}: slot, both, bit, done, for each insert");
}
