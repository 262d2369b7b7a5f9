//! The storage engine of N-store ("Let's Talk About Storage & Recovery Methods for Non-Volatile
//! Memory Database Systems", SIGMOD'15), in the form that WHISPER measured (ASPLOS'17, section
//! 3.1): tables in persistent memory, updated in place with an undo log.
//!
//! The log is a linked list of the open transaction's records, one list per thread. Each change of
//! a word takes three epochs: the record, the link that makes it part of the list, and the word
//! itself. A new block of bytes (a value of variable length, a new row) is an epoch of its own and
//! needs no record, because it is unreachable. A transaction is open from the epoch that writes its
//! number to the one that empties the list, which ends with a drain: so all of it is durable before
//! its locks are released, and no other thread sees any of it before.
//!
//! | offset in a head | field | offset in a record | field |
//! |---|---|---|---|
//! | 0 | first record, 0 if none | 0 | next record, 0 if none |
//! | 8 | number of the last transaction | 8 | address of the word |
//! | | | 16 | its old value |
//! | | | 24 | number of the transaction |
//! | | | 32 | place of the record in its transaction |
//!
//! Recovery restores the old values of each list, last one first, and empties it. A thread uses its
//! records as a ring, in the order in which an allocator would return them, so that no record is
//! rewritten soon.

use crate::shared::Slots;
use crate::{Damage, Flaw};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::Arena;
use seawall_runtime::pool::HEADER_BYTES;

/// Records of a thread's ring, more than any transaction needs.
const RECORDS: u64 = 512;

/// The greatest number of free blocks in a thread's stock.
const STOCK: u64 = 63;

const FIRST: u64 = 0;
const LAST_NUMBER: u64 = 8;

const NEXT: u64 = 0;
const AT: u64 = 8;
const OLD: u64 = 16;
const NUMBER: u64 = 24;
const PLACE: u64 = 32;

/// The logs of all threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wal {
    heads: Addr,
    records: Addr,
    threads: u64,
}

/// The position of a thread in its log; volatile.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    record: u64,
    number: u64,
}

/// A decoded record.
struct Undo {
    at: Addr,
    old: u64,
}

impl Wal {
    pub(crate) fn place(arena: &mut Arena, threads: u64) -> Wal {
        let heads = arena.pm(threads * LINE_BYTES);
        Wal { heads, records: arena.pm(threads * RECORDS * LINE_BYTES), threads }
    }

    fn head(&self, thread: u64) -> Addr {
        assert!(thread < self.threads, "thread {thread} in a pool for {}", self.threads);
        self.heads.plus(thread * LINE_BYTES)
    }

    fn ring(&self, thread: u64) -> Addr {
        self.records.plus(thread * RECORDS * LINE_BYTES)
    }

    /// The initial cursor of the calling thread.
    pub(crate) fn join<M: Memory>(&self, memory: &M) -> Cursor {
        let head = self.head(memory.thread() as u64);
        Cursor { record: 0, number: memory.load(head.plus(LAST_NUMBER)) }
    }

    /// Undoes the transactions that a crash interrupted, in a pool of `pm_bytes`.
    ///
    /// # Errors
    /// If a list was not made by a transaction; then nothing was changed.
    pub(crate) fn recover<M: Memory>(&self, memory: &M, pm_bytes: u64) -> Result<(), Damage> {
        let lists: Result<Vec<_>, Damage> =
            (0..self.threads).map(|thread| self.list(memory, thread, pm_bytes)).collect();
        let mut is_open = false;
        for undo in lists?.iter().flat_map(|list| list.iter().rev()) {
            memory.store(undo.at, undo.old);
            memory.flush(undo.at, 8);
            is_open = true;
        }
        if !is_open {
            return Ok(());
        }
        memory.drain();
        for thread in 0..self.threads {
            memory.store(self.head(thread).plus(FIRST), 0u64);
            memory.flush(self.head(thread), 8);
        }
        memory.drain();
        Ok(())
    }

