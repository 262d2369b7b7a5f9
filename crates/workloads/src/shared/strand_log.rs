//! An undo log whose entries need not wait for each other: one strand per word.
//!
//! "Relaxed Persist Ordering Using Strand Persistency" (StrandWeaver, ISCA'20), section V: an undo
//! log requires only that each word's old value persists before its new one. No such pair is
//! ordered before another, so each begins a [`strand`](MemoryExt::strand); commit
//! [joins](MemoryExt::join_strands) them before it records the end of the transaction, and waits
//! until that is durable. Hardware without strands orders the pairs too, which is harmless.
//!
//! As pairs persist in any order, a log can have holes after a crash: an entry counts by itself, if
//! its checksum holds and its number is that of the transaction after the last that ended. The word
//! of a hole has not changed, because its new value follows its entry.
//!
//! The argument for the weakest model (`strand` of `seawall-explore`):
//!
//! - Inside a pair the `order` is between entry and word. A later store to a word of the same line
//!   is in another strand, but the stores of a line stay in order and follow what was ordered
//!   before them: the entries of all words that the line holds.
//! - Entries of the next transaction overwrite these only after the drain of this one.
//! - A thread that reads a word under a lock reads a committed value, which is durable.
//!
//! | bytes of a thread's area | field |
//! |---|---|
//! | 0..8 | number of the last transaction that has ended |
//! | 64.. | entries, a line each: address, old value, number, CRC-32C of these and of its place |

use super::epoch_log::LogError;
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::Arena;
use seawall_runtime::pool::HEADER_BYTES;

/// The fields of an entry, word by word.
const ADDRESS: u64 = 0;
const OLD: u64 = 8;
const NUMBER: u64 = 16;
const CHECK: u64 = 24;

/// A planted bug, to prove that the checkers find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum StrandFlaw {
    /// No planted bug.
    #[default]
    None,
    /// Leaves out the order between an entry and its word.
    NoOrder,
    /// The word is in another strand than its entry. Only a machine with strands shows it.
    SplitsPairs,
    /// Commit orders and does not join. Only a machine with strands shows it.
    NoJoin,
}

/// The log areas of a pool, one per thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrandLogs {
    area: Addr,
    threads: u64,
    words: u64,
}

impl StrandLogs {
    /// Places logs for `threads` threads, whose transactions change up to `words` words each.
    pub fn place(arena: &mut Arena, threads: u64, words: u64) -> StrandLogs {
        let logs = StrandLogs { area: Addr::NULL, threads, words };
        StrandLogs { area: arena.pm(threads * logs.stride()), ..logs }
    }

    const fn stride(&self) -> u64 {
        (1 + self.words) * LINE_BYTES
    }

    fn log(&self, thread: u64) -> Addr {
        assert!(thread < self.threads, "thread {thread} in a pool for {}", self.threads);
        self.area.plus(thread * self.stride())
    }

    /// Restores the words of transactions that a crash interrupted, in a pool of `pm_bytes` bytes;
    /// returns the number of transactions. When it returns, no transaction is in flight and
    /// everything is durable; after a crash before that, a second call finishes the recovery.
    ///
    /// # Errors
    /// If an entry was not written by a transaction; then nothing was changed.
    pub fn recover<M: Memory>(&self, memory: &M, pm_bytes: u64) -> Result<u64, LogError> {
        let mut open = Vec::new();
        for thread in 0..self.threads {
            let old = self.open(memory, thread);
            if let Some(&(at, _)) = old.iter().find(|(at, _)| !self.holds(*at, pm_bytes)) {
                return Err(LogError::Record { thread, at: at.bits(), words: 1 });
            }
            if !old.is_empty() {
                open.push((thread, old));
            }
        }
        for (thread, old) in &open {
            self.put_back(memory, *thread, old);
        }
        Ok(open.len() as u64)
    }

