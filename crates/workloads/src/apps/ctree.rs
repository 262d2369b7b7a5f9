//! Inserts, updates and deletes in a crit-bit tree above an undo log: WHISPER's "ctree", the
//! `map_insert` benchmark of NVML (ASPLOS'17, section 3.2): four clients, values of 128 bytes.
//!
//! A node holds the number of the bit in which the keys of its two sides differ, and for each side
//! a key and a slot: a node, or the key's value. So a new key takes a node and a value, and changes
//! one slot. Each thread has a tree. Keys are spread over all 64 bits first.
//!
//! Amounts: 3.3 % of the accesses of the published run are to persistent memory, and it has 11
//! epochs for a transaction (`experiments/whisper.toml`); [`STEP_CALLS`] and [`CALLS`] are chosen
//! for the former.

use super::blocks::{Blocks, Reached};
use super::client::Client;
use super::share::{self, Share};
use super::undo::{Overhead, Undo, UndoTx};
use crate::workload::Action;
use crate::{Contents, Damage, Flaw, Layout, Setup, Worker, Workload};
use seawall_memory::{Addr, LINE_BYTES, Memory};
use seawall_runtime::Arena;

/// Function calls of the transaction system for each of its steps, and of the rest.
const STEP_CALLS: u64 = 6;
const CALLS: u64 = 70;
const REQUEST_BYTES: u64 = 64;
const RESPONSE_BYTES: u64 = 32;

const VALUE_WORDS: u64 = 16;
const LOG_ENTRIES: u64 = 8;
const LOG_ENTRY_LINES: u64 = 3;

/// Words of a node: its bit, and the entries of its two sides.
const BIT: u64 = 0;
const SIDES: u64 = 8;
const NODE_WORDS: u64 = 5;
/// Words of an entry: a key, and a slot.
const KEY: u64 = 0;
const SLOT: u64 = 8;
const ENTRY_BYTES: u64 = 16;
/// In a slot that leads to a node.
const IS_NODE: u64 = 1;

/// The crit-bit tree benchmark.
#[derive(Clone, Copy, Debug)]
pub struct CTree {
    share: Share,
    undo: Undo,
    roots: Addr,
    nodes: Blocks,
    values: Blocks,
    client: Client,
}

/// Where a thread looks for free blocks.
#[derive(Debug, Default)]
pub struct Cursors {
    nodes: u64,
    values: u64,
}

/// Where a walk ended: the entry of a leaf, and the way to the node that it is in.
struct Found {
    entry: Addr,
    above: Option<(Addr, Addr)>,
    key: u64,
    slot: u64,
}

