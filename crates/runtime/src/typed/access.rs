//! Access to typed values through the seam: checked once, loaded by fields, stored by words.

use super::{Persist, Ptr};
use crate::defrag::scope::View;
use crate::persist::{Buffer, Sealed, Sink, Source};
use crate::tx::direct::DIRECT_BYTES;
use crate::{AccessError, Logging, Session, Tx, TxError};
use seawall_memory::{Addr, Memory, MemoryExt, Word};

/// Returns the address of `ptr`, if all of a `T` there is data of the heap: a pointer that was
/// never set, or that a failing disk changed, is not followed.
#[inline]
pub(super) fn check<'p, T: Persist<'p>, M: Memory>(
    session: &Session<'_, M>,
    ptr: Ptr<'p, T>,
) -> Result<Addr, AccessError> {
    session.check_process()?;
    let at = ptr.addr();
    if at.bits().is_multiple_of(T::ALIGN) && session.holds(at, T::SIZE) {
        Ok(at)
    } else {
        Err(AccessError::NoData { at, bytes: T::SIZE })
    }
}

/// A source of values outside of transactions: memory.
pub(super) struct Seen<'s, 'm, M: Memory>(pub(super) &'s Session<'m, M>);

impl<M: Memory> Sealed for Seen<'_, '_, M> {}

impl<M: Memory> Source for Seen<'_, '_, M> {
    #[inline]
    fn load<W: Word>(&self, at: Addr) -> W {
        self.0.memory.load(at)
    }

    #[inline]
    fn read(&self, at: Addr, into: &mut [u8]) {
        self.0.memory.read(at, into);
    }

    #[inline]
    fn pointer(&self, at: Addr) -> u64 {
        self.0.loaded(at, self.load(at), || true)
    }
}

/// A source of values in a transaction.
pub(super) struct Within<'t, 's, 'm, M: Memory>(pub(super) &'t Tx<'s, 'm, M>);

impl<M: Memory> Sealed for Within<'_, '_, '_, M> {}

impl<M: Memory> Source for Within<'_, '_, '_, M> {
    #[inline]
    fn load<W: Word>(&self, at: Addr) -> W {
        self.0.load(at)
    }

    #[inline]
    fn read(&self, at: Addr, into: &mut [u8]) {
        self.0.read(at, into);
    }

    #[inline]
    fn pointer(&self, at: Addr) -> u64 {
        let is_in_place = || self.0.session.buffers.words.places.find(at).is_none();
        self.0.session.loaded(at, self.load(at), is_in_place)
    }
}

/// Stores `value` at `at`, which has been checked.
#[inline]
pub(super) fn put<'p, T: Persist<'p>, M: Memory>(
    tx: &mut Tx<'_, '_, M>,
    at: Addr,
    value: T,
) -> Result<(), TxError> {
    store(tx, at, value, false)
}

#[inline]
fn store<'p, T: Persist<'p>, M: Memory>(
    tx: &mut Tx<'_, '_, M>,
    at: Addr,
    value: T,
    is_new: bool,
) -> Result<(), TxError> {
    if tx.kind() == Logging::Undo {
        keep_old::<T, M>(tx, at)?;
    }
    let (start, outcome) = (at.bits(), Ok(()));
    let mut words =
        Words { tx, start, end: start + T::SIZE, word: start & !7, bits: 0, is_new, outcome };
    value.store(&mut words, at);
    words.finish()
}

/// Undo: logs the value at `at` with its pointers fixed up, so that a rollback restores no old
/// address.
#[inline(never)]
fn keep_old<'p, T: Persist<'p>, M: Memory>(
    tx: &mut Tx<'_, '_, M>,
    at: Addr,
) -> Result<(), TxError> {
    if tx.session.scope.view == View::New {
        let _ = T::load(&Within(tx), at);
    }
    if T::SIZE > 8 { tx.add(&[(at, T::SIZE)]) } else { Ok(()) }
}

