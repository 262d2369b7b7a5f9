//! An undo log as in NVML of 2016: every step is durable before the next one begins.
//!
//! WHISPER ("An Analysis of Persistent Memory Use with WHISPER", ASPLOS'17, section 3) describes
//! its transactions: before a range changes, its old bytes go into a log entry, which a separate
//! mark makes valid; at commit the changed ranges are written back, the state of the lane records
//! the commit, and the entries are cleared. Each of these is an epoch, most of one line, and the
//! log starts at its beginning in each transaction, so most epochs write lines that a recent one
//! wrote. The [epoch log](crate::shared::epoch_log) and the heap of the runtime do the same with
//! few fences; programs of that time did not.
//!
//! As in "Relaxed Persist Ordering Using Strand Persistency" (StrandWeaver, ISCA'20, section V), an
//! entry, its mark and the change are in a [`strand`](MemoryExt::strand), and commit joins the
//! strands before it changes the state. After a crash any strand can be missing, entry and change:
//! no two entries hold the same word, so each word with a valid entry gets its old value back.
//!
//! A thread has a lane: a line with its state, and entries of a fixed size.
//!
//! | word of an entry | holds |
//! |---|---|
//! | 0 | the mark: 1 if the entry is valid |
//! | 1 | the address in the low 48 bits, the count of words above |
//! | 2.. | the old words |
//!
//! After a crash: with the state [`WORKS`], valid entries are restored, last one first; with
//! [`COMMITTED`] they are only cleared. In both cases no entry is valid afterwards. Lanes are
//! independent of each other: threads that share data must not change the same words.

use super::client::Client;
use crate::Damage;
use crate::shared::epoch_log::OrderFlaw;
use seawall_memory::{Addr, LINE_BYTES, Line, Memory, MemoryExt, lines_of};
use seawall_runtime::Arena;
use seawall_runtime::pool::HEADER_BYTES;

const MARK: u64 = 0;
const HEAD: u64 = 8;
const OLD: u64 = 16;
const COUNT_SHIFT: u32 = 48;

/// State of a lane: a transaction is under way, or none is.
const WORKS: u64 = 0;
/// State of a lane: its transaction has made all its changes.
const COMMITTED: u64 = 1;

/// The lanes of a pool, one per thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Undo {
    lanes: Addr,
    threads: u64,
    entries: u64,
    entry_lines: u64,
}

/// The volatile work of a transaction system: function calls per ordered step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overhead {
    /// The front end in which the calls run.
    pub(crate) client: Client,
    /// The hash of the request.
    pub(crate) hash: u64,
    /// Calls for each step.
    pub(crate) calls: u64,
}

impl Undo {
    /// Places lanes of `entries` entries, each of `entry_lines` lines.
    pub(crate) fn place(arena: &mut Arena, threads: u64, entries: u64, entry_lines: u64) -> Undo {
        let undo = Undo { lanes: Addr::NULL, threads, entries, entry_lines };
        Undo { lanes: arena.pm(threads * undo.stride()), ..undo }
    }

    const fn stride(&self) -> u64 {
        LINE_BYTES * (1 + self.entries * self.entry_lines)
    }

    fn lane(&self, thread: u64) -> Addr {
        assert!(thread < self.threads, "thread {thread} in a pool for {}", self.threads);
        self.lanes.plus(thread * self.stride())
    }

    fn entry(&self, lane: Addr, entry: u64) -> Addr {
        lane.plus(LINE_BYTES * (1 + entry * self.entry_lines))
    }

    /// Words that an entry holds.
    const fn words(&self) -> u64 {
        (self.entry_lines * LINE_BYTES - OLD) / 8
    }

    /// Undoes the transactions that a crash interrupted and clears the logs of committed ones, in a
    /// pool of `pm_bytes` bytes. After a crash before it returns, a second call finishes the
    /// recovery.
    ///
    /// # Errors
    /// If an entry was not written by a transaction; then nothing was changed.
    pub(crate) fn recover<M: Memory>(&self, memory: &M, pm_bytes: u64) -> Result<(), Damage> {
        let mut left = Vec::new();
        for thread in 0..self.threads {
            let lane = self.lane(thread);
            let counts = |entry: &u64| memory.load::<u64>(self.entry(lane, *entry).plus(MARK)) != 0;
            let entries: Vec<u64> = (0..self.entries).filter(counts).collect();
            let is_committed = memory.load::<u64>(lane) == COMMITTED;
            if is_committed || !entries.is_empty() {
                for entry in &entries {
                    self.check(memory, self.entry(lane, *entry), pm_bytes)?;
                }
                left.push((lane, is_committed, entries));
            }
        }
        for (lane, is_committed, entries) in &left {
            if !is_committed {
                for entry in entries.iter().rev() {
                    self.put_back(memory, self.entry(*lane, *entry));
                }
                memory.drain();
            }
            for entry in entries.iter().rev() {
                self.clear(memory, *lane, [*entry].into_iter());
                memory.order();
            }
            memory.store(*lane, WORKS);
            memory.persist(*lane, 8);
        }
        Ok(())
    }

