//! The fuzz targets of seawall's pools, for `cargo fuzz` and for the driver beside this file.
//!
//! They are implemented in `seawall-testkit`, whose tests run a slice of them; this package only
//! adds a fuzzer.

#![forbid(unsafe_code)]

pub use seawall_testkit::fuzz::{TARGETS, Target, input};

/// Runs the target of that name on `data`.
///
/// # Panics
/// When a heap breaks a promise, or there is no such target.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    target.unwrap_or_else(|| panic!("no target is called {name}")).1(data);
}
