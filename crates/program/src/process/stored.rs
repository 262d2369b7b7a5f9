//! Stores of the program on their way: what is to be read when the thread comes back, and what of
//! it goes to the machine.

/// The way of a store to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Caches,
    /// Past the caches.
    Stream,
    /// Past the caches, a line as one.
    Direct,
}

/// A store that the program was about to make: its value is read when its thread comes back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) at: u64,
    pub(crate) bytes: u64,
    pub(crate) way: Way,
    /// Which of its bytes are stored; all, also those from 64 on, if every bit is set.
    pub(crate) selected: u64,
}

impl Pending {
    #[inline]
    pub(crate) fn new(at: u64, bytes: u64) -> Pending {
        Pending { at, bytes, way: Way::Caches, selected: u64::MAX }
    }

    pub(crate) fn past(at: u64, bytes: u64, way: Way) -> Pending {
        Pending { way, ..Pending::new(at, bytes) }
    }
}

/// What a store has left of a line: aligned words, and the bits of them that it wrote.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    pub(crate) at: u64,
    pub(crate) words: usize,
    pub(crate) values: [u64; 8],
    pub(crate) masks: [u64; 8],
    pub(crate) way: Way,
}
