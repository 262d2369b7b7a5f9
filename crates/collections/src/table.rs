//! A concurrent hash table in a heap, from 64-bit hashes to 64-bit words, that grows in parts.
//!
//! Extendible hashing (Fagin and others, TODS 1979) with buckets of cache lines, as CCEH does it
//! for persistent memory (Nam and others, "Write-Optimized Dynamic Hashing for Persistent Memory",
//! FAST'19, sections 3 and 4): the first bits of a hash choose a word of the *directory*, which
//! names a *segment*; the last bits choose a line in it, and an entry is in that line or one of the
//! three behind it. A segment that has no room splits in two; what moves is copied to a new segment
//! and stays behind as well, where it no longer counts, as its first bits are those of the other.
//! When the bits of the directory do not distinguish the two, a directory of twice the size takes
//! its place. Two segments that differ in their last bit and have few entries left become one.
//! Nothing else ever moves.
//!
//! Against CCEH: each change is a transaction of the heap, so no order of stores is ever relied on;
//! every hash and every word can be kept, as the first bit of a hash marks vacant slots
//! (`segment`); and a search ends at a line that has a slot which was never used.
//!
//! | place | content |
//! |---|---|
//! | root, a line | kind; directory: address, bits in the lowest 6; segment lines; seed; sum |
//! | directory | a word a prefix: address of the segment, bits of its prefix in the lowest 6 |
//! | segment | slots of a hash and a word, four in a line |
//!
//! **Threads.** A thread that changes entries holds the segment's outer stripe from before it looks
//! until its transaction is over, and so the inner stripe of the root if it changes the directory.
//! A reader takes no lock: it believes what it read if the versions of both are as before. What it
//! reads is durable, as the stripes are held until it is.
//!
//! The quick paths have no loops: an operation enters one only when it meets another thread.

mod directory;
pub(crate) mod flaw;
mod segment;
mod walk;

use crate::Damage;
use crate::damage::Wild;
use crate::reads::{Reads, Within};
use flaw::{MapFlaw, Planted};
use seawall_memory::{Addr, LINE_BYTES, Memory};
use seawall_runtime::{Heap, HeapExtent, Session, Stripe, Stripes, Tx, TxError};
use segment::{SEGMENT_LINES_MAX, SEGMENT_LINES_MIN, Segment};
pub(crate) use segment::{mix, unmix};
pub use walk::MapSize;

/// Offsets in the root.
const KIND: u64 = 0;
const DIRECTORY: u64 = 8;
const LINES: u64 = 16;
const SEED: u64 = 24;
const SUM: u64 = 40;
/// Bits that distinguish hashes; the others choose the line.
const DEPTH_MAX: u32 = 32;
/// The lowest bits of the address of a line, where a depth is kept.
const DEPTH_MASK: u64 = LINE_BYTES - 1;

/// What a map is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapOptions {
    /// Lines of 64 bytes, each for four entries, of the segments that it grows by: 4 to 992. The
    /// default fills a block of the heap.
    pub segment_lines: u64,
    /// It starts with 2 to this power segments: 1 to 16. One transaction makes them, so the log of
    /// the heap must hold those of less than 4 KiB.
    pub depth: u32,
}

impl Default for MapOptions {
    fn default() -> MapOptions {
        MapOptions { segment_lines: 248, depth: 1 }
    }
}

/// Why a map cannot be made, opened or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MapError {
    /// The heap is full or damaged, or its log too small.
    #[error(transparent)]
    Heap(#[from] TxError),
    /// An option is out of range.
    #[error("{what} is {value}; it must be {low} to {high}")]
    Option {
        /// Which one.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The least it may be.
        low: u64,
        /// The most.
        high: u64,
    },
    /// Something else is where a map was looked for.
    #[error(
        "the word at {link} leads to no {kind}, or to a damaged one; give the link that it was \
         created with, or restore the file from a copy"
    )]
    NoMap {
        /// What was looked for.
        kind: &'static str,
        /// The link.
        link: Addr,
    },
    /// Bytes that no crash leaves behind.
    #[error("the map is damaged: {0}; restore the pool from a copy")]
    Damage(#[from] Damage),
    /// Sixteen keys have nearly the same hash, which chance does not do.
    #[error(
        "there are too many keys whose hashes begin with the same {DEPTH_MAX} bits; somebody chose \
         them so: make the map anew, in a pool with another uuid"
    )]
    Crowded,
    /// A key or value that is too long.
    #[error("a {what} of {bytes} bytes; it may have {most} at most")]
    Long {
        /// Which.
        what: &'static str,
        /// Its bytes.
        bytes: usize,
        /// The most that it may have.
        most: usize,
    },
}

impl From<Wild> for MapError {
    #[cold]
    fn from(wild: Wild) -> MapError {
        Damage::from(wild).into()
    }
}

