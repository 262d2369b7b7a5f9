//! Bytes in an object of their own: a word that says how many, and they.

use seawall_memory::{Addr, Memory};
use seawall_runtime::{HeapError, Session, Tx};

fn damaged(at: Addr) -> HeapError {
    HeapError::Damaged { what: format!("the bytes at {at} are longer than the pool") }
}

pub(super) fn put<M: Memory>(tx: &mut Tx<'_, '_, M>, bytes: &[u8]) -> Result<Addr, HeapError> {
    let mut object = Vec::with_capacity(8 + bytes.len());
    object.extend((bytes.len() as u64).to_le_bytes());
    object.extend(bytes);
    let at = tx.alloc(object.len() as u64)?;
    tx.fill(at, &object)?;
    Ok(at)
}

pub(super) fn in_tx<M: Memory>(tx: &Tx<'_, '_, M>, at: Addr) -> Result<Vec<u8>, HeapError> {
    let length = |at| tx.load::<u64>(at);
    got(at, |at, bytes| tx.is_data(at, bytes), length, |at, into| tx.read(at, into))
}

pub(super) fn outside<M: Memory>(session: &Session<'_, M>, at: Addr) -> Result<Vec<u8>, HeapError> {
    let is_data = |at, bytes| session.is_data(at, bytes);
    let length = |at| session.load::<u64>(at);
    got(at, is_data, length, |at, into| session.memory().read(at, into))
}

fn got(
    at: Addr,
    is_data: impl Fn(Addr, u64) -> bool,
    length: impl Fn(Addr) -> u64,
    read: impl Fn(Addr, &mut [u8]),
) -> Result<Vec<u8>, HeapError> {
    if !is_data(at, 8) {
        return Err(damaged(at));
    }
    let bytes = length(at);
    if !is_data(at, bytes.saturating_add(8)) {
        return Err(damaged(at));
    }
    let mut into = vec![0; bytes as usize];
    read(at.plus(8), &mut into);
    Ok(into)
}
