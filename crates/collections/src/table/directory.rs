//! How a table grows and shrinks: a segment splits, or two become one, and the directory names what
//! is there then.
//!
//! Where the directory cannot distinguish the halves of a split, or has too many words to change
//! for one segment, a new directory takes the place of the old one, of as many bits as the deepest
//! segment has; so a table that has lost nearly all its entries has a small directory again.
//!
//! A split, a merge and a new directory are part of the transaction that needs them, and write few
//! words of its log: a new segment and a new directory are filled where no other thread sees them
//! (what is less than 4 KiB is logged as well). Where there is no room for them, a merge changes
//! what is there, as removing needs no room. The stripe of the directory is held from then on
//! until the transaction is over; other threads wait.

use super::segment::{SPARSE, Segment};
use super::{DEPTH_MASK, DEPTH_MAX, DIRECTORY, MapError, MapFlaw, Table, top};
use crate::Damage;
use crate::damage::Wild;
use crate::reads::{Reads, Within};
use seawall_memory::{Addr, Memory};
use seawall_runtime::{Logging, Tx, TxError};

/// Words of the directory that are changed in place; more of them are copied to a new one.
const WORDS_MAX: u64 = 256;

/// The directory of a table: its address, and the number of first bits of a hash that it uses.
#[derive(Clone, Copy)]
struct Directory {
    at: Addr,
    bits: u32,
}

impl Directory {
    fn of(word: u64) -> Directory {
        Directory { at: Addr::from_bits(word & !DEPTH_MASK), bits: (word & DEPTH_MASK) as u32 }
    }
}

/// The segments for the hashes that begin with `depth` bits of one prefix: one segment for all of
/// them, or two for its halves.
struct Change<'a> {
    prefix: u64,
    depth: u32,
    segments: &'a [Segment],
}

impl Change<'_> {
    /// The words of a directory of `bits` bits that name the segments, with their places.
    fn words(&self, bits: u32) -> impl Iterator<Item = (u64, u64)> {
        let count = 1u64 << (bits - self.depth);
        let share = count / self.segments.len() as u64;
        let first = self.prefix * count;
        (0..count).map(move |at| (first + at, self.segments[(at / share) as usize].entry()))
    }
}

