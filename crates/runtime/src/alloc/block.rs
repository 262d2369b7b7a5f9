//! The space of one object (a block of a size class, a run of chunks, or granules of a shelf), and
//! one thread's lists of free space.

use crate::alloc::map::GRANULE_BYTES;
use crate::alloc::shelf::Shelves;
use crate::alloc::size_class::{CHUNK_BYTES, Class, STATE_BYTES};
use rustc_hash::FxHashSet;
use seawall_memory::Addr;

/// Space that is allocated, or about to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) at: Addr,
    pub(crate) chunk: u64,
    pub(crate) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A block of a class.
    Small(Class),
    /// That many whole chunks.
    Large(u64),
    /// That many granules of a shelf.
    Shelf(u64),
}

impl Block {
    pub(crate) fn bytes(&self) -> u64 {
        match self.kind {
            Kind::Small(class) => class.bytes(),
            Kind::Large(chunks) => chunks * CHUNK_BYTES,
            Kind::Shelf(granules) => granules * GRANULE_BYTES,
        }
    }

    pub(crate) fn end(&self) -> Addr {
        self.at.plus(self.bytes())
    }

    pub(crate) fn holds(&self, at: Addr) -> bool {
        at >= self.at && at < self.end()
    }
}

/// The free space that one thread knows of.
#[derive(Clone, Debug)]
pub(crate) struct Blocks {
    /// Free blocks of each class, in chunks that this thread owns; the last one is taken first.
    pub(super) free: Vec<Vec<u64>>,
    /// The chunks of each class that it owns, and the index of the next one to look at.
    pub(super) mine: Vec<(Vec<u64>, usize)>,
    pub(crate) shelves: Shelves,
    /// The first chunk and the length of a run that was freed last, if the session keeps it.
    pub(super) kept: Option<(u64, u64)>,
    /// Whether what an earlier session of the thread number owned was given up.
    pub(super) is_sole: bool,
    /// Chunks that the transaction which commits empties.
    pub(crate) claimed: FxHashSet<u64>,
    /// Whether the session has given up something free for want of room.
    pub(super) has_given: bool,
}

impl Blocks {
    pub(crate) fn new() -> Blocks {
        Blocks {
            free: vec![Vec::new(); Class::COUNT],
            mine: vec![(Vec::new(), 0); Class::COUNT],
            shelves: Shelves::default(),
            kept: None,
            is_sole: false,
            has_given: false,
            claimed: FxHashSet::default(),
        }
    }
}

/// The address of the state of the block at `at`.
pub(crate) fn state_at(chunk_start: Addr, class: Class, at: Addr) -> Addr {
    chunk_start.plus(class.block_of(at.offset() - chunk_start.offset() - STATE_BYTES))
}
