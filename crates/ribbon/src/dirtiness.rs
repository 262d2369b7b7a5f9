//! How much of each flushed line was changed: dirtiness, as in Ribbon (PACT'20, flush coalescing).
//!
//! A flush moves a whole line, whatever part of it the program stored. The mean of that part over
//! all flushed lines says what placing objects better can gain, at most. [`Dirtiness`] keeps a bit
//! for each byte of persistent memory: set by a store, cleared when a thread flushes the line. Any
//! program on any machine can be counted, as the counting stands between it and the seam:
//!
//! ```
//! use seawall_memory::{Addr, Image, Memory, MemoryExt};
//! use seawall_ribbon::Dirtiness;
//!
//! let image = Image::new(4096, 0);
//! let dirtiness = Dirtiness::new(4096);
//! let memory = dirtiness.join(&image);
//! memory.store(Addr::pm(64), 1u64);
//! memory.store(Addr::pm(128), 2u64);
//! memory.flush(Addr::pm(64), 128);
//! memory.flush(Addr::pm(64), 8); // nothing was stored since
//! let counts = dirtiness.counts();
//! assert_eq!((counts.lines, counts.clean, counts.bytes), (2, 1, 16));
//! assert_eq!(counts.dirtiness(), 0.125);
//! ```
//!
//! What it does not see: lines that a cache evicts by itself, which stay dirty here until they are
//! flushed. It sees what its own handles do; below a Ribbon it sees the flushers' work, above it
//! the program's.
//!
//! The bits lie in host memory, an eighth of what was stored to, in pieces that come into being as
//! lines are first stored to. Nothing is held across a call of the machine below, so that fibers
//! may stop anywhere; on a simulated machine the counts are the same every time. On a real one bits
//! are loaded and stored, not changed by locked instructions, which would wait for all flushes
//! under way: of threads that store to one line, or flush it, at the same moment, one may be
//! overlooked.

use seawall_memory::relocation::{Relocation, RelocationUnit};
use seawall_memory::{Addr, LINE_BYTES, Line, Memory, Width, layer, lines_of};
use std::marker::PhantomData;
use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Lines of a piece of the table: 64 KiB of the pool.
const PIECE_LINES: u64 = 1024;
/// Parts that dirty lines are sorted into.
const PARTS: usize = 8;

/// What was flushed, since the start or between two moments (by subtraction).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DirtyCounts {
    /// Dirty lines that were flushed.
    pub lines: u64,
    /// Bytes that had been stored to in them since the flush before.
    pub bytes: u64,
    /// Those lines by how many of their bytes were dirty: 1 to 8, 9 to 16, up to 57 to 64.
    pub eighths: [u64; PARTS],
    /// Flushed lines in which nothing had been stored.
    pub clean: u64,
    /// Flushes of a range that touches a line more than its length needs, as that of an object
    /// that straddles.
    pub straddling: u64,
    /// Lines written past the caches or relocated, which need no flush; one for each line of each
    /// call.
    pub direct_lines: u64,
    /// Bytes written so.
    pub direct_bytes: u64,
}

impl DirtyCounts {
    /// The mean part, 0 to 1, of the bytes of a flushed dirty line that were dirty; 0 if none was
    /// flushed. Neither clean lines nor those written past the caches are in it.
    pub fn dirtiness(&self) -> f64 {
        if self.lines == 0 { 0.0 } else { self.bytes as f64 / (self.lines * LINE_BYTES) as f64 }
    }
}

impl Sub for DirtyCounts {
    type Output = DirtyCounts;

    fn sub(self, earlier: DirtyCounts) -> DirtyCounts {
        DirtyCounts {
            lines: self.lines - earlier.lines,
            bytes: self.bytes - earlier.bytes,
            eighths: std::array::from_fn(|part| self.eighths[part] - earlier.eighths[part]),
            clean: self.clean - earlier.clean,
            straddling: self.straddling - earlier.straddling,
            direct_lines: self.direct_lines - earlier.direct_lines,
            direct_bytes: self.direct_bytes - earlier.direct_bytes,
        }
    }
}

/// What one handle has counted; only that handle writes it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Tally {
    bytes: AtomicU64,
    eighths: [AtomicU64; PARTS],
    clean: AtomicU64,
    straddling: AtomicU64,
    direct_lines: AtomicU64,
    direct_bytes: AtomicU64,
}

impl Tally {
    fn read(&self) -> DirtyCounts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let eighths = std::array::from_fn(|part| load(&self.eighths[part]));
        DirtyCounts {
            lines: eighths.iter().sum(),
            bytes: load(&self.bytes),
            eighths,
            clean: load(&self.clean),
            straddling: load(&self.straddling),
            direct_lines: load(&self.direct_lines),
            direct_bytes: load(&self.direct_bytes),
        }
    }
}

