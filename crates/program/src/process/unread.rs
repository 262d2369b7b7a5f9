//! Flushes of what another thread has stored, by a thread that has not read it since.
//!
//! On x86 such a flush and a fence make the stores durable. Hardware that follows loads and stores
//! has no flushes: there a thread's barrier covers what it has stored itself, and what it has read
//! of other threads. So where a crash breaks the program, this may be why.

use seawall_memory::LINE_BYTES;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Who has stored to a line last, and who has read it since, as bits.
struct Users {
    writer: usize,
    readers: u64,
}

/// What has been found so far.
#[derive(Default)]
pub(crate) struct Unread {
    /// Whether anybody wants to know.
    pub(crate) is_on: Cell<bool>,
    lines: RefCell<HashMap<u64, Users>>,
    count: Cell<u64>,
    /// The first of these flushes.
    first: Cell<Option<u64>>,
}

impl Unread {
    /// The thread has stored to these bytes of persistent memory.
    #[inline]
    pub(crate) fn stored(&self, thread: usize, at: u64, bytes: u64) {
        if self.is_on.get() {
            self.note(at, bytes, |users| *users = Users { writer: thread, readers: 0 });
        }
    }

    /// The thread has loaded these bytes of persistent memory.
    #[inline]
    pub(crate) fn loaded(&self, thread: usize, at: u64, bytes: u64) {
        if self.is_on.get() {
            self.note(at, bytes, |users| users.readers |= bit(thread));
        }
    }

    #[inline(never)]
    fn note(&self, at: u64, bytes: u64, change: impl Fn(&mut Users)) {
        let mut lines = self.lines.borrow_mut();
        for line in at / LINE_BYTES..=(at + bytes.max(1) - 1) / LINE_BYTES {
            change(lines.entry(line).or_insert(Users { writer: usize::MAX, readers: 0 }));
        }
    }

    /// The instruction before `site` flushes the line.
    pub(crate) fn flushed(&self, thread: usize, line: u64, site: u64) {
        if !self.is_on.get() {
            return;
        }
        let lines = self.lines.borrow();
        let Some(users) = lines.get(&(line / LINE_BYTES)) else { return };
        let is_others = users.writer != usize::MAX && users.writer != thread;
        if is_others && users.readers & bit(thread) == 0 {
            self.count.set(self.count.get() + 1);
            self.first.set(self.first.get().or(Some(site)));
        }
    }

    /// How many flushes, and the place of the first one.
    pub(crate) fn found(&self) -> Option<(u64, u64)> {
        Some((self.count.get(), self.first.get()?))
    }
}

fn bit(thread: usize) -> u64 {
    1 << (thread % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_of_what_another_thread_has_stored_counts_until_it_is_read() {
        let unread = Unread::default();
        unread.is_on.set(true);
        unread.stored(1, 640, 16);
        unread.flushed(1, 640, 7);
        assert_eq!(unread.found(), None, "the thread's own");
        unread.flushed(2, 640, 8);
        unread.flushed(2, 704, 9);
        assert_eq!(unread.found(), Some((1, 8)));
        unread.loaded(2, 648, 8);
        unread.flushed(2, 640, 8);
        assert_eq!(unread.found(), Some((1, 8)), "it is read");
        unread.stored(1, 640, 8);
        unread.flushed(2, 640, 10);
        assert_eq!(unread.found(), Some((2, 8)), "and stored again");
    }
}