impl Table {
    /// Splits the segment of `hash`, which is held and has no room for it.
    #[cold]
    #[inline(never)]
    pub(super) fn split<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        segment: Segment,
        hash: u64,
    ) -> Result<(), MapError> {
        if segment.depth >= DEPTH_MAX {
            return Err(MapError::Crowded);
        }
        let (prefix, depth) = (top(hash, segment.depth), segment.depth);
        let old = Segment { depth: depth + 1, ..segment };
        let first = (prefix << 1 | 1) << (63 - depth);
        let mut moved = old.live(&Within(tx), first);
        let Some(content) = old.filled_bytes(first, &mut moved) else {
            let why = format!("the segment at {} has entries in places of others", segment.at);
            return Err(Damage::Broken(why).into());
        };
        let at = self.fresh(tx, &content, MapFlaw::EarlySegment)?;
        // From here on everybody waits, so what takes longest comes before.
        self.lock_directory(tx)?;
        self.point(tx, &Change { prefix, depth, segments: &[old, Segment { at, ..old }] })
    }

    /// Makes one of the segment of `hash`, which is held, and the other half of what they were
    /// split from, if they have few entries left and no thread is at work there; and so on.
    #[cold]
    #[inline(never)]
    pub(super) fn merge<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        mut segment: Segment,
        hash: u64,
    ) -> Result<(), MapError> {
        while segment.depth > 1 {
            let depth = segment.depth - 1;
            let other = hash ^ 1 << (63 - depth);
            let Some(buddy) = self.sparse_buddy(tx, segment, hash, other)? else { return Ok(()) };
            let within = Within(tx);
            let mut entries = segment.live(&within, hash);
            entries.append(&mut buddy.live(&within, other));
            let merged = Segment { depth, ..segment };
            let Some(content) = merged.merged_bytes(hash, &mut entries) else { return Ok(()) };
            let at = match self.fresh(tx, &content, MapFlaw::EarlySegment) {
                Err(MapError::Heap(TxError::Full { .. })) if tx.kind() == Logging::Redo => {
                    tx.write(segment.at, &content)?;
                    segment.at
                }
                Err(MapError::Heap(TxError::Full { .. })) => return Ok(()),
                fresh => {
                    tx.free(segment.at)?;
                    fresh?
                }
            };
            tx.free(buddy.at)?;
            segment = Segment { at, ..merged };
            self.point(tx, &Change { prefix: top(hash, depth), depth, segments: &[segment] })?;
        }
        Ok(())
    }

    /// The other half, with its stripe and that of the directory, if both locks are free and a
    /// merge seems worth it.
    fn sparse_buddy<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        segment: Segment,
        hash: u64,
        other: u64,
    ) -> Result<Option<Segment>, TxError> {
        let seen = tx.version(self.guard)?;
        let named = self.named(&Within(tx), other)?;
        if !self.guard.is_still(tx.memory(), seen) || named.segment.depth != segment.depth {
            return Ok(None);
        }
        let within = Within(tx);
        let buddy = self.admit(&within, named)?;
        let all = segment.whole_sample();
        if (segment.sample(&within, hash) + buddy.sample(&within, other)) * SPARSE > all {
            return Ok(None);
        }
        let is_loose = self.flaw.is(MapFlaw::LooseBuddy);
        let stripe = self.stripes.outer(buddy.at);
        let is_held = (is_loose || tx.try_lock(stripe)) && tx.lock_seen(&[(self.guard, seen)]);
        Ok(is_held.then_some(buddy))
    }

    fn lock_directory<M: Memory>(&self, tx: &mut Tx<'_, '_, M>) -> Result<(), TxError> {
        if self.shared { tx.lock(self.guard) } else { Ok(()) }
    }

    /// A new object with that content, which a crash loses if that bug is planted.
    fn fresh<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        content: &[u8],
        flaw: MapFlaw,
    ) -> Result<Addr, MapError> {
        let at = tx.alloc_lines(content.len() as u64)?;
        if self.flaw.is(flaw) {
            tx.memory().write(at, content);
        } else {
            tx.fill(at, content)?;
        }
        Ok(at)
    }

    /// Makes the directory, which is held, name the segments.
    fn point<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        change: &Change<'_>,
    ) -> Result<(), MapError> {
        let old = Directory::of(tx.load(self.root.plus(DIRECTORY)));
        let depth = change.segments[0].depth;
        if depth <= old.bits && change.words(old.bits).count() as u64 <= WORDS_MAX {
            return point_in_place(tx, old, change);
        }
        let most = old.bits.max(depth);
        let within = Within(tx);
        if old.bits > DEPTH_MAX || !self.has(&within, old.at, 8 << old.bits) {
            return Err(Wild { what: "the root of a map", to: old.at.bits() }.into());
        }
        let named = |at: u64| within.word(old.at.plus(8 * (at >> (most - old.bits))));
        let mut words: Vec<u64> = (0..1 << most).map(named).collect();
        change.words(most).for_each(|(at, entry)| words[at as usize] = entry);
        let deepest = words.iter().map(|entry| (entry & DEPTH_MASK) as u32).max();
        let bits = deepest.unwrap_or(most).clamp(1, most);
        let words = words.iter().step_by(1 << (most - bits));
        let content: Vec<u8> = words.flat_map(|entry| entry.to_le_bytes()).collect();
        let at = match self.fresh(tx, &content, MapFlaw::EarlyDirectory) {
            Err(MapError::Heap(TxError::Full { .. })) if depth <= old.bits => {
                return point_in_place(tx, old, change);
            }
            fresh => fresh?,
        };
        tx.store(self.root.plus(DIRECTORY), at.bits() | u64::from(bits))?;
        Ok(tx.free(old.at)?)
    }
}

/// Changes the words of a directory, which has enough bits.
fn point_in_place<M: Memory>(
    tx: &mut Tx<'_, '_, M>,
    directory: Directory,
    change: &Change<'_>,
) -> Result<(), MapError> {
    for (at, entry) in change.words(directory.bits) {
        tx.store(directory.at.plus(8 * at), entry)?;
    }
    Ok(())
}
