//! `trait Memory` on mapped memory: plain instructions, one check per access, no virtual calls.
//!
//! In the domain `page` only the kernel writes data out, in any order. So an order must wait for
//! `msync`, as a drain does, and so must a locked operation while flushed pages are unwritten.
//! Dirty pages between the first and the last flushed one are written with them: that is allowed (a
//! crash may always keep more than was asked for) and costs one call.
//!
//! Fences are the main cost, so none is executed without need. A handle that has flushed no line,
//! and stored none past the caches, since its last fence has nothing to order: nothing is promised
//! about plain stores that were not flushed. On x86 a locked instruction that stores is also a
//! fence. In the domain `none` plain stores are durable once they are in the cache, and x86 and the
//! releasing stores used here put them there in order: an order has nothing to do. A drain still
//! executes the instruction, for stores in the store buffer; it costs a fraction of a nanosecond
//! and is not counted.

use crate::access::{load_at, load_range, store_at, store_range, stream_range};
use crate::cpu;
use crate::domain::Domain;
use crate::error::PoolError;
use crate::flush::{self, CAN_STORE_PAST_CACHES, FlushKind, LOCKED_IS_FENCE};
use crate::map::{self, Mapping};
use crate::space::Space;
use crate::wait::{self, Sleepers};
use crate::witness::Witness;
use seawall_memory::{
    Addr, Clock, Fence, LINE_BYTES, Memory, Parking, ThreadSlots, Width, lines_of,
};
use std::cell::Cell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Release, SeqCst};

/// The whole lines of these bytes, and the rest.
fn lines_in(bytes: &[u8]) -> (&[[u8; LINE_BYTES as usize]], &[u8]) {
    bytes.as_chunks()
}

/// Counts of the operations of a handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Persistent lines flushed, and lines written past the caches.
    pub flushed_lines: u64,
    /// Orders and drains that had flushed lines, or lines written past the caches, to wait for.
    pub fences: u64,
    /// `msync` calls (domain `page`).
    pub msyncs: u64,
}

/// One thread's handle on a [`Pool`](crate::Pool); neither `Send` nor `Sync`.
///
/// A store past the caches ([`write_nt`](Memory::write_nt)) is not ordered with other stores, as
/// other threads see them too, until the next order, drain or locked operation of its thread.
pub struct NativeMemory<'a> {
    space: &'a Space,
    pm: Region,
    dram: Region,
    flush: FlushKind,
    domain: Domain,
    thread: usize,
    slots: &'a ThreadSlots,
    sleepers: &'a Sleepers,
    witness: Option<&'a AtomicU64>,
    // The first and the last byte that were flushed and that msync has not written; none if
    // first > last.
    unwritten: Cell<(u64, u64)>,
    // `flushed_lines` at the last fence. While it has not changed, there is nothing to wait for.
    fenced_lines: Cell<u64>,
    counters: Cell<Counters>,
}

/// The binary logarithm of the number of bytes of an access.
#[inline]
const fn shift_of(width: Width) -> u32 {
    width.bytes().trailing_zeros()
}

const NOTHING: (u64, u64) = (u64::MAX, 0);

/// The address of a region, and the number of its bytes that this handle knows of.
struct Region {
    base: *mut u8,
    bytes: Cell<u64>,
    // The same in words, the width of most accesses.
    words: Cell<u64>,
}

impl Region {
    fn of(mapping: &Mapping, bytes: u64) -> Region {
        let region = Region { base: mapping.base(), bytes: Cell::new(0), words: Cell::new(0) };
        region.set_bytes(bytes);
        region
    }

    fn set_bytes(&self, bytes: u64) {
        self.bytes.set(bytes);
        self.words.set(bytes >> shift_of(Width::B8));
    }

    /// The number of whole pieces of 2 to the power of `shift` bytes.
    #[inline]
    fn pieces(&self, shift: u32) -> u64 {
        if shift == shift_of(Width::B8) { self.words.get() } else { self.bytes.get() >> shift }
    }
}

