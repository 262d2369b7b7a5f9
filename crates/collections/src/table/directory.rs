//! How a table grows: a segment splits, and where the directory cannot tell its halves apart, or
//! has too many words for them, a new directory takes the place of the old one.
//!
//! One transaction of a few words either way: the new segment, and the new directory, are filled
//! before it, where nobody sees them (what is less than 4 KiB is logged with it).

use super::segment::Segment;
use super::{DEPTH_MASK, DEPTH_MAX, DIRECTORY, Hold, MapError, MapFlaw, Table, top};
use seawall_memory::{Addr, Memory};
use seawall_runtime::{Held, Session, Tx};

/// Words of the directory that are changed in place; more of them are copied to a new one.
const WORDS_MAX: u64 = 256;

/// A split that is to be linked.
struct Split {
    /// The bits that the hashes of the segment share before.
    prefix: u64,
    /// The segment that stays, with one bit more.
    old: Segment,
    /// What the new one holds.
    content: Vec<u8>,
}

impl Split {
    /// The words of a directory of so many bits that name the halves, with their places.
    fn words(&self, new: Segment, bits: u32) -> impl Iterator<Item = (u64, u64)> {
        let half = 1u64 << (bits - self.old.depth);
        let first = self.prefix * 2 * half;
        let entries = [self.old.entry(), new.entry()];
        (0..2 * half).map(move |at| (first + at, entries[(at / half) as usize]))
    }
}

/// Bytes that a mistaken split writes later than it should.
type Late = Vec<(Addr, Vec<u8>)>;

impl Table {
    /// Splits the segment that is held, in which `hash` has no room.
    #[cold]
    pub(super) fn split<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        hold: &Hold,
        hash: u64,
    ) -> Result<(), MapError> {
        let memory = session.memory();
        let before = hold.segment.depth;
        if before >= DEPTH_MAX {
            return Err(MapError::Crowded);
        }
        let old = Segment { depth: before + 1, ..hold.segment };
        let prefix = top(hash, before);
        let first = (prefix << 1 | 1) << (64 - old.depth);
        let mut moved = old.live(memory, first);
        let content = old.filled_bytes(first, &mut moved);
        let mut guard = None;
        let outcome = self.link(session, &Split { prefix, old, content }, &mut guard);
        if let Some(guard) = guard {
            guard.release(memory);
        }
        outcome
    }

    /// Links the halves, and takes the stripe of the directory, which it leaves to the caller.
    fn link<M: Memory>(
        &self,
        session: &mut Session<'_, M>,
        split: &Split,
        guard: &mut Option<Held>,
    ) -> Result<(), MapError> {
        let memory = session.memory();
        let late = session.redo(|tx| {
            let mut late = Late::new();
            let at = tx.alloc_lines(split.old.bytes())?;
            match self.flaw {
                MapFlaw::EarlySegment => late.push((at, split.content.clone())),
                _ => tx.fill(at, &split.content)?,
            }
            // From here on everybody waits, so what takes longest comes before.
            *guard = Some(self.guard.acquire(memory));
            self.point(tx, split, Segment { at, ..split.old }, &mut late)?;
            Ok::<_, MapError>(late)
        })?;
        for (at, bytes) in late {
            memory.write_nt(at, &bytes);
            memory.drain();
        }
        Ok(())
    }

    /// Makes the directory name the halves of a split.
    fn point<M: Memory>(
        &self,
        tx: &mut Tx<'_, '_, M>,
        split: &Split,
        new: Segment,
        late: &mut Late,
    ) -> Result<(), MapError> {
        let directory: u64 = tx.memory().load(self.root.plus(DIRECTORY));
        let bits = (directory & DEPTH_MASK) as u32;
        let base = Addr::from_bits(directory & !DEPTH_MASK);
        if split.old.depth <= bits && split.words(new, bits).count() as u64 <= WORDS_MAX {
            for (at, entry) in split.words(new, bits) {
                tx.store(base.plus(8 * at), entry)?;
            }
            return Ok(());
        }
        let wanted = bits.max(split.old.depth);
        let mut words = vec![0; 8 << bits];
        tx.read(base, &mut words);
        let mut bytes = Vec::with_capacity(8 << wanted);
        for entry in words.chunks(8) {
            (0..1u64 << (wanted - bits)).for_each(|_| bytes.extend_from_slice(entry));
        }
        for (at, entry) in split.words(new, wanted) {
            bytes[8 * at as usize..][..8].copy_from_slice(&entry.to_le_bytes());
        }
        let at = tx.alloc_lines(bytes.len() as u64)?;
        match self.flaw {
            MapFlaw::EarlyDirectory => late.push((at, bytes)),
            _ => tx.fill(at, &bytes)?,
        }
        tx.store(self.root.plus(DIRECTORY), at.bits() | u64::from(wanted))?;
        Ok(tx.free(base)?)
    }
}
