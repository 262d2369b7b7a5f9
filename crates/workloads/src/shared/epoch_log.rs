//! Redo-logged transactions: several words change atomically, in three ordered steps.
//!
//! A transaction collects its writes in host memory and touches the pool only in
//! [`Tx::commit`]:
//!
//! 1. write the log (records, and a header with sequence number, size and checksum), flush it
//!    together with fresh objects that nothing points to yet; order;
//! 2. write the words in place and flush each line once; order;
//! 3. truncate the log with one 8-byte store, store the versions, flush; order.
//!
//! The log validates itself, so it needs no order inside step 1: its checksum covers the records
//! **and the fresh objects**. Without the latter a log could be whole while an object that its
//! records link in is torn. A transaction stores into its own fresh objects directly and without
//! logging, so they stay as they were summed until the log is truncated.
//!
//! Recovery applies a log whose checksum holds and that is not truncated, and ignores any other;
//! applying a log is idempotent. A transaction costs three epochs. Each thread has one log area:
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | sequence number of the last transaction, from 1 |
//! | 8..16 | words of records |
//! | 16..24 | CRC-32C of the two fields above, the records and the fresh objects |
//! | 24..32 | sequence number of the last truncated transaction |
//! | 64.. | records: a head word, then the words to be written |
//!
//! A head has the address in its low 48 bits and the number of words in its high 16; with bit 0 set
//! it names a fresh object instead, and no words follow.

use super::lock_versions::LockVersion;
use seawall_memory::{Addr, LINE_BYTES, Line, Memory, MemoryExt, lines_of};
use seawall_runtime::Arena;
use seawall_runtime::pool::HEADER_BYTES;

const SEQUENCE: u64 = 0;
const SIZE: u64 = 8;
const CHECKSUM: u64 = 16;
const RETIRED: u64 = 24;
const RECORDS: u64 = LINE_BYTES;
const COUNT_SHIFT: u32 = 48;
const COUNT_MAX: usize = 0xffff;
const FRESH: u64 = 1;

/// A planted bug in the order of an update, to prove that the checkers find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OrderFlaw {
    /// No planted bug.
    #[default]
    None,
    /// Leaves out the order between the step that makes an update recoverable (its log, or the
    /// copied entry) and the step that makes it visible.
    NoOrder,
    /// Leaves out the flush of that first step. Only x86-like machines show it.
    NoFlush,
}

/// Why logs cannot be recovered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// A log whose checksum holds would write where no transaction writes.
    #[error(
        "the log of thread {thread} would write {words} words at {at:#x}, outside the \
         pool's data: no crash does that; restore the pool from a copy"
    )]
    Record {
        /// The thread of the log.
        thread: u64,
        /// The address in the record.
        at: u64,
        /// The words in the record.
        words: u64,
    },
}

/// The log areas of a pool, one per thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Logs {
    area: Addr,
    threads: u64,
    words: u64,
}

impl Logs {
    /// Places logs for `threads` threads, each of `words` words of records: a run of n words that
    /// a transaction writes takes n + 1.
    pub(crate) fn place(arena: &mut Arena, threads: u64, words: u64) -> Logs {
        let words = words.next_multiple_of(LINE_BYTES / 8);
        let logs = Logs { area: Addr::NULL, threads, words };
        Logs { area: arena.pm(threads * logs.stride()), ..logs }
    }

    const fn stride(&self) -> u64 {
        RECORDS + 8 * self.words
    }

    fn log(&self, thread: u64) -> Addr {
        assert!(thread < self.threads, "thread {thread} in a pool for {}", self.threads);
        self.area.plus(thread * self.stride())
    }