    /// The words that the open transaction of a thread may have changed, and their old values.
    fn open<M: Memory>(&self, memory: &M, thread: u64) -> Vec<(Addr, u64)> {
        let log = self.log(thread);
        let number = memory.load::<u64>(log).wrapping_add(1);
        let entry = |place: u64| {
            let line = memory.load_line(log.plus(place * LINE_BYTES));
            let [address, old, of, check] =
                [ADDRESS, OLD, NUMBER, CHECK].map(|at| line[at as usize / 8]);
            let is_it = of == number && check == sum(place, address, old, number);
            is_it.then(|| (Addr::from_bits(address), old))
        };
        (1..=self.words).filter_map(entry).collect()
    }

    fn put_back<M: Memory>(&self, memory: &M, thread: u64, old: &[(Addr, u64)]) {
        for (at, value) in old {
            memory.store(*at, *value);
            memory.flush(*at, 8);
        }
        memory.drain();
        let log = self.log(thread);
        memory.store(log, memory.load::<u64>(log).wrapping_add(1));
        memory.persist(log, 8);
    }

    /// True for an aligned word inside the pool, outside the header and the logs.
    fn holds(&self, at: Addr, pm_bytes: u64) -> bool {
        let logs = self.area.offset()..self.area.offset() + self.threads * self.stride();
        let is_inside = at.offset() >= HEADER_BYTES && at.offset().saturating_add(8) <= pm_bytes;
        at.is_pm() && at.offset().is_multiple_of(8) && is_inside && !logs.contains(&at.offset())
    }
}

/// The checksum of the entry at a place of the log.
fn sum(place: u64, address: u64, old: u64, number: u64) -> u64 {
    let words = [place, address, old, number].map(u64::to_le_bytes);
    u64::from(crc32c::crc32c(words.as_flattened()))
}

/// A transaction: its words change in place at once, and atomically once it has committed.
///
/// Other threads must not see them before: hold a lock until [`commit`](StrandTx::commit) returns.
/// A transaction that is dropped without an end is undone when its thread begins the next, or by
/// recovery.
#[must_use = "it is over when it is committed or aborted"]
pub struct StrandTx<'a, M: Memory> {
    memory: &'a M,
    logs: StrandLogs,
    log: Addr,
    number: u64,
    flaw: StrandFlaw,
    old: Vec<(Addr, u64)>,
}

