//! What a run did to persistent memory, event by event, in the order in which it became visible.
//!
//! Stores are in the order of memory; a load that came early, before stores of its thread, names
//! the store that it read. Persistency models are applied afterwards, so one run serves all models
//! of a kind of machine. Stores are also kept by line, because the stores of one line persist in
//! order: what a line holds after a crash follows from the number of its durable stores, and an
//! image is one such number for each line; or for each word of a line, where non-temporal stores or
//! wide ones let words persist on their own.
//!
//! Recovery is recorded as a trace, too, because the next crash may cut it short.

use crate::access::{Access, Handover, Met};
use crate::relocated::Relocated;
use crate::site::Site;
use crate::wide::Part;
use crate::words::{LineIndex, WordChange};
use rustc_hash::{FxHashMap, FxHasher};
use seawall_memory::{Addr, Fence, Line, Model, Width};
use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One thing that a thread did.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Event {
    /// The thread, from 0.
    pub thread: u16,
    /// Operations (outputs) that the thread had completed: the number of the one in flight.
    pub operation: u32,
    /// What it did.
    pub kind: Kind,
    /// The call site.
    pub at: Site,
}

/// What a thread did; numbers of stores and lines index [`Trace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// A store past the caches.
    StoreNt {
        /// Which one.
        store: u32,
    },
    /// A load of a persistent line that another thread wrote last.
    Read {
        /// The line.
        line: u32,
        /// The word of 8 bytes in memory.
        word: u32,
        /// The stores up to the one that it read, if that is not the newest one.
        from: Option<u32>,
    },
    /// A compare-and-exchange that failed: the thread's earlier stores are visible.
    Failed,
    /// A load of volatile memory that another thread wrote last: what had been stored before that
    /// write happens before the load.
    Sync {
        /// Stores to persistent memory before that write.
        stores: u32,
    },
    /// A request to write a persistent line back.
    Flush {
        /// The line.
        line: u32,
    },
    /// A request to write back something that is not persistent.
    FlushElsewhere,
    /// Hardware wrote a line back by itself, and shows that to programs.
    WroteBack {
        /// The line.
        line: u32,
    },
    /// A persist barrier.
    Order,
    /// A wait for durability.
    Drain,
    /// A new strand.
    Strand,
    /// A join of strands.
    Join,
    /// The pool was made longer.
    Grow {
        /// Its new length.
        bytes: u64,
    },
    /// The thread reported an operation as done.
    Output {
        /// Its number, counted by the program.
        number: u64,
    },
}

impl From<Fence> for Kind {
    fn from(fence: Fence) -> Kind {
        match fence {
            Fence::Order => Kind::Order,
            Fence::Drain => Kind::Drain,
            Fence::Strand => Kind::Strand,
            Fence::Join => Kind::Join,
        }
    }
}

impl Kind {
    /// The store that the event made to persistent memory, if it made one.
    pub fn store(self) -> Option<u32> {
        match self {
            Kind::Store { store } | Kind::StoreNt { store } => Some(store),
            Kind::Locked { store } => store,
            _ => None,
        }
    }

    /// The bytes of the pool, if the event made it longer.
    pub(crate) fn grown(self) -> Option<u64> {
        match self {
            Kind::Grow { bytes } => Some(bytes),
            _ => None,
        }
    }
}

/// A store to persistent memory.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Store {
    /// The address.
    pub at: Addr,
    /// The width.
    pub width: Width,
    /// The value before.
    pub old: u64,
    /// The value that it wrote.
    pub new: u64,
    /// Number of its event.
    pub event: u32,
    pub(crate) line: LineIndex,
    pub(crate) change: WordChange,
    pub(crate) part: Part,
}

/// All stores of one line, in order; or, where the words of the line persist on their own, of one
/// of its words.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct LineLog {
    pub(crate) line: Line,
    /// Number of the word in the line, if it is the log of a word.
    pub(crate) lane: Option<u8>,
    pub(crate) stores: Vec<u32>,
    /// The values of each word, each with the number of the line's stores from which on it holds.
    pub(crate) words: [Vec<(u32, u64)>; 8],
}

impl LineLog {
    fn new(line: Line, lane: Option<u8>) -> LineLog {
        LineLog { line, lane, stores: Vec::new(), words: Default::default() }
    }

    fn add(&mut self, store: u32, change: WordChange) {
        self.stores.push(store);
        self.words[change.word as usize % 8].push((self.stores.len() as u32, change.new));
    }
}

