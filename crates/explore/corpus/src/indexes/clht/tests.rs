//! Tests of the table.

use super::recovery::live_table;
use super::*;
use crate::indexes::tests::holds_what_a_map_holds;
use crate::indexes::{Threads, value_of};
use crate::program::Entry;
use crate::run::{CaseReport, Effort, explore};
use seawall_memory::{Image, Model};

fn with_keys(keys: u64) -> Image {
    let memory = Image::new(Clht::USUAL.pool_bytes(), 0);
    Clht::USUAL.create(&memory);
    (1..=keys).for_each(|key| Clht::USUAL.insert(&memory, key, value_of(key), true));
    memory
}

fn holds_keys(memory: &Image, keys: u64) {
    let mut entries = Clht::USUAL.entries(memory).unwrap();
    entries.sort_unstable();
    assert!(entries.into_iter().eq((1..=keys).map(|key| (key, value_of(key)))));
    for key in 1..=keys {
        assert_eq!(Clht::USUAL.get(memory, key, true), Some(value_of(key)));
    }
}

fn table(memory: &Image) -> Table {
    live_table(memory).unwrap()
}

fn explored(fixed: bool, effort: &Effort) -> CaseReport {
    explore(&Entry(Threads(Clht::USUAL)), fixed, Model::Px86, effort)
}

#[test]
fn it_holds_what_a_map_holds() {
    holds_what_a_map_holds(Clht::USUAL, 120, 500);
    holds_what_a_map_holds(Clht::USUAL, 9, 100);
}

#[test]
fn it_grows_and_keeps_its_old_tables_until_recovery_frees_them() {
    let memory = with_keys(100);
    let version = memory.get(table(&memory).version());
    assert!(version >= 3, "{version} resizes");
    assert_eq!(memory.get(OLDEST), line(FIRST_LINE).bits());
    Clht::USUAL.recover(&memory).unwrap();
    holds_keys(&memory, 100);
    assert_eq!(memory.get(OLDEST), memory.get(ROOT));
    let unused = memory.get(UNUSED);
    let (mut lines, mut at) = (0, memory.get(FREED));
    while at != 0 {
        (lines, at) = (lines + 1, memory.get(next(Addr::from_bits(at))));
    }
    assert!(lines > 30, "{lines} lines are free");
    for _ in 0..lines {
        allocate(&memory, 1);
    }
    assert_eq!((memory.get(FREED), memory.get(UNUSED)), (0, unused));
}

#[test]
fn recovery_drops_a_resize_that_has_not_come_to_the_swap() {
    let memory = with_keys(40);
    Clht::USUAL.recover(&memory).unwrap();
    let (old, unused) = (table(&memory), memory.get(UNUSED));
    let new = begin_resize(&memory, old);
    assert!((0..3).all(|number| copy_chain(&memory, old, number, new)));
    memory.put(RESIZE_LOCK, LOCKED);
    Clht::USUAL.recover(&memory).unwrap();
    assert_eq!((table(&memory), memory.get(UNUSED)), (old, unused));
    holds_keys(&memory, 40);
    (41..=90).for_each(|key| Clht::USUAL.insert(&memory, key, value_of(key), true));
    holds_keys(&memory, 90);
}

#[test]
fn recovery_keeps_a_table_that_the_swap_has_shown() {
    let memory = with_keys(40);
    let old = table(&memory);
    let new = begin_resize(&memory, old);
    help(&memory, old);
    assert_eq!(memory.get(old.helper()), HELPED);
    memory.put(ROOT, new.0.bits() | UNFLUSHED);
    Clht::USUAL.recover(&memory).unwrap();
    assert_eq!((table(&memory), memory.get(ROOT)), (new, new.0.bits()));
    holds_keys(&memory, 40);
}

#[test]
fn a_damaged_table_is_an_error() {
    let memory = with_keys(40);
    let table = table(&memory);
    let bucket = table.bucket(&memory, 0);
    for (at, damage) in [
        (ROOT, 0),
        (ROOT, 8),
        (ROOT, 1 << 40),
        (table.mask(), 4),
        (table.mask(), u64::MAX),
        (table.mask(), (1 << 58) - 1),
        (table.buckets(), 64),
        (next(bucket), 8),
        (next(bucket), bucket.bits()),
        (UNUSED, table.0.bits() + 64),
    ] {
        let before = memory.get(at);
        memory.put(at, damage);
        assert!(Clht::USUAL.recover(&memory).is_err(), "{damage:#x} at {at}");
        memory.put(at, before);
    }
    holds_keys(&memory, 40);
}

#[test]
fn the_explorer_finds_the_bug_and_nothing_in_the_fixed_form() {
    let broken = explored(false, &Effort::default());
    assert!(broken.message.unwrap().contains("after a crash"));
    let fixed = explored(true, &Effort::default());
    assert_eq!(fixed.message, None);
}

#[test]
fn the_fixed_form_stands_a_crash_of_its_recovery() {
    let effort = Effort { depth: 1, schedules: 100, ..Effort::default() };
    assert_eq!(explored(true, &effort).message, None);
}
