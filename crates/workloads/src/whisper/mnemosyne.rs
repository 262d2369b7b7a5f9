//! Durable transactions as in Mnemosyne ("Mnemosyne: Lightweight Persistent Memory", ASPLOS'11,
//! sections 4 and 5): a redo log below a software transactional memory.
//!
//! A transaction collects its writes in DRAM and commits in four epochs: the records of the log, by
//! non-temporal stores; the word that commits them; the writes in place, and their lines flushed;
//! the same word again, as truncation. A drain ends the last one. Each thread has a log, a ring of
//! lines, in which the next transaction begins where the last one ended.
//!
//! | place | field |
//! |---|---|
//! | header, 8 bytes | records of the committed transaction and the line of the first; 0 if none |
//! | ring | records: an address, the word to be written there |
//!
//! Recovery performs the writes in the records of a committed transaction, and truncates the log.
//!
//! Below it is TinySTM, whose DRAM accesses are reproduced: each load reads the ownership record of
//! its address before and after and is added to the read set, each store is added to the write set,
//! and commit validates the read set and updates the ownership records of the write set. Its
//! purpose, mutual exclusion of transactions, is left to locks that the caller holds until commit
//! has returned, because a run must be reproducible under any interleaving.

use crate::{Damage, Flaw};
use seawall_memory::{Addr, LINE_BYTES, Line, Memory, MemoryExt};
use seawall_runtime::Arena;
use seawall_runtime::pool::HEADER_BYTES;

/// Lines of a thread's log.
const LINES: u64 = 1024;
const RECORD_BYTES: u64 = 16;
/// The committed word: the number of records, and above it the line of the first, plus 1.
const START_SHIFT: u32 = 32;

/// Ownership records of all threads, a word each.
const OWNERS: u64 = 4096;
/// Entries of a thread's read set and of its write set, which wrap around when they are full.
const SET_ENTRIES: u64 = 256;
const SET_BYTES: u64 = SET_ENTRIES * 16;

/// The logs of all threads, and the DRAM data of the transactional memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RedoLog {
    headers: Addr,
    rings: Addr,
    threads: u64,
    owners: Addr,
    sets: Addr,
}

/// The position of a thread in its log: the line at which its next transaction begins.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    line: u64,
}

impl RedoLog {
    pub(super) fn place(arena: &mut Arena, threads: u64) -> RedoLog {
        RedoLog {
            headers: arena.pm(threads * LINE_BYTES),
            rings: arena.pm(threads * LINES * LINE_BYTES),
            threads,
            owners: arena.dram(8 * OWNERS),
            sets: arena.dram(threads * 2 * SET_BYTES),
        }
    }

    fn header(&self, thread: u64) -> Addr {
        assert!(thread < self.threads, "thread {thread} in a pool for {}", self.threads);
        self.headers.plus(thread * LINE_BYTES)
    }

    fn ring(&self, thread: u64) -> Addr {
        self.rings.plus(thread * LINES * LINE_BYTES)
    }

    /// Finishes the transactions that had committed, in a pool of `pm_bytes`.
    ///
    /// # Errors
    /// If a log was not written by a transaction; then nothing was changed.
    pub(super) fn recover<M: Memory>(&self, memory: &M, pm_bytes: u64) -> Result<(), Damage> {
        let logs: Result<Vec<_>, Damage> =
            (0..self.threads).map(|thread| self.committed(memory, thread, pm_bytes)).collect();
        let writes: Vec<(Addr, u64)> = logs?.into_iter().flatten().collect();
        if writes.is_empty() {
            return Ok(());
        }
        for (at, value) in writes {
            memory.store(at, value);
            memory.flush(at, 8);
        }
        memory.drain();
        for thread in 0..self.threads {
            memory.store(self.header(thread), 0u64);
            memory.flush(self.header(thread), 8);
        }
        memory.drain();
        Ok(())
    }

    /// The writes of the committed transaction of `thread`; empty if there is none.
    fn committed<M: Memory>(
        &self,
        memory: &M,
        thread: u64,
        pm_bytes: u64,
    ) -> Result<Vec<(Addr, u64)>, Damage> {
        let word: u64 = memory.load(self.header(thread));
        if word == 0 {
            return Ok(Vec::new());
        }
        let torn = || Damage(format!("the log of thread {thread} is torn"));
        let (records, start) = (word & ((1 << START_SHIFT) - 1), word >> START_SHIFT);
        let first = start.checked_sub(1).ok_or_else(torn)? * LINE_BYTES;
        if records == 0 || first + records * RECORD_BYTES > LINES * LINE_BYTES {
            return Err(torn());
        }
        let record = |number: u64| {
            let at = self.ring(thread).plus(first + number * RECORD_BYTES);
            let to: u64 = memory.load(at);
            let write = (Addr::from_bits(to), memory.load(at.plus(8)));
            self.is_data(to, pm_bytes).then_some(write).ok_or_else(torn)
        };
        (0..records).map(record).collect()
    }

