//! The tree holds what a map holds, look-ups miss nothing, and its bug is found.

use super::*;
use crate::indexes::tests::holds_what_a_map_holds;
use crate::indexes::{Threads, value_of};
use crate::kit::ensure;
use crate::program::{Entry, Found, Program};
use crate::run::{CaseReport, Effort, explore};
use seawall_explore::Model;

fn explored(fixed: bool, effort: &Effort) -> CaseReport {
    let report = explore(&Entry(Threads(FastFairThreads::new())), fixed, Model::Px86, effort);
    println!("fixed {fixed}, {effort:?}: {report:?}");
    report
}

#[test]
fn one_thread_finds_in_it_what_a_map_holds() {
    for (slots, nodes, keys) in [(4, 400, 120), (8, 200, 150), (28, 40, 251)] {
        let index = FastFairThreads { slots, nodes, ..FastFairThreads::new() };
        holds_what_a_map_holds(index, keys, 500);
    }
}

#[test]
fn an_insert_behind_a_link_that_is_not_durable_is_found_lost() {
    let report = explored(false, &Effort::default());
    let message = report.message.expect("the bug is found");
    assert!(message.contains("is lost after a crash"), "{message}");
}

#[test]
fn a_writer_that_makes_the_link_durable_first_loses_nothing() {
    for depth in [0, 1] {
        let report = explored(true, &Effort { depth, ..Effort::default() });
        assert_eq!(report.message, None);
    }
}

#[test]
fn with_one_interruption_every_run_of_the_fixed_tree_is_explored() {
    let report = explored(true, &Effort { preemptions: 1, random: 0, ..Effort::default() });
    assert_eq!((report.message.as_deref(), report.complete), (None, true));
}

/// One thread inserts and removes; the other looks up keys that stay.
#[derive(Clone, Copy, Debug)]
struct Lookups {
    index: FastFairThreads,
    before: &'static [u64],
    /// What the first thread does: removes the key if it is there, inserts it if not.
    changes: &'static [u64],
    lookups: &'static [u64],
}

impl Program for Lookups {
    fn about(&self) -> About {
        self.index.about()
    }

    fn pool_bytes(&self) -> u64 {
        self.index.pool_bytes()
    }

    fn dram_bytes(&self) -> u64 {
        self.index.dram_bytes()
    }

    fn setup<M: Memory>(&self, memory: &M) {
        self.index.create(memory);
        self.before.iter().for_each(|&key| self.index.insert(memory, key, value_of(key), true));
    }

    fn run<M: Memory>(&self, memory: &M, fixed: bool) {
        if memory.thread() == 0 {
            for &key in self.changes {
                if !self.index.remove(memory, key, fixed) {
                    self.index.insert(memory, key, value_of(key), fixed);
                }
            }
        } else {
            for &key in self.lookups {
                let found = self.index.get(memory, key, fixed);
                assert_eq!(found, Some(value_of(key)), "key {key} is missed");
            }
        }
    }

    fn recover<M: Memory>(&self, memory: &M, _: bool) -> Result<Found, String> {
        self.index.recover(memory)?;
        let entries = self.index.entries(memory)?;
        let is_kept = |key: &&u64| entries.contains(&(**key, value_of(**key)));
        ensure(self.lookups.iter().all(|key| is_kept(&key)), "a key that stays is lost")?;
        Ok(Vec::new())
    }

    fn judge(&self, _: &[u64], _: &[u64]) -> Result<(), String> {
        Ok(())
    }
}

/// With nodes of so many slots, what the lookups find and what a crash leaves is right.
fn nothing_is_missed(
    slots: u64,
    before: &'static [u64],
    changes: &'static [u64],
    lookups: &'static [u64],
) {
    let index = FastFairThreads { slots, nodes: 20, ..FastFairThreads::new() };
    let program = Lookups { index, before, changes, lookups };
    let report = explore(&Entry(program), true, Model::Px86, &Effort::default());
    println!("{report:?}");
    assert_eq!(report.message, None, "{program:?}");
}

#[test]
fn a_lookup_misses_no_key_while_records_of_its_leaf_shift() {
    nothing_is_missed(8, &[20, 30], &[10], &[30]);
    nothing_is_missed(8, &[20, 30, 40], &[20], &[40]);
    nothing_is_missed(8, &[20, 30, 40, 50], &[20, 10, 30, 35], &[40, 50, 40]);
}

#[test]
fn a_lookup_misses_no_key_while_nodes_above_it_shift_and_split() {
    nothing_is_missed(4, &[10, 20, 30, 40, 50, 11, 12], &[13], &[20]);
    nothing_is_missed(4, &[10, 20, 30, 40, 50, 60, 70, 80], &[85, 45, 15, 46, 47], &[70, 40, 80]);
    nothing_is_missed(4, &[10, 20, 30], &[40, 15], &[30, 20]);
}
