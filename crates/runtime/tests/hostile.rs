//! Logs of the largest size that were written by somebody who wants recovery to take for ever: it
//! reads each of their words at most twice.

use seawall_memory::{Addr, Fence, Memory, MemoryExt, ThreadSlots, Width};
use seawall_runtime::{Heap, HeapError, HeapOptions};
use seawall_testkit::places::{LINE, Places, checked};
use seawall_testkit::script::NAME;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// The largest size of a log half.
const LARGEST: u64 = 1 << 30;
const ZONE_BYTES: u64 = 64 << 10;

/// What a line of a log says that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// Nothing.
    Empty,
    /// A record of that generation, as long as the log has room.
    Record(u64),
}

/// A pool whose words are zero but for those that were stored and the headers in its logs. It
/// counts the words of logs that are read.
struct Hostile {
    words: RefCell<BTreeMap<Addr, u64>>,
    claim: fn(u64) -> Claim,
    lines: u64,
    places: Cell<Option<(Places, [u8; 256])>>,
    reads: Cell<u64>,
}

impl Hostile {
    /// A heap with a log of which every line claims what `claim` says of its number.
    fn with(log_bytes: u64, claim: fn(u64) -> Claim) -> (Hostile, u64) {
        let options = HeapOptions { threads: 1, log_bytes, ..HeapOptions::default() };
        let hostile = Hostile {
            words: RefCell::default(),
            claim,
            lines: log_bytes / LINE as u64,
            places: Cell::new(None),
            reads: Cell::new(0),
        };
        Heap::create(&hostile, NAME, 7, &options).expect("good options");
        hostile.say_that_logs_are_full(log_bytes);
        let mut start = [0; 256];
        hostile.read(Addr::pm(0), &mut start);
        hostile.places.set(Some((Places::of(&start), start)));
        hostile.words.borrow_mut().retain(|at, _| at.is_pm());
        (hostile, options.pm_bytes())
    }

    /// Of the generations that count, in all three logs.
    fn say_that_logs_are_full(&self, log_bytes: u64) {
        let mut start = [0; 256];
        self.read(Addr::pm(0), &mut start);
        let thread = Places::of(&start).thread;
        for (word, generation) in [(2, 2), (3, 1), (4, 1)] {
            let at = thread + 8 * word;
            let value = generation << 14 | (log_bytes / ZONE_BYTES - 1);
            self.store(Addr::pm(at as u64), checked(at, value));
        }
    }

    /// The word at `at`, if it is in a log.
    fn forged(&self, at: Addr) -> Option<u64> {
        let (places, start) = self.places.get()?;
        let offset = at.offset() as usize;
        if !at.is_pm() || !(places.logs..places.table).contains(&offset) {
            return None;
        }
        self.reads.set(self.reads.get() + 1);
        let log = (offset - places.logs) / places.log_bytes;
        let line = places.line(log, offset);
        match (self.claim)(line as u64) {
            Claim::Record(generation) if offset % LINE == 16 => {
                let lines = self.lines - line as u64;
                Some(places.veiled(&start, log, line, generation << 24 | (lines - 1)))
            }
            _ => Some(0),
        }
    }
}

impl Memory for Hostile {
    fn thread(&self) -> usize {
        0
    }

    fn slots(&self) -> Option<&ThreadSlots> {
        None
    }

    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        let stored = || self.words.borrow().get(&at).copied().unwrap_or(0);
        self.forged(at).unwrap_or_else(stored) & width.mask()
    }

    fn store_bits(&self, at: Addr, _: Width, value: u64) {
        self.words.borrow_mut().insert(at, value);
    }

    /// Of long ranges only the first line is shown; the rest stays zero, which is as bad.
    fn read(&self, at: Addr, into: &mut [u8]) {
        let words = into.len() as u64 / 8;
        for (word, bytes) in (0..).zip(into.chunks_mut(8)).take(LINE / 2) {
            let bits = self.load_bits(at.plus(8 * word), Width::B8).to_le_bytes();
            bytes.copy_from_slice(&bits[..bytes.len()]);
        }
        self.reads.set(self.reads.get() + words.saturating_sub(LINE as u64 / 2));
    }

    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        let found = self.load_bits(at, Width::B8);
        if found != current {
            return Err(found);
        }
        self.store_bits(at, Width::B8, new);
        Ok(found)
    }

    fn swap(&self, at: Addr, new: u64) -> u64 {
        let found = self.load_bits(at, Width::B8);
        self.store_bits(at, Width::B8, new);
        found
    }

    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        self.swap(at, self.load_bits(at, Width::B8).wrapping_add(by))
    }

    fn flush(&self, _: Addr, _: u64) {}

    fn fence(&self, _: Fence) {}

    fn work(&self, _: u32) {}

    fn spin_while(&self, at: Addr, _: u64) -> u64 {
        self.load_bits(at, Width::B8)
    }

    fn output(&self, _: u64) {}
}

/// What opening comes to, and the words of logs that it read for each line of the three logs.
fn open(log_bytes: u64, claim: fn(u64) -> Claim) -> (Result<(), HeapError>, f64) {
    let (hostile, bytes) = Hostile::with(log_bytes, claim);
    let outcome = Heap::open(&hostile, NAME, bytes).map(|_| ());
    (outcome, hostile.reads.get() as f64 / (3 * hostile.lines) as f64)
}

#[test]
fn of_logs_of_the_largest_size_only_what_was_used_is_read() {
    let (hostile, bytes) = Hostile::with(LARGEST, |_| Claim::Empty);
    hostile.words.borrow_mut().retain(|at, _| {
        let thread = hostile.places.get().expect("set").0.thread as u64;
        !(thread + 16..thread + 40).contains(&at.offset())
    });
    Heap::open(&hostile, NAME, bytes).expect("an empty heap");
    let lines = 3 * ZONE_BYTES / LINE as u64;
    assert!((1..=lines + 8).contains(&hostile.reads.get()), "{} words", hostile.reads.get());
}

#[test]
fn a_log_of_the_largest_size_full_of_headers_is_read_once() {
    let (outcome, reads) = open(LARGEST, |_| Claim::Record(1));
    let error = outcome.expect_err("headers behind what is not whole").to_string();
    assert!(error.contains("does not add up before another"), "{error}");
    assert!(reads < 9.1, "{reads} words a line");
}

#[test]
fn a_log_of_the_largest_size_without_a_whole_record_is_read_once() {
    let first = |line| if line == 0 { Claim::Record(1) } else { Claim::Empty };
    let (outcome, reads) = open(LARGEST, first);
    assert_eq!(outcome, Ok(()));
    assert!((1.0..9.1).contains(&reads), "{reads} words a line");
}

#[test]
fn headers_of_generations_that_do_not_count_are_read_once() {
    let (outcome, reads) = open(LARGEST >> 6, |line| Claim::Record(3 + line));
    assert_eq!(outcome, Ok(()));
    assert!((1.0..9.1).contains(&reads), "{reads} words a line");
}
