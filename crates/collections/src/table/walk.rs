//! Looking at a table as a whole: every entry while others work, and whether all adds up.

use super::segment::Segment;
use super::{DEPTH_MASK, DEPTH_MAX, DIRECTORY, MapFlaw, Table, top};
use crate::Damage;
use crate::damage::Wild;
use crate::live::Live;
use crate::reads::Within;
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::{Held, Tx, TxError};

/// How large a map is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MapSize {
    /// Its keys.
    pub keys: u64,
    /// The objects of the heap that it is made of: if a heap holds only some structures, and
    /// more objects than theirs, some have leaked.
    pub objects: u64,
    /// The bytes of these objects.
    pub bytes: u64,
}

impl MapSize {
    /// Of a map of which all that was reached is a part.
    pub(crate) fn of(keys: u64, live: &Live) -> MapSize {
        MapSize { keys, objects: live.reached.0, bytes: live.reached.1 }
    }
}

impl Table {
    /// The segment of a hash, held.
    fn hold<M: Memory>(&self, memory: &M, hash: u64) -> Result<(Segment, Option<Held>), Wild> {
        loop {
            let directory = self.guard.version(memory);
            let named = self.named(memory, hash)?;
            if !self.shared || self.flaw.is(MapFlaw::NoLock) {
                return Ok((self.admit(memory, named)?, None));
            }
            let held = self.stripes.outer(named.segment.at).acquire(memory);
            if self.guard.is_still(memory, directory) {
                let segment = self.admit(memory, named);
                return match segment {
                    Ok(segment) => Ok((segment, Some(held))),
                    Err(wild) => {
                        held.release(memory);
                        Err(wild)
                    }
                };
            }
            held.release(memory);
        }
    }

    /// Shows every entry that is there all the while to `each` once, in the order of their hashes,
    /// as `copy` made it from hash and word. Segment by segment: `copy` runs while the segment is
    /// held, `each` does not.
    pub(crate) fn each<M: Memory, T>(
        &self,
        memory: &M,
        copy: impl Fn(u64, u64) -> Result<T, Wild>,
        mut each: impl FnMut(T),
    ) -> Result<(), Wild> {
        let mut next = Some(0);
        while let Some(from) = next {
            let copies;
            (copies, next) = self.part(memory, from, &copy)?;
            copies.into_iter().for_each(&mut each);
        }
        Ok(())
    }

    /// As [`each`](Table::each), of the one segment that has the hash `from`, and of that what is
    /// not before it; also gives where the next segment begins.
    pub(crate) fn part<M: Memory, T>(
        &self,
        memory: &M,
        from: u64,
        copy: impl Fn(u64, u64) -> Result<T, Wild>,
    ) -> Result<(Vec<T>, Option<u64>), Wild> {
        let (segment, held) = self.hold(memory, from)?;
        let mut entries = segment.live(memory, from);
        entries.retain(|(hash, _)| *hash >= from);
        entries.sort_unstable();
        let copies: Result<_, Wild> =
            entries.into_iter().map(|(hash, word)| copy(hash, word)).collect();
        if let Some(held) = held {
            held.release(memory);
        }
        let last = from | u64::MAX.checked_shr(segment.depth).unwrap_or(0);
        Ok((copies?, last.checked_add(1)))
    }

    /// How many entries there are.
    pub(crate) fn count<M: Memory>(&self, memory: &M) -> Result<u64, Wild> {
        let mut count = 0;
        self.each(memory, |_, _| Ok(()), |()| count += 1)?;
        Ok(count)
    }

    /// Shows every entry to `each` as a transaction sees it, in the order of their hashes; they
    /// stay until it is over.
    pub(crate) fn each_in<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        mut each: impl FnMut(&mut Tx<'_, '_, M>, u64, u64) -> Result<(), TxError>,
    ) -> Result<(), TxError> {
        self.segments_in(tx, |tx, segment, from| {
            let mut entries = segment.live(&Within(tx), from);
            entries.sort_unstable();
            entries.into_iter().try_for_each(|(hash, word)| each(tx, hash, word))
        })
    }

    /// Frees the table, but for what its words lead to, and clears its link. Nobody else may use
    /// it.
    pub(crate) fn free_in<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        link: Addr,
    ) -> Result<(), TxError> {
        self.segments_in(tx, |tx, segment, _| tx.free(segment.at))?;
        let directory: u64 = tx.load(self.root.plus(DIRECTORY));
        tx.free(Addr::from_bits(directory & !DEPTH_MASK))?;
        tx.free(self.root)?;
        tx.store(link, Addr::NULL)
    }

    fn segments_in<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        mut each: impl FnMut(&mut Tx<'_, '_, M>, Segment, u64) -> Result<(), TxError>,
    ) -> Result<(), TxError> {
        let mut from = 0;
        loop {
            let segment = self.held(tx, from)?;
            each(tx, segment, from)?;
            let last = from | u64::MAX.checked_shr(segment.depth).unwrap_or(0);
            match last.checked_add(1) {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// Checks root, directory and segments, and shows every entry to `each` with its hash; gives
    /// how many there are. No other thread may work.
    pub(crate) fn check<M: Memory>(
        &self,
        memory: &M,
        live: &mut Live,
        mut each: impl FnMut(&mut Live, u64, u64) -> Result<(), Damage>,
    ) -> Result<u64, Damage> {
        live.reach(self.root, LINE_BYTES, || "the link of the map".into())?;
        let directory: u64 = memory.load(self.root.plus(DIRECTORY));
        let bits = (directory & DEPTH_MASK) as u32;
        if !(1..=DEPTH_MAX).contains(&bits) {
            return Err(Damage::Broken(format!("a directory of {bits} bits")));
        }
        let base = Addr::from_bits(directory & !DEPTH_MASK);
        live.reach(base, 8 << bits, || "the root of the map".into())?;
        let (mut at, mut keys) = (0u64, 0);
        while at < 1 << bits {
            let word: u64 = memory.load(base.plus(8 * at));
            let segment = Segment::of(word, self.lines);
            let what = || format!("word {at} of the directory");
            if !(1..=bits).contains(&segment.depth) {
                let why = format!("{} is {word:#x}, of {bits} bits", what());
                return Err(Damage::Broken(why));
            }
            let count = 1u64 << (bits - segment.depth);
            let mut others = (at..at + count).map(|at| memory.load::<u64>(base.plus(8 * at)));
            if !at.is_multiple_of(count) || others.any(|other| other != word) {
                let why = format!("{} and its neighbours do not name one segment", what());
                return Err(Damage::Broken(why));
            }
            live.reach(segment.at, segment.bytes(), what)?;
            keys += self.check_segment(memory, segment, at << (64 - bits), live, &mut each)?;
            at += count;
        }
        Ok(keys)
    }

    fn check_segment<M: Memory>(
        &self,
        memory: &M,
        segment: Segment,
        first: u64,
        live: &mut Live,
        each: &mut impl FnMut(&mut Live, u64, u64) -> Result<(), Damage>,
    ) -> Result<u64, Damage> {
        let slots = segment.slots(memory);
        if let Some(hash) = segment.unreachable(first, &slots) {
            let at = segment.at;
            return Err(Damage::Broken(format!(
                "no search in the segment at {at} finds {hash:#x}"
            )));
        }
        let mut entries = segment.live(memory, first);
        entries.sort_unstable();
        let depth = segment.depth;
        debug_assert!(entries.iter().all(|(hash, _)| top(*hash, depth) == top(first, depth)));
        let keys = entries.len() as u64;
        entries.into_iter().try_for_each(|(hash, word)| each(live, hash, word))?;
        Ok(keys)
    }
}
