//! What libpmemobj does for a transaction, as operations on the simulated memory.
//!
//! The programs of FFCCD (ISCA'22, section 6) run on libpmemobj of PMDK 1.11; the heap here commits
//! with one fence and few instructions. With [`Cost::Libpmemobj`] each transaction also does what
//! that library does, in a lane of its thread behind the heap, in the order of its source
//! (`memops.c`, `ulog.c`, `palloc.c` and `tx.c`):
//!
//! | step | writes | fences |
//! |---|---|---|
//! | a range is added | zeros where the next log entry will be, past the caches | 1 |
//! | | 24 bytes and the old content, in whole lines, past the caches | 1 |
//! | commit | flushes the ranges, and the new objects with 16 bytes before each | 1 |
//! | the allocator begins | | 1 |
//! | one of its words changes | the word, flushed | 1 |
//! | or several do | a redo log; the words; the log's head | 3 |
//! | the undo log ends | the number of its generation, if there was a range | 1 |
//!
//! Instructions are counts of libpmemobj 1.12.1 (Debian 12) under callgrind, 1000 transactions of
//! each kind less none: an empty one, with one, two and four ranges of 8 bytes or of 128, with an
//! allocation of 128 bytes, with a free. The counts of fences are the library's, too (5 for one
//! range, 2 for each further one, 3 for an allocation or a free alone).
//!
//! The heap's own transaction keeps the data safe, with its one fence; nothing reads the lane.

use super::Lane;
use crate::{Immobile, Workload};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::TxError;
use seawall_runtime::typed::{Changed, Session, Tx};
use std::fmt;
use std::str::FromStr;

/// What the transactions of programs that grow and shrink cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cost {
    /// What those of the heap cost.
    #[default]
    Lean,
    /// As much as those of libpmemobj, in addition.
    Libpmemobj,
}

/// An unknown cost of transactions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown cost {0} of transactions; it must be lean or libpmemobj")]
pub struct UnknownCost(String);

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Cost::Lean { "lean" } else { "libpmemobj" })
    }
}

impl FromStr for Cost {
    type Err = UnknownCost;

    fn from_str(text: &str) -> Result<Cost, UnknownCost> {
        let found = [Cost::Lean, Cost::Libpmemobj].into_iter().find(|it| it.to_string() == text);
        found.ok_or_else(|| UnknownCost(text.to_owned()))
    }
}

impl Cost {
    /// Rejects another cost than that of the heap for a workload that does not grow and shrink.
    ///
    /// # Errors
    /// The workload, and those that do: their objects can move.
    pub fn check_for<W: Workload>(self) -> Result<(), Immobile> {
        if self == Cost::Lean { Ok(()) } else { Immobile::check::<W>() }
    }
}

/// Instructions to begin and commit a transaction.
const EMPTY: u32 = 1552;
/// Instructions for a range, for the first one in addition, and for each of its bytes.
const RANGE: u32 = 1443;
const FIRST_RANGE: u32 = 695;
const RANGE_BYTES: u64 = 120;
const RANGE_MORE: u64 = 545;
/// Instructions to allocate and to free an object.
const ALLOC: u32 = 2459;
const FREE: u32 = 1841;

/// Bytes before the content in an entry of the undo log, and before an object.
const ENTRY_HEAD: u64 = 24;
const OBJECT_HEAD: u64 = 16;
/// Bytes of an entry of the redo log.
const REDO_ENTRY: u64 = 16;
/// Bytes of the undo log, and of a lane: the heads of both logs, the redo log, the undo log. The
/// library allocates more for a transaction that needs it; here such a one begins again in front.
const UNDO_BYTES: u64 = 16 << 10;
const REDO_BYTES: u64 = 640;
const LANE_BYTES: u64 = 2 * LINE_BYTES + REDO_BYTES + UNDO_BYTES;

/// The bytes of the lanes of that many threads.
pub(super) fn bytes(cost: Cost, threads: usize) -> u64 {
    if cost == Cost::Lean { 0 } else { LANE_BYTES * threads as u64 }
}

/// The lane of a thread, behind a pool of `pool_bytes` bytes.
pub(super) fn lane(cost: Cost, pool_bytes: u64, thread: usize) -> Lane {
    let start = pool_bytes.next_multiple_of(LINE_BYTES);
    Lane((cost == Cost::Libpmemobj).then(|| Addr::pm(start + LANE_BYTES * thread as u64)))
}

