//! The micro-benchmark of "Logging in Persistent Memory: to Cache, or Not to Cache?" (MEMSYS'17).
//!
//! Slide 6: make a random string, log key and string, fence, and only then store the string in the
//! structure; so it is a redo log, which the paper never truncates. The slides show the array and
//! name the other structures. As there, only the log serves recovery: the structure itself is
//! neither flushed nor checked, and [`Log::CachedUnflushed`], the paper's cacheable log, is not
//! durable either. It is measured because the paper measures it.
//!
//! Keys are 4 bytes; in the array they are the numbers, in the others a fixed permutation of the
//! numbers, so that a tree is not built in sorted order. A character of the string is one step of a
//! random generator, as in a C program; [`Input::work`] is its cost on machines where computation
//! itself takes no time.

use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::{Route, RouteChoice, RouteCounts};
use std::fmt;
use std::str::FromStr;

mod structures;

pub use structures::Structure;
use structures::Table;

/// Bytes of a key in the log.
const KEY_BYTES: u64 = 4;
/// Turns a number into a key: odd, so that the keys are distinct.
const SPREAD: u32 = 0x9e37_79b1;

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Log {
    /// The paper's cacheable log: stores and a fence, no flush. Not durable.
    CachedUnflushed,
    /// The same, with the record's lines flushed before the fence.
    CachedFlushed,
    /// The paper's uncacheable log: a non-temporal store for every 4 bytes, records packed.
    Uncached,
    /// Records in separate lines, by a [`Route`].
    Lines(RouteChoice),
}

impl Log {
    /// All logs, the paper's two first.
    pub const ALL: [Log; 6] = [
        Log::CachedUnflushed,
        Log::Uncached,
        Log::CachedFlushed,
        Log::Lines(RouteChoice::Cached),
        Log::Lines(RouteChoice::Uncached),
        Log::Lines(RouteChoice::Adaptive),
    ];

    /// The name in files and output.
    pub const fn name(self) -> &'static str {
        match self {
            Log::CachedUnflushed => "cached-unflushed",
            Log::CachedFlushed => "cached",
            Log::Uncached => "uncached",
            Log::Lines(RouteChoice::Cached) => "cached-lines",
            Log::Lines(RouteChoice::Uncached) => "uncached-lines",
            Log::Lines(RouteChoice::Adaptive) => "adaptive",
        }
    }

    /// True if a record is durable once it is fenced.
    pub const fn is_durable(self) -> bool {
        !matches!(self, Log::CachedUnflushed)
    }

    /// Bytes of the log for a record with a value of `value_bytes`.
    pub const fn record_bytes(self, value_bytes: u64) -> u64 {
        let bytes = KEY_BYTES + value_bytes;
        match self {
            Log::Lines(_) => bytes.next_multiple_of(LINE_BYTES),
            _ => bytes,
        }
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An unknown name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no {what} '{name}'; known: {known}")]
pub struct UnknownName {
    /// The kind of the name.
    pub what: &'static str,
    /// The name.
    pub name: String,
    /// The known names.
    pub known: String,
}

impl UnknownName {
    fn of(what: &'static str, name: &str, known: &[&str]) -> UnknownName {
        UnknownName { what, name: name.into(), known: known.join(", ") }
    }
}

impl FromStr for Log {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Log, UnknownName> {
        let known = Log::ALL.map(Log::name);
        let found = Log::ALL.into_iter().find(|log| log.name() == name);
        found.ok_or_else(|| UnknownName::of("log", name, &known))
    }
}

/// A run of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Input {
    /// The structure that stores the strings.
    pub structure: Structure,
    /// How the log is written.
    pub log: Log,
    /// Bytes of a string, a multiple of 4, at least 4.
    pub value_bytes: u64,
    /// The number of strings, at least 1.
    pub records: u64,
    /// Instructions to charge for making a string, and for each of its bytes; zero on machines that
    /// execute them themselves.
    pub work: (u32, u32),
    /// Seed of the strings.
    pub seed: u64,
}

impl Input {
    fn table(&self) -> Table {
        Table::place(self.structure, self.value_bytes, self.records, Addr::pm(LINE_BYTES))
    }

    fn log_at(&self) -> u64 {
        (LINE_BYTES + self.table().bytes()).next_multiple_of(LINE_BYTES)
    }

    /// Bytes of persistent memory that the run uses.
    pub fn pm_bytes(&self) -> u64 {
        let log = self.records * self.log.record_bytes(self.value_bytes);
        (self.log_at() + log).next_multiple_of(LINE_BYTES)
    }

    /// Prepares used memory for the run, untimed: the log zero and in no cache, then as
    /// [`initialise`](Input::initialise).
    pub fn prepare<M: Memory>(&self, memory: &M) {
        let line = [0; LINE_BYTES as usize];
        for at in (self.log_at()..self.pm_bytes()).step_by(line.len()) {
            memory.write_nt(Addr::pm(at), &line);
        }
        self.initialise(memory);
    }

    /// Prepares fresh zeroed memory for the run, untimed: the structure empty, and in the caches as
    /// far as it stays there when it is written sequentially.
    pub fn initialise<M: Memory>(&self, memory: &M) {
        let line = [0; LINE_BYTES as usize];
        for at in (LINE_BYTES..self.log_at()).step_by(line.len()) {
            memory.write(Addr::pm(at), &line);
        }
        memory.drain();
    }

    /// Runs the timed loop of slide 6.
    pub fn run<M: Memory>(&self, memory: &M) -> RouteCounts {
        let mut table = self.table();
        let choice = if let Log::Lines(choice) = self.log { choice } else { RouteChoice::Cached };
        let mut route = Route::new(choice);
        let mut characters = Characters(self.seed);
        let used = (KEY_BYTES + self.value_bytes) as usize;
        let record_bytes = self.log.record_bytes(self.value_bytes);
        let mut record = vec![0; record_bytes as usize];
        let work = self.work.0 + self.work.1 * self.value_bytes as u32;
        let mut at = Addr::pm(self.log_at());
        for number in 0..self.records {
            let key = self.structure.key(number as u32);
            characters.fill(&mut record[KEY_BYTES as usize..used]);
            memory.work(work);
            record[..KEY_BYTES as usize].copy_from_slice(&key.to_le_bytes());
            match self.log {
                Log::CachedUnflushed => memory.write(at, &record),
                Log::CachedFlushed => {
                    memory.write(at, &record);
                    memory.flush(at, record_bytes);
                }
                Log::Uncached => {
                    for (part, bytes) in (0..).zip(record.chunks_exact(4)) {
                        memory.write_nt(at.plus(4 * part), bytes);
                    }
                }
                Log::Lines(_) => route.write(memory, at, &record),
            }
            memory.order();
            route.fenced(memory);
            table.put(memory, key, &record[KEY_BYTES as usize..used]);
            at = at.plus(record_bytes);
        }
        route.counts()
    }
}

/// A random string, character by character.
struct Characters(u64);

impl Characters {
    fn fill(&mut self, into: &mut [u8]) {
        for byte in into {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = b'a' + ((self.0 >> 33) % 26) as u8;
        }
    }
}

#[cfg(test)]
mod tests;
