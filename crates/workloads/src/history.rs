//! What the operations of a run did, and whether a crash image can be explained by it.

use std::collections::BTreeMap;

/// What a structure holds: for each key that is present, a tag that tells which operation put it
/// there (never 0).
pub type Contents = BTreeMap<u64, u64>;

/// Why an image cannot be explained.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub String);

/// The effects of all operations of a run, in the order in which they took effect.
#[derive(Default)]
pub struct History {
    effects: std::sync::Mutex<Vec<Effect>>,
}

/// One key changed by one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// Thread that ran the operation.
    pub thread: usize,
    /// Number of the operation in its thread.
    pub number: u64,
    /// The key.
    pub key: u64,
    /// The tag it has after the operation, 0 if it is absent.
    pub tag: u64,
}
