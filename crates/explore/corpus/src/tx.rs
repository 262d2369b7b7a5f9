//! Two correct logs for programs that need several words to change together.
//!
//! Undo: the old word is durable in the log before the word changes; rollback goes backwards.
//! Redo: the new words are durable in the log, then its length, then they are put in place.

use crate::kit::{Words, line, word};
use seawall_memory::{Addr, Memory, MemoryExt};

/// Where the log is: its length in one line, its entries (address, word) from the next.
pub(crate) const LOG: Addr = line(40);
const ENTRIES: Addr = line(41);

pub(crate) fn entry(index: u64) -> Addr {
    word(ENTRIES, 2 * index)
}

/// Remembers the word at `at` as it is.
pub(crate) fn undo_add<M: Memory>(memory: &M, at: Addr) {
    let length = memory.get(LOG);
    memory.put(entry(length), at.bits());
    memory.put(word(entry(length), 1), memory.get(at));
    memory.flush(entry(length), 16);
    memory.order();
    memory.put_flush(LOG, length + 1);
    memory.order();
}

/// Remembers the word at `at`, then changes it.
pub(crate) fn undo_set<M: Memory>(memory: &M, at: Addr, value: u64) {
    undo_add(memory, at);
    memory.put(at, value);
}

/// Makes all remembered words durable as they are now, and forgets the old ones.
pub(crate) fn undo_commit<M: Memory>(memory: &M) {
    for index in 0..memory.get(LOG) {
        memory.flush(Addr::from_bits(memory.get(entry(index))), 8);
    }
    memory.order();
    memory.put_persist(LOG, 0);
}

/// Brings all remembered words back.
pub(crate) fn undo_rollback<M: Memory>(memory: &M) {
    for index in (0..memory.get(LOG)).rev() {
        let at = Addr::from_bits(memory.get(entry(index)));
        memory.put_flush(at, memory.get(word(entry(index), 1)));
    }
    memory.order();
    memory.put_persist(LOG, 0);
}

/// Puts all words in place, or after a crash none.
pub(crate) fn redo<M: Memory>(memory: &M, writes: &[(Addr, u64)]) {
    redo_write(memory, writes);
    redo_apply(memory);
}

/// Makes the words durable in the log.
pub(crate) fn redo_write<M: Memory>(memory: &M, writes: &[(Addr, u64)]) {
    for (index, &(at, value)) in (0..).zip(writes) {
        memory.put(entry(index), at.bits());
        memory.put(word(entry(index), 1), value);
    }
    memory.flush(ENTRIES, 16 * writes.len() as u64);
    memory.order();
    memory.put_flush(LOG, writes.len() as u64);
    memory.order();
}

/// Puts what a log holds in place: the end of [`redo`], and its recovery.
pub(crate) fn redo_apply<M: Memory>(memory: &M) {
    for index in 0..memory.get(LOG) {
        let at = Addr::from_bits(memory.get(entry(index)));
        memory.put_flush(at, memory.get(word(entry(index), 1)));
    }
    memory.order();
    memory.put_persist(LOG, 0);
}
