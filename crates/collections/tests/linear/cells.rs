//! What transactions of a heap alone do with keys: each has a cell with a pointer to an object that
//! holds its value. An insertion allocates an object and frees the one before.

use super::Keyed;
use super::checker::{Act, Answer};
use seawall_memory::{Addr, Memory};
use seawall_runtime::{Logging, Session, Tx, TxError};

/// Keys are below it.
const CELLS: u64 = 128;
/// The value is in each word of its object, so that one that is used twice is seen.
const WORDS: u64 = 6;
const MIXED: u64 = u64::MAX - 1;

#[derive(Clone)]
pub(super) struct Cells {
    first: Addr,
    locks: bool,
}

impl Cells {
    /// As a program that forgets that others work on the same cells.
    pub(super) fn without_locks(self) -> Cells {
        Cells { locks: false, ..self }
    }

    fn value<M: Memory>(tx: &Tx<'_, '_, M>, at: Addr) -> u64 {
        let value = tx.load::<u64>(at);
        let is_whole = (1..WORDS).all(|word| tx.load::<u64>(at.plus(8 * word)) == value);
        if is_whole { value } else { MIXED }
    }

    fn act_in<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        key: u64,
        act: Act,
    ) -> Result<Option<u64>, TxError> {
        let cell = self.first.plus(8 * key);
        if self.locks {
            tx.lock(tx.heap().stripes().outer(cell))?;
        }
        let old = Addr::from_bits(tx.load(cell));
        let value = (!old.is_null()).then(|| Cells::value(tx, old));
        if let Act::Insert(new) = act {
            let at = tx.alloc(8 * WORDS)?;
            (0..WORDS).try_for_each(|word| tx.store(at.plus(8 * word), new))?;
            tx.store(cell, at.bits())?;
        }
        if act == Act::Remove && value.is_some() {
            tx.store(cell, 0u64)?;
        }
        if act != Act::Get && value.is_some() {
            tx.free(old)?;
        }
        Ok(value)
    }
}

impl Keyed for Cells {
    fn create<M: Memory>(session: &mut Session<'_, M>) -> Cells {
        let root = session.heap().root();
        let first = session.transaction(|tx| {
            let first = tx.alloc(8 * CELLS)?;
            (0..CELLS).try_for_each(|cell| tx.store(first.plus(8 * cell), 0u64))?;
            tx.store(root, first.bits())?;
            Ok::<_, TxError>(first)
        });
        Cells { first: first.expect("room"), locks: true }
    }

    fn open<M: Memory>(session: &mut Session<'_, M>) -> Result<Cells, String> {
        let first = Addr::from_bits(session.load(session.heap().root()));
        Ok(Cells { first, locks: true })
    }

    /// Every third value is written with its old one in an undo log.
    fn act<M: Memory>(&self, session: &mut Session<'_, M>, key: u64, act: Act) -> Answer {
        let kind = match act {
            Act::Insert(value) if value.is_multiple_of(3) => Logging::Undo,
            _ => Logging::Redo,
        };
        let value = session.retry(kind, |tx| self.act_in(tx, key, act));
        Answer::Value(value.expect("room, and what is freed is live"))
    }
}
