//! Small programs, each with one publicly documented crash-consistency bug, and its fixed twin.
//!
//! Every program is our own, a few operations on a pool of a few KiB, written against
//! [`Memory`](seawall_memory::Memory): only the idea of a bug is taken from its source, which
//! [`About::source`] names. The broken and the fixed twin are one text that differs where `fixed`
//! is asked for. The explorer must find every broken program and no fixed one ([`run_all`]).
//!
//! [`Case`] is what the table [`CASES`] holds; [`Program`] is what a case is written as. To add
//! one: a type in the file of its origin, and one line of the table.

#![forbid(unsafe_code)]

mod kit;
mod pmdk;
mod pmdk_examples;
mod program;
mod run;
mod tx;

pub use program::{About, BugKind, Case, Entry, Found, Program};
pub use run::{Effort, Report, Row, explore, run_all, run_case};

/// Every case, by origin.
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
];