/// Adds to a count that no other thread writes.
#[inline]
fn add(count: &AtomicU64, by: u64) {
    count.store(count.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

type Piece = Box<[AtomicU64]>;

/// The dirty bytes of a pool, and what its flushes found; shared by the threads that are counted.
/// A copy counts with the one it was copied from.
#[derive(Clone, Debug)]
pub struct Dirtiness {
    /// The lines that are counted.
    first: u64,
    end: u64,
    pieces: Arc<[OnceLock<Piece>]>,
    tallies: Arc<Mutex<Vec<Arc<Tally>>>>,
}

impl Dirtiness {
    /// Counts for a pool of up to `pm_bytes` bytes, which is clean. What is stored or flushed
    /// beyond is not counted.
    pub fn new(pm_bytes: u64) -> Dirtiness {
        Dirtiness::within(Addr::NULL, pm_bytes)
    }

    /// Counts for those lines of a clean pool that hold any of `bytes` bytes from `from` on, as
    /// those of an area; of what is stored or flushed elsewhere only straddling flushes and what
    /// goes past the caches.
    pub fn within(from: Addr, bytes: u64) -> Dirtiness {
        let first = from.line().0;
        let end = first + lines_of(from, bytes).count() as u64;
        let pieces = (end - first).div_ceil(PIECE_LINES);
        Dirtiness {
            first,
            end,
            pieces: (0..pieces).map(|_| OnceLock::new()).collect(),
            tallies: Arc::default(),
        }
    }

    /// A handle on `memory` whose stores and flushes are counted.
    pub fn join<'m, M: Memory>(&self, memory: &'m M) -> DirtinessMemory<'m, M> {
        let tally = Arc::new(Tally::default());
        self.tallies.lock().unwrap_or_else(PoisonError::into_inner).push(tally.clone());
        DirtinessMemory { memory, dirtiness: self.clone(), tally, is_own: PhantomData }
    }

    /// What all handles have counted so far, also those that are gone. May be called at any time
    /// from any thread; what the others do at that moment is in it or not.
    pub fn counts(&self) -> DirtyCounts {
        let tallies = self.tallies.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sum = DirtyCounts::default();
        for counts in tallies.iter().map(|tally| tally.read()) {
            sum.lines += counts.lines;
            sum.bytes += counts.bytes;
            (0..PARTS).for_each(|part| sum.eighths[part] += counts.eighths[part]);
            sum.clean += counts.clean;
            sum.straddling += counts.straddling;
            sum.direct_lines += counts.direct_lines;
            sum.direct_bytes += counts.direct_bytes;
        }
        sum
    }

    /// The bytes of `line` that were stored to since it was last flushed, the first in bit 0.
    pub fn dirty_bytes(&self, line: Line) -> u64 {
        self.known(line).map_or(0, |mask| mask.load(Ordering::Relaxed))
    }

    #[inline]
    fn counts_line(&self, line: Line) -> bool {
        (self.first..self.end).contains(&line.0)
    }

    /// The mask of a line, if it is counted and anything was ever stored near it.
    #[inline]
    fn known(&self, line: Line) -> Option<&AtomicU64> {
        let place = line.0.wrapping_sub(self.first);
        let piece = self.pieces.get((place / PIECE_LINES) as usize)?.get()?;
        piece.get((place % PIECE_LINES) as usize)
    }

    /// The mask of a line, if it is counted.
    #[inline]
    fn mask(&self, line: Line) -> Option<&AtomicU64> {
        let place = line.0.wrapping_sub(self.first);
        let piece = self.pieces.get((place / PIECE_LINES) as usize)?;
        let piece = piece.get_or_init(|| (0..PIECE_LINES).map(|_| AtomicU64::new(0)).collect());
        piece.get((place % PIECE_LINES) as usize)
    }

    #[inline]
    fn set(&self, line: Line, bytes: u64) {
        if self.counts_line(line)
            && let Some(mask) = self.mask(line)
            && let known = mask.load(Ordering::Relaxed)
            && known & bytes != bytes
        {
            mask.store(known | bytes, Ordering::Relaxed);
        }
    }

    /// Cleans the bytes; returns those of them that were dirty.
    #[inline]
    fn clear(&self, line: Line, bytes: u64) -> u64 {
        let Some(mask) = self.known(line) else { return 0 };
        let known = mask.load(Ordering::Relaxed);
        if known & bytes != 0 {
            mask.store(known & !bytes, Ordering::Relaxed);
        }
        known & bytes
    }
}