    /// Finishes the transactions that a crash interrupted, in a pool of `pm_bytes` bytes; returns
    /// their number. When it returns, no transaction is in flight and everything is durable; after
    /// a crash before that, a second call finishes the recovery.
    ///
    /// # Errors
    /// If a log was not written by a transaction; then nothing was changed.
    pub(crate) fn recover<M: Memory>(&self, memory: &M, pm_bytes: u64) -> Result<u64, LogError> {
        let mut pending = Vec::new();
        for thread in 0..self.threads {
            if let Some(records) = self.pending(memory, thread, pm_bytes) {
                pending.push((thread, self.writes(thread, &records, pm_bytes)?));
            }
        }
        for (at, value) in pending.iter().flat_map(|(_, writes)| writes) {
            memory.store(*at, *value);
            memory.flush(*at, 8);
        }
        memory.drain();
        for (thread, _) in &pending {
            let log = self.log(*thread);
            memory.store(log.plus(RETIRED), memory.load::<u64>(log.plus(SEQUENCE)));
            memory.persist(log, LINE_BYTES);
        }
        Ok(pending.len() as u64)
    }

    /// The records of the log of `thread`, if it is whole and not truncated.
    fn pending<M: Memory>(&self, memory: &M, thread: u64, pm_bytes: u64) -> Option<Vec<u64>> {
        let log = self.log(thread);
        let field = |offset| memory.load::<u64>(log.plus(offset));
        let (sequence, size) = (field(SEQUENCE), field(SIZE));
        if sequence == field(RETIRED) || size > self.words {
            return None;
        }
        let records: Vec<u64> = (0..size).map(|word| field(RECORDS + 8 * word)).collect();
        let mut sum = Sum::of(sequence, &records);
        let mut rest = &records[..];
        while let Some((record, next)) = Record::split(rest) {
            if record.fresh {
                if !self.holds(&record, pm_bytes) {
                    return None;
                }
                sum.object(memory, Addr::pm(record.at), record.words);
            }
            rest = next;
        }
        (sum.0 == field(CHECKSUM)).then_some(records)
    }

    /// The writes of the records, in order.
    fn writes(
        &self,
        thread: u64,
        records: &[u64],
        pm_bytes: u64,
    ) -> Result<Vec<(Addr, u64)>, LogError> {
        let mut writes = Vec::new();
        let mut rest = records;
        while let Some(head) = rest.first() {
            let whole = Record::split(rest).filter(|(record, _)| self.holds(record, pm_bytes));
            let Some((record, next)) = whole else {
                let (at, words) = (head & ((1 << COUNT_SHIFT) - 1), head >> COUNT_SHIFT);
                return Err(LogError::Record { thread, at, words });
            };
            let place = |word: usize| Addr::pm(record.at + 8 * word as u64);
            let run = record.values.iter().enumerate();
            writes.extend(run.map(|(word, value)| (place(word), *value)));
            rest = next;
        }
        Ok(writes)
    }

    /// True if the record writes data: inside the pool, outside the header and the logs.
    fn holds(&self, record: &Record<'_>, pm_bytes: u64) -> bool {
        let logs = self.area.offset()..self.area.offset() + self.threads * self.stride();
        let end = record.at + 8 * record.words;
        let in_logs = record.at < logs.end && end > logs.start;
        let aligned = record.at.is_multiple_of(8);
        aligned && record.at >= HEADER_BYTES && end <= pm_bytes && !in_logs
    }
}

/// A decoded record; its bytes are untrusted.
struct Record<'a> {
    at: u64,
    words: u64,
    fresh: bool,
    values: &'a [u64],
}

impl Record<'_> {
    /// Splits off the first of `records`; `None` at the end, or if the first is cut short.
    fn split(records: &[u64]) -> Option<(Record<'_>, &[u64])> {
        let (head, tail) = records.split_first()?;
        let (at, words) = (head & ((1 << COUNT_SHIFT) - 1), head >> COUNT_SHIFT);
        if at & FRESH != 0 {
            return Some((Record { at: at & !FRESH, words, fresh: true, values: &[] }, tail));
        }
        let (values, rest) = tail.split_at_checked(words as usize)?;
        Some((Record { at, words, fresh: false, values }, rest))
    }
}

/// The checksum of a log while it is computed.
struct Sum(u64);