/// Stores `value` in the object at `at`, which this transaction has allocated.
#[inline]
pub(super) fn fill<'p, T: Persist<'p>, M: Memory>(
    tx: &mut Tx<'_, '_, M>,
    at: Addr,
    value: T,
) -> Result<(), TxError> {
    if T::SIZE >= DIRECT_BYTES {
        let mut named = Named { bytes: Buffer(vec![0; T::SIZE as usize]), session: &*tx.session };
        value.store(&mut named, Addr::NULL);
        let bytes = named.bytes.0;
        return tx.fill(at, &bytes);
    }
    store(tx, at, value, true)
}

/// A sink for the bytes of a value, with pointers as the pool gets them.
struct Named<'s, 'm, M: Memory> {
    bytes: Buffer,
    session: &'s Session<'m, M>,
}

impl<M: Memory> Sealed for Named<'_, '_, M> {}

impl<M: Memory> Sink for Named<'_, '_, M> {
    fn store<W: Word>(&mut self, at: Addr, value: W) {
        self.bytes.store(at, value);
    }

    fn write(&mut self, at: Addr, from: &[u8]) {
        self.bytes.write(at, from);
    }

    fn pointer(&mut self, at: Addr, bits: u64) {
        self.bytes.store(at, self.session.stored(bits));
    }
}

/// A sink that collects the fields of one value into whole words, so that each word is logged once;
/// padding between fields becomes zero.
struct Words<'t, 's, 'm, M: Memory> {
    tx: &'t mut Tx<'s, 'm, M>,
    start: u64,
    end: u64,
    /// The word that is being collected, and its bits so far.
    word: u64,
    bits: u64,
    /// The object is new: it has no bytes to keep.
    is_new: bool,
    outcome: Result<(), TxError>,
}

impl<M: Memory> Words<'_, '_, '_, M> {
    /// Adds the bits of bytes from `at`, all in one word.
    #[inline]
    fn gather(&mut self, at: u64, bits: u64) {
        let word = at & !7;
        while self.word < word {
            self.put();
            self.word += 8;
            self.bits = 0;
        }
        self.bits |= bits << (8 * (at % 8));
    }

    #[inline]
    fn put(&mut self) {
        let (from, to) = (self.word.max(self.start), (self.word + 8).min(self.end));
        if self.outcome.is_err() || from >= to {
            return;
        }
        self.outcome = if to - from == 8 {
            self.tx.store(Addr::from_bits(self.word), self.bits)
        } else {
            let bytes = self.bits.to_le_bytes();
            let range = (from - self.word) as usize..(to - self.word) as usize;
            self.tx.write(Addr::from_bits(from), &bytes[range])
        };
    }

    #[inline]
    fn finish(mut self) -> Result<(), TxError> {
        while self.word < self.end {
            self.put();
            self.word += 8;
            self.bits = 0;
        }
        self.outcome
    }
}

impl<M: Memory> Sealed for Words<'_, '_, '_, M> {}

impl<M: Memory> Sink for Words<'_, '_, '_, M> {
    #[inline]
    fn store<W: Word>(&mut self, at: Addr, value: W) {
        self.gather(at.bits(), value.to_bits());
    }

    #[inline]
    fn pointer(&mut self, at: Addr, bits: u64) {
        self.gather(at.bits(), self.tx.session.stored(bits));
    }

    fn keep(&mut self, at: Addr, bytes: u64) {
        if self.is_new {
            return;
        }
        while self.word < at.bits() {
            self.put();
            self.word += 8;
            self.bits = 0;
        }
        self.word = at.bits() + bytes;
    }

    fn write(&mut self, at: Addr, from: &[u8]) {
        let (mut at, mut from) = (at.bits(), from);
        while !from.is_empty() {
            let (piece, rest) = from.split_at(from.len().min(8 - at as usize % 8));
            let mut bytes = [0; 8];
            bytes[..piece.len()].copy_from_slice(piece);
            self.gather(at, u64::from_le_bytes(bytes));
            (at, from) = (at + piece.len() as u64, rest);
        }
    }
}
