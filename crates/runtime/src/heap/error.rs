//! What can be wrong with a heap, by what was asked of it: a read, a transaction, or a heap.

use super::layout;
use crate::pool::HeaderError;
use seawall_memory::Addr;

/// Why a read of an open heap fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// Something in the pool that no crash leaves behind.
    #[error("the pool is damaged: {what}; restore the file from a copy")]
    Damaged {
        /// What is wrong.
        what: String,
    },
    /// This process was forked from the one that opened the pool.
    #[error(
        "the pool was opened before this process was forked (fork, daemon), and is not its own; \
         open a pool in the process that uses it"
    )]
    Inherited,
    /// An address that is no data of the heap.
    #[error("{bytes} bytes at {at} are not data of this heap")]
    NoData {
        /// The address.
        at: Addr,
        /// Bytes from there.
        bytes: u64,
    },
}

impl AccessError {
    /// Something in the pool that no crash leaves behind.
    pub(crate) fn damaged(what: impl Into<String>) -> AccessError {
        AccessError::Damaged { what: what.into() }
    }
}

/// Why a transaction fails, or an operation in one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TxError {
    /// What was read or written is damaged, or no data of the heap.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// No room for an object.
    #[error(
        "no room for {wanted} chunks of 64 KiB in a row in a heap of {chunks}; free something, or \
         make the heap with a greater bytes_max and room on its disk"
    )]
    Full {
        /// Chunks that the heap has.
        chunks: u64,
        /// Chunks wanted.
        wanted: u64,
    },
    /// A transaction with more new values than one record has, or a step of defragmentation with
    /// more than its log.
    #[error(
        "a transaction wrote {bytes} bytes of log, of which there are {room}; split it, or make \
         the heap with a greater log_bytes"
    )]
    TooLarge {
        /// Bytes that its record takes.
        bytes: u64,
        /// Bytes that there are.
        room: u64,
    },
    /// A key or a value with more bytes than the structure that it is for takes.
    #[error("a {what} of {bytes} bytes; it may have {most} at most")]
    TooLong {
        /// What it is: a key or a value.
        what: &'static str,
        /// Bytes that it has.
        bytes: usize,
        /// Bytes that there may be.
        most: usize,
    },
    /// A lock that another thread holds, and that may not be waited for.
    #[error("another thread holds what the transaction needs; run it with Session::retry")]
    Busy,
    /// An address at which no object starts, or one that was freed before.
    #[error("no object starts at {at}, or it was freed before")]
    NoObject {
        /// The address.
        at: Addr,
    },
    /// More types than a heap can tell apart.
    #[error("a heap has at most {} types of objects; allocate some as bytes", layout::TYPES_MAX)]
    Types,
    /// An object of another type.
    #[error(
        "{what} is of another type in this pool: it was made by another program or version; open \
         it with that, or move the data to a new pool"
    )]
    Shape {
        /// What it is.
        what: String,
    },
}

/// Why a heap cannot be created, opened or recovered, or a transaction that sets it up fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeapError {
    /// The pool is no pool, or another program's.
    #[error(transparent)]
    Pool(#[from] HeaderError),
    /// An option is out of range.
    #[error("{what} is {value}; it must be {low} to {high}")]
    Option {
        /// Which one.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The least it may be.
        low: u64,
        /// The most.
        high: u64,
    },
    /// Options that exclude each other.
    #[error(
        "a heap whose programs store in place cannot be defragmented: leave out `in_place` or \
         `defragment`"
    )]
    Exclusive,
    /// There is something in the pool that was to become a heap.
    #[error("the pool is not empty: open the heap that it holds, or make one in a new file")]
    Exists,
    /// The heap is open already.
    #[error("the heap is open: use the one that there is, or end its pool before it is opened")]
    Open,
    /// The file of the pool lacks space for bytes that are in use, as a sparse copy does, and its
    /// disk has no room for them.
    #[error(
        "no room on its disk for {bytes} bytes that the pool has in use and its file, a sparse \
         copy, leaves out; free some space"
    )]
    NoRoom {
        /// Bytes that are missing, at least.
        bytes: u64,
    },
    /// A type that has changed since the pool was made.
    #[error(
        "type {name} has changed since the pool was made: {how}; open the pool with the program \
         that made it, or copy what it holds to a new one (as `typed` says)"
    )]
    Changed {
        /// What it is called.
        name: String,
        /// Which field, as it was and as it is.
        how: String,
    },
    /// A root of another type.
    #[error(
        "{what} is of another type in this pool: it was made by another program or version; open \
         it with that, or move the data to a new pool"
    )]
    Shape {
        /// What it is.
        what: String,
    },
    /// The pool is damaged ([`AccessError::Damaged`]), or a transaction that sets the heap up
    /// fails.
    #[error(transparent)]
    Tx(#[from] TxError),
}

impl From<AccessError> for HeapError {
    fn from(error: AccessError) -> HeapError {
        HeapError::Tx(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_read_is_small_and_says_the_same_in_a_transaction_and_of_a_heap() {
        let error = AccessError::NoData { at: Addr::pm(64), bytes: 8 };
        let in_tx = TxError::from(error.clone());
        let of_heap = [HeapError::from(in_tx.clone()), HeapError::from(error.clone())];
        assert_eq!(of_heap, [HeapError::Tx(in_tx.clone()), HeapError::Tx(in_tx.clone())]);
        assert_eq!(in_tx.to_string(), error.to_string());
        assert_eq!(of_heap[0].to_string(), error.to_string());
        let sizes = [size_of::<AccessError>(), size_of::<TxError>(), size_of::<HeapError>()];
        assert!(sizes.is_sorted() && sizes[0] <= 24, "{sizes:?}");
    }
}
