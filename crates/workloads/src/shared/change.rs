//! The parameters of every operation that changes a structure.

use super::epoch_log::OrderFlaw;

/// The tag of the new entry, a planted bug, and a callback for each change.
#[derive(Clone, Debug)]
pub struct Change<F> {
    /// Identifies this change; never 0. Stored in the entry, whose content follows from it.
    pub tag: u64,
    /// The planted bug.
    pub flaw: OrderFlaw,
    /// Called for each key that changes with the key and its new tag (0: absent), under the
    /// operation's lock and before any of its stores; not called when nothing changes.
    pub note: F,
}

impl Change<fn(u64, u64)> {
    /// The change with `tag`, without a planted bug and without a callback.
    pub fn of(tag: u64) -> Change<fn(u64, u64)> {
        Change { tag, flaw: OrderFlaw::None, note: |_, _| {} }
    }
}

/// There is no free entry; the structure is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no free entry: make the structure with a larger capacity")]
pub struct Full;