    /// Rejects an entry for anything but data in the pool.
    fn check<M: Memory>(&self, memory: &M, entry: Addr, pm_bytes: u64) -> Result<(), Damage> {
        let (at, words) = head(memory, entry);
        let end = at.bits() + 8 * words;
        let lanes = self.lanes.bits()..self.lanes.plus(self.threads * self.stride()).bits();
        let in_lanes = at.bits() < lanes.end && end > lanes.start;
        let is_data = at.bits() >= HEADER_BYTES && end <= pm_bytes && !in_lanes;
        if is_data && words <= self.words() && at.bits().is_multiple_of(8) {
            return Ok(());
        }
        Err(Damage(format!(
            "the log entry at {entry} would put back {words} words at {at}, outside the pool's \
             data: no crash does that; restore the pool from a copy"
        )))
    }

    fn put_back<M: Memory>(&self, memory: &M, entry: Addr) {
        let (at, words) = head(memory, entry);
        for word in 0..words {
            let old = memory.load::<u64>(entry.plus(OLD + 8 * word));
            memory.store(at.plus(8 * word), old);
        }
        memory.flush(at, 8 * words);
    }

    /// Invalidates `entries` of a lane; flushed, not ordered.
    fn clear<M: Memory>(&self, memory: &M, lane: Addr, entries: impl Iterator<Item = u64>) {
        for entry in entries {
            let entry = self.entry(lane, entry);
            memory.store(entry.plus(MARK), 0u64);
            memory.flush(entry.plus(MARK), 8);
        }
    }
}

/// The address of the words of an entry, and their number.
fn head<M: Memory>(memory: &M, entry: Addr) -> (Addr, u64) {
    let head = memory.load::<u64>(entry.plus(HEAD));
    (Addr::pm(head & ((1 << COUNT_SHIFT) - 1)), head >> COUNT_SHIFT)
}

/// A transaction on a lane, which has one at a time. The caller stores: it first adds a range, and
/// then changes it in place, in the same [`strand`](UndoTx::strand).
pub struct UndoTx<'a, M> {
    memory: &'a M,
    undo: &'a Undo,
    thread: u64,
    overhead: Overhead,
    flaw: OrderFlaw,
    entries: u64,
    /// The ranges that can be changed, and the part that commit writes back.
    ranges: Vec<(Addr, u64)>,
    dirty: Vec<(Addr, u64)>,
    freed: Vec<Addr>,
    /// Words of bitmaps, with the bits that commit sets and clears.
    bits: Vec<(Addr, u64, u64)>,
}

