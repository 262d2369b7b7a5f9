//! Put, delete and search in a concurrent map of byte strings on a heap.
//!
//! A key is the bytes of its number and up to 24 more, a value those of a tag and up to 40 more,
//! which follow from the first: so every byte is checked, and records of several sizes come and go.

use crate::Damage;
use crate::keyed::{Keyed, Structure};
use crate::map::shape;
use seawall_collections::KvMap;
use seawall_memory::{Addr, Memory};
use seawall_runtime::{Heap, Session};

/// More bytes of a key, and of a value, at most.
const KEY_MORE: u64 = 24;
const VALUE_MORE: u64 = 40;

/// The benchmark of the map.
pub type Kv = Keyed<KvMap>;

/// The bytes of `number`, and up to `more` that follow from them.
fn bytes(number: u64, more: u64) -> Vec<u8> {
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let length = (spread >> 32) % (more + 1);
    let rest = (0..length).map(|at| (spread >> (at % 8 * 8)) as u8 ^ at as u8);
    number.to_le_bytes().into_iter().chain(rest).collect()
}

/// The number that `found` are the bytes of.
fn number(found: &[u8], more: u64) -> Option<u64> {
    let number = u64::from_le_bytes(*found.first_chunk()?);
    (bytes(number, more) == found).then_some(number)
}

impl Structure for KvMap {
    const NAME: &'static str = "kv";
    const ABOUT: &'static str = "put, delete and search in a concurrent map of byte strings";
    const LOG_BYTES: u64 = 16 << 10;
    const CHUNKS_A_THREAD: u64 = 8;
    const DRAM_BYTES: u64 = 0;
    const REPLACES: bool = true;

    fn create<M: Memory>(
        session: &mut Session<'_, M>,
        link: Addr,
        _: Addr,
        entries: u64,
    ) -> Result<KvMap, Damage> {
        Ok(session.redo(|tx| KvMap::create(tx, link, &shape(entries)))?)
    }

    fn open<M: Memory>(
        session: &mut Session<'_, M>,
        link: Addr,
        _: Addr,
    ) -> Result<KvMap, Damage> {
        Ok(KvMap::open(session, link)?)
    }

    fn get<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
    ) -> Result<Option<u64>, Damage> {
        let value = KvMap::get(self, session.memory(), &bytes(key, KEY_MORE));
        value.map(|value| number(&value, VALUE_MORE).ok_or_else(|| torn(key))).transpose()
    }

    fn insert<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        key: u64,
        tag: u64,
    ) -> Result<(), Damage> {
        KvMap::insert(self, session, &bytes(key, KEY_MORE), &bytes(tag, VALUE_MORE))?;
        Ok(())
    }

    fn remove<M: Memory>(&self, session: &mut Session<'_, M>, key: u64) -> Result<(), Damage> {
        KvMap::remove(self, session, &bytes(key, KEY_MORE))?;
        Ok(())
    }

    fn check<M: Memory>(
        &self,
        memory: &M,
        heap: &Heap,
        mut each: impl FnMut(u64, u64),
    ) -> Result<(), Damage> {
        KvMap::check(self, memory, heap)?;
        let mut broken = None;
        self.for_each(memory, |key, value| match number(key, KEY_MORE) {
            None => broken = Some(Damage(format!("{key:?} is no key of this workload"))),
            Some(key) => match number(value, VALUE_MORE) {
                None => broken = Some(torn(key)),
                Some(tag) => each(key, tag),
            },
        });
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
        for wanted in 0..200 {
            let mut found = bytes(wanted, VALUE_MORE);
            assert!((8..=48).contains(&found.len()));
            assert_eq!(number(&found, VALUE_MORE), Some(wanted));
            let last = found.len() - 1;
            found[last] ^= 1;
            assert_eq!(number(&found, VALUE_MORE), None, "{wanted}");
            assert_eq!(number(&found[..7], VALUE_MORE), None);
        }
    }
}