    /// True for the address of a word outside the header and the logs.
    fn is_data(&self, at: u64, pm_bytes: u64) -> bool {
        let in_log = (self.headers.bits()..self.ring(self.threads).bits()).contains(&at);
        at.is_multiple_of(8) && (HEADER_BYTES..pm_bytes).contains(&at) && !in_log
    }

    fn owner(&self, at: Addr) -> Addr {
        let hashed = (at.offset() / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.owners.plus(8 * (hashed >> 40 & (OWNERS - 1)))
    }
}

/// A transaction of the calling thread. Dropping it without commit leaves the pool unchanged.
pub(super) struct Tx<'a, M: Memory> {
    memory: &'a M,
    log: &'a RedoLog,
    cursor: &'a mut Cursor,
    thread: u64,
    reads: u64,
    writes: Vec<(Addr, u64)>,
    flaw: Flaw,
}

impl<'a, M: Memory> Tx<'a, M> {
    pub(super) fn begin(
        memory: &'a M,
        log: &'a RedoLog,
        cursor: &'a mut Cursor,
        flaw: Flaw,
    ) -> Tx<'a, M> {
        let thread = memory.thread() as u64;
        assert!(thread < log.threads, "thread {thread} in a pool for {}", log.threads);
        Tx { memory, log, cursor, thread, reads: 0, writes: Vec::new(), flaw }
    }

    /// An entry of the read set (0) or the write set (1).
    fn entry(&self, set: u64, number: u64) -> Addr {
        let sets = self.log.sets.plus((2 * self.thread + set) * SET_BYTES);
        sets.plus(16 * (number % SET_ENTRIES))
    }

    fn written(&self, at: Addr) -> Option<usize> {
        self.writes.iter().position(|(to, _)| *to == at)
    }

    /// The word at `at`, as this transaction sees it.
    #[track_caller]
    pub(super) fn load(&mut self, at: Addr) -> u64 {
        let memory = self.memory;
        let owner = self.log.owner(at);
        let before: u64 = memory.load(owner);
        memory.work(4);
        if let Some(write) = self.written(at) {
            return memory.load(self.entry(1, write as u64).plus(8));
        }
        let value = memory.load(at);
        memory.load::<u64>(owner);
        memory.store(self.entry(0, self.reads), owner);
        memory.store(self.entry(0, self.reads).plus(8), before);
        self.reads += 1;
        value
    }

    /// The address at `at`.
    #[track_caller]
    pub(super) fn follow(&mut self, at: Addr) -> Addr {
        Addr::from_bits(self.load(at))
    }

    /// Writes the word at `at` when the transaction commits.
    ///
    /// # Panics
    /// If it writes more words than its set has entries.
    #[track_caller]
    pub(super) fn store(&mut self, at: Addr, value: u64) {
        self.memory.load::<u64>(self.log.owner(at));
        self.memory.work(4);
        let write = self.written(at).unwrap_or(self.writes.len());
        assert!((write as u64) < SET_ENTRIES, "a transaction writes over {SET_ENTRIES} words");
        match self.writes.get_mut(write) {
            Some(known) => known.1 = value,
            None => self.writes.push((at, value)),
        }
        self.memory.store(self.entry(1, write as u64), at);
        self.memory.store(self.entry(1, write as u64).plus(8), value);
    }

    /// Adds to the word at `at`.
    #[track_caller]
    pub(super) fn add(&mut self, at: Addr, by: u64) {
        let value = self.load(at).wrapping_add(by);
        self.store(at, value);
    }

    /// Writes words of an unreachable object directly: they need no log, and are ordered with the
    /// records of this transaction.
    #[track_caller]
    pub(super) fn fresh(&mut self, at: Addr, words: &[u64]) {
        for (place, word) in (0..).zip(words) {
            self.memory.store(at.plus(8 * place), *word);
        }
        self.memory.flush(at, 8 * words.len() as u64);
    }

    /// Commits: after a crash all writes are in the pool or none; durable when it returns. A
    /// transaction without writes leaves the pool unchanged.
    pub(super) fn commit(mut self) {
        let memory = self.memory;
        for read in 0..self.reads {
            let owner: Addr = memory.load(self.entry(0, read));
            memory.load::<u64>(owner);
        }
        if self.writes.is_empty() {
            return;
        }
        let header = self.log.header(self.thread);
        let records = self.writes.len() as u64;
        let start = self.append(records);
        if self.flaw != Flaw::NoOrder {
            memory.order();
        }
        memory.store(header, records | (start + 1) << START_SHIFT);
        memory.flush(header, 8);
        memory.order();
        for (at, value) in &self.writes {
            memory.store(*at, *value);
        }
        let mut lines: Vec<Line> = self.writes.iter().map(|(at, _)| at.line()).collect();
        lines.sort_unstable();
        lines.dedup();
        lines.into_iter().for_each(|line| memory.flush(line.start(), LINE_BYTES));
        memory.order();
        memory.store(header, 0u64);
        memory.flush(header, 8);
        memory.drain();
        for (at, _) in &self.writes {
            let owner = self.log.owner(*at);
            memory.store(owner, memory.load::<u64>(owner).wrapping_add(1));
        }
    }

    /// Writes the records; returns their first line.
    fn append(&mut self, records: u64) -> u64 {
        let lines = (records * RECORD_BYTES).div_ceil(LINE_BYTES);
        let fits = self.cursor.line + lines <= LINES;
        let start = if fits { self.cursor.line } else { 0 };
        self.cursor.line = start + lines;
        let words = self.writes.iter().flat_map(|(at, value)| [at.bits(), *value]);
        let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        let at = self.log.ring(self.thread).plus(start * LINE_BYTES);
        match self.flaw {
            Flaw::NoFlush => self.memory.write(at, &bytes),
            _ => self.memory.write_nt(at, &bytes),
        }
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_memory::Image;

    fn place() -> (Image, RedoLog, Addr, u64) {
        let mut arena = Arena::new();
        let log = RedoLog::place(&mut arena, 1);
        let data = arena.pm(256);
        (Image::new(arena.pm_bytes(), arena.dram_bytes()), log, data, arena.pm_bytes())
    }

    #[test]
    fn a_transaction_sees_its_writes_and_nobody_does_before_it_commits() {
        let (image, log, data, _) = place();
        let mut cursor = Cursor::default();
        let mut tx = Tx::begin(&image, &log, &mut cursor, Flaw::None);
        tx.store(data, 5);
        tx.add(data, 1);
        tx.store(data.plus(64), data.bits());
        assert_eq!((tx.load(data), tx.follow(data.plus(64))), (6, data));
        assert_eq!(image.load::<u64>(data), 0);
        tx.commit();
        assert_eq!((image.load::<u64>(data), image.load(data.plus(64))), (6, data));
    }

    #[test]
    fn recovery_repeats_what_had_committed_and_forgets_what_had_not() {
        let (image, log, data, bytes) = place();
        let mut cursor = Cursor::default();
        for value in 1..=2 * LINES {
            let mut tx = Tx::begin(&image, &log, &mut cursor, Flaw::None);
            tx.store(data, value);
            (0..5).for_each(|word| tx.store(data.plus(64 + 8 * word), value));
            tx.commit();
        }
        let before = image.clone().into_pm();
        assert_eq!(log.recover(&image, bytes), Ok(()));
        assert_eq!(image.clone().into_pm(), before, "nothing was in flight");

        let mut tx = Tx::begin(&image, &log, &mut cursor, Flaw::None);
        tx.store(data, 7);
        let start = tx.append(1);
        drop(tx);
        assert_eq!(log.recover(&image, bytes), Ok(()));
        assert_eq!(image.load::<u64>(data), 2 * LINES, "it had not committed");
        image.store(log.header(0), 1 | (start + 1) << START_SHIFT);
        assert_eq!(log.recover(&image, bytes), Ok(()));
        assert_eq!((image.load::<u64>(data), image.load::<u64>(log.header(0))), (7, 0));
    }

    #[test]
    fn a_log_that_no_transaction_wrote_is_refused_and_changes_nothing() {
        let (image, log, data, bytes) = place();
        image.store(data, 3u64);
        for word in [1, 1 << START_SHIFT, u64::MAX, 1 | (LINES + 1) << START_SHIFT] {
            image.store(log.header(0), word);
            assert!(log.recover(&image, bytes).is_err(), "{word:#x}");
        }
        image.store(log.header(0), 2 | 1u64 << START_SHIFT);
        image.store(log.ring(0), data);
        for wild in [0, 8, data.bits() + 1, bytes, log.header(0).bits(), u64::MAX] {
            image.store(log.ring(0).plus(RECORD_BYTES), wild);
            assert!(log.recover(&image, bytes).is_err(), "{wild:#x}");
        }
        assert_eq!(image.load::<u64>(data), 3);
    }
}