impl<'a, M: Memory> StrandTx<'a, M> {
    /// A transaction of the calling thread; a thread has one at a time.
    ///
    /// # Panics
    /// If the thread has no log.
    pub fn begin(memory: &'a M, logs: &StrandLogs, flaw: StrandFlaw) -> StrandTx<'a, M> {
        let thread = memory.thread() as u64;
        let log = logs.log(thread);
        let number = memory.load::<u64>(log).wrapping_add(1);
        if memory.load::<u64>(log.plus(LINE_BYTES + NUMBER)) == number {
            let left = logs.open(memory, thread);
            logs.put_back(memory, thread, &left);
        }
        let number = memory.load::<u64>(log).wrapping_add(1);
        StrandTx { memory, logs: *logs, log, number, flaw, old: Vec::new() }
    }

    /// Writes the aligned word at `at` in the pool.
    ///
    /// # Panics
    /// If `at` is not an aligned PM address, or more words change than the log has room for.
    #[track_caller]
    pub fn store(&mut self, at: Addr, value: u64) {
        assert!(at.is_pm() && at.offset().is_multiple_of(8), "a transaction writes {at:?}");
        if self.old.iter().all(|(known, _)| *known != at) {
            self.save(at);
        }
        self.memory.store(at, value);
        self.memory.flush(at, 8);
    }

    #[track_caller]
    fn save(&mut self, at: Addr) {
        let (memory, old) = (self.memory, self.memory.load::<u64>(at));
        self.old.push((at, old));
        let place = self.old.len() as u64;
        assert!(place <= self.logs.words, "{place} words in a log of {}", self.logs.words);
        memory.strand();
        memory.work(4);
        let entry = self.log.plus(place * LINE_BYTES);
        memory.store(entry.plus(ADDRESS), at.bits());
        memory.store(entry.plus(OLD), old);
        memory.store(entry.plus(NUMBER), self.number);
        memory.store(entry.plus(CHECK), sum(place, at.bits(), old, self.number));
        memory.flush(entry, LINE_BYTES);
        if self.flaw != StrandFlaw::NoOrder {
            memory.order();
        }
        if self.flaw == StrandFlaw::SplitsPairs {
            memory.strand();
        }
    }

    /// Commits: no crash after the return loses any of its stores, and a crash before keeps all or
    /// none.
    #[track_caller]
    pub fn commit(self) {
        if self.old.is_empty() {
            return;
        }
        match self.flaw {
            StrandFlaw::NoJoin => self.memory.order(),
            _ => self.memory.join_strands(),
        }
        self.memory.store(self.log, self.number);
        self.memory.persist(self.log, 8);
    }

    /// Restores all words; durable when it returns.
    #[track_caller]
    pub fn abort(self) {
        if !self.old.is_empty() {
            self.logs.put_back(self.memory, self.memory.thread() as u64, &self.old);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_memory::Image;

    fn place() -> (Image, StrandLogs, Addr, u64) {
        let mut arena = Arena::new();
        let logs = StrandLogs::place(&mut arena, 1, 3);
        let data = arena.pm(256);
        (Image::new(arena.pm_bytes(), arena.dram_bytes()), logs, data, arena.pm_bytes())
    }

    #[test]
    fn what_was_not_committed_is_put_back_by_abort_by_recovery_and_by_the_next_transaction() {
        let (image, logs, data, bytes) = place();
        let begin = || StrandTx::begin(&image, &logs, StrandFlaw::None);
        let words = || [0, 64, 72].map(|word| image.load::<u64>(data.plus(word)));
        let mut tx = begin();
        tx.store(data, 1);
        tx.store(data.plus(64), 2);
        tx.store(data, 3);
        tx.commit();
        assert_eq!(words(), [3, 2, 0]);
        let change = || {
            let mut tx = begin();
            [0, 64, 72].iter().for_each(|word| tx.store(data.plus(*word), 9));
            assert_eq!(words(), [9; 3]);
            tx
        };
        change().abort();
        assert_eq!(words(), [3, 2, 0]);
        drop(change());
        assert_eq!(logs.recover(&image, bytes), Ok(1));
        assert_eq!((words(), logs.recover(&image, bytes)), ([3, 2, 0], Ok(0)));
        drop(change());
        begin().commit();
        assert_eq!(words(), [3, 2, 0]);
    }

    #[test]
    fn an_entry_counts_by_itself_and_a_torn_one_does_not() {
        let (image, logs, data, bytes) = place();
        let mut tx = StrandTx::begin(&image, &logs, StrandFlaw::None);
        [0, 64, 128].iter().for_each(|word| tx.store(data.plus(*word), 9));
        drop(tx);
        image.store(logs.log(0).plus(LINE_BYTES + OLD), 7u64);
        image.store(data, 0u64);
        assert_eq!(logs.recover(&image, bytes), Ok(1));
        assert_eq!([0, 64, 128].map(|word| image.load::<u64>(data.plus(word))), [0; 3]);
    }

    #[test]
    fn an_entry_that_no_transaction_wrote_is_refused() {
        let (image, logs, data, bytes) = place();
        let entry = logs.log(0).plus(LINE_BYTES);
        for at in [8, logs.area.bits(), data.bits() + 4, bytes] {
            let fields = [at, 5, 1, sum(1, at, 5, 1)];
            (0..).zip(fields).for_each(|(word, field)| image.store(entry.plus(8 * word), field));
            let refused = Err(LogError::Record { thread: 0, at, words: 1 });
            assert_eq!(logs.recover(&image, bytes), refused);
        }
    }
}
