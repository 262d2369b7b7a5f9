//! What a run tells about where another schedule may differ: its accesses, and the moments at which
//! a thread had ended or waited, so that any other could go next.

use seawall_memory::{Addr, LINE_BYTES};
use serde::{Deserialize, Serialize};

/// A word outside memory: fences and outputs count as writes to it, because a crash can show the
/// order in which several threads executed them.
pub(crate) const FENCES: Addr = Addr::pm(1 << 40);

/// The word that two threads conflict in: of persistent memory, the first of its line, as the
/// stores of a line persist in order, whatever words they are to.
pub(crate) fn shared_word(at: Addr) -> u64 {
    let bytes = if at.is_pm() { LINE_BYTES } else { 8 };
    at.bits() / bytes * bytes / 8
}

/// What a call does to a word or a line. Two calls of different threads depend on each other if
/// both use one and one of them [changes](Use::changes) it:
///
/// | | load | store, exchange | flush |
/// |---|---|---|---|
/// | load | - | what is read | - |
/// | store, exchange | what is read | what is left, and persists first | what is covered |
/// | flush | - | what is covered | - |
///
/// Fences use one word, [`FENCES`]: a crash may show their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Use {
    /// Loads the newest value.
    Load,
    /// Loads an older value, as the load takes effect before earlier stores of its thread.
    LoadOlder,
    Store,
    /// Stores past the caches: loads of other threads may not see it yet.
    StoreNt,
    /// Loads the newest value and stores.
    Exchange,
    /// Comes to a queue of sleepers: nothing is stored, but the order of those who come matters.
    Queue,
    /// Loads what another thread has set to wake this one, and clears it. It cannot come before the
    /// store that it loads.
    Wake,
    Flush,
    Fence,
}

impl Use {
    /// A load, which was to return an older value if one is given.
    pub(crate) fn of_load(older: Option<u64>) -> Use {
        older.map_or(Use::Load, |_| Use::LoadOlder)
    }

    /// Whether calls of other threads that use the same depend on it.
    pub(crate) fn changes(self) -> bool {
        !matches!(self, Use::Load | Use::LoadOlder | Use::Flush)
    }

    /// Whether the thread comes to know what the last store to the word followed.
    pub(crate) fn learns(self) -> bool {
        matches!(self, Use::Load | Use::Exchange | Use::Queue | Use::Wake)
    }
}

/// An access to memory.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Access {
    pub(crate) call: u64,
    pub(crate) thread: u16,
    /// The word.
    pub(crate) word: u64,
    pub(crate) does: Use,
    /// What the call returned, of those that return something.
    pub(crate) returned: Option<u64>,
    /// Events before it.
    pub(crate) events: u32,
    /// The other threads that could have run instead, as bits.
    pub(crate) others: u64,
    /// How far behind the newest store a load could have been, from and up to.
    pub(crate) behind: (u32, u32),
}

impl Access {
    /// The word that stands for all that persists in order with this one.
    pub(crate) fn shared_word(&self) -> u64 {
        shared_word(Addr::from_bits(8 * self.word))
    }
}

/// A non-temporal store that another thread met, and that could have stayed in its buffer longer;
/// or a write of several words that another thread met when it had only begun.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Met {
    /// The call of the store, or the first of the write, and the one that met it.
    pub(crate) store: u64,
    pub(crate) call: u64,
}

/// A moment at which the thread that ran had ended or waited.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Handover {
    /// The call that came next.
    pub(crate) call: u64,
    /// The threads that could run and did not, as bits.
    pub(crate) others: u64,
}

/// The threads that read a word, and those that write it, as bits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Users {
    readers: u64,
    writers: u64,
}

impl Users {
    /// Whether an access by one thread may conflict with one by another.
    pub(crate) fn are_several(self) -> bool {
        self.writers != 0 && (self.readers | self.writers).count_ones() > 1
    }

    /// Adds an access by a thread; true if it is the first of its kind.
    pub(crate) fn add(&mut self, thread: u16, writes: bool) -> bool {
        let before = *self;
        *(if writes { &mut self.writers } else { &mut self.readers }) |= 1 << thread;
        before != *self
    }

    /// Adds all that the others do.
    pub(crate) fn join(&mut self, others: Users) {
        self.readers |= others.readers;
        self.writers |= others.writers;
    }

    /// Whether an access by this thread conflicts with one of another.
    pub(crate) fn conflict_with(self, thread: u16, writes: bool) -> bool {
        let users = if writes { self.readers | self.writers } else { self.writers };
        users & !(1 << thread) != 0
    }
}
