//! A crit-bit tree under the [`map_insert`](super::inserts) of NVML: WHISPER's "ctree".
//!
//! A node holds the number of the bit in which the keys of its two sides differ, and for each side
//! a key and a slot: a node, or the key's value. So a new key needs a node and a value, and changes
//! one slot. Each thread has a tree. Keys are first spread over all 64 bits.
//!
//! Sizes: 3.3 % of the accesses of the published run are to persistent memory, and it has 11 epochs
//! per transaction (`experiments/whisper.toml`); `STEP_CALLS` and `CALLS` are chosen for the
//! former.

use super::blocks::{Blocks, ReachedBlocks};
use super::inserts::{Inserted, MapInsert, VALUE_WORDS};
use super::share::{self, Share, spread};
use super::undo::UndoTx;
use crate::{Contents, Damage};
use seawall_memory::{Addr, LINE_BYTES, Memory, MemoryExt};
use seawall_runtime::Arena;

/// Words of a node: its bit, and the entries of its two sides.
const BIT: u64 = 0;
const SIDES: u64 = 8;
const NODE_WORDS: u64 = 5;
/// Words of an entry: a key, and a slot.
const KEY: u64 = 0;
const SLOT: u64 = 8;
const ENTRY_BYTES: u64 = 16;
/// Marks a slot that points to a node.
const IS_NODE: u64 = 1;

/// The crit-bit tree benchmark.
pub type CTree = MapInsert<CritBit>;

/// A tree for each thread.
#[derive(Clone, Copy, Debug)]
pub struct CritBit {
    share: Share,
    roots: Addr,
    nodes: Blocks,
    values: Blocks,
}

/// Where a thread searches for free blocks.
#[derive(Debug, Default)]
pub struct Cursors {
    nodes: u64,
    values: u64,
}

/// Where a walk ended: the entry of a leaf.
#[derive(Debug)]
pub struct Nearest {
    entry: Addr,
    key: u64,
    slot: u64,
}

fn side(node: Addr, side: u64) -> Addr {
    node.plus(SIDES + side * ENTRY_BYTES)
}

impl CritBit {
    fn root(&self, thread: u64) -> Addr {
        self.roots.plus(thread * LINE_BYTES)
    }

    /// Walks towards `key` as long as nodes test bits above `least`.
    fn walk<M: Memory>(&self, memory: &M, key: u64, least: Option<u64>) -> Nearest {
        let (code, mut entry) = (spread(key), self.root(self.share.owner(key)));
        loop {
            let slot = memory.load::<u64>(entry.plus(SLOT));
            let node = Addr::from_bits(slot & !IS_NODE);
            memory.work(6);
            if slot & IS_NODE != 0 {
                let bit = memory.load::<u64>(node.plus(BIT));
                if least.is_none_or(|least| bit > least) {
                    entry = side(node, code >> (bit % 64) & 1);
                    continue;
                }
            }
            return Nearest { entry, key: memory.load(entry.plus(KEY)), slot };
        }
    }

    /// Checks the tree of `thread`, and adds its entries.
    fn check<M: Memory>(
        &self,
        memory: &M,
        thread: u64,
        [nodes, values]: [&mut ReachedBlocks<'_>; 2],
        contents: &mut Contents,
    ) -> Result<(), Damage> {
        let what = format!("the tree of thread {thread}");
        // The bits tested on each path, and their values.
        let mut ways = vec![(self.root(thread), 0u64, 0u64)];
        while let Some((entry, mask, must)) = ways.pop() {
            let (key, slot) = (memory.load(entry.plus(KEY)), memory.load::<u64>(entry.plus(SLOT)));
            if slot == 0 && mask == 0 {
                continue;
            }
            if slot & IS_NODE == 0 {
                let value = values.reach(thread, slot, &what)?;
                if spread(key) & mask != must || self.share.owner(key) != thread {
                    return Err(Damage(format!("key {key} is in a wrong place of {what}")));
                }
                contents.insert(key, share::check(memory, value, VALUE_WORDS, key)?);
                continue;
            }
            let node = nodes.reach(thread, slot & !IS_NODE, &what)?;
            let bit = memory.load::<u64>(node.plus(BIT));
            if bit >= 64 || (mask != 0 && bit >= u64::from(mask.trailing_zeros())) {
                return Err(Damage(format!("the node at {node} tells bit {bit} apart too late")));
            }
            ways.push((side(node, 0), mask | 1 << bit, must));
            ways.push((side(node, 1), mask | 1 << bit, must | 1 << bit));
        }
        Ok(())
    }
}

impl Inserted for CritBit {
    const NAME: &'static str = "ctree";
    const ABOUT: &'static str = "inserts into crit-bit trees with an undo log (NVML)";
    const STEP_CALLS: u64 = 6;
    const CALLS: u64 = 70;
    type Cursors = Cursors;
    type Near = Nearest;

