//! Which calls of the program an access is made in: a flush is nearly always in a helper, and tells
//! nothing without what called that.

use rustc_hash::FxHasher;
use std::hash::{Hash as _, Hasher as _};

/// Calls of the user's functions that a chain has at most, the access included.
pub(crate) const CALLS_MAX: usize = 8;
/// Set in what stands for a chain of several addresses: those have other upper bits.
const IS_CHAIN: u64 = 1 << 63;

/// A call that has not returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Where the program goes on in it; 0 in code that is none of the program's.
    pub(crate) site: u64,
    /// The stack pointer there.
    pub(crate) stack: u64,
    /// `%rbp` there; 0 if it is not known.
    pub(crate) base: u64,
}

/// The user's calls that led to an access, the innermost first. Of each function there is one, so
/// that recursion makes no other chains.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chain {
    calls: [u64; CALLS_MAX],
    count: usize,
}

impl Chain {
    pub(crate) fn calls(&self) -> &[u64] {
        &self.calls[..self.count]
    }

    pub(crate) fn add(&mut self, call: u64) {
        if let Some(next) = self.calls.get_mut(self.count) {
            *next = call;
            self.count += 1;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// What stands for it: the address of the access alone if nothing has called that.
    pub(crate) fn key(&self) -> u64 {
        if let [alone] = self.calls() {
            return *alone;
        }
        let mut hasher = FxHasher::default();
        self.calls().hash(&mut hasher);
        hasher.finish() | IS_CHAIN
    }
}
