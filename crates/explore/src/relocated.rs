//! What a run copied by the hardware that moves objects (FFCCD, ISCA'22, section 4.1).

use crate::words::LineIndex;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// A line of a copy.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Copied {
    /// Events before it.
    pub(crate) event: u32,
    /// The line, and its stores up to those of the copy.
    pub(crate) line: LineIndex,
    pub(crate) stores: u32,
    /// Its place in the bitmap.
    pub(crate) word: u32,
    pub(crate) bit: u32,
}

/// What a run did with the hardware.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Relocated {
    /// The first of the events since each setting of the registers.
    pub(crate) settings: Vec<u32>,
    pub(crate) copied: Vec<Copied>,
}

impl Relocated {
    /// The bits that a crash after `event` events may find set, by word.
    pub(crate) fn before(&self, event: usize) -> FxHashMap<u32, Vec<Copied>> {
        let set = self.settings.partition_point(|setting| *setting as usize <= event);
        let since = set.checked_sub(1).map_or(0, |last| self.settings[last]);
        let mut by_word: FxHashMap<u32, Vec<Copied>> = FxHashMap::default();
        for copied in &self.copied {
            if copied.event < since || copied.event as usize > event {
                continue;
            }
            let bits = by_word.entry(copied.word).or_default();
            // The first copy is enough.
            if !bits.iter().any(|known| known.bit == copied.bit) {
                bits.push(*copied);
            }
        }
        by_word
    }
}