/// The identity of a kind of map, as its root has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) word: u64,
    pub(crate) name: &'static str,
}

/// A table: where its root is, and what is in there that never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    root: Addr,
    lines: u64,
    /// Words that are this table's alone, to hash by.
    pub(crate) seed: [u64; 2],
    stripes: Stripes,
    /// Where segments and records can be.
    extent: HeapExtent,
    /// Stripe of the directory.
    guard: Stripe,
    /// Other threads may work at the same time.
    shared: bool,
    pub(crate) flaw: Planted,
}

/// A segment as a directory of so many bits names it, which may be anything.
#[derive(Clone, Copy)]
struct Named {
    segment: Segment,
    bits: u32,
}

/// A checksum of what never changes in a root: without it, no key could be found.
#[inline]
fn sum(kind: Kind, lines: u64, seed: [u64; 2]) -> u64 {
    [kind.word, lines, seed[0], seed[1]].into_iter().fold(0, |sum, word| mix(sum ^ word))
}

/// The first `bits` bits of a hash.
#[inline]
fn top(hash: u64, bits: u32) -> u64 {
    hash >> 1 >> (63 - bits.min(63))
}

impl Table {
    pub(crate) fn create<M: Memory>(
        tx: &mut Tx<'_, '_, M>,
        link: Addr,
        kind: Kind,
        options: &MapOptions,
    ) -> Result<Table, MapError> {
        let MapOptions { segment_lines: lines, depth } = *options;
        let ranges = [
            ("segment_lines", lines, SEGMENT_LINES_MIN, SEGMENT_LINES_MAX),
            ("depth", depth.into(), 1, 16),
        ];
        for (what, value, low, high) in ranges {
            if !(low..=high).contains(&value) {
                return Err(MapError::Option { what, value, low, high });
            }
        }
        let root = tx.alloc_lines(LINE_BYTES)?;
        let uuid = tx.heap().uuid();
        let seed = [
            segment::mix(uuid as u64 ^ root.bits()),
            segment::mix((uuid >> 64) as u64 ^ !root.bits()),
        ];
        let mut entries = Vec::new();
        for prefix in 0..1u64 << depth {
            let at = tx.alloc_lines(lines * LINE_BYTES)?;
            let segment = Segment::of(at.bits() | u64::from(depth), lines);
            tx.fill(at, &segment.vacant_bytes(prefix << (64 - depth)))?;
            entries.extend(segment.entry().to_le_bytes());
        }
        let directory = tx.alloc_lines(entries.len() as u64)?;
        tx.fill(directory, &entries)?;
        let directory = directory.bits() | u64::from(depth);
        let words = [kind.word, directory, lines, seed[0], seed[1], sum(kind, lines, seed)];
        for (at, word) in (0..).zip(words) {
            tx.store(root.plus(8 * at), word)?;
        }
        tx.store(link, root)?;
        Ok(Table::at(root, lines, seed, (tx.heap_ref(), tx.extent())))
    }

    pub(crate) fn open<M: Memory>(
        session: &Session<'_, M>,
        link: Addr,
        kind: Kind,
    ) -> Result<Table, MapError> {
        let (load, heap) = (|at| session.load(at), session.heap_ref());
        let place = || (heap, session.extent());
        if let Some(table) = Table::known(link, kind, load, session.known_root(link), place) {
            return Ok(table);
        }
        let is_data = |at, bytes| session.is_data(at, bytes);
        let table = Table::found(link, kind, load, is_data, place)?;
        session.know(link, table.root);
        Ok(table)
    }

    /// As [`open`](Table::open), as a transaction sees it: also a table that this has made.
    pub(crate) fn open_in<M: Memory>(
        tx: &Tx<'_, '_, M>,
        link: Addr,
        kind: Kind,
    ) -> Result<Table, MapError> {
        let (load, heap) = (|at| tx.load(at), tx.heap_ref());
        let place = || (heap, tx.extent());
        if let Some(table) = Table::known(link, kind, load, tx.known_root(link), place) {
            return Ok(table);
        }
        let table = Table::found(link, kind, load, |at, bytes| tx.is_data(at, bytes), place)?;
        tx.know(link, table.root);
        Ok(table)
    }

    /// The table at `link`, if it has been found sound before: its places need no check again.
    #[inline]
    fn known<'h>(
        link: Addr,
        kind: Kind,
        load: impl Fn(Addr) -> u64,
        root: Option<Addr>,
        place: impl Fn() -> (&'h Heap, HeapExtent),
    ) -> Option<Table> {
        let root = root.filter(|root| load(link) == root.bits())?;
        if load(root.plus(KIND)) != kind.word {
            return None;
        }
        let lines = load(root.plus(LINES));
        let seed = [load(root.plus(SEED)), load(root.plus(SEED + 8))];
        let is_whole = load(root.plus(SUM)) == sum(kind, lines, seed);
        is_whole.then(|| Table::at(root, lines, seed, place()))
    }