impl<'a> NativeMemory<'a> {
    pub(crate) fn new(
        space: &'a Space,
        dram: &'a Mapping,
        flush: FlushKind,
        domain: Domain,
        (thread, slots, sleepers): (usize, &'a ThreadSlots, &'a Sleepers),
    ) -> NativeMemory<'a> {
        NativeMemory {
            space,
            pm: Region::of(space.mapping(), space.bytes()),
            dram: Region::of(dram, dram.bytes()),
            flush,
            domain,
            thread,
            slots,
            sleepers,
            witness: None,
            unwritten: Cell::new(NOTHING),
            fenced_lines: Cell::new(0),
            counters: Cell::new(Counters::default()),
        }
    }

    /// Makes the handle store its outputs in the thread's line of `witness`.
    ///
    /// # Panics
    /// If `witness` was made for fewer threads.
    #[must_use]
    pub fn with_witness(self, witness: &'a Witness) -> NativeMemory<'a> {
        NativeMemory { witness: Some(witness.word(self.thread)), ..self }
    }

    /// The counts of this handle so far.
    pub fn counters(&self) -> Counters {
        self.counters.get()
    }

    fn count(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }

    #[inline]
    fn region(&self, at: Addr) -> &Region {
        if at.is_pm() { &self.pm } else { &self.dram }
    }

    /// The host address of an access to 2 to the power of `shift` bytes, aligned to its size.
    /// Rotating the offset moves low bits that break the alignment to the top, so that one
    /// comparison rejects both an unaligned access and one out of range.
    #[inline]
    #[track_caller]
    fn place(&self, at: Addr, shift: u32) -> *mut u8 {
        let place = |region: &Region| {
            let offset = at.offset();
            if offset.rotate_right(shift) >= region.pieces(shift) {
                return self.look_again(at, 1 << shift, 1 << shift);
            }
            // SAFETY: the access lies wholly inside the bytes that are there.
            unsafe { region.base.add(offset as usize) }
        };
        // A branch, not a selected region: many callers know at compile time which one it is.
        if at.is_pm() { place(&self.pm) } else { place(&self.dram) }
    }

    /// The host address of `len` bytes of any alignment.
    #[inline]
    #[track_caller]
    fn place_of_range(&self, at: Addr, len: u64) -> *mut u8 {
        let region = self.region(at);
        let bytes = region.bytes.get();
        if at.offset() > bytes || len > bytes - at.offset() {
            return self.look_again(at, len, 1);
        }
        // SAFETY: at most one past the end of the bytes that are there.
        unsafe { region.base.add(at.offset() as usize) }
    }

    /// The host address of bytes that the pool has grown by since this handle last looked. Panics
    /// on any other access.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn look_again(&self, at: Addr, len: u64, align: u64) -> *mut u8 {
        self.pm.set_bytes(self.space.bytes());
        let region = self.region(at);
        let bytes = region.bytes.get();
        let inside = at.offset() <= bytes && len <= bytes - at.offset();
        if !inside || !at.offset().is_multiple_of(align) {
            let region = if at.is_pm() { "the pool" } else { "DRAM" };
            panic!(
                "{len} bytes at {at} are not aligned or not within the {bytes} bytes of {region}"
            );
        }
        // SAFETY: at most one past the end of the bytes that are there.
        unsafe { region.base.add(at.offset() as usize) }
    }

    #[inline]
    #[track_caller]
    fn atomic(&self, at: Addr) -> &AtomicU64 {
        let place = self.place(at, shift_of(Width::B8)).cast();
        // SAFETY: aligned, inside a mapping that outlives `self`, and only used by atomics.
        unsafe { AtomicU64::from_ptr(place) }
    }

    #[inline]
    fn by_page(&self) -> bool {
        self.domain == Domain::Page
    }

    /// Executes `action`, a locked instruction; `stores` tests its result for whether it stored.
    /// The instruction orders flushed lines by itself, except in the domain `page` and with
    /// `clflush`.
    #[inline]
    fn locked<T>(&self, action: impl FnOnce() -> T, stores: impl FnOnce(&T) -> bool) -> T {
        if self.by_page() || self.flush == FlushKind::Clflush {
            self.wait_for_flushes();
        }
        let result = action();
        if LOCKED_IS_FENCE && stores(&result) {
            self.fenced_lines.set(self.counters.get().flushed_lines);
        }
        result
    }

    /// Fences what was flushed since the last fence; returns whether there was anything.
    #[inline]
    fn wait_for_flushes(&self) -> bool {
        let flushed_lines = self.counters.get().flushed_lines;
        if flushed_lines == self.fenced_lines.get() {
            return false;
        }
        self.fenced_lines.set(flushed_lines);
        flush::fence(self.flush);
        if self.by_page() {
            self.write_pages();
        }
        true
    }

    #[inline]
    fn count_fence(&self) {
        self.count(|counters| counters.fences += 1);
    }

    fn write_pages(&self) {
        let (first, last) = self.unwritten.replace(NOTHING);
        if first > last {
            return;
        }
        // SAFETY: both were checked when they were flushed, and the mapping outlives `self`.
        let written = unsafe { map::sync_pages(self.pm.base, first, last) };
        if let Err(error) = written {
            panic!(
                "msync of the pool's bytes {first} to {last} failed: {error}; what was written \
                 since the last fence may be lost: check the disk, then recover the pool"
            );
        }
        self.count(|counters| counters.msyncs += 1);
    }

    fn note_unwritten(&self, at: Addr, len: u64) {
        let (first, last) = self.unwritten.get();
        self.unwritten.set((first.min(at.offset()), last.max(at.offset() + len - 1)));
    }
}

