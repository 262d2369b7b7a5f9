//! Bytes in an object of their own: a word with their number, then the bytes; and a field that is
//! the address of such an object, or zero.

use super::Access;
use seawall_memory::{Addr, Memory};
use seawall_runtime::typed::{Persist, Ptr, Tx as TypedTx};
use seawall_runtime::{AccessError, Session, Tx, TxError};

fn damaged(at: Addr) -> AccessError {
    AccessError::Damaged { what: format!("the bytes at {at} are none, or longer than the pool") }
}

pub(super) fn put<M: Memory>(tx: &mut Tx<'_, '_, M>, bytes: &[u8]) -> Result<Addr, TxError> {
    let mut object = Vec::with_capacity(8 + bytes.len());
    object.extend((bytes.len() as u64).to_le_bytes());
    object.extend(bytes);
    let at = tx.alloc(object.len() as u64)?;
    tx.fill(at, &object)?;
    Ok(at)
}

pub(super) fn in_tx<M: Memory>(tx: &Tx<'_, '_, M>, at: Addr) -> Result<Vec<u8>, AccessError> {
    let length = length_in_tx(tx, at)?;
    let mut into = vec![0; length as usize];
    tx.read(content_at(at), &mut into);
    Ok(into)
}

pub(super) fn outside<M: Memory>(
    session: &Session<'_, M>,
    at: Addr,
) -> Result<Vec<u8>, AccessError> {
    let length = length_outside(session, at)?;
    let mut into = vec![0; length as usize];
    session.memory().read(content_at(at), &mut into);
    Ok(into)
}

/// How many bytes the object at `at` holds: all of them are in the pool.
pub(super) fn length_in_tx<M: Memory>(tx: &Tx<'_, '_, M>, at: Addr) -> Result<u64, AccessError> {
    length(at, |bytes| tx.is_data(at, bytes), || tx.load(at))
}

/// As [`length_in_tx`].
pub(super) fn length_outside<M: Memory>(
    session: &Session<'_, M>,
    at: Addr,
) -> Result<u64, AccessError> {
    length(at, |bytes| session.is_data(at, bytes), || session.load(at))
}

fn length(
    at: Addr,
    is_data: impl Fn(u64) -> bool,
    first_word: impl Fn() -> u64,
) -> Result<u64, AccessError> {
    if !at.bits().is_multiple_of(8) || !is_data(8) {
        return Err(damaged(at));
    }
    let length = first_word();
    if is_data(length.saturating_add(8)) { Ok(length) } else { Err(damaged(at)) }
}

/// Where the bytes of the object at `at` begin.
pub(super) fn content_at(at: Addr) -> Addr {
    at.plus(8)
}

/// The bytes to which the field at `ptr` leads, if any.
pub(super) fn of_field<'p, T: Persist<'p>, A: Access<'p>>(
    access: &mut A,
    ptr: Ptr<'p, T>,
) -> Result<Option<Vec<u8>>, A::Error> {
    access.either(
        ptr,
        |at, tx| match Addr::from_bits(tx.load(at)) {
            Addr::NULL => Ok(None),
            object => Ok(Some(in_tx(tx, object)?)),
        },
        |at, session| match Addr::from_bits(session.load(at)) {
            Addr::NULL => Ok(None),
            object => outside(session, object).map(Some),
        },
    )
}

/// Lets the field at `ptr` lead to these bytes, or to none, and frees those before.
pub(super) fn set_field<'p, T: Persist<'p>, M: Memory>(
    tx: &mut TypedTx<'p, '_, '_, M>,
    ptr: Ptr<'p, T>,
    bytes: Option<&[u8]>,
) -> Result<(), TxError> {
    let (at, tx) = tx.place(ptr)?;
    let old = Addr::from_bits(tx.load(at));
    let new = bytes.map_or(Ok(Addr::NULL), |bytes| put(tx, bytes))?;
    tx.store(at, new)?;
    if old.is_null() { Ok(()) } else { tx.free(old) }
}
