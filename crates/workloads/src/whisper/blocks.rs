//! An allocator as in NVML: a bitmap in the pool, changed in steps that are ordered each.
//!
//! Each thread has blocks of its own, as NVML's threads had arenas, so no two threads write a line
//! of the bitmap. Allocating and freeing a block belong to a transaction: the word of the bitmap is
//! saved in the log (two epochs, if it was not saved yet), changed, and written back (one more). A
//! block that a transaction frees is not reused before the commit, because a crash can return it to
//! its owner with its old content.

use super::undo::UndoTx;
use crate::Damage;
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::Arena;

/// Blocks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    bitmaps: Addr,
    area: Addr,
    threads: u64,
    each: u64,
    bytes: u64,
}

/// A free block: the word of the bitmap, its value, and the bit of the block.
struct Free {
    at: Addr,
    word: u64,
    bit: u64,
    block: Addr,
}

impl Blocks {
    /// Places `each` blocks of `bytes` bytes (rounded up to lines) for each thread.
    pub(crate) fn place(arena: &mut Arena, threads: u64, each: u64, bytes: u64) -> Blocks {
        let bytes = bytes.next_multiple_of(LINE_BYTES);
        let blocks = Blocks { bitmaps: Addr::NULL, area: Addr::NULL, threads, each, bytes };
        let bitmaps = arena.pm(threads * blocks.bitmap_bytes());
        let area = arena.pm(threads * each * bytes);
        Blocks { bitmaps, area, ..blocks }
    }

    const fn words(&self) -> u64 {
        self.each.div_ceil(64)
    }

    const fn bitmap_bytes(&self) -> u64 {
        (8 * self.words()).next_multiple_of(LINE_BYTES)
    }

    fn word(&self, thread: u64, word: u64) -> Addr {
        self.bitmaps.plus(thread * self.bitmap_bytes() + 8 * word)
    }

    fn block(&self, thread: u64, block: u64) -> Addr {
        self.area.plus((thread * self.each + block) * self.bytes)
    }

    /// Thread and number of the block that starts at the bits `at`; `None` if none does.
    fn place_of(&self, at: u64) -> Option<(u64, u64)> {
        let from_start = at.checked_sub(self.area.bits())?;
        let index = from_start / self.bytes;
        let is_one = from_start.is_multiple_of(self.bytes) && index < self.threads * self.each;
        is_one.then_some((index / self.each, index % self.each))
    }

    /// Allocates a free block of the transaction's thread, searching from `cursor` on, which moves
    /// behind it. `None` if there is none.
    pub(crate) fn take<M: Memory>(&self, tx: &mut UndoTx<'_, M>, cursor: &mut u64) -> Option<Addr> {
        let memory = tx.memory();
        let Free { at, word, bit, block } = self.find(tx, cursor)?;
        tx.strand();
        tx.add_only(at, 1);
        memory.store(at, word | 1 << bit);
        memory.flush(at, 8);
        tx.step();
        tx.fresh(block, self.bytes / 8);
        Some(block)
    }

    /// As [`take`](Blocks::take), but the bitmap changes only at commit, once for all blocks of a
    /// word, as in libpmemobj since 1.4; the caller declares the part that it writes as fresh.
    pub(crate) fn reserve<M: Memory>(
        &self,
        tx: &mut UndoTx<'_, M>,
        cursor: &mut u64,
    ) -> Option<Addr> {
        let Free { at, bit, block, .. } = self.find(tx, cursor)?;
        tx.at_commit(at, 1 << bit, 0);
        Some(block)
    }

    /// Frees the block at `at` when the transaction commits.
    ///
    /// # Panics
    /// If there is no such block.
    pub(crate) fn release<M: Memory>(&self, tx: &mut UndoTx<'_, M>, at: Addr) {
        let (thread, block) = self.place_of(at.bits()).expect("a block that was taken");
        tx.at_commit(self.word(thread, block / 64), 0, 1 << (block % 64));
    }