impl Memory for NativeMemory<'_> {
    #[inline]
    fn thread(&self) -> usize {
        self.thread
    }

    fn slots(&self) -> Option<&ThreadSlots> {
        Some(self.slots)
    }

    #[inline]
    #[track_caller]
    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        let place = self.place(at, shift_of(width));
        // SAFETY: `place` checked alignment and range.
        unsafe { load_at(place, width) }
    }

    #[inline]
    #[track_caller]
    fn load_line(&self, at: Addr) -> [u64; LINE_BYTES as usize / 8] {
        let place = self.place(at, LINE_BYTES.trailing_zeros());
        // SAFETY: `place` checked alignment and range.
        let word = |word: usize| unsafe { load_at(place.add(8 * word), Width::B8) };
        // Not by `array::from_fn`, which becomes a loop of calls.
        [word(0), word(1), word(2), word(3), word(4), word(5), word(6), word(7)]
    }

    #[inline]
    #[track_caller]
    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        let place = self.place(at, shift_of(width));
        // SAFETY: `place` checked alignment and range.
        unsafe { store_at(place, width, value) }
    }

    #[inline]
    #[track_caller]
    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        let word = self.atomic(at);
        self.locked(|| word.compare_exchange(current, new, SeqCst, SeqCst), Result::is_ok)
    }

    #[inline]
    #[track_caller]
    fn swap(&self, at: Addr, new: u64) -> u64 {
        let word = self.atomic(at);
        self.locked(|| word.swap(new, SeqCst), |_| true)
    }

    #[inline]
    #[track_caller]
    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        let word = self.atomic(at);
        self.locked(|| word.fetch_add(by, SeqCst), |_| true)
    }

    #[inline]
    #[track_caller]
    fn flush(&self, at: Addr, len: u64) {
        let place = self.place_of_range(at, len);
        if !at.is_pm() || len == 0 {
            return;
        }
        if self.by_page() {
            self.note_unwritten(at, len);
        }
        let mut lines = 0;
        for line in lines_of(at, len) {
            let back = at.offset() as i64 - line.start().offset() as i64;
            // SAFETY: the line holds a byte of a range that was checked, and the pool's mapping
            // starts and ends at a page. `flush` was chosen for this CPU.
            unsafe { flush::flush_line(self.flush, place.offset(-back as isize)) };
            lines += 1;
        }
        self.count(|counters| counters.flushed_lines += lines);
    }

    /// On machines that can be bought, one instruction both orders and drains.
    #[inline]
    fn fence(&self, fence: Fence) {
        match fence {
            Fence::Order | Fence::Join => {
                if self.wait_for_flushes() {
                    self.count_fence();
                }
            }
            Fence::Drain => {
                if self.wait_for_flushes() {
                    self.count_fence();
                } else if self.domain == Domain::None {
                    flush::fence(self.flush);
                }
            }
            Fence::Strand => {}
        }
    }

    /// No-op: the instructions of the program are real here.
    #[inline]
    fn work(&self, _: u32) {}

    fn spin_while(&self, at: Addr, value: u64) -> u64 {
        let word = self.atomic(at);
        wait::spin(word, value).unwrap_or_else(|| wait::give_way(word, value))
    }

    #[inline]
    fn output(&self, number: u64) {
        if let Some(word) = self.witness {
            word.store(number, Release);
        }
    }

    #[inline]
    #[track_caller]
    fn read(&self, at: Addr, into: &mut [u8]) {
        let place = self.place_of_range(at, into.len() as u64);
        // SAFETY: the range was checked.
        unsafe { load_range(place, into) }
    }

    #[inline]
    #[track_caller]
    fn write(&self, at: Addr, from: &[u8]) {
        let place = self.place_of_range(at, from.len() as u64);
        // SAFETY: the range was checked, and words are passed with aligned addresses in it.
        unsafe { store_range(place, from, |to, value| store_at(to, Width::B8, value)) };
    }

    /// Four aligned bytes take one instruction, and so does each quarter of a line in whole lines.
    #[inline]
    #[track_caller]
    fn write_nt(&self, at: Addr, from: &[u8]) {
        let can = CAN_STORE_PAST_CACHES && at.is_pm() && !self.by_page();
        let half: Result<[u8; 4], _> = from.try_into();
        match half {
            Ok(half) if can && at.offset().is_multiple_of(4) => {
                let place = self.place(at, shift_of(Width::B4));
                // SAFETY: `place` checked alignment and range.
                unsafe { flush::store_half_past_caches(place.cast(), u32::from_le_bytes(half)) };
                self.count(|counters| counters.flushed_lines += 1);
            }
            _ if can && at.offset().is_multiple_of(LINE_BYTES) => match lines_in(from) {
                (lines, []) => {
                    let place = self.place_of_range(at, from.len() as u64);
                    for (number, line) in lines.iter().enumerate() {
                        // SAFETY: the range was checked, and a mapping starts at a page.
                        unsafe {
                            let to = place.add(number * LINE_BYTES as usize);
                            flush::store_line_past_caches(to, line.as_ptr());
                        }
                    }
                    self.count(|counters| counters.flushed_lines += lines.len() as u64);
                }
                _ => self.write_range_nt(at, from),
            },
            _ => self.write_range_nt(at, from),
        }
    }

    #[inline]
    fn clock(&self) -> Option<impl Clock> {
        cpu::HAS_TICKS.then_some(TimeStamps)
    }

    #[inline]
    fn parking(&self) -> Option<impl Parking> {
        Some(self)
    }

    #[inline]
    fn space(&self) -> Option<impl seawall_memory::Space> {
        Some(self)
    }
}

