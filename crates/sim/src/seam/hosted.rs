//! What compiled code does that a program written for [`Memory`](seawall_memory::Memory) cannot:
//! locked instructions that the host executes, wide and unaligned accesses, threads that start
//! later, and pages of this process that become lines when they are touched.
//!
//! All of it works in simulations of either kind, but for [`map`](SimMemory::map).

use super::SimMemory;
use crate::Cycle;
use crate::engine::counters::Reason;
use crate::run::Measured;
use seawall_memory::{Addr, LINE_BYTES, Memory as _};

/// The operations of a simulated core for code that the host executes. After `None` or false, pause
/// and try again.
pub(crate) trait HostPort {
    fn map(&mut self, page: u64, is_pm: bool, contents: &[u8]) -> bool;
    fn is_mapped(&self, at: Addr) -> bool;
    fn lock(&mut self, core: usize, at: Addr, bytes: usize) -> Option<[u64; 2]>;
    fn unlock(&mut self, core: usize, at: Addr, bytes: usize, new: Option<[u64; 2]>);
    fn full_fence(&mut self, core: usize) -> bool;
    fn load_bytes(&mut self, core: usize, at: Addr, bytes: usize) -> Option<u64>;
    fn load_at_once(&mut self, core: usize, at: Addr, into: &mut [u64]) -> bool;
    fn store_at_once(&mut self, core: usize, at: Addr, words: &[u64], masks: &[u64]) -> bool;
    fn stream_at_once(&mut self, core: usize, at: Addr, words: &[u64; 8]) -> bool;
    fn frame_loads(&mut self, core: usize, at: Addr, count: u32) -> bool;
    fn frame_stores(&mut self, core: usize, at: Addr, count: u16, value: u64) -> bool;
    fn park(&mut self, core: usize, reason: Reason, deadline: Option<Cycle>) -> Option<bool>;
    fn turn(&mut self, core: usize) -> bool;
    fn unpark(&mut self, core: usize, other: usize) -> bool;
    fn end(&mut self, core: usize) -> bool;
    fn warm(&mut self, core: usize) -> bool;
    fn set_site(&mut self, core: usize, site: u32);
    fn wait_for_address(&mut self, core: usize, known: Cycle);
    fn arrived(&mut self, core: usize) -> Cycle;
    fn measured(&mut self, core: usize) -> Option<Measured>;
    fn mark_region(&mut self, core: usize, begins: bool) -> bool;
    fn is_pending(&self, core: usize, at: Addr) -> bool;
    fn cores(&self) -> usize;
    fn ghz(&self) -> f64;
}

/// Pages of the host.
impl SimMemory<'_> {
    /// Gives the page of 4 KiB at the host address `page` the next free lines of the persistent or
    /// of the volatile memory. They start with `contents`, and with zeros behind them if these are
    /// shorter than a page; persistent ones are durable. Takes no simulated time.
    ///
    /// If no lines are free, the run ends with
    /// [`SimError::HostSpaceFull`](crate::SimError::HostSpaceFull), and this does not return.
    ///
    /// # Panics
    /// If the simulation is not one [of the host](crate::Simulation::of_host), or `page` is not the
    /// address of a page from 4096 on and below 2^47, or is mapped already.
    #[track_caller]
    pub fn map(&self, page: u64, is_pm: bool, contents: &[u8]) {
        self.until(|machine| machine.map(page, is_pm, contents).then_some(()));
    }

    /// Whether the page of an address has been mapped. Every other operation on an address needs
    /// that.
    pub fn is_mapped(&self, at: Addr) -> bool {
        self.machine.borrow().is_mapped(at)
    }
}