/// What a run did, and the memory that it started from.
#[derive(Clone, Serialize, Deserialize)]
pub struct Trace {
    pub(crate) events: Vec<Event>,
    pub(crate) stores: Vec<Store>,
    pub(crate) lines: Vec<LineLog>,
    pub(crate) threads: usize,
    #[serde(skip)]
    pub(crate) start: Arc<[u8]>,
    /// Bytes that the pool may grow to.
    pub(crate) room: u64,
    pub(crate) dram_bytes: u64,
    /// All accesses and handovers, in runs that search for other schedules.
    pub(crate) accesses: Vec<Access>,
    pub(crate) handovers: Vec<Handover>,
    pub(crate) met: Vec<Met>,
    pub(crate) crossed: Vec<Met>,
    /// For each event whether an earlier run of an exploration came just as far; empty if none did.
    pub(crate) repeats: Vec<bool>,
    pub(crate) relocated: Relocated,
    #[serde(skip)]
    index: FxHashMap<Line, LineIndex>,
}

impl AsMut<Trace> for Trace {
    fn as_mut(&mut self) -> &mut Trace {
        self
    }
}

impl Trace {
    pub(crate) fn new(threads: usize, start: Arc<[u8]>, dram_bytes: u64) -> Trace {
        Trace {
            room: start.len() as u64,
            events: Vec::new(),
            stores: Vec::new(),
            lines: Vec::new(),
            threads,
            start,
            dram_bytes,
            accesses: Vec::new(),
            handovers: Vec::new(),
            met: Vec::new(),
            crossed: Vec::new(),
            repeats: Vec::new(),
            relocated: Relocated::default(),
            index: FxHashMap::default(),
        }
    }

    /// A trace of a run that did nothing, from no memory.
    pub(crate) fn empty(threads: usize) -> Trace {
        Trace::new(threads, Arc::default(), 0)
    }

    /// The events, in the order in which they took effect.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// The stores to persistent memory, in the order in which they took effect.
    pub fn stores(&self) -> &[Store] {
        &self.stores
    }

    /// Whether a thread reported an operation as done.
    pub(crate) fn has_output(&self) -> bool {
        self.events.iter().any(|event| matches!(event.kind, Kind::Output { .. }))
    }

    /// Bytes of the pool before event `event`, if it has grown by then.
    pub(crate) fn grown_before(&self, event: usize) -> Option<u64> {
        self.events[..event].iter().rev().find_map(|event| event.kind.grown())
    }

    /// A hash of all events and stores, and of the initial memory.
    pub fn digest(&self) -> u64 {
        let mut hash = FxHasher::default();
        self.start.hash(&mut hash);
        for Event { thread, kind, at, .. } in &self.events {
            (thread, format!("{kind:?}"), at.to_string()).hash(&mut hash);
        }
        for store in &self.stores {
            (store.at.bits(), store.width.bytes(), store.new).hash(&mut hash);
        }
        hash.finish()
    }

    /// The trace of another process: of a run that started from `start`, with its sites named.
    #[must_use]
    pub fn received(mut self, start: Arc<[u8]>, mut name: impl FnMut(Site) -> Site) -> Trace {
        self.room = start.len() as u64;
        self.start = start;
        self.index = self.lines.iter().zip(0..).map(|(log, number)| (log.line, number)).collect();
        self.events.iter_mut().for_each(|event| event.at = name(event.at));
        self
    }

