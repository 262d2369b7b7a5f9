//! Transactions: several changes of a heap that are atomic with respect to crashes.
//!
//! There are two kinds with the same operations:
//!
//! - **redo**: new values are buffered in DRAM and logged at commit. One fence, nothing to undo.
//! - **undo**: old values are logged before the first change of a word, and changes are made in
//!   place, so that other code of the same thread sees them at once. One fence for each set of
//!   added words, and one at commit.
//!
//! Both can allocate and free, at no fence of its own. A transaction is no lock: threads that share
//! data hold a lock from before the first access until the commit returns.
//!
//! | operation | fences | when |
//! |---|---|---|
//! | redo commit | 1 | 0 if nothing was written |
//! | undo [`add`](Tx::add), first store of a word | 1 | 0 if all words are logged or fresh |
//! | undo commit or abort | 1 | 0 if nothing was written; 2 if [it flushes](undo_log) |
//! | `alloc`, `free` | 0 | part of the commit |
//! | [`fill`](Tx::fill) of 4 KiB and more | 1 | once a transaction |
//!
//! Truncating the logs costs two fences and a flush of each changed line, once in some hundreds of
//! transactions; or one fence, with the flushes [ahead](ahead) under fences that commits have.
//!
//! Both kinds log new values, which a crash stores again. So bytes that a transaction has written
//! must not be stored in any other way, unless the pool was made [for that](in_place).

mod ahead;
pub(crate) mod buffers;
pub(crate) mod changed;
pub(crate) mod checksum;
pub(crate) mod direct;
mod extension;
pub(crate) mod held;
mod in_place;
mod index;
mod lines;
mod ranges;
pub(crate) mod reach;
pub(crate) mod record;
pub(crate) mod recovery;
pub(crate) mod redo_log;
pub(crate) mod run;
mod shrink;
mod truncate;
pub(crate) mod undo_log;

use crate::alloc::block::Block;
use crate::{AccessError, Heap, Session, TxError};
use buffers::{Buffers, Notes, NotesMark};
use extension::RECORD_BYTES;
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt, Width, Word};

/// The maximum bytes that [`write`](Tx::write) notes in one entry of the record.
const RUN_BYTES: usize = 1 << 14;
const _: () = assert!(RUN_BYTES <= 8 * record::COUNT_MAX);

/// Which values a transaction logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Logging {
    /// New ones, at commit.
    #[default]
    Redo,
    /// Old ones, before each change.
    Undo,
}

/// A transaction in progress; [`Session::transaction`] passes one to a closure.
///
/// Addresses are those of persistent memory; volatile ones, and ones outside the root and the
/// chunks of the heap, are refused.
pub struct Tx<'s, 'm, M: Memory> {
    pub(crate) session: &'s mut Session<'m, M>,
    pub(crate) kind: Logging,
}

/// The state that is restored when a nested transaction fails.
struct Mark {
    words: NotesMark,
    own: NotesMark,
    taken: usize,
    freed: usize,
    was: usize,
    bare: usize,
}

impl<M: Memory> Tx<'_, '_, M> {
    /// Which values the transaction logs.
    pub fn kind(&self) -> Logging {
        self.kind
    }

    /// The heap.
    pub fn heap(&self) -> Heap {
        self.session.heap
    }

    /// The heap, not copied: it is large.
    #[doc(hidden)]
    pub fn heap_ref(&self) -> &Heap {
        &self.session.heap
    }

    /// As [`Session::extent`].
    #[doc(hidden)]
    pub fn extent(&self) -> crate::HeapExtent {
        self.session.extent()
    }

    /// As [`Session::known_root`].
    #[doc(hidden)]
    #[inline]
    pub fn known_root(&self, link: Addr) -> Option<Addr> {
        self.session.known_root(link)
    }

    /// As [`Session::know`].
    #[doc(hidden)]
    pub fn know(&self, link: Addr, root: Addr) {
        self.session.know(link, root);
    }

