//! What a run did to persistent memory, event by event, in the order in which it became visible.
//!
//! A trace is sequentially consistent. Persistency models are applied to it afterwards, so one run
//! serves all models. Stores are also kept by line, because in every model here the stores of one
//! line persist in order: what a line holds after a crash is then just a number, how many of its
//! stores are durable, and an image is one such number for each line.

use crate::words::{WordChange, Words};
use rustc_hash::FxHashMap;
use seawall_memory::{Addr, Line, Width};
use std::panic::Location;

/// Index of a line in a trace, in order of first use.
pub(crate) type LineIndex = u32;

/// One thing that a thread did.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The thread, from 0.
    pub thread: u16,
    /// Operations that the thread had completed (outputs), so the number of the one in flight.
    pub operation: u32,
    /// What it did.
    pub kind: Kind,
    /// The call that did it.
    pub at: &'static Location<'static>,
}

/// What a thread did; numbers of stores and lines index [`Trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A store to persistent memory.
    Store {
        /// Which one.
        store: u32,
    },
    /// A successful locked operation; its store if it was to persistent memory.
    Locked {
        /// Which one.
        store: Option<u32>,
    },
    /// A load of a persistent line that another thread wrote last.
    Read {
        /// The line.
        line: u32,
    },
    /// The write-back of a persistent line was asked for.
    Flush {
        /// The line.
        line: u32,
    },
    /// A persist barrier.
    Order,
    /// A wait for durability.
    Drain,
    /// The thread told the world that an operation is done.
    Output {
        /// Its number, counted by the program.
        number: u64,
    },
}

impl Kind {
    /// The store that the event made to persistent memory, if it made one.
    pub fn store(self) -> Option<u32> {
        match self {
            Kind::Store { store } => Some(store),
            Kind::Locked { store } => store,
            _ => None,
        }
    }
}

/// A store to persistent memory.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// Where.
    pub at: Addr,
    /// How wide.
    pub width: Width,
    /// What was there before.
    pub old: u64,
    /// What it wrote.
    pub new: u64,
    /// Number of its event.
    pub event: u32,
    pub(crate) line: LineIndex,
    pub(crate) change: WordChange,
}

/// All stores of one line, in order.
pub(crate) struct LineLog {
    pub(crate) line: Line,
    pub(crate) stores: Vec<u32>,
    /// Hash of the line's contents after each number of stores, against its contents at the start.
    pub(crate) hash: Vec<u128>,
}

/// What a run did, and the memory that it started from.
pub struct Trace {
    pub(crate) events: Vec<Event>,
    pub(crate) stores: Vec<Store>,
    pub(crate) lines: Vec<LineLog>,
    pub(crate) threads: usize,
    pub(crate) start: Vec<u8>,
    pub(crate) dram_bytes: u64,
    index: FxHashMap<Line, LineIndex>,
}

impl Trace {
    pub(crate) fn new(threads: usize, start: Vec<u8>, dram_bytes: u64) -> Trace {
        let (events, stores, lines) = (Vec::new(), Vec::new(), Vec::new());
        Trace { events, stores, lines, threads, start, dram_bytes, index: FxHashMap::default() }
    }

    /// The events, in the order in which they took effect.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The stores to persistent memory, in the order in which they took effect.
    pub fn stores(&self) -> &[Store] {
        &self.stores
    }

    /// Threads that ran.
    pub fn threads(&self) -> usize {
        self.threads
    }

    pub(crate) fn line(&mut self, line: Line) -> LineIndex {
        *self.index.entry(line).or_insert_with(|| {
            self.lines.push(LineLog { line, stores: Vec::new(), hash: vec![0] });
            self.lines.len() as u32 - 1
        })
    }

    pub(crate) fn find_line(&self, line: Line) -> Option<LineIndex> {
        self.index.get(&line).copied()
    }

    pub(crate) fn add_store(&mut self, at: Addr, width: Width, change: WordChange) -> u32 {
        let line = self.line(at.line());
        let shift = at.offset() % 8 * 8;
        let part = |word: u64| word >> shift & width.mask();
        let number = self.stores.len() as u32;
        let event = self.events.len() as u32;
        let (old, new) = (part(change.old), part(change.new));
        self.stores.push(Store { at, width, old, new, event, line, change });
        let log = &mut self.lines[line as usize];
        let before = log.hash[log.stores.len()];
        log.stores.push(number);
        log.hash.push(before ^ zobrist(change.word, change.old) ^ zobrist(change.word, change.new));
        number
    }

    pub(crate) fn words(&self) -> Words {
        Words::from_bytes(&self.start)
    }
}

/// A random-looking value for one word of memory holding one value: their xor over all words is a
/// hash that one store updates in place (Zobrist).
fn zobrist(word: u32, value: u64) -> u128 {
    let low = mix(value ^ mix(u64::from(word) ^ 0x9e37_79b9_7f4a_7c15));
    let high = mix(low ^ value.rotate_left(32) ^ 0xd1b5_4a32_d192_ed03);
    u128::from(high) << 64 | u128::from(low)
}

/// The finaliser of splitmix64.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_returns_to_its_old_contents_has_its_old_hash() {
        let mut trace = Trace::new(1, vec![0; 64], 0);
        let memory = trace.words();
        for value in [5u64, 6, 5, 0] {
            let change = memory.store(Addr::pm(8), Width::B8, value);
            trace.add_store(Addr::pm(8), Width::B8, change);
        }
        let hash = &trace.lines[0].hash;
        assert_eq!(hash[1], hash[3]);
        assert_eq!(hash[4], 0);
        assert_ne!(hash[1], hash[2]);
    }
}
