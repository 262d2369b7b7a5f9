//! What recovery and checks find wrong with the bytes of a pool.

use seawall_memory::Addr;
use seawall_runtime::{AccessError, TxError};

/// An invariant of a structure that does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// A parameter in the pool's roots that no program writes.
    #[error("the pool's roots say {what} = {value}, which must be {range}")]
    Shape {
        /// The parameter.
        what: &'static str,
        /// What it is.
        value: u64,
        /// What it may be.
        range: String,
    },
    /// A pointer to something that is no entry.
    #[error("{what} points to {to:#x}, where no entry is")]
    Pointer {
        /// What holds the pointer.
        what: String,
        /// Its value.
        to: u64,
    },
    /// An entry that is reached twice: a cycle, or two owners.
    #[error("{what} reaches the entry at {at} a second time")]
    Twice {
        /// What holds the second pointer.
        what: String,
        /// The entry.
        at: Addr,
    },
    /// Any other invariant.
    #[error("{0}")]
    Broken(String),
}

/// A word that was read and leads to no place of the heap: found on quick paths, so it is small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wild {
    pub(crate) what: &'static str,
    pub(crate) to: u64,
}

impl From<Wild> for Damage {
    #[cold]
    fn from(Wild { what, to }: Wild) -> Damage {
        Damage::Pointer { what: what.into(), to }
    }
}

impl From<Wild> for TxError {
    #[cold]
    fn from(wild: Wild) -> TxError {
        AccessError::Damaged { what: Damage::from(wild).to_string() }.into()
    }
}