    /// The records of the open transaction of `thread`, oldest first.
    fn list<M: Memory>(&self, memory: &M, thread: u64, pm_bytes: u64) -> Result<Vec<Undo>, Damage> {
        let head = self.head(thread);
        let number: u64 = memory.load(head.plus(LAST_NUMBER));
        let mut list = Vec::new();
        let mut next: u64 = memory.load(head.plus(FIRST));
        while next != 0 {
            let place = list.len() as u64;
            let what = || Damage(format!("record {place} in the log of thread {thread} is torn"));
            let from_start = next.checked_sub(self.ring(thread).bits()).ok_or_else(what)?;
            if from_start >= RECORDS * LINE_BYTES || !from_start.is_multiple_of(LINE_BYTES) {
                return Err(what());
            }
            let record = Addr::from_bits(next);
            let field = |offset| memory.load::<u64>(record.plus(offset));
            let is_its = field(NUMBER) == number && field(PLACE) == place;
            if !is_its || !self.is_data(field(AT), pm_bytes) {
                return Err(what());
            }
            list.push(Undo { at: Addr::from_bits(field(AT)), old: field(OLD) });
            next = field(NEXT);
        }
        Ok(list)
    }

    /// True for the address of a word outside the header and the logs.
    fn is_data(&self, at: u64, pm_bytes: u64) -> bool {
        let end = self.ring(self.threads).bits();
        let in_log = (self.heads.bits()..end).contains(&at);
        at.is_multiple_of(8) && (HEADER_BYTES..pm_bytes).contains(&at) && !in_log
    }
}

/// A transaction. It must end with [`commit`](Tx::commit), because its changes are in place
/// already.
#[must_use = "what is not committed is undone by recovery only"]
pub(crate) struct Tx<'a, M: Memory> {
    memory: &'a M,
    cursor: &'a mut Cursor,
    head: Addr,
    ring: Addr,
    /// The word into which the next record is linked.
    tail: Addr,
    records: u64,
    flaw: Flaw,
}

impl<'a, M: Memory> Tx<'a, M> {
    /// Begins a transaction of the calling thread; its number is an epoch.
    pub(crate) fn begin(memory: &'a M, wal: &Wal, cursor: &'a mut Cursor, flaw: Flaw) -> Tx<'a, M> {
        let thread = memory.thread() as u64;
        let (head, ring) = (wal.head(thread), wal.ring(thread));
        cursor.number += 1;
        memory.store(head.plus(LAST_NUMBER), cursor.number);
        memory.flush(head, LINE_BYTES);
        memory.order();
        Tx { memory, cursor, head, ring, tail: head.plus(FIRST), records: 0, flaw }
    }

    /// Writes an unreachable block: an epoch.
    #[track_caller]
    pub(crate) fn block(&self, at: Addr, words: &[u64]) {
        for (number, word) in words.iter().enumerate() {
            self.memory.store(at.plus(8 * number as u64), *word);
        }
        self.memory.flush(at, 8 * words.len() as u64);
        self.memory.order();
    }

    /// Changes the word at `at`, in three epochs.
    ///
    /// # Panics
    /// If the transaction has more records than the ring.
    #[track_caller]
    pub(crate) fn set(&mut self, at: Addr, value: u64) {
        assert!(self.records < RECORDS, "a transaction of more than {RECORDS} records");
        let memory = self.memory;
        let record = self.ring.plus(self.cursor.record % RECORDS * LINE_BYTES);
        memory.store(record.plus(NEXT), 0u64);
        memory.store(record.plus(AT), at.bits());
        memory.store(record.plus(OLD), memory.load::<u64>(at));
        memory.store(record.plus(NUMBER), self.cursor.number);
        memory.store(record.plus(PLACE), self.records);
        if self.flaw != Flaw::NoFlush {
            memory.flush(record, LINE_BYTES);
        }
        memory.order();
        memory.store(self.tail, record.bits());
        memory.flush(self.tail, 8);
        if self.flaw != Flaw::NoOrder {
            memory.order();
        }
        memory.store(at, value);
        memory.flush(at, 8);
        memory.order();
        self.tail = record.plus(NEXT);
        self.cursor.record += 1;
        self.records += 1;
    }

    /// Adds to the word at `at`, as [`set`](Tx::set) does.
    #[track_caller]
    pub(crate) fn add(&mut self, at: Addr, by: u64) {
        let value = self.memory.load::<u64>(at);
        self.set(at, value.wrapping_add(by));
    }

    /// Ends the transaction: when this returns, it is durable and can no longer be undone.
    pub(crate) fn commit(self) {
        self.memory.store(self.head.plus(FIRST), 0u64);
        self.memory.flush(self.head, 8);
        self.memory.drain();
    }
}

/// Blocks of one size, with a larger stock of free ones per thread than [`Slots`], so that threads
/// seldom pass blocks to each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    slots: Slots,
    stocks: Addr,
}

