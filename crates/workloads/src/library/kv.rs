//! Put, delete and search in a concurrent map of byte strings on a heap.
//!
//! A key is the bytes of its number and up to 24 more. A value of `kv` is a tag and up to 40 more
//! bytes, so that records of several sizes are allocated and freed. All bytes are a function of the
//! first eight, so every byte is checked. Other sizes of values are workloads of their own
//! (`records`).

use crate::Damage;
use crate::library::keyed::{Keyed, KeyedStructure};
use crate::library::map::shape;
use seawall_collections::KvMap;
use seawall_memory::{Addr, Memory};
use seawall_runtime::{Heap, Session};
use std::marker::PhantomData;
use std::ops::RangeInclusive;

/// Bytes of a key beside its number.
const KEY_MORE: Range = 0..=24;

pub(crate) type Range = RangeInclusive<u64>;

/// The benchmark of the map.
pub type Kv = Keyed<Strings<Short>>;

/// The sizes of values.
pub trait Values: 'static {
    /// Name of the workload.
    const NAME: &'static str;
    /// One line for the list of workloads.
    const ABOUT: &'static str;
    /// Bytes of a value beside its tag.
    const MORE: Range;
    /// Bytes of half a log.
    const LOG_BYTES: u64;
    /// The heap bytes of a record, including fragmentation.
    const ENTRY_BYTES: u64;
}

/// Values of 8 to 48 bytes.
pub struct Short;

impl Values for Short {
    const NAME: &'static str = "kv";
    const ABOUT: &'static str = "put, delete and search in a concurrent map of byte strings";
    const MORE: Range = 0..=40;
    const LOG_BYTES: u64 = 16 << 10;
    const ENTRY_BYTES: u64 = 256;
}

/// A handle of the map, and the sizes of its values.
pub struct Strings<V>(KvMap, PhantomData<V>);

/// The bytes of `number`, followed by a number of bytes in `more`; both depend on `number` only.
fn bytes(number: u64, more: Range) -> Vec<u8> {
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let length = more.start() + (spread >> 32) % (more.end() - more.start() + 1);
    let rest = (0..length).map(|at| (spread >> (at % 8 * 8)) as u8 ^ at as u8);
    number.to_le_bytes().into_iter().chain(rest).collect()
}

/// The number whose bytes `found` are.
fn number(found: &[u8], more: Range) -> Option<u64> {
    let number = u64::from_le_bytes(*found.first_chunk()?);
    (bytes(number, more) == found).then_some(number)
}

impl<V: Values> KeyedStructure for Strings<V> {
    const NAME: &'static str = V::NAME;
    const ABOUT: &'static str = V::ABOUT;
    const LOG_BYTES: u64 = V::LOG_BYTES;
    const ENTRY_BYTES: u64 = V::ENTRY_BYTES;
    const CHUNKS_A_THREAD: u64 = 8;
    const DRAM_BYTES: u64 = 0;
    const REPLACES: bool = true;

    fn create<M: Memory>(
        session: &mut Session<'_, M>,
        link: Addr,
        _: Addr,
        entries: u64,
    ) -> Result<Self, Damage> {
        let map = session.transaction(|tx| KvMap::create(tx, link, &shape(entries)))?;
        Ok(Strings(map, PhantomData))
    }

    fn open<M: Memory>(session: &mut Session<'_, M>, link: Addr, _: Addr) -> Result<Self, Damage> {
        Ok(Strings(KvMap::open(session, link)?, PhantomData))
    }

    fn get<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
    ) -> Result<Option<u64>, Damage> {
        let value = self.0.get(session.memory(), &bytes(key, KEY_MORE))?;
        value.map(|value| number(&value, V::MORE).ok_or_else(|| torn(key))).transpose()
    }

    fn insert<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
        tag: u64,
    ) -> Result<(), Damage> {
        self.0.insert(session, &bytes(key, KEY_MORE), &bytes(tag, V::MORE))?;
        Ok(())
    }

    fn remove<M: Memory>(&self, session: &mut Session<'_, M>, key: u64) -> Result<(), Damage> {
        self.0.remove(session, &bytes(key, KEY_MORE))?;
        Ok(())
    }

    fn check<M: Memory>(
        &self,
        memory: &M,
        heap: &Heap,
        mut each: impl FnMut(u64, u64),
    ) -> Result<(), Damage> {
        self.0.check(memory, heap)?;
        let mut broken = None;
        self.0.for_each(memory, |key, value| match number(key, KEY_MORE) {
            None => broken = Some(Damage(format!("{key:?} is no key of this workload"))),
            Some(key) => match number(value, V::MORE) {
                None => broken = Some(torn(key)),
                Some(tag) => each(key, tag),
            },
        })?;
        broken.map_or(Ok(()), Err)
    }
}

fn torn(key: u64) -> Damage {
    Damage(format!("the value of key {key} is not one that was put there"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_comes_back_from_its_bytes_and_from_no_others() {
        for (more, sizes) in [(Short::MORE, 8..=48), (992..=992, 1000..=1000)] {
            for wanted in 0..200 {
                let mut found = bytes(wanted, more.clone());
                assert!(sizes.contains(&found.len()));
                assert_eq!(number(&found, more.clone()), Some(wanted));
                let last = found.len() - 1;
                found[last] ^= 1;
                assert_eq!(number(&found, more.clone()), None, "{wanted}");
                assert_eq!(number(&found[..7], more.clone()), None);
            }
        }
    }
}