    /// The number of each word that was stored to, with its last value.
    pub fn last_words(&self) -> impl Iterator<Item = (u64, u64)> {
        let last = |log: &LineLog| {
            let of = move |(n, values): (u64, &Vec<(u32, u64)>)| {
                values.last().map(|(_, value)| (8 * log.line.0 + n, *value))
            };
            (0..).zip(&log.words).filter_map(of).collect::<Vec<_>>()
        };
        self.lines.iter().flat_map(last)
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// True if both did the same to memory, in the same order and from the same call sites.
    pub(crate) fn is_same(&self, other: &Trace) -> bool {
        let stores = |trace: &Trace| {
            trace.stores.iter().map(|s| (s.at, s.width, s.change.new, s.part)).collect::<Vec<_>>()
        };
        let lines = |trace: &Trace| trace.lines.iter().map(|log| log.line).collect::<Vec<_>>();
        let same = |(a, b): (&Event, &Event)| (a.thread, a.kind, a.at) == (b.thread, b.kind, b.at);
        self.events.len() == other.events.len()
            && self.events.iter().zip(&other.events).all(same)
            && stores(self) == stores(other)
            && lines(self) == lines(other)
    }

    pub(crate) fn line(&mut self, line: Line) -> LineIndex {
        *self.index.entry(line).or_insert_with(|| {
            self.lines.push(LineLog::new(line, None));
            self.lines.len() as u32 - 1
        })
    }

    pub(crate) fn find_line(&self, line: Line) -> Option<LineIndex> {
        self.index.get(&line).copied()
    }

    pub(crate) fn add_store(
        &mut self,
        at: Addr,
        width: Width,
        change: WordChange,
        part: Part,
    ) -> u32 {
        let line = self.line(at.line());
        let shift = at.offset() % 8 * 8;
        let of = |word: u64| word >> shift & width.mask();
        let number = self.stores.len() as u32;
        let event = self.events.len() as u32;
        let (old, new) = (of(change.old), of(change.new));
        self.stores.push(Store { at, width, old, new, event, line, change, part });
        self.lines[line as usize].add(number, change);
        number
    }

    /// The log that holds the word, if its line was used.
    pub(crate) fn log_of(&self, word: u32) -> Option<LineIndex> {
        let first = self.find_line(Line(u64::from(word / 8)))?;
        Some(self.lane_of(first, word))
    }

    /// The log that holds the word, of those of its line, which start with `first`.
    #[inline]
    pub(crate) fn lane_of(&self, first: LineIndex, word: u32) -> LineIndex {
        first + self.lines[first as usize].lane.map_or(0, |_| word % 8)
    }

    /// The first log of the line that this one belongs to.
    pub(crate) fn line_of(&self, log: LineIndex) -> LineIndex {
        log - LineIndex::from(self.lines[log as usize].lane.unwrap_or(0))
    }

    /// The lines of which words may persist on their own: those with non-temporal stores, under a
    /// model that has them, and those with several words of one write that a crash may tear.
    fn split_lines(&self, model: Model) -> Vec<bool> {
        let mut split = vec![false; self.lines.len()];
        let mut last = vec![Part::Alone; self.lines.len()];
        for event in &self.events {
            let Some(store) = event.kind.store() else { continue };
            let store = &self.stores[store as usize];
            let is_nt = matches!(event.kind, Kind::StoreNt { .. }) && model.buffers_stores();
            let last = std::mem::replace(&mut last[store.line as usize], store.part);
            let is_more = store.part.is_torn() && store.part == last;
            split[store.line as usize] |= is_nt || is_more;
        }
        split
    }

    /// The trace with a log for each word of a line whose words may persist on their own; `None` if
    /// there are none. (Lines that hardware copied stay whole.)
    pub(crate) fn by_lanes(&self, model: Model) -> Option<Trace> {
        let mut split = self.split_lines(model);
        self.relocated.copied.iter().for_each(|copied| split[copied.line as usize] = false);
        if !split.contains(&true) {
            return None;
        }
        let mut trace = self.clone();
        trace.lines.clear();
        let mut first = Vec::new();
        for (log, split) in self.lines.iter().zip(&split) {
            first.push(trace.lines.len() as LineIndex);
            if *split {
                trace.lines.extend((0..8).map(|lane| LineLog::new(log.line, Some(lane))));
            } else {
                trace.lines.push(log.clone());
            }
        }
        for (number, store) in trace.stores.iter_mut().enumerate() {
            let old = store.line as usize;
            store.line = first[old];
            if split[old] {
                store.line += store.change.word % 8;
                trace.lines[store.line as usize].add(number as u32, store.change);
            }
        }
        for event in &mut trace.events {
            if let Kind::Flush { line } | Kind::WroteBack { line } | Kind::Read { line, .. } =
                &mut event.kind
            {
                *line = first[*line as usize];
            }
        }
        trace.relocated.copied.iter_mut().for_each(|one| one.line = first[one.line as usize]);
        trace.index.values_mut().for_each(|line| *line = first[*line as usize]);
        Some(trace)
    }
}

/// The lines to which a run stored, or may have stored.
pub(crate) fn lines_stored(trace: &Trace) -> impl Iterator<Item = usize> {
    let stored = trace.lines.iter().filter(|log| !log.stores.is_empty());
    let bits = trace.relocated.copied.iter().map(|bit| bit.word as usize / 8);
    stored.map(|log| log.line.0 as usize).chain(bits)
}
