//! What the runtime needs of a machine, in addresses of the host.
//!
//! The runtime knows no machine: it turns instructions of the program into these operations. Each
//! may let other threads of the program run before it returns.

use crate::process::stored::Stored;
use seawall_memory::{Addr, Clock, Fence, Memory, Width};
use seawall_sim::{Cycle, SimMemory};

/// One thread's view of the machine that the program runs on.
pub(crate) trait Machine {
    /// Gives the machine a page of 4 KiB with its contents.
    fn map(&self, page: u64, is_pm: bool, contents: &[u8]);
    /// The address of the loads that follow is known at this cycle; 0: it always was.
    fn wait_for_address(&self, _: Cycle) {}
    /// When the loads since the last call of this have arrived.
    fn arrived(&self) -> Cycle {
        0
    }
    /// Reads the aligned `width` at `at`.
    fn load(&self, at: u64, width: Width) -> u64;
    /// Reads aligned words of one line with one instruction.
    fn load_words(&self, at: u64, into: &mut [u64]);
    fn store(&self, at: u64, width: Width, value: u64);
    /// Writes the bits of the masks to aligned words of one line, with one instruction.
    fn store_words(&self, at: u64, words: &[u64], masks: &[u64]);
    /// Whether a store past the caches at `at` goes past them; else it is an ordinary one.
    fn streams(&self, _at: u64) -> bool {
        true
    }
    /// Writes past the caches.
    fn stream(&self, at: u64, bytes: &[u8]);
    /// Writes a whole line past the caches, as one.
    fn stream_line(&self, at: u64, words: [u64; 8]);
    /// Writes to several lines with one instruction.
    fn store_lines(&self, lines: &[Stored]) {
        for line in lines {
            self.store_words(line.at, &line.values[..line.words], &line.masks[..line.words]);
        }
    }
    /// What is written until `end_copy` is one write. One copy may be within another.
    fn begin_copy(&self) {}
    fn end_copy(&self) {}
    /// Begins a locked instruction: returns the aligned words that have the bytes.
    fn lock(&self, at: u64, bytes: usize) -> [u64; 2];
    /// Ends it: with the new words, or without a store.
    fn unlock(&self, at: u64, bytes: usize, words: Option<[u64; 2]>);
    fn flush(&self, line: u64);
    /// A flush that is ordered by itself (`clflush`).
    fn flush_in_order(&self, line: u64) {
        self.flush(line);
        self.fence(Fence::Order);
    }
    fn fence(&self, fence: Fence);
    /// Waits until all earlier stores are visible, and all earlier loads are complete.
    fn full_fence(&self);
    fn work(&self, instructions: u64);
    /// Accesses to the thread's frames: counts, and the value of the word at `at`. Returns whether
    /// the machine has that value now.
    fn frame(&self, at: u64, loads: u32, stores: u32, value: u64) -> bool;
    fn wait_while(&self, at: u64, value: u64) -> u64;
    fn output(&self, number: u64);
    fn nanoseconds(&self) -> u64;
    /// What follows is at this site of a profile; 0 is none.
    fn set_site(&self, _: u32) {}
    /// Sleeps until another thread calls `unpark`.
    fn park(&self);
    fn unpark(&self, core: usize);
    /// As `park`, but not beyond this time; whether another thread called `unpark`.
    fn sleep(&self, deadline: Option<u64>) -> bool;
    /// The system looks at the aligned word at `at`, on which threads may sleep: the newest value
    /// that is visible. No other thread runs until the next operation.
    fn look(&self, at: u64) -> u64;
    /// The system comes to those that sleep on this word: all that came before in time has
    /// happened. No other thread runs until the next operation.
    fn turn(&self, at: u64);
    /// What is mapped fills the caches, and measuring begins.
    fn begin_region(&self);
    fn end_region(&self);
    /// The program has ended.
    fn end(&self);
}

impl Machine for SimMemory<'_> {
    fn map(&self, page: u64, is_pm: bool, contents: &[u8]) {
        SimMemory::map(self, page, is_pm, contents);
    }

    #[inline]
    fn wait_for_address(&self, known: Cycle) {
        SimMemory::wait_for_address(self, known);
    }

    #[inline]
    fn arrived(&self) -> Cycle {
        SimMemory::arrived(self)
    }

    #[inline]
    fn load(&self, at: u64, width: Width) -> u64 {
        self.load_bits(Addr::from_bits(at), width)
    }

    fn load_words(&self, at: u64, into: &mut [u64]) {
        SimMemory::load_words(self, Addr::from_bits(at), into);
    }

    #[inline]
    fn store(&self, at: u64, width: Width, value: u64) {
        self.store_bits(Addr::from_bits(at), width, value);
    }

    fn store_words(&self, at: u64, words: &[u64], masks: &[u64]) {
        SimMemory::store_words(self, Addr::from_bits(at), words, masks);
    }

    fn streams(&self, at: u64) -> bool {
        self.combines(Addr::from_bits(at))
    }

    fn stream(&self, at: u64, bytes: &[u8]) {
        self.write_nt(Addr::from_bits(at), bytes);
    }

    fn stream_line(&self, at: u64, words: [u64; 8]) {
        self.write_line(Addr::from_bits(at), words);
    }

    fn lock(&self, at: u64, bytes: usize) -> [u64; 2] {
        SimMemory::lock(self, Addr::from_bits(at), bytes)
    }

    fn unlock(&self, at: u64, bytes: usize, words: Option<[u64; 2]>) {
        SimMemory::unlock(self, Addr::from_bits(at), bytes, words);
    }

    fn flush(&self, line: u64) {
        Memory::flush(self, Addr::from_bits(line), 64);
    }

    fn fence(&self, fence: Fence) {
        Memory::fence(self, fence);
    }

    fn full_fence(&self) {
        SimMemory::full_fence(self);
    }

    fn work(&self, mut instructions: u64) {
        while instructions > 0 {
            let some = u32::try_from(instructions).unwrap_or(u32::MAX);
            Memory::work(self, some);
            instructions -= u64::from(some);
        }
    }

    fn frame(&self, at: u64, loads: u32, stores: u32, value: u64) -> bool {
        SimMemory::frame(self, Addr::from_bits(at), loads, stores, value);
        stores > 0
    }

    fn wait_while(&self, at: u64, value: u64) -> u64 {
        self.spin_while(Addr::from_bits(at), value)
    }

    fn output(&self, number: u64) {
        Memory::output(self, number);
    }

    fn nanoseconds(&self) -> u64 {
        let cycles = self.clock().map_or(0, |clock| clock.now());
        SimMemory::nanoseconds(self, cycles)
    }

    fn set_site(&self, site: u32) {
        SimMemory::set_site(self, site);
    }

    fn park(&self) {
        SimMemory::park(self);
    }

    fn unpark(&self, core: usize) {
        SimMemory::unpark(self, core);
    }

    fn sleep(&self, deadline: Option<u64>) -> bool {
        SimMemory::sleep(self, deadline)
    }

    fn look(&self, at: u64) -> u64 {
        self.load_bits(Addr::from_bits(at), Width::B8)
    }

    fn turn(&self, _: u64) {
        SimMemory::turn(self);
    }

    fn begin_region(&self) {
        self.warm();
        self.roi_begin();
    }

    fn end_region(&self) {
        self.roi_end();
    }

    fn end(&self) {
        SimMemory::end(self);
    }
}