    #[cold]
    fn found<'h>(
        link: Addr,
        kind: Kind,
        load: impl Fn(Addr) -> u64,
        is_data: impl Fn(Addr, u64) -> bool,
        place: impl Fn() -> (&'h Heap, HeapExtent),
    ) -> Result<Table, MapError> {
        let none = MapError::NoMap { kind: kind.name, link };
        let is_data = |at: Addr, bytes| {
            is_data(at, bytes) && at.offset().is_multiple_of(bytes.min(LINE_BYTES))
        };
        if !is_data(link, 8) {
            return Err(none);
        }
        let root = Addr::from_bits(load(link));
        if !is_data(root, LINE_BYTES) {
            return Err(none);
        }
        let [found, directory, lines] =
            [KIND, DIRECTORY, LINES].map(|offset| load(root.plus(offset)));
        let bits = (directory & DEPTH_MASK) as u32;
        let is_sound = found == kind.word
            && (SEGMENT_LINES_MIN..=SEGMENT_LINES_MAX).contains(&lines)
            && (1..=DEPTH_MAX).contains(&bits)
            && is_data(Addr::from_bits(directory & !DEPTH_MASK), 8 << bits);
        let seed = [0, 8].map(|offset| load(root.plus(SEED + offset)));
        if !is_sound || load(root.plus(SUM)) != sum(kind, lines, seed) {
            return Err(none);
        }
        Ok(Table::at(root, lines, seed, place()))
    }

    #[inline]
    fn at(root: Addr, lines: u64, seed: [u64; 2], (heap, extent): (&Heap, HeapExtent)) -> Table {
        let stripes = heap.stripes();
        let (guard, shared) = (stripes.inner(root), heap.threads() > 1);
        Table { root, lines, seed, stripes, extent, guard, shared, flaw: Planted::default() }
    }

    /// The segment of a hash, as the directory says that was there last. If another has taken its
    /// place meanwhile, this may be anything, and nothing may be read by means of it; if none has,
    /// it is to be [admitted](Table::admit).
    #[inline]
    fn named<R: Reads>(&self, from: &R, hash: u64) -> Result<Named, Wild> {
        let directory = from.word(self.root.plus(DIRECTORY));
        let bits = (directory & DEPTH_MASK) as u32;
        let offset = 8 * top(hash, bits);
        let word = Addr::from_bits((directory & !DEPTH_MASK).wrapping_add(offset));
        if !self.has(from, word, 8) {
            return Err(Wild { what: "the root of a map", to: directory });
        }
        Ok(Named { segment: Segment::of(from.word(word), self.lines), bits })
    }

    /// Refuses what is no segment of a directory of so many bits.
    #[inline]
    fn admit<R: Reads>(&self, from: &R, Named { segment, bits }: Named) -> Result<Segment, Wild> {
        let has_depth = segment.depth.wrapping_sub(1) < bits;
        if has_depth && self.has(from, segment.at, segment.bytes()) {
            return Ok(segment);
        }
        Err(Wild { what: "the directory of a map", to: segment.entry() })
    }

    /// Whether there are these bytes, of which the first is that of a word.
    #[inline]
    pub(crate) fn has<R: Reads>(&self, from: &R, at: Addr, bytes: u64) -> bool {
        at.bits().is_multiple_of(8) && from.has(&self.extent, at, bytes)
    }

    /// The segment of a hash, which no other thread changes until the transaction is over.
    #[inline]
    fn held<M: Memory>(&self, tx: &mut Tx<'_, '_, M>, hash: u64) -> Result<Segment, TxError> {
        if !self.shared || self.flaw.is(MapFlaw::NoLock) {
            let named = self.named(&Within(tx), hash)?;
            return Ok(self.admit(&Within(tx), named)?);
        }
        loop {
            let directory = tx.version(self.guard)?;
            let named = self.named(&Within(tx), hash)?;
            tx.lock(self.stripes.outer(named.segment.at))?;
            if self.guard.is_still(tx.memory(), directory) {
                return Ok(self.admit(&Within(tx), named)?);
            }
        }
    }

    /// What `look` makes of the first word with that hash of which it makes something. It is called
    /// with the word and a question, whether it still counts, to which the answer must have been
    /// yes before anything is believed that is read by means of the word.
    #[inline]
    pub(crate) fn read<M: Memory, T>(
        &self,
        memory: &M,
        hash: u64,
        mut look: impl FnMut(u64, &dyn Fn() -> bool) -> Option<T>,
    ) -> Result<Option<T>, Wild> {
        match self.attempt(memory, hash, &mut look)? {
            Some(result) => Ok(result),
            None => self.insist(memory, hash, &mut look),
        }
    }