    /// The memory below. What a program stores there itself can be lost in a crash, if a
    /// transaction wrote the same bytes before, unless the heap
    /// [allows it](crate::HeapOptions::in_place).
    pub fn memory(&self) -> &M {
        self.session.memory
    }

    /// Loads the value at `at` as this transaction sees it.
    #[inline]
    #[track_caller]
    pub fn load<W: Word>(&self, at: Addr) -> W {
        if self.session.buffers.words.places.is_empty() {
            return self.session.memory.load(at);
        }
        let word = Addr::from_bits(at.bits() & !7);
        let shift = 8 * (at.bits() % 8) as u32;
        W::from_bits(self.load_noted(word) >> shift & W::WIDTH.mask())
    }

    /// Loads the words of the line that starts at `at`, as this transaction sees them.
    #[inline]
    #[track_caller]
    pub fn load_line(&self, at: Addr) -> [u64; LINE_BYTES as usize / 8] {
        let places = &self.session.buffers.words.places;
        if places.is_empty() || places.has_none(at, at.plus(LINE_BYTES)) {
            return self.session.memory.load_line(at);
        }
        std::array::from_fn(|word| self.load_noted(at.plus(8 * word as u64)))
    }

    /// As [`load_word`](Tx::load_word), out of line, so that the code of a transaction that has
    /// stored nothing yet stays short.
    #[inline(never)]
    #[track_caller]
    fn load_noted(&self, word: Addr) -> u64 {
        self.load_word(word)
    }

    #[inline]
    #[track_caller]
    fn load_word(&self, word: Addr) -> u64 {
        self.session.buffers.words.load(self.session.memory, word)
    }

    /// A word of the allocator, as this transaction sees it.
    #[inline]
    #[track_caller]
    pub(crate) fn load_own(&self, word: Addr) -> u64 {
        let Buffers { words, own, .. } = &*self.session.buffers;
        let notes = if self.session.heap.in_place { own } else { words };
        notes.load(self.session.memory, word)
    }

    /// Reads `into.len()` bytes from `at`, of any alignment, as this transaction sees them.
    #[track_caller]
    pub fn read(&self, at: Addr, into: &mut [u8]) {
        self.session.memory.read(at, into);
        if self.session.buffers.words.places.is_empty() {
            return;
        }
        let mut done = 0;
        while done < into.len() {
            let here = at.plus(done as u64);
            let skip = (here.bits() % 8) as usize;
            let count = (8 - skip).min(into.len() - done);
            let word = Addr::from_bits(here.bits() & !7);
            if self.session.buffers.words.places.find(word).is_some() {
                let bytes = self.load_word(word).to_le_bytes();
                into[done..done + count].copy_from_slice(&bytes[skip..skip + count]);
            }
            done += count;
        }
    }

    /// Stores a value at `at`, which is aligned to its width.
    ///
    /// # Errors
    /// When `at` is no data of the heap, or (undo) the log of old values is full.
    #[inline]
    #[track_caller]
    pub fn store<W: Word>(&mut self, at: Addr, value: W) -> Result<(), TxError> {
        self.check(at, W::WIDTH.bytes())?;
        assert!(at.bits().is_multiple_of(W::WIDTH.bytes()), "{at:?} is not aligned");
        if self.kind == Logging::Undo {
            self.save(&[(at, W::WIDTH.bytes())])?;
            self.session.memory.store(at, value);
            return Ok(());
        }
        self.will_note();
        self.put(at, W::WIDTH, value.to_bits());
        Ok(())
    }

