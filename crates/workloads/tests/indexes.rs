//! Crashes of the indexes of Ribbon's evaluation, during growth, splits and merges, and of the
//! mixes of YCSB on every workload that runs them.

use crate::applications::Wild;
use crate::crash::Crash;
use crate::media::Model;
use seawall_workloads::{Accepts, Flaw, MIXES, WORKLOADS, with_workload};

/// Each with its models: FAST & FAIR needs the stores of a line in order.
const INDEXES: [(&str, &[Model]); 2] = [
    ("level", &[Model::Epochs, Model::Px86, Model::Bep]),
    ("fastfair", &[Model::Px86, Model::BepLines]),
];

fn crash(name: &str, run: Crash) -> Result<(), String> {
    with_workload(name, run).expect("a workload of the table")
}

fn each() -> impl Iterator<Item = (&'static str, Model)> {
    INDEXES.into_iter().flat_map(|(name, models)| models.iter().map(move |model| (name, *model)))
}

#[test]
fn every_crash_of_an_index_leaves_a_prefix_of_the_run() {
    for (name, model) in each() {
        for (seed, threads) in [(1, 1), (2, 1), (3, 3), (4, 3)] {
            // Twice the keys of twelve slots: Level hashing grows, a leaf of seven splits.
            for (entries, operations) in [(4, 40), (9, 60)] {
                let operations = Some(operations);
                let run = Crash { model, seed, threads, entries, operations, ..Crash::default() };
                if threads == 1 || model != Model::Epochs {
                    let found = crash(name, run);
                    assert_eq!(found, Ok(()), "{name} under {model:?} with seed {seed}");
                }
            }
        }
    }
}

#[test]
fn a_token_or_a_shift_that_what_it_shows_does_not_precede_is_caught() {
    for (name, model) in each() {
        let run = Crash { model, flaw: Flaw::NoOrder, operations: Some(40), ..Crash::default() };
        let found = crash(name, run);
        assert!(found.is_err(), "{name} without the order passes under {model:?}");
    }
}

#[test]
fn a_slot_or_a_line_of_a_node_that_is_not_flushed_is_caught_where_flushes_matter() {
    for (name, models) in INDEXES {
        let with = |model| {
            let operations = Some(40);
            crash(name, Crash { model, flaw: Flaw::NoFlush, operations, ..Crash::default() })
        };
        assert!(with(Model::Px86).is_err(), "{name} without the flush passes under Px86");
        let other = models.iter().find(|model| **model != Model::Px86).expect("another");
        assert_eq!(with(*other), Ok(()), "{name}");
    }
}

#[test]
fn every_crash_of_a_mix_leaves_a_prefix_of_its_requests() {
    for mix in MIXES.iter().filter(|mix| mix.updates + mix.inserts + mix.read_modify_writes > 5) {
        for entry in WORKLOADS.iter().filter(|entry| entry.accepts != Accepts::Own) {
            if entry.in_heap {
                continue; // What a heap's transactions do is the same in every mix.
            }
            for threads in [1, 2] {
                let (operations, mix) = (Some(16), Some(*mix));
                let model = Model::Px86;
                let run = Crash { model, threads, operations, mix, ..Crash::default() };
                assert_eq!(crash(entry.name, run), Ok(()), "{mix:?} of {}", entry.name);
            }
        }
    }
}

#[test]
fn wild_bytes_of_an_index_are_refused_and_never_a_panic_or_a_loop() {
    for (name, least) in [("level", 60), ("fastfair", 60)] {
        let refused = with_workload(name, Wild).expect("a workload of the table");
        assert!(refused > least, "{name}: {refused}");
    }
}