    fn place(arena: &mut Arena, share: Share) -> CritBit {
        CritBit {
            share,
            roots: arena.pm(share.threads * LINE_BYTES),
            nodes: Blocks::place(arena, share.threads, share.each() + 1, 8 * NODE_WORDS),
            values: Blocks::place(arena, share.threads, share.each() + 1, 8 * VALUE_WORDS),
        }
    }

    fn find<M: Memory>(&self, memory: &M, key: u64) -> Result<Addr, Nearest> {
        let found = self.walk(memory, key, None);
        let is_it = found.slot != 0 && found.key == key;
        if is_it { Ok(Addr::from_bits(found.slot)) } else { Err(found) }
    }

    fn insert<M: Memory>(
        &self,
        mut tx: UndoTx<'_, M>,
        cursors: &mut Cursors,
        (key, tag): (u64, u64),
        near: Nearest,
    ) {
        let memory = tx.memory();
        let full = "a value and a node for each key";
        let value = self.values.take(&mut tx, &mut cursors.values).expect(full);
        share::fill(memory, value, VALUE_WORDS, key, tag);
        if near.slot == 0 {
            tx.strand();
            tx.add(near.entry, 2);
            memory.store(near.entry.plus(KEY), key);
            memory.store(near.entry.plus(SLOT), value);
            return tx.commit();
        }
        let node = self.nodes.take(&mut tx, &mut cursors.nodes).expect(full);
        let bit = u64::from((spread(near.key) ^ spread(key)).ilog2());
        let place = self.walk(memory, key, Some(bit)).entry;
        let number = spread(key) >> bit & 1;
        let (own, old) = (side(node, number), side(node, 1 - number));
        memory.store(node.plus(BIT), bit);
        memory.store(own.plus(KEY), key);
        memory.store(own.plus(SLOT), value);
        for word in [KEY, SLOT] {
            memory.store(old.plus(word), memory.load::<u64>(place.plus(word)));
        }
        tx.strand();
        tx.add(place, 2);
        memory.store(place.plus(KEY), 0u64);
        memory.store(place.plus(SLOT), node.bits() | IS_NODE);
        tx.commit();
    }

    fn contents<M: Memory>(&self, memory: &M) -> Result<Contents, Damage> {
        let mut contents = Contents::new();
        let (mut nodes, mut values) = (self.nodes.reached(), self.values.reached());
        for thread in 0..self.share.threads {
            self.check(memory, thread, [&mut nodes, &mut values], &mut contents)?;
        }
        nodes.check(memory)?;
        values.check(memory)?;
        Ok(contents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Setup, Workload};
    use seawall_memory::Image;

    #[test]
    fn a_side_that_holds_the_keys_of_the_other_is_found_and_a_cycle_too() {
        let setup = Setup { entries: 8, ..Setup::of::<CTree>(1) };
        let layout = CTree::layout(&setup);
        let image = Image::new(layout.pm_bytes, layout.dram_bytes);
        let tree = CTree::create(&image, &setup);
        assert_eq!(tree.contents(&image).unwrap().len(), 8);
        let slot = image.load::<u64>(tree.map.root(0).plus(SLOT));
        let node = Addr::from_bits(slot & !IS_NODE);
        let words: Vec<u64> = (0..2)
            .flat_map(|number| [KEY, SLOT].map(|word| side(node, number).plus(word)))
            .map(|at| image.load(at))
            .collect();
        let write = |words: [u64; 4]| {
            for (number, value) in (0..).zip(words) {
                image.store(side(node, 0).plus(8 * number), value);
            }
            tree.contents(&image).map(|_| ()).map_err(|damage| damage.0)
        };
        let swapped = write([words[2], words[3], words[0], words[1]]).unwrap_err();
        assert!(swapped.contains("wrong place"), "{swapped}");
        let cycle = write([words[0], slot, words[2], words[3]]).unwrap_err();
        assert!(cycle.contains("second time"), "{cycle}");
        let lost = write([0, 0, words[2], words[3]]).unwrap_err();
        assert!(lost.contains("points to 0x0"), "{lost}");
        assert_eq!(write([words[0], words[1], words[2], words[3]]), Ok(()));
    }
}
