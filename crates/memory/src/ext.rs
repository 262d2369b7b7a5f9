//! The program's side of the seam: typed accesses, the fences by name, and what lies behind doors.

use crate::{Addr, Clock, Fence, Memory, Parking, Space, Word};

/// What a program calls, on every [`Memory`].
pub trait MemoryExt: Memory {
    /// Reads a word at its aligned address.
    #[inline]
    #[track_caller]
    fn load<W: Word>(&self, at: Addr) -> W {
        W::from_bits(self.load_bits(at, W::WIDTH))
    }

    /// Writes a word at its aligned address; never torn by a crash.
    #[inline]
    #[track_caller]
    fn store<W: Word>(&self, at: Addr, value: W) {
        self.store_bits(at, W::WIDTH, value.to_bits());
    }

    /// Orders persists: [`Fence::Order`].
    #[inline]
    #[track_caller]
    fn order(&self) {
        self.fence(Fence::Order);
    }

    /// Waits until everything stored and flushed is durable: [`Fence::Drain`].
    #[inline]
    #[track_caller]
    fn drain(&self) {
        self.fence(Fence::Drain);
    }

    /// Begins a strand: [`Fence::Strand`].
    #[inline]
    #[track_caller]
    fn strand(&self) {
        self.fence(Fence::Strand);
    }

    /// Joins the strands of this thread: [`Fence::Join`].
    #[inline]
    #[track_caller]
    fn join_strands(&self) {
        self.fence(Fence::Join);
    }

    /// Flushes `len` bytes from `at` and returns when they, and all flushed before, are durable.
    #[inline]
    #[track_caller]
    fn persist(&self, at: Addr, len: u64) {
        self.flush(at, len);
        self.drain();
    }

    /// The time of the machine's [clock](Memory::clock); 0 if it has none. To compare the lengths
    /// of spans.
    #[inline]
    fn now(&self) -> u64 {
        self.clock().map_or(0, |clock| clock.now())
    }

    /// As [`spin_while`](Memory::spin_while), for long waits: where threads can
    /// [sleep](Memory::parking), others run meanwhile. The thread that changes the word must change
    /// its low 32 bits and call [`wake`](MemoryExt::wake).
    #[inline]
    #[track_caller]
    fn sleep_while(&self, at: Addr, value: u64) -> u64 {
        match self.parking() {
            Some(parking) => parking.sleep_while(at, value),
            None => self.spin_while(at, value),
        }
    }

    /// Wakes the threads that [sleep](MemoryExt::sleep_while) on the word at `at`, which has
    /// changed.
    #[inline]
    #[track_caller]
    fn wake(&self, at: Addr) {
        if let Some(parking) = self.parking() {
            parking.wake(at);
        }
    }

    /// As [`Space::grow`]; false on machines whose pools have a fixed length.
    #[track_caller]
    fn grow(&self, bytes: u64) -> bool {
        match self.space() {
            Some(space) => space.grow(bytes),
            None => false,
        }
    }

    /// As [`Space::will_write`].
    #[inline]
    #[track_caller]
    fn will_write(&self, at: Addr, len: u64) {
        if let Some(space) = self.space() {
            space.will_write(at, len);
        }
    }

    /// As [`Space::discard`].
    #[inline]
    #[track_caller]
    fn discard(&self, at: Addr, len: u64) {
        if let Some(space) = self.space() {
            space.discard(at, len);
        }
    }

    /// As [`Space::bring_back`]; true on machines that never take a page.
    #[inline]
    #[track_caller]
    fn bring_back(&self, at: Addr, len: u64) -> bool {
        match self.space() {
            Some(space) => space.bring_back(at, len),
            None => true,
        }
    }

    /// As [`Space::hole`]; none on machines that never take a page.
    #[track_caller]
    fn hole(&self, at: Addr, len: u64) -> Option<(Addr, u64)> {
        self.space()?.hole(at, len)
    }
}

impl<M: Memory> MemoryExt for M {}