    /// Writes `from` at `at`, of any alignment.
    ///
    /// # Errors
    /// As [`store`](Tx::store).
    #[track_caller]
    pub fn write(&mut self, at: Addr, from: &[u8]) -> Result<(), TxError> {
        self.check(at, from.len() as u64)?;
        if self.kind == Logging::Undo {
            self.save(&[(at, from.len() as u64)])?;
            self.session.memory.write(at, from);
            return Ok(());
        }
        self.will_note();
        let mut done = 0;
        while done < from.len() {
            let here = at.plus(done as u64);
            let Notes { record, places, .. } = &mut self.session.buffers.words;
            let whole = (from.len() - done).min(RUN_BYTES) / 8 * 8;
            let end = match here.bits().is_multiple_of(8) && whole > 0 {
                true => places.free_until(here, here.plus(whole as u64)),
                false => here,
            };
            if end > here {
                let bytes = (end.bits() - here.bits()) as usize;
                let place = record.push_words(here, &from[done..done + bytes]);
                places.put_run(here, end, place);
                done += bytes;
            } else {
                done += self.write_in_word(here, &from[done..]);
            }
        }
        Ok(())
    }

    /// Writes as many bytes as fit the word that `at` is in; returns their number.
    fn write_in_word(&mut self, at: Addr, from: &[u8]) -> usize {
        let skip = (at.bits() % 8) as usize;
        let count = (8 - skip).min(from.len());
        let mut bytes = [0; 8];
        bytes[skip..skip + count].copy_from_slice(&from[..count]);
        let word = Addr::from_bits(at.bits() & !7);
        let mask = (((1u16 << count) - 1) << skip) as u8;
        self.put_bytes(word, mask, u64::from_le_bytes(bytes));
        count
    }

    /// Announces that these ranges (address, bytes) are about to change: an undo transaction logs
    /// their old values now, all with one fence. A redo transaction does nothing.
    ///
    /// # Errors
    /// As [`store`](Tx::store).
    pub fn add(&mut self, ranges: &[(Addr, u64)]) -> Result<(), TxError> {
        for (at, bytes) in ranges {
            self.check(*at, *bytes)?;
        }
        match self.kind {
            Logging::Redo => Ok(()),
            Logging::Undo => self.save(ranges),
        }
    }

    /// Writes each of these (address, bytes), as [`write`](Tx::write) does: an undo transaction
    /// logs the old values of all with one fence.
    ///
    /// # Errors
    /// As [`store`](Tx::store); of an undo transaction nothing is written then.
    #[track_caller]
    pub fn write_all<B: AsRef<[u8]>>(
        &mut self,
        mut parts: impl Iterator<Item = (Addr, B)> + Clone,
    ) -> Result<(), TxError> {
        let ranges = parts.clone().map(|(at, from)| (at, from.as_ref().len() as u64));
        ranges.clone().try_for_each(|(at, bytes)| self.check(at, bytes))?;
        if self.kind == Logging::Redo {
            return parts.try_for_each(|(at, from)| self.write(at, from.as_ref()));
        }
        self.save_all(ranges)?;
        parts.for_each(|(at, from)| self.session.memory.write(at, from.as_ref()));
        Ok(())
    }

    /// Runs `inner` as a nested transaction: if it fails, its changes, allocations and frees are
    /// rolled back, and this transaction goes on.
    ///
    /// # Errors
    /// What `inner` returns.
    pub fn nested<T, E>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, E> {
        let mark = self.mark();
        let buffers = &mut *self.session.buffers;
        let outer = std::mem::replace(&mut buffers.outer, mark.taken);
        buffers.depth += 1;
        let outcome = inner(self);
        self.session.buffers.depth -= 1;
        self.session.buffers.outer = outer;
        if outcome.is_err() && !self.session.is_inherited() {
            self.return_to(&mark);
        }
        outcome
    }

    fn mark(&mut self) -> Mark {
        let buffers = &mut *self.session.buffers;
        Mark {
            words: buffers.words.mark(),
            own: buffers.own.mark(),
            taken: buffers.taken.len(),
            freed: buffers.freed.len(),
            was: buffers.was.len(),
            bare: buffers.bare.len(),
        }
    }

