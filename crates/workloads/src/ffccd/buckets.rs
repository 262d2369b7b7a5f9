//! A hash table of chains that grows and shrinks by one bucket at a time (linear hashing, Litwin,
//! VLDB'80), for the stores that are hash tables; each defines its entries.

use super::directory::{CAPACITY, Directory};
use super::{Read, Walk};
use crate::Damage;
use seawall_memory::Memory;
use seawall_runtime::TxError;
use seawall_runtime::typed::{Field, Persist, Ptr, Session, Tx};

/// The least number of buckets. A table has between half as many buckets as entries, and as many.
const BUCKETS_MIN: u64 = 4;
const LOAD_MAX: u64 = 2;

/// Linked entries, each with a hash of its key; no two keys share a hash.
pub(crate) trait Chained<'p>: Persist<'p> {
    const HASH: Field<Self, u64>;
    const NEXT: Field<Self, Option<Ptr<'p, Self>>>;
}

/// A table, embedded in the object that owns it.
#[derive(Clone, Copy, Persist)]
pub(crate) struct Buckets<'p, E> {
    entries: u64,
    count: u64,
    heads: Directory<'p, E>,
}

type At<'p, E> = Ptr<'p, Buckets<'p, E>>;
type Link<'p, E> = Option<Ptr<'p, E>>;

/// The bucket of a hash, of `count` buckets.
fn bucket(hash: u64, count: u64) -> u64 {
    let mask = count.next_power_of_two() - 1;
    if hash & mask < count { hash & mask } else { hash & mask >> 1 }
}

