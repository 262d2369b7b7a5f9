//! The entries of a store buffer: stores, and what goes through it to be in order with them.

use crate::{Cycle, LineId};

/// The kind of an entry of the store buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// `value` under `mask` goes to `word` of `line`.
    Store,
    /// A word of a line of a copy, or of a store of several words; takes no place, and leaves with
    /// the entry behind it.
    Part,
    /// The last word of a line of a copy; it sets the line's pending bit.
    Copy,
    /// A non-temporal store, which goes past the caches.
    NonTemporal,
    /// A word of a non-temporal store of a line; takes no place, and leaves with the entry behind
    /// it.
    PartNonTemporal,
    /// The line must be written back.
    Flush,
    /// Stores before it persist before stores after it.
    Order,
    /// Stores after it are in another strand than stores before it.
    Strand,
    /// Stores before it, of all strands, persist before stores after it.
    Join,
    /// As `Order`, and the program waits until everything before it is durable.
    Drain,
    /// The program reports to the outside world that operation `value` is done.
    Output,
}

impl Kind {
    /// True for an entry that writes the core's own copy of a line.
    #[inline]
    pub(crate) fn is_store(self) -> bool {
        matches!(self, Kind::Store | Kind::Part | Kind::Copy)
    }

    /// True for an entry that goes past the caches.
    #[inline]
    pub(crate) fn is_non_temporal(self) -> bool {
        matches!(self, Kind::NonTemporal | Kind::PartNonTemporal)
    }

    /// True for an entry that takes one of the core's places for stores.
    #[inline]
    pub(super) fn takes_place(self) -> bool {
        !matches!(self, Kind::Output | Kind::Part | Kind::PartNonTemporal)
    }
}

/// An entry of the store buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) word: u8,
    /// The number of the program's stores that it stands for.
    pub(crate) count: u16,
    pub(crate) line: LineId,
    /// When the instruction retires; the entry cannot drain before.
    pub(crate) from: Cycle,
    pub(crate) mask: u64,
    pub(crate) value: u64,
}

impl Entry {
    /// An entry that writes nothing.
    pub(crate) fn mark(kind: Kind, line: LineId) -> Entry {
        Entry { kind, word: 0, count: 0, line, from: 0, mask: 0, value: 0 }
    }
}
