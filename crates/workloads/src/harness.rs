//! What a benchmark driver is made of: its setup and its threads, the history that explains what a
//! crash left, planted mistakes, and the collector beside it.

pub(crate) mod collect;
pub(crate) mod flaw;
pub mod history;
pub(crate) mod kernel;
pub(crate) mod workload;
