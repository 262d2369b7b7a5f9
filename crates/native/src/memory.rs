//! `trait Memory` on mapped memory: plain instructions, one check an access, nothing virtual.
//!
//! In the domain `page` only the kernel writes data out, and in any order that it likes; so `order`
//! must wait for `msync` as `drain` does, and so must a locked operation when something flushed is
//! still unwritten. Pages between the first and the last flushed one are written with them if they
//! are dirty: that is allowed (a crash may always keep more than was asked) and costs one call.
//!
//! A fence is what everything here costs, so none is run for nothing. A handle that has flushed no
//! line, and stored none past the caches, since its last fence has nothing to put in order: plain
//! stores that nobody flushed are promised to nobody. On x86 a locked instruction that stores is a
//! fence as well. In the domain `none` plain stores are durable once they are in the cache, where
//! x86 and the releasing stores used here put them in order: `order` has nothing to do; `drain`
//! still runs the instruction, for stores in the store buffer, which costs a fraction of a
//! nanosecond and is not counted.

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

/// What a handle has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Persistent lines flushed, and lines written past the caches.
    pub flushed_lines: u64,
    /// `order` and `drain` that had flushed lines, or lines written past the caches, to wait for.
    pub fences: u64,
    /// `msync` calls (domain `page`).
    pub msyncs: u64,
}

/// One thread's handle on a [`Pool`](crate::Pool); neither `Send` nor `Sync`.
///
/// A store that went past the caches ([`write_nt`](Memory::write_nt)) is in order with nothing,
/// for other threads too, until the next `order`, `drain` or locked operation of its thread.
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
    // First and last byte flushed and not yet written by msync; none if first > last.
    unwritten: Cell<(u64, u64)>,
    // `flushed_lines` at the last fence: if it is the same now, there is nothing to wait for.
    fenced_lines: Cell<u64>,
    counters: Cell<Counters>,
}

/// The bytes of an access are 2 to the power of this.
#[inline]
const fn shift_of(width: Width) -> u32 {
    width.bytes().trailing_zeros()
}

const NOTHING: (u64, u64) = (u64::MAX, 0);

/// Where a region is, and how many of its bytes this handle knows of.
struct Region {
    base: *mut u8,
    bytes: Cell<u64>,
    // The same, counted in words, which most accesses are of.
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

    /// How many pieces of 2 to the power of `shift` bytes there are.
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

    /// The handle, with its outputs going to the thread's line of `witness`.
    ///
    /// # Panics
    /// If `witness` was made for fewer threads.
    #[must_use]
    pub fn with_witness(self, witness: &'a Witness) -> NativeMemory<'a> {
        NativeMemory { witness: Some(witness.word(self.thread)), ..self }
    }

    /// What this handle has done so far.
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

    /// The place of an access of 2 to the power of `shift` bytes, aligned to as many. Rotating the
    /// offset puts misplaced low bits on top, so that one compare refuses both an access that is
    /// not aligned and one out of range.
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
        // A branch, and no choice of a region: many callers know which it is.
        if at.is_pm() { place(&self.pm) } else { place(&self.dram) }
    }

    /// The place of `len` bytes of any alignment.
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

    /// The place of an access to bytes that the pool has grown by since this handle looked; refuses
    /// any other.
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

    /// Runs `action`, a locked instruction; `stores` says of its result whether it stored. It puts
    /// flushed lines in order by itself, except by page and `clflush`.
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

    /// True if there was something to wait for.
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
        std::array::from_fn(|word| unsafe { load_at(place.add(8 * word), Width::B8) })
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

    /// One instruction orders and drains on the machines that can be bought.
    #[inline]
    fn fence(&self, fence: Fence) {
        match fence {
            Fence::Strand => {}
            Fence::Order | Fence::Drain | Fence::Join => {
                if self.wait_for_flushes() {
                    self.count_fence();
                } else if fence == Fence::Drain && self.domain == Domain::None {
                    flush::fence(self.flush);
                }
            }
        }
    }

    /// Does nothing: the instructions that the program runs are real here.
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
        // SAFETY: the range was checked, and words are given at aligned places in it.
        unsafe { store_range(place, from, |to, value| store_at(to, Width::B8, value)) };
    }

    /// Four aligned bytes are one instruction, without looking further, and so is a quarter of a
    /// line of whole lines.
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
            _ if can && at.offset().is_multiple_of(LINE_BYTES) => match from.as_chunks() {
                (lines, []) => {
                    let place = self.place_of_range(at, from.len() as u64);
                    for (number, line) in lines.iter().enumerate() {
                        // SAFETY: the range was checked, and a mapping starts at a page.
                        unsafe {
                            let to = place.add(number * LINE_BYTES as usize);
                            flush::store_line_past_caches(to, line);
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
struct TimeStamps;

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
    /// As [`Pool::grow`](crate::Pool::grow), which says why when this is false.
    ///
    /// # Panics
    /// When the file was truncated: what was in the pool is lost.
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

    /// One system call for ranges of persistent memory longer than a page.
    fn will_write(&self, at: Addr, len: u64) {
        if at.is_pm() && len > map::page_bytes() {
            let place = self.place_of_range(at, len);
            // SAFETY: the range was checked, and the mapping outlives `self`.
            unsafe { map::bring_in(place, len) };
        }
    }

    /// A system call, which gives the file system its blocks back where it takes holes.
    fn discard(&self, at: Addr, len: u64) {
        let place = self.place_of_range(at, len);
        // SAFETY: the range was checked, and the mapping outlives `self`.
        unsafe { map::discard(place, len) };
    }

    /// A system call.
    fn bring_back(&self, at: Addr, len: u64) -> bool {
        let place = self.place_of_range(at, len);
        // SAFETY: the range was checked, and the mapping outlives `self`.
        unsafe { map::bring_back(place, len) }
    }
}

impl Parking for &NativeMemory<'_> {
    /// Looks for a while, as [`spin_while`](Memory::spin_while) does, and then sleeps until it is
    /// [woken](Parking::wake).
    fn sleep_while(&self, at: Addr, value: u64) -> u64 {
        let word = self.atomic(at);
        wait::spin(word, value).unwrap_or_else(|| self.sleepers.sleep(word, value))
    }

    #[inline]
    fn wake(&self, at: Addr) {
        self.sleepers.wake(self.atomic(at));
    }
}

impl NativeMemory<'_> {
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