/// The time-stamp counter of the processor.
pub(crate) struct TimeStamps;

impl Clock for TimeStamps {
    #[inline]
    fn now(&self) -> u64 {
        cpu::ticks()
    }

    #[inline]
    fn charge(&self, account: u8) -> u8 {
        account
    }
}

impl seawall_memory::Space for &NativeMemory<'_> {
    /// As [`Pool::grow`](crate::Pool::grow), which returns the reason for a failure.
    ///
    /// # Panics
    /// When the file was truncated, so that content of the pool is lost.
    fn grow(&self, bytes: u64) -> bool {
        if bytes <= self.pm.bytes.get() {
            return true;
        }
        let grown = self.space.grow(bytes);
        if let Err(error @ PoolError::Truncated { .. }) = grown {
            panic!("{error}");
        }
        self.pm.set_bytes(self.space.bytes());
        grown.is_ok()
    }

    /// A prefetch for a word, if it is there; one system call for a persistent range longer than a
    /// page.
    #[inline]
    fn will_write(&self, at: Addr, len: u64) {
        if len <= 8 {
            let region = self.region(at);
            if at.offset() < region.bytes.get() {
                // SAFETY: the byte is there.
                cpu::prefetch_for_write(unsafe { region.base.add(at.offset() as usize) });
            }
        } else if at.is_pm() && len > map::page_bytes() {
            let place = self.place_of_range(at, len);
            // SAFETY: the range was checked, and the mapping outlives `self`.
            unsafe { map::bring_in(place, len) };
        }
    }

    /// One system call, which returns the blocks to the file system if that supports holes.
    fn discard(&self, at: Addr, len: u64) {
        let place = self.place_of_range(at, len);
        // SAFETY: the range was checked, and the mapping outlives `self`.
        unsafe { map::discard(place, len) };
    }

    /// One system call.
    fn bring_back(&self, at: Addr, len: u64) -> bool {
        let place = self.place_of_range(at, len);
        // SAFETY: the range was checked, and the mapping outlives `self`.
        unsafe { map::bring_back(place, len) }
    }

    /// Two system calls. Space that was allocated and never written to counts as a hole.
    fn hole(&self, at: Addr, len: u64) -> Option<(Addr, u64)> {
        let (start, bytes) = map::hole(self.space.file(), at.offset(), at.offset() + len)?;
        Some((Addr::pm(start), bytes))
    }
}

impl Parking for &NativeMemory<'_> {
    /// Spins for a while, as [`spin_while`](Memory::spin_while) does, and then sleeps until it is
    /// [woken](Parking::wake).
    #[inline]
    fn sleep_while(&self, at: Addr, value: u64) -> u64 {
        self.sleep(at, value)
    }

    #[inline]
    fn wake(&self, at: Addr) {
        self.sleepers.wake(self.atomic(at));
    }
}

impl NativeMemory<'_> {
    #[track_caller]
    fn sleep(&self, at: Addr, value: u64) -> u64 {
        let word = self.atomic(at);
        wait::spin(word, value).unwrap_or_else(|| self.sleepers.sleep(word, value))
    }

    #[track_caller]
    fn write_range_nt(&self, at: Addr, from: &[u8]) {
        let len = from.len() as u64;
        if !at.is_pm() || self.by_page() || !CAN_STORE_PAST_CACHES {
            self.write(at, from);
            return self.flush(at, len);
        }
        let place = self.place_of_range(at, len);
        // SAFETY: the range was checked.
        let (head, tail) = unsafe { stream_range(place, from) };
        let before = self.counters.get();
        self.flush(at, head);
        self.flush(at.plus(len - tail), tail);
        let flushed_lines = before.flushed_lines + lines_of(at, len).count() as u64;
        self.counters.set(Counters { flushed_lines, ..before });
    }
}

#[cfg(test)]
mod tests;