impl<'a, M: Memory> UndoTx<'a, M> {
    /// Begins a transaction on the lane of `thread`, which orders nothing yet.
    pub(crate) fn begin(
        memory: &'a M,
        undo: &'a Undo,
        thread: u64,
        overhead: Overhead,
        flaw: OrderFlaw,
    ) -> UndoTx<'a, M> {
        let (ranges, dirty, freed, bits) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        UndoTx { memory, undo, thread, overhead, flaw, entries: 0, ranges, dirty, freed, bits }
    }

    /// The thread whose lane and blocks it uses.
    pub(crate) const fn thread(&self) -> u64 {
        self.thread
    }

    /// The memory that it runs on.
    pub(crate) fn memory(&self) -> &'a M {
        self.memory
    }

    /// True if the object at `at` was freed by this transaction, and so is not free before commit.
    pub(crate) fn has_freed(&self, at: Addr) -> bool {
        self.freed.contains(&at)
    }

    /// Records that the object at `at` is freed if this transaction commits.
    pub(crate) fn note_freed(&mut self, at: Addr) {
        self.freed.push(at);
    }

    /// The bits that commit sets in the word at `at`.
    pub(crate) fn set_at_commit(&self, at: Addr) -> u64 {
        self.bits.iter().find(|bits| bits.0 == at).map_or(0, |bits| bits.1)
    }

    /// Lets commit set some bits of the word at `at` and clear others, in one change of the word.
    pub(crate) fn at_commit(&mut self, at: Addr, set: u64, clear: u64) {
        let place = self.bits.iter().position(|bits| bits.0 == at).unwrap_or_else(|| {
            self.bits.push((at, 0, 0));
            self.bits.len() - 1
        });
        let bits = &mut self.bits[place];
        let unused = bits.1 & clear;
        bits.1 = (bits.1 & !unused) | set;
        bits.2 |= clear & !unused;
    }

    fn change_bits(&mut self) {
        let memory = self.memory;
        for (at, set, clear) in std::mem::take(&mut self.bits) {
            self.strand();
            self.add(at, 1);
            memory.store(at, (memory.load::<u64>(at) & !clear) | set);
        }
    }

    /// Begins a strand: ranges saved and changed from here on persist independently of earlier
    /// ones. Every range saved so far must have been changed, at least one word of each line: later
    /// stores to such a line persist behind that change.
    pub(crate) fn strand(&self) {
        self.memory.strand();
    }

    /// Saves `words` aligned words from `at`, which can be changed from now on; two epochs, none if
    /// they are saved or fresh.
    ///
    /// # Panics
    /// If the lane is full, or some of the words, and not all, are saved or fresh.
    pub(crate) fn add(&mut self, at: Addr, words: u64) {
        if self.add_only(at, words) {
            self.dirty.push((at, words));
        }
    }

    /// As [`add`](UndoTx::add), for words that the caller writes back itself, before commit.
    /// Returns whether they had not been saved yet.
    ///
    /// # Panics
    /// See [`add`](UndoTx::add).
    pub(crate) fn add_only(&mut self, at: Addr, words: u64) -> bool {
        let end = at.bits() + 8 * words;
        let has = |(from, words): &(Addr, u64)| *from <= at && end <= from.bits() + 8 * words;
        if self.ranges.iter().any(has) {
            return false;
        }
        let meets = |(from, words): &(Addr, u64)| from.bits() < end && at < from.plus(8 * words);
        assert!(!self.ranges.iter().any(meets), "of {words} words at {at} some are saved");
        let most = self.undo.words();
        for first in (0..words).step_by(most as usize) {
            self.save(at.plus(8 * first), most.min(words - first));
        }
        self.ranges.push((at, words));
        true
    }

    fn save(&mut self, at: Addr, words: u64) {
        let Undo { entries, .. } = *self.undo;
        assert!(self.entries < entries, "a transaction saves more than {entries} ranges");
        let memory = self.memory;
        let entry = self.undo.entry(self.lane(), self.entries);
        self.entries += 1;
        for word in 0..words {
            let old = memory.load::<u64>(at.plus(8 * word));
            memory.store(entry.plus(OLD + 8 * word), old);
        }
        memory.store(entry.plus(HEAD), at.bits() | words << COUNT_SHIFT);
        memory.work(words as u32 + 4);
        self.save_step(entry.plus(HEAD), 8 * (words + 1));
        memory.store(entry.plus(MARK), 1u64);
        self.save_step(entry.plus(MARK), 8);
    }

    /// Ends a step of the log, which makes data recoverable.
    fn save_step(&self, at: Addr, bytes: u64) {
        if self.flaw != OrderFlaw::NoFlush {
            self.memory.flush(at, bytes);
        }
        if self.flaw != OrderFlaw::NoOrder {
            self.memory.order();
        }
        self.work();
    }

    /// Declares `words` words from `at` unreachable: they can be changed, in a strand that begins
    /// here, and are durable when the transaction is.
    pub(crate) fn fresh(&mut self, at: Addr, words: u64) {
        self.strand();
        self.ranges.push((at, words));
        self.dirty.push((at, words));
    }

    /// Orders the flushed lines as a separate epoch.
    pub(crate) fn step(&self) {
        self.memory.order();
        self.work();
    }

    fn work(&self) {
        let Overhead { client, hash, calls } = self.overhead;
        client.calls(self.memory, hash ^ self.entries, calls);
    }

    fn lane(&self) -> Addr {
        self.undo.lane(self.thread)
    }

    /// Makes the changes durable: a crash before it returns keeps all of them or none, a later one
    /// keeps all. Four epochs; none if nothing was added.
    pub(crate) fn commit(mut self) {
        self.change_bits();
        if self.ranges.is_empty() {
            return;
        }
        let (memory, lane) = (self.memory, self.lane());
        let line = |(at, words): &(Addr, u64)| lines_of(*at, 8 * words).collect::<Vec<Line>>();
        let mut lines: Vec<Line> = self.dirty.iter().flat_map(line).collect();
        lines.sort_unstable();
        lines.dedup();
        for line in &lines {
            memory.flush(line.start(), LINE_BYTES);
        }
        memory.join_strands();
        self.work();
        memory.store(lane, COMMITTED);
        memory.flush(lane, 8);
        self.step();
        self.undo.clear(memory, lane, 0..self.entries);
        self.step();
        memory.store(lane, WORKS);
        memory.persist(lane, 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_memory::Image;

    const DATA: u64 = 40;

    fn place() -> (Image, Undo, Addr, Overhead, u64) {
        let mut arena = Arena::new();
        let undo = Undo::place(&mut arena, 1, 8, 1);
        let data = arena.pm(8 * DATA);
        let client = Client::place(&mut arena, 1);
        let image = Image::new(arena.pm_bytes(), arena.dram_bytes());
        (image, undo, data, Overhead { client, hash: 1, calls: 1 }, arena.pm_bytes())
    }

    fn values(image: &Image, data: Addr) -> Vec<u64> {
        (0..DATA).map(|word| image.load(data.plus(8 * word))).collect()
    }

    #[test]
    fn a_committed_transaction_stays_and_one_that_was_cut_short_is_taken_back() {
        let (image, undo, data, overhead, bytes) = place();
        let change = |value: u64| {
            let mut tx = UndoTx::begin(&image, &undo, 0, overhead, OrderFlaw::None);
            tx.add(data, 20);
            tx.add(data.plus(8), 3);
            (0..20).for_each(|word| image.store(data.plus(8 * word), value + word));
            tx.add(data.plus(8), 3);
            image.store(data.plus(8), value);
            tx
        };
        change(100).commit();
        let committed = values(&image, data);
        assert_eq!(committed[..3], [100, 100, 102]);
        assert_eq!(undo.recover(&image, bytes), Ok(()));
        assert_eq!(values(&image, data), committed);
        drop(change(500));
        assert_ne!(values(&image, data), committed);
        assert_eq!(undo.recover(&image, bytes), Ok(()));
        assert_eq!(values(&image, data), committed);
        image.store(data, 9u64);
        assert_eq!(undo.recover(&image, bytes), Ok(()));
        assert_eq!(image.load::<u64>(data), 9, "the log is empty after a recovery");
    }

    #[test]
    fn an_entry_that_no_transaction_wrote_is_refused() {
        let (image, undo, data, _, bytes) = place();
        let entry = undo.entry(undo.lane(0), 2);
        image.store(entry.plus(MARK), 1u64);
        for (at, words) in [(data.bits(), 7), (0, 1), (bytes, 1), (entry.bits(), 1), (bytes - 1, 1)]
        {
            image.store(entry.plus(HEAD), at | words << COUNT_SHIFT);
            let refused = undo.recover(&image, bytes).unwrap_err().to_string();
            assert!(refused.contains("would put back"), "{refused}");
        }
        image.store(entry.plus(HEAD), data.bits() | 6 << COUNT_SHIFT);
        assert_eq!(undo.recover(&image, bytes), Ok(()));
    }

    #[test]
    #[should_panic(expected = "some are saved")]
    fn a_range_that_is_saved_in_part_says_so() {
        let (image, undo, data, overhead, _) = place();
        let mut tx = UndoTx::begin(&image, &undo, 0, overhead, OrderFlaw::None);
        tx.add(data, 3);
        tx.add(data.plus(24), 2);
        tx.add(data.plus(16), 3);
    }

    #[test]
    #[should_panic(expected = "saves more than 8 ranges")]
    fn a_lane_that_is_full_says_so() {
        let (image, undo, data, overhead, _) = place();
        let mut tx = UndoTx::begin(&image, &undo, 0, overhead, OrderFlaw::None);
        (0..9).for_each(|word| tx.add(data.plus(8 * word), 1));
    }
}