    fn return_to(&mut self, mark: &Mark) {
        let buffers = &mut *self.session.buffers;
        for (at, bytes) in buffers.was.drain(mark.was..).rev() {
            self.session.memory.write(at, &bytes);
        }
        buffers.words.return_to(mark.words);
        buffers.own.return_to(mark.own);
        buffers.freed.truncate(mark.freed);
        let taken: Vec<Block> = buffers.taken.drain(mark.taken..).collect();
        buffers.bare.truncate(mark.bare);
        buffers.fresh.clear();
        for block in &buffers.taken {
            buffers.fresh.add(block.at, block.end());
        }
        self.session.note_no_more(&taken);
        self.session.give_back(&taken);
    }

    #[inline]
    fn check(&self, at: Addr, bytes: u64) -> Result<(), TxError> {
        if bytes == 0 || self.session.holds(at, bytes) {
            Ok(())
        } else {
            Err(AccessError::NoData { at, bytes }.into())
        }
    }

    #[inline]
    fn put(&mut self, at: Addr, width: Width, bits: u64) {
        let word = Addr::from_bits(at.bits() & !7);
        let skip = (at.bits() % 8) as u32;
        let mask = ((1u16 << width.bytes()) - 1) as u8;
        self.put_bytes(word, mask << skip, bits << (8 * skip));
    }

    /// To be called before a word is noted.
    #[inline]
    fn will_note(&self) {
        if self.session.buffers.words.places.is_empty() {
            self.session.log.will_commit(self.session.memory);
        }
    }

    /// Adds bytes of a word of the program.
    #[inline]
    fn put_bytes(&mut self, word: Addr, mask: u8, value: u64) {
        let Buffers { words, depth, .. } = &mut *self.session.buffers;
        words.put(word, mask, value, *depth > 0);
    }

    /// Adds bytes of a word of the allocator.
    #[inline]
    pub(crate) fn put_own(&mut self, word: Addr, mask: u8, value: u64) {
        self.will_note();
        let is_nested = self.session.buffers.depth > 0;
        self.own_notes().put(word, mask, value, is_nested);
    }

    /// Where changes of the allocator are noted.
    #[inline]
    pub(crate) fn own_notes(&mut self) -> &mut Notes {
        let Buffers { words, own, .. } = &mut *self.session.buffers;
        if self.session.heap.in_place { own } else { words }
    }

    /// Undo: logs the old values of the bytes of the ranges that are not logged yet.
    #[inline]
    fn save(&mut self, ranges: &[(Addr, u64)]) -> Result<(), TxError> {
        let Buffers { saved, depth, .. } = &mut *self.session.buffers;
        // What was added before: most stores.
        if let [(at, bytes)] = ranges
            && *depth == 0
            && saved.holds(*at, at.plus(*bytes))
        {
            return Ok(());
        }
        self.save_all(ranges.iter().copied())
    }

    #[inline(never)]
    fn save_all(
        &mut self,
        ranges: impl Iterator<Item = (Addr, u64)> + Clone,
    ) -> Result<(), TxError> {
        for (mut at, mut bytes) in ranges.clone() {
            while bytes > 0 {
                let count = bytes.min(RECORD_BYTES);
                self.note_old(at, at.plus(count));
                if self.session.undo.noted() > RECORD_BYTES {
                    self.session.save_noted()?;
                }
                (at, bytes) = (at.plus(count), bytes - count);
            }
        }
        self.session.save_noted()?;
        for (at, bytes) in ranges {
            self.session.buffers.saved.add(at, at.plus(bytes));
        }
        Ok(())
    }

    #[inline]
    fn note_old(&mut self, start: Addr, end: Addr) {
        let session = &mut *self.session;
        let Buffers { saved, fresh, was, depth, .. } = &mut *session.buffers;
        if *depth > 0 {
            let mut old = vec![0; (end.bits() - start.bits()) as usize];
            session.memory.read(start, &mut old);
            was.push((start, old));
        }
        saved.missing(start, end, |from, to| {
            fresh.missing(from, to, |from, to| session.undo.note(session.memory, from, to));
        });
    }
}
