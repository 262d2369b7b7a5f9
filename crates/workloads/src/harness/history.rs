//! The effects of the operations of a run, and whether they explain a crash image.
//!
//! An image is explained by a cut: for each thread, its first operations are wholly in the image
//! and the later ones wholly absent. The cut must contain every operation that had completed
//! durably, and with an operation every earlier one of its thread, and every earlier effect on the
//! same key. [`Explainer::explain`] computes the least cut as a fixpoint, so it finds one exactly
//! if one exists, and otherwise names the key.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

mod explain;

pub use explain::Explainer;

/// The content of a structure: for each key that is present, the tag of the operation that put it
/// there (never 0).
pub type Contents = BTreeMap<u64, u64>;

/// Why an image cannot be explained.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub String);

/// One key changed by one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The thread that ran the operation.
    pub thread: usize,
    /// The number of the operation in its thread.
    pub number: u64,
    /// The key.
    pub key: u64,
    /// The key's tag after the operation, 0 if it is absent.
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

    /// The number of effects so far.
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

    /// An index over the effects so far, for repeated use.
    pub fn index(&self) -> Explainer {
        let mut explainer = Explainer::new();
        explainer.extend(self);
        explainer
    }

    /// Whether the operations of the history explain `after` on top of `before`, including the
    /// first `completed[t]` operations of each thread t. Returns the number of operations of each
    /// thread in the least cut. For repeated calls use [`index`](History::index).
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

/// The thread number in the tags of initial entries.
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

/// A number that is greater the later a tag of one thread was written: initial entries come first.
pub(crate) fn age(tag: u64) -> u64 {
    tag.wrapping_add(1 << THREAD_SHIFT) & ((1 << (THREAD_SHIFT + 16)) - 1)
}

/// Displays a tag in words.
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
