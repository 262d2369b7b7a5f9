//! What a caller tells every operation that changes a structure.

use super::epoch_log::OrderFlaw;

/// The tag of the new entry, a planted mistake, and whom to tell.
#[derive(Clone, Debug)]
pub struct Change<F> {
    /// Tells this change from all others; never 0. Stored in the entry, which is filled from it.
    pub tag: u64,
    /// The mistake to make.
    pub flaw: OrderFlaw,
    /// Called for each key that changes with the key and its new tag (0: absent), under the
    /// operation's lock and before any of its stores; not called when nothing changes.
    pub note: F,
}

impl Change<fn(u64, u64)> {
    /// The change of entry `tag`, without a mistake, that tells nobody.
    pub fn of(tag: u64) -> Change<fn(u64, u64)> {
        Change { tag, flaw: OrderFlaw::None, note: |_, _| {} }
    }
}

/// There is no free entry; the structure is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no free entry: make the structure with a larger capacity")]
pub struct Full;