/// Accesses.
impl SimMemory<'_> {
    /// The addresses of this core's next loads are known at this cycle, until another one is told.
    pub fn wait_for_address(&self, known: Cycle) {
        self.machine.borrow_mut().wait_for_address(self.core, known);
    }

    /// When the last of this core's loads since the last call of this arrives.
    pub fn arrived(&self) -> Cycle {
        self.machine.borrow_mut().arrived(self.core)
    }

    /// Waits until a locked instruction on these bytes can take effect, and returns the aligned
    /// word with the first of them and, if they reach into it, the next one (else 0). The caller
    /// then executes the instruction itself, and calls [`unlock`](SimMemory::unlock) before any
    /// other operation: nothing happens in the machine in between.
    ///
    /// The design is asked for permission to store before it is known whether the instruction will.
    ///
    /// # Panics
    /// If the bytes are none, cross a line, or are in more than two words.
    #[track_caller]
    pub fn lock(&self, at: Addr, bytes: usize) -> [u64; 2] {
        self.until(|machine| machine.lock(self.core, at, bytes))
    }

    /// The instruction that [`lock`](SimMemory::lock) has begun stores its bytes of these words, or
    /// nothing, as a compare-exchange that fails.
    pub fn unlock(&self, at: Addr, bytes: usize, new: Option<[u64; 2]>) {
        self.machine.borrow_mut().unlock(self.core, at, bytes, new);
    }

    /// A full fence (`mfence`): waits, as a locked instruction does, until the store buffer is
    /// empty, loads are complete, and the design lets it pass.
    #[track_caller]
    pub fn full_fence(&self) {
        self.until(|machine| machine.full_fence(self.core).then_some(()));
    }

    /// Loads up to 8 bytes, wherever in a line, as one instruction; the other bytes are 0.
    ///
    /// # Panics
    /// If they cross a line.
    #[track_caller]
    pub fn load_bytes(&self, at: Addr, bytes: usize) -> u64 {
        self.until(|machine| machine.load_bytes(self.core, at, bytes))
    }

    /// Stores up to 8 bytes, wherever in a line, as one instruction.
    ///
    /// # Panics
    /// If they cross a line.
    #[track_caller]
    pub fn store_bytes(&self, at: Addr, bytes: usize, value: u64) {
        assert!((1..=8).contains(&bytes), "a store of {bytes} bytes");
        let byte = at.bits() % 8;
        let all = u128::from(u64::MAX >> (64 - 8 * bytes));
        let split = |bits: u128| [bits as u64, (bits >> 64) as u64];
        let (values, masks) = (split(u128::from(value) << (8 * byte)), split(all << (8 * byte)));
        let words = 1 + usize::from(masks[1] != 0);
        self.store_words(Addr::from_bits(at.bits() - byte), &values[..words], &masks[..words]);
    }

    /// Loads aligned words of one line as one instruction.
    ///
    /// # Panics
    /// If `at` is not aligned to 8 bytes, or the words are not all of one line.
    #[track_caller]
    pub fn load_words(&self, at: Addr, into: &mut [u64]) {
        self.until(|machine| machine.load_at_once(self.core, at, into).then_some(()));
    }

    /// Stores the bits of `masks` of aligned words of one line as one instruction. It takes one
    /// place in the store buffer, and all its words take effect together.
    ///
    /// # Panics
    /// If `at` is not aligned to 8 bytes, the words are not all of one line, or all masks are
    /// empty.
    #[track_caller]
    pub fn store_words(&self, at: Addr, words: &[u64], masks: &[u64]) {
        assert_eq!(words.len(), masks.len(), "a mask for each word");
        self.until(|machine| machine.store_at_once(self.core, at, words, masks).then_some(()));
    }

    /// Writes a line past the caches, as one (`movdir64b`): a crash keeps all of it or nothing, and
    /// no core sees a part. Where such stores do not [combine](SimMemory::combines), it is an
    /// ordinary store of the line and a flush.
    ///
    /// # Panics
    /// If `at` is not the start of a line.
    #[track_caller]
    pub fn write_line(&self, at: Addr, from: [u64; 8]) {
        if self.combines(at) {
            self.until(|machine| machine.stream_at_once(self.core, at, &from).then_some(()));
        } else {
            self.store_words(at, &from, &[u64::MAX; 8]);
            self.flush(at, LINE_BYTES);
        }
    }

    /// Charges accesses to the frame of a function that were only counted: `loads` and `stores` of
    /// the line of the aligned word at `at`. One of each is performed on that word, and the stores
    /// leave `value` there; the others hit the L1 right behind it and take their issue slots alone.
    #[track_caller]
    pub fn frame(&self, at: Addr, loads: u32, stores: u32, value: u64) {
        if loads > 0 {
            self.until(|machine| machine.frame_loads(self.core, at, loads).then_some(()));
        }
        let mut left = stores;
        while left > 0 {
            let count = left.min(u16::MAX.into()) as u16;
            self.until(|machine| machine.frame_stores(self.core, at, count, value).then_some(()));
            left -= u32::from(count);
        }
    }

    /// Whether stores past the caches at `at` are more than ordinary ones: the design does not
    /// track stores, the machine has a write-combining buffer, and the memory is persistent.
    pub fn combines(&self, at: Addr) -> bool {
        self.machine.borrow().combines(at)
    }

    /// Whether a store of another core to the aligned word around `at` has been issued and is not
    /// in memory yet, as that core alone can see.
    pub fn is_pending(&self, at: Addr) -> bool {
        self.machine.borrow().is_pending(self.core, at)
    }
}

