//! `trait Memory` on mapped memory: plain instructions, one check an access, nothing virtual.
//!
//! In the domain `page` only the kernel writes data out, and in any order that it likes; so `order`
//! must wait for `msync` as `drain` does, and so must a locked operation when something flushed is
//! still unwritten. Pages between the first and the last flushed one are written with them if they
//! are dirty: that is allowed (a crash may always keep more than was asked) and costs one call.

use crate::access::{load_at, load_range, store_at, store_range, stream_range};
use crate::domain::Domain;
use crate::flush::{self, CAN_STORE_PAST_CACHES, FlushKind};
use crate::map::{self, Mapping};
use crate::witness::Witness;
use seawall_memory::{Addr, Memory, Width, lines_of};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};

/// Looks at a word this often before giving the CPU to another thread.
const SPINS_MAX: u32 = 128;

/// What a handle has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Persistent lines flushed, and lines written past the caches.
    pub flushed_lines: u64,
    /// `order` and `drain`.
    pub fences: u64,
    /// `msync` calls (domain `page`).
    pub msyncs: u64,
}

/// One thread's handle on a [`Pool`](crate::Pool); neither `Send` nor `Sync`.
///
/// A store that went past the caches ([`write_nt`](Memory::write_nt)) is in order with nothing,
/// for other threads too, until the next `order`, `drain` or locked operation of its thread.
pub struct NativeMemory<'a> {
    pm: Region,
    dram: Region,
    flush: FlushKind,
    pages: bool,
    thread: usize,
    witness: Option<&'a AtomicU64>,
    // First and last byte flushed and not yet written by msync; none if first > last.
    unwritten: Cell<(u64, u64)>,
    counters: Cell<Counters>,
    _mapped: PhantomData<&'a Mapping>,
}

const NOTHING: (u64, u64) = (u64::MAX, 0);

#[derive(Clone, Copy)]
struct Region {
    base: *mut u8,
    bytes: u64,
}

impl Region {
    fn of(mapping: &Mapping) -> Region {
        Region { base: mapping.base(), bytes: mapping.bytes() }
    }
}

#[cold]
#[inline(never)]
#[track_caller]
fn bad_access(at: Addr, len: u64, bytes: u64) -> ! {
    let region = if at.is_pm() { "the pool" } else { "DRAM" };
    panic!("{len} bytes at {at} are not aligned or not within the {bytes} bytes of {region}");
}

impl<'a> NativeMemory<'a> {
    pub(crate) fn new(
        pm: &'a Mapping,
        dram: &'a Mapping,
        flush: FlushKind,
        domain: Domain,
        thread: usize,
    ) -> NativeMemory<'a> {
        NativeMemory {
            pm: Region::of(pm),
            dram: Region::of(dram),
            flush,
            pages: domain == Domain::Page,
            thread,
            witness: None,
            unwritten: Cell::new(NOTHING),
            counters: Cell::new(Counters::default()),
            _mapped: PhantomData,
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
    fn region(&self, at: Addr) -> Region {
        if at.is_pm() { self.pm } else { self.dram }
    }

    /// The place of an aligned access. Rotating the offset puts misplaced low bits on top, so that
    /// one compare refuses both an access that is not aligned and one out of range.
    #[inline]
    #[track_caller]
    fn place(&self, at: Addr, width: Width) -> *mut u8 {
        let region = self.region(at);
        let shift = width.bytes().trailing_zeros();
        if at.offset().rotate_right(shift) >= region.bytes >> shift {
            bad_access(at, width.bytes(), region.bytes);
        }
        // SAFETY: the access lies wholly inside the mapping.
        unsafe { region.base.add(at.offset() as usize) }
    }

    /// The place of `len` bytes of any alignment.
    #[inline]
    #[track_caller]
    fn place_of_range(&self, at: Addr, len: u64) -> *mut u8 {
        let region = self.region(at);
        if at.offset() > region.bytes || len > region.bytes - at.offset() {
            bad_access(at, len, region.bytes);
        }
        // SAFETY: at most one past the end of the mapping.
        unsafe { region.base.add(at.offset() as usize) }
    }

    #[inline]
    #[track_caller]
    fn atomic(&self, at: Addr) -> &AtomicU64 {
        let place = self.place(at, Width::B8).cast();
        // SAFETY: aligned, inside a mapping that outlives `self`, and only used by atomics.
        unsafe { AtomicU64::from_ptr(place) }
    }

    /// A locked instruction orders flushed lines by itself, except `clflush` and pages.
    #[inline]
    fn before_locked(&self) {
        if self.pages || self.flush == FlushKind::Clflush {
            flush::fence(self.flush);
            self.write_pages();
        }
    }

    #[inline]
    fn finish_flushes(&self) {
        flush::fence(self.flush);
        if self.pages {
            self.write_pages();
        }
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

    #[inline]
    #[track_caller]
    fn load_bits(&self, at: Addr, width: Width) -> u64 {
        let place = self.place(at, width);
        // SAFETY: `place` checked alignment and range.
        unsafe { load_at(place, width) }
    }

    #[inline]
    #[track_caller]
    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        let place = self.place(at, width);
        // SAFETY: `place` checked alignment and range.
        unsafe { store_at(place, width, value) }
    }

    #[inline]
    #[track_caller]
    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        self.before_locked();
        self.atomic(at).compare_exchange(current, new, SeqCst, SeqCst)
    }