impl Sum {
    fn of(sequence: u64, records: &[u64]) -> Sum {
        let mut sum = Sum(0);
        sum.add([sequence, records.len() as u64].iter().chain(records));
        sum
    }

    fn object<M: Memory>(&mut self, memory: &M, at: Addr, words: u64) {
        let mut bytes = vec![0; 8 * words as usize];
        memory.read(at, &mut bytes);
        self.0 = u64::from(crc32c::crc32c_append(self.0 as u32, &bytes));
    }

    fn add<'w>(&mut self, words: impl Iterator<Item = &'w u64>) {
        let bytes: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
        self.0 = u64::from(crc32c::crc32c_append(self.0 as u32, &bytes));
    }
}

/// Consecutive words to be written.
struct Run {
    at: Addr,
    first: usize,
    count: usize,
}

/// A transaction: only the transaction itself sees its stores until [`commit`](Tx::commit).
///
/// Dropping it without commit leaves the pool unchanged.
pub(crate) struct Tx<'a, M: Memory> {
    memory: &'a M,
    log: Addr,
    capacity: u64,
    flaw: OrderFlaw,
    runs: Vec<Run>,
    words: Vec<u64>,
    fresh: Vec<(Addr, u64)>,
}

impl<'a, M: Memory> Tx<'a, M> {
    /// A transaction of the calling thread; a thread has one at a time.
    ///
    /// # Panics
    /// If the thread has no log.
    pub(crate) fn begin(memory: &'a M, logs: &Logs, flaw: OrderFlaw) -> Tx<'a, M> {
        let log = logs.log(memory.thread() as u64);
        let (runs, words, fresh) = (Vec::new(), Vec::new(), Vec::new());
        Tx { memory, log, capacity: logs.words, flaw, runs, words, fresh }
    }

    fn find(&self, at: Addr) -> Option<usize> {
        let in_run = |run: &&Run| at >= run.at && at < run.at.plus(8 * run.count as u64);
        let run = self.runs.iter().rev().find(in_run)?;
        Some(run.first + (at.offset() - run.at.offset()) as usize / 8)
    }

    /// The word at `at`, as this transaction sees it.
    #[track_caller]
    pub(crate) fn load(&self, at: Addr) -> u64 {
        match self.find(at) {
            Some(word) => self.words[word],
            None => self.memory.load(at),
        }
    }

    /// Writes the aligned word at `at` in the pool; directly, if it is in a fresh object.
    ///
    /// # Panics
    /// If `at` is not an aligned PM address.
    #[track_caller]
    pub(crate) fn store(&mut self, at: Addr, value: u64) {
        assert!(at.is_pm() && at.offset().is_multiple_of(8), "a transaction writes {at:?}");
        if self.is_fresh(at) {
            self.memory.store(at, value);
            return;
        }
        if let Some(word) = self.find(at) {
            self.words[word] = value;
            return;
        }
        match self.runs.last_mut() {
            Some(run) if run.at.plus(8 * run.count as u64) == at && run.count < COUNT_MAX => {
                run.count += 1;
            }
            _ => self.runs.push(Run { at, first: self.words.len(), count: 1 }),
        }
        self.words.push(value);
    }

    /// Writes the words of `values` from `at` on.
    ///
    /// # Panics
    /// See [`store`](Tx::store).
    #[track_caller]
    pub(crate) fn write(&mut self, at: Addr, values: &[u64]) {
        for (word, value) in values.iter().enumerate() {
            self.store(at.plus(8 * word as u64), *value);
        }
    }

    /// Declares `words` aligned words from `at` a fresh object, to which nothing in the pool
    /// points. It is written directly, before commit, and commit sums and flushes it with the log
    /// instead of logging it. Declare it before the transaction stores into it.
    ///
    /// # Panics
    /// If it is not aligned, or has 2^16 words or more.
    pub(crate) fn fresh(&mut self, at: Addr, words: u64) {
        assert!(at.is_pm() && at.offset().is_multiple_of(8), "a fresh object at {at:?}");
        assert!(words <= COUNT_MAX as u64, "a fresh object of {words} words");
        self.fresh.push((at, words));
    }

    fn is_fresh(&self, at: Addr) -> bool {
        self.fresh.iter().any(|(object, words)| at >= *object && at < object.plus(8 * words))
    }

    /// Performs the writes and stores the next values of `versions`. A crash before it returns
    /// keeps all of the writes or none; when it returns they are ordered before all later stores of
    /// this thread, and before all later stores of a thread that reads one of the versions
    /// afterwards. A transaction without writes does nothing.
    ///
    /// # Panics
    /// If the writes do not fit the log.
    #[track_caller]
    pub(crate) fn commit(self, versions: &[LockVersion]) {
        if self.runs.is_empty() {
            return;
        }
        let sequence = self.write_log();
        if self.flaw != OrderFlaw::NoOrder {
            self.memory.order();
        }
        self.apply();
        self.memory.order();
        self.memory.store(self.log.plus(RETIRED), sequence);
        self.memory.flush(self.log, LINE_BYTES);
        for version in versions {
            version.advance(self.memory);
        }
        self.memory.order();
    }

    fn write_log(&self) -> u64 {
        let size = self.words.len() + self.runs.len() + self.fresh.len();
        let mut records = Vec::with_capacity(size);
        for (at, words) in &self.fresh {
            records.push(at.offset() | FRESH | words << COUNT_SHIFT);
        }
        for run in &self.runs {
            records.push(run.at.offset() | (run.count as u64) << COUNT_SHIFT);
            records.extend_from_slice(&self.words[run.first..run.first + run.count]);
        }
        let size = records.len() as u64;
        assert!(size <= self.capacity, "{size} words in a log of {}", self.capacity);
        let sequence = self.memory.load::<u64>(self.log.plus(SEQUENCE)).wrapping_add(1);
        let mut sum = Sum::of(sequence, &records);
        for (at, words) in &self.fresh {
            sum.object(self.memory, *at, *words);
            self.memory.work(*words as u32);
        }
        self.memory.work(size as u32 + 2);
        for (word, value) in records.iter().enumerate() {
            self.memory.store(self.log.plus(RECORDS + 8 * word as u64), *value);
        }
        self.memory.store(self.log.plus(SEQUENCE), sequence);
        self.memory.store(self.log.plus(SIZE), size);
        self.memory.store(self.log.plus(CHECKSUM), sum.0);
        if self.flaw != OrderFlaw::NoFlush {
            self.memory.flush(self.log, RECORDS + 8 * size);
            for (at, words) in &self.fresh {
                self.memory.flush(*at, 8 * words);
            }
        }
        sequence
    }

    fn apply(&self) {
        let mut lines: Vec<Line> = Vec::with_capacity(2 * self.runs.len());
        for run in &self.runs {
            for (word, value) in self.words[run.first..run.first + run.count].iter().enumerate() {
                self.memory.store(run.at.plus(8 * word as u64), *value);
            }
            lines.extend(lines_of(run.at, 8 * run.count as u64));
        }
        lines.sort_unstable();
        lines.dedup();
        for line in lines {
            self.memory.flush(line.start(), LINE_BYTES);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use seawall_memory::Image;

    fn place() -> (Image, Logs, Addr, u64) {
        let mut arena = Arena::new();
        let logs = Logs::place(&mut arena, 1, 32);
        let data = arena.pm(256);
        let bytes = arena.pm_bytes();
        (Image::new(bytes, arena.dram_bytes()), logs, data, bytes)
    }

    fn crash_after_step_one(image: &Image, logs: &Logs, data: Addr) {
        let mut tx = Tx::begin(image, logs, OrderFlaw::None);
        tx.store(data, 5);
        tx.write(data.plus(64), &[6, 7]);
        tx.write_log();
    }

    #[test]
    fn a_transaction_sees_its_own_writes_and_nobody_else_does_before_commit() {
        let (image, logs, data, _) = place();
        let mut tx = Tx::begin(&image, &logs, OrderFlaw::None);
        tx.store(data, 5);
        tx.store(data, 6);
        tx.store(data.plus(8), 7);
        assert_eq!((tx.load(data), tx.load(data.plus(8)), tx.load(data.plus(16))), (6, 7, 0));
        assert_eq!(tx.runs.len(), 1);
        assert_eq!(image.load::<u64>(data), 0);
        tx.commit(&[]);
        assert_eq!(image.load::<u64>(data), 6);
    }

    #[test]
    fn recovery_applies_a_log_that_was_written_and_not_retired() {
        let (image, logs, data, bytes) = place();
        crash_after_step_one(&image, &logs, data);
        assert_eq!(logs.recover(&image, bytes), Ok(1));
        assert_eq!(image.load::<u64>(data.plus(72)), 7);
        assert_eq!(logs.recover(&image, bytes), Ok(0));
    }

    #[test]
    fn recovery_ignores_a_log_whose_fresh_object_is_torn() {
        for torn in [false, true] {
            let (image, logs, data, bytes) = place();
            let mut tx = Tx::begin(&image, &logs, OrderFlaw::None);
            tx.fresh(data.plus(64), 4);
            tx.store(data.plus(72), 8);
            assert_eq!((image.load::<u64>(data.plus(72)), tx.runs.len()), (8, 0));
            tx.store(data, data.plus(64).bits());
            tx.write_log();
            if torn {
                image.store(data.plus(72), 0u64);
            }
            assert_eq!(logs.recover(&image, bytes), Ok(u64::from(!torn)));
            assert_eq!(image.load::<u64>(data) == 0, torn);
        }
    }

    #[test]
    fn recovery_ignores_a_retired_log() {
        let (image, logs, data, bytes) = place();
        let mut tx = Tx::begin(&image, &logs, OrderFlaw::None);
        tx.store(data, 5);
        tx.commit(&[]);
        image.store(data, 9u64);
        assert_eq!(logs.recover(&image, bytes), Ok(0));
        assert_eq!(image.load::<u64>(data), 9);
    }

    proptest! {
        #[test]
        fn recovery_ignores_a_log_of_which_any_word_is_missing(word in 0u64..7) {
            let (image, logs, data, bytes) = place();
            crash_after_step_one(&image, &logs, data);
            let lost = [0, 8, 16, 64, 72, 80, 88][word as usize];
            image.store(logs.log(0).plus(lost), 0u64);
            prop_assert_eq!(logs.recover(&image, bytes), Ok(0));
            prop_assert_eq!(image.load::<u64>(data), 0);
        }

        #[test]
        fn a_log_with_a_valid_checksum_never_writes_outside_the_data(
            records in proptest::collection::vec(any::<u64>(), 0..32), tame: bool,
        ) {
            let (image, logs, _, bytes) = place();
            let records: Vec<u64> = if tame {
                records.iter().map(|word| (word % (2 * bytes)) | ((word >> 62) << 48)).collect()
            } else {
                records
            };
            let log = logs.log(0);
            for (word, value) in records.iter().enumerate() {
                image.store(log.plus(RECORDS + 8 * word as u64), *value);
            }
            image.store(log.plus(SIZE), records.len() as u64);
            image.store(log.plus(SEQUENCE), 1u64);
            image.store(log.plus(CHECKSUM), Sum::of(1, &records).0);
            let before = image.load::<u64>(log.plus(CHECKSUM));
            let _ = logs.recover(&image, bytes);
            prop_assert_eq!(image.load::<u64>(log.plus(CHECKSUM)), before);
            prop_assert_eq!(image.load::<u64>(Addr::NULL), 0);
        }
    }

    #[test]
    #[should_panic(expected = "words in a log of 32")]
    fn writes_that_do_not_fit_the_log_are_a_bug() {
        let (image, logs, data, _) = place();
        let mut tx = Tx::begin(&image, &logs, OrderFlaw::None);
        tx.write(data, &[1; 32]);
        tx.commit(&[]);
    }
}
