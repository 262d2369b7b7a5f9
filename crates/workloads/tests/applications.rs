//! Crashes of the applications like WHISPER's: each survives them, and is caught in its mistakes.

use crate::crash::{Crash, crash};
use crate::media::Model;
use seawall_workloads::{Flaw, with_workload};

const APPLICATIONS: [&str; 2] = ["ycsb", "tpcc"];
const MODELS: [Model; 3] = [Model::Epochs, Model::Px86, Model::Bep];

#[test]
fn every_crash_of_an_application_leaves_what_had_committed_and_no_part_of_what_had_not() {
    for name in APPLICATIONS {
        for (seed, model) in (1..=2).flat_map(|seed| MODELS.map(|model| (seed, model))) {
            let found = crash(name, model, Flaw::None, seed);
            assert_eq!(found, Ok(()), "{name} under {model:?} with seed {seed}");
        }
    }
}

#[test]
fn what_several_threads_of_an_application_commit_is_there_in_their_order() {
    for name in APPLICATIONS {
        for seed in 1..=2 {
            let run = Crash { model: Model::Px86, flaw: Flaw::None, seed, threads: 3 };
            let found = with_workload(name, run).expect("a workload of the table");
            assert_eq!(found, Ok(()), "{name} with seed {seed}");
        }
    }
}

#[test]
fn a_change_that_its_log_does_not_precede_is_caught() {
    for name in APPLICATIONS {
        for model in MODELS {
            let found = crash(name, model, Flaw::NoOrder, 1);
            assert!(found.is_err(), "{name} without the order passes under {model:?}");
        }
    }
}

#[test]
fn a_log_that_is_not_flushed_is_caught_where_flushes_matter() {
    for name in APPLICATIONS {
        let found = crash(name, Model::Px86, Flaw::NoFlush, 1);
        assert!(found.is_err(), "{name} without the flush passes under Px86");
        assert_eq!(crash(name, Model::Epochs, Flaw::NoFlush, 1), Ok(()), "{name}");
    }
}
