//! What the operations of a run did, and whether a crash image can be explained by it.
//!
//! An image is explained by a cut: for each thread a number of operations that are wholly in it,
//! the others being wholly absent. The cut must hold every operation that had completed durably,
//! and with an operation every earlier one of its thread, and every earlier effect on the same
//! key. [`Explainer::explain`] computes the least such cut as a fixpoint, so it finds one exactly
//! when there is one, and names the key when there is none.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

mod explain;

pub use explain::Explainer;

/// What a structure holds: for each key that is present, a tag that identifies the operation that
/// put it there (never 0).
pub type Contents = BTreeMap<u64, u64>;

/// Why an image cannot be explained.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub String);

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

/// The effects of all operations of a run, in the order in which they took effect.
#[derive(Default)]
pub struct History {
    off: bool,
    effects: Mutex<Vec<Effect>>,
}

impl History {
    /// A history that records.
    pub fn new() -> History {
        History::default()
    }

    /// A history that records nothing and takes no lock, for benchmarks.
    pub fn off() -> History {
        History { off: true, ..History::default() }
    }

    /// Records that operation `number` of `thread` changes `key` to `tag` (0: absent). Called under
    /// the operation's lock and before its first store, in the order of the operations of a thread.
    pub fn effect(&self, thread: usize, number: u64, key: u64, tag: u64) {
        if !self.off {
            self.lock().push(Effect { thread, number, key, tag });
        }
    }

    /// How many effects there are by now.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The effects so far.
    pub fn effects(&self) -> Vec<Effect> {
        self.lock().clone()
    }

    /// An index over the effects so far, for many questions.
    pub fn index(&self) -> Explainer {
        let mut explainer = Explainer::new();
        explainer.extend(self);
        explainer
    }

    /// Whether `after` can be explained by the operations of the history on top of `before`, all
    /// of the first `completed[t]` operations of each thread t included; returns the number of
    /// operations of each thread in the least explanation. For more than one question use
    /// [`index`](History::index).
    ///
    /// # Errors
    /// The key that no cut explains.
    pub fn explain(
        &self,
        before: &Contents,
        after: &Contents,
        completed: &[u64],
    ) -> Result<Vec<u64>, Violation> {
        self.index().explain(before, after, completed)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Effect>> {
        self.effects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread that stands in a tag for the initial entries.
const INITIAL: u64 = 0xffff;
const THREAD_SHIFT: u32 = 40;

/// The tag of operation `number` of `thread`: unique and not 0.
pub fn tag(thread: usize, number: u64) -> u64 {
    (thread as u64 + 1) << THREAD_SHIFT | (number + 1)
}

/// The tag of initial entry `number`.
pub fn initial_tag(number: u64) -> u64 {
    INITIAL << THREAD_SHIFT | (number + 1)
}

/// A tag in words.
pub(crate) struct InWords(pub(crate) u64);

impl fmt::Display for InWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (thread, number) = (self.0 >> THREAD_SHIFT, self.0 & ((1 << THREAD_SHIFT) - 1));
        match (thread, number) {
            (0, 0) => write!(f, "absent"),
            (INITIAL, 1..) => write!(f, "initial entry {}", number - 1),
            (1..INITIAL, 1..) => {
                write!(f, "the entry of operation {} of thread {}", number - 1, thread - 1)
            }
            _ => write!(f, "an entry with the impossible tag {:#x}", self.0),
        }
    }
}
