//! The seam, through a Ribbon: which operations it has a hand in, and that all others pass it by.
//!
//! Stores are hooked for the owner words (`early`), flushes and fences are the FIFO's business, and
//! a locked operation waits for the FIFO as a fence does, as it is one on x86.

use super::RibbonMemory;
use seawall_memory::{Addr, Memory, Width, lines_of, pass};
use std::ops::Deref;

impl<H: Deref<Target: Memory + Sized>> Memory for RibbonMemory<'_, H> {
    pass!(memory: thread, seats, load_bits, strand, work, now, grow, will_write, spin_while);
    pass!(memory: sleep_while, wake);
    pass!(memory: output, load_line, read, forward, bring_back);
    pass!(memory: relocates, forwards, set_relocation, purpose);

    /// Nothing: a flusher that is late may touch a line of these bytes after anybody needs it, and
    /// so may the cleaner.
    fn discard(&self, _: Addr, _: u64) {}

    #[inline]
    #[track_caller]
    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        let is_own = self.before_store(at, width.bytes());
        self.memory.store_bits(at, width, value);
        self.after_store(at, width.bytes(), is_own);
    }

    #[inline]
    #[track_caller]
    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        self.settle();
        let is_own = self.before_store(at, 8);
        let outcome = self.memory.compare_exchange(at, current, new);
        self.after_store(at, 8, is_own);
        outcome
    }

    #[inline]
    #[track_caller]
    fn swap(&self, at: Addr, new: u64) -> u64 {
        self.settle();
        let is_own = self.before_store(at, 8);
        let before = self.memory.swap(at, new);
        self.after_store(at, 8, is_own);
        before
    }

    #[inline]
    #[track_caller]
    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        self.settle();
        let is_own = self.before_store(at, 8);
        let before = self.memory.fetch_add(at, by);
        self.after_store(at, 8, is_own);
        before
    }

    #[inline]
    #[track_caller]
    fn flush(&self, at: Addr, len: u64) {
        if !self.is_plain.get() && at.is_pm() {
            return self.flush_as_agreed(at, len);
        }
        self.memory.flush(at, len);
        if at.is_pm() {
            let lines = lines_of(at, len).count() as u64;
            self.lines.set(self.lines.get() + lines);
        }
    }

    #[inline]
    #[track_caller]
    fn order(&self) {
        if !self.is_plain.get() {
            return self.fence(H::Target::order);
        }
        self.memory.order();
        self.has_fenced();
    }

    #[inline]
    #[track_caller]
    fn join_strands(&self) {
        if !self.is_plain.get() {
            return self.fence(H::Target::join_strands);
        }
        self.memory.join_strands();
        self.has_fenced();
    }

    #[inline]
    #[track_caller]
    fn drain(&self) {
        if !self.is_plain.get() {
            return self.fence(H::Target::drain);
        }
        self.memory.drain();
        self.has_fenced();
    }

    #[inline]
    #[track_caller]
    fn write(&self, at: Addr, from: &[u8]) {
        let is_own = self.before_store(at, from.len() as u64);
        self.memory.write(at, from);
        self.after_store(at, from.len() as u64, is_own);
    }

    /// Not left to anybody: the bytes go past the caches, or the machine below flushes them.
    #[inline]
    #[track_caller]
    fn write_nt(&self, at: Addr, from: &[u8]) {
        let is_own = self.before_store(at, from.len() as u64);
        self.memory.write_nt(at, from);
        self.after_store(at, from.len() as u64, is_own);
    }

    #[track_caller]
    fn relocate(&self, to: Addr, from: Addr, len: u64) {
        self.settle();
        let is_own = self.before_store(to, len);
        self.memory.relocate(to, from, len);
        self.after_store(to, len, is_own);
    }
}