fn spread(key: u64) -> u64 {
    key.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn side(node: Addr, side: u64) -> Addr {
    node.plus(SIDES + side * ENTRY_BYTES)
}

/// The entry of the side of `node` that is not `entry`.
fn other(node: Addr, entry: Addr) -> Addr {
    if entry == side(node, 0) { side(node, 1) } else { side(node, 0) }
}

impl CTree {
    fn place(share: Share) -> (CTree, Arena) {
        let mut arena = Arena::new();
        let tree = CTree {
            share,
            undo: Undo::place(&mut arena, share.threads, LOG_ENTRIES, LOG_ENTRY_LINES),
            roots: arena.pm(share.threads * LINE_BYTES),
            nodes: Blocks::place(&mut arena, share.threads, share.each() + 1, 8 * NODE_WORDS),
            values: Blocks::place(&mut arena, share.threads, share.each() + 1, 8 * VALUE_WORDS),
            client: Client::place(&mut arena, share.threads),
        };
        (tree, arena)
    }

    fn root(&self, thread: u64) -> Addr {
        self.roots.plus(thread * LINE_BYTES)
    }

    /// Walks towards `key`, as long as nodes tell bits above `least` apart.
    fn walk<M: Memory>(&self, memory: &M, key: u64, least: Option<u64>) -> Found {
        let (code, mut entry) = (spread(key), self.root(self.share.owner(key)));
        let mut above = None;
        loop {
            let slot = memory.load::<u64>(entry.plus(SLOT));
            let node = Addr::from_bits(slot & !IS_NODE);
            memory.work(6);
            if slot & IS_NODE != 0 {
                let bit = memory.load::<u64>(node.plus(BIT));
                if least.is_none_or(|least| bit > least) {
                    above = Some((entry, node));
                    entry = side(node, code >> (bit % 64) & 1);
                    continue;
                }
            }
            return Found { entry, above, key: memory.load(entry.plus(KEY)), slot };
        }
    }

    /// The leaf of `key`, if there is one.
    fn find<M: Memory>(&self, memory: &M, key: u64) -> Result<Found, Found> {
        let found = self.walk(memory, key, None);
        if found.slot != 0 && found.key == key { Ok(found) } else { Err(found) }
    }

    fn begin<'a, M: Memory>(
        &'a self,
        memory: &'a M,
        key: u64,
        (hash, flaw): (u64, Flaw),
    ) -> UndoTx<'a, M> {
        let overhead = Overhead { client: self.client, hash, calls: STEP_CALLS };
        UndoTx::begin(memory, &self.undo, self.share.owner(key), overhead, flaw.of_epochs())
    }

    /// Inserts `key`, whose place is where the walk to `near` ended.
    fn insert<M: Memory>(
        &self,
        mut tx: UndoTx<'_, M>,
        cursors: &mut Cursors,
        (key, tag): (u64, u64),
        near: &Found,
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
        let own = side(node, spread(key) >> bit & 1);
        let old = other(node, own);
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

    fn update<M: Memory>(&self, mut tx: UndoTx<'_, M>, (key, tag): (u64, u64), found: &Found) {
        let value = Addr::from_bits(found.slot);
        tx.add(value, VALUE_WORDS);
        share::fill(tx.memory(), value, VALUE_WORDS, key, tag);
        tx.commit();
    }

    fn delete<M: Memory>(&self, mut tx: UndoTx<'_, M>, found: &Found) {
        let memory = tx.memory();
        let (place, left) = match found.above {
            None => (found.entry, [0, 0]),
            Some((place, node)) => {
                let left = other(node, found.entry);
                (place, [KEY, SLOT].map(|word| memory.load::<u64>(left.plus(word))))
            }
        };
        tx.add(place, 2);
        memory.store(place.plus(KEY), left[0]);
        memory.store(place.plus(SLOT), left[1]);
        self.values.give(&mut tx, Addr::from_bits(found.slot));
        if let Some((_, node)) = found.above {
            self.nodes.give(&mut tx, node);
        }
        tx.commit();
    }

    /// Checks the tree of `thread`, and adds what it holds.
    fn check<M: Memory>(
        &self,
        memory: &M,
        thread: u64,
        [nodes, values]: [&mut Reached<'_>; 2],
        contents: &mut Contents,
    ) -> Result<(), Damage> {
        let what = format!("the tree of thread {thread}");
        // Bits that a way has looked at, and how they must be.
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

impl Workload for CTree {
    const NAME: &'static str = "ctree";
    const ABOUT: &'static str = "insert, update, delete in crit-bit trees with an undo log (NVML)";
    const ENTRIES: u64 = 8192;
    const SEARCH_PERCENT: u32 = 0;

    fn layout(setup: &Setup) -> Layout {
        Layout::of(&CTree::place(Share::of(setup)).1)
    }

    fn create<M: Memory>(memory: &M, setup: &Setup) -> CTree {
        let (tree, arena) = CTree::place(Share::of(setup));
        let mut cursors = Vec::new();
        cursors.resize_with(setup.threads, Cursors::default);
        for (key, tag) in tree.share.initial(setup) {
            let Err(near) = tree.find(memory, key) else { continue };
            let cursors = &mut cursors[tree.share.owner(key) as usize];
            let tx = tree.begin(memory, key, (key, Flaw::None));
            tree.insert(tx, cursors, (key, tag), &near);
        }
        tree.share.seal(memory, CTree::NAME, setup, &arena);
        tree
    }

    fn open<M: Memory>(memory: &M, layout: Layout) -> Result<CTree, Damage> {
        let (tree, arena) = CTree::place(Share::open(memory, CTree::NAME, layout)?);
        layout.hold(&arena)?;
        tree.undo.recover(memory, arena.pm_bytes())?;
        tree.contents(memory)?;
        Ok(tree)
    }

    type Local<'m, M: Memory + 'm> = Cursors;

    fn join<M: Memory>(&self, _: &M) -> Cursors {
        Cursors::default()
    }

    fn step<M: Memory>(&self, memory: &M, cursors: &mut Cursors, worker: &mut Worker) {
        let Some(key) = self.share.pick(worker) else { return };
        let action = worker.action();
        let hash = self.client.request(memory, key, REQUEST_BYTES);
        self.client.calls(memory, hash, CALLS);
        let change = worker.change();
        let (tag, mut note) = (change.tag, change.note);
        let begin = || self.begin(memory, key, (hash, worker.flaw));
        match (action, self.find(memory, key)) {
            (Action::Search, Ok(found)) => {
                share::read(memory, Addr::from_bits(found.slot), VALUE_WORDS);
            }
            (Action::Search, Err(_)) => {}
            (_, Err(near)) => {
                note(key, tag);
                self.insert(begin(), cursors, (key, tag), &near);
            }
            (Action::Insert, Ok(found)) => {
                note(key, tag);
                self.update(begin(), (key, tag), &found);
            }
            (Action::Delete, Ok(found)) => {
                note(key, 0);
                self.delete(begin(), &found);
            }
        }
        self.client.respond(memory, hash, RESPONSE_BYTES);
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
    use seawall_memory::Image;

    #[test]
    fn a_side_that_holds_the_keys_of_the_other_is_found_and_a_cycle_too() {
        let setup = Setup { entries: 8, ..Setup::of::<CTree>(1) };
        let layout = CTree::layout(&setup);
        let image = Image::new(layout.pm_bytes, layout.dram_bytes);
        let tree = CTree::create(&image, &setup);
        assert_eq!(tree.contents(&image).unwrap().len(), 8);
        let slot = image.load::<u64>(tree.root(0).plus(SLOT));
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