    /// A free block of the transaction's thread, from `cursor` on, which moves behind it.
    fn find<M: Memory>(&self, tx: &UndoTx<'_, M>, cursor: &mut u64) -> Option<Free> {
        let (memory, thread) = (tx.memory(), tx.thread());
        let first = *cursor / 64;
        for step in 0..=self.words() {
            let number = (first + step) % self.words();
            let at = self.word(thread, number);
            let word = memory.load::<u64>(at);
            memory.work(4);
            let taken = word | tx.set_at_commit(at);
            let from = if step == 0 { *cursor % 64 } else { 0 };
            let free = (from..64.min(self.each - 64 * number)).find(|bit| {
                taken >> bit & 1 == 0 && !tx.has_freed(self.block(thread, 64 * number + bit))
            });
            if let Some(bit) = free {
                *cursor = (64 * number + bit + 1) % self.each;
                let block = self.block(thread, 64 * number + bit);
                return Some(Free { at, word, bit, block });
            }
        }
        None
    }

    /// Frees the block at `at`.
    ///
    /// # Panics
    /// If there is no such block.
    pub(crate) fn give<M: Memory>(&self, tx: &mut UndoTx<'_, M>, at: Addr) {
        let memory = tx.memory();
        let (thread, block) = self.place_of(at.bits()).expect("a block that was taken");
        let place = self.word(thread, block / 64);
        tx.strand();
        tx.add_only(place, 1);
        memory.store(place, memory.load::<u64>(place) & !(1 << (block % 64)));
        memory.flush(place, 8);
        tx.note_freed(at);
        tx.step();
    }

    /// The blocks that a walk can reach, each once.
    pub(crate) fn reached(&self) -> ReachedBlocks<'_> {
        ReachedBlocks { blocks: self, bits: vec![0; (self.threads * self.words()) as usize] }
    }
}

/// The blocks that a walk has reached.
pub struct ReachedBlocks<'a> {
    blocks: &'a Blocks,
    bits: Vec<u64>,
}