/// The bits of the bytes of `line` that are among `len` bytes from `at`.
#[inline]
fn bits_of(line: Line, at: Addr, len: u64) -> u64 {
    let start = line.start().bits();
    let from = at.bits().max(start) - start;
    let to = (at.bits() + len).min(start + LINE_BYTES) - start;
    (u64::MAX >> (LINE_BYTES - (to - from))) << from
}

/// A thread's handle on memory, through which its stores and flushes are counted. It belongs to the
/// thread.
#[derive(Debug)]
pub struct DirtinessMemory<'m, M> {
    memory: &'m M,
    dirtiness: Dirtiness,
    tally: Arc<Tally>,
    /// Only one thread may write the tally.
    is_own: PhantomData<std::cell::Cell<()>>,
}

impl<M: Memory> DirtinessMemory<'_, M> {
    #[inline]
    fn stored(&self, at: Addr, len: u64) {
        if at.is_pm() {
            for line in lines_of(at, len) {
                self.dirtiness.set(line, bits_of(line, at, len));
            }
        }
    }

    #[inline]
    fn flushed(&self, at: Addr, len: u64) {
        if !at.is_pm() {
            return;
        }
        let mut lines = 0;
        for line in lines_of(at, len) {
            lines += 1;
            match self.dirtiness.clear(line, u64::MAX).count_ones() {
                0 => add(&self.tally.clean, u64::from(self.dirtiness.counts_line(line))),
                bytes => {
                    add(&self.tally.bytes, bytes.into());
                    let part = (bytes as usize - 1) * PARTS / LINE_BYTES as usize;
                    add(&self.tally.eighths[part], 1);
                }
            }
        }
        if lines > len.div_ceil(LINE_BYTES) {
            add(&self.tally.straddling, 1);
        }
    }

    /// Bytes that become durable without a flush: whatever was dirty there need not be flushed.
    fn written_directly(&self, at: Addr, len: u64) {
        if !at.is_pm() {
            return;
        }
        for line in lines_of(at, len) {
            self.dirtiness.clear(line, bits_of(line, at, len));
            add(&self.tally.direct_lines, 1);
        }
        add(&self.tally.direct_bytes, len);
    }
}

impl<M: Memory> layer::Layer for DirtinessMemory<'_, M> {
    type Below = M;

    #[inline]
    fn below(&self) -> &M {
        self.memory
    }

    #[inline]
    #[track_caller]
    fn store_bits(&self, at: Addr, width: Width, value: u64) {
        self.memory.store_bits(at, width, value);
        if at.is_pm() {
            self.dirtiness.set(at.line(), bits_of(at.line(), at, width.bytes()));
        }
    }

    #[inline]
    #[track_caller]
    fn compare_exchange(&self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        let outcome = self.memory.compare_exchange(at, current, new);
        if outcome.is_ok() {
            self.stored(at, 8);
        }
        outcome
    }

    #[inline]
    #[track_caller]
    fn swap(&self, at: Addr, new: u64) -> u64 {
        let before = self.memory.swap(at, new);
        self.stored(at, 8);
        before
    }

    #[inline]
    #[track_caller]
    fn fetch_add(&self, at: Addr, by: u64) -> u64 {
        let before = self.memory.fetch_add(at, by);
        self.stored(at, 8);
        before
    }

    #[inline]
    #[track_caller]
    fn flush(&self, at: Addr, len: u64) {
        self.memory.flush(at, len);
        self.flushed(at, len);
    }

    #[inline]
    #[track_caller]
    fn write(&self, at: Addr, from: &[u8]) {
        self.memory.write(at, from);
        self.stored(at, from.len() as u64);
    }

    #[inline]
    #[track_caller]
    fn write_nt(&self, at: Addr, from: &[u8]) {
        self.memory.write_nt(at, from);
        self.written_directly(at, from.len() as u64);
    }

    fn relocation(&self) -> Option<impl RelocationUnit> {
        self.memory.relocation().map(|unit| Counted { memory: self, unit })
    }
}

/// A relocation unit whose copies become durable without a flush.
struct Counted<'d, 'm, M, U> {
    memory: &'d DirtinessMemory<'m, M>,
    unit: U,
}

impl<M: Memory, U: RelocationUnit> RelocationUnit for Counted<'_, '_, M, U> {
    fn forwards(&self) -> bool {
        self.unit.forwards()
    }

    fn set(&self, registers: Option<Relocation>) {
        self.unit.set(registers);
    }

    fn relocate(&self, to: Addr, from: Addr, len: u64) {
        self.unit.relocate(to, from, len);
        self.memory.written_directly(to, len);
    }

    fn forward(&self, at: Addr) -> Addr {
        self.unit.forward(at)
    }
}