impl Blocks {
    /// The number of blocks that is enough for `live` live ones under any schedule.
    pub(crate) const fn enough(live: u64, threads: u64) -> u64 {
        Slots::enough(live + threads * STOCK, threads)
    }

    pub(crate) fn place(arena: &mut Arena, count: u64, bytes: u64, threads: u64) -> Blocks {
        let stocks = arena.dram(threads * 8 * (1 + STOCK));
        Blocks { slots: Slots::place(arena, count, bytes, threads), stocks }
    }

    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    /// The word with the size of the calling thread's stock; the blocks follow it.
    fn stock<M: Memory>(&self, memory: &M) -> Addr {
        self.stocks.plus(memory.thread() as u64 * 8 * (1 + STOCK))
    }

    /// Allocates a block, which contains the bytes of its last user.
    ///
    /// # Panics
    /// If there are too few.
    #[track_caller]
    pub(crate) fn take<M: Memory>(&self, memory: &M) -> Addr {
        let stock = self.stock(memory);
        let count: u64 = memory.load(stock);
        if count == 0 {
            return self.slots.take(memory).expect("blocks enough for all");
        }
        memory.store(stock, count - 1);
        memory.load(stock.plus(8 * count))
    }

    /// Frees a block that is durably unreachable.
    pub(crate) fn give<M: Memory>(&self, memory: &M, block: Addr) {
        let stock = self.stock(memory);
        let count: u64 = memory.load(stock);
        if count == STOCK {
            self.slots.give(memory, block);
            return;
        }
        memory.store(stock, count + 1);
        memory.store(stock.plus(8 * (count + 1)), block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_memory::Image;

    fn place() -> (Image, Wal, Addr, u64) {
        let mut arena = Arena::new();
        let wal = Wal::place(&mut arena, 1);
        let data = arena.pm(256);
        (Image::new(arena.pm_bytes(), 0), wal, data, arena.pm_bytes())
    }

    #[test]
    fn an_open_transaction_is_undone_and_a_committed_one_stays() {
        let (image, wal, data, bytes) = place();
        let mut cursor = wal.join(&image);
        let mut tx = Tx::begin(&image, &wal, &mut cursor, Flaw::None);
        tx.set(data, 5);
        tx.set(data, 6);
        tx.commit();
        let mut tx = Tx::begin(&image, &wal, &mut cursor, Flaw::None);
        tx.set(data, 7);
        tx.add(data, 1);
        tx.set(data.plus(64), 9);
        let _cut_short = tx;
        assert_eq!(image.load::<u64>(data), 8);
        assert_eq!(wal.recover(&image, bytes), Ok(()));
        assert_eq!((image.load::<u64>(data), image.load::<u64>(data.plus(64))), (6, 0));
        let after = image.clone().into_pm();
        assert_eq!(wal.recover(&image, bytes), Ok(()));
        assert_eq!(image.into_pm(), after);
    }

    #[test]
    fn a_list_that_no_transaction_made_is_refused_and_changes_nothing() {
        for wild in [8, 1 << 40, u64::MAX, HEADER_BYTES] {
            for field in [NEXT, AT, NUMBER, PLACE] {
                let (image, wal, data, bytes) = place();
                let mut cursor = wal.join(&image);
                let mut tx = Tx::begin(&image, &wal, &mut cursor, Flaw::None);
                tx.set(data, 5);
                let _cut_short = tx;
                image.store(wal.ring(0).plus(field), wild);
                assert!(wal.recover(&image, bytes).is_err(), "{field} {wild:#x}");
                assert_eq!(image.load::<u64>(data), 5);
            }
        }
    }

    #[test]
    fn a_ring_that_was_gone_round_holds_the_records_of_the_last_transaction() {
        let (image, wal, data, bytes) = place();
        let mut cursor = wal.join(&image);
        for number in 0..3 * RECORDS / 4 {
            let mut tx = Tx::begin(&image, &wal, &mut cursor, Flaw::None);
            tx.set(data, number);
            tx.set(data.plus(8), number);
            tx.commit();
        }
        let mut tx = Tx::begin(&image, &wal, &mut cursor, Flaw::None);
        tx.set(data, 1 << 40);
        let _cut_short = tx;
        assert_eq!(wal.recover(&image, bytes), Ok(()));
        assert_eq!(image.load::<u64>(data), 3 * RECORDS / 4 - 1);
    }
}