/// Threads, and the end.
impl SimMemory<'_> {
    /// The number of cores of the machine.
    pub fn cores(&self) -> usize {
        self.machine.borrow().cores()
    }

    /// Waits, idle, until another program [unparks](SimMemory::unpark) this core. Returns at once
    /// if one has done so since the last return.
    ///
    /// A run in which nothing is left but parked cores has come to a deadlock.
    #[track_caller]
    pub fn park(&self) {
        self.until(|machine| machine.park(self.core, Reason::Idle, None));
    }

    /// As [`park`](SimMemory::park), of a thread that sleeps until another one wakes it: its cycles
    /// count as those of a lock. It ends at this time on the core's clock, in nanoseconds, at the
    /// latest. Whether the core was unparked.
    ///
    /// An unpark that comes after a deadline is kept for the next park.
    #[track_caller]
    pub fn sleep(&self, deadline: Option<u64>) -> bool {
        let ghz = self.machine.borrow().ghz();
        let deadline = deadline.map(|at| (at as f64 * ghz).ceil() as Cycle);
        self.until(|machine| machine.park(self.core, Reason::Lock, deadline))
    }

    /// Waits until all that comes before this core's present has happened. Nothing else happens
    /// before the core's next operation, so that what the host does now is done at that time.
    #[track_caller]
    pub fn turn(&self) {
        self.until(|machine| machine.turn(self.core).then_some(()));
    }

    /// Lets the program of `core` leave [`park`](SimMemory::park), at the later of its own clock
    /// and this core's.
    #[track_caller]
    pub fn unpark(&self, core: usize) {
        self.until(|machine| machine.unpark(self.core, core).then_some(()));
    }

    /// Ends the run, as `exit` does: the programs of all cores count as returned now. What is in
    /// store buffers still takes effect.
    ///
    /// In a simulation [of the host](crate::Simulation::of_host), their stacks stay as they are; in
    /// others they are unwound.
    #[track_caller]
    pub fn end(&self) -> ! {
        self.until(|machine| machine.end(self.core).then_some(()));
        loop {
            self.pause.pause();
        }
    }
}

/// Measuring.
impl SimMemory<'_> {
    /// Fills the caches with the lines that there are, as those of a machine that has run for
    /// long: the shared cache, or where there is a directory alone the private ones of the cores
    /// that have run. Lines that are in caches stay there.
    #[track_caller]
    pub fn warm(&self) {
        self.until(|machine| machine.warm(self.core).then_some(()));
    }

    /// The program goes on at this site of its code; 0 is none. Takes no simulated time.
    ///
    /// With a [profile](crate::Simulation::with_profile), cycles count for the site of the
    /// instruction that holds the core up, or that issues.
    pub fn set_site(&self, site: u32) {
        self.machine.borrow_mut().set_site(self.core, site);
    }

    /// What has happened up to now, by this core's clock.
    #[track_caller]
    pub fn measured(&self) -> Measured {
        self.until(|machine| machine.measured(self.core))
    }

    /// The region begins to which the outcome of the run will refer. Another beginning, or end,
    /// replaces an earlier one.
    #[track_caller]
    pub fn roi_begin(&self) {
        self.until(|machine| machine.mark_region(self.core, true).then_some(()));
    }

    /// The region ends. Without this it ends with the run.
    #[track_caller]
    pub fn roi_end(&self) {
        self.until(|machine| machine.mark_region(self.core, false).then_some(()));
    }

    /// The nanoseconds that so many cycles take.
    pub fn nanoseconds(&self, cycles: Cycle) -> u64 {
        (cycles as f64 / self.machine.borrow().ghz()) as u64
    }
}