impl Lane {
    /// Runs a transaction, and what libpmemobj would do for it if this is a lane.
    pub(super) fn transaction<'p, 'm, M: Memory, T>(
        self,
        session: &mut Session<'p, 'm, M>,
        body: impl FnOnce(&mut Tx<'p, '_, 'm, M>) -> Result<T, TxError>,
    ) -> Result<T, TxError> {
        let Some(lane) = self.0 else { return session.transaction(body) };
        let memory = session.memory();
        memory.work(EMPTY / 2);
        let (outcome, changed) = session.transaction(|tx| {
            let outcome = body(tx)?;
            let changed = tx.changed();
            let log = Log { memory, lane };
            log.add_ranges(&changed);
            Ok::<_, TxError>((outcome, changed))
        })?;
        Log { memory, lane }.commit(&changed);
        memory.work(EMPTY / 2);
        Ok(outcome)
    }
}

/// The logs of a lane: a line with the head of each, the redo log, the undo log.
struct Log<'m, M> {
    memory: &'m M,
    lane: Addr,
}

impl<M: Memory> Log<'_, M> {
    fn redo_head(&self) -> Addr {
        self.lane.plus(LINE_BYTES)
    }

    fn redo(&self) -> Addr {
        self.lane.plus(2 * LINE_BYTES)
    }

    /// The place of an undo entry, and of the one behind it.
    fn entry(&self, used: u64, bytes: u64) -> (Addr, Addr) {
        let undo = self.redo().plus(REDO_BYTES);
        let at = |used: u64| undo.plus(used % UNDO_BYTES);
        (at(used), at(used + bytes))
    }

    /// Logs the old content of each range.
    fn add_ranges(&self, changed: &Changed) {
        let memory = self.memory;
        let mut used = 0;
        for (number, (at, bytes)) in changed.ranges.iter().enumerate() {
            let first = if number == 0 { FIRST_RANGE } else { 0 };
            memory.work(RANGE + first + (bytes * RANGE_MORE / RANGE_BYTES) as u32);
            let most = UNDO_BYTES - LINE_BYTES - ENTRY_HEAD;
            let mut entry = vec![0; (ENTRY_HEAD + bytes.min(&most)) as usize];
            memory.read(*at, &mut entry[ENTRY_HEAD as usize..]);
            entry[..8].copy_from_slice(&at.bits().to_le_bytes());
            entry.resize(entry.len().next_multiple_of(LINE_BYTES as usize), 0);
            if used % UNDO_BYTES + entry.len() as u64 > UNDO_BYTES {
                used = 0;
            }
            let (place, next) = self.entry(used, entry.len() as u64);
            memory.write_nt(next, &[0; LINE_BYTES as usize]);
            memory.order();
            memory.write_nt(place, &entry);
            memory.order();
            used += entry.len() as u64;
        }
    }

    /// Writes the changes back, then those of the allocator, and ends the undo log.
    fn commit(&self, changed: &Changed) {
        let memory = self.memory;
        memory.work(ALLOC * changed.taken.len() as u32 + FREE * changed.freed as u32);
        for (at, bytes) in &changed.ranges {
            memory.flush(*at, *bytes);
        }
        for (at, bytes) in &changed.taken {
            let head = Addr::from_bits(at.bits() - OBJECT_HEAD);
            memory.flush(head, bytes + OBJECT_HEAD);
        }
        memory.order();
        memory.order();
        self.process(&changed.states);
        if !changed.ranges.is_empty() {
            let generation: u64 = memory.load(self.lane);
            memory.store(self.lane, generation + 1);
            memory.flush(self.lane, 8);
            memory.order();
        }
    }

    /// Writes the words of the allocator: alone, or by the redo log.
    fn process(&self, words: &[Addr]) {
        let memory = self.memory;
        if words.len() > 1 {
            let log = vec![0x5a; (REDO_ENTRY * words.len() as u64).min(REDO_BYTES) as usize];
            memory.write(self.redo_head(), &[1; 16]);
            memory.write(self.redo(), &log);
            memory.flush(self.redo_head(), LINE_BYTES + log.len() as u64);
            memory.order();
        }
        words.iter().for_each(|word| memory.flush(*word, 8));
        if !words.is_empty() {
            memory.order();
        }
        if words.len() > 1 {
            memory.write(self.redo_head(), &[0; 16]);
            memory.flush(self.redo_head(), LINE_BYTES);
            memory.order();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_memory::{Fence, Image, Memory, layer};
    use seawall_runtime::typed::{self, Persist, Ptr};
    use seawall_runtime::{HeapError, HeapOptions};
    use std::cell::Cell;

    /// Counts fences, lines that are flushed or written past the caches, and instructions.
    struct Counted<'m> {
        image: &'m Image,
        counts: Cell<[u64; 3]>,
    }

    impl Counted<'_> {
        fn add(&self, place: usize, count: u64) {
            let mut counts = self.counts.get();
            counts[place] += count;
            self.counts.set(counts);
        }
    }

    impl layer::Layer for Counted<'_> {
        type Below = Image;

        fn below(&self) -> &Image {
            self.image
        }

        fn fence(&self, _: Fence) {
            self.add(0, 1);
        }

        fn flush(&self, at: Addr, len: u64) {
            self.add(1, seawall_memory::lines_of(at, len).count() as u64);
        }

        fn write_nt(&self, at: Addr, from: &[u8]) {
            self.add(1, seawall_memory::lines_of(at, from.len() as u64).count() as u64);
            self.image.write(at, from);
        }

        fn work(&self, instructions: u32) {
            self.add(2, instructions.into());
        }
    }

    #[derive(Clone, Copy, Persist)]
    struct Root<'p> {
        words: [[u64; 16]; 4],
        kept: Option<Ptr<'p, Node>>,
        wide: Option<Ptr<'p, Wide>>,
    }

    #[derive(Clone, Copy, Persist)]
    struct Node {
        value: [u64; 16],
    }

    /// Of another size class than nodes.
    #[derive(Clone, Copy, Persist)]
    struct Wide {
        value: [u64; 60],
    }

    /// What a lane adds to the second of two transactions: fences, lines, instructions.
    fn added(
        body: impl for<'p> Fn(
            &mut Tx<'p, '_, '_, Counted<'_>>,
            Ptr<'p, Root<'p>>,
            u64,
        ) -> Result<(), TxError>,
    ) -> [u64; 3] {
        let options = HeapOptions { threads: 1, ..typed::options::<Root<'_>>() };
        let run = |cost: Cost| {
            let bytes = options.pm_bytes() + bytes(cost, 1);
            let image = Image::new(bytes, options.dram_bytes());
            let memory = Counted { image: &image, counts: Cell::default() };
            typed::create::<Root<'_>, _, HeapError>(&memory, "counted", 7, &options, |pool| {
                let mut session = pool.join(&memory);
                for number in 1..3 {
                    memory.counts.set([0; 3]);
                    let lane = lane(cost, options.pm_bytes(), 0);
                    lane.transaction(&mut session, |tx| body(tx, pool.root(), number))?;
                }
                Ok(memory.counts.get())
            })
            .expect("room")
        };
        let (with, without) = (run(Cost::Libpmemobj), run(Cost::Lean));
        std::array::from_fn(|place| with[place] - without[place])
    }

    fn ranges(count: usize, words: usize) -> [u64; 3] {
        added(|tx, root, number| {
            for range in 0..count {
                for word in 0..words {
                    tx.set(root.at(Root::WORDS).index(range).index(word), number)?;
                }
            }
            Ok(())
        })
    }

    #[test]
    fn fences_and_instructions_are_those_that_were_counted_of_the_library() {
        // (fences, instructions) as libpmemobj 1.12.1 has them; in lines, an entry, the zeros
        // behind it, the data, and the generation.
        let empty = u64::from(EMPTY);
        assert_eq!(added(|_, _, _| Ok(())), [2, 0, empty]);
        assert_eq!(ranges(1, 1), [5, 4, 3690 + 36]);
        assert_eq!(ranges(2, 1), [7, 7, 5133 + 2 * 36]);
        assert_eq!(ranges(4, 1)[0], 11);
        // 64 bytes and 24 take two lines; ranges that touch are one.
        assert_eq!(ranges(3, 8)[..2], [9, 3 * (2 + 1 + 1) + 1]);
        assert_eq!(ranges(3, 16)[0], 5);
        let allocated = added(|tx, root, number| {
            let node = tx.alloc(Node { value: [number; 16] })?;
            tx.set(root.at(Root::KEPT), Some(node))
        });
        assert_eq!((allocated[0], allocated[2]), (6, 3690 + 36 + u64::from(ALLOC)));
        // One word of the allocator changes: the states of both blocks are in it.
        let exchanged = added(|tx, root, number| {
            if let Some(old) = tx.get(root.at(Root::KEPT))? {
                tx.free(old)?;
            }
            let node = tx.alloc(Node { value: [number; 16] })?;
            tx.set(root.at(Root::KEPT), Some(node))
        });
        assert_eq!((exchanged[0], exchanged[2]), (6, allocated[2] + u64::from(FREE)));
        // Words of two size classes take a redo log, with two more fences.
        let both = added(|tx, root, number| {
            let node = tx.alloc(Node { value: [number; 16] })?;
            tx.set(root.at(Root::KEPT), Some(node))?;
            let wide = tx.alloc(Wide { value: [number; 60] })?;
            tx.set(root.at(Root::WIDE), Some(wide))
        });
        assert_eq!(both[0], 8);
    }

    #[test]
    fn the_name_of_a_cost_is_read_as_it_is_written() {
        for cost in [Cost::Lean, Cost::Libpmemobj] {
            assert_eq!(cost.to_string().parse(), Ok(cost));
        }
        let wrong = "libpmem".parse::<Cost>().unwrap_err().to_string();
        assert!(wrong.contains("lean or libpmemobj"), "{wrong}");
    }
}
