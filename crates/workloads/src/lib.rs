//! Benchmark drivers: one file per workload, written once against the seam, each with a check
//! whether the image after a crash can be explained by the operations before it.
//!
//! The data structures themselves are in `seawall-collections`; a workload adds the mix of
//! operations, the population, and the [`History`] that the check needs. To add a workload, write
//! its file and its line in the table below.
//!
//! ```
//! use seawall_memory::Image;
//! use seawall_workloads::{Hash, History, Setup, Worker, Workload};
//! use std::sync::Arc;
//!
//! let setup = Setup { entries: 16, ..Setup::of::<Hash>(1) };
//! let layout = Hash::layout(&setup);
//! let memory = Image::new(layout.pm_bytes, layout.dram_bytes);
//! let hash = Hash::create(&memory, &setup);
//! let before = hash.contents(&memory).unwrap();
//!
//! let history = Arc::new(History::new());
//! let mut worker = Worker::new(&setup, 0, history.clone());
//! let mut local = hash.join(&memory);
//! while worker.number < 10 {
//!     hash.step(&memory, &mut local, &mut worker);
//!     worker.number += 1;
//! }
//!
//! let crashed = Image::from_pm(memory.into_pm(), layout.dram_bytes);
//! let after = Hash::open(&crashed, layout).unwrap().contents(&crashed).unwrap();
//! history.explain(&before, &after, &[10]).unwrap();
//! ```

#![forbid(unsafe_code)]

mod ffccd;
mod harness;
pub mod kernels;
mod library;
pub mod memsys17;
pub mod micro15;
pub mod ribbon20;
mod shared;
mod whisper;

pub use ffccd::{Cost, UnknownCost};
pub use harness::collect::{Collect, Immobile};
pub use harness::flaw::{Flaw, UnfitFlaw, UnknownFlaw};
pub use harness::history::{self, Contents, Explainer, History, Violation};
pub use harness::kernel::{Counts, Input, Kernel, Mix, Mixed, Stacks, Words};
pub use harness::workload::{BadSetup, Damage, Layout, Setup, Worker, Workload};
pub use harness::ycsb::{Accepts, KeyChoice, MIXES, RequestMix, UnfitMix, UnknownMix};
pub use kernels::checkpoint::{Checkpointed, Phased};
pub use kernels::{
    CHECKPOINTED, KERNELS, KernelEntry, KernelVisitor, UnknownKernel, with_checkpointed,
    with_kernel,
};
pub use shared::epoch_log::LogError;
pub use shared::strand_log;
pub use shared::{Change, Full, Inconsistency, LockVersion, LockVersions, SLOT_RESERVE, Slots};

/// A workload in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkloadEntry {
    /// Name on the command line.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// The default number of entries at the start.
    pub entries: u64,
    /// The default share of operations that only search, in per cent.
    pub search_percent: u32,
    /// Whether it is one of the five of MICRO'15, Table 2, which run when the user names none.
    pub default: bool,
    /// Whether it lives in a heap, and can have the planted bugs of a heap.
    pub in_heap: bool,
    /// Whether its objects can be moved.
    pub moves: bool,
    /// Whether it has a planted bug of its own.
    pub slips: bool,
    /// Member of the default set on machines with `all_workloads`. False for the workloads of
    /// Ribbon's evaluation: those machines repeat the runs of other papers, whose results are held
    /// fixed, and natively every workload must be named.
    pub in_all: bool,
    /// The requests of a mix that it can answer.
    pub accepts: Accepts,
}

impl WorkloadEntry {
    const fn of<W: Workload>(default: bool, in_all: bool) -> WorkloadEntry {
        WorkloadEntry {
            name: W::NAME,
            about: W::ABOUT,
            entries: W::ENTRIES,
            search_percent: W::SEARCH_PERCENT,
            default,
            in_heap: W::IN_HEAP,
            moves: W::MOVES,
            slips: W::SLIPS,
            in_all,
            accepts: W::ACCEPTS,
        }
    }
}

/// A generic function over workload types.
pub trait Visitor {
    /// The type of its result.
    type Output;
    /// Runs with workload `W`.
    fn visit<W: Workload>(self) -> Self::Output;
}

/// No workload has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown workload `{name}`; the workloads are {}", names())]
pub struct UnknownWorkload {
    /// The name that was given.
    pub name: String,
}

fn names() -> String {
    WORKLOADS.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ")
}

macro_rules! workloads {
    (
        files { $($suite:ident :: $module:ident :: $Type:ident, default: $default:literal;)* }
        evaluation { $($index:ident :: $Index:ident;)* }
        apps { $($App:ident;)* }
        churn { $($Churned:ident;)* }
    ) => {
        $(pub use $suite::$module::$Type;)*
        $(pub use ribbon20::$index::$Index;)*
        $(pub use whisper::$App;)*
        $(pub use ffccd::$Churned;)*

        /// Every workload, in the order in which tables show them.
        pub const WORKLOADS: &[WorkloadEntry] = &[
            $(WorkloadEntry::of::<$Type>($default, true),)*
            $(WorkloadEntry::of::<$Index>(false, false),)*
            $(WorkloadEntry::of::<$App>(false, true),)*
            $(WorkloadEntry::of::<$Churned>(false, false),)*
        ];

        /// Calls `visitor` with the workload `name`.
        ///
        /// # Errors
        /// If no workload has this name; the message lists the known names.
        pub fn with_workload<V: Visitor>(
            name: &str,
            visitor: V,
        ) -> Result<V::Output, UnknownWorkload> {
            match name {
                $($Type::NAME => Ok(visitor.visit::<$Type>()),)*
                $($Index::NAME => Ok(visitor.visit::<$Index>()),)*
                $($App::NAME => Ok(visitor.visit::<$App>()),)*
                $($Churned::NAME => Ok(visitor.visit::<$Churned>()),)*
                _ => Err(UnknownWorkload { name: name.to_owned() }),
            }
        }
    };
}

workloads! {
    files {
        micro15::hash::Hash, default: true;
        micro15::queue::Queue, default: true;
        micro15::rbtree::RbTree, default: true;
        micro15::sdg::Sdg, default: true;
        micro15::sps::Sps, default: true;
        micro15::ht::Ht, default: false;
        library::btree::BTree, default: false;
        library::map::Map, default: false;
        library::kv::Kv, default: false;
        library::heap::Scripts, default: false;
    }
    evaluation {
        level::Level;
        fastfair::FastFair;
        records::Records;
        hashes::RedisYcsb;
        redis_tpcc::RedisTpcc;
    }
    apps {
        Echo;
        Ycsb;
        Tpcc;
        Redis;
        CTree;
        HashMap;
        Vacation;
        Memcached;
    }
    churn {
        ChurnLl;
        ChurnAvl;
        ChurnSs;
        ChurnBt;
        ChurnRb;
        ChurnBzTree;
        ChurnFpTree;
        ChurnEcho;
        ChurnPmemKv;
        ChurnRedis;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Name;

    impl Visitor for Name {
        type Output = &'static str;
        fn visit<W: Workload>(self) -> &'static str {
            W::NAME
        }
    }

    #[test]
    fn every_workload_of_the_table_is_visited_by_its_name() {
        for entry in WORKLOADS {
            assert_eq!(with_workload(entry.name, Name), Ok(entry.name));
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let message = with_workload("hsah", Name).unwrap_err().to_string();
        assert!(message.contains("`hsah`") && message.contains("hash, queue"), "{message}");
    }
}
