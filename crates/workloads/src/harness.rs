//! The parts of a benchmark driver: its setup and its threads, the history that explains the image
//! after a crash, the requests of YCSB, planted bugs, and the concurrent defragmenter.

pub(crate) mod collect;
pub(crate) mod flaw;
pub mod history;
pub(crate) mod kernel;
pub(crate) mod workload;
pub(crate) mod ycsb;
