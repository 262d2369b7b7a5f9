//! What keeps a program from being explored, and the remedy.

use super::{MEASURED, UnknownCase};
use seawall_explore::{ReplayError, RunError};
use seawall_workloads::{Damage, Immobile, UnfitFlaw, UnfitMix, UnknownWorkload};

/// Why nothing could be explored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExploreError {
    /// No such program.
    #[error("{0}, those of `seawall list corpus`, and {list}", list = MEASURED.join(" and "))]
    Workload(#[from] UnknownWorkload),
    /// The run itself failed.
    #[error("`{program}` did not run to its end{}: {error}", of_schedule(schedule))]
    Run {
        /// The program.
        program: String,
        /// The turns of its threads, if there are several.
        schedule: Option<String>,
        /// Why.
        error: RunError,
    },
    /// A program of others cannot be explored.
    #[error("{what}{}", of_schedule(schedule))]
    Program {
        /// The program and what it does.
        what: String,
        /// The turns of its threads, if there are several.
        schedule: Option<String>,
    },
    /// The structure is not right before any crash.
    #[error("`{workload}` is damaged before any crash: {damage}")]
    Damage {
        /// The workload.
        workload: &'static str,
        /// What is wrong.
        damage: Damage,
    },
    /// An option is out of its range.
    #[error("{option} is {value}: it must be {range}")]
    Range {
        /// Which one.
        option: &'static str,
        /// Its value.
        value: u64,
        /// What it may be.
        range: String,
    },
    /// A planted bug that the workload does not have.
    #[error(transparent)]
    Flaw(#[from] UnfitFlaw),
    /// Requests that the workload cannot answer.
    #[error(transparent)]
    Mix(#[from] UnfitMix),
    /// Requests of a mix are a workload's.
    #[error("--mix is for workloads; `{0}` makes the requests that it was written with")]
    NoMix(String),
    /// Objects that move are a workload's.
    #[error("--defragment is for workloads; the objects of `{0}` stay where they are")]
    Fixed(String),
    /// The workload's objects do not move.
    #[error(transparent)]
    Immobile(#[from] Immobile),
    /// No model was named.
    #[error("no persistency model to explore under: name at least one of {0}")]
    NoModel(String),
    /// Planted bugs are a workload's.
    #[error(
        "--flaw and --broken are for workloads, not for `{0}`; a case of the corpus has its bug"
    )]
    NoFlaw(String),
    /// Programs to measure with are right.
    #[error("`{0}` has one form, without a bug: leave --fixed out")]
    OneForm(String),
    /// A case has its own number of threads.
    #[error("`{program}` is a program of {threads} thread(s): leave --threads out")]
    OwnThreads {
        /// The program.
        program: String,
        /// Its threads.
        threads: usize,
    },
    /// Workloads have no fixed twin.
    #[error("--fixed is for the cases of the corpus; `{0}` is a workload, and right as it is")]
    NoTwin(&'static str),
    /// Not a part of a whole.
    #[error("--shard {0}: it must be like 3/64, the third of 64 parts")]
    Shard(String),
    /// The file is of another exploration.
    #[error(
        "{path} does not hold finished units of this exploration: name another file for --resume, \
         or use the options and the version that it was made with"
    )]
    OtherResume {
        /// The file.
        path: String,
    },
    /// An option that work in parts has no use for.
    #[error(
        "an exploration on several workers goes to its end, whoever does its parts: leave out \
         {option}"
    )]
    NotInParts {
        /// Which one.
        option: &'static str,
    },
    /// What threads of recovery share is known only where all of it is done.
    #[error(
        "recovery of this program runs several threads: explore it on one machine, without workers"
    )]
    RecoveryThreads,
    /// A part that is of something else.
    #[error(
        "a part is of another exploration: have all workers do the same, with the same program"
    )]
    OtherPart,
    /// A part was stopped.
    #[error("stopped on request")]
    Stopped,
    /// No such case of the corpus.
    #[error(transparent)]
    Case(#[from] UnknownCase),
    /// The replay string does not fit.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// A file, or the host.
    #[error("{0}")]
    Lab(String),
}

fn of_schedule(schedule: &Option<String>) -> String {
    schedule.as_ref().map_or_else(String::new, |turns| format!(" under the schedule {turns}"))
}