    /// Reads again until no thread writes during the read.
    #[cold]
    #[inline(never)]
    fn insist<M: Memory, T>(
        &self,
        memory: &M,
        hash: u64,
        look: &mut impl FnMut(u64, &dyn Fn() -> bool) -> Option<T>,
    ) -> Result<Option<T>, Wild> {
        loop {
            if let Some(result) = self.attempt(memory, hash, look)? {
                return Ok(result);
            }
        }
    }

    /// The result of [`read`](Table::read), if no thread wrote during it.
    #[inline]
    fn attempt<M: Memory, T>(
        &self,
        memory: &M,
        hash: u64,
        look: &mut impl FnMut(u64, &dyn Fn() -> bool) -> Option<T>,
    ) -> Result<Option<Option<T>>, Wild> {
        let directory = self.guard.version(memory);
        let named = self.named(memory, hash)?;
        let stripe = self.stripes.outer(named.segment.at);
        let version = stripe.version(memory);
        if !self.guard.is_still(memory, directory) && !self.trusts() {
            return Ok(None);
        }
        let segment = self.admit(memory, named)?;
        let is_still = || stripe.is_still(memory, version) || self.trusts();
        if let Some(word) = segment.first(memory, hash)
            && let Some(result) = look(word, &is_still)
        {
            return Ok(is_still().then_some(Some(result)));
        }
        Ok(self.attempt_all(memory, hash, (segment, stripe, version), look))
    }

    /// The rest of [`attempt`](Table::attempt), apart: the processor begins some reads while those
    /// before wait for their lines, and the fewer instructions each takes, the more.
    #[inline(never)]
    fn attempt_all<M: Memory, T>(
        &self,
        memory: &M,
        hash: u64,
        (segment, stripe, version): (Segment, Stripe, u64),
        look: &mut impl FnMut(u64, &dyn Fn() -> bool) -> Option<T>,
    ) -> Option<Option<T>> {
        let is_still = || stripe.is_still(memory, version) || self.trusts();
        let mut result = None;
        let found = segment.find(memory, hash, |word| {
            result = look(word, &is_still);
            Ok(result.is_some())
        });
        debug_assert!(found.is_ok());
        is_still().then_some(result)
    }

    fn trusts(&self) -> bool {
        self.flaw.is(MapFlaw::NoVersion)
    }

    /// The word of `hash` that `is_it` picks; it stays until the transaction is over.
    pub(crate) fn look_up<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        hash: u64,
        is_it: impl Fn(&Within<'_, '_, '_, M>, u64) -> Result<bool, Wild>,
    ) -> Result<Option<u64>, MapError> {
        let segment = self.held(tx, hash)?;
        let within = Within(tx);
        let found = segment.find(&within, hash, |word| is_it(&within, word))?;
        Ok(found.map(|(_, word)| word))
    }

    /// Sets the word of `hash` that `is_it` picks, or a new one, to what `make` returns; both get
    /// the word that was there. Splits segments as it must.
    #[inline]
    pub(crate) fn put<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        hash: u64,
        is_it: impl Fn(&Within<'_, '_, '_, M>, u64) -> Result<bool, Wild>,
        make: impl FnOnce(&mut Tx<'_, '_, M>, Option<u64>) -> Result<u64, MapError>,
    ) -> Result<Option<u64>, MapError> {
        loop {
            let segment = self.held(tx, hash)?;
            let within = Within(tx);
            let probe = segment.probe(&within, hash, |word| is_it(&within, word))?;
            if let Some((slot, old)) = probe.found {
                let word = make(tx, Some(old))?;
                tx.store(slot.plus(8), word)?;
                return Ok(Some(old));
            }
            if let Some(slot) = probe.room {
                let word = make(tx, None)?;
                tx.store(slot, hash)?;
                tx.store(slot.plus(8), word)?;
                return Ok(None);
            }
            self.split(tx, segment, hash)?;
        }
    }

    /// Removes and returns the word of `hash` that `is_it` picks. Merges segments that have few
    /// entries left.
    #[inline]
    pub(crate) fn take<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        hash: u64,
        is_it: impl Fn(&Within<'_, '_, '_, M>, u64) -> Result<bool, Wild>,
    ) -> Result<Option<u64>, MapError> {
        let segment = self.held(tx, hash)?;
        let within = Within(tx);
        let found = segment.find(&within, hash, |word| is_it(&within, word))?;
        let Some((slot, old)) = found else { return Ok(None) };
        let (mut blank, empties) = segment.blank(&within, slot, hash);
        if self.flaw.is(MapFlaw::NoTombstone) {
            blank = segment::vacant(hash);
        }
        tx.store(slot, blank)?;
        if empties && segment.depth > 1 && segment.seems_sparse(&Within(tx), slot, hash) {
            self.merge(tx, segment, hash)?;
        }
        Ok(Some(old))
    }
}