    #[inline]
    #[track_caller]
    fn swap(&self, at: Addr, new: u64) -> u64 {
        self.before_locked();
        self.atomic(at).swap(new, SeqCst)
    }

    #[inline]
    #[track_caller]
    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        self.before_locked();
        self.atomic(at).fetch_add(by, SeqCst)
    }

    #[inline]
    #[track_caller]
    fn flush(&self, at: Addr, len: u64) {
        let place = self.place_of_range(at, len);
        if !at.is_pm() || len == 0 {
            return;
        }
        if self.pages {
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

    /// As [`drain`](Memory::drain): one fence is both on the machines that can be bought.
    #[inline]
    fn order(&self) {
        self.finish_flushes();
    }

    #[inline]
    fn drain(&self) {
        self.finish_flushes();
    }

    /// Does nothing: the instructions that the program runs are real here.
    #[inline]
    fn work(&self, _: u32) {}

    #[inline]
    fn now(&self) -> u64 {
        crate::cpu::ticks()
    }

    fn grow(&self, bytes: u64) -> bool {
        bytes <= self.pm.bytes
    }

    fn spin_while(&self, at: Addr, value: u64) -> u64 {
        let word = self.atomic(at);
        let mut spins = 0;
        loop {
            let now = word.load(Acquire);
            if now != value {
                return now;
            }
            if spins < SPINS_MAX {
                spins += 1;
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
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

    /// Four aligned bytes are one instruction, without looking further.
    #[inline]
    #[track_caller]
    fn write_nt(&self, at: Addr, from: &[u8]) {
        let can = CAN_STORE_PAST_CACHES && at.is_pm() && !self.pages;
        let half: Result<[u8; 4], _> = from.try_into();
        match half {
            Ok(half) if can && at.offset().is_multiple_of(4) => {
                let place = self.place(at, Width::B4);
                // SAFETY: `place` checked alignment and range.
                unsafe { flush::store_half_past_caches(place.cast(), u32::from_le_bytes(half)) };
                self.count(|counters| counters.flushed_lines += 1);
            }
            _ => self.write_range_nt(at, from),
        }
    }
}

impl NativeMemory<'_> {
    #[track_caller]
    fn write_range_nt(&self, at: Addr, from: &[u8]) {
        let len = from.len() as u64;
        if !at.is_pm() || self.pages || !CAN_STORE_PAST_CACHES {
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
mod tests {
    use super::*;
    use crate::{Durability, Pool, PoolOptions};
    use proptest::prelude::*;
    use seawall_memory::Image;

    fn pool(domain: Domain) -> Pool {
        Pool::temporary(8192, &PoolOptions { domain: Some(domain), dram_bytes: 4096 }).unwrap()
    }

    proptest! {
        #[test]
        fn ranges_hold_what_the_simplest_machine_holds(
            steps in proptest::collection::vec(
                (0u64..1000, proptest::collection::vec(any::<u8>(), 0..200), 0..3u8, any::<bool>()),
                1..12,
            ),
        ) {
            let image = Image::new(8192, 4096);
            for domain in [Domain::Page, Domain::Line, Domain::None] {
                let pool = pool(domain);
                let memory = pool.memory(0);
                for (offset, bytes, way, volatile) in &steps {
                    let at = if *volatile { Addr::dram(*offset) } else { Addr::pm(*offset) };
                    image.write(at, bytes);
                    match way {
                        0 => memory.write(at, bytes),
                        1 => memory.write_nt(at, bytes),
                        _ => (0..).zip(bytes).for_each(|(i, b)| memory.store(at.plus(i), *b)),
                    }
                    memory.persist(at, bytes.len() as u64);
                }
                for at in [Addr::pm(0), Addr::dram(0)] {
                    let (mut ours, mut reference) = ([0; 1300], [0; 1300]);
                    memory.read(at, &mut ours);
                    image.read(at, &mut reference);
                    prop_assert_eq!(&ours, &reference);
                    for (index, half) in reference.chunks_exact(2).enumerate() {
                        let there: u16 = memory.load(at.plus(2 * index as u64));
                        prop_assert_eq!(there.to_le_bytes(), half);
                    }
                }
            }
        }

        #[test]
        fn an_access_passes_only_if_aligned_and_inside(
            at in prop_oneof![8180u64..8200, any::<u64>()], shift in 0u32..4,
        ) {
            let pool = pool(Domain::Line);
            let memory = pool.memory(0);
            let width = [Width::B1, Width::B2, Width::B4, Width::B8][shift as usize];
            let at = Addr::from_bits(at);
            let size = if at.is_pm() { 8192 } else { 4096 };
            let end = at.offset().checked_add(width.bytes());
            let aligned = at.offset().is_multiple_of(width.bytes());
            let fits = aligned && end.is_some_and(|end| end <= size);
            let place = std::panic::AssertUnwindSafe(|| memory.load_bits(at, width));
            prop_assert_eq!(quietly(place).is_ok(), fits);
        }
    }

    fn quietly<T>(action: impl FnOnce() -> T + std::panic::UnwindSafe) -> Result<T, String> {
        std::panic::catch_unwind(action)
            .map_err(|cause| cause.downcast_ref::<String>().cloned().unwrap_or_default())
    }

    #[test]
    fn a_range_past_the_end_is_refused_with_its_address() {
        let pool = pool(Domain::Line);
        let memory = pool.memory(0);
        let past = std::panic::AssertUnwindSafe(|| memory.write(Addr::pm(8190), &[1, 2, 3]));
        let text = quietly(past).unwrap_err();
        assert!(text.contains("pm:0x1ffe") && text.contains("8192 bytes"), "{text}");
        let flush = std::panic::AssertUnwindSafe(|| memory.flush(Addr::pm(64), u64::MAX));
        assert!(quietly(flush).is_err());
        assert_eq!(memory.load::<u16>(Addr::pm(8190)), 0, "nothing of it was written");
    }

    #[test]
    fn no_increment_of_two_threads_is_lost_and_a_waiter_sees_the_last() {
        const ROUNDS: u64 = 20_000;
        let pool = pool(Domain::Line);
        let (counter, turn) = (Addr::pm(128), Addr::dram(64));
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let pool = &pool;
                scope.spawn(move || {
                    let memory = pool.memory(thread);
                    for _ in 0..ROUNDS {
                        memory.fetch_add(counter, 1);
                        while memory.compare_exchange(turn, 0, 1).is_err() {
                            memory.spin_while(turn, 1);
                        }
                        let plain: u64 = memory.load(Addr::pm(192));
                        memory.store(Addr::pm(192), plain + 1);
                        memory.store(turn, 0u64);
                    }
                    assert_eq!(memory.swap(Addr::pm(256 + 8 * thread as u64), 1), 0);
                });
            }
        });
        let memory = pool.memory(0);
        assert_eq!(memory.load::<u64>(counter), 2 * ROUNDS);
        assert_eq!(memory.load::<u64>(Addr::pm(192)), 2 * ROUNDS, "the lock in DRAM excludes");
    }

    #[test]
    fn flushes_and_fences_are_counted_and_volatile_lines_are_not_flushed() {
        let pool = pool(Domain::Line);
        let memory = pool.memory(0);
        memory.flush(Addr::pm(60), 8);
        memory.flush(Addr::dram(0), 512);
        memory.flush(Addr::pm(60), 0);
        memory.order();
        memory.write_nt(Addr::pm(0), &[1; 130]);
        memory.drain();
        assert_eq!(memory.counters(), Counters { flushed_lines: 5, fences: 2, msyncs: 0 });
    }

    #[test]
    fn by_page_every_fence_and_locked_operation_writes_what_was_flushed() {
        let pool = pool(Domain::Page);
        let memory = pool.memory(0);
        let msyncs = || memory.counters().msyncs;
        memory.drain();
        assert_eq!(msyncs(), 0, "nothing was flushed");
        memory.store(Addr::pm(0), 1u64);
        memory.flush(Addr::pm(0), 8);
        memory.order();
        assert_eq!(msyncs(), 1);
        memory.flush(Addr::pm(8184), 8);
        memory.fetch_add(Addr::dram(0), 1);
        assert_eq!(msyncs(), 2);
        memory.write_nt(Addr::pm(4096), &[1; 64]);
        memory.drain();
        assert_eq!(msyncs(), 3);
    }

    #[test]
    fn by_page_a_drained_page_is_clean_and_by_line_it_is_still_dirty() {
        let folder = tempfile::tempdir().unwrap();
        for (domain, clean) in [(Domain::Page, true), (Domain::Line, false)] {
            let options = PoolOptions { domain: Some(domain), dram_bytes: 0 };
            let pool = Pool::create(&folder.path().join(domain.name()), 1 << 16, &options).unwrap();
            let ordinary = [Durability::PowerFailureByPage, Durability::KilledProcess];
            if !ordinary.contains(&pool.durability()) {
                return; // Neither a tmpfs nor DAX has dirty pages to look at.
            }
            let memory = pool.memory(0);
            memory.store(Addr::pm(3 * 4096), 1u64);
            memory.store(Addr::pm(9 * 4096), 1u64);
            assert_ne!(dirty_kilobytes(memory.pm.base), Some(0), "the stores made pages dirty");
            memory.flush(Addr::pm(3 * 4096), 8);
            memory.persist(Addr::pm(9 * 4096), 8);
            let Some(dirty) = dirty_kilobytes(memory.pm.base) else { return };
            assert_eq!(dirty == 0, clean, "{dirty} kB dirty with domain {domain}");
        }
    }

    /// Modified and unwritten kilobytes of the mapping at `base`, as the kernel reports them.
    fn dirty_kilobytes(base: *mut u8) -> Option<u64> {
        let text = std::fs::read_to_string("/proc/self/smaps").ok()?;
        let start = format!("{:x}-", base as usize);
        let mapping = text.lines().skip_while(|line| !line.starts_with(&start)).take(30);
        let dirty = mapping.filter(|line| line.contains("_Dirty:"));
        Some(
            dirty
                .take(2)
                .filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok())
                .sum(),
        )
    }
}
