//! Any machine as one type, and any workload.
//!
//! A program is compiled for each type of memory that it is run on, and a workload is a large
//! program. [`AnyMemory`] is any machine's handle, and any wrapper around one that a run may have:
//! a workload is compiled once for all of them, and its operations once more for the memory of the
//! host, bare and with a Ribbon, whose speed is measured. [`AnyWorkload`] is any workload, so that
//! what runs them is compiled once.

#![forbid(unsafe_code)]

mod memory;
mod workload;

pub use memory::accounted::{Account, Accounted};
pub use memory::watched::{AccessCounts, Watch, Watched};
pub use memory::{AnyMemory, NativeRibbon};
pub use workload::{AnyStructure, AnyWorkload, Joined, of, workload};
