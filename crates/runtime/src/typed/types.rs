//! The numbers of types that a thread knows, and how a type gets its number when its first object
//! is allocated (`heap/type_table.rs` has the table).

use crate::flaws::HeapFlaw;
use crate::heap::type_table::{Entry, Listed, encode_text, search, text_of};
use crate::persist::Persist;
use crate::tx::record::Builder;
use crate::tx::redo_log::Wait;
use crate::{AccessError, Session, TxError};
use rustc_hash::FxHashMap;
use seawall_memory::{Memory, MemoryExt};

/// The numbers of types that a thread knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Types {
    known: FxHashMap<u64, u8>,
}

impl Types {
    /// Returns the number of `T`, which gets one if it has none.
    #[inline]
    pub(crate) fn number<'p, T: Persist<'p>, M: Memory>(
        &mut self,
        session: &mut Session<'_, M>,
    ) -> Result<u8, TxError> {
        session.check_process()?;
        match self.known.get(&T::SHAPE) {
            Some(number) => Ok(*number),
            None => self.learn(session, Entry::of::<T>(), &text_of::<'p, T>),
        }
    }

    #[cold]
    #[inline(never)]
    fn learn<M: Memory>(
        &mut self,
        session: &mut Session<'_, M>,
        entry: Entry,
        text: &dyn Fn() -> String,
    ) -> Result<u8, TxError> {
        let number = number_of(session, entry, text)?;
        self.known.insert(entry.shape, number);
        Ok(number)
    }

    /// Returns the number of `T`, if it has one.
    #[inline]
    pub(crate) fn find<'p, T: Persist<'p>, M: Memory>(
        &mut self,
        session: &mut Session<'_, M>,
    ) -> Result<Option<u8>, AccessError> {
        session.check_process()?;
        match self.known.get(&T::SHAPE) {
            Some(number) => Ok(Some(*number)),
            None => self.look_for(session, Entry::of::<T>()),
        }
    }

    #[cold]
    #[inline(never)]
    fn look_for<M: Memory>(
        &mut self,
        session: &mut Session<'_, M>,
        entry: Entry,
    ) -> Result<Option<u8>, AccessError> {
        let found = session.with_chunk_lock(|session| search(session.memory, &session.heap, entry));
        let Listed::As(number) = found? else { return Ok(None) };
        self.known.insert(entry.shape, number);
        Ok(Some(number))
    }
}

/// The number of a type in the heap, which gets one, with that text, if it has none.
pub(crate) fn number_of<M: Memory>(
    session: &mut Session<'_, M>,
    entry: Entry,
    text: &dyn Fn() -> String,
) -> Result<u8, TxError> {
    if session.heap.flaw.is(HeapFlaw::UnlockedType) {
        return search_or_add(session, entry, text);
    }
    session.with_chunk_lock(|session| search_or_add(session, entry, text))
}

fn search_or_add<M: Memory>(
    session: &mut Session<'_, M>,
    entry: Entry,
    text: &dyn Fn() -> String,
) -> Result<u8, TxError> {
    match search(session.memory, &session.heap, entry)? {
        Listed::As(number) => Ok(number),
        Listed::Not(Some(number)) => add(session, number, entry, &text()).map(|()| number),
        Listed::Not(None) => Err(TxError::Types),
        Listed::WithSize(size) => {
            let what = format!("an object of {} bytes, there {size} bytes,", entry.size);
            Err(TxError::Shape { what })
        }
    }
}

fn add<M: Memory>(
    session: &mut Session<'_, M>,
    number: u8,
    entry: Entry,
    text: &str,
) -> Result<(), TxError> {
    let text_at = session.layout().type_text(u64::from(number));
    let at = session.layout().type_entry(u64::from(number));
    let mut builder = Builder::default();
    builder.clear();
    if session.heap.flaw.is(HeapFlaw::UnloggedType) {
        let words = (0..).zip(entry.encode(at));
        words.for_each(|(word, value)| session.memory.store(at.plus(8 * word), value));
        return Ok(());
    }
    for (word, value) in (0..).zip(entry.encode(at)) {
        builder.push_word(at.plus(8 * word), value);
    }
    let used = 1 + text.len().div_ceil(8);
    for (word, value) in (0..).zip(encode_text(text_at, text).into_iter().take(used)) {
        builder.push_word(text_at.plus(8 * word), value);
    }
    session.log.commit(session.memory, &mut builder, Wait::Durable)
}