impl ReachedBlocks<'_> {
    /// Marks the block of `thread` at the bits `at`, to which `what` points.
    ///
    /// # Errors
    /// If there is none, or it was reached before.
    pub(crate) fn reach(&mut self, thread: u64, at: u64, what: &str) -> Result<Addr, Damage> {
        let Some((owner, block)) = self.blocks.place_of(at).filter(|(owner, _)| *owner == thread)
        else {
            return Err(Damage(format!("{what} points to {at:#x}, where no block of it is")));
        };
        let word = &mut self.bits[(owner * self.blocks.words() + block / 64) as usize];
        if *word >> (block % 64) & 1 == 1 {
            return Err(Damage(format!("{what} reaches the block at {at:#x} a second time")));
        }
        *word |= 1 << (block % 64);
        Ok(Addr::from_bits(at))
    }

    /// Checks that exactly the reached blocks are allocated.
    ///
    /// # Errors
    /// A block that is free and in use, or allocated and unreachable.
    pub(crate) fn check<M: Memory>(&self, memory: &M) -> Result<(), Damage> {
        let words = self.blocks.words();
        for (index, reached) in (0..).zip(&self.bits) {
            let taken = memory.load::<u64>(self.blocks.word(index / words, index % words));
            let wrong = taken ^ reached;
            if wrong != 0 {
                let block = 64 * (index % words) + u64::from(wrong.trailing_zeros());
                let at = self.blocks.block(index / words, block);
                let what = match taken & wrong & wrong.wrapping_neg() {
                    0 => "in use, and free for the allocator",
                    _ => "taken, and nothing leads to it",
                };
                return Err(Damage(format!("the block at {at} is {what}")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::Client;
    use super::super::undo::{Overhead, Undo};
    use super::*;
    use crate::shared::epoch_log::OrderFlaw;
    use seawall_memory::Image;

    #[test]
    fn blocks_come_and_go_with_their_transaction_and_are_not_used_again_in_it() {
        let mut arena = Arena::new();
        let undo = Undo::place(&mut arena, 1, 8, 1);
        let blocks = Blocks::place(&mut arena, 1, 70, 100);
        let client = Client::place(&mut arena, 1);
        let image = Image::new(arena.pm_bytes(), arena.dram_bytes());
        let overhead = Overhead { client, hash: 1, calls: 0 };
        let begin = || UndoTx::begin(&image, &undo, 0, overhead, OrderFlaw::None);
        let mut cursor = 0;
        let mut all = Vec::new();
        loop {
            let mut tx = begin();
            let Some(at) = blocks.take(&mut tx, &mut cursor) else { break };
            tx.commit();
            all.push(at);
        }
        assert_eq!(all.len(), 70);
        let mut tx = begin();
        blocks.give(&mut tx, all[3]);
        assert_eq!(blocks.take(&mut tx, &mut cursor), None);
        drop(tx);
        undo.recover(&image, arena.pm_bytes()).unwrap();
        let mut reached = blocks.reached();
        all.iter().for_each(|at| assert!(reached.reach(0, at.bits(), "a test").is_ok()));
        assert_eq!(reached.check(&image), Ok(()), "the give was taken back");
        assert!(reached.reach(0, all[3].bits(), "it").unwrap_err().0.contains("a second time"));
        assert!(reached.reach(0, all[3].bits() + 8, "it").unwrap_err().0.contains("no block"));

        let mut tx = begin();
        blocks.give(&mut tx, all[3]);
        tx.commit();
        assert!(reached.check(&image).unwrap_err().0.contains("in use, and free"));
        let nothing = blocks.reached().check(&image).unwrap_err();
        assert!(nothing.0.contains("nothing leads to it"));
        let mut tx = begin();
        assert_eq!(blocks.take(&mut tx, &mut cursor), Some(all[3]));
        tx.commit();
    }

    #[test]
    fn reserved_blocks_are_taken_at_commit_in_one_change_of_their_word() {
        let mut arena = Arena::new();
        let undo = Undo::place(&mut arena, 1, 8, 1);
        let blocks = Blocks::place(&mut arena, 1, 64, 100);
        let client = Client::place(&mut arena, 1);
        let image = Image::new(arena.pm_bytes(), arena.dram_bytes());
        let overhead = Overhead { client, hash: 1, calls: 0 };
        let begin = || UndoTx::begin(&image, &undo, 0, overhead, OrderFlaw::None);
        let bitmap = || image.load::<u64>(blocks.word(0, 0));
        let mut cursor = 0;
        let mut tx = begin();
        let taken: Vec<Addr> =
            (0..64).filter_map(|_| blocks.reserve(&mut tx, &mut cursor)).collect();
        assert_eq!((taken.len(), blocks.reserve(&mut tx, &mut cursor)), (64, None));
        blocks.release(&mut tx, taken[5]);
        assert_eq!((bitmap(), blocks.reserve(&mut tx, &mut cursor)), (0, Some(taken[5])));
        drop(tx);
        assert_eq!(bitmap(), 0, "nothing was committed");
        let mut tx = begin();
        let first = blocks.reserve(&mut tx, &mut cursor).unwrap();
        let second = blocks.reserve(&mut tx, &mut cursor).unwrap();
        tx.commit();
        assert_eq!(bitmap().count_ones(), 2);
        let mut tx = begin();
        blocks.release(&mut tx, first);
        let third = blocks.reserve(&mut tx, &mut cursor).unwrap();
        assert_ne!(third, first, "it is free after the commit");
        tx.commit();
        let mut reached = blocks.reached();
        for at in [second, third] {
            reached.reach(0, at.bits(), "a test").unwrap();
        }
        assert_eq!(reached.check(&image), Ok(()));
    }
}
