//! Benchmark drivers: one file a workload, written once against the seam, each with a check that
//! says whether what survived a crash can be explained by what was done before it.
//!
//! The data structures themselves live in `seawall-collections`; a workload adds the mix of
//! operations, the population, and the bookkeeping ([`History`]) that the check needs.

#![forbid(unsafe_code)]

pub mod history;
mod workload;

pub use history::{Contents, History, Violation};
pub use workload::{Damage, Flaw, Layout, Setup, Worker, Workload};
