//! The seam, through a Ribbon: which operations it has a hand in, and that all others pass it by.
//!
//! Stores are hooked for the owner words (`early`), flushes and fences are the FIFO's business, and
//! a locked operation waits for the FIFO as a fence does, as it is one on x86.

use super::RibbonMemory;
use seawall_memory::relocation::{Relocation, RelocationUnit};
use seawall_memory::{Addr, Fence, Memory, Space, Width, layer, lines_of};
use std::ops::Deref;

impl<H: Deref<Target: Memory>> layer::Layer for RibbonMemory<'_, H> {
    type Below = H::Target;

    #[inline]
    fn below(&self) -> &H::Target {
        &self.memory
    }

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
    fn fence(&self, fence: Fence) {
        match fence {
            Fence::Strand => self.memory.fence(fence),
            Fence::Order | Fence::Drain | Fence::Join if self.is_plain.get() => {
                self.memory.fence(fence);
                self.has_fenced();
            }
            Fence::Order | Fence::Drain | Fence::Join => self.fence_requests(fence),
        }
    }

    #[inline]
    #[track_caller]
    fn write(&self, at: Addr, from: &[u8]) {
        let is_own = self.before_store(at, from.len() as u64);
        self.memory.write(at, from);
        self.after_store(at, from.len() as u64, is_own);
    }

    /// Needs no flusher: the bytes go past the caches, or the machine below flushes them.
    #[inline]
    #[track_caller]
    fn write_nt(&self, at: Addr, from: &[u8]) {
        let is_own = self.before_store(at, from.len() as u64);
        self.memory.write_nt(at, from);
        self.after_store(at, from.len() as u64, is_own);
    }

    fn space(&self) -> Option<impl Space> {
        self.memory.space().map(Kept)
    }

    fn relocation(&self) -> Option<impl RelocationUnit> {
        self.memory.relocation().map(|unit| Hooked { memory: self, unit })
    }
}

/// A space of which no page is discarded: a late flusher, or the cleaner, may touch a line of a
/// page after the program has given it up.
struct Kept<S>(S);

impl<S: Space> Space for Kept<S> {
    fn grow(&self, bytes: u64) -> bool {
        self.0.grow(bytes)
    }

    fn will_write(&self, at: Addr, len: u64) {
        self.0.will_write(at, len);
    }

    fn discard(&self, _: Addr, _: u64) {}

    fn bring_back(&self, at: Addr, len: u64) -> bool {
        self.0.bring_back(at, len)
    }

    fn hole(&self, at: Addr, len: u64) -> Option<(Addr, u64)> {
        self.0.hole(at, len)
    }
}

/// A relocation unit whose copies are stores of a Ribbon's thread.
struct Hooked<'r, 'm, H: Deref<Target: Memory>, U> {
    memory: &'r RibbonMemory<'m, H>,
    unit: U,
}

impl<H: Deref<Target: Memory>, U: RelocationUnit> RelocationUnit for Hooked<'_, '_, H, U> {
    fn forwards(&self) -> bool {
        self.unit.forwards()
    }

    fn set(&self, registers: Option<Relocation>) {
        self.unit.set(registers);
    }

    fn relocate(&self, to: Addr, from: Addr, len: u64) {
        self.memory.settle();
        let is_own = self.memory.before_store(to, len);
        self.unit.relocate(to, from, len);
        self.memory.after_store(to, len, is_own);
    }

    fn forward(&self, at: Addr) -> Addr {
        self.unit.forward(at)
    }
}
