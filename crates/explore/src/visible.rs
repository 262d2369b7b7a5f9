//! Which stores a load may return: x86-TSO in a recorded run (Sewell, Sarkar, Owens, Zappa
//! Nardelli, Myreen, "x86-TSO", CACM'10), in the form of views (Cho, Lee, Raad, Kang, PLDI'21).
//!
//! Memory is a list of stores. A store enters it at its call; what a store buffer delays shows in
//! the loads of the same thread, which may return what memory held earlier: before stores of the
//! thread that still waited in its buffer when the load took effect. So a load returns the newest
//! store to its word, or an older one that
//!
//! - is not older than what the thread has stored to the word or read from it;
//! - is overwritten after the newest store of another thread that this thread has read, and after
//!   its last locked operation;
//! - is overwritten before one or more stores of the thread, all still in its buffer. (Where there
//!   is none, the load could have come before the interruption.)

use rustc_hash::FxHashMap;
use std::ops::Range;

/// What memory held at a word for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Version {
    /// Its number in the list of all stores; 0: what was there at the start.
    number: u64,
    pub(crate) value: u64,
    writer: u16,
    /// Stores to persistent memory up to it, itself included.
    pub(crate) stores: u32,
}

impl Version {
    pub(crate) fn is_by_another(&self, thread: usize) -> bool {
        self.number > 0 && usize::from(self.writer) != thread
    }
}

#[derive(Clone, Default)]
struct View {
    /// The newest store known from others.
    seen: u64,
    /// The thread's latest stores since its last locked operation, one more than its buffer holds.
    own: Vec<u64>,
    /// For each word the store that the thread made or read last.
    coherent: FxHashMap<u64, u64>,
}

/// The list of stores, and what each thread knows of it.
pub(crate) struct Visible {
    /// By word, the oldest first.
    words: FxHashMap<u64, Vec<Version>>,
    views: Vec<View>,
    stores: u64,
    /// Stores that a buffer holds.
    buffer: usize,
}

impl Visible {
    pub(crate) fn new(threads: usize, buffer: usize) -> Visible {
        let views = vec![View::default(); threads];
        Visible { words: FxHashMap::default(), views, stores: 0, buffer }
    }

    /// The thread stored to the word; `stores` to persistent memory came before and with it.
    pub(crate) fn store(&mut self, thread: usize, word: u64, old: u64, new: u64, stores: u32) {
        self.stores += 1;
        let number = self.stores;
        let writer = thread as u16;
        let start = Version { number: 0, value: old, writer: u16::MAX, stores: 0 };
        let versions = self.words.entry(word).or_insert_with(|| vec![start]);
        versions.push(Version { number, value: new, writer, stores });
        let view = &mut self.views[thread];
        view.coherent.insert(word, number);
        if view.own.len() > self.buffer {
            view.own.remove(0);
        }
        view.own.push(number);
    }

    /// How far behind the newest store to the word a load by the thread may be.
    pub(crate) fn behind(&self, thread: usize, word: u64) -> Range<u32> {
        let view = &self.views[thread];
        let Some(versions) = self.words.get(&word).filter(|_| !view.own.is_empty()) else {
            return 0..0;
        };
        let coherent = view.coherent.get(&word).copied().unwrap_or(0);
        let mut range = 0..0;
        for (behind, pair) in (1..).zip(versions.windows(2).rev()) {
            let [older, over] = pair else { unreachable!("windows of two") };
            let buffered = view.own.iter().filter(|&&own| own > over.number).count();
            if over.number <= view.seen || older.number < coherent || buffered > self.buffer {
                break;
            }
            if buffered > 0 {
                range.start = if range.is_empty() { behind } else { range.start };
                range.end = behind + 1;
            }
        }
        range
    }

    /// What the word held so far behind its newest store, if that is behind at all.
    pub(crate) fn older(&self, word: u64, behind: u32) -> Option<Version> {
        self.version(word, behind).filter(|_| behind > 0)
    }

    fn version(&self, word: u64, behind: u32) -> Option<Version> {
        let versions = self.words.get(&word)?;
        versions.get(versions.len().checked_sub(1 + behind as usize)?).copied()
    }

    /// The thread reads the store that is so far behind the newest one.
    pub(crate) fn load(&mut self, thread: usize, word: u64, behind: u32) {
        let Some(version) = self.version(word, behind) else { return };
        let view = &mut self.views[thread];
        let known = view.coherent.insert(word, version.number);
        if known.unwrap_or(0) != version.number && usize::from(version.writer) != thread {
            view.seen = view.seen.max(version.number);
        }
    }

    /// The thread's buffer is empty, and it knows all that is in memory.
    pub(crate) fn locked(&mut self, thread: usize) {
        let view = &mut self.views[thread];
        view.seen = self.stores;
        view.own.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u64 = 1;
    const B: u64 = 2;

    #[test]
    fn a_load_may_be_behind_what_was_stored_before_an_own_store_that_waits() {
        let mut visible = Visible::new(2, 4);
        visible.store(0, A, 0, 1, 0);
        assert_eq!(visible.behind(1, A), 0..0, "nothing waits in the buffer");
        visible.store(1, B, 0, 1, 0);
        assert_eq!(visible.behind(1, A), 1..2);
        assert_eq!(visible.older(A, 1).unwrap().value, 0);
        visible.load(1, A, 1);
        assert_eq!(visible.behind(1, B), 0..0, "a thread sees its own stores");
    }

    #[test]
    fn what_a_thread_has_read_or_locked_it_sees_from_then_on() {
        let mut visible = Visible::new(2, 4);
        visible.store(0, A, 0, 1, 0);
        visible.store(0, B, 0, 1, 0);
        visible.store(1, 3, 0, 1, 0);
        visible.load(1, B, 0);
        assert_eq!(visible.behind(1, A), 0..0, "B came after A");
        visible.store(0, A, 1, 2, 0);
        visible.store(1, 3, 1, 2, 0);
        assert_eq!(visible.behind(1, A), 1..2);
        visible.locked(1);
        assert_eq!(visible.behind(1, A), 0..0);
    }

    #[test]
    fn a_buffer_holds_no_more_than_its_bound() {
        let mut visible = Visible::new(2, 2);
        visible.store(0, A, 0, 1, 0);
        visible.store(1, 3, 0, 1, 0);
        visible.store(1, 3, 1, 2, 0);
        assert_eq!(visible.behind(1, A), 1..2);
        visible.store(1, 3, 2, 3, 0);
        assert_eq!(visible.behind(1, A), 0..0, "the first store has left for the third");
    }
}
