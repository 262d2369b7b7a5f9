//! Small programs, each with one publicly documented crash-consistency bug, and its fixed twin.
//!
//! Every program is our own, a few operations on a pool of a few KiB, written against
//! [`Memory`](seawall_memory::Memory): only the idea of a bug is taken from its source, which
//! [`About::source`] names. Bugs are cut out ([`CASES`]), or left in an index of its real size
//! ([`INDEXES`]). The broken and the fixed twin are one text that differs where `fixed`
//! is asked for. The explorer must find every broken program and no fixed one ([`run_all`]).
//!
//! [`Case`] is what the tables hold; [`Program`] is what a case is written as. To add one: a type
//! in the file of its origin, and one line of a table.

#![forbid(unsafe_code)]

mod cceh;
mod clht;
mod fast_fair;
mod fast_fair_bugs;
mod filesystems;
mod hash_table;
mod indexes;
mod kit;
mod level_hash;
mod logs;
mod pmdk;
mod pmdk_examples;
mod program;
mod recipe;
mod run;
mod servers;
mod tries;
mod tx;

pub use fast_fair::FastFair;
pub use hash_table::HashTable;
pub use program::{About, BugKind, Case, Entry, Found, Program};
pub use run::{CaseReport, Effort, Row, explore, run_all, run_case};

/// Every bug that is cut out, by origin.
pub static CASES: &[&dyn Case] = &[
    &Entry(pmdk::HeapSplit),
    &Entry(pmdk::RedoNoDrain),
    &Entry(pmdk::CancelledRange),
    &Entry(pmdk::Coalesce),
    &Entry(pmdk::UndoListLeak),
    &Entry(pmdk::ReplicaLog),
    &Entry(pmdk::DeepFlush),
    &Entry(pmdk::LazyReclaim),
    &Entry(pmdk_examples::BtreeSplit),
    &Entry(pmdk_examples::RbtreeRotate),
    &Entry(pmdk_examples::RtreeExtraNode),
    &Entry(pmdk_examples::RtreeSnapshot),
    &Entry(pmdk_examples::HandleNotLogged),
    &Entry(pmdk_examples::SizeOfHandle),
    &Entry(pmdk_examples::DirtyCount),
    &Entry(pmdk_examples::RebuildFinish),
    &Entry(pmdk_examples::ClearNode),
    &Entry(pmdk_examples::ArrayBeforeInfo),
    &Entry(pmdk_examples::ArrayShrink),
    &Entry(pmdk_examples::FlexibleTail),
    &Entry(fast_fair_bugs::ShiftLeft),
    &Entry(fast_fair_bugs::DeleteOneCopy),
    &Entry(fast_fair_bugs::Merge),
    &Entry(fast_fair_bugs::ROOT),
    &Entry(fast_fair_bugs::HEADER),
    &Entry(fast_fair_bugs::EMPTY_NODE),
    &Entry(fast_fair_bugs::SPLIT_EARLY),
    &Entry(fast_fair_bugs::SiblingRead),
    &Entry(fast_fair_bugs::LastIndex),
    &Entry(level_hash::TokenFirst),
    &Entry(level_hash::UpdateTokenFirst),
    &Entry(level_hash::ExpandCapacity),
    &Entry(level_hash::MoveDuplicates),
    &Entry(level_hash::UpdateLoses),
    &Entry(level_hash::FlushLoop),
    &Entry(cceh::DepthFirst),
    &Entry(cceh::LineMask),
    &Entry(cceh::Stride),
    &Entry(cceh::CapacityRead),
    &Entry(cceh::SegmentLock),
    &Entry(cceh::DirectoryVisible),
    &Entry(cceh::GetUnpersisted),
    &Entry(recipe::CompactCount),
    &Entry(recipe::OverwriteLive),
    &Entry(recipe::TreeObject),
    &Entry(recipe::DeletionList),
    &Entry(recipe::AllocatorTail),
    &Entry(recipe::AllocationMeta),
    &Entry(recipe::HelpSplit),
    &Entry(recipe::RemoveDelta),
    &Entry(recipe::FlushAfterLoad),
    &Entry(clht::ResizeSwap),
    &Entry(clht::OffsetFlushed),
    &Entry(clht::OldestFreed),
    &Entry(clht::BucketLock),
    &Entry(clht::TableLeak),
    &Entry(tries::NodeNoFence),
    &Entry(tries::LocationFlushed),
    &Entry(tries::NextFlushed),
    &Entry(tries::TwigHead),
    &Entry(servers::CasId::NotFlushed),
    &Entry(servers::CasId::AfterLink),
    &Entry(servers::TornField::SlabId),
    &Entry(servers::TornField::PoolValid),
    &Entry(servers::UnlinkNotFlushed),
    &Entry(servers::RedisRoot),
    &Entry(servers::HeaderChecksum),
    &Entry(servers::PayloadSeen),
    &Entry(servers::PoolCreate),
    &Entry(filesystems::LogHead::NotFlushed),
    &Entry(filesystems::LogHead::NotBeforeTail),
    &Entry(filesystems::Rename::TwoSteps),
    &Entry(filesystems::Rename::LinksOutside),
    &Entry(filesystems::UnlinkNoFence),
    &Entry(filesystems::ReplicaNoFence),
    &Entry(filesystems::LinksInPlace),
    &Entry(filesystems::WriteTail::Nova),
    &Entry(filesystems::WriteTail::Pmfs),
    &Entry(filesystems::FastPath),
    &Entry(filesystems::TruncateList),
    &Entry(filesystems::CpuJournals),
    &Entry(filesystems::StrictWrite),
    &Entry(logs::UndoWrite::CountFirst),
    &Entry(logs::UndoWrite::DataFirst),
    &Entry(logs::UndoWrite::NoFence),
    &Entry(logs::UndoWrite::NotCleared),
    &Entry(logs::Record::NoChecksum),
    &Entry(logs::Record::LengthLeftOut),
    &Entry(logs::ReplayTwice),
    &Entry(logs::Rollback::ClearsEarly),
    &Entry(logs::Rollback::NotFlushed),
    &Entry(logs::Rollback::Swaps),
    &Entry(logs::DirtyClearedFirst),
    &Entry(logs::UndoForwards),
    &Entry(logs::ReserveLeak),
];

/// Indexes of their real size, each with a bug that needs two threads and a crash.
pub static INDEXES: &[&dyn Case] = &[
    &Entry(indexes::Threads(indexes::clht::Clht::USUAL)),
    &Entry(indexes::Threads(indexes::bwtree::BwTree)),
    &Entry(indexes::Threads(indexes::fast_fair::FastFairThreads::new())),
];

/// All of them, the indexes last.
pub fn all_cases() -> impl Iterator<Item = &'static dyn Case> {
    CASES.iter().chain(INDEXES).copied()
}
