//! The fuzz targets of seawall's pools, for `cargo fuzz` and for the driver beside this file.
//!
//! What they do is in the tests of `seawall-runtime`, which run a slice of it; this package only
//! gives it a fuzzer.

#![forbid(unsafe_code)]
#![allow(dead_code, unused_imports, reason = "the shared files hold tests, too")]

#[path = "../../crates/runtime/tests/damage.rs"]
mod damage;
#[path = "../../crates/runtime/tests/fuzz.rs"]
mod fuzz;
#[path = "../../crates/runtime/tests/moves.rs"]
mod moves;
#[path = "../../crates/runtime/tests/places.rs"]
mod places;
#[path = "../../crates/runtime/tests/script.rs"]
mod script;
#[path = "../../crates/runtime/tests/subjects.rs"]
mod subjects;

/// A target: its name, and what it does with bytes.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 4] = fuzz::TARGETS;

/// Runs the target of that name on `data`.
///
/// # Panics
/// When a heap breaks a promise, or there is no such target.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    target.unwrap_or_else(|| panic!("no target is called {name}")).1(data);
}

/// The bytes that the driver gives in run `run` of a seed.
pub fn input(seed: u64, run: u64) -> Vec<u8> {
    fuzz::input(seed, run)
}
