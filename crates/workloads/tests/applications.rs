//! Crashes of applications like WHISPER's that share data between threads: each survives them, and
//! is caught in its mistakes.

use crate::crash::Crash;
use crate::media::Model;
use seawall_workloads::{Flaw, with_workload};

/// Each with how long its transactions are: crashes come at one of so many stores and fences.
const APPLICATIONS: [(&str, u64); 4] =
    [("ycsb", 24), ("tpcc", 160), ("vacation", 2), ("memcached", 2)];
const MODELS: [Model; 3] = [Model::Epochs, Model::Px86, Model::Bep];

fn crash(
    (name, one_of): (&str, u64),
    model: Model,
    flaw: Flaw,
    (seed, threads): (u64, usize),
) -> Result<(), String> {
    let run = Crash { model, flaw, seed, threads, one_of };
    with_workload(name, run).expect("a workload of the table")
}

#[test]
fn every_crash_of_an_application_leaves_what_had_committed_and_no_part_of_what_had_not() {
    for app in APPLICATIONS {
        for (seed, model) in (1..=3).flat_map(|seed| MODELS.map(|model| (seed, model))) {
            let found = crash(app, model, Flaw::None, (seed, 1));
            assert_eq!(found, Ok(()), "{} under {model:?} with seed {seed}", app.0);
        }
    }
}

#[test]
fn what_several_threads_of_an_application_commit_is_there_in_their_order() {
    for app in APPLICATIONS {
        for (seed, model) in (1..=3).flat_map(|seed| [(seed, Model::Bep), (seed, Model::Px86)]) {
            let found = crash(app, model, Flaw::None, (seed, 3));
            assert_eq!(found, Ok(()), "{} under {model:?} with seed {seed}", app.0);
        }
    }
}

#[test]
fn a_change_that_its_log_does_not_precede_is_caught() {
    for app in APPLICATIONS {
        for model in MODELS {
            let found = crash(app, model, Flaw::NoOrder, (1, 1));
            assert!(found.is_err(), "{} without the order passes under {model:?}", app.0);
        }
    }
}

#[test]
fn a_log_that_is_not_flushed_is_caught_where_flushes_matter() {
    for app in APPLICATIONS {
        let found = crash(app, Model::Px86, Flaw::NoFlush, (1, 1));
        assert!(found.is_err(), "{} without the flush passes under Px86", app.0);
        assert_eq!(crash(app, Model::Epochs, Flaw::NoFlush, (1, 1)), Ok(()), "{}", app.0);
    }
}
