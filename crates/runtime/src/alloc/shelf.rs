//! The shelves that one thread owns (`coalesce` describes shelves), and placements of objects.

use super::map::{FreeMap, TOGETHER_BYTES_MAX};
use rustc_hash::{FxHashMap, FxHashSet};
use seawall_memory::LINE_BYTES;

/// In place of a type: the granule continues the object before it.
pub(crate) const MORE: u8 = 126;
/// The most lines that objects which are placed together take.
pub(crate) const LINES_MAX: u64 = TOGETHER_BYTES_MAX / LINE_BYTES;

/// The placement of small objects that are allocated one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Placement {
    /// In the smallest block that holds them, which can straddle lines.
    #[default]
    Packed,
    /// So that no object touches more lines than its length requires: objects of more than 32 bytes
    /// start at a line. Takes more space, and fewer lines to flush.
    Lines,
}

#[derive(Clone, Debug)]
pub(super) struct Shelf {
    pub(super) chunk: u64,
    pub(super) free: FreeMap,
    /// The granule from which to search for free lines.
    pub(super) cursor: u64,
    /// So many consecutive lines are not free in it.
    pub(super) lacks: u64,
}

/// The shelves that a thread owns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shelves {
    pub(super) mine: Vec<Shelf>,
    /// The index of each in `mine`, by chunk.
    pub(super) places: FxHashMap<u64, usize>,
    /// The index of the one to search first.
    pub(super) current: usize,
}

impl Shelves {
    pub(super) fn push(&mut self, chunk: u64) -> usize {
        self.places.insert(chunk, self.mine.len());
        self.mine.push(Shelf { chunk, free: FreeMap::full(), cursor: 0, lacks: u64::MAX });
        self.mine.len() - 1
    }

    /// Takes all shelves out of it but these.
    pub(super) fn take_but(&mut self, held: &FxHashSet<u64>) -> Vec<Shelf> {
        if self.mine.is_empty() {
            return Vec::new();
        }
        let taken = self.mine.extract_if(.., |shelf| !held.contains(&shelf.chunk)).collect();
        self.current = 0;
        self.places = (0..).zip(&self.mine).map(|(place, shelf)| (shelf.chunk, place)).collect();
        taken
    }
}

/// Whether an object of that length would touch more lines than it requires in some block of the
/// classes.
pub(crate) fn needs_lines(bytes: u64) -> bool {
    bytes > 32
}