impl<'p, E: Chained<'p>> Buckets<'p, E> {
    /// An empty table.
    pub(crate) fn empty() -> Buckets<'p, E> {
        Buckets { entries: 0, count: BUCKETS_MIN, heads: Directory::empty() }
    }

    /// The first entry of a bucket; the number is taken modulo the number of buckets.
    pub(crate) fn head<R: Read<'p>>(
        reader: &R,
        at: At<'p, E>,
        number: u64,
    ) -> Result<Link<'p, E>, R::Error> {
        let count = reader.get(at.at(Buckets::COUNT))?;
        Directory::get(reader, at.at(Buckets::HEADS), number % count.clamp(1, CAPACITY))
    }

    /// The number of buckets.
    pub(crate) fn count<R: Read<'p>>(reader: &R, at: At<'p, E>) -> Result<u64, R::Error> {
        Ok(reader.get(at.at(Buckets::COUNT))?.clamp(1, CAPACITY))
    }

    /// The entry of a hash, and the one before it in its chain.
    fn locate<R: Read<'p>>(
        reader: &R,
        at: At<'p, E>,
        hash: u64,
    ) -> Result<(Link<'p, E>, Link<'p, E>), R::Error> {
        let number = bucket(hash, Buckets::count(reader, at)?);
        let mut before = None;
        let mut link = Directory::get(reader, at.at(Buckets::HEADS), number)?;
        while let Some(entry) = link {
            if reader.get(entry.at(E::HASH))? == hash {
                break;
            }
            (before, link) = (link, reader.get(entry.at(E::NEXT))?);
        }
        Ok((before, link))
    }

    /// The entry of a hash.
    pub(crate) fn find<R: Read<'p>>(
        reader: &R,
        at: At<'p, E>,
        hash: u64,
    ) -> Result<Link<'p, E>, R::Error> {
        Ok(Buckets::locate(reader, at, hash)?.1)
    }

    /// Links an entry with a new hash. With `slip`, a split bucket keeps all its entries.
    pub(crate) fn link<M: Memory>(
        tx: &mut Tx<'p, '_, '_, M>,
        at: At<'p, E>,
        entry: Ptr<'p, E>,
        slip: bool,
    ) -> Result<(), TxError> {
        let count = Buckets::count(tx, at)?;
        let number = bucket(tx.get(entry.at(E::HASH))?, count);
        let head = Directory::get(tx, at.at(Buckets::HEADS), number)?;
        tx.set(entry.at(E::NEXT), head)?;
        Directory::set(tx, at.at(Buckets::HEADS), number, Some(entry))?;
        let entries = tx.get(at.at(Buckets::ENTRIES))? + 1;
        tx.set(at.at(Buckets::ENTRIES), entries)?;
        if entries <= LOAD_MAX * count || count == CAPACITY {
            return Ok(());
        }
        tx.set(at.at(Buckets::COUNT), count + 1)?;
        if slip { Ok(()) } else { Buckets::split(tx, at, count) }
    }

    /// Fills a new last bucket with the entries that belong there.
    fn split<M: Memory>(
        tx: &mut Tx<'p, '_, '_, M>,
        at: At<'p, E>,
        new: u64,
    ) -> Result<(), TxError> {
        let old = bucket(new, new);
        let mut link = Directory::get(tx, at.at(Buckets::HEADS), old)?;
        let mut chains = [Vec::new(), Vec::new()];
        while let Some(entry) = link {
            let is_moved = bucket(tx.get(entry.at(E::HASH))?, new + 1) == new;
            chains[usize::from(is_moved)].push(entry);
            link = tx.get(entry.at(E::NEXT))?;
        }
        for (number, chain) in [old, new].into_iter().zip(chains) {
            Directory::set(tx, at.at(Buckets::HEADS), number, chain.first().copied())?;
            for (place, entry) in chain.iter().enumerate() {
                tx.set(entry.at(E::NEXT), chain.get(place + 1).copied())?;
            }
        }
        Ok(())
    }

    /// Unlinks the entry of a hash, if there is one; it is not freed.
    pub(crate) fn unlink<M: Memory>(
        tx: &mut Tx<'p, '_, '_, M>,
        at: At<'p, E>,
        hash: u64,
    ) -> Result<Link<'p, E>, TxError> {
        let (before, Some(entry)) = Buckets::locate(tx, at, hash)? else { return Ok(None) };
        let (count, next) = (Buckets::count(tx, at)?, tx.get(entry.at(E::NEXT))?);
        match before {
            Some(before) => tx.set(before.at(E::NEXT), next)?,
            None => Directory::set(tx, at.at(Buckets::HEADS), bucket(hash, count), next)?,
        }
        let entries = tx.get(at.at(Buckets::ENTRIES))?.saturating_sub(1);
        tx.set(at.at(Buckets::ENTRIES), entries)?;
        if entries < count && count > BUCKETS_MIN {
            Buckets::merge(tx, at, count - 1)?;
        }
        Ok(Some(entry))
    }

    /// Appends the last bucket to the one from which it was split.
    fn merge<M: Memory>(
        tx: &mut Tx<'p, '_, '_, M>,
        at: At<'p, E>,
        last: u64,
    ) -> Result<(), TxError> {
        tx.set(at.at(Buckets::COUNT), last)?;
        let (heads, into) = (at.at(Buckets::HEADS), bucket(last, last));
        let moved = Directory::get(tx, heads, last)?;
        if moved.is_none() {
            return Ok(());
        }
        Directory::set(tx, heads, last, None)?;
        let Some(mut end) = Directory::get(tx, heads, into)? else {
            return Directory::set(tx, heads, into, moved);
        };
        while let Some(next) = tx.get(end.at(E::NEXT))? {
            end = next;
        }
        tx.set(end.at(E::NEXT), moved)
    }

    /// Checks chains and counts, and calls `each` with each entry and its hash.
    pub(crate) fn check<M: Memory>(
        session: &Session<'p, '_, M>,
        at: At<'p, E>,
        walk: &mut Walk<'_>,
        mut each: impl FnMut(&mut Walk<'_>, E, u64) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        let count = session.get(at.at(Buckets::COUNT))?;
        let is_possible = (BUCKETS_MIN..=CAPACITY).contains(&count);
        walk.ensure(is_possible, || format!("a table has {count} buckets"))?;
        let mut linked = 0;
        Directory::check(session, at.at(Buckets::HEADS), walk, |walk, number, head| {
            let mut link = Some(head);
            while let Some(at) = link {
                walk.object("entry")?;
                let hash = session.get(at.at(E::HASH))?;
                walk.ensure(bucket(hash, count) == number, || {
                    format!("the entry of hash {hash:#x} is in bucket {number}")
                })?;
                link = session.get(at.at(E::NEXT))?;
                linked += 1;
                each(walk, session.get(at)?, hash)?;
            }
            Ok(())
        })?;
        let counted = session.get(at.at(Buckets::ENTRIES))?;
        walk.ensure(linked == counted, || {
            format!("{linked} entries are linked, {counted} are counted")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bucket_is_split_at_a_time() {
        for (count, hash) in (4..40).flat_map(|count| (0..200).map(move |hash| (count, hash))) {
            let (before, after) = (bucket(hash, count), bucket(hash, count + 1));
            assert!(before < count);
            assert!(after == before || after == count && before == bucket(count, count));
        }
    }
}
